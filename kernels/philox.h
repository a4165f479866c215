/* SPDX-License-Identifier: Apache-2.0 */

/* Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). */

#pragma once

#include "kernels/cpu/vector.h"

CPU_INLINE void
philox_4x32_10 (uint32_t out[4], const uint32_t counter[4], uint64_t key)
{
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = (uint32_t) key, k1 = (uint32_t) (key >> 32);
  for (int round = 0; round < 10; round++)
    {
      uint64_t p0 = (uint64_t) 0xD2511F53u * c0;
      uint64_t p1 = (uint64_t) 0xCD9E8D57u * c2;
      uint32_t n0 = (uint32_t) (p1 >> 32) ^ c1 ^ k0;
      uint32_t n2 = (uint32_t) (p0 >> 32) ^ c3 ^ k1;
      c1 = (uint32_t) p1;
      c3 = (uint32_t) p0;
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* Uniform in (0, 1), never 0 or 1. */
CPU_INLINE float
philox_uniform (uint32_t word)
{
  return ((float) (word >> 9) + 0.5f) * (1.0f / 8388608.0f);
}
