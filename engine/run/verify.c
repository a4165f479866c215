/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/run/verify.h"

struct _PlumbVerify
{
  PlumbSafetensors *expected; /* borrowed */
  GHashTable *used;           /* names of tensors */
  gboolean quiet;
  char *prefix; /* restriction, or NULL */
  int compared, failed;
};

PlumbVerify *
plumb_verify_new (PlumbSafetensors *expected, gboolean quiet)
{
  PlumbVerify *self = g_new0 (PlumbVerify, 1);
  self->expected = expected;
  self->quiet = quiet;
  self->used = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return self;
}

void
plumb_verify_free (PlumbVerify *self)
{
  if (!self)
    return;
  g_hash_table_unref (self->used);
  g_free (self->prefix);
  g_free (self);
}

void
plumb_verify_restrict (PlumbVerify *self, const char *prefix)
{
  g_free (self->prefix);
  self->prefix = g_strdup (prefix);
}

/* Whether a key belongs to what is being verified. */
static gboolean
in_scope (const PlumbVerify *self, const char *key)
{
  const char *dot = strchr (key, '.');
  if (!self->prefix || !dot || g_str_has_prefix (key, "seq."))
    return TRUE;
  return g_str_has_prefix (key, self->prefix) && key[strlen (self->prefix)] == '.';
}

static void
complain (PlumbVerify *self, const char *key, const char *what)
{
  self->failed++;
  g_print ("%-44s %s\n", key, what);
}

const PlumbTensor *
plumb_verify_expect (PlumbVerify *self, gsize count, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *key = g_strdup_vprintf (format, args);
  va_end (args);
  const PlumbTensor *tensor = plumb_safetensors_find (self->expected, key);
  if (!tensor)
    {
      complain (self, key, "MISSING from the file");
      return NULL;
    }
  g_hash_table_add (self->used, g_strdup (key));
  if (count && tensor->count != count)
    {
      complain (self, key, "has another number of elements than this model gives");
      return NULL;
    }
  for (gsize i = 0; i < tensor->count; i++)
    if (!isfinite (plumb_tensor_get (tensor, i)))
      {
        complain (self, key, "the expected value is NaN or infinite");
        return NULL;
      }
  return tensor;
}

gboolean
plumb_verify_has (PlumbVerify *self, const char *key)
{
  return plumb_safetensors_find (self->expected, key) != NULL;
}

void
plumb_verify_record (PlumbVerify *self, const char *key, const char *measure, double error, double bound)
{
  gboolean good = error <= bound;
  self->compared++;
  self->failed += !good;
  if (!good || !self->quiet)
    g_print ("%-52s %-14s %10.3g  bound %8.3g  %s\n", key, measure, error, bound, good ? "ok" : "FAILED");
}

void
plumb_verify_absolute (PlumbVerify *self, const PlumbTensor *expected, const float *values, double bound)
{
  double worst = 0;
  if (!expected)
    return;
  for (gsize i = 0; i < expected->count; i++)
    {
      double error = fabs (values[i] - plumb_tensor_get (expected, i));
      worst = error > worst || isnan (error) ? error : worst;
      if (isnan (worst))
        break;
    }
  plumb_verify_record (self, expected->name, "absolute", worst, bound);
}

void
plumb_verify_relative (PlumbVerify *self, const PlumbTensor *expected, const float *values, double bound)
{
  double difference = 0, size = 0;
  if (!expected)
    return;
  for (gsize i = 0; i < expected->count; i++)
    {
      double want = plumb_tensor_get (expected, i);
      difference += (values[i] - want) * (values[i] - want);
      size += want * want;
    }
  plumb_verify_record (self, expected->name, "relative L2",
                       size > 0 ? sqrt (difference / size) : sqrt (difference), bound);
}

void
plumb_verify_each_relative (PlumbVerify *self, const PlumbTensor *expected, const double *values,
                            double bound)
{
  double worst = 0;
  if (!expected)
    return;
  for (gsize i = 0; i < expected->count; i++)
    {
      double want = plumb_tensor_get (expected, i);
      double error = fabs (values[i] - want) / fmax (fabs (want), 1e-30);
      worst = error > worst || isnan (error) ? error : worst;
    }
  plumb_verify_record (self, expected->name, "relative", worst, bound);
}

void
plumb_verify_near (PlumbVerify *self, const PlumbTensor *expected, const double *values, double relative,
                   double absolute)
{
  double worst = 0;
  if (!expected)
    return;
  for (gsize i = 0; i < expected->count; i++)
    {
      double want = plumb_tensor_get (expected, i);
      double error = fabs (values[i] - want) / (relative * fabs (want) + absolute);
      worst = error > worst || isnan (error) ? error : worst;
      if (isnan (worst))
        break;
    }
  plumb_verify_record (self, expected->name, "of its bound", worst, 1);
}

void
plumb_verify_integers (PlumbVerify *self, const PlumbTensor *expected, const gint32 *values)
{
  int different = 0;
  if (!expected)
    return;
  for (gsize i = 0; i < expected->count; i++)
    different += values[i] != (gint32) plumb_tensor_get (expected, i);
  plumb_verify_record (self, expected->name, "different", different, 0);
}

gboolean
plumb_verify_finish (PlumbVerify *self)
{
  GPtrArray *list = plumb_safetensors_list (self->expected);
  guint used = 0, total = 0;
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      if (!in_scope (self, tensor->name))
        continue;
      total++;
      if (g_hash_table_contains (self->used, tensor->name))
        used++;
      else
        complain (self, tensor->name, "NOT COMPARED: this engine does not know the key");
    }
  g_print ("compared %u of %u keys, %d comparisons, %d failed\n", used, total, self->compared, self->failed);
  if (total < list->len)
    g_print ("left out %u keys that do not belong to %s\n", list->len - total, self->prefix);
  return self->failed == 0 && used == total && self->compared > 0;
}
