/* SPDX-License-Identifier: Apache-2.0 */

/* Products of one row, where reading the weights is all the work: one launch takes the norm before a product and what follows it
 * along. Two rows of weights are an item, read by a team of warps that share their length; each lane keeps several reads of
 * its own in flight through shared memory, and the first are under way before the inputs are there, while the kernel before
 * still runs. Sums run in a fixed order: lanes, then the warps of a team. From two rows on the library is as fast, and from three
 * on faster. */

#include "kernels/cuda/mma.cuh"

#include <string.h> // defines: memset

#define WARPS 16
#define MOST_THREADS 896 // of a block, with those that only claim registers: at most 72 registers a thread
#define THREADS (WARPS * WARP)
#define MOST_INPUT (40 << 10) // bytes of inputs that are kept in shared memory

enum source
{
  SOURCE_DIRECT, // rows too long to be kept
  SOURCE_KEPT,
  SOURCE_NORM,
};

/* Reads in flight of a lane, and what they take: kernels with a norm have more time before they can use them. */
template <int SOURCE> struct ring_of
{
  static constexpr int stages = SOURCE == SOURCE_NORM ? 6 : 5;
  static constexpr int bytes = WARPS * stages * 2 * WARP * 16;
};

enum result
{
  RESULT_TYPED,
  RESULT_FLOAT,
  RESULT_SWIGLU,
  RESULT_QKV,
};

struct row_job
{
  const char *w;       // (rows, cols) of bf16, or of codes:
  const float *scales; // (rows) or NULL
  int rows, cols;
  int items;     // pairs of rows of w
  int parts;     // warps of a team
  const bf16 *x; // (cols), or:
  dev_norm norm; // what x is made of
  void *y;       // (rows)
  bf16 *act;     // (rows / 2) of swiglu
  bf16 *q, *keys, *values;
  dev_qkv qkv;
  dev_attention shape;
  const int32_t *positions, *slots;
};

__device__ __forceinline__ void
add_products (float &sum, const uint4 &w, const uint4 &x)
{
  const uint32_t *left = &w.x, *right = &x.x;
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      __nv_bfloat162 a = *reinterpret_cast<const __nv_bfloat162 *> (left + i);
      __nv_bfloat162 b = *reinterpret_cast<const __nv_bfloat162 *> (right + i);
      float2 fa = __bfloat1622float2 (a), fb = __bfloat1622float2 (b);
      sum = fmaf (fa.x, fb.x, sum);
      sum = fmaf (fa.y, fb.y, sum);
    }
}

/* Sixteen codes, whose values are exact as halves. */
__device__ __forceinline__ void
add_products (float &sum, const uint4 &codes, const uint4 &x0, const uint4 &x1)
{
  const uint32_t *left = &codes.x;
#pragma unroll
  for (int i = 0; i < 8; i++)
    {
      __nv_fp8x2_storage_t pair = (__nv_fp8x2_storage_t) (left[i / 2] >> (i % 2 * 16));
      float2 fa = __half22float2 ((__half2) __nv_cvt_fp8x2_to_halfraw2 (pair, __NV_E4M3));
      uint32_t right = (i < 4 ? &x0.x : &x1.x)[i % 4];
      float2 fb = __bfloat1622float2 (*reinterpret_cast<const __nv_bfloat162 *> (&right));
      sum = fmaf (fa.x, fb.x, sum);
      sum = fmaf (fa.y, fb.y, sum);
    }
}

/* The rows of an item: neighbours, a gate and its up, or an element of a head and its partner. */
template <int RESULT>
__device__ __forceinline__ void
rows_of (const row_job &job, int item, int &first, int &second)
{
  if (RESULT == RESULT_SWIGLU)
    {
      first = item;
      second = item + job.items;
    }
  else if (RESULT == RESULT_QKV)
    {
      int half = job.shape.head_size / 2;
      first = item / half * 2 * half + item % half;
      second = first + half;
    }
  else
    {
      first = 2 * item;
      second = 2 * item + 1;
    }
}

/* The reads of a lane, one step ahead of another: a step is a piece of 16 bytes of both rows of an item. */
struct reader
{
  int item, step;
  const char *first, *second; // where the item's rows begin; second NULL where there is none
};

template <int RESULT, bool CODED>
__device__ __forceinline__ void
aim (reader &r, const row_job &job)
{
  int first, second;
  rows_of<RESULT> (job, r.item, first, second);
  int64_t bytes = (int64_t) job.cols * (CODED ? 1 : 2);
  r.first = job.w + first * bytes;
  r.second = second < job.rows ? job.w + second * bytes : NULL;
}

template <int RESULT, bool CODED>
__device__ __forceinline__ void
read_step (reader &r, const row_job &job, uint4 *slot, int chunk, int chunks, int steps, int teams, int last)
{
  bool inside = chunk < chunks;
  int64_t at = inside ? (int64_t) chunk * 16 : 0;
  copy_16 (slot, r.first + at, inside);
  copy_16 (slot + WARP, (r.second ? r.second : r.first) + at, inside && r.second);
  if (++r.step < steps)
    return;
  r.step = 0;
  r.item += teams;
  if (r.item < last)
    aim<RESULT, CODED> (r, job);
}

/* The weights of the norm, on their way before the inputs are there. Each thread reads what it copied itself. */
__device__ __forceinline__ void
begin_norm (const row_job &job, bf16 *norm_weight)
{
  for (int c = threadIdx.x * 4; c < job.cols; c += THREADS * 4)
    {
      copy_4 (norm_weight + c, (const bf16 *) job.norm.weight + c, true);
      copy_4 (norm_weight + c + 2, (const bf16 *) job.norm.weight + c + 2, true);
    }
}

/* The normed row into shared memory; block 0 also writes what add_norm_forward leaves. */
__device__ __forceinline__ void
make_norm (const row_job &job, bf16 *kept, const bf16 *norm_weight)
{
  __shared__ float shared[WARP];
  const dev_norm &n = job.norm;
  const bf16 *delta = (const bf16 *) n.delta;
  int width = job.cols;
  float squares = 0;
  for (int c = threadIdx.x * 4; c < width; c += THREADS * 4)
    {
      float value[4], more[4] = { 0, 0, 0, 0 };
      load_pack (value, n.x + c);
      if (delta)
        load_pack (more, delta + c);
#pragma unroll
      for (int i = 0; i < 4; i++)
        squares += (value[i] + more[i]) * (value[i] + more[i]);
    }
  float r = 1.0f / sqrtf (block_sum (squares, shared) / width + n.eps);
  if (blockIdx.x == 0 && threadIdx.x == 0 && n.rstd)
    n.rstd[0] = r;
  for (int c = threadIdx.x * 4; c < width; c += THREADS * 4)
    {
      float value[4], more[4] = { 0, 0, 0, 0 }, w[4];
      load_pack (value, n.x + c);
      load_pack (w, norm_weight + c);
      if (delta)
        load_pack (more, delta + c);
#pragma unroll
      for (int i = 0; i < 4; i++)
        {
          value[i] += more[i];
          w[i] *= value[i] * r;
        }
      store_pack (kept + c, w);
      if (blockIdx.x > 0)
        continue;
      store_pack ((bf16 *) n.out + c, w);
      if (n.sum != n.x)
        store_pack (n.sum + c, value);
    }
}

/* What turns one pair of a head, read before the inputs are there: nothing of it is an earlier kernel's. */
struct turn
{
  float bias_a, bias_b, cosine, sine;
  int64_t slot;
};

__device__ __forceinline__ turn
read_turn (const row_job &job, int item)
{
  const dev_attention &s = job.shape;
  int half = s.head_size / 2, index = item / half, i = item % half;
  const bf16 *bias = (const bf16 *) job.qkv.bias + (job.qkv.bias ? index * s.head_size + i : 0);
  turn t = { 0, 0, 1, 0, job.slots ? job.slots[0] : 0 };
  if (job.qkv.bias)
    {
      t.bias_a = (float) bias[0];
      t.bias_b = (float) bias[half];
    }
  if (index < s.heads + s.groups)
    {
      int64_t at = (int64_t) job.positions[0] * half + i;
      t.cosine = job.qkv.rope_cos[at];
      t.sine = job.qkv.rope_sin[at];
    }
  return t;
}

/* Bias and rotary position of one pair of a head, and its place (Su et al. 2021, halves layout). */
__device__ __forceinline__ void
finish_qkv (const row_job &job, int item, float a, float b, const turn &t)
{
  const dev_attention &s = job.shape;
  int half = s.head_size / 2, index = item / half, i = item % half;
  int first = index * s.head_size + i;
  bf16 *raw = (bf16 *) job.y;
  raw[first] = (bf16) a;
  raw[first + half] = (bf16) b;
  float before = (float) (bf16) a + t.bias_a, partner = (float) (bf16) b + t.bias_b;
  a = before * t.cosine - partner * t.sine;
  b = partner * t.cosine + before * t.sine;
  int64_t slot = t.slot;
  bf16 *to;
  if (index < s.heads)
    to = job.q + index * s.head_size + i;
  else if (index < s.heads + s.groups)
    to = job.keys + (slot * s.groups + index - s.heads) * s.head_size + i;
  else
    to = job.values + (slot * s.groups + index - s.heads - s.groups) * s.head_size + i;
  to[0] = (bf16) a;
  to[half] = (bf16) b;
}

/* Writes what the two sums of an item are for. */
template <int RESULT>
__device__ __forceinline__ void
finish_item (const row_job &job, int item, float a, float b)
{
  int first, second;
  rows_of<RESULT> (job, item, first, second);
  if (RESULT == RESULT_FLOAT)
    {
      ((float *) job.y)[first] = a;
      if (second < job.rows)
        ((float *) job.y)[second] = b;
      return;
    }
  bf16 *y = (bf16 *) job.y;
  y[first] = (bf16) a;
  if (second < job.rows)
    y[second] = (bf16) b;
  if (RESULT == RESULT_SWIGLU)
    {
      float gate = (float) (bf16) a, up = (float) (bf16) b;
      job.act[item] = (bf16) (gate * (1.0f / (1.0f + __expf (-gate))) * up);
    }
}

/* A block a multiprocessor, and beside it one of the next launch: kernels with a norm and those without, which take
 * turns, are each kept from doubling up, the ones by shared memory, the others by registers. Threads beyond THREADS are there
 * for their registers alone. */
template <int SOURCE, int RESULT, bool CODED>
__global__ void __launch_bounds__ (SOURCE == SOURCE_NORM ? THREADS + 64 : MOST_THREADS, SOURCE == SOURCE_NORM ? 2 : 1)
one_row (row_job job)
{
  if (threadIdx.x >= THREADS)
    return;
  constexpr int STAGES = ring_of<SOURCE>::stages, RING_BYTES = ring_of<SOURCE>::bytes;
  extern __shared__ __align__ (16) unsigned char memory[];
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, parts = job.parts;
  int first = (int) ((int64_t) job.items * blockIdx.x / gridDim.x);
  int last = (int) ((int64_t) job.items * (blockIdx.x + 1) / gridDim.x);
  int team = warp / parts, part = warp % parts, teams = WARPS / parts, chunks = job.cols / (CODED ? 16 : 8);
  int steps = (chunks + WARP * parts - 1) / (WARP * parts);
  int own = first + team < last ? (last - first - team + teams - 1) / teams : 0, total = own * steps;
  uint4 *ring = (uint4 *) memory + warp * STAGES * 2 * WARP + lane;
  bf16 *kept = (bf16 *) (memory + RING_BYTES);
  float *partial = (float *) (memory + RING_BYTES + (SOURCE == SOURCE_DIRECT ? 0 : job.cols * (int) sizeof (bf16)));
  bf16 *norm_weight = kept + job.cols;
  if (SOURCE == SOURCE_NORM)
    partial = (float *) (norm_weight + job.cols);
  if (SOURCE == SOURCE_NORM)
    begin_norm (job, norm_weight);
  copy_commit ();
  reader ahead = { first + team, 0, NULL, NULL };
  if (total > 0)
    aim<RESULT, CODED> (ahead, job);
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++)
    {
      if (i < total)
        read_step<RESULT, CODED> (ahead, job, ring + i * 2 * WARP, (ahead.step * parts + part) * WARP + lane, chunks, steps, teams,
                           last);
      copy_commit ();
    }
  int count = last - first;
  turn own_turn;
  if (RESULT == RESULT_QKV && threadIdx.x < count)
    own_turn = read_turn (job, first + threadIdx.x);
  wait_for_inputs ();
  if (SOURCE == SOURCE_NORM)
    {
      copy_wait<STAGES - 1> ();
      __syncwarp ();
      make_norm (job, kept, norm_weight);
    }
  else if (SOURCE == SOURCE_KEPT)
    for (int i = threadIdx.x; i < job.cols / 8; i += THREADS)
      ((uint4 *) kept)[i] = ((const uint4 *) job.x)[i];
  __syncthreads ();
  float sum[2] = { 0, 0 };
  int item = team, step = 0, stage = 0;
  for (int n = 0; n < total; n++)
    {
      int free_stage = stage == 0 ? STAGES - 1 : stage - 1;
      if (n + STAGES - 1 < total)
        read_step<RESULT, CODED> (ahead, job, ring + free_stage * 2 * WARP, (ahead.step * parts + part) * WARP + lane, chunks,
                           steps, teams, last);
      copy_commit ();
      copy_wait<STAGES - 1> ();
      __syncwarp ();
      int chunk = (step * parts + part) * WARP + lane;
      if (chunk < chunks)
        {
          constexpr int PIECES = CODED ? 2 : 1;
          uint4 a = ring[stage * 2 * WARP], b = ring[stage * 2 * WARP + WARP], x[PIECES];
#pragma unroll
          for (int k = 0; k < PIECES; k++)
            x[k] = SOURCE == SOURCE_DIRECT ? __ldg ((const uint4 *) job.x + (int64_t) chunk * PIECES + k)
                                           : ((const uint4 *) kept)[chunk * PIECES + k];
          if constexpr (CODED)
            {
              add_products (sum[0], a, x[0], x[1]);
              add_products (sum[1], b, x[0], x[1]);
            }
          else
            {
              add_products (sum[0], a, x[0]);
              add_products (sum[1], b, x[0]);
            }
        }
      __syncwarp ();
      stage = stage == STAGES - 1 ? 0 : stage + 1;
      if (++step < steps)
        continue;
#pragma unroll
      for (int k = 0; k < 2; k++)
        {
          float all = warp_sum (sum[k]);
          if (lane == 0)
            partial[(item * 2 + k) * parts + part] = all;
          sum[k] = 0;
        }
      step = 0;
      item += teams;
    }
  copy_wait<0> ();
  __syncthreads ();
  for (int i = threadIdx.x; i < count; i += THREADS)
    {
      const float *sums = partial + i * 2 * parts;
      float a = 0, b = 0;
      for (int p = 0; p < parts; p++)
        {
          a += sums[p];
          b += sums[parts + p];
        }
      if (CODED)
        {
          int row, other;
          rows_of<RESULT> (job, first + i, row, other);
          a *= job.scales[row];
          b *= other < job.rows ? job.scales[other] : 0;
        }
      if (RESULT == RESULT_QKV)
        finish_qkv (job, first + i, a, b, i == threadIdx.x ? own_turn : read_turn (job, first + i));
      else
        finish_item<RESULT> (job, first + i, a, b);
    }
}

/* How many warps share a row: the least work of the busiest warp, where the end of an item costs a quarter of a step. */
static int
choose_parts (int items, int blocks, int chunks)
{
  int best = 1, best_cost = 0x7fffffff, per_block = ceil_div (items, blocks);
  for (int parts = 1; parts <= WARPS; parts *= 2)
    {
      int cost = ceil_div (per_block, WARPS / parts) * (4 * ceil_div (chunks, WARP * parts) + 1);
      if (cost < best_cost)
        {
          best_cost = cost;
          best = parts;
        }
    }
  return best;
}

/* Threads of a block that take more than half of the 65,536 registers of a multiprocessor. */
static int
claim_registers (const void *kernel)
{
  struct cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes (&attributes, kernel) != cudaSuccess || attributes.numRegs < 1)
    return THREADS;
  int each = (attributes.numRegs + 7) / 8 * 8, threads = (32768 / each / WARP + 1) * WARP;
  return threads < THREADS ? THREADS : threads > MOST_THREADS ? MOST_THREADS : threads;
}

template <int SOURCE, int RESULT, bool CODED>
static bool
launch_with (struct dev_context *context, row_job *job)
{
  int blocks = context->multiprocessors;
  blocks = blocks < job->items ? blocks : job->items;
  job->parts = choose_parts (job->items, blocks, job->cols / (CODED ? 16 : 8));
  int kept = SOURCE == SOURCE_DIRECT ? 0 : SOURCE == SOURCE_NORM ? 2 : 1; // rows
  int64_t bytes = ring_of<SOURCE>::bytes + (int64_t) kept * job->cols * (int) sizeof (bf16)
                  + (int64_t) ceil_div (job->items, blocks) * 2 * job->parts * (int) sizeof (float);
  int threads = THREADS;
  if (SOURCE == SOURCE_NORM && bytes < context->shared_of_multiprocessor / 2)
    bytes = context->shared_of_multiprocessor / 2;
  else if (SOURCE != SOURCE_NORM)
    threads = claim_registers ((const void *) one_row<SOURCE, RESULT, CODED>);
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (one_row<SOURCE, RESULT, CODED>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes)
             != cudaSuccess
      || cudaFuncSetAttribute (one_row<SOURCE, RESULT, CODED>, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared)
             != cudaSuccess)
    return false;
  cuda_launch (context, one_row<SOURCE, RESULT, CODED>, blocks, threads, bytes, *job);
  CUDA_LAUNCHED (context, "a product of one row");
  return true;
}

template <int SOURCE, int RESULT>
static bool
launch (struct dev_context *context, row_job *job)
{
  return job->scales ? launch_with<SOURCE, RESULT, true> (context, job) : launch_with<SOURCE, RESULT, false> (context, job);
}

static bool
serves (const row_job *job)
{
  return job->cols % (job->scales ? 16 : 8) == 0 && ((uintptr_t) job->x | (uintptr_t) job->w) % 16 == 0;
}

static row_job
new_job (const struct dev_matrix *w)
{
  row_job job;
  memset (&job, 0, sizeof job);
  job.w = w->codes ? (const char *) w->codes : (const char *) w->data;
  job.scales = w->codes ? w->code_scales : NULL;
  job.rows = w->rows;
  job.cols = w->cols;
  job.items = ceil_div (w->rows, 2);
  return job;
}

/* Whether the inputs are kept in shared memory. */
static bool
is_kept (const row_job *job)
{
  return job->cols * (int) sizeof (bf16) <= MOST_INPUT;
}

bool
cuda_multiply_row (struct dev_context *context, void *y, enum dev_type y_type, const void *x, const struct dev_matrix *w)
{
  row_job job = new_job (w);
  job.x = (const bf16 *) x;
  job.y = y;
  if (!serves (&job))
    return false;
  if (y_type == DEV_F32)
    return !job.scales
           && (is_kept (&job) ? launch_with<SOURCE_KEPT, RESULT_FLOAT, false> (context, &job)
                              : launch_with<SOURCE_DIRECT, RESULT_FLOAT, false> (context, &job));
  return is_kept (&job) ? launch<SOURCE_KEPT, RESULT_TYPED> (context, &job)
                        : launch<SOURCE_DIRECT, RESULT_TYPED> (context, &job);
}

/* Whether a norm before the product of t rows can be taken along. */
static bool
takes_norm (const struct dev_context *context, const row_job *job, const dev_norm *norm, int t, enum dev_type type)
{
  uintptr_t places = (uintptr_t) norm->x | (uintptr_t) norm->sum | (uintptr_t) norm->out | (uintptr_t) norm->weight
                     | (uintptr_t) norm->delta;
  return t == 1 && type == DEV_BF16 && !context->deterministic && serves (job) && places % 16 == 0
         && !(norm->delta && norm->sum == norm->x) && is_kept (job);
}

void
cuda_norm_qkv_forward (struct dev_context *context, const struct dev_norm *norm, void *raw, void *q,
                       const struct dev_kv *kv, const struct dev_matrix *w, const struct dev_qkv *qkv,
                       const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  if (!cuda_enter (context) || batch->tokens <= 0)
    return;
  row_job job = new_job (w);
  job.norm = *norm;
  job.y = raw;
  job.q = (bf16 *) q;
  job.keys = (bf16 *) kv->k;
  job.values = (bf16 *) kv->v;
  job.qkv = *qkv;
  job.shape = *shape;
  job.positions = batch->positions;
  job.slots = batch->slots;
  if (!kv->k_scales && !qkv->q_norm && !qkv->k_norm && shape->head_size % 2 == 0
      && takes_norm (context, &job, norm, batch->tokens, type) && launch<SOURCE_NORM, RESULT_QKV> (context, &job))
    return;
  cuda_norm_linear_forward (context, norm, raw, w, batch->tokens, type);
  cuda_qkv_forward (context, q, kv, raw, qkv, shape, batch, type);
}

void
cuda_norm_swiglu_forward (struct dev_context *context, const struct dev_norm *norm, void *act, void *gate_up,
                          const struct dev_matrix *w, int t, enum dev_type type)
{
  if (!cuda_enter (context) || t <= 0)
    return;
  row_job job = new_job (w);
  job.norm = *norm;
  job.y = gate_up;
  job.act = (bf16 *) act;
  if (takes_norm (context, &job, norm, t, type) && launch<SOURCE_NORM, RESULT_SWIGLU> (context, &job))
    return;
  cuda_norm_linear_forward (context, norm, gate_up, w, t, type);
  cuda_swiglu_before_linear (context, act, gate_up, w, t, type);
}
