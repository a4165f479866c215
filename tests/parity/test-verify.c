/* SPDX-License-Identifier: Apache-2.0 */
/* `verify` against the stored values of another implementation: it passes, and it can fail. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/engine/harness.h"
#include "tests/parity/spoil.h"
#include "tests/unit/shared.h"

static const char *const fixtures[]
    = { "llama", "llama-reward", "llama3-rope-tied", "mistral-sliding", "qwen2", "qwen3" };

static void
verify_models (Engine *engine, const char *device)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fixtures); i++)
    {
      int compared = 0, of = 0, comparisons = 0, failed = -1;
      if (engine_call (engine, "verify model $FIXTURES/models/%s -q --device %s", fixtures[i], device) != 0)
        g_error ("%s: %s%s", fixtures[i], engine->out, engine->err);
      const char *line = strstr (engine->out, "compared ");
      g_assert_nonnull (line);
      g_assert_cmpint (sscanf (line, "compared %d of %d keys, %d comparisons, %d failed", &compared, &of, &comparisons,
                               &failed), ==, 4);
      g_assert_cmpint (compared, ==, of);
      g_assert_cmpint (compared, >=, i == 1 ? 8 : 52);
      g_assert_cmpint (comparisons, >, 5);
      g_assert_cmpint (failed, ==, 0);
    }
}

static void
test_models (Engine *engine, gconstpointer data)
{
  verify_models (engine, "cpu");
}

/* The same values on the first GPU. */
static void
test_models_gpu (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_call (engine, "devices"), ==, 0);
  if (strstr (engine->out, "cuda:0 "))
    verify_models (engine, "cuda:0");
  else
    g_test_skip (engine->out);
}

/* Verifies a copy of a model whose expected values are spoiled at one key. */
static int
verify_spoiled (Engine *engine, const char *model, const char *key, Spoil spoil)
{
  g_autofree char *from = g_strdup_printf ("%s/models/%s/expected.safetensors", g_getenv ("PLUMB_TEST_FIXTURES"), model);
  g_autofree char *to = engine_path (engine, "model/expected.safetensors");
  g_assert_cmpint (engine_shell (engine, "test -d model || (cp -rL $FIXTURES/models/%s model && chmod -R u+w model)",
                                 model), ==, 0);
  spoil_file (from, to, key, spoil);
  return engine_call (engine, "verify model model -q");
}

/* Values that the comparison starts from, or that only set a bound. */
static gboolean
is_input (const char *key)
{
  return g_str_equal (key, "input_ids") || g_str_equal (key, "lengths") || g_str_equal (key, "sft.input_ids")
         || g_str_has_prefix (key, "logits_bf16.");
}

/* Every single key is looked at: a value beyond its bound and a NaN are found, wherever they are. */
static void
check_every_key (Engine *engine, const char *model)
{
  g_autofree char *path = g_strdup_printf ("%s/models/%s/expected.safetensors", g_getenv ("PLUMB_TEST_FIXTURES"), model);
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (path, NULL);
  GPtrArray *list = plumb_safetensors_list (tensors);
  g_assert_cmpint (verify_spoiled (engine, model, "", SPOIL_NOTHING), ==, 0);
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      gboolean real = tensor->type == PLUMB_TENSOR_F32;
      if (!is_input (tensor->name) && verify_spoiled (engine, model, tensor->name, SPOIL_VALUE) != 1)
        g_error ("%s: a wrong value of %s is not found: %s", model, tensor->name, engine->out);
      if (real && verify_spoiled (engine, model, tensor->name, SPOIL_NAN) != 1)
        g_error ("%s: a NaN in %s is not found: %s", model, tensor->name, engine->out);
    }
}

static void
test_every_key (Engine *engine, gconstpointer data)
{
  check_every_key (engine, "llama");
}

static void
test_every_reward_key (Engine *engine, gconstpointer data)
{
  check_every_key (engine, "llama-reward");
}

static void
test_spoiled (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "logits.1", SPOIL_MISSING), ==, 1);
  assert_has (engine->out, "logits.1");
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "input_ids", SPOIL_MISSING), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "sft.input_ids", SPOIL_MISSING), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "grad_norm", SPOIL_MISSING), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "greedy.0", SPOIL_SHORTER), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "logits.0", SPOIL_SHORTER), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "lengths", SPOIL_SHORTER), ==, 1);
  g_assert_cmpint (verify_spoiled (engine, "qwen2", "", SPOIL_EXTRA), ==, 1);
  assert_has (engine->out, "zz.unknown");
  g_assert_cmpint (engine_shell (engine, "rm model/expected.safetensors"), ==, 0);
  g_assert_cmpint (engine_call (engine, "verify model model"), !=, 0);
}

#define CURVES "$FIXTURES/rl_curves_llama.safetensors"

/* Every key of the curves, one after the other in each of three ways, on the curves that it belongs to. */
static void
test_curves (Engine *engine, gconstpointer data)
{
  static const Spoil ways[] = { SPOIL_VALUE, SPOIL_NAN, SPOIL_MISSING };
  g_autofree char *from = g_strdup_printf ("%s/rl_curves_llama.safetensors", g_getenv ("PLUMB_TEST_FIXTURES"));
  g_autofree char *to = engine_path (engine, "curves.safetensors");
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (from, NULL);
  GPtrArray *list = plumb_safetensors_list (tensors);
  int code = engine_call (engine, "verify curves " CURVES " --model $FIXTURES/models/llama");
  if (code != 0)
    g_error ("%s%s", engine->out, engine->err);
  assert_has (engine->out, "compared 75 of 75 keys");
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      g_auto (GStrv) parts = g_strsplit (tensor->name, ".", 2);
      gboolean shared = !parts[1] || g_str_equal (parts[0], "seq");
      Spoil way = tensor->type == PLUMB_TENSOR_I32 ? SPOIL_MISSING : ways[i % G_N_ELEMENTS (ways)];
      spoil_file (from, to, tensor->name, way);
      if (engine_call (engine, "verify curves curves.safetensors --model $FIXTURES/models/llama --algorithm %s",
                       shared ? "grpo" : parts[0]) != 1)
        g_error ("change %d of %s is not found: %s", (int) way, tensor->name, engine->out);
    }
  g_assert_cmpint (engine_call (engine, "verify curves " CURVES " --model $FIXTURES/models/llama --algorithm x"), ==, 2);
  g_assert_cmpint (engine_call (engine, "verify curves nowhere --model $FIXTURES/models/llama"), ==, 3);
  g_assert_cmpint (engine_call (engine, "verify curves " CURVES " --model nowhere"), ==, 3);
  g_assert_cmpint (engine_call (engine, "verify curves " CURVES), ==, 2);
}

/* Every key of the losses, one after the other in each of three ways: a value far off its place, a NaN, gone. */
static void
test_losses (Engine *engine, gconstpointer data)
{
  static const Spoil ways[] = { SPOIL_VALUE, SPOIL_NAN, SPOIL_MISSING };
  g_autofree char *from = g_build_filename (g_getenv ("PLUMB_TEST_FIXTURES"), "losses.safetensors", NULL);
  g_autofree char *to = engine_path (engine, "losses.safetensors");
  g_autoptr (PlumbSafetensors) tensors = plumb_safetensors_open (from, NULL);
  GPtrArray *list = plumb_safetensors_list (tensors);
  if (engine_call (engine, "verify losses $FIXTURES/losses.safetensors") != 0)
    g_error ("%s%s", engine->out, engine->err);
  assert_has (engine->out, "compared 145 of 145 keys");
  for (guint i = 0; i < list->len; i++)
    {
      const PlumbTensor *tensor = g_ptr_array_index (list, i);
      /* This loss is so great, e^20, that the change lies within its bound. */
      gboolean huge = g_str_equal (tensor->name, "extreme.ppo.loss");
      Spoil way = ways[(i + huge) % G_N_ELEMENTS (ways)];
      spoil_file (from, to, tensor->name, way);
      if (engine_call (engine, "verify losses losses.safetensors") != 1)
        g_error ("change %d of %s is not found: %s", (int) way, tensor->name, engine->out);
    }
}

/* Real models, where there are some: their golden values, and that a change of these is found. */
static void
check_golden (Engine *engine, const char *name)
{
  g_autofree char *relative = g_build_filename ("models", name, NULL);
  g_autofree char *path = shared_file (relative);
  if (!path)
    return;
  if (engine_call (engine, "verify model %s -q", path) != 0)
    g_error ("%s: %s%s", name, engine->out, engine->err);
  assert_has (engine->out, "0 failed");
  g_assert_cmpint (engine_call (engine, "generate --model %s --greedy --max-new-tokens 16 --prompt 'Once upon a time'",
                                path), ==, 0);
  assert_has (engine->out, "Once upon a time, there was a li");
  g_assert_cmpint (engine_call (engine, "generate --model %s --greedy --max-new-tokens 8 --prompt 'Once upon'", path),
                   ==, 0);
  assert_has (engine->out, "Once upon a ti");
  static const char *const changes[] = {
    "s/\"prompt_ids\": *\\[ *1, */\"prompt_ids\": [1, 3, /", "s/\"greedy_ids\": *\\[/&7, /",
    "s/\"prompt_token_logprobs\": *\\[ *[^,]*, *-/&9/", "s/\"last_logits_first16\": *\\[ *-*/&9/",
    "s/\"greedy_text\": *\"/&x9/", "s/\"next_top8\"/\"next_top9\"/",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      g_assert_cmpint (engine_shell (engine, "rm -rf real; mkdir real; ln -s %s/* real; rm real/golden.json; "
                                     "tr '\\n' ' ' < %s/golden.json | sed '%s' > real/golden.json; "
                                     "tr '\\n' ' ' < %s/golden.json | cmp -s - real/golden.json",
                                     path, path, changes[i], path), ==, 1);
      if (engine_call (engine, "verify model real -q") != 1)
        g_error ("%s: a change by %s is not found: %s%s", name, changes[i], engine->out, engine->err);
    }
}

static void
test_stories (Engine *engine, gconstpointer data)
{
  check_golden (engine, "stories260K");
}

static void
test_babyllama (Engine *engine, gconstpointer data)
{
  check_golden (engine, "babyllama361");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/verify/models", test_models);
  ENGINE_TEST ("/verify/models-gpu", test_models_gpu);
  ENGINE_TEST ("/verify/spoiled", test_spoiled);
  ENGINE_TEST ("/verify/every-key", test_every_key);
  ENGINE_TEST ("/verify/every-reward-key", test_every_reward_key);
  ENGINE_TEST ("/verify/losses", test_losses);
  ENGINE_TEST ("/verify/curves", test_curves);
  ENGINE_TEST ("/verify/golden/stories260K", test_stories);
  ENGINE_TEST ("/verify/golden/babyllama361", test_babyllama);
  return g_test_run ();
}
