/* SPDX-License-Identifier: Apache-2.0 */

/* Tensor-core products of one warp (m16n8k16, bf16 in, float out) and the moves around them. Fragments, with
 * r = lane / 4 and c = lane % 4 * 2:
 *   a (16 x 16, row-major): 0 (r, c), 1 (r + 8, c), 2 (r, c + 8), 3 (r + 8, c + 8), two elements each;
 *   b (16 x 8, of k and n): 0 (k = c, n = r), 1 (k = c + 8, n = r);
 *   c (16 x 8): 0 and 1 (r, c), 2 and 3 (r + 8, c). */

#pragma once

#include "kernels/cuda/context.cuh"

__device__ __forceinline__ void
mma (float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  asm volatile ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};\n"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t
shared_address (const void *pointer)
{
  return (uint32_t) __cvta_generic_to_shared (pointer);
}

__device__ __forceinline__ void
load_matrices (uint32_t (&to)[4], const void *from)
{
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                : "r"(shared_address (from)));
}

__device__ __forceinline__ void
load_matrices_transposed (uint32_t (&to)[4], const void *from)
{
  asm volatile ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                : "r"(shared_address (from)));
}

/* Rows of a tile in shared memory are 16 bytes longer than D elements, so that eight rows lie in different banks. */
template <int D> struct tile_row
{
  static constexpr int stride = D + 8;
};

/* Fragment a of rows row..row+15, columns column..column+15 of a tile. */
template <int D>
__device__ __forceinline__ void
load_a (uint32_t (&a)[4], const bf16 *tile, int row, int column)
{
  int lane = threadIdx.x % WARP;
  load_matrices (a, tile + (row + lane % 16) * tile_row<D>::stride + column + lane / 16 * 8);
}

/* Fragments b of two neighbouring n tiles where the tile holds n in its rows: b (k, n) = tile (n, k).
 * to[0], to[1] belong to n..n+7, to[2], to[3] to n+8..n+15. */
template <int D>
__device__ __forceinline__ void
load_b (uint32_t (&b)[4], const bf16 *tile, int n, int k)
{
  int lane = threadIdx.x % WARP;
  load_matrices (b, tile + (n + lane % 8 + lane / 16 * 8) * tile_row<D>::stride + k + lane / 8 % 2 * 8);
}

/* The same where the tile holds k in its rows: b (k, n) = tile (k, n). */
template <int D>
__device__ __forceinline__ void
load_b_transposed (uint32_t (&b)[4], const bf16 *tile, int k, int n)
{
  int lane = threadIdx.x % WARP;
  load_matrices_transposed (b, tile + (k + lane % 16) * tile_row<D>::stride + n + lane / 16 * 8);
}

__device__ __forceinline__ uint32_t
pack_bf16 (float low, float high)
{
  __nv_bfloat162 pair = __floats2bfloat162_rn (low, high);
  return *reinterpret_cast<uint32_t *> (&pair);
}

/* Two neighbouring c tiles (16 x 16) as fragment a. */
__device__ __forceinline__ void
c_to_a (uint32_t (&a)[4], const float (&left)[4], const float (&right)[4])
{
  a[0] = pack_bf16 (left[0], left[1]);
  a[1] = pack_bf16 (left[2], left[3]);
  a[2] = pack_bf16 (right[0], right[1]);
  a[3] = pack_bf16 (right[2], right[3]);
}

/* Copies 16 bytes beside the arithmetic; with `inside` false they become zeros. */
__device__ __forceinline__ void
copy_16 (void *to, const void *from, bool inside)
{
  int bytes = inside ? 16 : 0;
  asm volatile ("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address (to)), "l"(from), "r"(bytes));
}

/* The codes in the upper bytes of two halves as bf16, without their scale. The same bits in a bf16's place are 2^-120 of the
 * value, also below the least normal. */
__device__ __forceinline__ uint32_t
bits_to_bf16 (uint32_t halves)
{
  const uint32_t factor = 0x7b807b80u; // 2^120, twice
  uint32_t bits = (halves & 0x80008000u) | (halves >> 4 & 0x07f007f0u);
  __nv_bfloat162 pair = __hmul2 (*reinterpret_cast<__nv_bfloat162 *> (&bits),
                                 *reinterpret_cast<const __nv_bfloat162 *> (&factor));
  return *reinterpret_cast<uint32_t *> (&pair);
}

/* Four codes, two and two. */
__device__ __forceinline__ uint2
codes_to_bf16 (uint32_t codes)
{
  return make_uint2 (bits_to_bf16 (__byte_perm (codes, codes, 0x1100)), bits_to_bf16 (__byte_perm (codes, codes, 0x3322)));
}

/* Code i of two rows as bf16, the first row's in the lower half. What lies in the other bytes is masked away. */
__device__ __forceinline__ uint32_t
pair_of_codes (uint32_t first, uint32_t second, int i)
{
  uint32_t both = __byte_perm (first, second, (4 + i) << 12 | (4 + i) << 8 | i << 4 | i);
  return bits_to_bf16 (both);
}

/* Eight elements of a cache's row as bf16 in shared memory, zeros where not inside; `row` numbers row and group. */
__device__ __forceinline__ void
copy_cached (bf16 *to, const bf16 *from, const float *, int64_t, bool inside)
{
  copy_16 (to, from, inside);
}

__device__ __forceinline__ void
copy_cached (bf16 *to, const e4m3 *from, const float *scales, int64_t row, bool inside)
{
  uint2 codes = inside ? *reinterpret_cast<const uint2 *> (from) : make_uint2 (0, 0);
  float scale = inside ? scales[row] : 0.0f;
  uint2 low = codes_to_bf16 (codes.x), high = codes_to_bf16 (codes.y);
  uint32_t pairs[4] = { low.x, low.y, high.x, high.y };
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      float2 x = __bfloat1622float2 (*reinterpret_cast<__nv_bfloat162 *> (&pairs[i]));
      pairs[i] = pack_bf16 (x.x * scale, x.y * scale);
    }
  *reinterpret_cast<uint4 *> (to) = make_uint4 (pairs[0], pairs[1], pairs[2], pairs[3]);
}

__device__ __forceinline__ void
copy_4 (void *to, const void *from, bool inside)
{
  int bytes = inside ? 4 : 0;
  asm volatile ("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address (to)), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void
copy_commit ()
{
  asm volatile ("cp.async.commit_group;\n");
}

template <int N>
__device__ __forceinline__ void
copy_wait ()
{
  asm volatile ("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ float
exp2_fast (float x)
{
  float y;
  asm ("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

/* Over the four lanes that share a row. */
__device__ __forceinline__ float
quad_max (float x)
{
  x = fmaxf (x, __shfl_xor_sync (FULL_MASK, x, 1));
  return fmaxf (x, __shfl_xor_sync (FULL_MASK, x, 2));
}

__device__ __forceinline__ float
quad_sum (float x)
{
  x += __shfl_xor_sync (FULL_MASK, x, 1);
  return x + __shfl_xor_sync (FULL_MASK, x, 2);
}

/* Tile `block` of BM query rows over all sequences: finds the sequence and the tile in it; false beyond the last.
 * Later tiles of a sequence come first: they have the most keys. */
template <int BM>
__device__ __forceinline__ bool
find_tile (const dev_batch &batch, int block, int *sequence, int *tile)
{
  int lane = threadIdx.x % WARP, before = 0;
  for (int first = 0; first < batch.sequences; first += WARP)
    {
      int s = first + lane, count = 0;
      if (s < batch.sequences)
        count = (batch.query_offsets[s + 1] - batch.query_offsets[s] + BM - 1) / BM;
      int sum = count;
#pragma unroll
      for (int offset = 1; offset < WARP; offset *= 2)
        {
          int other = __shfl_up_sync (FULL_MASK, sum, offset);
          sum += lane >= offset ? other : 0;
        }
      unsigned reached = __ballot_sync (FULL_MASK, before + sum > block);
      if (reached)
        {
          int found = __ffs (reached) - 1;
          int end = before + __shfl_sync (FULL_MASK, sum, found);
          *sequence = first + found;
          *tile = end - 1 - block;
          return true;
        }
      before += __shfl_sync (FULL_MASK, sum, WARP - 1);
    }
  return false;
}
