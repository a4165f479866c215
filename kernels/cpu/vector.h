/* SPDX-License-Identifier: Apache-2.0 */

/* Vector building blocks of the CPU ops. Row functions carry CPU_CLONES, so that the compiler makes an
 * AVX-512, an AVX2 and a baseline copy and the loader picks one; they hold no OpenMP region, because its
 * outlined body would be compiled for the baseline only. Loops over rows live in the callers. */

#pragma once

#include "kernels/device.h"

#include <string.h> // defines: memcpy

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CPU_CLONES                                                                                       \
  __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize ("O3")))
#else
#define CPU_CLONES
#endif

#define CPU_INLINE static inline __attribute__ ((always_inline))

typedef uint16_t bf16;

CPU_INLINE float
bf16_to_float (bf16 value)
{
  uint32_t bits = (uint32_t) value << 16;
  float result;
  memcpy (&result, &bits, sizeof result);
  return result;
}

/* Round to nearest even; a NaN stays a NaN. */
CPU_INLINE bf16
bf16_from_float (float value)
{
  uint32_t bits;
  memcpy (&bits, &value, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t nan = (bits >> 16) | 0x40;
  return (bf16) ((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* Limits of vector_exp's argument, -87 and 88. They lie in another file on purpose: a compiler that knows them
 * computes the clamped lanes apart, with quotients that are denormal and fifty times slower. */
extern const float cpu_exp_low, cpu_exp_high;

/* exp (x) within 2 ulp for x in [-87, 88], clamped outside. Cody-Waite reduction, degree 6. */
CPU_INLINE float
vector_exp (float x)
{
  x = x < cpu_exp_low ? cpu_exp_low : x;
  x = x > cpu_exp_high ? cpu_exp_high : x;
  float shifted = x * 1.44269504088896341f + 12582912.0f;
  float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t exponent = (int32_t) n;
  uint32_t bits = (uint32_t) (exponent + 127) << 23;
  float scale;
  memcpy (&scale, &bits, sizeof scale);
  return p * scale;
}

/* log (x) within 2 ulp for positive normal x. */
CPU_INLINE float
vector_log (float x)
{
  uint32_t bits;
  memcpy (&bits, &x, sizeof bits);
  int32_t exponent = (int32_t) ((bits - 0x3f3504f3u) >> 23);
  exponent = exponent >= 256 ? exponent - 512 : exponent;
  bits -= (uint32_t) exponent << 23;
  float m;
  memcpy (&m, &bits, sizeof m);
  float f = m - 1.0f;
  float z = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  float e = (float) exponent;
  float y = f * z * p + e * -2.12194440e-4f - 0.5f * z;
  return f + y + e * 0.693359375f;
}

/* Rows between their storage type and float. */
void cpu_row_load (float *to, const void *from, size_t n, enum dev_type type);
void cpu_row_store (void *to, const float *from, size_t n, enum dev_type type);

/* Sums, multiples and products of float rows. */
void cpu_row_add (float *to, const float *from, int n);
void cpu_row_scale (float *x, float factor, int n);
float cpu_row_dot (const float *a, const float *b, int n);

/* Element i of a typed array. */
CPU_INLINE const void *
typed_at (const void *base, size_t i, enum dev_type type)
{
  return (const char *) base + i * dev_type_size (type);
}

CPU_INLINE void *
typed_at_mut (void *base, size_t i, enum dev_type type)
{
  return (char *) base + i * dev_type_size (type);
}
