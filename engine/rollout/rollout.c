/* SPDX-License-Identifier: Apache-2.0 */

/* The scheduler of generation. A pass holds one token of every running sample and chunks of the prompts being
 * prefilled. A prompt is admitted only when the pages of its samples at full length are free, so nothing
 * is ever preempted. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/rollout/kv-pages.h"
#include "engine/rollout/rollout.h"

#define PREFILL_TOKENS 512

/* A prompt waiting for its prefill, or in the middle of it. */
typedef struct
{
  gint64 ordinal;
  GArray *prompt; /* of gint32 */
  int first_sample, samples;
  int done;      /* prompt tokens whose keys are in the cache */
  GArray *pages; /* of int */
} Prompt;

/* A sample being decoded. */
typedef struct
{
  PlumbCompletion *completion;
  int prompt_length;
  GArray *pages; /* of int */
  int reserved;  /* pages that it was promised in all, shared ones counted */
} Sample;

struct _PlumbRollout
{
  PlumbModel *model;
  PlumbRolloutPlan plan;
  PlumbBuffers *buffers;
  PlumbKvPages *pages;
  int promised; /* pages that admitted samples may still take */
  struct dev_arena *cache;
  struct dev_kv *kv; /* (layers) */
  gsize page_bytes;  /* of k or of v of one layer */
  PlumbSampling sampling;
  gint32 *stop;
  GQueue waiting;    /* of Prompt */
  GPtrArray *filling; /* of Prompt */
  GPtrArray *running; /* of Sample */
  GQueue finished;   /* of PlumbCompletion */
  PlumbRolloutStatistics statistics;
};

void
plumb_completion_free (PlumbCompletion *completion)
{
  if (!completion)
    return;
  g_array_unref (completion->ids);
  g_array_unref (completion->log_probs);
  g_free (completion);
}

static void
prompt_free (gpointer data)
{
  Prompt *prompt = data;
  g_array_unref (prompt->prompt);
  g_array_unref (prompt->pages);
  g_free (prompt);
}

static void
sample_free (gpointer data)
{
  Sample *sample = data;
  plumb_completion_free (sample->completion);
  g_array_unref (sample->pages);
  g_free (sample);
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

static gsize
page_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan)
{
  return (gsize) plan->page_tokens * config->groups * config->head_size * dev_type_size (type);
}

static gsize
cache_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan)
{
  return 2 * (gsize) config->layers * dev_align (page_bytes (config, type, plan) * plan->pages);
}

gsize
plumb_rollout_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan)
{
  PlumbBufferPlan buffers = buffer_plan (config, plan);
  return cache_bytes (config, type, plan) + plumb_buffers_bytes (config, type, &buffers);
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
  self->running = g_ptr_array_new_with_free_func (sample_free);
  if (self->plan.page_tokens % DEV_KEY_TILE != 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "rollout.page_tokens = %d is not a multiple of %d; the nearest is %d",
                   self->plan.page_tokens, DEV_KEY_TILE,
                   MAX (1, self->plan.page_tokens / DEV_KEY_TILE) * DEV_KEY_TILE);
      return NULL;
    }
  self->pages = plumb_kv_pages_new (self->plan.pages);
  self->page_bytes = page_bytes (config, model->type, &self->plan);
  self->cache = plumb_device_allocate (model->device, cache_bytes (config, model->type, &self->plan),
                                       "the KV cache", error);
  if (!self->cache)
    return NULL;
  PlumbCutter cutter = { model->device->ops->arena_base (self->cache), 0 };
  self->kv = g_new0 (struct dev_kv, config->layers);
  for (int i = 0; i < config->layers; i++)
    {
      self->kv[i].k = plumb_cut (&cutter, self->page_bytes * self->plan.pages);
      self->kv[i].v = plumb_cut (&cutter, self->page_bytes * self->plan.pages);
    }
  PlumbBufferPlan buffers = buffer_plan (config, &self->plan);
  self->buffers = plumb_buffers_new (model, &buffers, error);
  return self->buffers ? g_steal_pointer (&self) : NULL;
}

void
plumb_rollout_free (PlumbRollout *self)
{
  if (!self)
    return;
  if (self->pages)
    plumb_rollout_abort (self);
  g_ptr_array_unref (self->filling);
  g_ptr_array_unref (self->running);
  self->model->device->ops->arena_free (self->cache);
  plumb_buffers_free (self->buffers);
  plumb_kv_pages_free (self->pages);
  g_free (self->kv);
  g_free (self->stop);
  g_free (self);
}

static void
release_pages (PlumbRollout *self, GArray *pages)
{
  for (guint i = 0; i < pages->len; i++)
    plumb_kv_pages_release (self->pages, g_array_index (pages, int, i));
  g_array_set_size (pages, 0);
}

void
plumb_rollout_abort (PlumbRollout *self)
{
  for (guint i = 0; i < self->filling->len; i++)
    release_pages (self, ((Prompt *) g_ptr_array_index (self->filling, i))->pages);
  for (guint i = 0; i < self->running->len; i++)
    release_pages (self, ((Sample *) g_ptr_array_index (self->running, i))->pages);
  g_ptr_array_set_size (self->filling, 0);
  g_ptr_array_set_size (self->running, 0);
  g_queue_clear_full (&self->waiting, prompt_free);
  g_queue_clear_full (&self->finished, (GDestroyNotify) plumb_completion_free);
  self->promised = 0;
}

gboolean
plumb_rollout_begin (PlumbRollout *self, const PlumbSampling *sampling, GError **error)
{
  self->sampling = *sampling;
  g_free (self->stop);
  self->stop = g_memdup2 (sampling->stop, sampling->n_stop * sizeof (gint32));
  self->sampling.stop = self->stop;
  self->sampling.max_new_tokens = MIN (sampling->max_new_tokens, self->plan.max_new_tokens);
  memset (&self->statistics, 0, sizeof self->statistics);
  plumb_kv_pages_forget_peak (self->pages);
  return plumb_model_pack (self->model, error);
}

gboolean
plumb_rollout_submit (PlumbRollout *self, const gint32 *prompt, int length, int samples, gint64 ordinal,
                      GError **error)
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
      p->first_sample = first;
      p->samples = MIN (samples - first, self->plan.max_running);
      p->pages = g_array_new (FALSE, FALSE, sizeof (int));
      g_queue_push_tail (&self->waiting, p);
    }
  return TRUE;
}

static int
longest_of (PlumbRollout *self, int prompt_length)
{
  return MIN (prompt_length + self->sampling.max_new_tokens, self->model->positions);
}

/* Pages that a prompt and its samples may need in all: the prompt's, and what lies after the full ones for
 * each sample. */
static int
pages_to_promise (PlumbRollout *self, const Prompt *p)
{
  int length = (int) p->prompt->len;
  int whole = length / self->plan.page_tokens;
  int each = pages_for (&self->plan, longest_of (self, length)) - whole;
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
  while (!g_queue_is_empty (&self->waiting) && tokens < self->plan.prefill_tokens)
    {
      Prompt *p = g_queue_peek_head (&self->waiting);
      int needed = pages_to_promise (self, p);
      int free_pages = self->plan.pages - plumb_kv_pages_used (self->pages) - self->promised;
      if ((int) self->running->len + samples_filling (self) + p->samples > self->plan.max_running
          || needed > free_pages)
        return;
      g_queue_pop_head (&self->waiting);
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

/* The pass being put together. */
typedef struct
{
  int stride;
  GArray *ids, *offsets, *contexts, *slots, *pages; /* of gint32 */
  GArray *rows;                                     /* of gint32: rows that the head samples */
  GArray *random;                                   /* of struct dev_random, one per row */
  GArray *ban;                                      /* of guint8 */
} Pass;

static void
pass_clear (Pass *pass)
{
  GArray **arrays[] = { &pass->ids,   &pass->offsets, &pass->contexts, &pass->slots,
                        &pass->pages, &pass->rows,    &pass->random,   &pass->ban };
  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (arrays[i], g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Pass, pass_clear)

static void
pass_init (Pass *pass, int stride)
{
  GArray **arrays[]
      = { &pass->ids, &pass->offsets, &pass->contexts, &pass->slots, &pass->pages, &pass->rows };
  for (gsize i = 0; i < G_N_ELEMENTS (arrays); i++)
    *arrays[i] = g_array_new (FALSE, FALSE, sizeof (gint32));
  pass->random = g_array_new (FALSE, FALSE, sizeof (struct dev_random));
  pass->ban = g_array_new (FALSE, FALSE, 1);
  pass->stride = stride;
  gint32 zero = 0;
  g_array_append_val (pass->offsets, zero);
}

/* Tokens first..first+n-1 of a sequence whose pages reach that far. */
static void
pass_add (PlumbRollout *self, Pass *pass, const gint32 *ids, int first, int n, GArray *pages)
{
  int page_tokens = self->plan.page_tokens;
  for (int i = 0; i < n; i++)
    {
      int page = g_array_index (pages, int, (first + i) / page_tokens);
      gint32 slot = page * page_tokens + (first + i) % page_tokens;
      g_array_append_val (pass->ids, ids[i]);
      g_array_append_val (pass->slots, slot);
    }
  gint32 context = first + n, end = (gint32) pass->ids->len;
  g_array_append_val (pass->contexts, context);
  g_array_append_val (pass->offsets, end);
  for (int i = 0; i < pass->stride; i++)
    {
      gint32 page = i < (int) pages->len ? g_array_index (pages, int, i) : 0;
      g_array_append_val (pass->pages, page);
    }
}

/* Asks for a token after the pass's last row, for one sample at one position of its sequence. */
static void
pass_ask (PlumbRollout *self, Pass *pass, gint64 ordinal, int sample, int position, int generated)
{
  gint32 row = (gint32) pass->ids->len - 1;
  struct dev_random random
      = { { (guint32) self->sampling.purpose << 24 | (guint32) sample, (guint32) ordinal,
            (guint32) position } };
  guint8 ban = generated + 1 < self->sampling.min_new_tokens;
  g_array_append_val (pass->rows, row);
  g_array_append_val (pass->random, random);
  g_array_append_val (pass->ban, ban);
}

static void
add_running (PlumbRollout *self, Pass *pass)
{
  for (guint i = 0; i < self->running->len; i++)
    {
      Sample *s = g_ptr_array_index (self->running, i);
      int generated = (int) s->completion->ids->len;
      int position = s->prompt_length + generated - 1;
      gint32 last = g_array_index (s->completion->ids, gint32, generated - 1);
      extend_pages (self, s->pages, position + 1);
      pass_add (self, pass, &last, position, 1, s->pages);
      pass_ask (self, pass, s->completion->ordinal, s->completion->sample, position + 1, generated);
    }
}

static void
add_filling (PlumbRollout *self, Pass *pass)
{
  int budget = self->plan.prefill_tokens;
  for (guint i = 0; i < self->filling->len && budget > 0; i++)
    {
      Prompt *p = g_ptr_array_index (self->filling, i);
      int n = MIN (budget, (int) p->prompt->len - p->done);
      extend_pages (self, p->pages, p->done + n);
      pass_add (self, pass, &g_array_index (p->prompt, gint32, p->done), p->done, n, p->pages);
      p->done += n;
      budget -= n;
      self->statistics.prefill_tokens += n;
      for (int k = 0; k < p->samples && p->done == (int) p->prompt->len; k++)
        pass_ask (self, pass, p->ordinal, p->first_sample + k, (int) p->prompt->len, 0);
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
append_token (PlumbRollout *self, PlumbCompletion *c, int prompt_length, gint32 token, float log_prob)
{
  g_array_append_val (c->ids, token);
  g_array_append_val (c->log_probs, log_prob);
  self->statistics.tokens++;
  if (is_stop (self, token))
    c->finish = PLUMB_FINISH_STOP;
  else if (prompt_length + (int) c->ids->len >= longest_of (self, prompt_length))
    c->finish = PLUMB_FINISH_LENGTH;
  else
    return FALSE;
  return TRUE;
}

static void
copy_page (PlumbRollout *self, int to, int from)
{
  const struct dev_ops *ops = self->model->device->ops;
  gsize bytes = self->page_bytes;
  for (int i = 0; i < self->model->config->layers; i++)
    {
      char *k = self->kv[i].k, *v = self->kv[i].v;
      ops->copy (self->model->device->context, k + to * bytes, k + from * bytes, bytes);
      ops->copy (self->model->device->context, v + to * bytes, v + from * bytes, bytes);
    }
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
      copy_page (self, g_array_index (pages, int, whole), g_array_index (p->pages, int, whole));
    }
  return pages;
}

/* First tokens of a prompt's samples. */
static void
start_samples (PlumbRollout *self, Prompt *p, const gint32 *tokens, const float *log_probs)
{
  int length = (int) p->prompt->len;
  int each = pages_for (&self->plan, longest_of (self, length)) - length / self->plan.page_tokens;
  for (int k = 0; k < p->samples; k++)
    {
      PlumbCompletion *c = g_new0 (PlumbCompletion, 1);
      c->ordinal = p->ordinal;
      c->sample = p->first_sample + k;
      c->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
      c->log_probs = g_array_new (FALSE, FALSE, sizeof (float));
      c->version = self->model->version;
      self->statistics.shared_tokens += k > 0 ? length : 0;
      if (append_token (self, c, length, tokens[k], log_probs[k]))
        {
          self->promised -= each;
          g_queue_push_tail (&self->finished, c);
          continue;
        }
      Sample *s = g_new0 (Sample, 1);
      s->completion = c;
      s->prompt_length = length;
      s->reserved = length / self->plan.page_tokens + each;
      s->pages = fork_pages (self, p);
      g_ptr_array_add (self->running, s);
    }
  release_pages (self, p->pages);
}

static void
finish_sample (PlumbRollout *self, Sample *s)
{
  self->promised -= s->reserved - (int) s->pages->len;
  release_pages (self, s->pages);
  g_queue_push_tail (&self->finished, g_steal_pointer (&s->completion));
}

/* Hands the sampled tokens to the samples that asked, in the order of the pass. */
static void
distribute (PlumbRollout *self, const gint32 *tokens, const float *log_probs)
{
  guint asked = self->running->len, at = 0;
  g_autoptr (GPtrArray) running = g_steal_pointer (&self->running);
  self->running = g_ptr_array_new_with_free_func (sample_free);
  for (; at < asked; at++)
    {
      Sample *s = g_ptr_array_index (running, at);
      if (append_token (self, s->completion, s->prompt_length, tokens[at], log_probs[at]))
        finish_sample (self, s);
      else
        g_ptr_array_add (self->running, g_steal_pointer (&running->pdata[at]));
    }
  for (guint i = 0; i < running->len; i++)
    if (running->pdata[i])
      sample_free (g_steal_pointer (&running->pdata[i]));
  g_ptr_array_set_free_func (running, NULL);
  for (guint i = 0; i < self->filling->len;)
    {
      Prompt *p = g_ptr_array_index (self->filling, i);
      if (p->done < (int) p->prompt->len)
        {
          i++;
          continue;
        }
      start_samples (self, p, tokens + at, log_probs + at);
      at += (guint) p->samples;
      g_ptr_array_remove_index (self->filling, i);
    }
}

gboolean
plumb_rollout_advance (PlumbRollout *self, gboolean *idle, GError **error)
{
  admit (self);
  *idle = self->running->len == 0 && self->filling->len == 0;
  if (*idle && !g_queue_is_empty (&self->waiting))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                   "the KV cache of %d pages of %d tokens cannot hold one prompt with its samples; raise "
                   "rollout.kv_memory or lower rollout.max_running", self->plan.pages,
                   self->plan.page_tokens);
      return FALSE;
    }
  if (*idle)
    return TRUE;
  g_auto (Pass) pass = { 0 };
  pass_init (&pass, buffer_plan (self->model->config, &self->plan).table_stride);
  add_running (self, &pass);
  add_filling (self, &pass);
  PlumbPass forward = {
    .sequences = (int) pass.contexts->len,
    .ids = (gint32 *) (void *) pass.ids->data,
    .offsets = (gint32 *) (void *) pass.offsets->data,
    .contexts = (gint32 *) (void *) pass.contexts->data,
    .slots = (gint32 *) (void *) pass.slots->data,
    .pages = (gint32 *) (void *) pass.pages->data,
    .table_stride = pass.stride,
    .page_tokens = self->plan.page_tokens,
    .kv = self->kv,
  };
  int n = (int) pass.rows->len;
  self->statistics.passes++;
  self->statistics.decode_rows += self->running->len;
  if (!plumb_model_forward (self->model, self->buffers, &forward, error))
    return FALSE;
  if (n == 0)
    return TRUE;
  g_autofree gint32 *tokens = g_new (gint32, n);
  g_autofree float *log_probs = g_new (float, n);
  if (!plumb_model_sample (self->model, self->buffers, (gint32 *) (void *) pass.rows->data, n,
                           self->sampling.temperature, self->sampling.seed,
                           (struct dev_random *) (void *) pass.random->data, self->stop,
                           self->sampling.n_stop, (guint8 *) pass.ban->data, tokens, log_probs, error))
    return FALSE;
  distribute (self, tokens, log_probs);
  return TRUE;
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
