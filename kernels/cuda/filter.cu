/* SPDX-License-Identifier: Apache-2.0 */

/* What is done to rows of logits before tokens are drawn: repetition penalty (Keskar et al. 2019), temperature, top-k, top-p
 * (Holtzman et al. 2020) and min-p (Nguyen et al. 2024), in this order. A block works on a row and sorts nothing: where the
 * row is cut is found digit by digit of the values' order, from the greatest on. Probabilities are integers of 2^-40, so
 * that their sums do not depend on the order of the threads. */

#include "kernels/cuda/context.cuh"

#include <math.h> // defines: INFINITY

#define THREADS 1024
#define LEVELS 3
#define BINS 2048

typedef unsigned long long mass;

/* Unsigned numbers in the order of the floats. */
__device__ __forceinline__ uint32_t
order_of (float z)
{
  uint32_t bits = __float_as_uint (z);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ mass
mass_of (float z, float top)
{
  return (mass) (expf (z - top) * 1099511627776.0f);
}

struct row
{
  const float *z;
  int n;
  float top;
};

/* What the threads of a block share while they look for a cut. */
struct search
{
  mass bins[BINS];
  mass above;
  int digit; // -1: there is none
};

/* The greatest digit at which the bins from above, added to `above`, reach the target. To be called by the first warp. */
__device__ __forceinline__ void
find_digit (search *s, int bins, mass target)
{
  int lane = threadIdx.x, each = bins / WARP, first = bins - 1 - lane * each;
  mass own = 0, before = s->above;
  for (int i = 0; i < each; i++)
    own += s->bins[first - i];
  mass sum = own;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2)
    {
      mass other = __shfl_up_sync (FULL_MASK, sum, offset);
      sum += lane >= offset ? other : 0;
    }
  unsigned reached = __ballot_sync (FULL_MASK, before + sum >= target);
  if (lane == 0 && !reached)
    s->digit = -1;
  if (!reached || lane != __ffs (reached) - 1)
    return;
  before += sum - own;
  while (before + s->bins[first] < target)
    before += s->bins[first--];
  s->digit = first;
  s->above = before;
}

/* The greatest key at which the values of at least this key, and at least `floor`, reach `target`, in number or in mass; 0
 * where all together do not. s->above is what lies above the key. */
__device__ uint32_t
find_cut (search *s, const row &r, uint32_t floor, bool by_mass, mass target)
{
  uint32_t prefix = 0;
  for (int level = 0; level < LEVELS; level++)
    {
      int shift = level == 0 ? 21 : level == 1 ? 10 : 0, bits = level == 2 ? 10 : 11;
      __syncthreads ();
      for (int i = threadIdx.x; i < BINS; i += THREADS)
        s->bins[i] = 0;
      if (threadIdx.x == 0 && level == 0)
        s->above = 0;
      __syncthreads ();
      for (int i = threadIdx.x; i < r.n; i += THREADS)
        {
          float z = r.z[i];
          uint32_t key = order_of (z);
          if (key >= floor && (level == 0 || key >> (shift + bits) == prefix))
            atomicAdd (&s->bins[key >> shift & ((1u << bits) - 1)], by_mass ? mass_of (z, r.top) : 1ull);
        }
      __syncthreads ();
      if (threadIdx.x < WARP)
        find_digit (s, 1 << bits, target);
      __syncthreads ();
      if (s->digit < 0)
        return 0;
      prefix = prefix << bits | (uint32_t) s->digit;
    }
  return prefix;
}

__device__ mass
block_mass (search *s, mass own)
{
#pragma unroll
  for (int offset = WARP / 2; offset; offset /= 2)
    own += __shfl_xor_sync (FULL_MASK, own, offset);
  __syncthreads ();
  if (threadIdx.x % WARP == 0)
    s->bins[threadIdx.x / WARP] = own;
  __syncthreads ();
  mass total = 0;
  for (int i = 0; i < THREADS / WARP; i++)
    total += s->bins[i];
  return total;
}

/* Index of the value that is the `count`-th of those equal to the key; r.n where there are fewer. */
__device__ int
find_tie (search *s, const row &r, uint32_t key, mass count)
{
  for (int first = 0; first < r.n; first += THREADS)
    {
      int i = first + threadIdx.x;
      bool equal = i < r.n && order_of (r.z[i]) == key;
      int here = __syncthreads_count (equal);
      if ((mass) here < count)
        {
          count -= here;
          continue;
        }
      if (threadIdx.x == 0) /* rare and short */
        for (int k = first; count > 0; k++)
          if (order_of (r.z[k]) == key && --count == 0)
            s->digit = k;
      __syncthreads ();
      return s->digit;
    }
  return r.n;
}

/* Where top-p cuts: values above `key` stay, and those that equal it up to and with index `last`. */
struct cut
{
  uint32_t key;
  int last;
};

__device__ cut
cut_by_mass (search *s, const row &r, uint32_t floor, float top_p)
{
  cut c = { floor, r.n };
  mass own = 0;
  for (int i = threadIdx.x; i < r.n; i += THREADS)
    if (order_of (r.z[i]) >= floor)
      own += mass_of (r.z[i], r.top);
  mass target = (mass) ceil ((double) top_p * (double) block_mass (s, own));
  uint32_t key = find_cut (s, r, floor, true, target > 0 ? target : 1);
  if (key == 0)
    return c;
  float value = __uint_as_float (key & 0x80000000u ? key & 0x7fffffffu : ~key);
  mass each = mass_of (value, r.top);
  c.key = key;
  if (each > 0)
    c.last = find_tie (s, r, key, (target - s->above + each - 1) / each);
  return c;
}

/* Greatest value of the block, given to every thread. */
__device__ float
block_max (float x, float *shared)
{
  x = warp_max (x);
  if (threadIdx.x % WARP == 0)
    shared[threadIdx.x / WARP] = x;
  __syncthreads ();
  return warp_max (shared[threadIdx.x % WARP]);
}

/* Block (row): leaves scaled logits of what may be drawn, -INFINITY elsewhere. */
__global__ void __launch_bounds__ (THREADS)
filter_rows (float *logits, int vocabulary, dev_sampling s, int first)
{
  __shared__ search found;
  __shared__ float greatest[WARP];
  float *z = logits + (int64_t) blockIdx.x * vocabulary;
  int index = first + blockIdx.x;
  bool greedy = s.temperature == 0, banned = s.ban && s.ban[index] && !greedy;
  float inverse = greedy ? 1.0f : 1.0f / s.temperature, top = -INFINITY;
  const uint32_t *seen = s.seen ? s.seen + (int64_t) s.seen_rows[index] * s.seen_stride : NULL;
  for (int i = threadIdx.x; i < vocabulary; i += THREADS)
    {
      float value = z[i];
      if (seen && (seen[i / 32] >> i % 32 & 1))
        value = value < 0 ? value * s.repetition_penalty : value / s.repetition_penalty;
      value *= inverse;
      /* What is banned leaves before the filters, else they might leave nothing else. */
      for (int k = 0; k < s.n_forbidden && banned; k++)
        if (s.forbidden[k] == i)
          value = -INFINITY;
      z[i] = value;
      top = fmaxf (top, value);
    }
  if (greedy)
    return;
  row r = { z, vocabulary, block_max (top, greatest) };
  uint32_t floor = 1;
  cut c = { 0, vocabulary };
  if (s.top_k > 0 && s.top_k < vocabulary)
    floor = find_cut (&found, r, 1, false, (mass) s.top_k);
  if (s.top_p > 0 && s.top_p < 1)
    c = cut_by_mass (&found, r, floor, s.top_p);
  __syncthreads ();
  for (int i = threadIdx.x; i < vocabulary; i += THREADS)
    {
      float value = z[i];
      uint32_t key = order_of (value);
      bool kept = key >= floor && (key > c.key || (key == c.key && i <= c.last))
                  && (s.min_p <= 0 || expf (value - r.top) >= s.min_p);
      if (!kept)
        z[i] = -INFINITY;
    }
}

__global__ void
mark_seen (const int32_t *tokens, dev_sampling s, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_inputs ();
  if (i < n)
    atomicOr (&s.seen[(int64_t) s.seen_rows[i] * s.seen_stride + tokens[i] / 32], 1u << tokens[i] % 32);
}

void
cuda_filter_rows (struct dev_context *context, float *logits, int vocabulary, const struct dev_sampling *s, int first,
                  int count)
{
  filter_rows<<<count, THREADS, 0, context->stream>>> (logits, vocabulary, *s, first);
  CUDA_LAUNCHED (context, "filters of sampling");
}

void
cuda_mark_seen (struct dev_context *context, const int32_t *tokens, const struct dev_sampling *s, int n)
{
  cuda_launch (context, mark_seen, ceil_div (n, 256), 256, 0, tokens, *s, n);
  CUDA_LAUNCHED (context, "marking what was seen");
}
