/* SPDX-License-Identifier: Apache-2.0 */
/* The engine against itself: what a result must not depend on. On the fixtures, for every feature of the decoder. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/rollout/rollout.h"
#include "engine/train/trainer.h"

#define WORKSPACE (64 << 20)
#define LONGEST 64
#define SEQUENCES 7

static const char *const fixtures[] = { "llama", "llama3-rope-tied", "mistral-sliding", "qwen2", "qwen3" };

typedef struct
{
  PlumbDevice *device;
  PlumbModel *model;
} Opened;

static void
open_model_on (Opened *o, const char *device, const char *name, enum dev_type type)
{
  g_autofree char *dir = g_build_filename (g_getenv ("PLUMB_TEST_FIXTURES"), "models", name, NULL);
  g_autoptr (GError) error = NULL;
  o->device = plumb_device_open (device, WORKSPACE, &error);
  g_assert_no_error (error);
  /* In its fast mode a GPU measures anew, each time it is opened, which products serve best. */
  o->device->ops->set_deterministic (o->device->context, TRUE);
  o->model = plumb_model_load (o->device, dir, type, LONGEST, &error);
  g_assert_no_error (error);
}

static void
open_model (Opened *o, const char *name, enum dev_type type)
{
  open_model_on (o, "cpu", name, type);
}

static void
close_model (Opened *o)
{
  plumb_model_free (o->model);
  plumb_device_close (o->device);
}

static PlumbTrainer *
new_trainer (Opened *o, int budget)
{
  PlumbTrainerOptions options = { 0.9, 0.95, 1e-8, 0.01, 1.0 };
  g_autoptr (GError) error = NULL;
  PlumbTrainer *trainer = plumb_trainer_new (o->model, &options, budget, &error);
  g_assert_no_error (error);
  return trainer;
}

/* Sequences of 3 to 63 tokens with holes in their masks. */
static struct plumb_experience *
make_experience (int vocabulary)
{
  int lengths[SEQUENCES] = { 63, 3, 40, 17, 33, 5, 64 }, tokens = 0;
  for (int s = 0; s < SEQUENCES; s++)
    tokens += lengths[s];
  struct plumb_experience *e = plumb_experience_new (SEQUENCES, tokens);
  for (int s = 0, t = 0; s < SEQUENCES; s++)
    {
      for (int i = 0; i < lengths[s]; i++, t++)
        {
          e->ids[t] = (t * 37 + s * 11) % vocabulary;
          e->mask[t] = i > 1 && i % 5 != 3;
          e->advantage[t] = sin (t + s);
        }
      e->offsets[s + 1] = t;
    }
  return e;
}

static void
log_probs (Opened *o, int budget, struct plumb_experience *e, float *to, float *entropies)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTrainer) trainer = new_trainer (o, budget);
  plumb_trainer_log_probs (trainer, o->model, e, 0.7, to, entropies, &error);
  g_assert_no_error (error);
}

/* Packed together or one by one, every token has the same log-prob and entropy, to the last bit. */
static void
check_packing (const char *name, enum dev_type type)
{
  Opened o;
  open_model (&o, name, type);
  struct plumb_experience *e = make_experience (o.model->config->vocabulary);
  g_autofree float *together = g_new (float, 2 * e->tokens), *alone = g_new (float, 2 * e->tokens);
  log_probs (&o, 4096, e, together, together + e->tokens);
  log_probs (&o, 1, e, alone, alone + e->tokens);
  for (int t = 0; t < 2 * e->tokens; t++)
    if (memcmp (&together[t], &alone[t], sizeof (float)) != 0)
      g_error ("%s: entry %d is %.9g packed and %.9g alone", name, t, together[t], alone[t]);
  g_assert_cmpfloat (together[e->offsets[1] - 1], <, 0);
  plumb_experience_free (e);
  close_model (&o);
}

static void
test_packing (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fixtures); i++)
    {
      check_packing (fixtures[i], DEV_F32);
      check_packing (fixtures[i], DEV_BF16);
    }
}

static float *
gradients (Opened *o, int budget, struct plumb_experience *e, const PlumbLossSpec *loss,
           struct plumb_loss_statistics *statistics)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTrainer) trainer = new_trainer (o, budget);
  int all[SEQUENCES];
  float *host = g_new (float, o->model->table->elements);
  for (int s = 0; s < SEQUENCES; s++)
    all[s] = s;
  plumb_trainer_accumulate (trainer, e, all, SEQUENCES, loss, statistics, &error);
  g_assert_no_error (error);
  plumb_trainer_gradients (trainer, host, &error);
  g_assert_no_error (error);
  return host;
}

/* However a batch is cut into micro-batches, each weight's gradient is the same within 1e-6 of its norm. */
static void
check_split (const char *name, const PlumbLossSpec *given)
{
  Opened o;
  open_model (&o, name, DEV_F32);
  struct plumb_experience *e = make_experience (o.model->config->vocabulary);
  PlumbLossSpec loss = *given;
  struct plumb_loss_statistics whole = { 0 }, parts = { 0 };
  plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  log_probs (&o, 4096, e, e->old_logp, NULL);
  for (int t = 0; t < e->tokens; t++)
    {
      e->old_logp[t] += 0.02f * (float) cos (t);
      e->reference_logp[t] = e->old_logp[t] + 0.1f;
    }
  g_autofree float *a = gradients (&o, 4096, e, &loss, &whole);
  g_autofree float *b = gradients (&o, 64, e, &loss, &parts);
  g_assert_cmpfloat (fabs (whole.loss - parts.loss), <=, 1e-12 * MAX (1, fabs (whole.loss)));
  g_assert_cmpfloat (whole.tokens, ==, parts.tokens);
  for (guint r = 0; r < o.model->table->rows->len; r++)
    {
      const PlumbWeight *row = plumb_weight_table_row (o.model->table, r);
      double difference = 0, norm = 0;
      for (gsize k = row->first; k < row->first + row->count; k++)
        {
          difference += ((double) a[k] - b[k]) * ((double) a[k] - b[k]);
          norm += (double) a[k] * a[k];
        }
      g_assert_cmpfloat (norm, >, 0);
      if (!(sqrt (difference / norm) <= 1e-6))
        g_error ("%s: the gradient of %s differs by %.3g", name, row->name, sqrt (difference / norm));
    }
  plumb_experience_free (e);
  close_model (&o);
}

static void
test_split (void)
{
  PlumbLossSpec sft = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  PlumbLossSpec policy = { .id = PLUMB_LOSS_POLICY, .temperature = 0.7 };
  policy.policy = (struct plumb_policy_options){ .clip_low = 0.2, .clip_high = 0.2, .kl_coefficient = 0.1,
                                                 .kl_estimator = PLUMB_KL_K3, .entropy = 0.01 };
  for (gsize i = 0; i < G_N_ELEMENTS (fixtures); i++)
    {
      check_split (fixtures[i], &sft);
      check_split (fixtures[i], &policy);
    }
}

/* Puts a completion behind its prompt, and asks the trainer for the same tokens. */
static void
compare_completion (Opened *o, const gint32 *prompt, int length, const PlumbCompletion *c, double temperature)
{
  int tokens = length + (int) c->ids->len;
  struct plumb_experience *e = plumb_experience_new (1, tokens);
  g_autofree float *trained = g_new (float, tokens);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTrainer) trainer = new_trainer (o, 64);
  e->offsets[1] = tokens;
  memcpy (e->ids, prompt, (gsize) length * 4);
  memcpy (e->ids + length, c->ids->data, (gsize) c->ids->len * 4);
  memset (e->mask + length, 1, c->ids->len);
  plumb_trainer_log_probs (trainer, o->model, e, temperature, trained, NULL, &error);
  g_assert_no_error (error);
  for (guint t = 0; t < c->ids->len; t++)
    if (trained[length + t] != g_array_index (c->log_probs, float, t))
      g_error ("%s: token %u has %.9g in the trainer and %.9g in the rollout", o->model->config->model_type, t,
               trained[length + t], g_array_index (c->log_probs, float, t));
  plumb_experience_free (e);
}

/* Paged decoding of one token at a time against a dense pass over the whole. */
static void
check_rollout (const char *name, enum dev_type type)
{
  Opened o;
  open_model (&o, name, type);
  PlumbRolloutPlan plan = { .max_running = 6, .page_tokens = 16, .max_prompt = 40, .max_new_tokens = 24 };
  PlumbSampling sampling = { .temperature = 0.9, .max_new_tokens = 24, .seed = 3, .purpose = PLUMB_RANDOM_ROLLOUT };
  gint32 prompt[40];
  int lengths[2] = { 3, 40 }, compared = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbRollout) rollout = plumb_rollout_new (o.model, &plan, &error);
  g_assert_no_error (error);
  for (int t = 0; t < 40; t++)
    prompt[t] = (t * 29 + 5) % o.model->config->vocabulary;
  g_assert_true (plumb_rollout_begin (rollout, &sampling, &error));
  for (int p = 0; p < 2; p++)
    g_assert_true (plumb_rollout_submit (rollout, prompt, lengths[p], 3, p, &error));
  for (gboolean idle = FALSE; !idle;)
    {
      g_assert_true (plumb_rollout_advance (rollout, &idle, &error));
      for (PlumbCompletion *next; (next = plumb_rollout_take (rollout));)
        {
          g_autoptr (PlumbCompletion) c = next;
          compare_completion (&o, prompt, lengths[c->ordinal], c, sampling.temperature);
          compared++;
        }
    }
  g_assert_cmpint (compared, ==, 6);
  g_clear_pointer (&rollout, plumb_rollout_free);
  close_model (&o);
}

static void
test_rollout (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fixtures); i++)
    {
      check_rollout (fixtures[i], DEV_F32);
      check_rollout (fixtures[i], DEV_BF16);
    }
}

/* The weights after two updates. */
static char *
train (Opened *o, const PlumbTrainerOptions *options, struct plumb_experience *e)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTrainer) trainer = plumb_trainer_new (o->model, options, 128, &error);
  g_assert_no_error (error);
  PlumbLossSpec loss = { .id = PLUMB_LOSS_SFT, .temperature = 1 };
  int all[SEQUENCES];
  for (int s = 0; s < SEQUENCES; s++)
    all[s] = s;
  plumb_denominators_add (&loss.denominators, e->sequences, e->offsets, e->mask);
  for (int step = 0; step < 2; step++)
    {
      struct plumb_loss_statistics statistics = { 0 };
      PlumbStepResult result;
      double norm;
      plumb_trainer_sleep (trainer); /* what lay in the activations is not missed */
      g_assert_true (plumb_trainer_wake (trainer, &error));
      plumb_trainer_accumulate (trainer, e, all, SEQUENCES, &loss, &statistics, &error);
      g_assert_no_error (error);
      g_assert_true (plumb_trainer_step (trainer, 1e-3, &result, &norm, &error));
      g_assert_cmpint (result, ==, PLUMB_STEP_DONE);
    }
  gsize bytes = o->model->table->elements * dev_type_size (o->model->type);
  char *weights = g_malloc (bytes);
  o->device->ops->download (o->device->context, weights, plumb_model_weights (o->model), bytes);
  g_assert_true (plumb_device_check (o->device, &error));
  return weights;
}

/* What is computed again, and where the state lies, changes no bit of the trained weights. */
static void
check_memory (const char *device, const char *name, enum dev_type type)
{
  PlumbTrainerOptions options = { 0.9, 0.95, 1e-8, 0.01, 1.0 };
  g_autofree char *kept = NULL;
  gsize bytes[PLUMB_N_RECOMPUTE];
  for (int mode = 0; mode <= PLUMB_N_RECOMPUTE; mode++)
    {
      Opened o;
      open_model_on (&o, device, name, type);
      struct plumb_experience *e = make_experience (o.model->config->vocabulary);
      options.offload = mode == PLUMB_N_RECOMPUTE;
      options.recompute = options.offload ? PLUMB_RECOMPUTE_SELECTIVE : (PlumbRecompute) mode;
      g_autofree char *weights = train (&o, &options, e);
      gsize n = o.model->table->elements * dev_type_size (type);
      if (!kept)
        kept = g_steal_pointer (&weights);
      else if (memcmp (kept, weights, n) != 0)
        g_error ("%s on %s: mode %d trains other weights", name, device, mode);
      if (mode < PLUMB_N_RECOMPUTE)
        bytes[mode] = plumb_trainer_activation_bytes (o.model->config, type, LONGEST, 128, TRUE, options.recompute);
      plumb_experience_free (e);
      close_model (&o);
    }
  g_assert_cmpuint (bytes[PLUMB_RECOMPUTE_SELECTIVE], <, bytes[PLUMB_RECOMPUTE_NONE]);
  g_assert_cmpuint (bytes[PLUMB_RECOMPUTE_FULL], <, bytes[PLUMB_RECOMPUTE_SELECTIVE]);
}

static void
test_memory (gconstpointer device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDevice) probe = plumb_device_open (device, 1 << 20, &error);
  if (!probe)
    {
      g_test_skip (error->message);
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (fixtures); i++)
    {
      check_memory (device, fixtures[i], DEV_F32);
      check_memory (device, fixtures[i], DEV_BF16);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/modes/packing", test_packing);
  g_test_add_func ("/modes/split", test_split);
  g_test_add_data_func ("/modes/memory/cpu", "cpu", test_memory);
  g_test_add_data_func ("/modes/memory/cuda", "cuda:0", test_memory);
  g_test_add_func ("/modes/rollout", test_rollout);
  return g_test_run ();
}
