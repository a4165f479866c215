/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the cache, and the scheduler that hands them out. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/rollout/kv-pages.h"
#include "engine/rollout/rollout.h"
#include "kernels/e4m3.h"

#define WORKSPACE (64 << 20)
#define POSITIONS 96
#define VOCABULARY 64

static void
test_pages (void)
{
  g_autoptr (PlumbKvPages) pages = plumb_kv_pages_new (3);
  int a = plumb_kv_pages_take (pages), b = plumb_kv_pages_take (pages), c = plumb_kv_pages_take (pages);
  g_assert_true (a >= 0 && b >= 0 && c >= 0 && a != b && b != c && a != c);
  g_assert_cmpint (plumb_kv_pages_take (pages), ==, -1);
  plumb_kv_pages_share (pages, b);
  plumb_kv_pages_release (pages, b);
  g_assert_cmpint (plumb_kv_pages_used (pages), ==, 3);
  g_assert_cmpint (plumb_kv_pages_references (pages, b), ==, 1);
  plumb_kv_pages_release (pages, b);
  g_assert_cmpint (plumb_kv_pages_used (pages), ==, 2);
  g_assert_cmpint (plumb_kv_pages_take (pages), ==, b);
  plumb_kv_pages_release (pages, a);
  plumb_kv_pages_release (pages, b);
  plumb_kv_pages_release (pages, c);
  g_assert_cmpint (plumb_kv_pages_used (pages), ==, 0);
  g_assert_cmpint (plumb_kv_pages_peak (pages), ==, 3);
  plumb_kv_pages_forget_peak (pages);
  g_assert_cmpint (plumb_kv_pages_peak (pages), ==, 0);
}

/* A page given back once too often would be in two sequences at once. */
static void
test_pages_misused (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (PlumbKvPages) pages = plumb_kv_pages_new (2);
      int page = plumb_kv_pages_take (pages);
      plumb_kv_pages_release (pages, page);
      plumb_kv_pages_release (pages, page);
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr ("*references*");
}

typedef struct
{
  PlumbDevice *device;
  PlumbModel *model;
} Fixture;

/* Where the tests run: on a GPU the passes are recorded and queued ahead, and must give what they give one by one. */
typedef struct
{
  const char *device;
  enum dev_type type;
  int width; /* 4 heads */
  gboolean fast; /* rows may depend on what rides along */
} Place;

static const Place places[] = {
  { "cpu", DEV_F32, 32 },
  { "cuda:0", DEV_F32, 32 },
  { "cuda:0", DEV_BF16, 256 },
  { "cuda:0", DEV_BF16, 256, TRUE },
};

/* Without the device there is no model, and the tests are skipped. */
static void
set_up (Fixture *f, gconstpointer data)
{
  const Place *place = data;
  g_autoptr (GError) error = NULL;
  /* By the clock the products of a model so small take the matrix itself. */
  if (place->fast)
    g_setenv ("PLUMB_CODES_PATH", "codes", TRUE);
  f->device = plumb_device_open (place->device, WORKSPACE, &error);
  g_unsetenv ("PLUMB_CODES_PATH");
  if (!f->device && !g_str_equal (place->device, "cpu"))
    {
      g_test_skip (error->message);
      return;
    }
  g_assert_no_error (error);
  PlumbModelConfig *config = plumb_model_config_new (place->width, 2, 4, 2, 48, VOCABULARY, POSITIONS, &error);
  g_assert_no_error (error);
  f->device->ops->set_deterministic (f->device->context, !place->fast);
  f->model = plumb_model_new (f->device, config, place->type, 0, 3, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  plumb_model_free (f->model);
  plumb_device_close (f->device);
}

#define PROMPTS 5
#define SAMPLES 3

/* Prompts of 1, 17, 33, 49 and 65 tokens: over and under the ends of pages. */
static int
prompt_length (int p)
{
  return 16 * p + 1;
}

static void
submit_all (PlumbRollout *rollout, const int *order)
{
  for (int i = 0; i < PROMPTS; i++)
    {
      g_autoptr (GError) error = NULL;
      int p = order ? order[i] : i;
      gint32 ids[POSITIONS];
      for (int t = 0; t < prompt_length (p); t++)
        ids[t] = (p * 7 + t * 3) % VOCABULARY;
      plumb_rollout_submit (rollout, ids, prompt_length (p), SAMPLES, p, &error);
      g_assert_no_error (error);
    }
}

/* Runs to the end; a line of text for each sample, in order, with exact log-probs. */
static char *
run_all (PlumbRollout *rollout, PlumbRolloutStatistics *statistics)
{
  char *lines[PROMPTS * SAMPLES] = { NULL };
  g_autoptr (GError) error = NULL;
  int passes = 0;
  for (gboolean idle = FALSE; !idle; passes++)
    {
      plumb_rollout_advance (rollout, &idle, &error);
      g_assert_no_error (error);
      g_assert_cmpint (passes, <, 10000);
      for (PlumbCompletion *next; (next = plumb_rollout_take (rollout));)
        {
          g_autoptr (PlumbCompletion) c = next;
          g_autoptr (GString) line = g_string_new (NULL);
          g_assert_cmpuint (c->ids->len, ==, c->log_probs->len);
          g_assert_cmpuint (c->ids->len, >, 0);
          for (guint t = 0; t < c->ids->len; t++)
            g_string_append_printf (line, "%d:%a ", g_array_index (c->ids, gint32, t),
                                    (double) g_array_index (c->log_probs, float, t));
          g_string_append (line, c->finish == PLUMB_FINISH_STOP ? "stop\n" : "length\n");
          g_assert_null (lines[c->ordinal * SAMPLES + c->sample]);
          lines[c->ordinal * SAMPLES + c->sample] = g_strdup (line->str);
        }
    }
  GString *text = g_string_new (NULL);
  for (int i = 0; i < PROMPTS * SAMPLES; i++)
    {
      g_assert_nonnull (lines[i]);
      g_string_append (text, lines[i]);
      g_clear_pointer (&lines[i], g_free);
    }
  plumb_rollout_statistics (rollout, statistics);
  return g_string_free (text, FALSE);
}

static const gint32 stop_ids[] = { 9, 11 };

static char *
generate (Fixture *f, const PlumbRolloutPlan *plan, const int *order, PlumbRolloutStatistics *statistics)
{
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 40, .stop = stop_ids, .n_stop = 2, .seed = 5,
                             .purpose = PLUMB_RANDOM_ROLLOUT };
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, plan, &error);
  g_assert_no_error (error);
  plumb_rollout_begin (rollout, &sampling, &error);
  g_assert_no_error (error);
  submit_all (rollout, order);
  return run_all (rollout, statistics);
}

/* Ids beyond the tokenizer's are never sampled, and take no share of the probability. */
static void
test_padded_vocabulary (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  enum { LIMIT = 20 };
  const PlumbRolloutPlan plan = { .max_running = 64, .max_prompt = 65, .max_new_tokens = 40 };
  PlumbRolloutStatistics statistics;
  g_autoptr (GError) error = NULL;
  plumb_model_limit_vocabulary (f->model, LIMIT);
  g_autofree char *text = generate (f, &plan, NULL, &statistics);
  g_auto (GStrv) tokens = g_strsplit_set (text, " \n", -1);
  for (int i = 0; tokens[i]; i++)
    if (strchr (tokens[i], ':'))
      g_assert_cmpint (atoi (tokens[i]), <, LIMIT);
  PlumbBufferPlan buffer_plan = { .tokens = LIMIT, .sequences = 1 };
  g_autoptr (PlumbBuffers) buffers = plumb_buffers_new (f->model, &buffer_plan, &error);
  g_assert_no_error (error);
  gint32 ids[] = { 5, 6, 7 }, offsets[] = { 0, 3 }, rows[LIMIT], targets[LIMIT];
  float log_probs[LIMIT];
  double sum = 0;
  PlumbPass pass = { .sequences = 1, .ids = ids, .offsets = offsets };
  for (int i = 0; i < LIMIT; i++)
    {
      rows[i] = 2;
      targets[i] = i;
    }
  plumb_model_forward (f->model, buffers, &pass, &error);
  g_assert_no_error (error);
  plumb_model_log_probs (f->model, buffers, rows, targets, LIMIT, 1, log_probs, NULL, &error);
  g_assert_no_error (error);
  for (int i = 0; i < LIMIT; i++)
    sum += exp (log_probs[i]);
  g_assert_cmpfloat_with_epsilon (sum, 1, 1e-5);
}

/* The same completions to the last bit, whatever rides along, in whichever pages, of codes or not. */
static void
check_batches (Fixture *f, int kv_codes)
{
  static const int backwards[] = { 4, 3, 2, 1, 0 };
  PlumbRolloutPlan plans[] = {
    { .max_running = 64, .max_prompt = 65, .max_new_tokens = 40 },
    { .max_running = 1, .max_prompt = 65, .max_new_tokens = 40, .page_tokens = 16 },
    { .max_running = 3, .max_prompt = 65, .max_new_tokens = 40, .page_tokens = 16, .prefill_tokens = 8 },
    { .max_running = 4, .max_prompt = 65, .max_new_tokens = 40, .page_tokens = 128 },
    /* Hardly enough pages for one prompt and its samples: the others wait. */
    { .max_running = 3, .max_prompt = 65, .max_new_tokens = 40, .page_tokens = 16, .pages = 14 },
  };
  PlumbRolloutStatistics statistics;
  for (gsize i = 0; i < G_N_ELEMENTS (plans); i++)
    plans[i].kv_codes = kv_codes;
  g_autofree char *first = generate (f, &plans[0], NULL, &statistics);
  g_assert_nonnull (strstr (first, "stop"));
  g_assert_nonnull (strstr (first, "length"));
  g_assert_cmpint (statistics.prefill_tokens, ==, 1 + 17 + 33 + 49 + 65);
  g_assert_cmpint (statistics.shared_tokens, ==, 2 * (1 + 17 + 33 + 49 + 65));
  for (gsize i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      g_autofree char *other = generate (f, &plans[i], i % 2 ? backwards : NULL, &statistics);
      g_assert_cmpstr (other, ==, first);
      g_assert_cmpfloat (statistics.kv_used, >, 0);
      g_assert_cmpfloat (statistics.kv_used, <=, 1);
    }
}

static void
test_batches (Fixture *f, gconstpointer data)
{
  if (f->model)
    check_batches (f, FALSE);
}

/* Log-probs of the first tokens, up to where two generations part; the mean distance. */
static double
first_distance (const char *a, const char *b, int *agreed)
{
  g_auto (GStrv) left = g_strsplit (a, "\n", -1), right = g_strsplit (b, "\n", -1);
  double sum = 0;
  *agreed = 0;
  for (int i = 0; left[i] && right[i]; i++)
    {
      g_auto (GStrv) x = g_strsplit (left[i], " ", -1), y = g_strsplit (right[i], " ", -1);
      for (int t = 0; x[t] && y[t] && atoi (x[t]) == atoi (y[t]) && strchr (x[t], ':') && strchr (y[t], ':'); t++, ++*agreed)
        sum += fabs (g_ascii_strtod (strchr (x[t], ':') + 1, NULL) - g_ascii_strtod (strchr (y[t], ':') + 1, NULL));
    }
  return sum / MAX (*agreed, 1);
}

/* An fp8 cache takes less memory, gives the same whatever rides along, and log-probs near those without it. */
static void
test_coded_cache (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  PlumbRolloutPlan plan = { .max_running = 64, .page_tokens = 16, .max_prompt = 65, .max_new_tokens = 40 }, coded = plan;
  PlumbRolloutStatistics statistics;
  int agreed = 0;
  coded.kv_codes = TRUE;
  gsize bytes = plumb_rollout_page_bytes (f->model->config, f->model->type, &plan);
  gsize fewer = plumb_rollout_page_bytes (f->model->config, f->model->type, &coded);
  int size = f->model->config->head_size;
  g_assert_cmpuint (fewer * size * dev_type_size (f->model->type), ==, bytes * (size + sizeof (float)));
  check_batches (f, TRUE);
  g_autofree char *exact = generate (f, &plan, NULL, &statistics);
  g_autofree char *near = generate (f, &coded, NULL, &statistics);
  double distance = first_distance (exact, near, &agreed);
  g_test_message ("%d tokens agree, log-probs %g apart", agreed, distance);
  g_assert_cmpint (agreed, >, PROMPTS * SAMPLES);
  g_assert_cmpfloat (distance, >, 0);
  g_assert_cmpfloat (distance, <, 0.02);
}

/* Puts what a matrix's codes stand for in its place. */
static void
decode_into (Fixture *f, const struct dev_matrix *matrix)
{
  float *weights = (float *) matrix->data;
  for (int r = 0; r < matrix->rows; r++)
    for (int c = 0; c < matrix->cols; c++)
      {
        gsize i = (gsize) r * matrix->cols + c;
        weights[i] = e4m3_to_float (matrix->codes[i]) * matrix->code_scales[r];
      }
}

/* With fp8 weights the completions are, to the last bit, those of a model that has what the codes stand for, after an update
 * too; a rollout without them on the same model gives what it gave. */
static void
test_coded_weights (Fixture *f, gconstpointer data)
{
  const Place *place = data;
  if (!f->model)
    return;
  PlumbRolloutPlan plan = { .max_running = 64, .page_tokens = 16, .max_prompt = 65, .max_new_tokens = 40 }, coded = plan;
  PlumbRolloutStatistics statistics;
  int agreed = 0;
  coded.weight_codes = TRUE;
  g_autofree char *exact = generate (f, &plan, NULL, &statistics);
  g_autofree char *near = generate (f, &coded, NULL, &statistics);
  g_autofree char *again = generate (f, &plan, NULL, &statistics);
  if (!place->fast)
    g_assert_cmpstr (again, ==, exact);
  double distance = first_distance (exact, near, &agreed);
  g_test_message ("%d tokens agree, log-probs %g apart", agreed, distance);
  g_assert_cmpfloat (distance, >, 0);
  g_assert_cmpfloat (distance, <, 0.05);
  if (f->device->asynchronous || f->model->type != DEV_F32)
    return;
  for (int i = 0; i < f->model->config->layers; i++)
    {
      const PlumbBlock *block = &f->model->coded_blocks[i];
      decode_into (f, &block->qkv);
      decode_into (f, &block->o);
      decode_into (f, &block->gate_up);
      decode_into (f, &block->down);
    }
  plumb_model_touch (f->model);
  g_autofree char *decoded = generate (f, &plan, NULL, &statistics);
  g_assert_cmpstr (decoded, ==, near);
  float *weights = plumb_model_weights (f->model);
  for (gsize i = 0; i < f->model->table->elements; i++)
    weights[i] *= 1.25f;
  plumb_model_touch (f->model);
  g_autofree char *updated = generate (f, &plan, NULL, &statistics);
  g_autofree char *updated_coded = generate (f, &coded, NULL, &statistics);
  g_assert_cmpstr (updated, !=, near);
  g_assert_cmpint (first_distance (updated, updated_coded, &agreed) < 0.01, ==, TRUE);
  g_assert_cmpint (agreed, >, PROMPTS * SAMPLES);
}

/* The same rollout serves again and again: no page is lost, and the seed decides. */
static void
test_again (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  PlumbRolloutPlan plan = { .max_running = 4, .max_prompt = 65, .max_new_tokens = 40, .page_tokens = 16 };
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 40, .stop = stop_ids, .n_stop = 2, .seed = 5,
                             .purpose = PLUMB_RANDOM_ROLLOUT };
  PlumbRolloutStatistics statistics;
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, &plan, NULL);
  g_autofree char *first = NULL, *other = NULL;
  for (int round = 0; round < 4; round++)
    {
      g_assert_true (plumb_rollout_begin (rollout, &sampling, NULL));
      submit_all (rollout, NULL);
      if (round == 1) /* in the middle of it, everything is dropped */
        {
          gboolean idle;
          g_assert_true (plumb_rollout_advance (rollout, &idle, NULL));
          g_assert_true (plumb_rollout_advance (rollout, &idle, NULL));
          plumb_rollout_abort (rollout);
          g_assert_true (plumb_rollout_advance (rollout, &idle, NULL));
          g_assert_true (idle);
          g_assert_null (plumb_rollout_take (rollout));
          continue;
        }
      g_autofree char *text = run_all (rollout, &statistics);
      if (!first)
        first = g_steal_pointer (&text);
      else
        g_assert_cmpstr (text, ==, first);
    }
  sampling.seed = 6;
  g_assert_true (plumb_rollout_begin (rollout, &sampling, NULL));
  submit_all (rollout, NULL);
  other = run_all (rollout, &statistics);
  g_assert_cmpstr (other, !=, first);
}

/* No stop token before the least length; greedy samples are all the same. */
static void
test_limits (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  gint32 all_but_one[PLUMB_MAX_FORBIDDEN];
  PlumbRolloutPlan plan = { .max_running = 8, .max_prompt = 65, .max_new_tokens = 10 };
  PlumbSampling sampling = { .temperature = 0, .max_new_tokens = 10, .min_new_tokens = 4, .stop = all_but_one,
                             .n_stop = VOCABULARY - 1, .seed = 5, .purpose = PLUMB_RANDOM_GENERATE };
  gint32 prompt[2] = { 1, 2 };
  gboolean idle = FALSE;
  for (int i = 0; i < VOCABULARY - 1; i++)
    all_but_one[i] = i;
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, &plan, NULL);
  g_assert_true (plumb_rollout_begin (rollout, &sampling, NULL));
  g_assert_true (plumb_rollout_submit (rollout, prompt, 2, 2, 0, NULL));
  while (!idle)
    g_assert_true (plumb_rollout_advance (rollout, &idle, NULL));
  g_autoptr (PlumbCompletion) a = plumb_rollout_take (rollout), b = plumb_rollout_take (rollout);
  for (int t = 0; t < 3; t++)
    g_assert_cmpint (g_array_index (a->ids, gint32, t), ==, VOCABULARY - 1);
  g_assert_cmpuint (a->ids->len, >=, 4);
  g_assert_cmpuint (a->ids->len, ==, b->ids->len);
  g_assert_cmpmem (a->ids->data, a->ids->len * 4, b->ids->data, b->ids->len * 4);
}

static void
test_refused (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  PlumbRolloutPlan odd = { .max_running = 2, .max_prompt = 8, .max_new_tokens = 8, .page_tokens = 17 };
  PlumbRolloutPlan small = { .max_running = 2, .max_prompt = 80, .max_new_tokens = 8, .page_tokens = 16, .pages = 2 };
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 8, .purpose = PLUMB_RANDOM_ROLLOUT };
  gint32 ids[POSITIONS] = { 0 };
  gboolean idle;
  g_autoptr (GError) error = NULL;
  g_assert_null (plumb_rollout_new (f->model, &odd, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, &small, NULL);
  g_assert_true (plumb_rollout_begin (rollout, &sampling, NULL));
  g_assert_false (plumb_rollout_submit (rollout, ids, 0, 1, 0, &error));
  g_clear_error (&error);
  g_assert_false (plumb_rollout_submit (rollout, ids, 81, 1, 0, &error));
  g_assert_nonnull (strstr (error->message, "81 tokens"));
  g_clear_error (&error);
  /* A prompt that can never fit is an error, not a wait without end. */
  g_assert_true (plumb_rollout_submit (rollout, ids, 80, 1, 0, NULL));
  g_assert_false (plumb_rollout_advance (rollout, &idle, &error));
  g_assert_nonnull (strstr (error->message, "rollout.kv_memory"));
  g_clear_error (&error);
  plumb_rollout_abort (rollout);
  ids[0] = VOCABULARY;
  g_assert_true (plumb_rollout_submit (rollout, ids, 4, 1, 0, NULL));
  g_assert_false (plumb_rollout_advance (rollout, &idle, &error));
  g_assert_nonnull (strstr (error->message, "token id 64"));
}

/* One completion of a prompt of four tokens. */
static PlumbCompletion *
complete_one (PlumbRollout *rollout, const PlumbSampling *sampling)
{
  const gint32 ids[] = { 5, 6, 7, 8 };
  gboolean idle = FALSE;
  g_autoptr (GError) error = NULL;
  g_assert_true (plumb_rollout_begin (rollout, sampling, &error));
  g_assert_true (plumb_rollout_submit (rollout, ids, 4, 3, 9, &error));
  while (!idle)
    g_assert_true (plumb_rollout_advance (rollout, &idle, &error));
  PlumbCompletion *found = NULL;
  for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
    if (c->sample == 1)
      found = c;
    else
      plumb_completion_free (c);
  g_assert_nonnull (found);
  return found;
}

/* Filters that leave one token give the greedy text with log-probs of 0; a great penalty leaves nothing twice, be it of the
 * prompt or of the text; and without filters all is as before. */
static void
test_filters (Fixture *f, gconstpointer data)
{
  if (!f->model)
    return;
  PlumbRolloutPlan plan = { .max_running = 4, .page_tokens = 16, .max_prompt = 8, .max_new_tokens = 24 };
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, &plan, NULL);
  PlumbSampling sampling = { .temperature = 0, .max_new_tokens = 24, .seed = 3 };
  g_autoptr (PlumbCompletion) greedy = complete_one (rollout, &sampling);
  sampling.temperature = 1;
  g_autoptr (PlumbCompletion) plain = complete_one (rollout, &sampling);
  const PlumbFilters narrow[] = { { .top_k = 1 }, { .top_p = 1e-6 }, { .min_p = 1 } };
  for (gsize i = 0; i < G_N_ELEMENTS (narrow); i++)
    {
      sampling.filters = narrow[i];
      g_autoptr (PlumbCompletion) one = complete_one (rollout, &sampling);
      g_assert_cmpmem (one->ids->data, one->ids->len * 4, greedy->ids->data, greedy->ids->len * 4);
      for (guint t = 0; t < one->log_probs->len; t++)
        g_assert_cmpfloat (fabs (g_array_index (one->log_probs, float, t)), <, 1e-6);
    }
  sampling.filters = (PlumbFilters){ .repetition_penalty = 50, .top_k = 20 };
  for (int round = 0; round < 2; round++) /* what one generation has seen is forgotten by the next */
    {
      gboolean seen[VOCABULARY] = { FALSE };
      g_autoptr (PlumbCompletion) fresh = complete_one (rollout, &sampling);
      for (int id = 5; id <= 8; id++)
        seen[id] = TRUE;
      int again = 0;
      for (guint t = 0; t < fresh->ids->len; t++)
        {
          gint32 id = g_array_index (fresh->ids, gint32, t);
          again += seen[id];
          seen[id] = TRUE;
        }
      g_assert_cmpint (again, <=, 6); /* logits near 0 are not moved by a factor */
    }
  sampling.filters = (PlumbFilters){ 0 };
  g_autoptr (PlumbCompletion) after = complete_one (rollout, &sampling);
  g_assert_cmpmem (after->ids->data, after->ids->len * 4, plain->ids->data, plain->ids->len * 4);
}

/* Prompts with limits of their own end there, and what they sample does not depend on it. */
static void
test_own_limits (Fixture *f, gconstpointer data)
{
  PlumbRolloutPlan plan = { .max_running = 3, .max_prompt = 8, .max_new_tokens = 20 };
  PlumbSampling sampling = { .temperature = 1, .max_new_tokens = 16, .seed = 5, .purpose = PLUMB_RANDOM_ROLLOUT };
  const int limits[] = { 1, 7, 0, 40, 3 }, lengths[] = { 1, 7, 16, 16, 3 };
  const gint32 prompt[] = { 4, 5, 6 };
  g_autoptr (GError) error = NULL;
  if (!f->device)
    return;
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (f->model, &plan, &error);
  g_assert_no_error (error);
  g_autoptr (PlumbCompletion) whole = NULL;
  for (int round = 0; round < 2; round++)
    {
      g_assert_true (plumb_rollout_begin (rollout, &sampling, &error));
      for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
        {
          plumb_rollout_limit (rollout, round == 0 ? 0 : limits[i]);
          /* The same random numbers for all. */
          g_assert_true (plumb_rollout_submit (rollout, prompt, 3, 1, 9, &error));
        }
      for (gboolean idle = FALSE; !idle;)
        g_assert_true (plumb_rollout_advance (rollout, &idle, &error));
      int seen[17] = { 0 };
      for (PlumbCompletion *c; (c = plumb_rollout_take (rollout));)
        {
          if (!whole)
            whole = g_steal_pointer (&c);
          g_autoptr (PlumbCompletion) own = c;
          if (!own)
            continue;
          g_assert_cmpmem (own->ids->data, own->ids->len * 4, whole->ids->data, own->ids->len * 4);
          seen[own->ids->len]++;
        }
      for (gsize i = 0; round == 1 && i < G_N_ELEMENTS (lengths); i++)
        g_assert_cmpint (seen[lengths[i]], ==, lengths[i] == 16 ? 2 : 1);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kv-pages/counts", test_pages);
  g_test_add_func ("/kv-pages/misused", test_pages_misused);
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autofree char *path = g_strdup_printf ("/rollout/%s-%s%s", g_str_equal (places[i].device, "cpu") ? "cpu" : "cuda",
                                               places[i].type == DEV_BF16 ? "bf16" : "fp32", places[i].fast ? "-fast" : "");
#define ADD(name, function)                                                           \
  do                                                                                  \
    {                                                                                 \
      g_autofree char *full = g_strconcat (path, "/" name, NULL);                     \
      g_test_add (full, Fixture, &places[i], set_up, function, tear_down);            \
    }                                                                                 \
  while (0)
      ADD ("coded-weights", test_coded_weights);
      if (places[i].fast)
        continue;
      ADD ("padded-vocabulary", test_padded_vocabulary);
      ADD ("batches", test_batches);
      ADD ("coded-cache", test_coded_cache);
      ADD ("again", test_again);
      ADD ("limits", test_limits);
      ADD ("own-limits", test_own_limits);
      ADD ("refused", test_refused);
      ADD ("filters", test_filters);
    }
  return g_test_run ();
}
