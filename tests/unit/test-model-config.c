/* SPDX-License-Identifier: Apache-2.0 */
/* config.json in its spellings: what is read, what is assumed and said, what is refused. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/model/model-config.h"
#include "tests/unit/temporary.h"

#define HEAD \
  "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2," \
  "\"num_attention_heads\":8,\"intermediate_size\":96,\"vocab_size\":512"

/* Loads {HEAD, more}, or `more` alone where it is a whole object. */
static PlumbModelConfig *
load (const char *more, GError **error)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *path = g_build_filename (folder, "config.json", NULL);
  g_autofree char *text = *more == '{' ? g_strdup (more) : g_strdup_printf ("{" HEAD "%s%s}", *more ? "," : "", more);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  PlumbModelConfig *config = plumb_model_config_load (folder, error);
  remove_folder (folder);
  return config;
}

static PlumbModelConfig *
load_good (const char *more)
{
  g_autoptr (GError) error = NULL;
  PlumbModelConfig *config = load (more, &error);
  if (error)
    g_error ("%s: %s", more, error->message);
  return config;
}

static void
assert_refused (const char *more, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbModelConfig) config = load (more, &error);
  if (config)
    g_error ("%s is accepted", more);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  if (!strstr (error->message, "config.json") || !strstr (error->message, part))
    g_error ("%s: \"%s\" is not in: %s", more, part, error->message);
}

static void
test_defaults (void)
{
  g_autoptr (PlumbModelConfig) config = load_good ("");
  g_assert_cmpint (config->width, ==, 64);
  g_assert_cmpint (config->head_size, ==, 8);
  g_assert_cmpint (config->groups, ==, 8);
  g_assert_cmpint (config->positions, ==, 2048);
  g_assert_cmpfloat (config->norm_eps, ==, 1e-6);
  g_assert_false (config->tied);
  g_assert_false (config->score);
  g_assert_cmpint (config->window, ==, 0);
  g_assert_cmpuint (config->eos->len, ==, 0);
}

/* Frequencies of a head of eight; every spelling of the same thing gives them. */
static void
assert_rope (const char *more, double second, double last, guint notices)
{
  g_autoptr (PlumbModelConfig) config = load_good (more);
  double frequencies[4];
  plumb_rope_frequencies (&config->rope, 8, frequencies);
  if (fabs (frequencies[1] / second - 1) > 1e-9 || fabs (frequencies[3] / last - 1) > 1e-7)
    g_error ("%s: frequencies %.12g and %.12g", more, frequencies[1], frequencies[3]);
  g_assert_cmpuint (config->notices->len, ==, notices);
}

static void
test_rope (void)
{
  assert_rope ("\"rope_theta\":10000", 0.1, 0.001, 0);
  assert_rope ("\"rope_theta\":10000.0,\"rope_scaling\":null", 0.1, 0.001, 0);
  assert_rope ("\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0}", 0.1, 0.001, 0);
  assert_rope ("", 0.1, 0.001, 1); /* 10000 is assumed, and said */
  assert_rope ("\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", 0.05, 0.0005, 0);
  assert_rope ("\"rope_theta\":1e4,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0}", 0.05, 0.0005, 0);
  assert_rope ("\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"linear\",\"factor\":2.0}", 0.05,
               0.0005, 0);
  assert_rope ("\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":10000.0}", 0.05, 0.0005, 0);
  assert_rope ("\"rope_theta\":500000", 0.0376060309309, 5.3182958969e-05, 0);
  assert_rope ("\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}", 0.0376060309309,
               5.3182958969e-05, 0);
  /* The nested value is the newer library's; the stale one at the top is told. */
  assert_rope ("\"rope_theta\":10000.0,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0}",
               0.0376060309309, 5.3182958969e-05, 1);
  assert_rope ("\"rope_theta\":1e4,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
               "\"original_max_position_embeddings\":64,\"rope_type\":\"llama3\"}", 0.01304225604407, 0.000125, 0);
}

static void
test_rope_refused (void)
{
  assert_refused ("\"rope_scaling\":{\"factor\":2.0}", "rope_type");
  assert_refused ("\"rope_scaling\":{\"type\":\"mystery\",\"factor\":2.0}", "mystery");
  assert_refused ("\"rope_scaling\":{\"type\":\"linear\"}", "factor");
  assert_refused ("\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}", "factor");
  assert_refused ("\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\",\"factor\":2}", "must agree");
  assert_refused ("\"rope_scaling\":{\"type\":\"su\"}", "su");
  assert_refused ("\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2.0\"}", "factor");
  assert_refused ("\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e6},"
                  "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}", "attention");
  assert_refused ("\"rope_scaling\":[1]", "rope_scaling");
  assert_refused ("\"rope_theta\":\"big\"", "rope_theta");
  assert_refused ("\"rope_theta\":0", "rope_theta");
}

static void
test_families (void)
{
  static const char rest[] = ",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
                             "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":512,\"head_dim\":32";
  g_autofree char *qwen2 = g_strdup_printf ("{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\"%s,"
                                            "\"sliding_window\":8,\"use_sliding_window\":false}", rest);
  g_autofree char *sliding = g_strdup_printf ("{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\"%s,"
                                              "\"sliding_window\":8,\"use_sliding_window\":true,"
                                              "\"max_window_layers\":3}", rest);
  g_autofree char *mistral = g_strdup_printf ("{\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\"%s,"
                                              "\"sliding_window\":16,\"eos_token_id\":[2,3,2]}", rest);
  g_autofree char *score = g_strdup_printf ("{\"architectures\":[\"LlamaForSequenceClassification\"],"
                                            "\"model_type\":\"llama\"%s}", rest);
  g_autoptr (PlumbModelConfig) a = load_good (qwen2), b = load_good (sliding), c = load_good (mistral);
  g_autoptr (PlumbModelConfig) d = load_good (score);
  g_assert_true (a->qkv_bias);
  g_assert_false (a->qk_norm);
  g_assert_cmpint (a->window, ==, 0);
  g_assert_cmpint (a->head_size, ==, 32);
  g_assert_cmpint (a->groups, ==, 2);
  g_assert_true (b->qk_norm);
  g_assert_false (b->qkv_bias);
  g_assert_cmpint (b->window, ==, 8);
  g_assert_cmpint (b->windowed[2], ==, 0);
  g_assert_cmpint (b->windowed[3], ==, 1);
  g_assert_cmpint (c->window, ==, 16);
  g_assert_cmpint (c->windowed[0], ==, 1);
  g_assert_cmpuint (c->eos->len, ==, 2);
  g_assert_true (d->score);
}

static void
test_refused (void)
{
  g_autofree char *deep = g_strnfill (100000, '[');
  g_autofree char *nested = g_strdup_printf ("{\"a\":%s", deep);
  assert_refused ("{", "config.json:1");
  assert_refused (nested, "nested too deeply");
  assert_refused ("{\"model_type\":\"gpt2\"}", "gpt2");
  assert_refused ("{\"model_type\":7}", "model_type");
  assert_refused ("{\"architectures\":[7],\"model_type\":\"llama\"}", "hidden_size");
  assert_refused ("{\"architectures\":[\"LlamaModel\"],\"model_type\":\"llama\"}", "LlamaModel");
  assert_refused ("\"num_key_value_heads\":3", "num_key_value_heads");
  assert_refused ("\"num_key_value_heads\":0", "num_key_value_heads");
  assert_refused ("\"head_dim\":7", "head_dim");
  assert_refused ("\"head_dim\":1000", "head_dim");
  assert_refused ("\"head_dim\":\"8\"", "head_dim");
  assert_refused ("\"hidden_act\":\"gelu\"", "gelu");
  assert_refused ("\"mlp_bias\":true", "mlp_bias");
  assert_refused ("\"attn_logit_softcapping\":-1", "attn_logit_softcapping");
  assert_refused ("\"final_logit_softcapping\":30", "final_logit_softcapping");
  assert_refused ("\"attention_bias\":true", "attention_bias");
  assert_refused ("\"tie_word_embeddings\":1", "tie_word_embeddings");
  assert_refused ("\"rms_norm_eps\":-1", "rms_norm_eps");
  assert_refused ("\"max_position_embeddings\":1e300", "max_position_embeddings");
  assert_refused ("{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":2,"
                  "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"intermediate_size\":8,\"vocab_size\":8}",
                  "head_dim");
  assert_refused ("{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":16777216,"
                  "\"num_hidden_layers\":4096,\"num_attention_heads\":16777216,\"intermediate_size\":8,"
                  "\"vocab_size\":8,\"head_dim\":256}", "num_attention_heads");
}

/* Values of another type than expected are passed over where they only inform, and never crash. */
static void
test_odd_values (void)
{
  g_autoptr (PlumbModelConfig) a = load_good ("\"eos_token_id\":[\"a\",{},null,1.5,4],\"layer_types\":[1,{},null]");
  g_autoptr (PlumbModelConfig) b = load_good ("\"sliding_window\":4,\"layer_types\":[{},[]],\"rope_theta\":1e4");
  g_autoptr (PlumbModelConfig) c = load_good ("\"dtype\":\"bfloat16\",\"torch_dtype\":\"float16\",\"rope_theta\":1e4");
  g_assert_cmpuint (a->eos->len, ==, 1);
  g_assert_cmpint (g_array_index (a->eos, gint32, 0), ==, 4);
  g_assert_cmpint (b->windowed[0], ==, 0);
  g_assert_cmpstr (c->stored_type, ==, "bfloat16");
  g_assert_cmpuint (c->notices->len, ==, 1); /* the two disagree */
}

/* What a made model writes is what it reads again. */
static void
test_made (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbModelConfig) made = plumb_model_config_new (48, 3, 6, 2, 100, 300, 64, &error);
  g_assert_no_error (error);
  g_autofree char *json = plumb_model_config_to_json (made);
  g_autoptr (PlumbModelConfig) read = load_good (json);
  g_assert_cmpint (read->width, ==, 48);
  g_assert_cmpint (read->layers, ==, 3);
  g_assert_cmpint (read->groups, ==, 2);
  g_assert_cmpint (read->head_size, ==, 8);
  g_assert_cmpint (read->positions, ==, 64);
  g_assert_true (read->tied);
  g_assert_null (plumb_model_config_new (48, 3, 5, 5, 100, 300, 64, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-config/defaults", test_defaults);
  g_test_add_func ("/model-config/rope", test_rope);
  g_test_add_func ("/model-config/rope/refused", test_rope_refused);
  g_test_add_func ("/model-config/families", test_families);
  g_test_add_func ("/model-config/refused", test_refused);
  g_test_add_func ("/model-config/odd-values", test_odd_values);
  g_test_add_func ("/model-config/made", test_made);
  return g_test_run ();
}
