/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/device.h"
#include "engine/model/model-config.h"
#include "engine/model/safetensors.h"

G_BEGIN_DECLS

/* What a weight is to the decoder. */
typedef enum
{
  PLUMB_WEIGHT_EMBED,
  PLUMB_WEIGHT_INPUT_NORM,
  PLUMB_WEIGHT_Q,
  PLUMB_WEIGHT_K,
  PLUMB_WEIGHT_V,
  PLUMB_WEIGHT_Q_BIAS,
  PLUMB_WEIGHT_K_BIAS,
  PLUMB_WEIGHT_V_BIAS,
  PLUMB_WEIGHT_Q_NORM,
  PLUMB_WEIGHT_K_NORM,
  PLUMB_WEIGHT_O,
  PLUMB_WEIGHT_POST_NORM,
  PLUMB_WEIGHT_GATE,
  PLUMB_WEIGHT_UP,
  PLUMB_WEIGHT_DOWN,
  PLUMB_WEIGHT_FINAL_NORM,
  PLUMB_WEIGHT_HEAD,
  PLUMB_WEIGHT_SCORE,
} PlumbWeightRole;

/* One row of the table: everything that loading, saving, sharding, syncing and training need to know. */
typedef struct
{
  char *name;          /* Hugging Face name */
  PlumbWeightRole role;
  int block;           /* layer, or -1 */
  int dimensions;
  gint64 shape[2];
  gsize count;         /* elements */
  gsize first;         /* element offset; x type size = byte offset */
  int fuse;            /* members of one fuse group lie end to end; -1: none */
  int tensor_axis;     /* axis that tensor parallelism cuts, -1: replicated */
  gboolean decay;      /* weight decay applies (matrices) */
  gboolean trainable;
} PlumbWeight;

/* All weights of a decoder, in one address space of `elements`; a group starts at a multiple of DEV_ALIGN
 * bytes for every type. A tied head has no row. */
typedef struct
{
  GArray *rows; /* of PlumbWeight */
  gsize elements;
} PlumbWeightTable;

PlumbWeightTable *plumb_weight_table_new (const PlumbModelConfig *config);
void plumb_weight_table_free (PlumbWeightTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbWeightTable, plumb_weight_table_free)

static inline const PlumbWeight *
plumb_weight_table_row (const PlumbWeightTable *table, guint i)
{
  return &g_array_index (table->rows, PlumbWeight, i);
}

/* The row of a role and block, or NULL. */
const PlumbWeight *plumb_weight_table_find (const PlumbWeightTable *table, PlumbWeightRole role,
                                            int block);

/* Whether a model's tensors are those of the table: every row must be there with its shape. A tensor that the
 * table does not know is an error too, but for those that transformers also ignores. To be asked before memory is
 * taken: a config may claim any size. */
gboolean plumb_weights_check (const PlumbWeightTable *table, const PlumbModelConfig *config,
                              PlumbSafetensors *tensors, GError **error);

/* Checks, then fills an arena of `type` (table order). */
gboolean plumb_weights_load (PlumbDevice *device, const PlumbWeightTable *table,
                             const PlumbModelConfig *config, void *arena, enum dev_type type,
                             PlumbSafetensors *tensors, GError **error);

/* Fresh weights: normal with deviation sqrt (2 / (5 width)) (Nguyen and Salazar 2019; 0.02 at width 1000), output
 * projections divided by sqrt (2 layers), norms 1, by Philox. */
void plumb_weights_initialise (PlumbDevice *device, const PlumbWeightTable *table,
                               const PlumbModelConfig *config, void *arena, enum dev_type type,
                               guint64 seed);

/* A fresh score head: normal with deviation 1 / (width + 1), by Philox. */
void plumb_weights_initialise_score (PlumbDevice *device, const PlumbWeightTable *table, void *arena,
                                     enum dev_type type, guint64 seed);

/* Writes rows as safetensors of their type. `arena` is device memory in table order. */
gboolean plumb_weights_save (PlumbDevice *device, const PlumbWeightTable *table, const void *arena,
                             enum dev_type type, const char *path, GError **error);

G_END_DECLS
