/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "tests/parity/spoil.h"

static void
change_one (PlumbTensorOut *out, gsize count, void *data, Spoil spoil)
{
  gsize i = count / 2;
  g_assert_true (count > 0);
  if (out->type == PLUMB_TENSOR_I32)
    ((gint32 *) data)[i] += 1;
  else if (out->type == PLUMB_TENSOR_I64)
    ((gint64 *) data)[i] += 1;
  else if (out->type == PLUMB_TENSOR_F64)
    ((double *) data)[i] = spoil == SPOIL_NAN ? NAN : ((double *) data)[i] + 10;
  else
    {
      g_assert_cmpint (out->type, ==, PLUMB_TENSOR_F32);
      ((float *) data)[i] = spoil == SPOIL_NAN ? NAN : ((float *) data)[i] + 10;
    }
}

void
spoil_file (const char *from, const char *to, const char *key, Spoil spoil)
{
  static const float extra = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (from, &error);
  g_assert_no_error (error);
  GPtrArray *list = plumb_safetensors_list (tensors);
  g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (g_free);
  g_autofree PlumbTensorOut *out = g_new0 (PlumbTensorOut, list->len + 1);
  gsize n = 0;
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      gboolean here = g_str_equal (tensor->name, key);
      if (here && spoil == SPOIL_MISSING)
        continue;
      PlumbTensorOut *one = &out[n++];
      void *data = g_memdup2 (tensor->data, MAX (1, tensor->count * plumb_tensor_type_size (tensor->type)));
      g_ptr_array_add (copies, data);
      *one = (PlumbTensorOut){ .name = tensor->name, .type = tensor->type, .dimensions = tensor->dimensions,
                               .data = data };
      memcpy (one->shape, tensor->shape, sizeof one->shape);
      if (here && (spoil == SPOIL_VALUE || spoil == SPOIL_NAN))
        change_one (one, tensor->count, data, spoil);
      if (here && spoil == SPOIL_SHORTER)
        one->shape[0]--;
    }
  if (spoil == SPOIL_EXTRA)
    out[n++] = (PlumbTensorOut){ .name = "zz.unknown", .type = PLUMB_TENSOR_F32, .dimensions = 1, .shape = { 1 },
                                 .data = &extra };
  plumb_safetensors_write (to, out, n, NULL, &error);
  g_assert_no_error (error);
}
