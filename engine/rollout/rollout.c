/* SPDX-License-Identifier: Apache-2.0 */

/* The scheduler of generation. A pass holds one token of every running sample and chunks of the prompts being
 * prefilled. A prompt is admitted only when the pages of its samples at full length are free, so nothing
 * is ever preempted.
 *
 * On a device that works beside the host the next pass is queued before the tokens of the last are known: they stay on
 * the device, and the host learns them one pass late. A sample that met a stop token meanwhile has then computed one
 * token too many, which is dropped. Passes of decoded tokens alone are recorded for a ladder of sizes and replayed. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/rollout/kv-cache.h"
#include "engine/rollout/kv-pages.h"
#include "engine/rollout/pass.h"
#include "engine/rollout/rollout.h"
#include "engine/rollout/seen.h"

#define PREFILL_TOKENS 512

/* A prompt waiting for its prefill, or in the middle of it. */
typedef struct
{
  gint64 ordinal;
  GArray *prompt; /* of gint32 */
  int first_sample, samples;
  int limit;     /* tokens of each at most */
  int done;      /* prompt tokens whose keys are in the cache */
  int row;       /* of its first sample among the sampled of the pass */
  GArray *pages; /* of int */
  GArray *seen;  /* of int: rows of seen ids of its samples, once they are asked for */
} Prompt;

/* A sample being decoded; held by the running ones and by the flights that ask for it. */
typedef struct
{
  PlumbCompletion *completion; /* NULL when finished */
  int prompt_length, limit;
  int asked;     /* tokens sampled by the passes queued so far */
  int row;       /* of its token among those of the last pass that asked */
  gint32 last;   /* its last token that the host knows */
  GArray *pages; /* of int */
  int reserved;  /* pages that it was promised in all, shared ones counted */
  int seen;      /* row of the ids it has seen; -1: none, or given back */
} Sample;

/* A queued pass: whom its tokens belong to, and where the host gets them. */
typedef struct
{
  GPtrArray *samples; /* of Sample, by sampled row */
  char *sampled;      /* tokens, then log-probs; memory of the device's backend */
  struct dev_mark *mark;
} Flight;

#define FLIGHTS 2
#define RUNGS 64

struct _PlumbRollout
{
  PlumbModel *model;
  PlumbRolloutPlan plan;
  PlumbBuffers *buffers;
  PlumbKvPages *pages;
  int promised; /* pages that admitted samples may still take */
  gboolean held;
  guint64 version; /* of the weights, as tokens tell it */
  int limit;       /* tokens of the samples that are submitted now; 0: those of the sampling */
  PlumbKvCache *cache;
  PlumbSampling sampling;
  gint32 *stop;
  GQueue waiting;    /* of Prompt */
  int waiting_samples;
  GPtrArray *filling; /* of Prompt */
  GPtrArray *running; /* of Sample */
  GQueue finished;   /* of PlumbCompletion */
  Flight flights[FLIGHTS];
  int first_flight, n_flights; /* those queued, oldest first */
  int ahead;                   /* passes that may be in flight while the next is queued */
  int ladder[RUNGS];           /* numbers of rows that are recorded */
  PlumbRecording recordings[RUNGS];
  PlumbSeen *seen;             /* NULL until a penalty asks for it */
  PlumbRolloutStatistics statistics;
};

void
plumb_completion_free (PlumbCompletion *completion)
{
  if (!completion)
    return;
  g_array_unref (completion->ids);
  g_array_unref (completion->log_probs);
  g_array_unref (completion->versions);
  g_free (completion);
}

static void
prompt_free (gpointer data)
{
  Prompt *prompt = data;
  g_array_unref (prompt->prompt);
  g_array_unref (prompt->pages);
  g_array_unref (prompt->seen);
  g_free (prompt);
}

static void
sample_clear (gpointer data)
{
  Sample *sample = data;
  plumb_completion_free (sample->completion);
  g_array_unref (sample->pages);
}

static void
sample_release (gpointer sample)
{
  g_rc_box_release_full (sample, sample_clear);
}

static int
pages_for (const PlumbRolloutPlan *plan, int tokens)
{
  return (tokens + plan->page_tokens - 1) / plan->page_tokens;
}

void
plumb_rollout_plan_complete (PlumbRolloutPlan *plan, const PlumbModelConfig *config)
{
  if (plan->page_tokens <= 0)
    plan->page_tokens = 64;
  if (plan->max_running <= 0)
    plan->max_running = 64;
  if (plan->prefill_tokens <= 0)
    plan->prefill_tokens = MAX (PREFILL_TOKENS, plan->max_running);
  int longest = MIN (plan->max_prompt + plan->max_new_tokens, config->positions);
  if (plan->pages <= 0)
    plan->pages = plan->max_running * pages_for (plan, longest) + pages_for (plan, plan->max_prompt);
}

static PlumbBufferPlan
buffer_plan (const PlumbModelConfig *config, const PlumbRolloutPlan *plan)
{
  int longest = MIN (plan->max_prompt + plan->max_new_tokens, config->positions);
  return (PlumbBufferPlan){
    .tokens = plan->max_running + plan->prefill_tokens,
    .sequences = plan->max_running + plan->prefill_tokens,
    .head_rows = plan->max_running,
    .table_stride = pages_for (plan, longest),
  };
}

static PlumbKvShape
kv_shape (const PlumbRolloutPlan *plan)
{
  return (PlumbKvShape){ plan->pages, plan->page_tokens, plan->kv_codes };
}

gsize
plumb_rollout_page_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan)
{
  PlumbKvShape shape = kv_shape (plan);
  return plumb_kv_cache_page_bytes (config, type, &shape);
}

gsize
plumb_rollout_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan)
{
  PlumbBufferPlan buffers = buffer_plan (config, plan);
  PlumbKvShape shape = kv_shape (plan);
  return plumb_kv_cache_bytes (config, type, &shape) + plumb_buffers_bytes (config, type, &buffers);
}

static gboolean
make_flights (PlumbRollout *self, GError **error)
{
  PlumbDevice *device = self->model->device;
  self->ahead = device->asynchronous ? FLIGHTS - 1 : 0;
  for (int i = 0; i < FLIGHTS; i++)
    {
      Flight *flight = &self->flights[i];
      flight->samples = g_ptr_array_new_with_free_func (sample_release);
      flight->sampled = plumb_device_allocate_host (device, plumb_sampled_bytes (self->buffers), "sampled tokens", error);
      flight->mark = device->ops->mark_new (device->context);
      if (!flight->sampled)
        return FALSE;
    }
  return TRUE;
}

/* Steps of an eighth to a half: few recordings, few rows in vain. */
static void
make_ladder (PlumbRollout *self)
{
  int rows = 1;
  for (int i = 0; i < RUNGS && self->model->device->asynchronous; i++)
    {
      self->ladder[i] = MIN (rows, self->plan.max_running);
      if (rows >= self->plan.max_running)
        break;
      rows += rows < 2 ? 1 : rows < 8 ? rows / 2 * 2 : rows < 64 ? 8 : rows < 256 ? 32 : rows / 8;
    }
}

static void
drop_recordings (PlumbRollout *self)
{
  for (int i = 0; i < RUNGS; i++)
    {
      self->model->device->ops->graph_free (self->recordings[i].graph);
      self->recordings[i] = (PlumbRecording){ 0 };
    }
}

PlumbRollout *
plumb_rollout_new (PlumbModel *model, const PlumbRolloutPlan *plan, GError **error)
{
  const PlumbModelConfig *config = model->config;
  g_autoptr (PlumbRollout) self = g_new0 (PlumbRollout, 1);
  self->model = model;
  self->plan = *plan;
  plumb_rollout_plan_complete (&self->plan, config);
  self->filling = g_ptr_array_new_with_free_func (prompt_free);
  self->running = g_ptr_array_new_with_free_func (sample_release);
  if (self->plan.page_tokens % DEV_KEY_TILE != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "rollout.page_tokens = %d is not a multiple of %d; the nearest is %d",
                   self->plan.page_tokens, DEV_KEY_TILE,
                   MAX (1, self->plan.page_tokens / DEV_KEY_TILE) * DEV_KEY_TILE);
      return NULL;
    }
  self->pages = plumb_kv_pages_new (self->plan.pages);
  PlumbKvShape shape = kv_shape (&self->plan);
  self->cache = plumb_kv_cache_new (model, &shape, error);
  if (!self->cache)
    return NULL;
  if (self->plan.weight_codes)
    plumb_model_make_codes (model);
  PlumbBufferPlan buffers = buffer_plan (config, &self->plan);
  self->buffers = plumb_buffers_new (model, &buffers, error);
  if (!self->buffers || !make_flights (self, error))
    return NULL;
  make_ladder (self);
  return g_steal_pointer (&self);
}

void
plumb_rollout_free (PlumbRollout *self)
{
  if (!self)
    return;
  const struct dev_ops *ops = self->model->device->ops;
  if (self->pages)
    plumb_rollout_abort (self);
  drop_recordings (self);
  for (int i = 0; i < FLIGHTS; i++)
    {
      g_clear_pointer (&self->flights[i].samples, g_ptr_array_unref);
      ops->host_free (self->model->device->context, self->flights[i].sampled);
      ops->mark_free (self->flights[i].mark);
    }
  g_ptr_array_unref (self->filling);
  g_ptr_array_unref (self->running);
  plumb_kv_cache_free (self->cache);
  plumb_seen_free (self->seen);
  plumb_buffers_free (self->buffers);
  plumb_kv_pages_free (self->pages);
  g_free (self->stop);
  g_free (self);
}

void
plumb_rollout_sleep (PlumbRollout *self)
{
  g_return_if_fail (plumb_rollout_running (self) == 0);
  plumb_kv_cache_sleep (self->cache);
  plumb_buffers_sleep (self->buffers);
}

gboolean
plumb_rollout_wake (PlumbRollout *self, GError **error)
{
  return plumb_kv_cache_wake (self->cache, error) && plumb_buffers_wake (self->buffers, error);
}

static void
release_pages (PlumbRollout *self, GArray *pages)
{
  for (guint i = 0; i < pages->len; i++)
    plumb_kv_pages_release (self->pages, g_array_index (pages, int, i));
  g_array_set_size (pages, 0);
}

static gboolean
has_penalty (const PlumbFilters *filters)
{
  return filters->repetition_penalty > 0 && filters->repetition_penalty != 1;
}

/* Every row is free again. */
static gboolean
make_seen (PlumbRollout *self, GError **error)
{
  if (self->seen)
    plumb_seen_release_all (self->seen);
  else
    self->seen = plumb_seen_new (self->model, self->plan.max_running, error);
  return self->seen != NULL;
}

static void
release_seen (PlumbRollout *self, Sample *s)
{
  if (s->seen >= 0)
    plumb_seen_release (self->seen, s->seen);
  s->seen = -1;
}

void
plumb_rollout_abort (PlumbRollout *self)
{
  /* What is in flight still writes to pages: it must land before they are given out again. */
  while (self->n_flights > 0)
    {
      Flight *flight = &self->flights[self->first_flight];
      self->model->device->ops->mark_wait (self->model->device->context, flight->mark);
      for (guint i = 0; i < flight->samples->len; i++)
        release_pages (self, ((Sample *) g_ptr_array_index (flight->samples, i))->pages);
      g_ptr_array_set_size (flight->samples, 0);
      self->first_flight = (self->first_flight + 1) % FLIGHTS;
      self->n_flights--;
    }
  for (guint i = 0; i < self->filling->len; i++)
    release_pages (self, ((Prompt *) g_ptr_array_index (self->filling, i))->pages);
  for (guint i = 0; i < self->running->len; i++)
    release_pages (self, ((Sample *) g_ptr_array_index (self->running, i))->pages);
  g_ptr_array_set_size (self->filling, 0);
  g_ptr_array_set_size (self->running, 0);
  g_queue_clear_full (&self->waiting, prompt_free);
  self->waiting_samples = 0;
  g_queue_clear_full (&self->finished, (GDestroyNotify) plumb_completion_free);
  self->promised = 0;
  if (self->seen)
    plumb_seen_release_all (self->seen);
}

static gboolean
same_filters (const PlumbFilters *a, const PlumbFilters *b)
{
  return a->top_k == b->top_k && a->top_p == b->top_p && a->min_p == b->min_p
         && a->repetition_penalty == b->repetition_penalty;
}

gboolean
plumb_rollout_begin (PlumbRollout *self, const PlumbSampling *sampling, GError **error)
{
  if (sampling->temperature != self->sampling.temperature || sampling->seed != self->sampling.seed
      || sampling->n_stop != self->sampling.n_stop || !same_filters (&sampling->filters, &self->sampling.filters))
    drop_recordings (self);
  self->sampling = *sampling;
  g_free (self->stop);
  self->stop = g_memdup2 (sampling->stop, sampling->n_stop * sizeof (gint32));
  self->sampling.stop = self->stop;
  self->sampling.max_new_tokens = MIN (sampling->max_new_tokens, self->plan.max_new_tokens);
  self->held = FALSE;
  self->limit = 0;
  self->version = self->model->version;
  memset (&self->statistics, 0, sizeof self->statistics);
  plumb_kv_pages_forget_peak (self->pages);
  plumb_model_forbid (self->buffers, self->stop, sampling->n_stop);
  if (has_penalty (&sampling->filters) && !make_seen (self, error))
    return FALSE;
  return plumb_model_pack (self->model, error);
}

void
plumb_rollout_limit (PlumbRollout *self, int tokens)
{
  self->limit = tokens;
}

gboolean
plumb_rollout_submit (PlumbRollout *self, const gint32 *prompt, int length, int samples, gint64 ordinal,
                      GError **error)
{
  return plumb_rollout_submit_from (self, prompt, length, 0, samples, ordinal, error);
}

gboolean
plumb_rollout_submit_from (PlumbRollout *self, const gint32 *prompt, int length, int first_sample, int samples,
                           gint64 ordinal, GError **error)
{
  int most = MIN (self->plan.max_prompt, self->model->positions - 1);
  if (length < 1 || length > most)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "prompt %" G_GINT64_FORMAT " has %d tokens; 1 to %d are possible (data.max_prompt_length, "
                   "model.max_length)", ordinal, length, most);
      return FALSE;
    }
  for (int first = 0; first < samples; first += self->plan.max_running)
    {
      Prompt *p = g_new0 (Prompt, 1);
      p->ordinal = ordinal;
      p->prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_array_append_vals (p->prompt, prompt, length);
      p->first_sample = first_sample + first;
      p->samples = MIN (samples - first, self->plan.max_running);
      p->limit = self->limit > 0 ? MIN (self->limit, self->sampling.max_new_tokens) : self->sampling.max_new_tokens;
      p->pages = g_array_new (FALSE, FALSE, sizeof (int));
      p->seen = g_array_new (FALSE, FALSE, sizeof (int));
      g_queue_push_tail (&self->waiting, p);
      self->waiting_samples += p->samples;
    }
  return TRUE;
}

static int
longest_of (PlumbRollout *self, int prompt_length, int limit)
{
  return MIN (prompt_length + limit, self->model->positions);
}

/* Pages that a prompt and its samples may need in all: the prompt's, and what lies after the full ones for
 * each sample. */
static int
pages_to_promise (PlumbRollout *self, const Prompt *p)
{
  int length = (int) p->prompt->len;
  int whole = length / self->plan.page_tokens;
  int each = pages_for (&self->plan, longest_of (self, length, p->limit)) - whole;
  return pages_for (&self->plan, length) + p->samples * each;
}

static int
samples_filling (PlumbRollout *self)
{
  int n = 0;
  for (guint i = 0; i < self->filling->len; i++)
    n += ((Prompt *) g_ptr_array_index (self->filling, i))->samples;
  return n;
}

/* Admits waiting prompts while rows, tokens and pages allow. */
static void
admit (PlumbRollout *self)
{
  int tokens = 0;
  for (guint i = 0; i < self->filling->len; i++)
    {
      Prompt *p = g_ptr_array_index (self->filling, i);
      tokens += (int) p->prompt->len - p->done;
    }
  while (!self->held && !g_queue_is_empty (&self->waiting) && tokens < self->plan.prefill_tokens)
    {
      Prompt *p = g_queue_peek_head (&self->waiting);
      int needed = pages_to_promise (self, p);
      int free_pages = self->plan.pages - plumb_kv_pages_used (self->pages) - self->promised;
      if ((int) self->running->len + samples_filling (self) + p->samples > self->plan.max_running
          || needed > free_pages)
        return;
      g_queue_pop_head (&self->waiting);
      self->waiting_samples -= p->samples;
      self->promised += needed;
      tokens += (int) p->prompt->len;
      g_ptr_array_add (self->filling, p);
    }
}

/* Makes sure that a sequence of `tokens` tokens has its pages; they were promised. */
static void
extend_pages (PlumbRollout *self, GArray *pages, int tokens)
{
  while ((int) pages->len * self->plan.page_tokens < tokens)
    {
      int page = plumb_kv_pages_take (self->pages);
      g_assert (page >= 0);
      self->promised--;
      g_array_append_val (pages, page);
    }
}

/* Asks for a sample's next token after the pass's last row. */
static int
ask (PlumbRollout *self, PlumbPassDraft *pass, gint64 ordinal, int sample, int position, int generated, int seen)
{
  struct dev_random random
      = { { (guint32) self->sampling.purpose << 24 | (guint32) sample, (guint32) ordinal,
            (guint32) position } };
  return plumb_pass_draft_ask (pass, &random, generated + 1 < self->sampling.min_new_tokens, seen);
}

/* A token of each running sample; those that have asked for their last token stop running. */
static void
add_running (PlumbRollout *self, PlumbPassDraft *pass, Flight *flight)
{
  guint kept = 0;
  for (guint i = 0; i < self->running->len; i++)
    {
      Sample *s = g_ptr_array_index (self->running, i);
      int position = s->prompt_length + s->asked - 1;
      gboolean known = (int) s->completion->ids->len == s->asked;
      extend_pages (self, s->pages, position + 1);
      self->statistics.context_tokens += position + 1;
      plumb_pass_draft_add (pass, known ? &s->last : NULL, s->row, position, 1, s->pages);
      s->row = ask (self, pass, s->completion->ordinal, s->completion->sample, position + 1, s->asked,
                    s->seen);
      s->asked++;
      g_ptr_array_add (flight->samples, g_rc_box_acquire (s));
      if (s->prompt_length + s->asked >= longest_of (self, s->prompt_length, s->limit))
        {
          release_seen (self, s);
          sample_release (s);
        }
      else
        self->running->pdata[kept++] = s;
    }
  self->running->len = kept;
}

/* Chunks of the prompts, and the first tokens of those that are complete with them. */
static void
add_filling (PlumbRollout *self, PlumbPassDraft *pass)
{
  int budget = self->plan.prefill_tokens;
  for (guint i = 0; i < self->filling->len && budget > 0; i++)
    {
      Prompt *p = g_ptr_array_index (self->filling, i);
      int n = MIN (budget, (int) p->prompt->len - p->done);
      extend_pages (self, p->pages, p->done + n);
      plumb_pass_draft_add (pass, &g_array_index (p->prompt, gint32, p->done), -1, p->done, n, p->pages);
      p->done += n;
      budget -= n;
      self->statistics.prefill_tokens += n;
      p->row = (int) pass->rows->len;
      for (int k = 0; k < p->samples && p->done == (int) p->prompt->len; k++)
        {
          int seen = has_penalty (&self->sampling.filters) ? plumb_seen_take (self->seen, p->prompt) : -1;
          g_array_append_val (p->seen, seen);
          ask (self, pass, p->ordinal, p->first_sample + k, (int) p->prompt->len, 0, seen);
        }
    }
}

static gboolean
is_stop (PlumbRollout *self, gint32 id)
{
  for (int i = 0; i < self->sampling.n_stop; i++)
    if (self->stop[i] == id)
      return TRUE;
  return FALSE;
}

/* Takes over a sampled token; TRUE if the sample is complete. */
static gboolean
append_token (PlumbRollout *self, const Sample *s, gint32 token, float log_prob)
{
  PlumbCompletion *c = s->completion;
  g_array_append_val (c->ids, token);
  g_array_append_val (c->log_probs, log_prob);
  gint32 version = (gint32) self->version;
  g_array_append_val (c->versions, version);
  self->statistics.tokens++;
  if (is_stop (self, token))
    c->finish = PLUMB_FINISH_STOP;
  else if (s->prompt_length + (int) c->ids->len >= longest_of (self, s->prompt_length, s->limit))
    c->finish = PLUMB_FINISH_LENGTH;
  else
    return FALSE;
  return TRUE;
}

/* The pages of a new sample: full prompt pages are shared; a part-filled last page is copied. */
static GArray *
fork_pages (PlumbRollout *self, const Prompt *p)
{
  GArray *pages = g_array_new (FALSE, FALSE, sizeof (int));
  int whole = (int) p->prompt->len / self->plan.page_tokens;
  for (int i = 0; i < whole; i++)
    {
      int page = g_array_index (p->pages, int, i);
      plumb_kv_pages_share (self->pages, page);
      g_array_append_val (pages, page);
    }
  if (whole < (int) p->pages->len)
    {
      extend_pages (self, pages, (whole + 1) * self->plan.page_tokens);
      plumb_kv_cache_copy_page (self->cache, g_array_index (pages, int, whole), g_array_index (p->pages, int, whole));
    }
  return pages;
}

/* The samples of a prompt whose last chunk has been queued. Copies of its last page are queued behind it. */
static void
start_samples (PlumbRollout *self, const Prompt *p, Flight *flight)
{
  int length = (int) p->prompt->len;
  int each = pages_for (&self->plan, longest_of (self, length, p->limit)) - length / self->plan.page_tokens;
  for (int k = 0; k < p->samples; k++)
    {
      PlumbCompletion *c = g_new0 (PlumbCompletion, 1);
      c->ordinal = p->ordinal;
      c->sample = p->first_sample + k;
      c->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
      c->log_probs = g_array_new (FALSE, FALSE, sizeof (float));
      c->versions = g_array_new (FALSE, FALSE, sizeof (gint32));
      self->statistics.shared_tokens += k > 0 ? length : 0;
      Sample *s = g_rc_box_new0 (Sample);
      s->completion = c;
      s->prompt_length = length;
      s->limit = p->limit;
      s->asked = 1;
      s->row = p->row + k;
      s->reserved = length / self->plan.page_tokens + each;
      s->pages = fork_pages (self, p);
      s->seen = g_array_index (p->seen, int, k);
      g_ptr_array_add (flight->samples, s);
      if (length + 1 < longest_of (self, length, p->limit))
        g_ptr_array_add (self->running, g_rc_box_acquire (s));
      else
        release_seen (self, s);
    }
  release_pages (self, p->pages);
}

static void
start_complete_prompts (PlumbRollout *self, Flight *flight)
{
  for (guint i = 0; i < self->filling->len;)
    {
      Prompt *p = g_ptr_array_index (self->filling, i);
      if (p->done < (int) p->prompt->len)
        {
          i++;
          continue;
        }
      start_samples (self, p, flight);
      g_ptr_array_remove_index (self->filling, i);
    }
}

static void
finish_sample (PlumbRollout *self, Sample *s)
{
  self->promised -= s->reserved - (int) s->pages->len;
  release_pages (self, s->pages);
  release_seen (self, s);
  g_queue_push_tail (&self->finished, g_steal_pointer (&s->completion));
}

/* Waits for the oldest flight and hands its tokens to the samples that asked. */
static gboolean
land (PlumbRollout *self, GError **error)
{
  PlumbDevice *device = self->model->device;
  Flight *flight = &self->flights[self->first_flight];
  if (device->ops->mark_wait (device->context, flight->mark) != DEV_OK)
    return plumb_device_check (device, error);
  const gint32 *tokens = (const gint32 *) (void *) flight->sampled;
  const float *log_probs = (const float *) (void *) (flight->sampled + plumb_sampled_stride (self->buffers));
  for (guint i = 0; i < flight->samples->len; i++)
    {
      Sample *s = g_ptr_array_index (flight->samples, i);
      if (!s->completion)
        continue;
      s->last = tokens[i];
      if (append_token (self, s, tokens[i], log_probs[i]))
        finish_sample (self, s);
    }
  g_ptr_array_set_size (flight->samples, 0);
  self->first_flight = (self->first_flight + 1) % FLIGHTS;
  self->n_flights--;
  guint kept = 0;
  for (guint i = 0; i < self->running->len; i++)
    {
      Sample *s = g_ptr_array_index (self->running, i);
      if (s->completion)
        self->running->pdata[kept++] = s;
      else
        sample_release (s);
    }
  self->running->len = kept;
  return TRUE;
}

/* The recording for a pass of so many decoded tokens, which grows to the recorded size; NULL: none. */
static PlumbRecording *
find_recording (PlumbRollout *self, PlumbPassDraft *pass)
{
  for (int i = 0; i < RUNGS && self->ladder[i] > 0; i++)
    if (self->ladder[i] >= (int) pass->rows->len)
      {
        plumb_pass_draft_pad (pass, self->ladder[i], self->plan.pages, self->plan.max_running);
        return &self->recordings[i];
      }
  return NULL;
}

/* Queues the next pass; FALSE in *queued where there is none. */
static gboolean
take_off (PlumbRollout *self, gboolean *queued, GError **error)
{
  PlumbDevice *device = self->model->device;
  Flight *flight = &self->flights[(self->first_flight + self->n_flights) % FLIGHTS];
  g_auto (PlumbPassDraft) draft = { 0 };
  *queued = self->running->len > 0 || self->filling->len > 0;
  if (!*queued)
    return TRUE;
  gboolean decode = self->filling->len == 0;
  plumb_pass_draft_init (&draft, buffer_plan (self->model->config, &self->plan).table_stride, self->plan.page_tokens);
  self->statistics.passes++;
  self->statistics.decode_passes += self->running->len > 0;
  self->statistics.decode_rows += self->running->len;
  self->statistics.queued_rows += self->waiting_samples;
  add_running (self, &draft, flight);
  add_filling (self, &draft);
  PlumbRecording *recording = decode ? find_recording (self, &draft) : NULL;
  PlumbPass pass = plumb_pass_draft_pass (&draft, plumb_kv_cache_layers (self->cache));
  pass.coded = self->plan.weight_codes;
  PlumbWanted asked = plumb_pass_draft_asked (&draft, self->sampling.temperature, self->sampling.seed);
  asked.filters = self->sampling.filters;
  if (has_penalty (&asked.filters))
    {
      asked.seen = plumb_seen_base (self->seen);
      asked.seen_stride = plumb_seen_stride (self->seen);
    }
  self->n_flights++;
  if (!plumb_model_queue (self->model, self->buffers, &pass, &asked, recording, flight->sampled, error))
    return FALSE;
  start_complete_prompts (self, flight);
  device->ops->mark_set (device->context, flight->mark);
  return TRUE;
}

gboolean
plumb_rollout_advance (PlumbRollout *self, gboolean *idle, GError **error)
{
  gboolean queued = FALSE;
  admit (self);
  *idle = FALSE;
  if (!take_off (self, &queued, error))
    return FALSE;
  while (self->n_flights > (queued ? self->ahead : 0))
    if (!land (self, error))
      return FALSE;
  if (queued)
    return TRUE;
  admit (self);
  *idle = self->running->len == 0 && self->filling->len == 0;
  if (!*idle || self->held || g_queue_is_empty (&self->waiting))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "the KV cache of %d pages of %d tokens cannot hold one prompt with its samples; raise "
               "rollout.kv_memory or lower rollout.max_running", self->plan.pages, self->plan.page_tokens);
  return FALSE;
}

void
plumb_rollout_hold (PlumbRollout *self, gboolean hold)
{
  self->held = hold;
}

int
plumb_rollout_running (PlumbRollout *self)
{
  return (int) self->running->len + samples_filling (self) + self->n_flights;
}

gboolean
plumb_rollout_settle (PlumbRollout *self, GError **error)
{
  while (self->n_flights > 0)
    if (!land (self, error))
      return FALSE;
  return TRUE;
}

gboolean
plumb_rollout_renew (PlumbRollout *self, guint64 version, GError **error)
{
  plumb_model_touch (self->model);
  self->version = version;
  return plumb_model_pack (self->model, error);
}

PlumbCompletion *
plumb_rollout_take (PlumbRollout *self)
{
  return g_queue_pop_head (&self->finished);
}

void
plumb_rollout_statistics (PlumbRollout *self, PlumbRolloutStatistics *statistics)
{
  *statistics = self->statistics;
  statistics->kv_used = (double) plumb_kv_pages_peak (self->pages) / plumb_kv_pages_total (self->pages);
}
