/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/rollout/rollout.h"
#include "engine/run/verify-golden.h"
#include "engine/run/verify.h"
#include "engine/text/tokenizer.h"

#define MAX_GOLDEN_BYTES (1u << 30)
#define BOUND 5e-5     /* of fp32 log-probs and logits */
#define ROUNDING 1e-6  /* the file's six digits */

typedef struct
{
  PlumbModel *model;
  PlumbTokenizer *tokenizer;
  PlumbBuffers *buffers;
  const char *file;
  gboolean quiet;
  int keys, compared, failed;
} Golden;

static void
record (Golden *g, const char *place, const char *key, double error, double bound)
{
  gboolean good = error <= bound;
  g->compared++;
  g->failed += !good;
  if (!good || !g->quiet)
    g_print ("%-20s %-24s %10.3g  bound %8.3g  %s\n", place, key, error, bound, good ? "ok" : "FAILED");
}

/* Numbers of an array member as doubles; nulls as NAN. NULL with a record where it is missing. */
static GArray *
numbers (Golden *g, JsonObject *object, const char *place, const char *key)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, key));
  g->keys++;
  if (!array)
    {
      g->failed++;
      g_print ("%-20s %-24s MISSING\n", place, key);
      return NULL;
    }
  GArray *values = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *item = json_array_get_element (array, i);
      double value = JSON_NODE_HOLDS_VALUE (item) ? json_node_get_double (item) : NAN;
      g_array_append_val (values, value);
    }
  return values;
}

/* Ids that the model can be given; others are a failure of the file, not a case to pass over. */
static gboolean
fits (Golden *g, const char *place, const char *key, GArray *ids)
{
  gboolean good = ids->len >= 2 && ids->len <= (guint) g->model->positions;
  for (guint i = 0; good && i < ids->len; i++)
    {
      double id = g_array_index (ids, double, i);
      good = id >= 0 && id < g->model->config->vocabulary;
    }
  g->failed += !good;
  if (!good)
    g_print ("%-20s %-24s NOT IDS OF THIS MODEL\n", place, key);
  return good;
}

static gint32 *
as_ids (GArray *values)
{
  gint32 *ids = g_new (gint32, values->len + 1);
  for (guint i = 0; i < values->len; i++)
    ids[i] = (gint32) CLAMP (g_array_index (values, double, i), -1, G_MAXINT32);
  return ids;
}

/* Greatest absolute difference; infinite where lengths differ or a value is not a number. */
static double
worst_of (GArray *want, guint first, const float *have, guint n)
{
  double worst = 0;
  if (!want || want->len - first != n)
    return INFINITY;
  for (guint i = 0; i < n; i++)
    {
      double error = fabs (g_array_index (want, double, first + i) - have[i]);
      worst = isnan (error) ? INFINITY : MAX (worst, error);
    }
  return worst;
}

static gboolean
forward (Golden *g, const gint32 *ids, int n, GError **error)
{
  gint32 offsets[2] = { 0, n };
  PlumbPass pass = { .sequences = 1, .ids = ids, .offsets = offsets };
  return plumb_model_forward (g->model, g->buffers, &pass, error);
}

static gboolean
token_log_probs (Golden *g, const gint32 *ids, int n, float *log_probs, GError **error)
{
  g_autofree gint32 *rows = g_new (gint32, n);
  for (int i = 0; i < n - 1; i++)
    rows[i] = i;
  return forward (g, ids, n, error)
         && plumb_model_log_probs (g->model, g->buffers, rows, ids + 1, n - 1, 1.0, log_probs, NULL, error);
}

static void
check_top (Golden *g, JsonObject *object, const char *place, const float *logits)
{
  JsonArray *array = plumb_json_node_array (json_object_get_member (object, "next_top8"));
  int vocabulary = g->model->config->vocabulary;
  double top = -INFINITY, sum = 0, worst = array ? 0 : INFINITY;
  g->keys++;
  for (int i = 0; i < vocabulary; i++)
    top = MAX (top, logits[i]);
  for (int i = 0; i < vocabulary; i++)
    sum += exp (logits[i] - top);
  for (guint i = 0; array && i < json_array_get_length (array); i++)
    {
      JsonArray *pair = plumb_json_node_array (json_array_get_element (array, i));
      JsonNode *value = pair && json_array_get_length (pair) == 2 ? json_array_get_element (pair, 1) : NULL;
      gint64 id;
      if (!value || !JSON_NODE_HOLDS_VALUE (value) || !plumb_json_node_integer (json_array_get_element (pair, 0), &id)
          || id < 0 || id >= vocabulary)
        worst = INFINITY;
      else
        worst = MAX (worst, fabs (json_node_get_double (value) - (logits[id] - top - log (sum))));
    }
  record (g, place, "next_top8", worst, BOUND + ROUNDING);
}

static gboolean
check_prompt (Golden *g, JsonObject *object, const char *place, const gint32 *ids, int n, GError **error)
{
  g_autoptr (GArray) want = numbers (g, object, place, "prompt_token_logprobs");
  g_autoptr (GArray) first16 = numbers (g, object, place, "last_logits_first16");
  g_autofree float *log_probs = g_new (float, n);
  g_autofree float *logits = g_new (float, g->model->config->vocabulary);
  gint32 last = n - 1;
  if (!token_log_probs (g, ids, n, log_probs, error)
      || !plumb_model_logits (g->model, g->buffers, &last, 1, logits, error))
    return FALSE;
  record (g, place, "prompt_token_logprobs", worst_of (want, 1, log_probs, (guint) n - 1), BOUND + ROUNDING);
  record (g, place, "last_logits_first16", worst_of (first16, 0, logits, 16), BOUND + ROUNDING);
  check_top (g, object, place, logits);
  return TRUE;
}

static gboolean
check_greedy (Golden *g, JsonObject *object, const char *place, const gint32 *ids, int n, GError **error)
{
  g_autoptr (GArray) want = numbers (g, object, place, "greedy_ids");
  g_autoptr (GArray) want_log_probs = numbers (g, object, place, "greedy_logprobs");
  if (!want || !want_log_probs)
    return TRUE;
  PlumbRolloutPlan plan = { .max_running = 1, .page_tokens = 16, .max_prompt = n,
                            .max_new_tokens = (int) want->len };
  PlumbSampling sampling = { .temperature = 0, .max_new_tokens = (int) want->len };
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (g->model, &plan, error);
  if (!rollout || !plumb_rollout_begin (rollout, &sampling, error)
      || !plumb_rollout_submit (rollout, ids, n, 1, 0, error))
    return FALSE;
  for (gboolean idle = FALSE; !idle;)
    if (!plumb_rollout_advance (rollout, &idle, error))
      return FALSE;
  g_autoptr (PlumbCompletion) completion = plumb_rollout_take (rollout);
  int different = completion->ids->len != want->len;
  for (guint i = 0; i < MIN (want->len, completion->ids->len); i++)
    different += g_array_index (completion->ids, gint32, i) != (gint32) g_array_index (want, double, i);
  record (g, place, "greedy_ids", different, 0);
  record (g, place, "greedy_logprobs",
          worst_of (want_log_probs, 0, (float *) (void *) completion->log_probs->data,
                    completion->log_probs->len),
          BOUND + ROUNDING);
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_array_append_vals (all, ids, (guint) n);
  g_array_append_vals (all, completion->ids->data, completion->ids->len);
  g_autofree char *text
      = plumb_tokenizer_decode (g->tokenizer, (gint32 *) (void *) all->data, all->len, TRUE, error);
  if (!text)
    return FALSE;
  const char *want_text = plumb_json_node_text (json_object_get_member (object, "greedy_text"));
  g->keys++;
  record (g, place, "greedy_text", g_strcmp0 (want_text, text) != 0, 0);
  return TRUE;
}

static gboolean
check_case (Golden *g, JsonObject *object, const char *place, GError **error)
{
  static const char *const known[] = { "prompt", "prompt_ids", "prompt_token_logprobs", "next_top8",
                                       "last_logits_first16", "greedy_ids", "greedy_logprobs",
                                       "greedy_text", NULL };
  g_autoptr (GList) members = json_object_get_members (object);
  for (GList *l = members; l; l = l->next)
    if (!g_strv_contains (known, l->data))
      {
        g->failed++;
        g_print ("%-20s %-24s NOT COMPARED: this engine does not know the key\n", place, (char *) l->data);
      }
  g_autoptr (GArray) want = numbers (g, object, place, "prompt_ids");
  if (!want || !fits (g, place, "prompt_ids", want))
    return TRUE;
  g_autofree gint32 *ids = as_ids (want);
  g_autoptr (GArray) encoded = g_array_new (FALSE, FALSE, sizeof (gint32));
  const char *prompt = json_object_get_string_member_with_default (object, "prompt", "");
  g->keys++;
  if (!plumb_tokenizer_encode (g->tokenizer, prompt, -1, TRUE, encoded, error))
    return FALSE;
  record (g, place, "prompt_ids",
          encoded->len != want->len || memcmp (encoded->data, ids, want->len * sizeof (gint32)) != 0, 0);
  return check_prompt (g, object, place, ids, (int) want->len, error)
         && check_greedy (g, object, place, ids, (int) want->len, error);
}

/* Sum of the negative log-probs of each row of a text file's ids. */
static gboolean
check_nll (Golden *g, JsonObject *object, const char *place, GError **error)
{
  g_autoptr (GArray) values = numbers (g, object, place, "ids");
  if (!values || !fits (g, place, "ids", values))
    return TRUE;
  g_autofree gint32 *ids = as_ids (values);
  g_autofree float *log_probs = g_new (float, values->len);
  if (!token_log_probs (g, ids, (int) values->len, log_probs, error))
    return FALSE;
  double sum = 0;
  for (guint i = 0; i + 1 < values->len; i++)
    sum -= log_probs[i];
  double want = json_object_get_double_member_with_default (object, "sum_nll", NAN);
  g->keys++;
  record (g, place, "sum_nll", isnan (want) ? INFINITY : fabs (sum - want) / fabs (want), 1e-5);
  return TRUE;
}

static gboolean
check_rows (Golden *g, const char *file, const char *member,
            gboolean (*check) (Golden *, JsonObject *, const char *, GError **), GError **error)
{
  g_autoptr (JsonParser) parser = plumb_json_parse_file (file, MAX_GOLDEN_BYTES, error);
  JsonObject *top = parser ? plumb_json_top (parser, file, error) : NULL;
  JsonArray *array = top ? plumb_json_node_array (json_object_get_member (top, member)) : NULL;
  if (!top)
    return FALSE;
  if (!array)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: key %s is missing", file, member);
      return FALSE;
    }
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *item = json_array_get_element (array, i);
      g_autofree char *place = g_strdup_printf ("%s.%u", member, i);
      if (!JSON_NODE_HOLDS_OBJECT (item))
        g->failed++;
      else if (!check (g, json_node_get_object (item), place, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
plumb_verify_golden (PlumbDevice *device, const char *dir, const char *file, gboolean quiet,
                     gboolean *passed, GError **error)
{
  g_autoptr (PlumbModel) model = plumb_model_load (device, dir, DEV_F32, 0, error);
  g_autoptr (PlumbTokenizer) tokenizer = model ? plumb_tokenizer_load (dir, error) : NULL;
  if (!tokenizer)
    return FALSE;
  PlumbBufferPlan plan = { .tokens = model->positions, .sequences = 1 };
  g_autoptr (PlumbBuffers) buffers = plumb_buffers_new (model, &plan, error);
  Golden golden = { model, tokenizer, buffers, file, quiet, 0, 0, 0 };
  if (!buffers || !check_rows (&golden, file, "cases", check_case, error))
    return FALSE;
  g_autofree char *nll = g_build_filename (dir, "eval_nll.json", NULL);
  if (g_file_test (nll, G_FILE_TEST_EXISTS) && !check_rows (&golden, nll, "rows", check_nll, error))
    return FALSE;
  g_print ("compared %d keys, %d comparisons, %d failed\n", golden.keys, golden.compared, golden.failed);
  *passed = golden.failed == 0 && golden.compared > 0;
  return TRUE;
}
