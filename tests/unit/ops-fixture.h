/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/device.h"
#include "kernels/cpu/vector.h"
#include "tests/unit/mirror.h"

#define WORKSPACE (64 << 20)

/* What is tested: the CPU's ops, or a GPU's in one of its modes. Without `exact`, a row may depend on how many rows its
 * call has. */
typedef struct
{
  const char *name;
  gboolean gpu, exact;
} Backend;

extern const Backend *backend;

/* A backend's ops and the plain reference, with memory that both reach. */
typedef struct
{
  const struct dev_ops *ops, *reference;
  struct dev_context *context;
  GRand *random;
  GPtrArray *memory;
  enum dev_type type;
} Fixture;

void fixture_init (Fixture *f, guint32 seed, enum dev_type type);
void fixture_clear (Fixture *f);
/* Memory full of NaN in both types; it lives as long as the fixture. */
void *take (Fixture *f, size_t bytes);
/* n elements of the fixture's type. */
void *output (Fixture *f, size_t n);
float *zeros (Fixture *f, size_t n);
float *random_floats (Fixture *f, size_t n, double scale);
void *random_typed (Fixture *f, size_t n, double scale);
int pick (Fixture *f, int low, int high);
double at (const void *x, size_t i, enum dev_type type);
double bound (const Fixture *f);
/* Relative L2 distance of n elements; a NaN fails. */
void assert_near (const char *what, const void *have, const void *want, size_t n, enum dev_type type, double limit);
/* Equal bits, or near values where the backend does not promise equal bits. */
void assert_same (Fixture *f, const char *what, const void *have, const void *want, size_t n);

/* What codes stand for, as floats; NULL scales: all 1. */
float *decoded (Fixture *f, const void *codes, const float *scales, size_t heads, int size);

/* Two outputs of a norm on the same inputs, and that they are equal. */
void make_norms (Fixture *f, struct dev_norm norms[2], int t, int width);
void assert_norms (Fixture *f, const struct dev_norm norms[2], int t, int width);

typedef void (*Check) (Fixture *);
/* The check on fixtures of both types with seeds of their own. */
void run_rounds (Check check);
