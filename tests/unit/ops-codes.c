/* SPDX-License-Identifier: Apache-2.0 */

/* e4m3 codes of weights and inputs. */

#include "config.h"

#include "kernels/e4m3.h"
#include "tests/unit/ops-checks.h"

/* Every code stands for its value and comes from it; what lies between two goes to the nearer, or to the even one. */
void
test_codes (void)
{
  for (int code = 0; code < 256; code++)
    {
      int exponent = code >> 3 & 15, mantissa = code & 7;
      double size = exponent ? ldexp (1 + mantissa / 8.0, exponent - 7) : ldexp (mantissa / 8.0, -6);
      float value = e4m3_to_float ((uint8_t) code);
      if ((code & 0x7f) == 0x7f)
        {
          g_assert_true (isnan (value));
          continue;
        }
      g_assert_cmpfloat (value, ==, (float) (code & 0x80 ? -size : size));
      g_assert_cmpint (e4m3_from_float (value), ==, code);
      if ((code & 0x7f) == 0x7e)
        continue;
      float next = e4m3_to_float ((uint8_t) (code + 1)), middle = (value + next) / 2;
      g_assert_cmpint (e4m3_from_float (middle), ==, code & 1 ? code + 1 : code);
      g_assert_cmpint (e4m3_from_float (middle + (value - next) / 64), ==, code);
      g_assert_cmpint (e4m3_from_float (middle + (next - value) / 64), ==, code + 1);
    }
  g_assert_cmpint (e4m3_from_float (1e9f), ==, 0x7e);
  g_assert_cmpint (e4m3_from_float (-INFINITY), ==, 0xfe);
  g_assert_cmpint (e4m3_from_float (NAN) & 0x7f, ==, 0x7f);
}

static float *
as_floats (Fixture *f, const void *x, size_t n)
{
  float *values = take (f, n * 4);
  for (size_t i = 0; i < n; i++)
    values[i] = (float) at (x, i, f->type);
  return values;
}

/* What the codes of rows stand for, each with a scale of its own, as the software makes them; codes and scales may be NULL. */
static float *
coded_rows (Fixture *f, const void *x, int rows, int cols, uint8_t *codes, float *scales)
{
  float *values = take (f, (size_t) rows * cols * 4);
  for (int r = 0; r < rows; r++)
    {
      float most = 0;
      for (size_t i = (size_t) r * cols; i < (size_t) (r + 1) * cols; i++)
        most = fmaxf (most, fabsf ((float) at (x, i, f->type)));
      float scale = e4m3_row_scale (most);
      if (scales)
        scales[r] = scale;
      for (size_t i = (size_t) r * cols; i < (size_t) (r + 1) * cols; i++)
        {
          uint8_t code = e4m3_from_float ((float) at (x, i, f->type) / scale);
          values[i] = e4m3_to_float (code) * scale;
          if (codes)
            codes[i] = code;
        }
    }
  return values;
}

/* Whether each element of y (t, rows) = x w^T is within its own rounding and `loss` of the sizes that are summed. */
static gboolean
is_product (Fixture *f, const char *what, const void *y, const float *x, const float *w, int t, int rows, int cols,
            double loss)
{
  double rounding = 1.01 * (f->type == DEV_BF16 ? 0x1p-8 : 0x1p-24), worst = 0, squares = 0, all = 0;
  for (int i = 0; i < t; i++)
    for (int r = 0; r < rows; r++)
      {
        const float *left = x + (size_t) i * cols, *right = w + (size_t) r * cols;
        double sum = 0, size = 0, have = at (y, (size_t) i * rows + r, f->type);
        for (int c = 0; c < cols; c++)
          {
            sum += (double) left[c] * right[c];
            size += fabs ((double) left[c] * right[c]);
          }
        if (!isfinite (have))
          return FALSE;
        worst = fmax (worst, (fabs (have - sum) - rounding * fabs (sum)) / (size > 0 ? size : 1e-30));
        squares += (have - sum) * (have - sum);
        all += sum * sum;
      }
  g_test_message ("%s, %d x %d x %d: loss of %.3g of the sizes, distance %.3g", what, t, rows, cols, worst,
                  sqrt (squares / (all > 0 ? all : 1)));
  return worst <= loss;
}

static void
pick_coded_shape (Fixture *f, int *t, int *rows, int *cols)
{
  gboolean large = backend->gpu && !backend->exact;
  int kind = pick (f, 0, 3);
  *t = kind == 0 ? pick (f, 1, 5) : large && kind == 2 ? pick (f, 5, 700) : pick (f, 5, 70);
  *rows = kind < 2 ? pick (f, 1, 150) : 16 * pick (f, 1, large ? 12 : 6);
  *cols = kind == 1 ? pick (f, 1, 100) : 16 * (large && kind == 3 ? pick (f, 100, 600) : pick (f, 1, kind ? 30 : 100));
}

/* Which operands a backend may take for a product with codes. */
typedef struct
{
  gboolean data, codes, rounded; /* the matrix itself; its codes; its codes and those of the inputs */
} Operands;

static Operands
operands_of (Fixture *f, int t, int rows, int cols)
{
  struct dev_info info;
  const char *path = g_getenv ("PLUMB_CODES_PATH");
  if (!backend->gpu || backend->exact)
    return (Operands){ FALSE, TRUE, FALSE };
  if (f->type == DEV_BF16 && t == 1 && cols % 16 == 0)
    return (Operands){ FALSE, TRUE, FALSE };
  f->ops->info (f->context, &info);
  if (f->type == DEV_BF16 && t > 1 && rows % 16 == 0 && cols % 16 == 0 && strstr (info.matmul_path, "fp8"))
    return (Operands){ !path || g_str_equal (path, "data"), FALSE, !path || g_str_equal (path, "codes") };
  return (Operands){ f->type == DEV_BF16, f->type == DEV_F32, FALSE };
}

/* Sums of the tensor cores: of the 128 products between two additions in float each may lose what lies 13 bits below the
 * greatest, with random signs sqrt (128 / 12) 2^-13 = 4e-4 of it in all; twice that is allowed. */
#define CODES_LOSS 0x1p-10

/* Codes of weights: made as the software makes them, and products with them as with what they stand for. Among the inputs are
 * a row of zeros and one that a single element outweighs. */
void
check_coded_weights (Fixture *f)
{
  int t, rows, cols;
  pick_coded_shape (f, &t, &rows, &cols);
  size_t n = (size_t) rows * cols, m = (size_t) t * cols;
  uint8_t *codes = take (f, n), *want_codes = take (f, n);
  float *scales = take (f, rows * 4), *want_scales = take (f, rows * 4), *x = random_floats (f, m, 1);
  void *data = random_typed (f, n, 3), *plain = output (f, n), *inputs = output (f, m);
  struct dev_matrix w = { data, NULL, rows, cols, codes, scales }, exact = { plain, NULL, rows, cols };
  void *y = output (f, (size_t) t * rows), *want = output (f, (size_t) t * rows);
  memset ((char *) data + (size_t) pick (f, 0, rows - 1) * cols * dev_type_size (f->type), 0,
          cols * dev_type_size (f->type));
  x[(size_t) pick (f, 0, t - 1) * cols + pick (f, 0, cols - 1)] = 1e4f;
  if (t > 1)
    memset (x + (size_t) pick (f, 0, t - 1) * cols, 0, cols * 4);
  cpu_row_store (inputs, x, m, f->type);
  f->ops->encode (f->context, codes, scales, data, rows, cols, f->type);
  float *values = coded_rows (f, data, rows, cols, want_codes, want_scales);
  g_assert_cmpmem (scales, rows * 4, want_scales, rows * 4);
  g_assert_cmpmem (codes, n, want_codes, n);
  assert_near ("codes of weights", values, decoded (f, codes, scales, rows, cols), n, DEV_F32, 0);
  cpu_row_store (plain, values, n, f->type);
  f->ops->linear_forward (f->context, y, inputs, &w, t, f->type);
  x = as_floats (f, inputs, m);
  Operands may = operands_of (f, t, rows, cols);
  double loss = f->type == DEV_BF16 ? 0x1p-8 : 4e-6;
  gboolean right = (may.codes && is_product (f, "codes", y, x, values, t, rows, cols, loss))
                   || (may.rounded
                       && is_product (f, "codes by codes", y, coded_rows (f, inputs, t, cols, NULL, NULL), values, t, rows,
                                      cols, CODES_LOSS))
                   || (may.data
                       && is_product (f, "the matrix itself", y, x, as_floats (f, data, n), t, rows, cols, loss));
  if (!right)
    g_error ("linear_forward with codes, %d x %d x %d, is not what it may be", t, rows, cols);
  f->reference->linear_forward (f->context, want, inputs, &exact, t, f->type);
  f->reference->linear_forward (f->context, y, inputs, &w, t, f->type);
  assert_near ("reference by codes", y, want, (size_t) t * rows, f->type, 0);
}

/* Both ways of a GPU to multiply many rows, whichever is faster here. */
void
test_coded_paths (void)
{
  static const char *const paths[] = { "codes", "data" };
  for (gsize i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_setenv ("PLUMB_CODES_PATH", paths[i], TRUE);
      run_rounds (check_coded_weights);
    }
  g_unsetenv ("PLUMB_CODES_PATH");
}

/* What a fused op hands to the product after it, or has of its norm, is what that product makes of the same rows alone. */
void
test_handed_codes (void)
{
  enum { T = 37, WIDTH = 256, MLP = 320 };
  g_autoptr (GError) error = NULL;
  g_setenv ("PLUMB_CODES_PATH", "codes", TRUE);
  g_autoptr (PlumbDevice) device = plumb_device_open ("cuda:0", 1 << 24, &error);
  g_assert_no_error (error);
  const struct dev_ops *ops = device->ops;
  struct dev_context *context = device->context;
  struct dev_arena *arena = plumb_device_allocate (device, 1 << 24, "a test", &error);
  g_assert_no_error (error);
  GRand *random = g_rand_new_with_seed (5);
  g_autofree float *x = g_new (float, 2 * MLP * WIDTH);
  g_autofree bf16 *typed = g_new (bf16, 2 * MLP * WIDTH);
  struct dev_matrix matrix[] = { { NULL, NULL, 2 * MLP, WIDTH }, { NULL, NULL, WIDTH, MLP } };
  char *base = ops->arena_base (arena), *next = base;
  void *place[14];
  for (gsize i = 0; i < G_N_ELEMENTS (place); i++, next += 1 << 20)
    place[i] = next;
  for (int i = 0; i < 2; i++)
    {
      for (int k = 0; k < 2 * MLP * WIDTH; k++)
        x[k] = (float) g_rand_double_range (random, -1, 1);
      cpu_row_store (typed, x, 2 * MLP * WIDTH, DEV_BF16);
      ops->upload (context, place[i], typed, sizeof (bf16) * 2 * MLP * WIDTH);
      matrix[i].data = place[i];
      matrix[i].codes = place[2 + i];
      matrix[i].code_scales = place[4 + i];
      ops->encode (context, place[2 + i], place[4 + i], place[i], matrix[i].rows, matrix[i].cols, DEV_BF16);
    }
  ops->upload (context, place[6], x, sizeof (float) * T * WIDTH);
  struct dev_norm norm = { place[7], place[8], place[9], place[6], NULL, place[0], 1e-5f };
  char *gate_up = place[10], *act = place[11], *y = place[12], *again = place[13];
  for (int i = 0; i < 2; i++) /* the first time nothing is known about the second product */
    {
      ops->norm_swiglu_forward (context, &norm, act, gate_up, &matrix[0], T, DEV_BF16);
      ops->linear_forward (context, y, act, &matrix[1], T, DEV_BF16);
    }
  ops->linear_forward (context, again, act, &matrix[1], T, DEV_BF16);
  g_autofree bf16 *have = g_new (bf16, T * 2 * MLP), *alone = g_new (bf16, T * 2 * MLP);
  ops->download (context, have, y, sizeof (bf16) * T * WIDTH);
  ops->download (context, alone, again, sizeof (bf16) * T * WIDTH);
  g_assert_cmpmem (have, sizeof (bf16) * T * WIDTH, alone, sizeof (bf16) * T * WIDTH);
  ops->linear_forward (context, again, norm.out, &matrix[0], T, DEV_BF16);
  ops->download (context, have, gate_up, sizeof (bf16) * T * 2 * MLP);
  ops->download (context, alone, again, sizeof (bf16) * T * 2 * MLP);
  g_assert_cmpmem (have, sizeof (bf16) * T * 2 * MLP, alone, sizeof (bf16) * T * 2 * MLP);
  g_assert_true (plumb_device_check (device, &error));
  ops->arena_free (arena);
  g_rand_free (random);
  g_unsetenv ("PLUMB_CODES_PATH");
}
