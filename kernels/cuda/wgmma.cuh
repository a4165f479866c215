/* SPDX-License-Identifier: Apache-2.0 */

/* Tensor-core products of a warpgroup (Hopper: m64nNk16, bf16 in, float out). The rows of c lie in the lanes as those of the
 * m16n8 tiles of mma.cuh, 16 rows a warp. Tiles in shared memory are blocks of 64 columns, 128 bytes a row, whose pieces of
 * 16 bytes lie at their number exclusive-or the row's within eight: no two of eight rows meet in a bank. A tile begins at
 * a multiple of 1,024 bytes. */

#pragma once

#include "kernels/cuda/mma.cuh"

/* wgmma exists in machine code for sm_90a alone. */
#if defined __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

#define WARPGROUP 128

/* Where piece `piece` of 16 bytes of row r of a tile of ROWS rows lies, in elements. */
template <int ROWS>
__device__ __forceinline__ int
swizzled (int r, int piece)
{
  return piece / 8 * ROWS * 64 + r * 64 + (piece % 8 ^ r % 8) * 8;
}

/* Describes a tile to wgmma: where it begins, and the distances of blocks of 64 columns (where its rows are k) and of eight
 * rows. */
template <int ROWS>
__device__ __forceinline__ uint64_t
describe (const bf16 *tile)
{
  uint64_t address = (shared_address (tile) & 0x3ffff) >> 4, blocks = ROWS * 128 >> 4, rows = 1024 >> 4;
  return address | blocks << 16 | rows << 32 | 1ull << 62;
}

/* From a tile's description to that of its part for a step: columns k .. k + 15 where its rows are m or n. */
template <int ROWS>
__device__ __forceinline__ uint64_t
columns_from (uint64_t tile, int k)
{
  return tile + ((k / 64 * ROWS * 64 + k % 64) * 2 >> 4);
}

/* Rows k .. k + 15 of an operand b whose rows are k. */
__device__ __forceinline__ uint64_t
rows_from (uint64_t tile, int k)
{
  return tile + (k * 128 >> 4);
}

/* Copies ROWS rows of D elements, `stride` elements apart, into a tile, all THREADS of the block together; rows at and beyond
 * `count` become zeros. */
template <int D, int ROWS, int THREADS>
__device__ __forceinline__ void
load_swizzled (bf16 *to, const bf16 *from, int64_t stride, int count)
{
  constexpr int pieces = D / 8, together = THREADS / pieces; // rows of a step, a multiple of eight
  int piece = threadIdx.x % pieces, r = threadIdx.x / pieces;
  const bf16 *source = from + r * stride + piece * 8;
  bf16 *place = to + swizzled<ROWS> (r, piece);
#pragma unroll
  for (int k = 0; k < ROWS / together; k++)
    {
      bool inside = r + k * together < count;
      copy_16 (place + k * together * 64, inside ? source : from, inside);
      source += together * stride;
    }
}

__device__ __forceinline__ void
wgmma_begin ()
{
#if HAS_WGMMA
  asm volatile ("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void
wgmma_commit ()
{
#if HAS_WGMMA
  asm volatile ("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

/* Waits until at most N groups are under way. */
template <int N>
__device__ __forceinline__ void
wgmma_wait ()
{
#if HAS_WGMMA
  asm volatile ("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
#endif
}

/* What threads stored or copied to shared memory becomes visible to wgmma; before the barrier. */
__device__ __forceinline__ void
publish_shared ()
{
#if HAS_WGMMA
  asm volatile ("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

/* Keeps the compiler from moving what touches these registers across this place. */
template <int N>
__device__ __forceinline__ void
pin (float (&c)[N][4])
{
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      asm volatile ("" : "+f"(c[n][i])::"memory");
}

#define FOUR(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define PLACES_32                                                                                                     \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
  "%24, %25, %26, %27, %28, %29, %30, %31}"
#define PLACES_64                                                                                                     \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

/* c (64 x 64) = a b^T, or += where `add`; both with their rows along k in shared memory. */
__device__ __forceinline__ void
wgmma_shared (float (&c)[8][4], uint64_t a, uint64_t b, int add)
{
#if HAS_WGMMA
  asm volatile ("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLACES_32 ", %32, %33, p, 1, 1, 0, 0;\n}\n"
                : FOUR (0), FOUR (1), FOUR (2), FOUR (3), FOUR (4), FOUR (5), FOUR (6), FOUR (7)
                : "l"(a), "l"(b), "r"(add));
#endif
}

/* c (64 x 64) += a b with a in registers and b's rows across k. */
__device__ __forceinline__ void
wgmma_registers (float (&c)[8][4], const uint32_t (&a)[4], uint64_t b)
{
#if HAS_WGMMA
  asm volatile ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLACES_32
                ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                : FOUR (0), FOUR (1), FOUR (2), FOUR (3), FOUR (4), FOUR (5), FOUR (6), FOUR (7)
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

/* The same for 128 columns. */
__device__ __forceinline__ void
wgmma_registers (float (&c)[16][4], const uint32_t (&a)[4], uint64_t b)
{
#if HAS_WGMMA
  asm volatile ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " PLACES_64
                ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
                : FOUR (0), FOUR (1), FOUR (2), FOUR (3), FOUR (4), FOUR (5), FOUR (6), FOUR (7), FOUR (8), FOUR (9),
                  FOUR (10), FOUR (11), FOUR (12), FOUR (13), FOUR (14), FOUR (15)
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}
