/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Tensors of a safetensors file, or of the shards that an index lists, mapped into memory. */
typedef struct _PlumbSafetensors PlumbSafetensors;

typedef enum
{
  PLUMB_TENSOR_F32,
  PLUMB_TENSOR_BF16,
  PLUMB_TENSOR_F16,
  PLUMB_TENSOR_F64,
  PLUMB_TENSOR_I32,
  PLUMB_TENSOR_I64,
} PlumbTensorType;

#define PLUMB_TENSOR_MAX_DIMENSIONS 8

typedef struct
{
  char *name;
  PlumbTensorType type;
  int dimensions;
  gint64 shape[PLUMB_TENSOR_MAX_DIMENSIONS];
  gsize count;        /* elements */
  const guint8 *data; /* (count) little-endian; may be unaligned */
  const char *file;
} PlumbTensor;

/* Opens one file. Sizes, overlaps and offsets of the header are checked before use. */
PlumbSafetensors *plumb_safetensors_open (const char *path, GError **error);
/* Opens DIR/model.safetensors, else the shards of DIR/model.safetensors.index.json. */
PlumbSafetensors *plumb_safetensors_open_model (const char *dir, GError **error);
void plumb_safetensors_free (PlumbSafetensors *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSafetensors, plumb_safetensors_free)

const PlumbTensor *plumb_safetensors_find (PlumbSafetensors *self, const char *name);
/* A value of the header's __metadata__, or NULL. */
const char *plumb_safetensors_metadata (PlumbSafetensors *self, const char *key);
/* All tensors in the order of their names. */
GPtrArray *plumb_safetensors_list (PlumbSafetensors *self);

/* "F32" and so on. */
const char *plumb_tensor_type_name (PlumbTensorType type);
gsize plumb_tensor_type_size (PlumbTensorType type);
/* Element i as a double. */
double plumb_tensor_get (const PlumbTensor *tensor, gsize i);
/* Elements first..first+n-1 as floats. */
void plumb_tensor_to_floats (const PlumbTensor *tensor, gsize first, gsize n, float *to);

/* What a writer puts into a file; `fill` gives the bytes of a tensor piece by piece. */
typedef struct
{
  const char *name;
  PlumbTensorType type; /* F32 or BF16 */
  int dimensions;
  gint64 shape[PLUMB_TENSOR_MAX_DIMENSIONS];
  const void *data; /* (count) of type */
} PlumbTensorOut;

/* Writes a file aside, syncs it and renames it into place. `metadata` is {"format": "pt"} and so on, pairs
 * of key and value ending in NULL, or NULL. */
gboolean plumb_safetensors_write (const char *path, const PlumbTensorOut *tensors, gsize n,
                                  const char *const *metadata, GError **error);

G_END_DECLS
