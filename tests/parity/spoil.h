/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/safetensors.h"

G_BEGIN_DECLS

/* Copies of safetensors files with a change. */
typedef enum
{
  SPOIL_NOTHING,
  SPOIL_VALUE,   /* one element moves by ten, or an integer by one */
  SPOIL_NAN,     /* one element of a float tensor becomes NaN */
  SPOIL_MISSING, /* the key is left out */
  SPOIL_EXTRA,   /* a key that nobody knows comes in, beside it */
  SPOIL_SHORTER, /* a vector with one element less */
} Spoil;

/* Writes `to` from `from` with the change at `key`. */
void spoil_file (const char *from, const char *to, const char *key, Spoil spoil);

G_END_DECLS
