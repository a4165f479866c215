/* SPDX-License-Identifier: Apache-2.0 */

/* The vocabulary head: log-prob and entropy per row without holding the logits of a batch, their
 * gradient by recomputation, and sampling. One row function serves rollout and trainer, so that their
 * log-probs are equal bit by bit. */

#include "kernels/philox.h"
#include "kernels/cpu/product.h"

#include <math.h> // defines: log, INFINITY

struct row_stats
{
  float logp, entropy, lse;
};

/* Scales z in place by 1 / temperature and takes its statistics; sums in double, in a fixed order. */
CPU_CLONES static struct row_stats
row_statistics (float *z, float inverse_temperature, int target, int n)
{
  float top = -INFINITY;
  for (int i = 0; i < n; i++)
    z[i] *= inverse_temperature;
#pragma omp simd reduction(max : top)
  for (int i = 0; i < n; i++)
    top = z[i] > top ? z[i] : top;
  double sum = 0, weighted = 0;
#pragma omp simd reduction(+ : sum, weighted)
  for (int i = 0; i < n; i++)
    {
      float shifted = z[i] - top;
      float e = vector_exp (shifted);
      sum += (double) e;
      weighted += (double) (e * shifted);
    }
  double log_sum = log (sum);
  struct row_stats stats;
  stats.lse = (float) (top + log_sum);
  stats.logp = (float) ((double) z[target] - top - log_sum);
  stats.entropy = (float) (log_sum - weighted / sum);
  return stats;
}

/* Logits of rows first..first+count-1 of h, in the workspace; NULL after an error. */
static float *
chunk_logits (struct dev_context *context, const void *h, const struct dev_matrix *w, int first, int count,
              enum dev_type type)
{
  struct cpu_product p = { .m = count, .n = w->rows, .k = w->cols, .type = type, .c_type = DEV_F32 };
  p.b_transposed = true;
  p.packed = w->packed != NULL;
  if ((size_t) CPU_HEAD_CHUNK * w->rows * sizeof (float) > context->workspace_size / 2)
    cpu_fail (context, DEV_NO_MEMORY, "the workspace is too small for a vocabulary of %d", w->rows);
  float *logits = (float *) context->workspace;
  cpu_multiply (context, &p, logits, typed_at (h, (size_t) first * w->cols, type),
                w->packed ? w->packed : w->data);
  return context->status ? NULL : logits;
}

static int
chunk_count (int first, int n)
{
  return n - first < CPU_HEAD_CHUNK ? n - first : CPU_HEAD_CHUNK;
}

void
cpu_head_forward (struct dev_context *context, float *logp, float *entropy, float *lse, const void *h,
                  const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
                  enum dev_type type)
{
  for (int first = 0; first < n; first += CPU_HEAD_CHUNK)
    {
      int count = chunk_count (first, n);
      float *logits = chunk_logits (context, h, w, first, count, type);
      if (!logits)
        return;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (count > 1)
      for (int i = 0; i < count; i++)
        {
          struct row_stats stats = row_statistics (logits + (size_t) i * w->rows, 1.0f / temperature,
                                                   targets[first + i], w->rows);
          logp[first + i] = stats.logp;
          entropy[first + i] = stats.entropy;
          lse[first + i] = stats.lse;
        }
    }
}

/* dL/dz of one row, in place, where z' = z / temperature and p = softmax (z'):
 * (dlogp ([v = target] - p_v) - dentropy p_v (log p_v + entropy)) / temperature. */
CPU_CLONES static void
row_gradient (float *z, float inverse_temperature, float lse, float entropy, float dlogp, float dentropy,
              int target, int n)
{
  for (int i = 0; i < n; i++)
    {
      float log_p = z[i] * inverse_temperature - lse;
      float p = vector_exp (log_p);
      z[i] = -p * (dlogp + dentropy * (log_p + entropy)) * inverse_temperature;
    }
  z[target] += dlogp * inverse_temperature;
}

void
cpu_head_backward (struct dev_context *context, void *dh, float *dw, bool add, const float *dlogp,
                   const float *dentropy, const float *entropy, const float *lse, const void *h,
                   const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
                   enum dev_type type)
{
  for (int first = 0; first < n; first += CPU_HEAD_CHUNK)
    {
      int count = chunk_count (first, n);
      float *logits = chunk_logits (context, h, w, first, count, type);
      if (!logits)
        return;
      char *typed = type == DEV_F32 ? (char *) logits : context->workspace + context->workspace_size / 2;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (count > 1)
      for (int i = 0; i < count; i++)
        {
          float *row = logits + (size_t) i * w->rows;
          int at = first + i;
          row_gradient (row, 1.0f / temperature, lse[at], entropy[at], dlogp[at], dentropy[at],
                        targets[at], w->rows);
          if (type != DEV_F32)
            cpu_row_store (typed_at_mut (typed, (size_t) i * w->rows, type), row, w->rows, type);
        }
      size_t offset = (size_t) first * w->cols;
      cpu_linear_backward (context, typed_at_mut (dh, offset, type), dw, add || first > 0, typed,
                           typed_at (h, offset, type), w, count, type);
    }
}

void
cpu_head_both (struct dev_context *context, float *logp, float *entropy, float *lse, void *dh, float *dw, bool add,
               const float *dlogp, const void *h, const struct dev_matrix *w, const int32_t *targets,
               float temperature, int n, enum dev_type type)
{
  for (int first = 0; first < n; first += CPU_HEAD_CHUNK)
    {
      int count = chunk_count (first, n);
      float *logits = chunk_logits (context, h, w, first, count, type);
      if (!logits)
        return;
      char *typed = type == DEV_F32 ? (char *) logits : context->workspace + context->workspace_size / 2;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (count > 1)
      for (int i = 0; i < count; i++)
        {
          float *row = logits + (size_t) i * w->rows;
          int at = first + i;
          struct row_stats stats = row_statistics (row, 1.0f / temperature, targets[at], w->rows);
          logp[at] = stats.logp;
          entropy[at] = stats.entropy;
          lse[at] = stats.lse;
          /* The statistics have left z / temperature. */
          row_gradient (row, 1.0f, stats.lse, stats.entropy, dlogp[at] / temperature, 0.0f, targets[at], w->rows);
          if (type != DEV_F32)
            cpu_row_store (typed_at_mut (typed, (size_t) i * w->rows, type), row, w->rows, type);
        }
      size_t offset = (size_t) first * w->cols;
      cpu_linear_backward (context, typed_at_mut (dh, offset, type), dw, add || first > 0, typed,
                           typed_at (h, offset, type), w, count, type);
    }
}

void
cpu_head_logits (struct dev_context *context, float *logits, const void *h, const struct dev_matrix *w,
                 int n, enum dev_type type)
{
  for (int first = 0; first < n; first += CPU_HEAD_CHUNK)
    {
      int count = chunk_count (first, n);
      float *chunk = chunk_logits (context, h, w, first, count, type);
      if (!chunk)
        return;
      memcpy (logits + (size_t) first * w->rows, chunk, (size_t) count * w->rows * sizeof (float));
    }
}

/* Gumbel-max: argmax of z / temperature - log (-log u), u by Philox at (counter, v / 4), lane v % 4. */
#define NOISE_BLOCK 64

CPU_CLONES static void
gumbel_block (float *noise, const struct dev_random *random, uint64_t seed, uint32_t first)
{
  uint32_t words[4][NOISE_BLOCK / 4];
  for (int i = 0; i < NOISE_BLOCK / 4; i++)
    {
      uint32_t counter[4] = { random->counter[0], random->counter[1], random->counter[2],
                              first / 4 + (uint32_t) i };
      uint32_t out[4];
      philox_4x32_10 (out, counter, seed);
      words[0][i] = out[0];
      words[1][i] = out[1];
      words[2][i] = out[2];
      words[3][i] = out[3];
    }
  for (int i = 0; i < NOISE_BLOCK; i++)
    noise[i] = -vector_log (-vector_log (philox_uniform (words[i % 4][i / 4])));
}

static bool
is_forbidden (const int32_t *forbidden, int n, int id)
{
  for (int i = 0; i < n; i++)
    if (forbidden[i] == id)
      return true;
  return false;
}

static int
pick_row (const float *z, int n, float inverse_temperature, bool greedy, const struct dev_random *random,
          uint64_t seed, const int32_t *forbidden, int n_forbidden)
{
  float noise[NOISE_BLOCK], top = -INFINITY;
  int best = 0;
  for (int first = 0; first < n; first += NOISE_BLOCK)
    {
      int count = n - first < NOISE_BLOCK ? n - first : NOISE_BLOCK;
      if (!greedy)
        gumbel_block (noise, random, seed, (uint32_t) first);
      for (int i = 0; i < count; i++)
        {
          float value = greedy ? z[first + i] : z[first + i] * inverse_temperature + noise[i];
          if (value > top && !is_forbidden (forbidden, n_forbidden, first + i))
            {
              top = value;
              best = first + i;
            }
        }
    }
  return best;
}

void
cpu_head_sample (struct dev_context *context, int32_t *tokens, float *logp, const void *h, const struct dev_matrix *w,
                 const struct dev_sampling *s, int n, enum dev_type type)
{
  bool greedy = s->temperature == 0, filtered = dev_sampling_is_filtered (s);
  float inverse = greedy || filtered ? 1.0f : 1.0f / s->temperature;
  for (int first = 0; first < n; first += CPU_HEAD_CHUNK)
    {
      int count = chunk_count (first, n);
      float *logits = chunk_logits (context, h, w, first, count, type);
      if (!logits)
        return;
#pragma omp parallel for num_threads(context->threads) schedule(static) if (count > 1)
      for (int i = 0; i < count; i++)
        {
          int at = first + i;
          float *row = logits + (size_t) i * w->rows;
          bool banned = s->ban && s->ban[at];
          if (filtered)
            cpu_filter_row (row, w->rows, s, at);
          int token = pick_row (row, w->rows, inverse, greedy, greedy ? NULL : s->random + at, s->seed, s->forbidden,
                                banned ? s->n_forbidden : 0);
          tokens[at] = token;
          logp[at] = row_statistics (row, inverse, token, w->rows).logp;
          if (filtered)
            cpu_mark_seen (s, at, token);
        }
    }
}
