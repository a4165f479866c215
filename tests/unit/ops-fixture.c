/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "kernels/e4m3.h"
#include "tests/unit/ops-fixture.h"

const Backend *backend;

void
fixture_init (Fixture *f, guint32 seed, enum dev_type type)
{
  char message[256];
  f->reference = dev_reference ();
  if (backend->gpu)
    {
      const struct dev_ops *cuda = plumb_device_backend ("cuda", NULL);
      f->ops = mirror_open (cuda, WORKSPACE, backend->exact, &f->context, message, sizeof message);
      g_assert_nonnull (f->ops);
    }
  else
    {
      f->ops = dev_cpu ();
      g_assert_cmpint (f->ops->open (0, WORKSPACE, &f->context, message, sizeof message), ==, DEV_OK);
    }
  f->random = g_rand_new_with_seed (seed);
  f->memory = g_ptr_array_new_with_free_func (free);
  f->type = type;
}

void
fixture_clear (Fixture *f)
{
  char message[256] = "";
  int status = f->ops->status (f->context, message, sizeof message);
  g_assert_cmpstr (message, ==, "");
  g_assert_cmpint (status, ==, DEV_OK);
  if (backend->gpu)
    mirror_close (f->context);
  else
    f->ops->close (f->context);
  g_rand_free (f->random);
  g_ptr_array_unref (f->memory);
}

void *
take (Fixture *f, size_t bytes)
{
  if (backend->gpu)
    return memset (mirror_take (bytes), 0xff, bytes);
  void *memory = aligned_alloc (64, (bytes + 63) / 64 * 64 + 64);
  memset (memory, 0xff, (bytes + 63) / 64 * 64 + 64); /* NaN in both types */
  g_ptr_array_add (f->memory, memory);
  return memory;
}

void *
output (Fixture *f, size_t n)
{
  return take (f, n * dev_type_size (f->type));
}

float *
zeros (Fixture *f, size_t n)
{
  float *x = take (f, n * sizeof *x);
  memset (x, 0, n * sizeof *x);
  return x;
}

float *
random_floats (Fixture *f, size_t n, double scale)
{
  float *x = take (f, n * sizeof *x);
  for (size_t i = 0; i < n; i++)
    x[i] = (float) g_rand_double_range (f->random, -scale, scale);
  return x;
}

void *
random_typed (Fixture *f, size_t n, double scale)
{
  void *x = output (f, n);
  cpu_row_store (x, random_floats (f, n, scale), n, f->type);
  return x;
}

double
at (const void *x, size_t i, enum dev_type type)
{
  return type == DEV_BF16 ? bf16_to_float (((const bf16 *) x)[i]) : ((const float *) x)[i];
}

double
bound (const Fixture *f)
{
  return f->type == DEV_BF16 ? 8e-3 : 2e-6;
}

void
assert_near (const char *what, const void *have, const void *want, size_t n, enum dev_type type, double limit)
{
  double difference = 0, size = 0;
  for (size_t i = 0; i < n; i++)
    {
      double a = at (have, i, type), b = at (want, i, type);
      difference += (a - b) * (a - b);
      size += b * b;
    }
  double distance = sqrt (difference / (size > 0 ? size : 1));
  if (!(distance <= limit))
    g_error ("%s: relative distance %g exceeds %g", what, distance, limit);
}

void
assert_same (Fixture *f, const char *what, const void *have, const void *want, size_t n)
{
  if (!backend->exact)
    assert_near (what, have, want, n, f->type, bound (f));
  else if (memcmp (have, want, n * dev_type_size (f->type)) != 0)
    {
      size_t i = 0;
      while (at (have, i, f->type) == at (want, i, f->type))
        i++;
      g_error ("%s: element %zu of %zu is %.9g where %.9g is wanted", what, i, n, at (have, i, f->type),
               at (want, i, f->type));
    }
}

int
pick (Fixture *f, int low, int high)
{
  return g_rand_int_range (f->random, low, high + 1);
}

/* A norm whose outputs are poisoned, twice: for the backend and for the reference. */
float *
decoded (Fixture *f, const void *codes, const float *scales, size_t heads, int size)
{
  float *x = take (f, heads * size * sizeof (float));
  for (size_t i = 0; i < heads * size; i++)
    x[i] = e4m3_to_float (((const uint8_t *) codes)[i]) * (scales ? scales[i / size] : 1.0f);
  return x;
}

void
make_norms (Fixture *f, struct dev_norm norms[2], int t, int width)
{
  size_t n = (size_t) t * width;
  const float *x = random_floats (f, n, 2);
  const void *delta = pick (f, 0, 2) ? random_typed (f, n, 1) : NULL, *weight = random_typed (f, width, 1);
  for (int i = 0; i < 2; i++)
    norms[i] = (struct dev_norm){ take (f, n * 4), output (f, n), take (f, t * 4), x, delta, weight, 1e-5f };
}

void
assert_norms (Fixture *f, const struct dev_norm norms[2], int t, int width)
{
  size_t n = (size_t) t * width;
  assert_near ("fused norm, sum", norms[0].sum, norms[1].sum, n, DEV_F32, 1e-6);
  assert_near ("fused norm, out", norms[0].out, norms[1].out, n, f->type, bound (f));
  assert_near ("fused norm, rstd", norms[0].rstd, norms[1].rstd, t, DEV_F32, 2e-6);
}

void
run_rounds (Check check)
{
  /* Fewer under a checker that makes each round a hundred times slower. */
  const char *rounds = g_getenv ("PLUMB_TEST_ROUNDS");
  for (int i = 0; i < (rounds ? atoi (rounds) : 24); i++)
    {
      Fixture f;
      fixture_init (&f, 1000 + i, i % 2 ? DEV_BF16 : DEV_F32);
      check (&f);
      fixture_clear (&f);
    }
}
