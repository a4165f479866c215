/* SPDX-License-Identifier: Apache-2.0 */

/* What the forward and backward passes of attention share. Keys lie in tiles of 16, as vectors over the keys
 * (transposed) or over the head size, which is padded with zeros to a multiple of 16. Queries are taken in
 * blocks of up to 8 that share the loads of a tile; the arithmetic of each is the same in every block. */

#pragma once

#include "kernels/cpu/context.h"
#include "kernels/cpu/vector.h"

#define TILE DEV_KEY_TILE
#define QUERIES 8

typedef float tile __attribute__ ((vector_size (TILE * sizeof (float)), aligned (4)));

/* Calls BODY (n) with a constant n, so that a block's sums stay in registers. */
#define WITH_CONSTANT_QUERIES(n, BODY)                                                                   \
  do                                                                                                     \
    {                                                                                                    \
      if ((n) == 8)                                                                                      \
        BODY (8);                                                                                        \
      else if ((n) == 4)                                                                                 \
        BODY (4);                                                                                        \
      else if ((n) == 2)                                                                                 \
        BODY (2);                                                                                        \
      else                                                                                               \
        BODY (1);                                                                                        \
    }                                                                                                    \
  while (0)

/* The largest block size of 8, 4, 2 and 1 that fits. */
CPU_INLINE int
block_size (int left)
{
  return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Head size in storage: a multiple of TILE. */
CPU_INLINE int
padded_size (int size)
{
  return (size + TILE - 1) / TILE * TILE;
}

CPU_INLINE int
tile_count (int keys)
{
  return (keys + TILE - 1) / TILE;
}

/* Macros, because a function may not take or return a vector that its target lacks registers for. */
#define LOAD_TILE(from) (*(const tile *) (from))
#define STORE_TILE(to, value) (*(tile *) (to) = (value))

/* n queries against one tile of transposed rows: out[i] = sum over d of q[i][d] rows[d]. */
CPU_INLINE void
tile_products (tile *out, const float *q, const float *transposed, int n, int size, int padded)
{
  for (int i = 0; i < n; i++)
    out[i] = (tile){ 0 };
  for (int d = 0; d < size; d++)
    {
      tile row = LOAD_TILE (transposed + (size_t) d * TILE);
      for (int i = 0; i < n; i++)
        out[i] += q[(size_t) i * padded + d] * row;
    }
}

/* The queries of a group of a sequence, numbered token by token, head by head. */
struct queries
{
  const struct dev_attention *shape;
  const struct dev_batch *batch;
  int s, g, first, count; /* first query row of the sequence; queries in all */
  int start;              /* position of the first query */
};

struct queries cpu_queries (const struct dev_attention *, const struct dev_batch *, int s, int g);

/* Query `index`: row of the batch, head, and keys lo .. hi-1 that it sees. */
struct query
{
  int row, head, lo, hi;
};

CPU_INLINE struct query
query_at (const struct queries *q, int index)
{
  int per_group = q->shape->heads / q->shape->groups;
  int token = index / per_group, hi = q->start + token + 1;
  int window = q->shape->window;
  return (struct query){ q->first + token, q->g * per_group + index % per_group,
                         window && hi > window ? hi - window : 0, hi };
}

/* Loads n rows of (T, H, D) as float rows of the padded size, times `factor`. */
void cpu_load_queries (float *to, const void *from, const struct queries *, int index, int n, float factor,
                       enum dev_type type);

/* Gathers keys of a sequence and group from the tile that holds key `oldest` on. `rows` (keys, padded) and
 * `transposed` (tiles, size, TILE) may be NULL; `scales` are those of e4m3 codes, or NULL. Lanes beyond the last key are 0. */
void cpu_gather_keys (float *rows, float *transposed, const void *from, const float *scales,
                      const struct queries *, int oldest, int keys, enum dev_type type);
