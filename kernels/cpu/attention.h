/* SPDX-License-Identifier: Apache-2.0 */

/* What the forward and backward passes of attention share: keys and values of one sequence and group,
 * gathered as float tiles of DEV_KEY_TILE keys. */

#pragma once

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#define TILE DEV_KEY_TILE

typedef float tile __attribute__ ((vector_size (TILE * sizeof (float)), aligned (4)));

/* Keys transposed, so that a tile of scores is a sum over the head size of broadcast times vector. */
CPU_INLINE void
tile_scores (float *scores, const float *q, const float *transposed, int size)
{
  tile sum = { 0 };
  for (int d = 0; d < size; d++)
    sum += q[d] * *(const tile *) (transposed + (size_t) d * TILE);
  *(tile *) scores = sum;
}

/* Number of tiles that hold `keys` keys. */
CPU_INLINE int
tile_count (int keys)
{
  return (keys + TILE - 1) / TILE;
}

/* Gathers keys first_tile*TILE .. keys-1 of group g of sequence s. `rows` (keys, size) and `transposed`
 * (tiles, size, TILE) may be NULL; unused lanes of the last tile are 0. */
void cpu_gather_keys (float *rows, float *transposed, const void *from, const struct dev_attention *,
                      const struct dev_batch *, int s, int g, int first_tile, int keys,
                      enum dev_type type);
