/* SPDX-License-Identifier: Apache-2.0 */

/* Attention of whole packed sequences by cuDNN, forward and backward.
 *
 * The graphs are those that its fused engines know: product, scale, masks, softmax with its statistics, product, and their
 * gradients (Dao et al. 2022). Sequences lie end to end as everywhere, told by offsets; their number and
 * the longest length are rounded up to a power of two, so that few plans serve a run. Sequences beyond the last are empty. Which of
 * cuDNN and the kernels of our own is faster is measured once per plan. */

#include "kernels/cuda/cudnn.cuh"

#include <math.h>   // defines: INFINITY
#include <stdio.h>  // defines: snprintf
#include <stdlib.h> // defines: calloc, free, getenv
#include <string.h> // defines: memcmp, memset, strcmp

#ifdef PLUMB_CUDNN

#define PLANS 64
#define TIMINGS 4
#define LEAST_CONTEXT 128 // shorter ones are not worth a plan

enum direction
{
  FORWARD,
  BACKWARD,
};

enum choice
{
  UNKNOWN,
  LIBRARY,
  OWN,
};

/* The tensors of the caller, by id; the offsets of a ragged one have its id and OFFSETS. */
enum part
{
  Q = 1,
  K,
  V,
  OUT,
  STATS,
  DOUT,
  DQ,
  DK,
  DV,
  DELTA,    // sums of dout * out
  DQ_SUM,   // dq in float
  DK_HEADS, // dk and dv of every query head
  DV_HEADS,
  LENGTHS_Q,
  LENGTHS_K,
  SCALE,
  ONE,
  MASKED,
  OFFSETS = 50,
};

struct key
{
  int direction, heads, groups, head_size, sequences, length;
};

struct plan
{
  struct key key;
  enum choice choice;
  cudnnBackendDescriptor_t plan; // NULL: the library has none
  int64_t workspace;
};

struct cuda_attention
{
  const struct cudnn_calls *calls;
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t device;
  bool always; // without measuring
  int n_plans;
  struct plan plans[PLANS];
};

/* What a graph is built from. */
struct builder
{
  struct cudnn_graph g;
  int64_t b, h, groups, s, d;
  cudnnBackendDescriptor_t lengths_q, lengths_k, scale, masked;
};

static struct cudnn_shape
rows_of (int64_t b, int64_t heads, int64_t s, int64_t d)
{
  return { { b, heads, s, d }, { s * heads * d, d, heads * d, 1 } };
}

static struct cudnn_shape
transposed (struct cudnn_shape x)
{
  return { { x.size[0], x.size[1], x.size[3], x.size[2] }, { x.stride[0], x.stride[1], x.stride[3], x.stride[2] } };
}

/* A matrix of rows and columns for each head, as it would lie in memory. */
static struct cudnn_shape
matrix_of (const struct builder *b, int64_t rows, int64_t columns)
{
  return { { b->b, b->h, rows, columns }, { b->h * rows * columns, rows * columns, columns, 1 } };
}

static cudnnBackendDescriptor_t
value (struct builder *b, enum part part)
{
  return graph_tensor (&b->g, part, CUDNN_DATA_FLOAT, { { 1, 1, 1, 1 }, { 1, 1, 1, 1 } }, NULL, true);
}

static cudnnBackendDescriptor_t
offsets (struct builder *b, enum part part)
{
  return graph_tensor (&b->g, OFFSETS + part, CUDNN_DATA_INT32, { { b->b + 1, 1, 1, 1 }, { 1, 1, 1, 1 } }, NULL, false);
}

static cudnnBackendDescriptor_t
lengths (struct builder *b, enum part part)
{
  return graph_tensor (&b->g, part, CUDNN_DATA_INT32, { { b->b, 1, 1, 1 }, { 1, 1, 1, 1 } }, NULL, false);
}

static cudnnBackendDescriptor_t
packed (struct builder *b, enum part part, cudnnDataType_t type, struct cudnn_shape shape)
{
  return graph_tensor (&b->g, part, type, shape, offsets (b, part), false);
}

/* One float per row and head: (T, H), as our log-sums are. */
static cudnnBackendDescriptor_t
packed_statistics (struct builder *b, enum part part)
{
  return packed (b, part, CUDNN_DATA_FLOAT, rows_of (b->b, b->h, b->s, 1));
}

static cudnnBackendDescriptor_t
scores (struct builder *b, cudnnDataType_t type)
{
  return graph_virtual (&b->g, type, matrix_of (b, b->s, b->s), NULL);
}

static cudnnBackendDescriptor_t
statistics (struct builder *b)
{
  return graph_virtual (&b->g, CUDNN_DATA_FLOAT, matrix_of (b, b->s, 1), NULL);
}

/* y = mode (x, other) in float, y like the scores or like the statistics. */
static cudnnBackendDescriptor_t
apply (struct builder *b, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x,
       cudnnBackendDescriptor_t other)
{
  graph_pointwise (&b->g, mode, CUDNN_DATA_FLOAT, -1, y, x, other, NULL);
  return y;
}

/* Number of each score's row (axis 2) or column (axis 3). */
static cudnnBackendDescriptor_t
indices (struct builder *b, cudnnBackendDescriptor_t x, int64_t axis, cudnnDataType_t compute)
{
  cudnnBackendDescriptor_t y = scores (b, CUDNN_DATA_INT32);
  graph_pointwise (&b->g, CUDNN_POINTWISE_GEN_INDEX, compute, axis, y, x, NULL, NULL);
  return y;
}

static cudnnBackendDescriptor_t
compare (struct builder *b, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t other)
{
  cudnnBackendDescriptor_t y = scores (b, CUDNN_DATA_BOOLEAN);
  graph_pointwise (&b->g, mode, CUDNN_DATA_BOOLEAN, -1, y, x, other, NULL);
  return y;
}

static cudnnBackendDescriptor_t
select (struct builder *b, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t where)
{
  cudnnBackendDescriptor_t y = scores (b, CUDNN_DATA_FLOAT);
  graph_pointwise (&b->g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, y, x, b->masked, where);
  return y;
}

/* Leaves the scores within the lengths, then those of keys up to the query. */
static cudnnBackendDescriptor_t
mask (struct builder *b, cudnnBackendDescriptor_t x)
{
  cudnnBackendDescriptor_t row = indices (b, x, 2, CUDNN_DATA_INT32), column = indices (b, x, 3, CUDNN_DATA_INT32);
  cudnnBackendDescriptor_t rows = compare (b, CUDNN_POINTWISE_CMP_LT, row, b->lengths_q);
  cudnnBackendDescriptor_t columns = compare (b, CUDNN_POINTWISE_CMP_LT, column, b->lengths_k);
  x = select (b, x, compare (b, CUDNN_POINTWISE_LOGICAL_AND, rows, columns));
  row = indices (b, x, 2, CUDNN_DATA_FLOAT);
  column = indices (b, x, 3, CUDNN_DATA_FLOAT);
  return select (b, x, compare (b, CUDNN_POINTWISE_CMP_GE, row, column));
}

static cudnnBackendDescriptor_t
scaled_scores (struct builder *b, cudnnBackendDescriptor_t q, cudnnBackendDescriptor_t k)
{
  cudnnBackendDescriptor_t x = scores (b, CUDNN_DATA_FLOAT);
  graph_multiply (&b->g, x, q, k, b->lengths_q, b->lengths_k, NULL);
  return apply (b, CUDNN_POINTWISE_MUL, scores (b, CUDNN_DATA_FLOAT), x, b->scale);
}

static void
build_forward (struct builder *b)
{
  struct cudnn_graph *g = &b->g;
  struct cudnn_shape queries = rows_of (b->b, b->h, b->s, b->d), keys = rows_of (b->b, b->groups, b->s, b->d);
  cudnnBackendDescriptor_t q = packed (b, Q, CUDNN_DATA_BFLOAT16, queries);
  cudnnBackendDescriptor_t k = packed (b, K, CUDNN_DATA_BFLOAT16, transposed (keys));
  cudnnBackendDescriptor_t v = packed (b, V, CUDNN_DATA_BFLOAT16, keys);
  cudnnBackendDescriptor_t x = mask (b, scaled_scores (b, q, k));
  cudnnBackendDescriptor_t top = statistics (b), sum = statistics (b), p = scores (b, CUDNN_DATA_BFLOAT16);
  graph_reduce (g, CUDNN_REDUCE_TENSOR_MAX, top, x);
  x = apply (b, CUDNN_POINTWISE_SUB, scores (b, CUDNN_DATA_FLOAT), x, top);
  x = apply (b, CUDNN_POINTWISE_EXP, scores (b, CUDNN_DATA_FLOAT), x, NULL);
  graph_reduce (g, CUDNN_REDUCE_TENSOR_ADD, sum, x);
  cudnnBackendDescriptor_t log = apply (b, CUDNN_POINTWISE_LOG, statistics (b), sum, NULL);
  apply (b, CUDNN_POINTWISE_ADD, packed_statistics (b, STATS), top, log);
  apply (b, CUDNN_POINTWISE_DIV, p, x, sum);
  graph_multiply (g, packed (b, OUT, CUDNN_DATA_BFLOAT16, queries), p, v, b->lengths_q, NULL, b->lengths_k);
}

/* d = x^T y over the queries, summed over the heads of a group. */
static void
build_key_gradient (struct builder *b, enum part d, enum part of_heads, cudnnBackendDescriptor_t x,
                    cudnnBackendDescriptor_t y)
{
  cudnnBackendDescriptor_t turned
      = graph_virtual (&b->g, CUDNN_DATA_BFLOAT16, transposed (matrix_of (b, b->s, b->s)), NULL);
  cudnnBackendDescriptor_t to
      = packed (b, d, CUDNN_DATA_BFLOAT16, rows_of (b->b, b->groups, b->s, b->d)), each = to;
  if (b->h != b->groups)
    /* The offsets of the heads are those of the groups, times heads per group. */
    each = graph_tensor (&b->g, of_heads, CUDNN_DATA_BFLOAT16, rows_of (b->b, b->h, b->s, b->d), offsets (b, d), false);
  graph_reshape (&b->g, turned, x);
  graph_multiply (&b->g, each, turned, y, b->lengths_k, NULL, b->lengths_q);
  if (each != to)
    graph_reduce (&b->g, CUDNN_REDUCE_TENSOR_ADD, to, each);
}

/* delta (T, H) = sums of dout * out. */
static cudnnBackendDescriptor_t
build_delta (struct builder *b, cudnnBackendDescriptor_t dout)
{
  struct cudnn_shape queries = rows_of (b->b, b->h, b->s, b->d);
  cudnnBackendDescriptor_t product = graph_virtual (&b->g, CUDNN_DATA_FLOAT, queries, NULL), sum = statistics (b);
  apply (b, CUDNN_POINTWISE_MUL, product, dout, packed (b, OUT, CUDNN_DATA_BFLOAT16, queries));
  graph_reduce (&b->g, CUDNN_REDUCE_TENSOR_ADD, sum, product);
  return apply (b, CUDNN_POINTWISE_MUL, packed_statistics (b, DELTA), sum, value (b, ONE));
}

static void
build_backward (struct builder *b)
{
  struct cudnn_graph *g = &b->g;
  struct cudnn_shape queries = rows_of (b->b, b->h, b->s, b->d), keys = rows_of (b->b, b->groups, b->s, b->d);
  cudnnBackendDescriptor_t q = packed (b, Q, CUDNN_DATA_BFLOAT16, queries);
  cudnnBackendDescriptor_t k = packed (b, K, CUDNN_DATA_BFLOAT16, transposed (keys));
  cudnnBackendDescriptor_t v = packed (b, V, CUDNN_DATA_BFLOAT16, transposed (keys));
  cudnnBackendDescriptor_t dout = packed (b, DOUT, CUDNN_DATA_BFLOAT16, queries), delta = build_delta (b, dout);
  cudnnBackendDescriptor_t x = scaled_scores (b, q, k), p = scores (b, CUDNN_DATA_FLOAT);
  x = apply (b, CUDNN_POINTWISE_SUB, scores (b, CUDNN_DATA_FLOAT), x, packed_statistics (b, STATS));
  apply (b, CUDNN_POINTWISE_EXP, p, mask (b, x), NULL);
  build_key_gradient (b, DV, DV_HEADS, p, dout);
  cudnnBackendDescriptor_t ds = scores (b, CUDNN_DATA_FLOAT);
  graph_multiply (g, ds, dout, v, b->lengths_q, b->lengths_k, NULL);
  ds = apply (b, CUDNN_POINTWISE_SUB, scores (b, CUDNN_DATA_FLOAT), ds, delta);
  ds = apply (b, CUDNN_POINTWISE_MUL, scores (b, CUDNN_DATA_FLOAT), ds, p);
  ds = apply (b, CUDNN_POINTWISE_MUL, scores (b, CUDNN_DATA_FLOAT), ds, b->scale);
  build_key_gradient (b, DK, DK_HEADS, ds, q);
  cudnnBackendDescriptor_t rows = graph_virtual (g, CUDNN_DATA_FLOAT, keys, offsets (b, K));
  cudnnBackendDescriptor_t sum = packed (b, DQ_SUM, CUDNN_DATA_FLOAT, queries);
  graph_reshape (g, rows, k);
  graph_multiply (g, sum, ds, rows, b->lengths_q, NULL, b->lengths_k);
  apply (b, CUDNN_POINTWISE_IDENTITY, packed (b, DQ, CUDNN_DATA_BFLOAT16, queries), sum, NULL);
}

static void
build_plan (struct cuda_attention *self, struct plan *plan)
{
  struct builder *b = (struct builder *) calloc (1, sizeof *b);
  plan->choice = OWN;
  if (!b)
    return;
  b->g.calls = self->calls;
  b->g.device = self->device;
  b->b = plan->key.sequences;
  b->h = plan->key.heads;
  b->groups = plan->key.groups;
  b->s = plan->key.length;
  b->d = plan->key.head_size;
  b->lengths_q = lengths (b, LENGTHS_Q);
  b->lengths_k = lengths (b, LENGTHS_K);
  b->scale = value (b, SCALE);
  b->masked = value (b, MASKED);
  if (plan->key.direction == FORWARD)
    build_forward (b);
  else
    build_backward (b);
  plan->plan = graph_plan (&b->g, &plan->workspace);
  if (plan->plan)
    plan->choice = UNKNOWN;
  graph_clear (&b->g);
  free (b);
}

/* Opens the library for the context; NULL with the reason where it does not serve. */
static struct cuda_attention *
open_library (struct dev_context *context, const char **why)
{
  struct cuda_attention *self;
  const struct cudnn_calls *calls;
  *why = "compute capability 9 only";
  if (!context->hopper || !(calls = cudnn_find (why)))
    return NULL;
  *why = "cuDNN could not be started";
  if (!(self = (struct cuda_attention *) calloc (1, sizeof *self)))
    return NULL;
  self->calls = calls;
  if (calls->create (&self->handle) == CUDNN_STATUS_SUCCESS
      && calls->set_stream (self->handle, context->stream) == CUDNN_STATUS_SUCCESS
      && calls->make (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &self->device) == CUDNN_STATUS_SUCCESS
      && calls->set (self->device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &self->handle)
             == CUDNN_STATUS_SUCCESS
      && calls->finalize (self->device) == CUDNN_STATUS_SUCCESS)
    return self;
  cuda_attention_free (self);
  return NULL;
}

void
cuda_attention_free (struct cuda_attention *self)
{
  if (!self)
    return;
  for (int i = 0; i < self->n_plans; i++)
    if (self->plans[i].plan)
      self->calls->unmake (self->plans[i].plan);
  if (self->device)
    self->calls->unmake (self->device);
  if (self->handle)
    self->calls->destroy (self->handle);
  free (self);
}

/* The library for the context, opened at the first call. */
static struct cuda_attention *
find_library (struct dev_context *context)
{
  const char *why = "", *wish = getenv ("PLUMB_ATTENTION_PATH");
  if (context->attention_known)
    return context->attention;
  context->attention_known = true;
  if (wish && strcmp (wish, "own") == 0)
    why = "asked for";
  else if ((context->attention = open_library (context, &why)))
    {
      size_t version = context->attention->calls->version ();
      context->attention->always = wish && strcmp (wish, "cudnn") == 0;
      snprintf (context->attention_path, sizeof context->attention_path, "cuDNN %zu.%zu.%zu%s", version / 10000,
                version / 100 % 100, version % 100, context->attention->always ? "" : " where it is faster");
      return context->attention;
    }
  snprintf (context->attention_path, sizeof context->attention_path, "own kernels (%s)", why);
  return NULL;
}

const char *
cuda_attention_path (struct dev_context *context)
{
  if (context->deterministic)
    return "own kernels (deterministic)";
  find_library (context);
  return context->attention_path;
}

/* The operands of one call. */
struct operands
{
  void *parts[MASKED + 1];
  const struct dev_attention *shape;
  const struct dev_batch *batch;
};

/* Where a call's scratch lies in the workspace. */
struct places
{
  int32_t *lengths, *query_offsets, *key_offsets, *row_offsets;
  void *library;
};

static bool
serves (const struct dev_context *context, const struct dev_attention *shape, const struct dev_batch *batch)
{
  return !context->deterministic && !context->recording && !batch->block_table && !batch->slots
         && (shape->head_size == 64 || shape->head_size == 128) && batch->max_context >= LEAST_CONTEXT
         && (shape->window == 0 || shape->window >= batch->max_context) && shape->soft_cap == 0
         && (int64_t) batch->tokens * shape->heads * shape->head_size <= INT32_MAX;
}

static int
power_of_two (int n)
{
  int bound = 1;
  while (bound < n && bound < 1 << 30)
    bound *= 2;
  return bound;
}

static struct plan *
find_plan (struct cuda_attention *self, enum direction direction, const struct dev_attention *shape,
           const struct dev_batch *batch)
{
  struct key key = { direction, shape->heads, shape->groups, shape->head_size, power_of_two (batch->sequences),
                     power_of_two (batch->max_context) };
  for (int i = 0; i < self->n_plans; i++)
    if (memcmp (&self->plans[i].key, &key, sizeof key) == 0)
      return &self->plans[i];
  if (self->n_plans == PLANS)
    return NULL;
  struct plan *plan = &self->plans[self->n_plans++];
  plan->key = key;
  build_plan (self, plan);
  return plan;
}

/* Lengths of the sequences and the first elements of their rows; those beyond the last are empty. */
__global__ void
write_places (int32_t *lengths, int32_t *query_offsets, int32_t *key_offsets, int32_t *row_offsets, const int32_t *from,
              int sequences, int count, int heads, int groups, int size)
{
  wait_for_inputs ();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > count)
    return;
  int32_t first = from[min (i, sequences)];
  query_offsets[i] = first * heads * size;
  key_offsets[i] = first * groups * size;
  row_offsets[i] = first * heads;
  if (i < count)
    lengths[i] = i < sequences ? from[i + 1] - first : 0;
}

/* Deals out the workspace; false where it is too small. Parts that the caller did not give are taken from it. */
static bool
place (struct dev_context *context, const struct plan *plan, struct operands *o, struct places *places)
{
  size_t rows = (size_t) o->batch->tokens * o->shape->heads, queries = rows * o->shape->head_size, used = 0;
  size_t ints = dev_align ((plan->key.sequences + 1) * sizeof (int32_t));
  const struct
  {
    void **to;
    size_t bytes;
  } wanted[] = {
    { (void **) &places->lengths, ints },
    { (void **) &places->query_offsets, ints },
    { (void **) &places->key_offsets, ints },
    { (void **) &places->row_offsets, ints },
    { &o->parts[STATS], rows * sizeof (float) },
    { &o->parts[DELTA], rows * sizeof (float) },
    { &o->parts[DQ_SUM], queries * sizeof (float) },
    { &o->parts[DK_HEADS], queries * sizeof (bf16) },
    { &o->parts[DV_HEADS], queries * sizeof (bf16) },
    { &places->library, (size_t) plan->workspace },
  };
  bool backward = plan->key.direction == BACKWARD, grouped = o->shape->heads != o->shape->groups;
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
    {
      void **to = wanted[i].to;
      bool heads = to == &o->parts[DK_HEADS] || to == &o->parts[DV_HEADS];
      if (*to || (heads && !(backward && grouped))
          || (!backward && (to == &o->parts[DELTA] || to == &o->parts[DQ_SUM])))
        continue;
      *wanted[i].to = context->workspace + used;
      used += dev_align (wanted[i].bytes);
    }
  return used <= context->workspace_size;
}

/* Which offsets a part has. */
static int32_t *
offsets_of (const struct places *places, int part)
{
  if (part == STATS || part == DELTA)
    return places->row_offsets;
  return part == K || part == V || part == DK || part == DV ? places->key_offsets : places->query_offsets;
}

static bool
execute (struct cuda_attention *self, const struct plan *plan, const struct operands *o, const struct places *places)
{
  static const float one = 1.0f, masked = -INFINITY;
  const struct cudnn_calls *calls = self->calls;
  int64_t ids[40];
  void *pointers[40];
  int n = 0;
  auto add = [&] (int64_t id, const void *pointer) {
    ids[n] = id;
    pointers[n++] = (void *) pointer;
  };
  for (int part = Q; part <= DV_HEADS; part++)
    if (o->parts[part])
      {
        add (part, o->parts[part]);
        if (part != DK_HEADS && part != DV_HEADS)
          add (OFFSETS + part, offsets_of (places, part));
      }
  add (LENGTHS_Q, places->lengths);
  add (LENGTHS_K, places->lengths);
  add (SCALE, &o->shape->scale);
  add (MASKED, &masked);
  if (plan->key.direction == BACKWARD)
    add (ONE, &one);
  cudnnBackendDescriptor_t call;
  if (calls->make (CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &call) != CUDNN_STATUS_SUCCESS)
    return false;
  bool done = calls->set (call, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids) == CUDNN_STATUS_SUCCESS
              && calls->set (call, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers)
                     == CUDNN_STATUS_SUCCESS
              && calls->set (call, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &places->library)
                     == CUDNN_STATUS_SUCCESS
              && calls->finalize (call) == CUDNN_STATUS_SUCCESS
              && calls->execute (self->handle, plan->plan, call) == CUDNN_STATUS_SUCCESS;
  calls->unmake (call);
  return done;
}

/* One call by the library; false where it does not take it. */
static bool
run (struct dev_context *context, struct plan *plan, struct operands o)
{
  struct places places = {};
  int count = plan->key.sequences;
  if (!place (context, plan, &o, &places))
    return false;
  cuda_launch (context, write_places, dim3 (ceil_div (count + 1, 128)), dim3 (128), 0, places.lengths,
               places.query_offsets, places.key_offsets, places.row_offsets, o.batch->query_offsets, o.batch->sequences,
               count, o.shape->heads, o.shape->groups, o.shape->head_size);
  return CUDA_LAUNCHED (context, "attention by cuDNN") && execute (context->attention, plan, &o, &places);
}

static void
run_own (struct dev_context *context, enum direction direction, const struct operands &o)
{
  struct dev_kv kv = { o.parts[K], o.parts[V] };
  if (direction == FORWARD)
    cuda_attention_own_forward (context, o.parts[OUT], (float *) o.parts[STATS], o.parts[Q], &kv, o.shape, o.batch,
                                DEV_BF16);
  else
    cuda_attention_own_backward (context, o.parts[DQ], o.parts[DK], o.parts[DV], o.parts[DOUT], o.parts[OUT],
                                 (const float *) o.parts[STATS], o.parts[Q], &kv, o.shape, o.batch, DEV_BF16);
}

/* Milliseconds of a way; negative where it fails. */
static float
time_way (struct dev_context *context, struct plan *plan, const struct operands &o, bool own)
{
  auto nothing = [] { return true; };
  auto attend = [&] {
    if (own)
      run_own (context, (enum direction) plan->key.direction, o);
    return own || run (context, plan, o);
  };
  return cuda_time_best (context, TIMINGS, nothing, attend);
}

/* Both ways write the same result, so it may be written several times. */
static void
choose (struct dev_context *context, struct plan *plan, const struct operands &o)
{
  if (context->attention->always)
    {
      plan->choice = LIBRARY;
      return;
    }
  float theirs = time_way (context, plan, o, false), ours = time_way (context, plan, o, true);
  plan->choice = theirs >= 0 && theirs < ours ? LIBRARY : OWN;
}

static bool
attend (struct dev_context *context, enum direction direction, const struct operands &o)
{
  struct cuda_attention *self;
  struct plan *plan;
  if (!serves (context, o.shape, o.batch) || !(self = find_library (context))
      || !(plan = find_plan (self, direction, o.shape, o.batch)))
    return false;
  for (int part = Q; part <= DV; part++)
    if ((uintptr_t) o.parts[part] % 16 != 0)
      return false;
  if (plan->choice == UNKNOWN)
    choose (context, plan, o);
  return plan->choice == LIBRARY && run (context, plan, o);
}

bool
cuda_attention_library_forward (struct dev_context *context, void *out, float *lse, const void *q,
                                const struct dev_kv *kv, const struct dev_attention *shape,
                                const struct dev_batch *batch)
{
  struct operands o = {};
  if (kv->k_scales)
    return false;
  o.parts[Q] = (void *) q;
  o.parts[K] = kv->k;
  o.parts[V] = kv->v;
  o.parts[OUT] = out;
  o.parts[STATS] = lse;
  o.shape = shape;
  o.batch = batch;
  return attend (context, FORWARD, o);
}

bool
cuda_attention_library_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                                 const void *out, const float *lse, const void *q, const struct dev_kv *kv,
                                 const struct dev_attention *shape, const struct dev_batch *batch)
{
  struct operands o = {};
  o.parts[Q] = (void *) q;
  o.parts[K] = kv->k;
  o.parts[V] = kv->v;
  o.parts[OUT] = (void *) out;
  o.parts[STATS] = (void *) lse;
  o.parts[DOUT] = (void *) dout;
  o.parts[DQ] = dq;
  o.parts[DK] = dk;
  o.parts[DV] = dv;
  o.shape = shape;
  o.batch = batch;
  return attend (context, BACKWARD, o);
}

#else
void
cuda_attention_free (struct cuda_attention *)
{
}

const char *
cuda_attention_path (struct dev_context *)
{
  return "own kernels (built without cuDNN's headers)";
}

bool
cuda_attention_library_forward (struct dev_context *, void *, float *, const void *, const struct dev_kv *,
                                const struct dev_attention *, const struct dev_batch *)
{
  return false;
}

bool
cuda_attention_library_backward (struct dev_context *, void *, void *, void *, const void *, const void *, const float *,
                                 const void *, const struct dev_kv *, const struct dev_attention *,
                                 const struct dev_batch *)
{
  return false;
}
#endif
