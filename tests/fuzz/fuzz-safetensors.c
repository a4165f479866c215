/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: refused, or every element can be read. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <glib/gstdio.h>
#include <unistd.h>

#include "engine/model/safetensors.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static char *path;
  double sum = 0;
  float one;
  if (!path)
    path = g_strdup_printf ("%s/plumbline-fuzz-%d.safetensors", g_get_tmp_dir (), (int) getpid ());
  if (!g_file_set_contents_full (path, (const char *) data, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL))
    return 0;
  g_autoptr (PlumbSafetensors) file = plumb_safetensors_open (path, NULL);
  GPtrArray *list = file ? plumb_safetensors_list (file) : NULL;
  for (guint i = 0; list && i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      for (gsize k = 0; k < tensor->count; k++)
        sum += plumb_tensor_get (tensor, k);
      if (tensor->count > 0)
        plumb_tensor_to_floats (tensor, tensor->count - 1, 1, &one);
    }
  g_unlink (path);
  return sum == 42 ? 0 : 0; /* the sum keeps the reads */
}
