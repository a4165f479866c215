/* SPDX-License-Identifier: Apache-2.0 */

/* Products by cuBLASLt, with one algorithm per shape, chosen once.
 *
 * The number of rows enters the choice by a bucket only. The candidates that the library proposes are timed where the
 * result may be written more than once; the weights are read from memory then, as they are in a pass.
 * In deterministic mode nothing is timed and the number of rows does not enter at all: every forward
 * product of a matrix takes the algorithm that suits 256 rows, without splitting k, so that a row's sum
 * runs in the same order whatever the call. A self-test at start-up checks that; where it fails, or where the library
 * has no algorithm for a shape, a plain kernel of our own multiplies. Products of codes are the library's alone; whether it
 * has them is looked for at start-up, and each is timed against that of the matrix itself. */

#include "kernels/cuda/context.cuh"

#include <stdlib.h> // defines: calloc, free, getenv
#include <string.h> // defines: memcmp, memset, strcmp

#define LIBRARY_WORKSPACE ((size_t) 64 << 20)
#define CACHE_SLOTS 4096 // power of two
#define DETERMINISTIC_ROWS 256

struct key
{
  int kind, c_type, type, alignment, deterministic;
  int m, n, k; // m: the bucket
};

struct entry
{
  struct key key;
  int state; // 0: free slot, 1: algorithm, 2: the library has none, or of codes none that pays
  int parts; // of k, of products of codes
  cublasLtMatmulAlgo_t algorithm;
};

enum codes_path
{
  CODES_NEVER,
  CODES_TIMED,
  CODES_ALWAYS, // where the library has them
};

struct cuda_products
{
  cublasLtHandle_t handle;
  void *workspace;
  struct entry *cache;
  int used;
  bool rows_equal; // the self-test passed
  enum codes_path codes;
};

/* One product as it is called. */
struct job
{
  enum cuda_product kind;
  enum dev_type c_type, type;
  void *c;
  const void *a, *b;
  int m, n, k;
  /* Of codes: the scales of the rows of a and b. With several parts of k each is a product of its own, without scales, into
   * `partial`, and their sums get the scales. */
  const float *a_scales, *b_scales;
  int parts;
  float *partial; // (parts, m, n)
};

/* Operands of one call as cuBLASLt wants them: column-major, so that c^T = b' a'. */
struct call
{
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  float beta;
};

static bool
is_weight (enum cuda_product kind)
{
  return kind == PRODUCT_WEIGHT || kind == PRODUCT_WEIGHT_ADD;
}

static cudaDataType
library_type (enum dev_type type)
{
  return type == DEV_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* An element of the result is multiplied by the scales of its rows of both operands, once its sum is complete. */
static void
set_scales (struct call *call, const struct job *job)
{
  int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &job->b_scales,
                                  sizeof job->b_scales);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &job->a_scales,
                                  sizeof job->a_scales);
}

static void
set_batch (cublasLtMatrixLayoutOpaque_t *layout, int32_t count, int64_t stride)
{
  cublasLtMatrixLayoutSetAttribute (layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublasLtMatrixLayoutSetAttribute (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

static void
call_init_codes (struct call *call, const struct job *job)
{
  cublasOperation_t first = CUBLAS_OP_T;
  int8_t fast = 0; /* sums do not stay in the tensor cores' own precision */
  int part = job->k / job->parts;
  cublasLtMatmulDescInit (&call->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
  cublasLtMatrixLayoutInit (&call->a, CUDA_R_8F_E4M3, part, job->n, job->k);
  cublasLtMatrixLayoutInit (&call->b, CUDA_R_8F_E4M3, part, job->m, job->k);
  cublasLtMatrixLayoutInit (&call->c, library_type (job->parts > 1 ? DEV_F32 : job->c_type), job->n, job->m, job->n);
  call->beta = 0;
  if (job->parts == 1)
    {
      set_scales (call, job);
      return;
    }
  set_batch (&call->a, job->parts, part);
  set_batch (&call->b, job->parts, part);
  set_batch (&call->c, job->parts, (int64_t) job->m * job->n);
}

static void
call_init (struct call *call, const struct job *job)
{
  int m = job->m, n = job->n, k = job->k;
  cublasOperation_t first = job->kind == PRODUCT_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = is_weight (job->kind) ? CUBLAS_OP_T : CUBLAS_OP_N;
  cudaDataType in = library_type (job->type);
  if (job->kind == PRODUCT_CODES)
    {
      call_init_codes (call, job);
      return;
    }
  cublasLtMatmulDescInit (&call->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (job->kind == PRODUCT_FORWARD)
    cublasLtMatrixLayoutInit (&call->a, in, k, n, k);
  else
    cublasLtMatrixLayoutInit (&call->a, in, n, k, n);
  if (is_weight (job->kind))
    cublasLtMatrixLayoutInit (&call->b, in, m, k, m);
  else
    cublasLtMatrixLayoutInit (&call->b, in, k, m, k);
  cublasLtMatrixLayoutInit (&call->c, library_type (job->c_type), n, m, n);
  call->beta = job->kind == PRODUCT_WEIGHT_ADD ? 1.0f : 0.0f;
}

/* Upper bound of the bucket of m: powers of two and their halves between. */
static int
bucket_of (int m)
{
  int bound = 16;
  while (bound < m)
    {
      if (bound + bound / 2 >= m)
        return bound + bound / 2;
      if (bound > (1 << 28))
        return m;
      bound *= 2;
    }
  return bound;
}

static int
alignment_of (const void *a, const void *b, const void *c)
{
  uintptr_t bits = (uintptr_t) a | (uintptr_t) b | (uintptr_t) c | 16;
  return (int) (bits & (~bits + 1));
}

#define CANDIDATES 12
#define TIMINGS 3

/* Candidates for a job of the key's shape, best first by the library's own estimate. */
static int
list_algorithms (struct cuda_products *self, const struct key *key, const struct job *job,
                 cublasLtMatmulHeuristicResult_t *results, int most)
{
  struct call call;
  struct job typical = *job;
  cublasLtMatmulPreferenceOpaque_t preference;
  size_t workspace = LIBRARY_WORKSPACE;
  uint32_t schemes = key->deterministic ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  uint32_t alignment = (uint32_t) key->alignment;
  int found = 0;
  typical.kind = (enum cuda_product) key->kind;
  typical.m = key->m;
  typical.k = key->k;
  call_init (&call, &typical);
  cublasLtMatmulPreferenceInit (&preference);
  cublasLtMatmulPreferenceSetAttribute (&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                        sizeof workspace);
  cublasLtMatmulPreferenceSetAttribute (&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                        sizeof schemes);
  cublasLtMatmulPreferenceAttributes_t operands[]
      = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  for (int i = 0; i < 4; i++)
    cublasLtMatmulPreferenceSetAttribute (&preference, operands[i], &alignment, sizeof alignment);
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic (self->handle, &call.operation, &call.a, &call.b, &call.c,
                                                          &call.c, &preference, most, results, &found);
  return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

#define FINISH_THREADS 256

/* c = sums of the parts, in order, times the scales of their row and column; four columns a thread, of n / 4. */
__global__ void
finish_parts (bf16 *c, const float *partial, const float *a_scales, const float *b_scales, int parts, int64_t fours,
              int fours_of_row)
{
  int64_t i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  float sum[4] = { 0, 0, 0, 0 }, scale[4];
  wait_for_inputs ();
  if (i >= fours)
    return;
  for (int p = 0; p < parts; p++)
    {
      float more[4];
      load_pack (more, partial + (p * fours + i) * 4);
#pragma unroll
      for (int k = 0; k < 4; k++)
        sum[k] += more[k];
    }
  load_pack (scale, b_scales + i % fours_of_row * 4);
#pragma unroll
  for (int k = 0; k < 4; k++)
    sum[k] *= scale[k] * a_scales[i / fours_of_row];
  store_pack (c + i * 4, sum);
}

static cublasStatus_t
run_job (struct dev_context *context, const struct job *job, const cublasLtMatmulAlgo_t *algorithm)
{
  struct cuda_products *self = context->products;
  struct call call;
  float alpha = 1.0f;
  void *c = job->parts > 1 ? (void *) job->partial : job->c;
  call_init (&call, job);
  cublasStatus_t status
      = cublasLtMatmul (self->handle, &call.operation, &alpha, job->b, &call.a, job->a, &call.b, &call.beta, c, &call.c, c,
                        &call.c, algorithm, self->workspace, LIBRARY_WORKSPACE, context->stream);
  if (job->parts <= 1 || status != CUBLAS_STATUS_SUCCESS)
    return status;
  int64_t fours = (int64_t) job->m * job->n / 4;
  cuda_launch (context, finish_parts, ceil_div (fours, FINISH_THREADS), FINISH_THREADS, 0, (bf16 *) job->c, job->partial,
               job->a_scales, job->b_scales, job->parts, fours, job->n / 4);
  return CUDA_LAUNCHED (context, "sums of products of codes") ? status : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* Milliseconds of an algorithm, the best of some calls; negative where it fails. The cache is filled with other things
 * first. */
static float
time_algorithm (struct dev_context *context, const struct job *job, const cublasLtMatmulAlgo_t *algorithm)
{
  struct cuda_products *self = context->products;
  auto clear = [&] { return cudaMemsetAsync (self->workspace, 0, LIBRARY_WORKSPACE, context->stream) == cudaSuccess; };
  auto multiply = [&] { return run_job (context, job, algorithm) == CUBLAS_STATUS_SUCCESS; };
  return cuda_time_best (context, TIMINGS, clear, multiply);
}

/* Whether candidates may be timed: the mode allows it, the result is not a sum, and nothing is being recorded. */
static bool
may_time (const struct dev_context *context, const struct job *job)
{
  return !context->deterministic && job->kind != PRODUCT_WEIGHT_ADD && !context->recording;
}

#define SPLIT_ROWS 512
#define SPLIT_CANDIDATES 6

/* Few rows make few tiles: tries the candidates with k in several parts, whose sums are added in order. */
static void
try_splits (struct dev_context *context, const struct job *job, const cublasLtMatmulHeuristicResult_t *results, int found,
            float best_time, cublasLtMatmulAlgo_t *algorithm)
{
  static const int splits[] = { 2, 3, 4, 6, 8 };
  struct call call;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  call_init (&call, job);
  for (int i = 0; i < found; i++)
    for (size_t s = 0; s < sizeof splits / sizeof splits[0]; s++)
      {
        cublasLtMatmulAlgo_t split = results[i].algo;
        cublasLtMatmulHeuristicResult_t checked;
        int32_t parts = splits[s];
        if (cublasLtMatmulAlgoConfigSetAttribute (&split, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts)
            || cublasLtMatmulAlgoConfigSetAttribute (&split, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme)
            || cublasLtMatmulAlgoCheck (context->products->handle, &call.operation, &call.a, &call.b, &call.c, &call.c,
                                        &split, &checked)
            || checked.state != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > LIBRARY_WORKSPACE)
          continue;
        float each = time_algorithm (context, job, &split);
        if (each >= 0 && each < best_time * 0.98f)
          {
            best_time = each;
            *algorithm = split;
          }
      }
}

static bool
find_algorithm (struct dev_context *context, const struct key *key, const struct job *job,
                cublasLtMatmulAlgo_t *algorithm)
{
  cublasLtMatmulHeuristicResult_t results[CANDIDATES];
  bool timed = may_time (context, job);
  int found = list_algorithms (context->products, key, job, results, timed ? CANDIDATES : 1), best = 0;
  float best_time = -1;
  if (found < 1 || results[0].state != CUBLAS_STATUS_SUCCESS)
    return false;
  for (int i = 0; timed && i < found; i++)
    {
      float each = results[i].state == CUBLAS_STATUS_SUCCESS ? time_algorithm (context, job, &results[i].algo) : -1;
      if (each >= 0 && (best_time < 0 || each < best_time * 0.98f))
        {
          best_time = each;
          best = i;
        }
    }
  *algorithm = results[best].algo;
  if (timed && key->m <= SPLIT_ROWS)
    try_splits (context, job, results, found < SPLIT_CANDIDATES ? found : SPLIT_CANDIDATES, best_time, algorithm);
  return true;
}

#define MOST_PARTS 8
#define PART_CANDIDATES 4

/* Whether k may be divided so, and the workspace holds what comes of it. */
static bool
may_divide (const struct job *job, int parts, size_t room)
{
  return parts == 1
         || (job->m <= SPLIT_ROWS && job->k % (16 * parts) == 0 && job->k / parts >= 256
             && (size_t) parts * job->m * job->n * sizeof (float) <= room);
}

/* Milliseconds of the best product of codes, which the entry keeps; negative where there is none. */
static float
time_codes (struct dev_context *context, struct job *job, size_t room, struct entry *entry)
{
  cublasLtMatmulHeuristicResult_t results[CANDIDATES];
  float best = -1;
  for (int parts = 1; parts <= MOST_PARTS; parts++)
    {
      if (!may_divide (job, parts, room))
        continue;
      job->parts = parts;
      int found = list_algorithms (context->products, &entry->key, job, results, parts > 1 ? PART_CANDIDATES : CANDIDATES);
      for (int i = 0; i < found; i++)
        {
          float each = results[i].state == CUBLAS_STATUS_SUCCESS ? time_algorithm (context, job, &results[i].algo) : -1;
          if (each < 0 || (best >= 0 && each >= best * 0.98f))
            continue;
          best = each;
          entry->algorithm = results[i].algo;
          entry->parts = parts;
        }
    }
  return best;
}

/* The entry of the key, or a free slot that has it as its key. */
static struct entry *
find_slot (struct cuda_products *self, const struct key *key)
{
  const unsigned char *bytes = (const unsigned char *) key;
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < sizeof *key; i++)
    hash = (hash ^ bytes[i]) * 16777619u;
  if (self->used > CACHE_SLOTS / 2)
    {
      memset (self->cache, 0, CACHE_SLOTS * sizeof *self->cache);
      self->used = 0;
    }
  for (uint32_t i = hash;; i++)
    {
      struct entry *entry = &self->cache[i % CACHE_SLOTS];
      if (entry->state && memcmp (&entry->key, key, sizeof *key) != 0)
        continue;
      entry->key = *key;
      return entry;
    }
}

static void
keep_entry (struct cuda_products *self, const struct entry *from)
{
  struct entry *entry = find_slot (self, &from->key);
  self->used += !entry->state;
  *entry = *from;
}

static struct entry *
find_entry (struct dev_context *context, const struct key *key, const struct job *job)
{
  struct entry *entry = find_slot (context->products, key);
  if (!entry->state)
    {
      entry->state = find_algorithm (context, key, job, &entry->algorithm) ? 1 : 2;
      context->products->used++;
    }
  return entry;
}

static struct key
key_of (const struct dev_context *context, const struct job *job, bool equal_rows)
{
  struct key key;
  memset (&key, 0, sizeof key);
  key.kind = is_weight (job->kind) ? PRODUCT_WEIGHT : job->kind; /* with and without adding by one algorithm */
  key.c_type = job->c_type;
  key.type = job->type;
  key.alignment = alignment_of (job->a, job->b, job->c);
  key.deterministic = context->deterministic;
  key.m = equal_rows ? DETERMINISTIC_ROWS : is_weight (job->kind) ? job->m : bucket_of (job->m);
  key.n = job->n;
  key.k = is_weight (job->kind) ? bucket_of (job->k) : job->k;
  return key;
}

/* Runs the job by its entry's algorithm; false where the library does not serve it. After an error it is true. */
static bool
run_entry (struct dev_context *context, const struct job *job, const struct entry *entry)
{
  cublasStatus_t status = entry->state == 1 ? run_job (context, job, &entry->algorithm) : CUBLAS_STATUS_NOT_SUPPORTED;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return false;
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda_fail (context, DEV_FAILED, "a product of %d x %d x %d: %s", job->m, job->n, job->k,
               cublasLtGetStatusString (status));
  return true;
}

void
cuda_multiply (struct dev_context *context, enum cuda_product kind, void *c, enum dev_type c_type, const void *a,
               const void *b, enum dev_type type, int m, int n, int k)
{
  if (!cuda_enter (context) || m <= 0 || n <= 0 || k <= 0)
    return;
  bool equal_rows = context->deterministic && kind == PRODUCT_FORWARD;
  struct dev_matrix w = { b, NULL, n, k };
  if (kind == PRODUCT_FORWARD && m == 1 && type == DEV_BF16 && !equal_rows && cuda_multiply_row (context, c, c_type, a, &w))
    return;
  struct job job = { kind, c_type, type, c, a, b, m, n, k };
  struct key key = key_of (context, &job, equal_rows);
  const struct entry *entry = find_entry (context, &key, &job);
  if ((equal_rows && !context->products->rows_equal) || !run_entry (context, &job, entry))
    cuda_multiply_plain (context, kind, c, c_type, a, b, type, m, n, k);
}

/* Milliseconds that making codes of inputs takes: a kernel of its own, or a little more work for the kernel before; and for each
 * element (H200). */
#define ALONE_TIME 0.0025f
#define ALONG_TIME 0.0005f
#define ELEMENT_TIME 1e-9f

/* Under this it is kept whether products of inputs whose codes can be made along are by codes. */
static struct key
key_of_inputs (int m, int k)
{
  struct key key;
  memset (&key, 0, sizeof key);
  key.kind = PRODUCT_CODES;
  key.m = bucket_of (m);
  key.k = k;
  return key;
}

bool
cuda_wants_inputs (struct dev_context *context, int t, int cols)
{
  struct key key = key_of_inputs (t, cols);
  return context->products->codes != CODES_NEVER && !context->deterministic
         && find_slot (context->products, &key)->state == 1;
}

/* Chooses how w multiplies for the key: by codes only if that and making them is faster than by the matrix itself. */
static void
choose_codes (struct dev_context *context, const struct cuda_codes *in, const void *x, const struct dev_matrix *w,
              struct job *job, bool along, struct entry *entry)
{
  bool forced = context->products->codes == CODES_ALWAYS;
  struct entry chosen = *entry;
  chosen.state = 2;
  if (may_time (context, job))
    {
      struct job plain = { PRODUCT_FORWARD, DEV_BF16, DEV_BF16, job->c, x, w->data, job->m, job->n, job->k };
      struct key key = key_of (context, &plain, false);
      struct entry *other = forced ? NULL : find_entry (context, &key, &plain);
      float by_data = other && other->state == 1 ? time_algorithm (context, &plain, &other->algorithm) : -1;
      float by_codes = time_codes (context, job, in->room, &chosen);
      float making = (along ? ALONG_TIME : ALONE_TIME) + ELEMENT_TIME * (along ? 0.4f : 1.0f) * job->m * job->k;
      if (by_codes >= 0 && (by_data < 0 || by_codes + making < by_data))
        chosen.state = 1;
    }
  keep_entry (context->products, &chosen);
  if (!along)
    return;
  chosen.key = key_of_inputs (job->m, job->k);
  keep_entry (context->products, &chosen);
}

static struct job
job_of_codes (void *y, const struct cuda_codes *in, const struct dev_matrix *w, int t)
{
  struct job job = { PRODUCT_CODES, DEV_BF16, DEV_BF16, y, in->codes, w->codes, t, w->rows, w->cols, in->scales,
                     w->code_scales, 1, in->partial };
  return job;
}

bool
cuda_wants_codes (struct dev_context *context, void *y, const struct cuda_codes *in, const void *x,
                  const struct dev_matrix *w, int t, bool along)
{
  struct job job = job_of_codes (y, in, w, t);
  struct key key = key_of (context, &job, false);
  if (context->products->codes == CODES_NEVER || context->deterministic || key.alignment < 16 || w->rows % 16 || w->cols % 16
      || (uintptr_t) w->code_scales % 16)
    return false;
  struct entry *entry = find_slot (context->products, &key);
  if (!entry->state)
    choose_codes (context, in, x, w, &job, along, entry);
  entry = find_slot (context->products, &key);
  return entry->state == 1 && may_divide (&job, entry->parts, in->room);
}

bool
cuda_multiply_codes (struct dev_context *context, void *y, const struct cuda_codes *in, const struct dev_matrix *w, int t)
{
  struct job job = job_of_codes (y, in, w, t);
  struct key key = key_of (context, &job, false);
  const struct entry *entry = find_slot (context->products, &key);
  job.parts = entry->parts;
  return entry->state == 1 && may_divide (&job, entry->parts, in->room) && run_entry (context, &job, entry);
}

/* Whether the library has the products of codes, by its word for one of them. */
static bool
has_codes (struct cuda_products *self)
{
  cublasLtMatmulHeuristicResult_t result;
  struct job job = { PRODUCT_CODES, DEV_BF16, DEV_BF16, NULL, NULL, NULL, 64, 640, 640, NULL, NULL, 1 };
  struct key key;
  memset (&key, 0, sizeof key);
  key.kind = PRODUCT_CODES;
  key.alignment = 16;
  key.m = job.m;
  key.k = job.k;
  job.a_scales = job.b_scales = (const float *) self->workspace;
  return list_algorithms (self, &key, &job, &result, 1) == 1 && result.state == CUBLAS_STATUS_SUCCESS;
}

struct cuda_products *
cuda_products_new (struct dev_context *context)
{
  struct cuda_products *self = (struct cuda_products *) calloc (1, sizeof *self);
  if (!self || !(self->cache = (struct entry *) calloc (CACHE_SLOTS, sizeof *self->cache))
      || cublasLtCreate (&self->handle) != CUBLAS_STATUS_SUCCESS)
    {
      cuda_fail (context, DEV_FAILED, "cuBLASLt could not be started");
      cuda_products_free (self);
      return NULL;
    }
  cuda_ok (context, cudaMalloc (&self->workspace, LIBRARY_WORKSPACE), "the workspace of cuBLASLt");
  context->products = self;
  self->rows_equal = true; /* so that the test asks the library */
  self->rows_equal = cuda_rows_are_equal (context);
  const char *path = getenv ("PLUMB_CODES_PATH");
  if (has_codes (self) && !(path && strcmp (path, "data") == 0))
    self->codes = path && strcmp (path, "codes") == 0 ? CODES_ALWAYS : CODES_TIMED;
  return self;
}

void
cuda_products_free (struct cuda_products *self)
{
  if (!self)
    return;
  if (self->handle)
    cublasLtDestroy (self->handle);
  cudaFree (self->workspace);
  free (self->cache);
  free (self);
}

const char *
cuda_products_path (struct cuda_products *self)
{
  if (self->codes != CODES_NEVER)
    return self->rows_equal ? "cuBLASLt and fp8" : "cuBLASLt and fp8, plain where rows must be equal";
  return self->rows_equal ? "cuBLASLt" : "cuBLASLt, plain where rows must be equal";
}
