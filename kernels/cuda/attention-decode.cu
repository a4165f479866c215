/* SPDX-License-Identifier: Apache-2.0 */

/* Attention of decoded tokens over the paged cache: one query row per sequence. The query heads of a group are the rows
 * of one tensor-core tile, so that keys are read once for all of them. A block takes a range of
 * the keys (split); its warps take tiles of 16 keys in turn, each with copies of its own in flight. Where the cache holds codes they
 * are copied as such and become bf16 in registers; the scales of keys factor scores, those of values weights. */

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/soft-cap.cuh"

#include <math.h> // defines: INFINITY

#define WARPS 4
#define THREADS (WARPS * WARP)
#define TILE DEV_KEY_TILE
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f
#define MOST_SPLITS 64
#define SPLIT_TILES 4 // tiles of a split at least: one a warp

/* Bytes from a row of codes to the next: four rows lie in different banks. */
template <int D> struct coded_row
{
  static constexpr int stride = D % 128 == 96 ? D : D + 32;
};

template <int D, typename K> struct decode_layout
{
  static constexpr bool coded = is_coded<K>::value;
  static constexpr int stages = D > 128 && !coded ? 2 : 3;
  static constexpr int tile = TILE * (coded ? coded_row<D>::stride : tile_row<D>::stride * (int) sizeof (bf16)); // bytes
  static constexpr int copy = 2 * tile + (coded ? 2 * TILE * (int) sizeof (float) : 0); // keys, values, scales of both
  static constexpr int warp = stages * copy;
  static constexpr int bytes = WARPS * warp;
};

/* How a tile lies in shared memory: codes as bytes. */
template <typename K> struct tile_element
{
  typedef bf16 type;
};

template <> struct tile_element<e4m3>
{
  typedef char type;
};

/* The cache of a layer. */
template <typename K> struct decode_cache
{
  const K *keys, *values;
  const float *key_scales, *value_scales;
  int groups;
};

/* Row of a tile's first key. */
__device__ __forceinline__ int64_t
tile_start (const dev_batch &batch, int s, int tile)
{
  int j = tile * TILE;
  int64_t page = batch.block_table[(int64_t) s * batch.table_stride + j / batch.page_tokens];
  return page * batch.page_tokens + j % batch.page_tokens;
}

template <int D>
__device__ __forceinline__ void
load_tile (char *to, const decode_cache<bf16> &cache, const dev_batch &batch, int s, int tile, int hi, int group)
{
  constexpr int chunks = D / 8;
  int lane = threadIdx.x % WARP, j = tile * TILE;
  int64_t row = tile_start (batch, s, tile);
#pragma unroll
  for (int i = lane; i < TILE * chunks; i += WARP)
    {
      int r = i / chunks, c = i % chunks * 8;
      bool inside = j + r < hi;
      int64_t at = ((row + (inside ? r : 0)) * cache.groups + group) * D + c;
      char *place = to + (r * tile_row<D>::stride + c) * sizeof (bf16);
      copy_16 (place, cache.keys + at, inside);
      copy_16 (place + decode_layout<D, bf16>::tile, cache.values + at, inside);
    }
}

/* The same of codes: keys, values, 16 scales of keys and as many of values. */
template <int D>
__device__ __forceinline__ void
load_tile (char *to, const decode_cache<e4m3> &cache, const dev_batch &batch, int s, int tile, int hi, int group)
{
  constexpr int chunks = D / 16;
  int lane = threadIdx.x % WARP, j = tile * TILE;
  int64_t row = tile_start (batch, s, tile);
#pragma unroll
  for (int i = lane; i < TILE * chunks; i += WARP)
    {
      int r = i / chunks, c = i % chunks * 16;
      bool inside = j + r < hi;
      int64_t at = ((row + (inside ? r : 0)) * cache.groups + group) * D + c;
      char *place = to + r * coded_row<D>::stride + c;
      copy_16 (place, cache.keys + at, inside);
      copy_16 (place + decode_layout<D, e4m3>::tile, cache.values + at, inside);
    }
  bool inside = j + lane % TILE < hi;
  int64_t at = (row + (inside ? lane % TILE : 0)) * cache.groups + group;
  copy_4 (to + 2 * decode_layout<D, e4m3>::tile + lane * sizeof (float), (lane < TILE ? cache.key_scales : cache.value_scales) + at, inside);
}

/* State of a warp: results of 16 rows (heads). */
template <int D> struct decode_rows
{
  float result[D / 8][4];
  float top[2], sum[2];
};

/* Scores of the tile's keys: neighbouring columns c, c + 1 of two times eight keys. */
template <int D>
__device__ __forceinline__ void
multiply_keys (float (&scores)[2][4], const uint32_t (&query)[D / 16][4], const bf16 *keys)
{
  uint32_t b[4];
#pragma unroll
  for (int k = 0; k < D / 16; k++)
    {
      load_b<D> (b, keys, 0, k * 16);
      mma (scores[0], query[k], b[0], b[1]);
      mma (scores[1], query[k], b[2], b[3]);
    }
}

template <int D>
__device__ __forceinline__ void
multiply_values (decode_rows<D> &own, const uint32_t (&weights)[4], const bf16 *values)
{
  uint32_t b[4];
#pragma unroll
  for (int n = 0; n < D / 8; n += 2)
    {
      load_b_transposed<D> (b, values, 0, n * 8);
      mma (own.result[n], weights, b[0], b[1]);
      mma (own.result[n + 1], weights, b[2], b[3]);
    }
}

/* The same from codes. The elements of a head may come in any order if those of the query do: a lane takes eight neighbouring
 * codes of a key for two steps of the product, so that they need not pass through shared memory again. */
template <int D>
__device__ __forceinline__ void
multiply_keys (float (&scores)[2][4], const uint32_t (&query)[D / 16][4], const char *keys)
{
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int k = 0; k < D / 16; k += 2)
      {
        uint2 codes = *(const uint2 *) (keys + (n * 8 + lane / 4) * coded_row<D>::stride + k * 16 + lane % 4 * 8);
        uint2 first = codes_to_bf16 (codes.x), second = codes_to_bf16 (codes.y);
        mma (scores[n], query[k], first.x, first.y);
        mma (scores[n], query[k + 1], second.x, second.y);
      }
}

/* Column j of result n is element j D / 8 + n: a lane takes neighbouring codes of the four values that it multiplies. */
template <int D>
__device__ __forceinline__ void
multiply_values (decode_rows<D> &own, const uint32_t (&weights)[4], const char *values)
{
  constexpr int stride = coded_row<D>::stride, words = D / 8 % 16 == 0 ? 4 : D / 8 % 8 == 0 ? 2 : 1;
  int lane = threadIdx.x % WARP;
  const char *from = values + lane % 4 * 2 * stride + lane / 4 * (D / 8);
#pragma unroll
  for (int first = 0; first < D / 8; first += words * 4)
    {
      pack<uint32_t, words> rows[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        rows[i] = *(const pack<uint32_t, words> *) (from + (i / 2 * 8 + i % 2) * stride + first);
#pragma unroll
      for (int w = 0; w < words; w++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          mma (own.result[first + w * 4 + i], weights, pair_of_codes (rows[0].x[w], rows[1].x[w], i),
               pair_of_codes (rows[2].x[w], rows[3].x[w], i));
    }
}

/* Turns a tile's scores into weights (factored by the scales of its values, where there are scales), and rescales what was summed
 * before. */
template <int D>
__device__ __forceinline__ void
weigh (uint32_t (&weights)[4], float (&scores)[2][4], decode_rows<D> &own, const float *scales, int tile, int lo, int hi,
       float scale, const dev_attention &shape)
{
  int c = threadIdx.x % 4 * 2;
  if (scales)
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        scores[n][i] *= scales[c + n * 8 + i % 2];
  if (shape.soft_cap > 0)
    cap_scores (scores, shape);
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        int j = tile * TILE + c + n * 8 + i % 2;
        if (j < lo || j >= hi)
          scores[n][i] = -INFINITY;
      }
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float top = own.top[half];
#pragma unroll
      for (int n = 0; n < 2; n++)
        top = fmaxf (top, fmaxf (scores[n][2 * half], scores[n][2 * half + 1]));
      top = quad_max (top);
      float base = top == -INFINITY ? 0.0f : top * scale, sum = 0;
      float rescale = exp2_fast (fmaf (own.top[half], scale, -base));
      own.top[half] = top;
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++)
          {
            scores[n][i] = exp2_fast (fmaf (scores[n][i], scale, -base));
            sum += scores[n][i];
          }
      own.sum[half] = own.sum[half] * rescale + sum;
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        {
          own.result[n][2 * half] *= rescale;
          own.result[n][2 * half + 1] *= rescale;
        }
    }
  if (scales)
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        scores[n][i] *= scales[TILE + c + n * 8 + i % 2];
  c_to_a (weights, scores[0], scores[1]);
}

/* Query heads of the group as fragments a, their elements in the order of the keys'; rows beyond `valid` are zeros. */
template <int D, bool coded>
__device__ __forceinline__ void
load_queries (uint32_t (&query)[D / 16][4], const bf16 *q, int valid)
{
  int lane = threadIdx.x % WARP, r = lane / 4, c = lane % 4 * 2;
#pragma unroll
  for (int k = 0; k < D / 16; k++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        int row = r + i % 2 * 8;
        int column = coded ? k / 2 * 32 + c * 4 + k % 2 * 4 + i / 2 * 2 : k * 16 + c + i / 2 * 8;
        query[k][i] = row < valid ? *(const uint32_t *) (q + (int64_t) row * D + column) : 0u;
      }
}

/* Floats of a split's partial row: D and two more, in whole packs of four. */
template <int D> struct partial_stride
{
  static constexpr int value = D + 4;
};

/* Where the pieces of a block end: of a single split in out and lse, else in the partial results. */
struct decode_output
{
  bf16 *out;
  float *lse;
  float *partial; // (S, H, splits, partial_stride): sums, then greatest score and sum of weights
  int splits;
  unsigned *tickets; // of each block's splits; the one that ends last merges them. NULL: merge_splits does
};

/* Merges the warps' results, in their order. */
template <int D, bool coded>
__device__ __forceinline__ void
finish_block (decode_rows<D> &own, float *shared, const decode_output &o, int64_t first_row, int valid, int split,
              float scale)
{
  constexpr int stride = D + 2, partial = partial_stride<D>::value;
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, r = lane / 4, c = lane % 4 * 2;
  __syncthreads ();
#pragma unroll
  for (int half = 0; half < 2; half++)
    {
      float *row = shared + (warp * 16 + r + half * 8) * stride, sum = quad_sum (own.sum[half]);
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        {
          row[coded ? c * (D / 8) + n : n * 8 + c] = own.result[n][2 * half];
          row[coded ? (c + 1) * (D / 8) + n : n * 8 + c + 1] = own.result[n][2 * half + 1];
        }
      if (c == 0)
        {
          row[D] = own.top[half];
          row[D + 1] = sum;
        }
    }
  __syncthreads ();
  for (int i = threadIdx.x; i < valid * D; i += THREADS)
    {
      int row = i / D, d = i % D;
      float top = -INFINITY, sum = 0, value = 0;
      for (int w = 0; w < WARPS; w++)
        top = fmaxf (top, shared[(w * 16 + row) * stride + D]);
      float base = top == -INFINITY ? 0.0f : top * scale;
      for (int w = 0; w < WARPS; w++)
        {
          const float *from = shared + (w * 16 + row) * stride;
          float weight = exp2_fast (fmaf (from[D], scale, -base));
          sum += weight * from[D + 1];
          value += weight * from[d];
        }
      if (o.splits == 1)
        {
          o.out[(first_row + row) * D + d] = (bf16) (value / sum);
          if (o.lse && d == 0)
            o.lse[first_row + row] = (top * scale + log2f (sum)) * LN2;
          continue;
        }
      float *to = o.partial + ((first_row + row) * o.splits + split) * partial;
      to[d] = value;
      if (d == 0)
        {
          to[D] = top;
          to[D + 1] = sum;
        }
    }
}

/* At most 16 rows from first_row on from their splits, at most 8, merged in their order; all threads of a block. All reads are
 * under way at once: eight lanes find the weights of a row, then a thread takes four elements. */
template <int D>
__device__ __forceinline__ void
merge_few (const decode_output &o, int64_t first_row, int rows, float scale)
{
  constexpr int stride = partial_stride<D>::value, most = 8;
  __shared__ float weights[16][most], sums[16];
  int r = threadIdx.x / most, split = threadIdx.x % most;
  bool inside = r < rows && split < o.splits;
  const float *own = o.partial + ((first_row + (inside ? r : 0)) * o.splits + (inside ? split : 0)) * stride + D;
  float own_top = inside ? __ldcg (own) : -INFINITY, sum = inside ? __ldcg (own + 1) : 0.0f, top = own_top;
#pragma unroll
  for (int offset = 1; offset < most; offset *= 2)
    top = fmaxf (top, __shfl_xor_sync (FULL_MASK, top, offset));
  float weight = inside ? exp2_fast (fmaf (own_top, scale, -top * scale)) : 0.0f;
  sum *= weight;
#pragma unroll
  for (int offset = 1; offset < most; offset *= 2)
    sum += __shfl_xor_sync (FULL_MASK, sum, offset);
  weights[r][split] = weight;
  if (split == 0 && r < rows)
    {
      sums[r] = sum;
      if (o.lse)
        o.lse[first_row + r] = (top * scale + log2f (sum)) * LN2;
    }
  __syncthreads ();
  constexpr int packs = D / 4;
#pragma unroll 2
  for (int i = threadIdx.x; i < rows * packs; i += THREADS)
    {
      int row = i / packs, d = i % packs * 4;
      const float *partial = o.partial + (first_row + row) * o.splits * stride + d;
      float4 from[most];
      float value[4] = { 0, 0, 0, 0 };
#pragma unroll
      for (int k = 0; k < most; k++)
        if (k < o.splits)
          from[k] = __ldcg ((const float4 *) (partial + k * stride));
#pragma unroll
      for (int k = 0; k < most; k++)
        if (k < o.splits)
          {
            value[0] += weights[row][k] * from[k].x;
            value[1] += weights[row][k] * from[k].y;
            value[2] += weights[row][k] * from[k].z;
            value[3] += weights[row][k] * from[k].w;
          }
#pragma unroll
      for (int k = 0; k < 4; k++)
        value[k] /= sums[row];
      store_pack (o.out + (first_row + row) * D + d, value);
    }
}

/* The same for any number of rows and splits. A warp takes a row: its lanes the splits' greatest scores first, then four elements each. */
template <int D>
__device__ __forceinline__ void
merge_rows (const decode_output &o, int64_t first_row, int rows, float scale)
{
  constexpr int stride = partial_stride<D>::value, together = 8; // reads in flight
  __shared__ float weights[WARPS][MOST_SPLITS];
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  for (int r = warp; r < rows; r += WARPS)
    {
      int64_t row = first_row + r;
      const float *partial = o.partial + row * o.splits * stride;
      float tops[MOST_SPLITS / WARP], sums[MOST_SPLITS / WARP], top = -INFINITY, sum = 0;
#pragma unroll
      for (int k = 0; k < MOST_SPLITS / WARP; k++)
        {
          int i = lane + k * WARP;
          tops[k] = i < o.splits ? __ldcg (partial + i * stride + D) : -INFINITY;
          sums[k] = i < o.splits ? __ldcg (partial + i * stride + D + 1) : 0.0f;
          top = fmaxf (top, tops[k]);
        }
      top = warp_max (top);
#pragma unroll
      for (int k = 0; k < MOST_SPLITS / WARP; k++)
        {
          float weight = exp2_fast (fmaf (tops[k], scale, -top * scale));
          weights[warp][lane + k * WARP] = weight;
          sum += weight * sums[k];
        }
      sum = warp_sum (sum);
      __syncwarp ();
      for (int d = lane * 4; d < D; d += WARP * 4)
        {
          float value[4] = { 0, 0, 0, 0 };
          for (int first = 0; first < o.splits; first += together)
            {
              float4 from[together];
#pragma unroll
              for (int i = 0; i < together; i++)
                if (first + i < o.splits)
                  from[i] = __ldcg ((const float4 *) (partial + (first + i) * stride + d));
#pragma unroll
              for (int i = 0; i < together; i++)
                if (first + i < o.splits)
                  {
                    float weight = weights[warp][first + i];
                    value[0] += weight * from[i].x;
                    value[1] += weight * from[i].y;
                    value[2] += weight * from[i].z;
                    value[3] += weight * from[i].w;
                  }
            }
#pragma unroll
          for (int k = 0; k < 4; k++)
            value[k] /= sum;
          store_pack (o.out + row * D + d, value);
        }
      if (o.lse && lane == 0)
        o.lse[row] = (top * scale + log2f (sum)) * LN2;
      __syncwarp ();
    }
}

/* The block whose partial results are the last of its splits merges them all. */
template <int D>
__device__ __forceinline__ void
merge_if_last (const decode_output &o, int64_t first_row, int valid, float scale)
{
  __shared__ bool is_last;
  __threadfence ();
  __syncthreads ();
  if (threadIdx.x == 0)
    is_last = atomicInc (&o.tickets[blockIdx.x * gridDim.y + blockIdx.y], o.splits - 1) == (unsigned) o.splits - 1;
  __syncthreads ();
  if (!is_last)
    return;
  __threadfence ();
  if (o.splits <= 8)
    merge_few<D> (o, first_row, valid, scale);
  else
    merge_rows<D> (o, first_row, valid, scale);
}

/* Block (sequence, group and chunk of 16 of its heads, split). */
template <int D, typename K>
__global__ void __launch_bounds__ (THREADS)
tensor_decode (decode_output o, const bf16 *q, decode_cache<K> cache, dev_attention shape, dev_batch batch)
{
  typedef decode_layout<D, K> layout;
  typedef typename tile_element<K>::type element;
  extern __shared__ __align__ (16) char shared[];
  int s = blockIdx.x, per_group = shape.heads / shape.groups, chunks = (per_group + 15) / 16;
  int group = blockIdx.y / chunks, head = group * per_group + blockIdx.y % chunks * 16, split = blockIdx.z;
  int valid = min (16, (group + 1) * per_group - head), warp = threadIdx.x / WARP;
  int t = batch.query_offsets[s], hi = batch.contexts[s];
  if (batch.query_offsets[s + 1] - t != 1)
    {
      wait_for_inputs ();
      return;
    }
  int lo = shape.window && hi > shape.window ? hi - shape.window : 0;
  int first = lo / TILE, last = (hi + TILE - 1) / TILE;
  int each = ((last - first + o.splits - 1) / o.splits + WARPS - 1) / WARPS * WARPS;
  int from = first + split * each + warp, to = min (last, first + (split + 1) * each);
  float scale = shape.scale * LOG2E;
  uint32_t query[D / 16][4];
  decode_rows<D> own;
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      own.result[n][i] = 0;
  own.top[0] = own.top[1] = -INFINITY;
  own.sum[0] = own.sum[1] = 0;
  constexpr int stages = layout::stages;
  char *copies = shared + warp * layout::warp;
  /* The sizes of the pass and all keys but the newest are there before the kernel before this one ends: those of earlier
   * passes were written long ago. */
#pragma unroll
  for (int i = 0; i < stages - 1; i++)
    if (from + i * WARPS < min (to, last - 1))
      load_tile<D> (copies + i * layout::copy, cache, batch, s, from + i * WARPS, hi, group);
  wait_for_inputs ();
  load_queries<D, layout::coded> (query, q + ((int64_t) t * shape.heads + head) * D, valid);
#pragma unroll
  for (int i = 0; i < stages - 1; i++)
    {
      if (from + i * WARPS < to && from + i * WARPS == last - 1)
        load_tile<D> (copies + i * layout::copy, cache, batch, s, from + i * WARPS, hi, group);
      copy_commit ();
    }
  int stage = 0;
  for (int tile = from; tile < to; tile += WARPS)
    {
      int ahead = tile + (stages - 1) * WARPS, free_stage = (stage + stages - 1) % stages;
      if (ahead < to)
        load_tile<D> (copies + free_stage * layout::copy, cache, batch, s, ahead, hi, group);
      copy_commit ();
      copy_wait<stages - 1> ();
      __syncwarp ();
      const char *copied = copies + stage * layout::copy;
      const element *key_tile = (const element *) copied;
      const element *value_tile = (const element *) (copied + layout::tile);
      float scores[2][4] = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } };
      uint32_t weights[4];
      multiply_keys<D> (scores, query, key_tile);
      weigh<D> (weights, scores, own, layout::coded ? (const float *) (copied + 2 * layout::tile) : NULL, tile, lo, hi, scale,
                shape);
      multiply_values<D> (own, weights, value_tile);
      __syncwarp ();
      stage = (stage + 1) % stages;
    }
  copy_wait<0> ();
  finish_block<D, layout::coded> (own, (float *) shared, o, (int64_t) t * shape.heads + head, valid, split, scale);
  if (o.tickets)
    merge_if_last<D> (o, (int64_t) t * shape.heads + head, valid, scale);
}

/* Block (sequence): merges the splits of all its heads, in their order. */
template <int D>
__global__ void
merge_splits (decode_output o, dev_attention shape, dev_batch batch)
{
  wait_for_inputs ();
  int t = batch.query_offsets[blockIdx.x];
  if (batch.query_offsets[blockIdx.x + 1] - t != 1)
    return;
  merge_rows<D> (o, (int64_t) t * shape.heads, shape.heads, shape.scale * LOG2E);
}

/* Number of splits that keeps all multiprocessors busy: the fewest rounds of blocks per piece of work. */
static int
choose_splits (struct dev_context *context, int64_t blocks, int max_context)
{
  int slots = 2 * context->multiprocessors, most = ceil_div (max_context, SPLIT_TILES * TILE), best = 1;
  double best_cost = 1e30;
  for (int splits = 1; splits <= most && splits <= MOST_SPLITS; splits++)
    {
      double cost = (double) ceil_div (blocks * splits, slots) / splits * (splits > 1 ? 1.1 : 1.0) + 0.01 * splits;
      if (cost < best_cost)
        {
          best_cost = cost;
          best = splits;
        }
    }
  return best;
}

template <int D, typename K>
static bool
launch_with (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch)
{
  int bytes = decode_layout<D, K>::bytes, merged = WARPS * 16 * (D + 2) * (int) sizeof (float);
  bytes = bytes > merged ? bytes : merged;
  if (bytes > context->shared_limit
      || cudaFuncSetAttribute (tensor_decode<D, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess
      || cudaFuncSetAttribute (tensor_decode<D, K>, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared)
             != cudaSuccess)
    return false;
  int chunks = ceil_div (shape->heads / shape->groups, 16);
  decode_output o = { (bf16 *) out, lse, NULL, 1, NULL };
  o.splits = choose_splits (context, (int64_t) batch->sequences * shape->groups * chunks, batch->max_context);
  size_t partial = (size_t) batch->tokens * shape->heads * o.splits * partial_stride<D>::value * sizeof (float);
  if (partial > context->workspace_size)
    o.splits = 1;
  o.partial = (float *) context->workspace;
  dim3 grid (batch->sequences, shape->groups * chunks, o.splits);
  if (o.splits > 1 && grid.x * grid.y <= CUDA_TICKETS)
    o.tickets = context->tickets;
  decode_cache<K> cache = { (const K *) kv->k, (const K *) kv->v, kv->k_scales, kv->v_scales, shape->groups };
  cuda_launch (context, tensor_decode<D, K>, grid, THREADS, bytes, o, (const bf16 *) q, cache, *shape, *batch);
  if (o.splits > 1 && !o.tickets)
    cuda_launch (context, merge_splits<D>, batch->sequences, THREADS, 0, o, *shape, *batch);
  CUDA_LAUNCHED (context, "attention_forward");
  return true;
}

template <int D>
static bool
launch (struct dev_context *context, void *out, float *lse, const void *q, const struct dev_kv *kv,
        const struct dev_attention *shape, const struct dev_batch *batch)
{
  WITH_CACHE (kv, bf16, return (launch_with<D, K> (context, out, lse, q, kv, shape, batch)));
}

bool
cuda_attention_tensor_decode (struct dev_context *context, void *out, float *lse, const void *q,
                              const struct dev_kv *kv, const struct dev_attention *shape,
                              const struct dev_batch *batch)
{
  switch (shape->head_size)
    {
    case 64:
      return launch<64> (context, out, lse, q, kv, shape, batch);
    case 96:
      return launch<96> (context, out, lse, q, kv, shape, batch);
    case 128:
      return launch<128> (context, out, lse, q, kv, shape, batch);
    case 256:
      return launch<256> (context, out, lse, q, kv, shape, batch);
    default:
      return false;
    }
}
