/* SPDX-License-Identifier: Apache-2.0 */

#include "engine/algo/advantage.h"

#include <math.h>   // defines: fmax, fmin, sqrt
#include <stddef.h> // defines: NULL

#define STD_EPSILON 1e-9
#define VARIANCE_FLOOR 1e-8

static double
clip (double value, double low, double high)
{
  return value < low ? low : value > high ? high : value;
}

void
plumb_gae (int n, const uint8_t *mask, const double *rewards, const double *values, double gamma,
           double lambda, double *advantages, double *returns)
{
  double next_value = 0, next_advantage = 0;
  for (int t = n - 1; t >= 0; t--)
    {
      double reward = rewards[t], value = values[t];
      advantages[t] = returns[t] = 0;
      if (!mask[t])
        continue;
      next_advantage = reward + gamma * next_value - value + gamma * lambda * next_advantage;
      next_value = value;
      advantages[t] = next_advantage;
      returns[t] = next_advantage + value;
    }
}

void
plumb_discounted_returns (int n, const uint8_t *mask, const double *rewards, double gamma, double *returns)
{
  double sum = 0;
  for (int t = n - 1; t >= 0; t--)
    {
      double reward = rewards[t];
      returns[t] = 0;
      if (!mask[t])
        continue;
      sum = reward + gamma * sum;
      returns[t] = sum;
    }
}

static void
drop_sequence (struct plumb_experience *e, int s)
{
  for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
    e->mask[t] = 0;
}

/* Writes the token rewards of a sequence into `returns`: its KL terms, and the shaped reward at the last token
 * that counts. Gives the sum of the KL terms. */
static double
set_token_rewards (struct plumb_experience *e, const struct plumb_advantage_options *o, int s, double shaped)
{
  int last = -1;
  double sum = 0;
  for (int t = e->offsets[s]; t < e->offsets[s + 1]; t++)
    {
      e->returns[t] = 0;
      if (!e->mask[t])
        continue;
      last = t;
      if (o->kl_in_reward && o->kl_coefficient > 0)
        e->returns[t] = -o->kl_coefficient
                        * plumb_kl (o->kl_estimator, (double) e->old_logp[t] - e->reference_logp[t], NULL);
      sum += e->returns[t];
    }
  if (last >= 0)
    e->returns[last] += shaped;
  return sum;
}

static void
set_advantages (struct plumb_experience *e, const struct plumb_advantage_options *o, int s)
{
  int first = e->offsets[s], n = e->offsets[s + 1] - first;
  double *returns = e->returns + first, *advantages = e->advantage + first;
  if (o->critic)
    {
      plumb_gae (n, e->mask + first, returns, e->value + first, o->gamma, o->lambda, advantages, returns);
      return;
    }
  plumb_discounted_returns (n, e->mask + first, returns, o->gamma, returns);
  for (int t = 0; t < n; t++)
    advantages[t] = returns[t];
}

struct moments
{
  int scored;
  double mean, deviation; // unbiased
  double sum;
  double length_mean; // weighted by response length
};

/* Of the scored rewards of sequences first .. last-1. */
static struct moments
group_moments (const struct plumb_experience *e, int first, int last)
{
  struct moments m = { 0 };
  double squares = 0, least = INFINITY, most = -INFINITY, weighted = 0, tokens = 0;
  for (int s = first; s < last; s++)
    if (e->scored[s])
      {
        int length = plumb_experience_response_length (e, s);
        m.sum += e->reward[s];
        weighted += length * e->reward[s];
        tokens += length;
        least = fmin (least, e->reward[s]);
        most = fmax (most, e->reward[s]);
        m.scored++;
      }
  /* Equal rewards have no spread, although their mean may round. */
  m.mean = least == most ? most : m.scored ? m.sum / m.scored : 0;
  m.length_mean = least == most ? most : tokens > 0 ? weighted / tokens : 0;
  for (int s = first; s < last; s++)
    if (e->scored[s])
      squares += (e->reward[s] - m.mean) * (e->reward[s] - m.mean);
  m.deviation = m.scored > 1 ? sqrt (squares / (m.scored - 1)) : 0;
  return m;
}

static double
without_baseline (const struct plumb_experience *e, const struct plumb_advantage_options *o, int s,
                  const struct moments *m)
{
  double reward = e->reward[s];
  switch (o->baseline)
    {
    case PLUMB_BASELINE_NONE:
      break;
    case PLUMB_BASELINE_GROUP_MEAN:
      reward -= m->mean;
      break;
    case PLUMB_BASELINE_LEAVE_ONE_OUT:
      reward = m->deviation == 0 ? 0 : reward - (m->sum - reward) / (m->scored - 1);
      break;
    case PLUMB_BASELINE_LENGTH:
      reward -= m->length_mean;
      break;
    case PLUMB_BASELINE_GREEDY:
      reward -= e->baseline[s];
      break;
    }
  return o->scale_by_deviation ? reward / (m->deviation + STD_EPSILON) : reward;
}

/* A group baseline needs somebody to compare with. */
static int
needs_company (const struct plumb_advantage_options *o)
{
  return o->scale_by_deviation || (o->baseline != PLUMB_BASELINE_NONE && o->baseline != PLUMB_BASELINE_GREEDY);
}

/* One group: sequences first .. last-1. Returns how many stay in the loss. */
static int
fill_group (struct plumb_experience *e, const struct plumb_advantage_options *o, int first, int last,
            struct plumb_group_statistics *found)
{
  struct moments m = group_moments (e, first, last);
  int kept = 0;
  for (int s = first; s < last; s++)
    {
      if (!e->scored[s] || (needs_company (o) && m.scored < 2))
        {
          drop_sequence (e, s);
          found->dropped++;
          continue;
        }
      double shaped = clip (without_baseline (e, o, s, &m), o->clip_low, o->clip_high);
      found->mean_return += e->reward[s] + set_token_rewards (e, o, s, shaped);
      set_advantages (e, o, s);
      kept++;
    }
  if (m.scored >= 2)
    {
      found->groups++;
      found->flat += m.deviation == 0;
      found->mean_std += m.deviation;
    }
  return kept;
}

/* (A - mean) / sqrt (variance) over the tokens that count, or the mean alone. */
static void
whiten (struct plumb_experience *e, enum plumb_normalize how)
{
  double n = 0, sum = 0, squares = 0;
  for (int t = 0; t < e->tokens; t++)
    if (e->mask[t])
      {
        sum += e->advantage[t];
        n++;
      }
  if (how == PLUMB_NORMALIZE_NONE || n == 0)
    return;
  double mean = sum / n;
  for (int t = 0; t < e->tokens; t++)
    if (e->mask[t])
      squares += (e->advantage[t] - mean) * (e->advantage[t] - mean);
  double scale = how == PLUMB_NORMALIZE_MEAN ? 1 : 1 / sqrt (fmax (squares / n, VARIANCE_FLOOR));
  for (int t = 0; t < e->tokens; t++)
    if (e->mask[t])
      e->advantage[t] = (e->advantage[t] - mean) * scale;
}

void
plumb_advantages (struct plumb_experience *e, const struct plumb_advantage_options *o,
                  struct plumb_group_statistics *statistics)
{
  struct plumb_group_statistics found = { 0 };
  int kept = 0;
  for (int first = 0, last; first < e->sequences; first = last)
    {
      for (last = first + 1; last < e->sequences && e->group[last] == e->group[first]; last++)
        ;
      kept += fill_group (e, o, first, last, &found);
    }
  whiten (e, o->whiten);
  if (found.groups)
    found.mean_std /= found.groups;
  if (kept)
    found.mean_return /= kept;
  *statistics = found;
}
