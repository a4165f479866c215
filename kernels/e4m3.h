/* SPDX-License-Identifier: Apache-2.0 */

/* The eight-bit floating-point type e4m3 (Micikevicius et al. 2022): a sign, four bits of exponent with bias 7, three of
 * mantissa; no infinity, 0x7f and 0xff are NaN, the greatest value is 448. Keys and values of a cache may be stored so, each
 * row and group with a scale of its own. */

#pragma once

#include <math.h>   // defines: rintf, fabsf
#include <stdint.h> // defines: uint8_t
#include <string.h> // defines: memcpy

#define E4M3_MOST 448.0f

/* The nearest value, of two as near the even one; what is too great becomes the greatest. */
static inline uint8_t
e4m3_from_float (float x)
{
  uint32_t bits;
  float size = fabsf (x);
  memcpy (&bits, &x, sizeof bits);
  uint8_t sign = (uint8_t) (bits >> 24 & 0x80);
  if (!(size <= E4M3_MOST))
    return (uint8_t) (sign | (size != size ? 0x7f : 0x7e));
  if (size < 0.015625f) /* below the least normal: multiples of 2^-9 */
    return (uint8_t) (sign | (uint8_t) rintf (size * 512.0f));
  bits &= 0x7fffffffu;
  bits += 0x7ffffu + (bits >> 20 & 1u);
  return (uint8_t) (sign | (uint8_t) ((bits >> 20) - (120u << 3)));
}

/* The same bits in a float's place are 2^-120 of the value, also below the least normal. */
static inline float
e4m3_to_float (uint8_t code)
{
  uint32_t bits = (uint32_t) (code & 0x80) << 24 | (uint32_t) (code & 0x7f) << 20;
  float x;
  if ((code & 0x7f) == 0x7f)
    bits = 0x7fc00000u;
  memcpy (&x, &bits, sizeof x);
  return x * 1.329227995784916e36f;
}

/* Scale of a row of weights whose greatest size is `most`. */
static inline float
e4m3_row_scale (float most)
{
  float scale = most / E4M3_MOST;
  return scale > 0 ? scale : 1.0f;
}

/* Codes of one head's n elements; returns their scale, the factor of each code. A NaN or an infinity makes the scale one: sizes
 * are compared by their bits. */
static inline float
e4m3_store (uint8_t *codes, const float *x, int n)
{
  uint32_t most_bits = 0, bits;
  float most;
  for (int i = 0; i < n; i++)
    {
      memcpy (&bits, &x[i], sizeof bits);
      bits &= 0x7fffffffu;
      most_bits = bits > most_bits ? bits : most_bits;
    }
  memcpy (&most, &most_bits, sizeof most);
  float factor = most > 0 ? E4M3_MOST / most : 0.0f;
  for (int i = 0; i < n; i++)
    codes[i] = e4m3_from_float (x[i] * factor);
  return most / E4M3_MOST;
}
