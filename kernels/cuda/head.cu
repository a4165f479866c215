/* SPDX-License-Identifier: Apache-2.0 */

/* The vocabulary head, a chunk of rows at a time. A row's statistics are taken in parts of fixed length and
 * merged in order by one function for rollout and trainer, so that equal logits give equal log-probs. */

#include "kernels/cuda/context.cuh"

#include <math.h> // defines: INFINITY

#define MOST_ROWS 2048
#define PART 8192 // vocabulary entries of a part
#define THREADS 256
#define MOST_FORBIDDEN 64

struct part
{
  float top, sum, weighted; // greatest z, sum exp (z - top), sum exp (z - top) (z - top)
  float best;               // greatest value of the choice
  int token;                // where
};

/* The part that holds both. */
__device__ __forceinline__ void
merge (part &a, const part &b)
{
  float top = fmaxf (a.top, b.top);
  float scale_a = a.top == -INFINITY ? 0.0f : __expf (a.top - top);
  float scale_b = b.top == -INFINITY ? 0.0f : __expf (b.top - top);
  float move_a = a.top == -INFINITY ? 0.0f : a.top - top, move_b = b.top == -INFINITY ? 0.0f : b.top - top;
  a.weighted = scale_a * (a.weighted + a.sum * move_a) + scale_b * (b.weighted + b.sum * move_b);
  a.sum = scale_a * a.sum + scale_b * b.sum;
  a.top = top;
  if (b.best > a.best || (b.best == a.best && b.token < a.token))
    {
      a.best = b.best;
      a.token = b.token;
    }
}

__device__ __forceinline__ part
shuffled (const part &a, int offset)
{
  part b;
  b.top = __shfl_xor_sync (FULL_MASK, a.top, offset);
  b.sum = __shfl_xor_sync (FULL_MASK, a.sum, offset);
  b.weighted = __shfl_xor_sync (FULL_MASK, a.weighted, offset);
  b.best = __shfl_xor_sync (FULL_MASK, a.best, offset);
  b.token = __shfl_xor_sync (FULL_MASK, a.token, offset);
  return b;
}

/* Philox4x32-10 (Salmon et al. 2011); the same words as on the CPU. */
__device__ __forceinline__ void
philox (uint32_t out[4], uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key)
{
  uint32_t k0 = (uint32_t) key, k1 = (uint32_t) (key >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++)
    {
      uint32_t high0 = __umulhi (0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
      uint32_t high1 = __umulhi (0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
      c0 = high1 ^ c1 ^ k0;
      c1 = low1;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* -log (-log u); near 1, where the winners are, the inner logarithm must be exact. */
__device__ __forceinline__ float
gumbel (uint32_t word)
{
  float u = ((float) (word >> 9) + 0.5f) * (1.0f / 8388608.0f);
  return -__logf (-logf (u));
}

enum choice
{
  CHOICE_NONE,
  CHOICE_GREEDY,
  CHOICE_GUMBEL,
  CHOICE_FILTERED, // the same where some logits are -INFINITY
};

/* What the choice of a token needs. */
struct sampler
{
  uint64_t seed;
  const dev_random *random;
  const int32_t *forbidden;
  int n_forbidden;
  const uint8_t *ban;
};

/* Block (part, row): four neighbouring logits a thread, their greatest, the sums below it, and the choice. */
template <int CHOICE>
__global__ void
row_parts (part *parts, const float *logits, int vocabulary, int stride, float inverse_temperature, sampler s, int first)
{
  __shared__ part shared[THREADS / WARP];
  __shared__ int banned_ids[MOST_FORBIDDEN];
  int row = blockIdx.y, start = blockIdx.x * PART, end = min (start + PART, vocabulary);
  int banned = 0;
  wait_for_inputs ();
  if (CHOICE != CHOICE_NONE && s.ban && s.ban[first + row])
    banned = s.n_forbidden;
  for (int i = threadIdx.x; i < banned; i += THREADS)
    banned_ids[i] = s.forbidden[i];
  __syncthreads ();
  const float *z = logits + (int64_t) row * stride;
  dev_random random = { { 0, 0, 0 } };
  if (CHOICE >= CHOICE_GUMBEL)
    random = s.random[first + row];
  part own = { -INFINITY, 0, 0, -INFINITY, 0x7fffffff };
  constexpr int ROUNDS = PART / THREADS / 4;
  float values[ROUNDS][4];
#pragma unroll
  for (int round = 0; round < ROUNDS; round++)
    {
      int v = start + (round * THREADS + (int) threadIdx.x) * 4;
      if (v + 4 <= end && stride % 4 == 0)
        load_pack (values[round], z + v);
      else
#pragma unroll
        for (int k = 0; k < 4; k++)
          values[round][k] = v + k < end ? z[v + k] : -INFINITY;
#pragma unroll
      for (int k = 0; k < 4; k++)
        {
          values[round][k] *= inverse_temperature;
          own.top = fmaxf (own.top, values[round][k]);
        }
    }
#pragma unroll
  for (int round = 0; round < ROUNDS; round++)
    {
      int v = start + (round * THREADS + (int) threadIdx.x) * 4;
      uint32_t words[4];
      if (CHOICE >= CHOICE_GUMBEL && v < end)
        philox (words, random.counter[0], random.counter[1], random.counter[2], (uint32_t) v / 4, s.seed);
#pragma unroll
      for (int k = 0; k < 4; k++)
        {
          if (v + k >= end)
            break;
          if (CHOICE == CHOICE_FILTERED && values[round][k] == -INFINITY)
            continue;
          float shifted = values[round][k] - own.top, e = __expf (shifted);
          own.sum += e;
          own.weighted += e * shifted;
          if (CHOICE == CHOICE_NONE)
            continue;
          float value = CHOICE == CHOICE_GREEDY ? values[round][k] : values[round][k] + gumbel (words[k]);
          bool is_banned = false;
          for (int i = 0; i < banned; i++)
            is_banned = is_banned || banned_ids[i] == v + k;
          if (value > own.best && !is_banned)
            {
              own.best = value;
              own.token = v + k;
            }
        }
    }
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2)
    {
      part other = shuffled (own, offset);
      merge (own, other);
    }
  if (threadIdx.x % WARP == 0)
    shared[threadIdx.x / WARP] = own;
  __syncthreads ();
  if (threadIdx.x > 0)
    return;
  for (int w = 1; w < THREADS / WARP; w++)
    merge (own, shared[w]);
  parts[(int64_t) row * gridDim.x + blockIdx.x] = own;
}

/* One thread a row: merges the parts in order. Without a choice the targets are given, with one they are written. */
__global__ void
finish_rows (float *logp, float *entropy, float *lse, int32_t *targets, const part *parts, int n_parts,
             const float *logits, int stride, float inverse_temperature, int rows, bool choose)
{
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_inputs ();
  if (row >= rows)
    return;
  part total = parts[(int64_t) row * n_parts];
  for (int i = 1; i < n_parts; i++)
    merge (total, parts[(int64_t) row * n_parts + i]);
  if (choose)
    targets[row] = total.token == 0x7fffffff ? 0 : total.token;
  double log_sum = log ((double) total.sum);
  float z = logits[(int64_t) row * stride + targets[row]] * inverse_temperature;
  logp[row] = (float) ((double) z - total.top - log_sum);
  if (lse)
    lse[row] = (float) (total.top + log_sum);
  if (entropy)
    entropy[row] = (float) (log_sum - (double) total.weighted / total.sum);
}

/* Block (part, row): dL/dz of a row from its logits, written as T; T float is in place. dentropy NULL is zero. Where
 * rows allow it a thread takes four neighbours. */
template <typename T>
__global__ void
row_gradients (T *to, const float *logits, const float *dlogp, const float *dentropy, const float *entropy,
               const float *lse, const int32_t *targets, float inverse_temperature, int vocabulary)
{
  int row = blockIdx.y, start = blockIdx.x * PART, end = min (start + PART, vocabulary);
  float own_lse = lse[row], own_entropy = entropy[row], dp = dlogp[row], dh = dentropy ? dentropy[row] : 0.0f;
  int target = targets[row], step = vocabulary % 4 == 0 ? 4 : 1;
  for (int v = start + threadIdx.x * step; v < end; v += THREADS * step)
    {
      int64_t at = (int64_t) row * vocabulary + v;
      float z[4];
      if (step == 4)
        load_pack (z, logits + at);
      else
        z[0] = logits[at];
#pragma unroll
      for (int k = 0; k < 4; k++)
        {
          if (k >= step)
            break;
          float log_p = z[k] * inverse_temperature - own_lse;
          z[k] = -__expf (log_p) * (dp + dh * (log_p + own_entropy)) * inverse_temperature;
          if (v + k == target)
            z[k] += dp * inverse_temperature;
        }
      if (step == 4)
        store_pack (to + at, z);
      else
        to[at] = (T) z[0];
    }
}

/* Rows of a chunk: what the workspace holds, of logits and of their gradients in bf16; at most MOST_ROWS. */
static int
chunk_rows (struct dev_context *context, int vocabulary, int n)
{
  size_t each = (size_t) vocabulary * 6 + (size_t) ceil_div (vocabulary, PART) * sizeof (part);
  size_t reserve = 4 * DEV_ALIGN;
  size_t rows = context->workspace_size > reserve ? (context->workspace_size - reserve) / each : 0;
  rows = rows < MOST_ROWS ? rows : MOST_ROWS;
  if (rows < 1)
    cuda_fail (context, DEV_NO_MEMORY, "the workspace of %zu bytes is too small for a vocabulary of %d",
               context->workspace_size, vocabulary);
  return (int) rows < n ? (int) rows : n;
}

/* Places of a chunk in the workspace. */
struct chunk
{
  int rows, n_parts;
  float *logits;
  part *parts;
  bf16 *gradients;
};

static struct chunk
chunk_init (struct dev_context *context, int vocabulary, int n)
{
  struct chunk c;
  c.rows = chunk_rows (context, vocabulary, n);
  c.n_parts = ceil_div (vocabulary, PART);
  c.logits = (float *) context->workspace;
  char *after = context->workspace + dev_align ((size_t) c.rows * vocabulary * sizeof (float));
  c.parts = (part *) after;
  c.gradients = (bf16 *) (after + dev_align ((size_t) c.rows * c.n_parts * sizeof (part)));
  return c;
}

static const void *
row_of (const void *h, int row, int width, enum dev_type type)
{
  return (const char *) h + (size_t) row * width * dev_type_size (type);
}

static void
chunk_logits (struct dev_context *context, float *logits, const void *h, const struct dev_matrix *w, int first,
              int count, enum dev_type type)
{
  cuda_multiply (context, PRODUCT_FORWARD, logits, DEV_F32, row_of (h, first, w->cols, type), w->data, type, count,
                 w->rows, w->cols);
}

/* What the passes over a chunk of rows have in common. */
struct head_job
{
  const void *h;
  const struct dev_matrix *w;
  const int32_t *targets;
  float inverse_temperature;
  enum dev_type type;
};

static void
chunk_statistics (struct dev_context *context, const struct chunk *c, const struct head_job *job, int first, int count,
                  float *logp, float *entropy, float *lse)
{
  sampler none = { 0, NULL, NULL, 0, NULL };
  int vocabulary = job->w->rows;
  row_parts<CHOICE_NONE><<<dim3 (c->n_parts, count), THREADS, 0, context->stream>>> (
      c->parts, c->logits, vocabulary, vocabulary, job->inverse_temperature, none, 0);
  finish_rows<<<ceil_div (count, 64), 64, 0, context->stream>>> (
      logp + first, entropy + first, lse + first, (int32_t *) job->targets + first, c->parts, c->n_parts, c->logits,
      vocabulary, job->inverse_temperature, count, false);
  CUDA_LAUNCHED (context, "head_forward");
}

static void
chunk_gradients (struct dev_context *context, const struct chunk *c, const struct head_job *job, int first, int count,
                 void *dh, float *dw, bool add, const float *dlogp, const float *dentropy, const float *entropy,
                 const float *lse)
{
  const struct dev_matrix *w = job->w;
  dim3 grid (c->n_parts, count);
  if (dentropy)
    dentropy += first;
  if (job->type == DEV_BF16)
    row_gradients<<<grid, THREADS, 0, context->stream>>> (c->gradients, c->logits, dlogp + first, dentropy,
                                                          entropy + first, lse + first, job->targets + first,
                                                          job->inverse_temperature, w->rows);
  else
    row_gradients<<<grid, THREADS, 0, context->stream>>> (c->logits, c->logits, dlogp + first, dentropy,
                                                          entropy + first, lse + first, job->targets + first,
                                                          job->inverse_temperature, w->rows);
  CUDA_LAUNCHED (context, "head_backward");
  const void *dz = job->type == DEV_BF16 ? (void *) c->gradients : (void *) c->logits;
  cuda_linear_backward (context, (void *) row_of (dh, first, w->cols, job->type), dw, add || first > 0, dz,
                        row_of (job->h, first, w->cols, job->type), w, count, job->type);
}

void
cuda_head_forward (struct dev_context *context, float *logp, float *entropy, float *lse, const void *h,
                   const struct dev_matrix *w, const int32_t *targets, float temperature, int n, enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  struct chunk c = chunk_init (context, w->rows, n);
  struct head_job job = { h, w, targets, 1.0f / temperature, type };
  for (int first = 0; first < n && !context->status; first += c.rows)
    {
      int count = n - first < c.rows ? n - first : c.rows;
      chunk_logits (context, c.logits, h, w, first, count, type);
      chunk_statistics (context, &c, &job, first, count, logp, entropy, lse);
    }
}

void
cuda_head_backward (struct dev_context *context, void *dh, float *dw, bool add, const float *dlogp, const float *dentropy,
                    const float *entropy, const float *lse, const void *h, const struct dev_matrix *w,
                    const int32_t *targets, float temperature, int n, enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  struct chunk c = chunk_init (context, w->rows, n);
  struct head_job job = { h, w, targets, 1.0f / temperature, type };
  for (int first = 0; first < n && !context->status; first += c.rows)
    {
      int count = n - first < c.rows ? n - first : c.rows;
      chunk_logits (context, c.logits, h, w, first, count, type);
      chunk_gradients (context, &c, &job, first, count, dh, dw, add, dlogp, dentropy, entropy, lse);
    }
}

void
cuda_head_both (struct dev_context *context, float *logp, float *entropy, float *lse, void *dh, float *dw, bool add,
                const float *dlogp, const void *h, const struct dev_matrix *w, const int32_t *targets,
                float temperature, int n, enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  struct chunk c = chunk_init (context, w->rows, n);
  struct head_job job = { h, w, targets, 1.0f / temperature, type };
  for (int first = 0; first < n && !context->status; first += c.rows)
    {
      int count = n - first < c.rows ? n - first : c.rows;
      chunk_logits (context, c.logits, h, w, first, count, type);
      chunk_statistics (context, &c, &job, first, count, logp, entropy, lse);
      chunk_gradients (context, &c, &job, first, count, dh, dw, add, dlogp, NULL, entropy, lse);
    }
}

void
cuda_head_logits (struct dev_context *context, float *logits, const void *h, const struct dev_matrix *w, int n,
                  enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0 || chunk_rows (context, w->rows, n) < 1)
    return;
  chunk_logits (context, logits, h, w, 0, n, type);
}

/* The kernel that chooses tokens. */
static void (*choice_kernel (bool greedy, bool filtered)) (part *, const float *, int, int, float, sampler, int)
{
  return greedy ? row_parts<CHOICE_GREEDY> : filtered ? row_parts<CHOICE_FILTERED> : row_parts<CHOICE_GUMBEL>;
}

void
cuda_head_sample (struct dev_context *context, int32_t *tokens, float *logp, const void *h,
                  const struct dev_matrix *w, const struct dev_sampling *sampling, int n, enum dev_type type)
{
  if (!cuda_enter (context) || n <= 0)
    return;
  struct chunk c = chunk_init (context, w->rows, n);
  bool greedy = sampling->temperature == 0, filtered = dev_sampling_is_filtered (sampling);
  float inverse = greedy || filtered ? 1.0f : 1.0f / sampling->temperature;
  int forbidden = sampling->n_forbidden < MOST_FORBIDDEN ? sampling->n_forbidden : MOST_FORBIDDEN;
  sampler s = { sampling->seed, sampling->random, sampling->forbidden, forbidden, sampling->ban };
  for (int first = 0; first < n && !context->status; first += c.rows)
    {
      int count = n - first < c.rows ? n - first : c.rows;
      chunk_logits (context, c.logits, h, w, first, count, type);
      if (filtered)
        cuda_filter_rows (context, c.logits, w->rows, sampling, first, count);
      cuda_launch (context, choice_kernel (greedy, filtered), dim3 (c.n_parts, count), THREADS, 0, c.parts, c.logits,
                   w->rows, w->rows, inverse, s, first);
      cuda_launch (context, finish_rows, ceil_div (count, 64), 64, 0, logp + first, NULL, NULL, tokens + first, c.parts,
                   c.n_parts, c.logits, w->rows, inverse, count, true);
      CUDA_LAUNCHED (context, "head_sample");
    }
  if (sampling->seen)
    cuda_mark_seen (context, tokens, sampling, n);
}
