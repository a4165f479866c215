/* SPDX-License-Identifier: Apache-2.0 */

/* Every op of a backend against the plain reference, on random and odd shapes in both types; gradients against
 * finite differences; rows against the number of rows. Outputs are poisoned with NaN first. */

#include "config.h"

#include "tests/unit/ops-checks.h"

static const Backend backends[] = {
  { "cpu", FALSE, TRUE },
  { "cuda-deterministic", TRUE, TRUE },
  { "cuda-fast", TRUE, FALSE },
};

static void
check_linear (Fixture *f)
{
  int t = pick (f, 1, 90), rows = pick (f, 1, 150), cols = pick (f, 1, 150);
  struct dev_matrix w = { random_typed (f, (size_t) rows * cols, 1), NULL, rows, cols };
  void *x = random_typed (f, (size_t) t * cols, 1), *dy = random_typed (f, (size_t) t * rows, 1);
  void *y = output (f, (size_t) t * rows), *want_y = output (f, (size_t) t * rows);
  void *dx = output (f, (size_t) t * cols), *want_dx = output (f, (size_t) t * cols);
  float *dw = take (f, (size_t) rows * cols * 4), *want_dw = take (f, (size_t) rows * cols * 4);
  f->ops->linear_forward (f->context, y, x, &w, t, f->type);
  f->reference->linear_forward (f->context, want_y, x, &w, t, f->type);
  assert_near ("linear_forward", y, want_y, (size_t) t * rows, f->type, bound (f));
  for (int twice = 0; twice < 2; twice++)
    {
      f->ops->linear_backward (f->context, dx, dw, twice, dy, x, &w, t, f->type);
      f->reference->linear_backward (f->context, want_dx, want_dw, twice, dy, x, &w, t, f->type);
    }
  assert_near ("linear_backward dx", dx, want_dx, (size_t) t * cols, f->type, bound (f));
  assert_near ("linear_backward dw", dw, want_dw, (size_t) rows * cols, DEV_F32, bound (f));
  size_t bytes = f->ops->pack_size (f->context, rows, cols, f->type);
  if (bytes == 0)
    return;
  void *packed = take (f, bytes), *again = output (f, (size_t) t * rows);
  f->ops->pack (f->context, packed, w.data, rows, cols, f->type);
  w.packed = packed;
  f->ops->linear_forward (f->context, again, x, &w, t, f->type);
  assert_same (f, "linear_forward packed", again, y, (size_t) t * rows);
}

static void
check_norm_of (Fixture *f, int t, int width)
{
  size_t n = (size_t) t * width;
  float *x = random_floats (f, n, 2), *sum = take (f, n * 4), *want_sum = take (f, n * 4);
  float *rstd = take (f, t * 4), *want_rstd = take (f, t * 4);
  void *delta = pick (f, 0, 1) ? random_typed (f, n, 1) : NULL, *weight = random_typed (f, width, 1);
  void *out = output (f, n), *want = output (f, n);
  f->ops->add_norm_forward (f->context, sum, out, rstd, x, delta, weight, 1e-5f, t, width, f->type);
  f->reference->add_norm_forward (f->context, want_sum, want, want_rstd, x, delta, weight, 1e-5f, t, width,
                                  f->type);
  assert_near ("add_norm sum", sum, want_sum, n, DEV_F32, 1e-6);
  assert_near ("add_norm rstd", rstd, want_rstd, t, DEV_F32, 1e-6);
  assert_near ("add_norm out", out, want, n, f->type, bound (f));
  float *dx = random_floats (f, n, 1), *want_dx = take (f, n * 4);
  float *dw = zeros (f, width), *want_dw = zeros (f, width);
  void *typed = output (f, n), *want_typed = output (f, n), *dout = random_typed (f, n, 1);
  memcpy (want_dx, dx, n * 4);
  f->ops->add_norm_backward (f->context, dx, typed, dw, dout, sum, rstd, weight, t, width, f->type);
  f->reference->add_norm_backward (f->context, want_dx, want_typed, want_dw, dout, sum, rstd, weight, t,
                                   width, f->type);
  assert_near ("add_norm dx", dx, want_dx, n, DEV_F32, 2e-6);
  assert_near ("add_norm dx typed", typed, want_typed, n, f->type, bound (f));
  assert_near ("add_norm dweight", dw, want_dw, width, DEV_F32, 5e-6);
}

static void
check_norm (Fixture *f)
{
  check_norm_of (f, pick (f, 1, 40), pick (f, 1, 200));
}

/* Up to the greatest width of the gradient; beyond 4096 in multiples of 8. */
static void
check_wide_norm (Fixture *f)
{
  check_norm_of (f, pick (f, 1, 3), pick (f, 0, 2) ? 8 * pick (f, 100, 2048) : pick (f, 200, 4096));
}

static void
check_swiglu (Fixture *f)
{
  int t = pick (f, 1, 40), width = pick (f, 1, 200);
  size_t n = (size_t) t * width;
  void *gate_up = random_typed (f, 2 * n, 9), *dact = random_typed (f, n, 1);
  void *act = output (f, n), *want = output (f, n), *d = output (f, 2 * n), *want_d = output (f, 2 * n);
  f->ops->swiglu_forward (f->context, act, gate_up, t, width, f->type);
  f->reference->swiglu_forward (f->context, want, gate_up, t, width, f->type);
  assert_near ("swiglu_forward", act, want, n, f->type, bound (f));
  f->ops->swiglu_backward (f->context, d, dact, gate_up, t, width, f->type);
  f->reference->swiglu_backward (f->context, want_d, dact, gate_up, t, width, f->type);
  assert_near ("swiglu_backward", d, want_d, 2 * n, f->type, bound (f));
}

static void
check_embed (Fixture *f)
{
  int t = pick (f, 1, 60), width = pick (f, 1, 90), vocabulary = pick (f, 1, 30);
  void *table = random_typed (f, (size_t) vocabulary * width, 1);
  float *x = take (f, (size_t) t * width * 4), *want = take (f, (size_t) t * width * 4);
  float *d = zeros (f, (size_t) vocabulary * width), *want_d = zeros (f, (size_t) vocabulary * width);
  int32_t *ids = take (f, t * 4);
  for (int i = 0; i < t; i++)
    ids[i] = pick (f, 0, vocabulary - 1);
  f->ops->embed_forward (f->context, x, table, ids, t, width, f->type);
  f->reference->embed_forward (f->context, want, table, ids, t, width, f->type);
  g_assert_cmpmem (x, (size_t) t * width * 4, want, (size_t) t * width * 4);
  int fixed = pick (f, -1, 0);
  f->ops->embed_backward (f->context, d, x, ids, t, width, fixed);
  f->reference->embed_backward (f->context, want_d, x, ids, t, width, fixed);
  assert_near ("embed_backward", d, want_d, (size_t) vocabulary * width, DEV_F32, 1e-6);
}

/* A norm, a product and what follows it in one call. */
static void
check_norm_product (Fixture *f)
{
  int t = pick (f, 1, 6), width = pick (f, 0, 3) ? 8 * pick (f, 1, 90) : pick (f, 1, 90), mlp = pick (f, 1, 300);
  double limit = 2 * bound (f);
  struct dev_norm norms[2];
  struct dev_matrix w = { random_typed (f, (size_t) 2 * mlp * width, 1), NULL, 2 * mlp, width };
  void *gate_up[2], *act[2];
  make_norms (f, norms, t, width);
  for (int i = 0; i < 2; i++)
    {
      gate_up[i] = output (f, (size_t) t * 2 * mlp);
      act[i] = output (f, (size_t) t * mlp);
      (i ? f->reference : f->ops)->norm_swiglu_forward (f->context, &norms[i], act[i], gate_up[i], &w, t, f->type);
    }
  assert_norms (f, norms, t, width);
  assert_near ("fused gate and up", gate_up[0], gate_up[1], (size_t) t * 2 * mlp, f->type, limit);
  assert_near ("fused swiglu", act[0], act[1], (size_t) t * mlp, f->type, limit);
}

/* Few rows by matrices of a size at which they are divided among several warps and blocks. */
static void
check_few_rows (Fixture *f)
{
  int t = pick (f, 1, 5), rows = pick (f, 1, 900), cols = 8 * pick (f, 1, 700);
  struct dev_matrix w = { random_typed (f, (size_t) rows * cols, 1), NULL, rows, cols };
  void *x = random_typed (f, (size_t) t * cols, 1);
  void *y = output (f, (size_t) t * rows), *want = output (f, (size_t) t * rows);
  float *logits = take (f, (size_t) t * rows * 4), *want_logits = take (f, (size_t) t * rows * 4);
  f->ops->linear_forward (f->context, y, x, &w, t, f->type);
  f->reference->linear_forward (f->context, want, x, &w, t, f->type);
  assert_near ("few rows", y, want, (size_t) t * rows, f->type, bound (f));
  f->ops->head_logits (f->context, logits, x, &w, t, f->type);
  f->reference->head_logits (f->context, want_logits, x, &w, t, f->type);
  assert_near ("few rows of logits", logits, want_logits, (size_t) t * rows, DEV_F32, 1e-5);
}

static void
check_adamw (Fixture *f)
{
  size_t n = (size_t) pick (f, 1, 40000);
  float *start = random_floats (f, n, 1), *grad = random_floats (f, n, 1);
  float *state[2][3]; /* master, m, v */
  void *param[2];
  double *have = take (f, sizeof *have), *want = take (f, sizeof *want);
  for (int k = 0; k < 2; k++)
    {
      for (int i = 0; i < 3; i++)
        state[k][i] = zeros (f, n);
      memcpy (state[k][0], start, n * 4);
      param[k] = output (f, n);
      cpu_row_store (param[k], start, n, f->type);
    }
  for (int step = 1; step <= 3; step++)
    {
      struct dev_adamw a = { 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, (float) (1 - pow (0.9, step)),
                             (float) (1 - pow (0.95, step)), 0.5f };
      for (int k = 0; k < 2; k++)
        (k ? f->reference : f->ops)
            ->adamw (f->context, param[k], f->type == DEV_BF16 ? state[k][0] : NULL, grad, state[k][1],
                     state[k][2], n, &a, f->type);
    }
  assert_near ("adamw", param[0], param[1], n, f->type, f->type == DEV_BF16 ? 2e-3 : 1e-6);
  f->ops->square_sum (f->context, have, grad, n);
  f->reference->square_sum (f->context, want, grad, n);
  g_assert_cmpfloat_with_epsilon (*have, *want, 1e-9 * *want);
}

/* Ids that the host does not know come from the tokens of the pass before. */
static void
check_take_tokens (Fixture *f)
{
  int n = pick (f, 1, 400);
  int32_t *ids = take (f, n * 4), *tokens = take (f, n * 4), *source = take (f, n * 4);
  for (int i = 0; i < n; i++)
    {
      ids[i] = -i;
      tokens[i] = 1000 + i;
      source[i] = pick (f, -1, n - 1);
    }
  f->ops->take_tokens (f->context, ids, tokens, source, n);
  for (int i = 0; i < n; i++)
    g_assert_cmpint (ids[i], ==, source[i] < 0 ? -i : 1000 + source[i]);
}

static void
check_moves (Fixture *f)
{
  int n = pick (f, 1, 40), rows = n + pick (f, 0, 20), width = pick (f, 1, 100);
  size_t count = (size_t) rows * width, size = dev_type_size (f->type);
  void *from = random_typed (f, count, 1), *to = output (f, (size_t) n * width), *back = output (f, count);
  int32_t *which = take (f, n * 4);
  for (int i = 0; i < n; i++)
    which[i] = rows - 1 - i;
  f->ops->gather_rows (f->context, to, from, which, n, width, f->type);
  f->ops->scatter_rows (f->context, back, to, which, n, width, f->type);
  for (int i = 0; i < n; i++)
    {
      size_t bytes = width * size, offset = which[i] * bytes;
      g_assert_cmpmem ((char *) to + i * bytes, bytes, (char *) from + offset, bytes);
      g_assert_cmpmem ((char *) back + offset, bytes, (char *) from + offset, bytes);
    }
  enum dev_type other = f->type == DEV_BF16 ? DEV_F32 : DEV_BF16;
  void *converted = take (f, count * dev_type_size (other));
  f->ops->convert (f->context, converted, other, from, f->type, count);
  for (size_t i = 0; i < count; i++)
    g_assert_cmpfloat (at (converted, i, other), ==, bf16_to_float (bf16_from_float ((float) at (from, i, f->type))));
}

/* Rows of products, whatever their number: rollout == trainer rests on it. */
static void
test_rows (void)
{
  static const int counts[] = { 1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 300 };
  for (int type = DEV_F32; type <= DEV_BF16; type++)
    {
      Fixture f;
      fixture_init (&f, 7, type);
      int rows = 260, cols = 100, most = 300;
      struct dev_matrix w = { random_typed (&f, (size_t) rows * cols, 1), NULL, rows, cols };
      void *x = random_typed (&f, (size_t) most * cols, 1);
      void *all = output (&f, (size_t) most * rows), *few = output (&f, (size_t) most * rows);
      f.ops->linear_forward (f.context, all, x, &w, most, type);
      for (gsize i = 0; i < G_N_ELEMENTS (counts); i++)
        {
          f.ops->linear_forward (f.context, few, x, &w, counts[i], type);
          assert_same (&f, "rows of a product", few, all, (size_t) counts[i] * rows);
        }
      fixture_clear (&f);
    }
}

/* Derivative of sum (c out) along a random direction, by the op's backward and by differences. */
static void
test_differences_swiglu_norm (void)
{
  for (int round = 0; round < 8; round++)
    {
      Fixture f;
      fixture_init (&f, 50 + round, DEV_F32);
      int t = 3, width = 17;
      size_t n = (size_t) t * width;
      float *x = random_floats (&f, n, 1), *c = random_floats (&f, n, 1), *d = random_floats (&f, n, 1);
      float *w = random_floats (&f, width, 1), *sum = take (&f, n * 4), *rstd = take (&f, t * 4);
      float *out = take (&f, n * 4), *dx = zeros (&f, n), *dw = zeros (&f, width);
      double value[2], slope = 0, step = 1e-2;
      for (int k = 0; k < 2; k++)
        {
          float *moved = take (&f, n * 4);
          for (size_t i = 0; i < n; i++)
            moved[i] = (float) (x[i] + (k ? step : -step) * d[i]);
          f.ops->add_norm_forward (f.context, sum, out, rstd, moved, NULL, w, 1e-5f, t, width, DEV_F32);
          value[k] = 0;
          for (size_t i = 0; i < n; i++)
            value[k] += (double) c[i] * out[i];
        }
      f.ops->add_norm_forward (f.context, sum, out, rstd, x, NULL, w, 1e-5f, t, width, DEV_F32);
      f.ops->add_norm_backward (f.context, dx, NULL, dw, c, sum, rstd, w, t, width, DEV_F32);
      for (size_t i = 0; i < n; i++)
        slope += (double) dx[i] * d[i];
      g_assert_cmpfloat_with_epsilon ((value[1] - value[0]) / (2 * step), slope, 3e-3 * fabs (slope) + 3e-3);
      fixture_clear (&f);
    }
}

/* Every path of the products gives what the reference gives. */
static void
test_paths (void)
{
  static const char *const paths[] = { "direct", "chunked", "portable" };
  for (gsize i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_setenv ("PLUMB_PRODUCT_PATH", paths[i], TRUE);
      run_rounds (check_linear);
      run_rounds (check_head);
    }
  g_unsetenv ("PLUMB_PRODUCT_PATH");
}

/* A shape that the workspace cannot hold is an error that stays, and ops after it do nothing. */
static void
test_sticky_error (void)
{
  const struct dev_ops *ops = backend->gpu ? plumb_device_backend ("cuda", NULL) : dev_cpu ();
  struct dev_context *context = NULL;
  char message[256] = "";
  g_assert_cmpint (ops->open (0, 4096, &context, message, sizeof message), ==, DEV_OK);
  float h[4] = { 1, 2, 3, 4 }, *table = g_new0 (float, 4 * 5000), logits[1] = { 7 };
  struct dev_matrix w = { table, NULL, 5000, 4 };
  ops->head_logits (context, logits, h, &w, 1, DEV_F32);
  g_assert_cmpint (ops->status (context, message, sizeof message), ==, DEV_NO_MEMORY);
  g_assert_nonnull (strstr (message, "workspace"));
  g_assert_cmpfloat (logits[0], ==, 7);
  ops->close (context);
  g_free (table);
}

/* One test of one backend. */
typedef struct
{
  const char *name;
  Check check;           /* in rounds, or */
  void (*whole) (void);  /* once */
  gboolean cpu_only, fast_only;
  const Backend *backend;
} Test;

static void
run_test (gconstpointer data)
{
  const Test *test = data;
  backend = test->backend;
  g_autoptr (GError) error = NULL;
  if (backend->gpu)
    {
      PlumbDevice *device = plumb_device_open ("cuda:0", 1 << 20, &error);
      if (!device)
        {
          g_test_skip (error->message);
          return;
        }
      plumb_device_close (device);
    }
  if (test->check)
    run_rounds (test->check);
  else
    test->whole ();
}

int
main (int argc, char **argv)
{
  static const Test tests[] = {
    { "linear", check_linear },
    { "norm", check_norm },
    { "wide-norm", check_wide_norm },
    { "swiglu", check_swiglu },
    { "embed", check_embed },
    { "moves", check_moves },
    { "take-tokens", check_take_tokens },
    { "qkv", check_qkv },
    { "attention", check_attention },
    { "large-attention", check_large_attention },
    { "coded-cache", check_coded },
    { "coded-weights", check_coded_weights },
    { "coded-paths", NULL, test_coded_paths, .fast_only = TRUE },
    { "handed-codes", NULL, test_handed_codes, .fast_only = TRUE },
    { "codes", NULL, test_codes, .cpu_only = TRUE },
    { "code-values", NULL, test_code_values },
    { "norm-product", check_norm_product },
    { "norm-qkv", check_norm_qkv },
    { "few-rows", check_few_rows },
    { "head", check_head },
    { "sample", check_sample },
    { "filters", check_filters },
    { "value", check_value },
    { "adamw", check_adamw },
    { "rows", NULL, test_rows },
    { "paths", NULL, test_paths, TRUE },
    { "differences/norm", NULL, test_differences_swiglu_norm },
    { "differences/attention", NULL, test_differences_attention },
    { "library-attention", NULL, test_library_attention, .fast_only = TRUE },
    { "sticky-error", NULL, test_sticky_error },
    { "sampling", NULL, test_sampling_distribution },
  };
  static Test all[G_N_ELEMENTS (backends)][G_N_ELEMENTS (tests)];
  g_test_init (&argc, &argv, NULL);
  for (gsize b = 0; b < G_N_ELEMENTS (backends); b++)
    for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
      {
        if ((tests[i].cpu_only && backends[b].gpu) || (tests[i].fast_only && backends[b].exact))
          continue;
        g_autofree char *path = g_strdup_printf ("/ops/%s/%s", backends[b].name, tests[i].name);
        all[b][i] = tests[i];
        all[b][i].backend = &backends[b];
        g_test_add_data_func (path, &all[b][i], run_test);
      }
  return g_test_run ();
}
