/* SPDX-License-Identifier: Apache-2.0 */

/* The heads: log-probs of the vocabulary and their gradient, sampling and its filters, values. */

#include "config.h"

#include "engine/algo/sampling.h"
#include "tests/unit/ops-checks.h"

void
check_head (Fixture *f)
{
  int n = pick (f, 1, 150), width = pick (f, 1, 80), vocabulary = pick (f, 2, 300);
  float temperature = (float) g_rand_double_range (f->random, 0.3, 2);
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  float *have = take (f, 3 * n * 4), *want = take (f, 3 * n * 4);
  int32_t *targets = take (f, n * 4);
  for (int i = 0; i < n; i++)
    targets[i] = pick (f, 0, vocabulary - 1);
  f->ops->head_forward (f->context, have, have + n, have + 2 * n, h, &w, targets, temperature, n, f->type);
  f->reference->head_forward (f->context, want, want + n, want + 2 * n, h, &w, targets, temperature, n,
                              f->type);
  assert_near ("head log-prob", have, want, n, DEV_F32, 5e-6);
  assert_near ("head entropy", have + n, want + n, n, DEV_F32, 2e-5);
  float *dlogp = random_floats (f, n, 1), *dentropy = random_floats (f, n, 1);
  void *dh = output (f, (size_t) n * width), *want_dh = output (f, (size_t) n * width);
  float *dw = take (f, (size_t) vocabulary * width * 4), *want_dw = zeros (f, (size_t) vocabulary * width);
  f->ops->head_backward (f->context, dh, dw, FALSE, dlogp, dentropy, have + n, have + 2 * n, h, &w, targets,
                         temperature, n, f->type);
  f->reference->head_backward (f->context, want_dh, want_dw, TRUE, dlogp, dentropy, want + n, want + 2 * n, h, &w,
                               targets, temperature, n, f->type);
  double limit = f->type == DEV_BF16 ? 1e-2 : 2e-5;
  assert_near ("head dh", dh, want_dh, (size_t) n * width, f->type, limit);
  assert_near ("head dw", dw, want_dw, (size_t) vocabulary * width, DEV_F32, limit);
  float *both = take (f, 3 * n * 4), *both_dw = zeros (f, (size_t) vocabulary * width);
  memset (dentropy, 0, n * 4);
  memset (want_dw, 0, (size_t) vocabulary * width * 4);
  f->reference->head_backward (f->context, want_dh, want_dw, TRUE, dlogp, dentropy, want + n, want + 2 * n, h, &w,
                               targets, temperature, n, f->type);
  f->ops->head_both (f->context, both, both + n, both + 2 * n, dh, both_dw, TRUE, dlogp, h, &w, targets, temperature, n,
                     f->type);
  assert_near ("head log-prob of both", both, want, n, DEV_F32, 5e-6);
  assert_near ("head dh of both", dh, want_dh, (size_t) n * width, f->type, limit);
  assert_near ("head dw of both", both_dw, want_dw, (size_t) vocabulary * width, DEV_F32, limit);
}

void
check_sample (Fixture *f)
{
  int n = pick (f, 1, 100), width = pick (f, 1, 40), vocabulary = pick (f, 5, 300);
  float temperature = pick (f, 0, 3) ? (float) g_rand_double_range (f->random, 0.3, 2) : 0;
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  struct dev_random *random = take (f, n * sizeof *random);
  int32_t *tokens = take (f, n * 4), *want = take (f, n * 4), *forbidden = take (f, 8);
  float *logp = take (f, n * 4), *want_logp = take (f, n * 4), *forward = take (f, 3 * n * 4);
  uint8_t *ban = take (f, n);
  forbidden[0] = 1;
  forbidden[1] = 4;
  for (int i = 0; i < n; i++)
    {
      random[i] = (struct dev_random){ { 1u << 24 | (uint32_t) i % 8, (uint32_t) i / 8, (uint32_t) i } };
      ban[i] = i % 2;
    }
  struct dev_sampling sampling = { .temperature = temperature, .seed = 42, .random = random, .forbidden = forbidden,
                                   .n_forbidden = 2, .ban = ban };
  f->ops->head_sample (f->context, tokens, logp, h, &w, &sampling, n, f->type);
  f->reference->head_sample (f->context, want, want_logp, h, &w, &sampling, n, f->type);
  int different = 0;
  for (int i = 0; i < n; i++)
    {
      different += tokens[i] != want[i];
      g_assert_false (ban[i] && (tokens[i] == 1 || tokens[i] == 4));
    }
  g_assert_cmpint (different, <=, n / 50); /* near ties of rounding */
  f->ops->head_forward (f->context, forward, forward + n, forward + 2 * n, h, &w, tokens,
                        temperature > 0 ? temperature : 1, n, f->type);
  g_assert_cmpmem (forward, n * 4, logp, n * 4); /* rollout and trainer agree bit by bit */
}

/* Draws from filtered rows: tokens of the reference, log-probs of the distribution that engine/algo defines, and the drawn
 * ids noted. Half of the rows have equal logits among the greatest. */
void
check_filters (Fixture *f)
{
  int n = pick (f, 1, 40), width = pick (f, 1, 40), vocabulary = pick (f, 8, 3000), stride = (vocabulary + 31) / 32;
  struct dev_matrix w = { random_typed (f, (size_t) vocabulary * width, 1), NULL, vocabulary, width };
  void *h = random_typed (f, (size_t) n * width, 1);
  size_t row_bytes = width * dev_type_size (f->type);
  for (int v = 2; v < vocabulary && pick (f, 0, 1); v += 2) /* ids of equal logits */
    memcpy ((char *) w.data + v * row_bytes, (char *) w.data, row_bytes);
  struct dev_random *random = take (f, n * sizeof *random);
  int32_t *tokens = take (f, n * 4), *want = take (f, n * 4), *forbidden = take (f, 4), *rows = take (f, n * 4);
  float *logp = take (f, n * 4), *want_logp = take (f, n * 4), *logits = take (f, (size_t) n * vocabulary * 4);
  size_t words = (size_t) (n + 1) * stride;
  uint32_t *seen = take (f, words * 4), *want_seen = take (f, words * 4);
  uint8_t *ban = take (f, n);
  forbidden[0] = 3;
  for (size_t i = 0; i < words; i++)
    want_seen[i] = seen[i] = g_rand_int (f->random) & g_rand_int (f->random) & g_rand_int (f->random);
  for (int i = 0; i < n; i++)
    {
      random[i] = (struct dev_random){ { 3u << 24, (uint32_t) i, (uint32_t) i } };
      rows[i] = n - i;
      ban[i] = i % 3 == 0;
    }
  struct dev_sampling s = { .temperature = pick (f, 0, 5) ? (float) g_rand_double_range (f->random, 0.3, 2) : 0,
                            .top_k = pick (f, 0, 1) ? pick (f, 1, vocabulary + 3) : 0,
                            .top_p = pick (f, 0, 1) ? (float) g_rand_double_range (f->random, 0.05, 1.1) : 0,
                            .min_p = pick (f, 0, 1) ? (float) g_rand_double_range (f->random, 0, 0.5) : 0,
                            .seed = 5, .random = random, .forbidden = forbidden, .n_forbidden = 1, .ban = ban,
                            .repetition_penalty = 1.3f, .seen = seen, .seen_rows = rows, .seen_stride = stride };
  gboolean penalty = pick (f, 0, 1);
  s.seen = penalty ? seen : NULL;
  f->ops->head_logits (f->context, logits, h, &w, n, f->type);
  g_autofree double *p = g_new (double, vocabulary);
  g_autoptr (GArray) context = g_array_new (FALSE, FALSE, 4);
  g_autofree uint32_t *before = g_memdup2 (seen, words * 4);
  f->ops->head_sample (f->context, tokens, logp, h, &w, &s, n, f->type);
  s.seen = penalty ? want_seen : NULL;
  f->reference->head_sample (f->context, want, want_logp, h, &w, &s, n, f->type);
  struct plumb_sampling_options o = { penalty ? s.repetition_penalty : 1, s.temperature > 0 ? s.temperature : 1,
                                      s.temperature > 0 ? s.top_k : 0,
                                      s.temperature > 0 && s.top_p > 0 ? MIN (s.top_p, 1) : 1,
                                      s.temperature > 0 ? s.min_p : 0 };
  int different = 0, wrong = 0;
  for (int i = 0; i < n; i++)
    {
      different += tokens[i] != want[i];
      g_assert_false (ban[i] && tokens[i] == 3);
      g_array_set_size (context, 0);
      for (int v = 0; v < vocabulary; v++)
        if (before[(size_t) rows[i] * stride + v / 32] >> v % 32 & 1)
          g_array_append_val (context, v);
      if (ban[i] && s.temperature > 0 && dev_sampling_is_filtered (&s))
        logits[(size_t) i * vocabulary + 3] = -INFINITY;
      g_assert_cmpint (plumb_sampling_distribution (&o, vocabulary, logits + (size_t) i * vocabulary,
                                                    (int32_t *) (void *) context->data, (int) context->len, p), ==, 0);
      wrong += !(fabs (log (p[tokens[i]]) - logp[i]) < 2e-4);
      if (penalty)
        g_assert_true (seen[(size_t) rows[i] * stride + tokens[i] / 32] >> tokens[i] % 32 & 1);
    }
  g_assert_cmpint (different, <=, 1 + n / 20); /* near ties of rounding, and values at a cut */
  g_assert_cmpint (wrong, <=, n / 20);
}

void
check_value (Fixture *f)
{
  int n = pick (f, 1, 40), width = pick (f, 1, 200);
  void *h = random_typed (f, (size_t) n * width, 1), *weight = random_typed (f, width, 1);
  float *values = take (f, n * 4), *want = take (f, n * 4), *dvalues = random_floats (f, n, 1);
  void *dh = output (f, (size_t) n * width), *want_dh = output (f, (size_t) n * width);
  float *dw = zeros (f, width), *want_dw = zeros (f, width);
  f->ops->value_forward (f->context, values, h, weight, n, width, f->type);
  f->reference->value_forward (f->context, want, h, weight, n, width, f->type);
  assert_near ("value_forward", values, want, n, DEV_F32, 5e-6);
  f->ops->value_backward (f->context, dh, dw, dvalues, h, weight, n, width, f->type);
  f->reference->value_backward (f->context, want_dh, want_dw, dvalues, h, weight, n, width, f->type);
  assert_near ("value dh", dh, want_dh, (size_t) n * width, f->type, bound (f));
  assert_near ("value dw", dw, want_dw, width, DEV_F32, 5e-6);
}

/* Draws follow the softmax: chi-squared over 8 outcomes. */
void
test_sampling_distribution (void)
{
  Fixture f;
  fixture_init (&f, 3, DEV_F32);
  enum { V = 8, N = 4096 };
  float *h = take (&f, N * 4), *logp = take (&f, N * 4), *table = take (&f, V * 4);
  int32_t *tokens = take (&f, N * 4);
  struct dev_random *random = take (&f, N * sizeof *random);
  double weight[V], total = 0, chi = 0;
  int counts[V] = { 0 };
  for (int v = 0; v < V; v++)
    {
      table[v] = 0.4f * v - 1;
      total += weight[v] = exp (table[v] / 0.8);
    }
  for (int i = 0; i < N; i++)
    {
      h[i] = 1;
      random[i] = (struct dev_random){ { 1u << 24, (uint32_t) i, 5 } };
    }
  struct dev_matrix w = { table, NULL, V, 1 };
  struct dev_sampling sampling = { .temperature = 0.8f, .seed = 11, .random = random };
  f.ops->head_sample (f.context, tokens, logp, h, &w, &sampling, N, DEV_F32);
  for (int i = 0; i < N; i++)
    counts[tokens[i]]++;
  for (int v = 0; v < V; v++)
    {
      double expected = N * weight[v] / total;
      chi += (counts[v] - expected) * (counts[v] - expected) / expected;
    }
  g_assert_cmpfloat (chi, <, 24.3); /* 7 degrees of freedom, 0.1 % */
  fixture_clear (&f);
}
