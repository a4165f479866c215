/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/cli/model-session.h"
#include "engine/core/error.h"
#include "engine/rollout/rollout.h"

typedef struct
{
  char *model, *prompt, *precision, *device, *weights, *kv_type;
  int samples, max_new_tokens;
  double temperature;
  PlumbFilters filters;
  gint64 seed;
  gboolean greedy, json;
} Options;

static void
options_clear (Options *o)
{
  g_free (o->model);
  g_free (o->prompt);
  g_free (o->precision);
  g_free (o->device);
  g_free (o->weights);
  g_free (o->kv_type);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static void
add_array (JsonBuilder *builder, const char *name, GArray *values, gboolean real)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < values->len; i++)
    if (real)
      json_builder_add_double_value (builder, g_array_index (values, float, i));
    else
      json_builder_add_int_value (builder, g_array_index (values, gint32, i));
  json_builder_end_array (builder);
}

static void
print_completion (const Options *o, const PlumbCompletion *c, const char *text)
{
  if (!o->json)
    {
      if (o->samples > 1)
        g_print ("--- %d (%s)\n", c->sample + 1, c->finish == PLUMB_FINISH_STOP ? "stop" : "length");
      g_print ("%s%s\n", o->samples > 1 ? "" : o->prompt, text);
      return;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "sample");
  json_builder_add_int_value (builder, c->sample);
  json_builder_set_member_name (builder, "text");
  json_builder_add_string_value (builder, text);
  json_builder_set_member_name (builder, "finish");
  json_builder_add_string_value (builder, c->finish == PLUMB_FINISH_STOP ? "stop" : "length");
  add_array (builder, "ids", c->ids, FALSE);
  add_array (builder, "log_probs", c->log_probs, TRUE);
  json_builder_end_object (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  plumb_command_print_json (root, FALSE);
}

static int
compare_samples (gconstpointer a, gconstpointer b)
{
  const PlumbCompletion *left = *(const PlumbCompletion *const *) a;
  const PlumbCompletion *right = *(const PlumbCompletion *const *) b;
  return left->sample - right->sample;
}

static gboolean
print_all (const Options *o, PlumbModelSession *session, PlumbRollout *rollout, GArray *prompt, GError **error)
{
  g_autoptr (GPtrArray) completions
      = g_ptr_array_new_with_free_func ((GDestroyNotify) plumb_completion_free);
  for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
    g_ptr_array_add (completions, c);
  g_ptr_array_sort (completions, compare_samples);
  for (guint i = 0; i < completions->len; i++)
    {
      PlumbCompletion *c = g_ptr_array_index (completions, i);
      g_autofree char *text = plumb_tokenizer_decode_after (
          session->tokenizer, (gint32 *) (void *) prompt->data, prompt->len, (gint32 *) (void *) c->ids->data,
          c->ids->len, TRUE, error);
      if (!text)
        return FALSE;
      print_completion (o, c, text);
    }
  return TRUE;
}

static gboolean
generate (const Options *o, GError **error)
{
  g_auto (PlumbModelSession) session = { .weight_codes = g_strcmp0 (o->weights, "fp8") == 0 };
  if (!plumb_model_session_open (&session, o->model, o->precision, o->device, TRUE, error))
    return FALSE;
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (!plumb_tokenizer_encode (session.tokenizer, o->prompt, -1, TRUE, ids, error))
    return FALSE;
  gsize n_stop = 0;
  const gint32 *stop = plumb_tokenizer_eos (session.tokenizer, &n_stop);
  PlumbRolloutPlan plan = { .max_running = MIN (o->samples, 64), .max_prompt = MAX (1, (int) ids->len),
                            .max_new_tokens = o->max_new_tokens, .kv_codes = g_strcmp0 (o->kv_type, "fp8") == 0,
                            .weight_codes = session.weight_codes };
  PlumbSampling sampling = { .temperature = o->greedy ? 0 : o->temperature,
                             .max_new_tokens = o->max_new_tokens,
                             .stop = stop,
                             .n_stop = (int) n_stop,
                             .filters = o->filters,
                             .seed = (guint64) o->seed,
                             .purpose = PLUMB_RANDOM_GENERATE };
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (session.model, &plan, error);
  if (!rollout || !plumb_rollout_begin (rollout, &sampling, error)
      || !plumb_rollout_submit (rollout, (gint32 *) (void *) ids->data, (int) ids->len, o->samples, 0,
                                error))
    return FALSE;
  for (gboolean idle = FALSE; !idle;)
    if (!plumb_rollout_advance (rollout, &idle, error))
      return FALSE;
  return print_all (o, &session, rollout, ids, error);
}

static gboolean
filters_are_valid (const PlumbFilters *f)
{
  return f->top_k >= 0 && f->top_p > 0 && f->top_p <= 1 && f->min_p >= 0 && f->min_p <= 1 && f->repetition_penalty > 0
         && isfinite (f->repetition_penalty);
}

static gboolean
is_rounding (const char *word)
{
  return !word || g_str_equal (word, "model") || g_str_equal (word, "fp8");
}

int
plumb_cmd_generate (int argc, char **argv, GError **error)
{
  g_auto (Options) o = { .samples = 1, .max_new_tokens = 128, .temperature = 1, .seed = 42,
                         .filters = { .top_p = 1, .repetition_penalty = 1 } };
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &o.model, N_ ("model folder"), N_ ("DIR") },
    { "prompt", 'p', 0, G_OPTION_ARG_STRING, &o.prompt, N_ ("text to continue"), "TEXT" },
    { "samples", 'n', 0, G_OPTION_ARG_INT, &o.samples, N_ ("completions (default 1)"), "N" },
    { "temperature", 't', 0, G_OPTION_ARG_DOUBLE, &o.temperature, N_ ("default 1"), "T" },
    { "top-k", 0, 0, G_OPTION_ARG_INT, &o.filters.top_k, N_ ("only the likeliest K tokens"), "K" },
    { "top-p", 0, 0, G_OPTION_ARG_DOUBLE, &o.filters.top_p, N_ ("only the likeliest tokens that together reach P"), "P" },
    { "min-p", 0, 0, G_OPTION_ARG_DOUBLE, &o.filters.min_p, N_ ("no token below P times the likeliest"), "P" },
    { "repetition-penalty", 0, 0, G_OPTION_ARG_DOUBLE, &o.filters.repetition_penalty,
      N_ ("makes tokens of the text so far less likely (default 1)"), "F" },
    { "max-new-tokens", 0, 0, G_OPTION_ARG_INT, &o.max_new_tokens, N_ ("at most (default 128)"), "N" },
    { "seed", 's', 0, G_OPTION_ARG_INT64, &o.seed, N_ ("of the random numbers (default 42)"), "S" },
    { "greedy", 'g', 0, G_OPTION_ARG_NONE, &o.greedy, N_ ("always the likeliest token"), NULL },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &o.precision, N_ ("fp32 (default) or bf16"), "NAME" },
    { "device", 'd', 0, G_OPTION_ARG_STRING, &o.device, N_ ("auto (default), cpu or cuda:N"), "NAME" },
    { "weights", 0, 0, G_OPTION_ARG_STRING, &o.weights, N_ ("model (default) or fp8, as rollout.weights"), "NAME" },
    { "kv-type", 0, 0, G_OPTION_ARG_STRING, &o.kv_type, N_ ("model (default) or fp8, as rollout.kv_type"), "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &o.json, N_ ("one JSON object a line"), NULL },
    { NULL },
  };
  if (!plumb_command_parse (&argc, &argv, entries, "", N_ ("continue a text with a model"), 0, 0, error))
    return PLUMB_ERROR_USAGE;
  if (!o.model || !o.prompt || o.samples < 1 || o.samples > 65536 || o.max_new_tokens < 1
      || o.temperature < 0 || !filters_are_valid (&o.filters) || !is_rounding (o.weights) || !is_rounding (o.kv_type))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                   "generate needs --model DIR and --prompt TEXT, at least one sample and one token, a temperature and a "
                   "--top-k of 0 or more, --top-p and --min-p between 0 and 1, a --repetition-penalty above 0, and "
                   "model or fp8 as --weights and --kv-type");
      return PLUMB_ERROR_USAGE;
    }
  return generate (&o, error) ? 0 : PLUMB_ERROR_FAILED;
}
