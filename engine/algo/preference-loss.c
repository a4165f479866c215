/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/preference-loss.h"

#include <math.h>   // defines: exp, fmax, log1p
#include <stddef.h> // defines: NULL

/* Sum over the masked-in tokens of a sequence. */
static double
sum_of (const struct plumb_loss_batch *b, const double *values, int s)
{
  double sum = 0;
  for (int t = b->offsets[s]; t < b->offsets[s + 1] && values; t++)
    sum += b->mask[t] ? values[t] : 0;
  return sum;
}

static void
spread (const struct plumb_loss_batch *b, int s, double slope, double *slopes)
{
  for (int t = b->offsets[s]; t < b->offsets[s + 1]; t++)
    slopes[t] = b->mask[t] ? slope : 0;
}

/* SimPO and ORPO compare means per token, and have no reference. */
static double
simpo (const struct plumb_pair_options *o, double chosen, double rejected, double *by_chosen, double *by_rejected)
{
  double z = o->beta * (chosen - rejected) - o->margin, slope = -(1 - plumb_sigmoid (z)) * o->beta;
  *by_chosen = slope;
  *by_rejected = -slope;
  return plumb_softplus_minus (z);
}

/* log (p / (1 - p)) of the mean token probability exp (mean), and its derivative 1 / (1 - p). */
static double
log_odds (double mean, double *slope)
{
  double p = exp (fmin (mean, -1e-12));
  *slope = 1 / (1 - p);
  return mean - log1p (-p);
}

static double
orpo (const struct plumb_pair_options *o, double chosen, double rejected, double *by_chosen, double *by_rejected)
{
  double chosen_slope, rejected_slope;
  double z = log_odds (chosen, &chosen_slope) - log_odds (rejected, &rejected_slope);
  double slope = -(1 - plumb_sigmoid (z)) * o->beta;
  *by_chosen = slope * chosen_slope - 1;
  *by_rejected = -slope * rejected_slope;
  return o->beta * plumb_softplus_minus (z) - chosen;
}

/* Losses of the difference x_c - x_r, and their derivative by it. */
static double
difference_loss (const struct plumb_pair_options *o, double difference, double *slope)
{
  double z = o->beta * difference, smoothing = o->label_smoothing, scale = 1;
  switch (o->loss)
    {
    case PLUMB_PAIR_IPO:
    case PLUMB_PAIR_IPO_MEAN:
      *slope = 2 * (difference - 1 / (2 * o->beta));
      return (difference - 1 / (2 * o->beta)) * (difference - 1 / (2 * o->beta));
    case PLUMB_PAIR_HINGE:
      *slope = z < 1 ? -o->beta : 0;
      return fmax (0, 1 - z);
    case PLUMB_PAIR_ROBUST:
      scale = 1 / (1 - 2 * smoothing);
      *slope = scale * o->beta * (-(1 - smoothing) * (1 - plumb_sigmoid (z)) - smoothing * plumb_sigmoid (z));
      return scale * ((1 - smoothing) * plumb_softplus_minus (z) - smoothing * plumb_softplus_minus (-z));
    default:
      *slope = o->beta * (-(1 - smoothing) * (1 - plumb_sigmoid (z)) + smoothing * plumb_sigmoid (z));
      return (1 - smoothing) * plumb_softplus_minus (z) + smoothing * plumb_softplus_minus (-z);
    }
}

/* APO and SPPO look at each side by itself. */
static double
sided_loss (const struct plumb_pair_options *o, double chosen, double rejected, double *by_chosen,
            double *by_rejected)
{
  double beta = o->beta, target = 1 / (2 * beta);
  double c = plumb_sigmoid (beta * chosen), r = plumb_sigmoid (beta * rejected);
  double d = plumb_sigmoid (beta * (chosen - rejected));
  switch (o->loss)
    {
    case PLUMB_PAIR_APO_ZERO:
      *by_chosen = -beta * c * (1 - c);
      *by_rejected = beta * r * (1 - r);
      return 1 - c + r;
    case PLUMB_PAIR_APO_DOWN:
      *by_chosen = beta * c * (1 - c) - beta * d * (1 - d);
      *by_rejected = beta * d * (1 - d);
      return c + 1 - d;
    default:
      *by_chosen = 2 * (chosen - target);
      *by_rejected = 2 * (rejected + target);
      return (chosen - target) * (chosen - target) + (rejected + target) * (rejected + target);
    }
}

double
plumb_pair_loss_of (const struct plumb_pair_options *o, const struct plumb_pair *p, double *by_chosen,
                    double *by_rejected)
{
  double n_chosen = fmax (1, p->chosen_length), n_rejected = fmax (1, p->rejected_length);
  double chosen = p->chosen - p->reference_chosen, rejected = p->rejected - p->reference_rejected, loss;
  switch (o->loss)
    {
    case PLUMB_PAIR_SIMPO:
    case PLUMB_PAIR_ORPO:
      loss = (o->loss == PLUMB_PAIR_SIMPO ? simpo : orpo) (o, p->chosen / n_chosen, p->rejected / n_rejected,
                                                          by_chosen, by_rejected);
      *by_chosen /= n_chosen;
      *by_rejected /= n_rejected;
      break;
    case PLUMB_PAIR_APO_ZERO:
    case PLUMB_PAIR_APO_DOWN:
    case PLUMB_PAIR_SPPO:
      loss = sided_loss (o, chosen, rejected, by_chosen, by_rejected);
      break;
    case PLUMB_PAIR_IPO_MEAN:
      loss = difference_loss (o, chosen / n_chosen - rejected / n_rejected, by_chosen);
      *by_rejected = -*by_chosen / n_rejected;
      *by_chosen /= n_chosen;
      break;
    default:
      loss = difference_loss (o, chosen - rejected, by_chosen);
      *by_rejected = -*by_chosen;
    }
  *by_chosen -= o->nll / n_chosen;
  return loss - o->nll * p->chosen / n_chosen;
}

static int
has_reference (const struct plumb_pair_options *o)
{
  return o->loss != PLUMB_PAIR_ORPO && o->loss != PLUMB_PAIR_SIMPO;
}

/* The implicit rewards: beta times x, or where there is no reference beta times the mean log-prob. */
static void
count_pair (const struct plumb_pair_options *o, const struct plumb_pair *p, struct plumb_loss_statistics *st)
{
  double n_chosen = fmax (1, p->chosen_length), n_rejected = fmax (1, p->rejected_length);
  double chosen = o->beta * (has_reference (o) ? p->chosen - p->reference_chosen : p->chosen / n_chosen);
  double rejected = o->beta * (has_reference (o) ? p->rejected - p->reference_rejected : p->rejected / n_rejected);
  st->answers++;
  st->accurate += chosen > rejected;
  st->margin += chosen - rejected;
  st->chosen += chosen;
  st->rejected += rejected;
  st->n_chosen++;
  st->n_rejected++;
  st->nll -= p->chosen / n_chosen;
}

void
plumb_pair_loss (const struct plumb_pair_options *o, const struct plumb_denominators *d,
                 const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                 struct plumb_loss_statistics *st)
{
  double weight = d->sequences > 0 ? 2 / d->sequences : 0;
  const double *reference = has_reference (o) ? b->reference : NULL;
  for (int s = 0; s + 1 < b->sequences; s += 2)
    {
      struct plumb_pair pair = {
        .chosen = sum_of (b, b->logp, s),
        .rejected = sum_of (b, b->logp, s + 1),
        .reference_chosen = sum_of (b, reference, s),
        .reference_rejected = sum_of (b, reference, s + 1),
        .chosen_length = plumb_loss_length (b, s),
        .rejected_length = plumb_loss_length (b, s + 1),
      };
      double by_chosen, by_rejected;
      st->loss += weight * plumb_pair_loss_of (o, &pair, &by_chosen, &by_rejected);
      st->tokens += pair.chosen_length + pair.rejected_length;
      st->entropy += sum_of (b, b->entropy, s) + sum_of (b, b->entropy, s + 1);
      spread (b, s, weight * by_chosen, slopes->logp);
      spread (b, s + 1, weight * by_rejected, slopes->logp);
      count_pair (o, &pair, st);
    }
}

/* The loss of an answer and its derivative by x; by the estimate it is the opposite. */
static double
kto_answer (const struct plumb_kto_options *o, double x, int desirable, double *slope)
{
  double estimate = o->paired == desirable ? o->kl_undesirable : o->kl_desirable;
  double weight = desirable ? o->desirable : o->undesirable;
  double sigmoid = plumb_sigmoid (o->beta * (desirable ? x - estimate : estimate - x));
  *slope = (desirable ? -1 : 1) * weight * o->beta * sigmoid * (1 - sigmoid);
  return weight * (1 - sigmoid);
}

void
plumb_kto_pair_estimates (struct plumb_kto_options *o, int n, const double *x, const uint8_t *desirable)
{
  double sums[2] = { 0 }, counts[2] = { 0 }, slopes[2] = { 0 };
  for (int i = 0; i < n; i++)
    {
      sums[desirable[i] != 0] += x[i];
      counts[desirable[i] != 0]++;
    }
  o->kl_desirable = counts[1] > 0 ? fmax (0, sums[1] / counts[1]) : 0;
  o->kl_undesirable = counts[0] > 0 ? fmax (0, sums[0] / counts[0]) : 0;
  for (int i = 0; i < n; i++)
    {
      double slope;
      kto_answer (o, x[i], desirable[i] != 0, &slope);
      slopes[desirable[i] == 0] -= slope; // a liked answer is measured against the disliked, and the other way
    }
  o->by_kl_desirable = o->kl_desirable > 0 ? slopes[1] / counts[1] : 0;
  o->by_kl_undesirable = o->kl_undesirable > 0 ? slopes[0] / counts[0] : 0;
}

void
plumb_kto_loss (const struct plumb_kto_options *o, const struct plumb_denominators *d,
                const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                struct plumb_loss_statistics *st)
{
  double weight = d->sequences > 0 ? 1 / d->sequences : 0;
  for (int s = 0; s < b->sequences; s++)
    {
      int desirable = b->desirable[s] != 0;
      double slope, x = sum_of (b, b->logp, s) - sum_of (b, b->reference, s);
      st->loss += weight * kto_answer (o, x, desirable, &slope);
      if (o->paired)
        slope += desirable ? o->by_kl_desirable : o->by_kl_undesirable;
      spread (b, s, weight * slope, slopes->logp);
      st->tokens += plumb_loss_length (b, s);
      st->entropy += sum_of (b, b->entropy, s);
      st->answers++;
      *(desirable ? &st->chosen : &st->rejected) += o->beta * x;
      *(desirable ? &st->n_chosen : &st->n_rejected) += 1;
    }
}

void
plumb_reward_loss (enum plumb_reward_loss kind, int with_margin, const struct plumb_denominators *d,
                   const struct plumb_loss_batch *b, const struct plumb_slopes *slopes,
                   struct plumb_loss_statistics *st)
{
  double weight = d->sequences > 0 ? 2 / d->sequences : 0;
  for (int t = b->offsets[0]; t < b->offsets[b->sequences]; t++)
    slopes->value[t] = 0;
  for (int s = 0; s + 1 < b->sequences; s += 2)
    {
      int chosen = b->offsets[s + 1] - 1, rejected = b->offsets[s + 2] - 1;
      double difference = b->value[chosen] - b->value[rejected];
      double z = difference - (with_margin && kind == PLUMB_REWARD_SIGMOID ? b->margin[s] : 0);
      double slope = -weight * (1 - plumb_sigmoid (z));
      st->loss += weight * plumb_softplus_minus (z);
      slopes->value[chosen] = slope;
      slopes->value[rejected] = -slope;
      st->answers++;
      st->accurate += difference > 0;
      st->margin += difference;
      st->chosen += b->value[chosen];
      st->rejected += b->value[rejected];
      st->n_chosen++;
      st->n_rejected++;
    }
}
