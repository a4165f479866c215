/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/train/micro-batch.h"

void
plumb_micro_batch_clear (PlumbMicroBatch *b)
{
  g_free (b->ids);
  g_free (b->offsets);
  g_free (b->rows);
  g_free (b->targets);
  g_free (b->places);
  g_free (b->origins);
  g_free (b->indices);
}

static void
add_row (PlumbMicroBatch *b, int row, gint32 target, int place)
{
  b->rows[b->n] = row;
  b->targets[b->n] = target;
  b->places[b->n++] = place;
}

void
plumb_micro_batch_fill (PlumbMicroBatch *b, const struct plumb_experience *e, const int *sequences, int n,
                        gboolean last_rows)
{
  int tokens = 0;
  for (int i = 0; i < n; i++)
    tokens += e->offsets[sequences[i] + 1] - e->offsets[sequences[i]];
  b->sequences = n;
  b->ids = g_new (gint32, tokens);
  b->rows = g_new (gint32, tokens);
  b->targets = g_new (gint32, tokens);
  b->places = g_new (int, tokens);
  b->origins = g_new (int, tokens);
  b->offsets = g_new0 (gint32, n + 1);
  b->indices = g_memdup2 (sequences, n * sizeof *sequences);
  for (int i = 0; i < n; i++)
    {
      int first = e->offsets[sequences[i]], last = e->offsets[sequences[i] + 1];
      for (int t = first; t < last; t++)
        {
          int at = b->tokens++;
          b->ids[at] = e->ids[t];
          b->origins[at] = t;
          if (!last_rows && t > first && e->mask[t])
            add_row (b, at - 1, e->ids[t], at);
        }
      if (last_rows && last > first)
        add_row (b, b->tokens - 1, e->ids[last - 1], b->tokens - 1);
      b->offsets[i + 1] = b->tokens;
    }
}

gboolean
plumb_loss_is_scalar (PlumbLossId id)
{
  return id == PLUMB_LOSS_VALUE || id == PLUMB_LOSS_REWARD;
}

gboolean
plumb_loss_is_of_last (PlumbLossId id)
{
  return id == PLUMB_LOSS_REWARD;
}

/* The arrays that a loss reads and writes, cut out of the experience for one micro-batch; one allocation. */
typedef struct
{
  double *memory;
  guint8 *bytes;
  guint8 *mask, *desirable;
  double *outputs, *entropy, *old, *rollout, *reference, *advantage, *old_value, *returns, *margin;
  double *by_output, *by_entropy;
} Arrays;

#define N_ARRAYS 11

static void
arrays_clear (Arrays *a)
{
  g_free (a->memory);
  g_free (a->bytes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Arrays, arrays_clear)

static void
arrays_alloc (Arrays *a, const PlumbMicroBatch *b)
{
  double **parts[N_ARRAYS]
      = { &a->outputs,   &a->entropy, &a->old,    &a->rollout,   &a->reference, &a->advantage,
          &a->old_value, &a->returns, &a->margin, &a->by_output, &a->by_entropy };
  gsize n = (gsize) MAX (b->tokens, b->sequences);
  a->memory = g_new0 (double, N_ARRAYS * n);
  a->bytes = g_new0 (guint8, 2 * n);
  a->mask = a->bytes;
  a->desirable = a->bytes + n;
  for (gsize i = 0; i < N_ARRAYS; i++)
    *parts[i] = a->memory + i * n;
}

static void
arrays_fill (Arrays *a, const PlumbMicroBatch *b, const struct plumb_experience *e, const float *outputs,
             const float *entropies)
{
  arrays_alloc (a, b);
  for (int t = 0; t < b->tokens; t++)
    {
      int from = b->origins[t];
      a->old[t] = e->old_logp[from];
      a->rollout[t] = e->rollout_logp[from];
      a->reference[t] = e->reference_logp[from];
      a->advantage[t] = e->advantage[from];
      a->old_value[t] = e->value[from];
      a->returns[t] = e->returns[from];
    }
  for (int s = 0; s < b->sequences; s++)
    {
      a->margin[s] = e->margin[b->indices[s]];
      a->desirable[s] = e->desirable[b->indices[s]];
    }
  for (int r = 0; r < b->n; r++)
    {
      a->mask[b->places[r]] = 1;
      a->outputs[b->places[r]] = outputs[r];
      a->entropy[b->places[r]] = entropies ? entropies[r] : 0;
    }
}

static void
evaluate (const PlumbLossSpec *loss, struct plumb_loss_batch *batch, const struct plumb_slopes *slopes,
          struct plumb_loss_statistics *statistics)
{
  const struct plumb_denominators *d = &loss->denominators;
  switch (loss->id)
    {
    case PLUMB_LOSS_SFT:
      plumb_sft_loss (loss->policy.aggregate, d, batch, slopes, statistics);
      break;
    case PLUMB_LOSS_POLICY:
      if (loss->policy.kl_coefficient == 0)
        batch->reference = NULL;
      plumb_policy_loss (&loss->policy, d, batch, slopes, statistics);
      break;
    case PLUMB_LOSS_VALUE:
      plumb_value_loss (&loss->value, d, batch, slopes, statistics);
      break;
    case PLUMB_LOSS_PAIR:
      plumb_pair_loss (&loss->pair, d, batch, slopes, statistics);
      break;
    case PLUMB_LOSS_KTO:
      plumb_kto_loss (&loss->kto, d, batch, slopes, statistics);
      break;
    case PLUMB_LOSS_REWARD:
      plumb_reward_loss (loss->reward, loss->reward_margin, d, batch, slopes, statistics);
      break;
    case PLUMB_N_LOSSES:
      g_assert_not_reached ();
    }
}

void
plumb_micro_batch_evaluate (const PlumbMicroBatch *b, const struct plumb_experience *e, const PlumbLossSpec *loss,
                            float *outputs, float *entropies, struct plumb_loss_statistics *statistics)
{
  gboolean scalar = plumb_loss_is_scalar (loss->id);
  g_auto (Arrays) a = { 0 };
  arrays_fill (&a, b, e, outputs, entropies);
  struct plumb_loss_batch batch = {
    .sequences = b->sequences,   .offsets = b->offsets,
    .mask = a.mask,              .logp = scalar ? NULL : a.outputs,
    .entropy = entropies ? a.entropy : NULL,
    .old_logp = a.old,           .rollout_logp = a.rollout,
    .reference = a.reference,    .advantage = a.advantage,
    .value = scalar ? a.outputs : NULL,
    .old_value = a.old_value,    .returns = a.returns,
    .margin = a.margin,          .desirable = a.desirable,
  };
  struct plumb_slopes slopes = { .logp = scalar ? NULL : a.by_output,
                                 .entropy = a.by_entropy,
                                 .value = scalar ? a.by_output : NULL };
  evaluate (loss, &batch, &slopes, statistics);
  for (int r = 0; r < b->n; r++)
    {
      outputs[r] = (float) a.by_output[b->places[r]];
      if (entropies)
        entropies[r] = (float) a.by_entropy[b->places[r]];
    }
}
