/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/model/model-config.h"

#define MAX_CONFIG_BYTES (16 << 20)
#define MAX_DIMENSION (1 << 24)

typedef struct
{
  const char *file;
  JsonObject *object;
  GError **error; /* set once; later readers do nothing */
  gboolean failed;
} Reader;

G_GNUC_PRINTF (2, 3)
static void
reader_fail (Reader *reader, const char *format, ...)
{
  if (reader->failed)
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  reader->failed = TRUE;
  g_set_error (reader->error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: %s", reader->file, message);
}

static JsonNode *
reader_member (Reader *reader, JsonObject *object, const char *key)
{
  JsonNode *node = object && json_object_has_member (object, key) ? json_object_get_member (object, key)
                                                                  : NULL;
  return node && !JSON_NODE_HOLDS_NULL (node) ? node : NULL;
}

static gboolean
node_is_number (JsonNode *node)
{
  GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  return type == G_TYPE_INT64 || type == G_TYPE_DOUBLE;
}

/* A number in [least, most]; `missing` where the key is absent, which is an error if that is NAN. */
static double
read_number (Reader *reader, JsonObject *object, const char *key, double least, double most, double missing)
{
  JsonNode *node = reader_member (reader, object, key);
  if (!node && isnan (missing))
    reader_fail (reader, "key %s is missing", key);
  if (!node || reader->failed)
    return missing;
  if (!node_is_number (node))
    {
      reader_fail (reader, "key %s is not a number", key);
      return missing;
    }
  double value = json_node_get_double (node);
  if (!(value >= least && value <= most))
    reader_fail (reader, "key %s = %g is outside %g .. %g", key, value, least, most);
  return value;
}

static int
read_dimension (Reader *reader, const char *key, int missing)
{
  double value = read_number (reader, reader->object, key, 1, MAX_DIMENSION,
                              missing < 0 ? NAN : (double) missing);
  return isnan (value) ? 0 : (int) value;
}

static gboolean
read_boolean (Reader *reader, const char *key, gboolean missing)
{
  JsonNode *node = reader_member (reader, reader->object, key);
  if (!node)
    return missing;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    {
      reader_fail (reader, "key %s is not true or false", key);
      return missing;
    }
  return json_node_get_boolean (node);
}

static const char *
read_string (Reader *reader, JsonObject *object, const char *key)
{
  JsonNode *node = reader_member (reader, object, key);
  if (!node)
    return NULL;
  if (!plumb_json_node_text (node))
    reader_fail (reader, "key %s is not text", key);
  return plumb_json_node_text (node);
}

static JsonObject *
read_object (Reader *reader, const char *key)
{
  JsonNode *node = reader_member (reader, reader->object, key);
  if (!node)
    return NULL;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    reader_fail (reader, "key %s is not an object", key);
  return plumb_json_node_object (node);
}

static void
add_eos (GArray *eos, gint64 id)
{
  gint32 value = (gint32) id;
  if (id < 0 || id > G_MAXINT32)
    return;
  for (guint i = 0; i < eos->len; i++)
    if (g_array_index (eos, gint32, i) == value)
      return;
  g_array_append_val (eos, value);
}

/* eos_token_id: a number or a list of numbers. */
static void
read_eos (Reader *reader, GArray *eos)
{
  JsonNode *node = reader_member (reader, reader->object, "eos_token_id");
  JsonArray *array = plumb_json_node_array (node);
  gint64 id;
  if (plumb_json_node_integer (node, &id))
    add_eos (eos, id);
  for (guint i = 0; array && i < json_array_get_length (array); i++)
    if (plumb_json_node_integer (json_array_get_element (array, i), &id))
      add_eos (eos, id);
}

typedef struct
{
  const char *model_type;
  const char *causal, *classifier; /* entries of `architectures` */
  gboolean qkv_bias;               /* where attention_bias is absent */
  gboolean qk_norm;
  gboolean window_needs_switch; /* sliding_window counts only with use_sliding_window */
} Family;

static const Family families[] = {
  { "llama", "LlamaForCausalLM", "LlamaForSequenceClassification", FALSE, FALSE, FALSE },
  { "mistral", "MistralForCausalLM", "MistralForSequenceClassification", FALSE, FALSE, FALSE },
  { "qwen2", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification", TRUE, FALSE, TRUE },
  { "qwen3", "Qwen3ForCausalLM", "Qwen3ForSequenceClassification", FALSE, TRUE, TRUE },
};

static const Family *
read_family (Reader *reader, gboolean *score)
{
  const char *type = read_string (reader, reader->object, "model_type");
  JsonArray *list = plumb_json_node_array (reader_member (reader, reader->object, "architectures"));
  const char *architecture = NULL;
  if (list && json_array_get_length (list) > 0)
    architecture = plumb_json_node_text (json_array_get_element (list, 0));
  for (gsize i = 0; i < G_N_ELEMENTS (families); i++)
    {
      const Family *family = &families[i];
      if (g_strcmp0 (type, family->model_type) != 0)
        continue;
      *score = g_strcmp0 (architecture, family->classifier) == 0;
      if (!architecture || *score || g_str_equal (architecture, family->causal))
        return family;
      break;
    }
  reader_fail (reader,
               "model_type %s with architecture %s is not supported; supported are the causal and "
               "classification models of llama, mistral, qwen2 and qwen3",
               type ? type : "(none)", architecture ? architecture : "(none)");
  return NULL;
}

static void
notice (PlumbModelConfig *config, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
notice (PlumbModelConfig *config, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_ptr_array_add (config->notices, g_strdup_vprintf (format, args));
  va_end (args);
}

static const char *
read_rope_type (Reader *reader, JsonObject *scaling)
{
  const char *older = read_string (reader, scaling, "type");
  const char *newer = read_string (reader, scaling, "rope_type");
  if (older && newer && !g_str_equal (older, newer))
    reader_fail (reader, "rope scaling has type %s and rope_type %s; they must agree", older, newer);
  if (!older && !newer && reader_member (reader, scaling, "factor"))
    reader_fail (reader, "rope scaling has a factor but no rope_type; supported are default, linear "
                         "and llama3");
  return newer ? newer : older ? older : "default";
}

/* Refuses what would otherwise be read as "no scaling": rope settings of their own for each type of layer. */
static void
check_rope_members (Reader *reader, JsonObject *scaling)
{
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  json_object_iter_init (&iter, scaling);
  while (json_object_iter_next (&iter, &key, &node))
    if (JSON_NODE_HOLDS_OBJECT (node))
      reader_fail (reader, "rope_parameters.%s: rope settings per type of layer are not supported; supported is "
                           "one rope for all layers", key);
}

/* rope_parameters (transformers 5), else rope_theta and rope_scaling (transformers 4). The nested theta
 * is what the newer library uses, so it wins over a stale one at the top. */
static void
read_rope (Reader *reader, PlumbModelConfig *config)
{
  PlumbRope *rope = &config->rope;
  JsonObject *nested = read_object (reader, "rope_parameters");
  JsonObject *scaling = nested ? nested : read_object (reader, "rope_scaling");
  if (scaling)
    check_rope_members (reader, scaling);
  double top = read_number (reader, reader->object, "rope_theta", 1, 1e12, 0);
  double inner = nested ? read_number (reader, nested, "rope_theta", 1, 1e12, 0) : 0;
  rope->theta = inner > 0 ? inner : top > 0 ? top : 10000.0;
  if (inner > 0 && top > 0 && inner != top)
    notice (config, "rope_theta is %g at the top and %g in rope_parameters; %g is used", top, inner, inner);
  if (inner == 0 && top == 0)
    notice (config, "no rope_theta: 10000 is assumed");
  const char *type = scaling ? read_rope_type (reader, scaling) : "default";
  if (g_str_equal (type, "default"))
    return;
  if (!g_str_equal (type, "linear") && !g_str_equal (type, "llama3"))
    {
      reader_fail (reader, "rope type %s is not supported; supported are default, linear and llama3", type);
      return;
    }
  rope->type = g_str_equal (type, "linear") ? PLUMB_ROPE_LINEAR : PLUMB_ROPE_LLAMA3;
  rope->factor = read_number (reader, scaling, "factor", 1e-3, 1e6, NAN);
  if (rope->type != PLUMB_ROPE_LLAMA3)
    return;
  rope->low_frequency = read_number (reader, scaling, "low_freq_factor", 1e-6, 1e6, NAN);
  rope->high_frequency = read_number (reader, scaling, "high_freq_factor", 1e-6, 1e6, NAN);
  rope->original_positions
      = (int) read_number (reader, scaling, "original_max_position_embeddings", 1, MAX_DIMENSION, NAN);
  if (!reader->failed && rope->high_frequency <= rope->low_frequency)
    reader_fail (reader, "high_freq_factor %g must be above low_freq_factor %g", rope->high_frequency,
                 rope->low_frequency);
}

static void
read_window (Reader *reader, PlumbModelConfig *config, const Family *family)
{
  config->windowed = g_new0 (guint8, config->layers);
  int window = (int) read_number (reader, reader->object, "sliding_window", 0, MAX_DIMENSION, 0);
  if (!window || (family->window_needs_switch && !read_boolean (reader, "use_sliding_window", FALSE)))
    return;
  config->window = window;
  JsonArray *types = plumb_json_node_array (reader_member (reader, reader->object, "layer_types"));
  int first = family->window_needs_switch
                  ? (int) read_number (reader, reader->object, "max_window_layers", 0, MAX_DIMENSION, 0)
                  : 0;
  for (int i = 0; i < config->layers; i++)
    {
      config->windowed[i] = i >= first;
      if (types && (guint) i < json_array_get_length (types))
        config->windowed[i] = g_strcmp0 (plumb_json_node_text (json_array_get_element (types, (guint) i)),
                                         "sliding_attention") == 0;
    }
}

static void
read_stored_type (Reader *reader, PlumbModelConfig *config)
{
  const char *newer = read_string (reader, reader->object, "dtype");
  const char *older = read_string (reader, reader->object, "torch_dtype");
  if (newer && older && !g_str_equal (newer, older))
    notice (config, "dtype says %s and torch_dtype says %s; the weight file decides", newer, older);
  config->stored_type = g_strdup (newer ? newer : older);
}

static void
read_shape (Reader *reader, PlumbModelConfig *config)
{
  config->width = read_dimension (reader, "hidden_size", -1);
  config->layers = read_dimension (reader, "num_hidden_layers", -1);
  config->heads = read_dimension (reader, "num_attention_heads", -1);
  config->groups = read_dimension (reader, "num_key_value_heads", config->heads);
  config->mlp = read_dimension (reader, "intermediate_size", -1);
  config->vocabulary = read_dimension (reader, "vocab_size", -1);
  config->positions = read_dimension (reader, "max_position_embeddings", 2048);
  config->norm_eps = read_number (reader, reader->object, "rms_norm_eps", 0, 1, 1e-6);
  if (reader->failed)
    return;
  config->head_size = read_dimension (reader, "head_dim", config->width / config->heads);
  if (config->layers > 4096)
    reader_fail (reader, "num_hidden_layers = %d is more than 4096", config->layers);
  if (config->heads % config->groups != 0)
    reader_fail (reader, "num_attention_heads %d is not a multiple of num_key_value_heads %d",
                 config->heads, config->groups);
  if ((gint64) config->heads * config->head_size > MAX_DIMENSION)
    reader_fail (reader, "num_attention_heads %d times head_dim %d is more than %d", config->heads,
                 config->head_size, MAX_DIMENSION);
  if (config->head_size < 2 || config->head_size % 2 != 0 || config->head_size > 256)
    reader_fail (reader, "head_dim = %d must be even and at most 256", config->head_size);
}

static void
read_features (Reader *reader, PlumbModelConfig *config, const Family *family)
{
  const char *activation = read_string (reader, reader->object, "hidden_act");
  if (activation && !g_str_equal (activation, "silu"))
    reader_fail (reader, "hidden_act %s is not supported; supported is silu", activation);
  config->soft_cap = read_number (reader, reader->object, "attn_logit_softcapping", 0, 1e6, 0);
  if (read_number (reader, reader->object, "final_logit_softcapping", 0, 1e6, 0) > 0)
    reader_fail (reader, "final_logit_softcapping is not supported");
  if (read_boolean (reader, "mlp_bias", FALSE))
    reader_fail (reader, "mlp_bias true is not supported");
  gboolean bias = read_boolean (reader, "attention_bias", FALSE);
  if (bias && !family->qkv_bias)
    reader_fail (reader, "attention_bias true is not supported for %s", family->model_type);
  config->qkv_bias = family->qkv_bias;
  config->qk_norm = family->qk_norm;
  config->tied = read_boolean (reader, "tie_word_embeddings", FALSE);
}

static PlumbModelConfig *
config_alloc (void)
{
  PlumbModelConfig *config = g_new0 (PlumbModelConfig, 1);
  config->bos = config->pad = -1;
  config->eos = g_array_new (FALSE, FALSE, sizeof (gint32));
  config->notices = g_ptr_array_new_with_free_func (g_free);
  return config;
}

static gboolean
read_generation_config (const char *dir, GArray *eos, GError **error)
{
  g_autofree char *path = g_build_filename (dir, "generation_config.json", NULL);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE;
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_CONFIG_BYTES, error);
  JsonObject *top = parser ? plumb_json_top (parser, path, error) : NULL;
  if (!top)
    return FALSE;
  Reader reader = { path, top, error, FALSE };
  read_eos (&reader, eos);
  return TRUE;
}

PlumbModelConfig *
plumb_model_config_load (const char *dir, GError **error)
{
  g_autofree char *path = g_build_filename (dir, "config.json", NULL);
  g_autoptr (JsonParser) parser = plumb_json_parse_file (path, MAX_CONFIG_BYTES, error);
  JsonObject *top = parser ? plumb_json_top (parser, path, error) : NULL;
  if (!top)
    return NULL;
  g_autoptr (PlumbModelConfig) config = config_alloc ();
  Reader reader = { path, top, error, FALSE };
  const Family *family = read_family (&reader, &config->score);
  if (!family)
    return NULL;
  config->model_type = g_strdup (family->model_type);
  read_shape (&reader, config);
  read_features (&reader, config, family);
  read_rope (&reader, config);
  read_stored_type (&reader, config);
  if (!reader.failed)
    read_window (&reader, config, family);
  config->bos = (gint32) read_number (&reader, reader.object, "bos_token_id", 0, G_MAXINT32, -1);
  config->pad = (gint32) read_number (&reader, reader.object, "pad_token_id", -1, G_MAXINT32, -1);
  read_eos (&reader, config->eos);
  if (reader.failed || !read_generation_config (dir, config->eos, error))
    return NULL;
  return g_steal_pointer (&config);
}

PlumbModelConfig *
plumb_model_config_new (int width, int layers, int heads, int groups, int mlp, int vocabulary,
                        int positions, GError **error)
{
  if (width < 2 || layers < 1 || heads < 1 || groups < 1 || mlp < 1 || vocabulary < 2 || positions < 2
      || width % heads != 0 || heads % groups != 0 || (width / heads) % 2 != 0 || width / heads > 256)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "a model of width %d, %d layers, %d heads, %d key/value heads, MLP %d and vocabulary %d "
                   "cannot be made: width / heads must be an even number up to 256, and heads a multiple of "
                   "model.new.kv_heads",
                   width, layers, heads, groups, mlp, vocabulary);
      return NULL;
    }
  PlumbModelConfig *config = config_alloc ();
  config->model_type = g_strdup ("llama");
  config->width = width;
  config->layers = layers;
  config->heads = heads;
  config->groups = groups;
  config->head_size = width / heads;
  config->mlp = mlp;
  config->vocabulary = vocabulary;
  config->positions = positions;
  config->norm_eps = 1e-5;
  config->rope.theta = 10000.0;
  config->tied = TRUE;
  config->windowed = g_new0 (guint8, layers);
  return config;
}

void
plumb_model_config_free (PlumbModelConfig *config)
{
  if (!config)
    return;
  g_free (config->model_type);
  g_free (config->windowed);
  g_free (config->stored_type);
  g_array_unref (config->eos);
  g_ptr_array_unref (config->notices);
  g_free (config);
}

static void
build_integer (JsonBuilder *builder, const char *key, gint64 value)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_int_value (builder, value);
}

void
plumb_model_config_make_scalar (PlumbModelConfig *config)
{
  config->fresh_score = !config->score;
  config->score = TRUE;
}

char *
plumb_model_config_to_json (const PlumbModelConfig *config)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "architectures");
  json_builder_begin_array (builder);
  json_builder_add_string_value (builder, "LlamaForCausalLM");
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "model_type");
  json_builder_add_string_value (builder, config->model_type);
  build_integer (builder, "hidden_size", config->width);
  build_integer (builder, "num_hidden_layers", config->layers);
  build_integer (builder, "num_attention_heads", config->heads);
  build_integer (builder, "num_key_value_heads", config->groups);
  build_integer (builder, "head_dim", config->head_size);
  build_integer (builder, "intermediate_size", config->mlp);
  build_integer (builder, "vocab_size", config->vocabulary);
  build_integer (builder, "max_position_embeddings", config->positions);
  json_builder_set_member_name (builder, "rms_norm_eps");
  json_builder_add_double_value (builder, config->norm_eps);
  json_builder_set_member_name (builder, "rope_theta");
  json_builder_add_double_value (builder, config->rope.theta);
  json_builder_set_member_name (builder, "hidden_act");
  json_builder_add_string_value (builder, "silu");
  json_builder_set_member_name (builder, "tie_word_embeddings");
  json_builder_add_boolean_value (builder, config->tied);
  json_builder_set_member_name (builder, "torch_dtype");
  json_builder_add_string_value (builder, "float32");
  if (config->bos >= 0)
    build_integer (builder, "bos_token_id", config->bos);
  if (config->eos->len > 0)
    build_integer (builder, "eos_token_id", g_array_index (config->eos, gint32, 0));
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  return json_to_string (root, TRUE);
}

/* Llama 3 (transformers' rope utilities): long waves are slowed by the factor, short ones kept, those
 * between interpolated. */
static double
scale_llama3 (const PlumbRope *rope, double frequency)
{
  double wavelength = 2 * G_PI / frequency;
  double ratio = rope->original_positions / wavelength;
  if (ratio < rope->low_frequency)
    return frequency / rope->factor;
  if (ratio > rope->high_frequency)
    return frequency;
  double smooth = (ratio - rope->low_frequency) / (rope->high_frequency - rope->low_frequency);
  return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

void
plumb_rope_frequencies (const PlumbRope *rope, int head_size, double *frequencies)
{
  for (int i = 0; i < head_size / 2; i++)
    {
      double frequency = pow (rope->theta, -2.0 * i / head_size);
      if (rope->type == PLUMB_ROPE_LINEAR)
        frequency /= rope->factor;
      else if (rope->type == PLUMB_ROPE_LLAMA3)
        frequency = scale_llama3 (rope, frequency);
      frequencies[i] = frequency;
    }
}
