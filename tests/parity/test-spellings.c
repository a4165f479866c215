/* SPDX-License-Identifier: Apache-2.0 */
/* A real model under the many names of rope and of types: the same sums, or a refusal. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/model/safetensors.h"
#include "kernels/cpu/vector.h"
#include "tests/engine/harness.h"
#include "tests/unit/shared.h"

/* "Once upon a time, there was a little girl named Lily." and so on, of stories260K; the sums were computed by a
 * forward pass in double precision, written apart from this one. */
static const char ids[] = "[1,403,407,261,378,432,383,286,261,376,298,315,421,395,317,426]\n";

typedef struct
{
  const char *change; /* JSON members to set; null removes one */
  double sum;
} Rope;

static const Rope ropes[] = {
  { "{}", -1.50206 },
  { "{\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", -14.098977 },
  { "{\"rope_theta\":1e4,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0}}", -14.098977 },
  { "{\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"linear\",\"factor\":2.0}}", -14.098977 },
  { "{\"rope_theta\":null,\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":1e4}}", -14.098977 },
  { "{\"rope_theta\":500000}", -2.122379 },
  { "{\"rope_theta\":null,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}}", -2.122379 },
  { "{\"rope_theta\":1e4,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}}", -2.122379 },
  { "{\"rope_theta\":null,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}", -1.50206 },
  { "{\"rope_theta\":null}", -1.50206 },
  { "{\"rope_theta\":1e4,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
    "\"original_max_position_embeddings\":64,\"rope_type\":\"llama3\"}}", -2.575756 },
};

/* FOLDER/model becomes the real model with changes to its config; NULL where there is none. */
static char *
prepare (Engine *engine, const char *change)
{
  char *source = shared_file ("models/stories260K");
  g_autoptr (JsonParser) config = json_parser_new (), changes = json_parser_new ();
  g_autoptr (GError) error = NULL;
  if (!source)
    return NULL;
  g_assert_cmpint (engine_shell (engine, "rm -rf model; mkdir model; ln -s '%s'/tok* '%s'/model.safetensors model",
                                 source, source), ==, 0);
  g_autofree char *from = g_build_filename (source, "config.json", NULL);
  json_parser_load_from_file (config, from, &error);
  g_assert_no_error (error);
  json_parser_load_from_data (changes, change, -1, &error);
  g_assert_no_error (error);
  JsonObject *object = json_node_get_object (json_parser_get_root (config));
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  json_object_remove_member (object, "rope_scaling");
  json_object_iter_init (&iter, json_node_get_object (json_parser_get_root (changes)));
  while (json_object_iter_next (&iter, &key, &node))
    if (JSON_NODE_HOLDS_NULL (node))
      json_object_remove_member (object, key);
    else
      json_object_set_member (object, key, json_node_copy (node));
  g_autofree char *text = json_to_string (json_parser_get_root (config), TRUE);
  engine_write (engine, "model/config.json", text);
  engine_write (engine, "ids", ids);
  return source;
}

static void
assert_sum (Engine *engine, const char *what, double want, double bound)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  if (engine_call (engine, "logprobs --model model --ids ids") != 0)
    g_error ("%s: %s", what, engine->err);
  double sum = json_object_get_double_member (engine_json (engine, parser), "sum");
  if (!(fabs (sum - want) <= bound))
    g_error ("%s: the sum is %.6f where %.6f is right", what, sum, want);
}

static void
test_rope (Engine *engine, gconstpointer data)
{
  for (gsize i = 0; i < G_N_ELEMENTS (ropes); i++)
    {
      g_autofree char *source = prepare (engine, ropes[i].change);
      if (!source)
        return;
      assert_sum (engine, ropes[i].change, ropes[i].sum, 1e-4);
    }
}

static guint16
half_from_float (float value)
{
  guint32 bits;
  memcpy (&bits, &value, sizeof bits);
  guint32 sign = bits >> 16 & 0x8000;
  int exponent = (int) (bits >> 23 & 255) - 127;
  guint32 mantissa = bits & 0x7fffff;
  if (exponent < -14) /* a denormal: in units of 2^-24, to the nearest even one */
    return (guint16) (sign | (guint32) nearbyint (fabs ((double) value) * 0x1p24));
  guint32 rounded = (guint32) (exponent + 15) << 10 | mantissa >> 13;
  guint32 rest = mantissa & 0x1fff;
  return (guint16) (sign | (rounded + (rest > 0x1000 || (rest == 0x1000 && (rounded & 1)))));
}

/* Writes the weights as another type; norms stay where `mixed`. */
static void
convert (Engine *engine, const char *source, PlumbTensorType type, gboolean mixed)
{
  g_autofree char *from = g_build_filename (source, "model.safetensors", NULL);
  g_autofree char *to = engine_path (engine, "model/model.safetensors");
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (from, &error);
  g_assert_no_error (error);
  GPtrArray *list = plumb_safetensors_list (tensors);
  g_autofree PlumbTensorOut *out = g_new0 (PlumbTensorOut, list->len);
  g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      gboolean kept = mixed && strstr (tensor->name, "norm");
      g_autofree float *values = g_new (float, tensor->count);
      guint16 *small = g_new (guint16, tensor->count);
      g_ptr_array_add (copies, small);
      plumb_tensor_to_floats (tensor, 0, tensor->count, values);
      for (gsize k = 0; k < tensor->count; k++)
        small[k] = type == PLUMB_TENSOR_F16 ? half_from_float (values[k]) : bf16_from_float (values[k]);
      out[i] = (PlumbTensorOut){ .name = tensor->name, .type = kept ? tensor->type : type,
                                 .dimensions = tensor->dimensions,
                                 .data = kept ? (const void *) tensor->data : small };
      memcpy (out[i].shape, tensor->shape, sizeof out[i].shape);
    }
  g_assert_cmpint (engine_shell (engine, "rm model/model.safetensors"), ==, 0);
  plumb_safetensors_write (to, out, list->len, NULL, &error);
  g_assert_no_error (error);
}

/* The file's header decides; config.json only informs, and where it says otherwise that is told. */
static void
test_types (Engine *engine, gconstpointer data)
{
  static const char *const words[] = {
    "{\"torch_dtype\":\"bfloat16\"}",
    "{\"torch_dtype\":\"torch.bfloat16\"}",
    "{\"torch_dtype\":null,\"dtype\":\"bfloat16\"}",
    "{\"torch_dtype\":\"bf16\"}",
    "{\"torch_dtype\":\"auto\"}",
    "{\"torch_dtype\":null}",
    "{\"torch_dtype\":\"float32\"}",
    "{\"torch_dtype\":\"float16\",\"dtype\":\"bfloat16\"}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      g_autofree char *source = prepare (engine, words[i]);
      if (!source)
        return;
      convert (engine, source, PLUMB_TENSOR_BF16, FALSE);
      assert_sum (engine, words[i], -1.500547, 2e-4);
      if (i >= 6)
        assert_has (engine->err, i == 6 ? "stored as BF16" : "torch_dtype says float16");
      else
        g_assert_null (strstr (engine->err, "type"));
    }
  g_autofree char *source = prepare (engine, "{\"torch_dtype\":\"bfloat16\"}");
  convert (engine, source, PLUMB_TENSOR_BF16, TRUE);
  assert_sum (engine, "mixed", -1.500119, 2e-4);
  convert (engine, source, PLUMB_TENSOR_F16, FALSE);
  assert_sum (engine, "f16", -1.501994, 2e-4);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/spellings/rope", test_rope);
  ENGINE_TEST ("/spellings/types", test_types);
  return g_test_run ();
}
