/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over ranks, and what happens where one does not come. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/comm/checksum.h"
#include "engine/comm/comm.h"
#include "engine/core/error.h"
#include "engine/run/split.h"
#include "engine/train/trainer.h"

#define WORKSPACE (16 << 20)
#define VALUES (3000 * 1000) /* several pieces, the last one odd */

typedef struct
{
  PlumbSharedMemory *memory;
  int rank, ranks;
  double patience;
  float *values;
  gsize n;
  GError *error;
} Rank;

static gpointer
sum_thread (gpointer data)
{
  Rank *r = data;
  g_autoptr (PlumbDevice) device = plumb_device_open ("cpu", WORKSPACE, &r->error);
  g_autoptr (PlumbComm) comm
      = plumb_comm_new (plumb_shared_memory_path (r->memory), r->rank, r->ranks, r->patience, &r->error);
  if (comm)
    plumb_comm_sum (comm, device, r->values, r->n, "values", &r->error);
  return NULL;
}

static void
run_ranks (Rank *ranks, int n)
{
  g_autofree GThread **threads = g_new (GThread *, n);
  for (int i = 0; i < n; i++)
    threads[i] = g_thread_new ("rank", sum_thread, &ranks[i]);
  for (int i = 0; i < n; i++)
    g_thread_join (threads[i]);
}

static float
value (int rank, gsize i)
{
  return (float) (rank + 1) * 0.1f + (float) (i % 1001) * 1e-4f * (float) (rank % 2 ? -3 : 2);
}

/* Equal bits on all ranks: those of adding up in the order of the ranks. */
static void
test_sum (void)
{
  for (int n = 2; n <= 4; n++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbSharedMemory) memory = plumb_comm_memory_new (n, &error);
      g_assert_no_error (error);
      Rank ranks[4] = { 0 };
      for (int r = 0; r < n; r++)
        {
          ranks[r] = (Rank){ memory, r, n, 60, g_new (float, VALUES), VALUES - 7, NULL };
          for (gsize i = 0; i < VALUES; i++)
            ranks[r].values[i] = value (r, i);
        }
      run_ranks (ranks, n);
      for (int r = 0; r < n; r++)
        {
          g_assert_no_error (ranks[r].error);
          g_assert_cmpmem (ranks[r].values, (VALUES - 7) * sizeof (float), ranks[0].values, (VALUES - 7) * sizeof (float));
        }
      for (gsize i = 0; i < VALUES; i++)
        {
          float expected = value (0, i);
          for (int r = 1; r < n; r++)
            expected += value (r, i);
          g_assert_cmpfloat (ranks[0].values[i], ==, i < VALUES - 7 ? expected : value (0, i));
        }
      for (int r = 0; r < n; r++)
        g_free (ranks[r].values);
    }
}

/* The rank that is missing is named, after the time that was given. */
static void
test_missing (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSharedMemory) memory = plumb_comm_memory_new (3, &error);
  g_assert_no_error (error);
  float values[2][8] = { { 0 } };
  Rank ranks[2] = { { memory, 0, 3, 0.6, values[0], 8, NULL }, { memory, 2, 3, 0.6, values[1], 8, NULL } };
  gint64 start = g_get_monotonic_time ();
  run_ranks (ranks, 2);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 20 * G_USEC_PER_SEC);
  int named = 0;
  for (int r = 0; r < 2; r++)
    {
      g_assert_true (ranks[r].error && ranks[r].error->domain == PLUMB_COMM_ERROR);
      named += strstr (ranks[r].error->message, "worker 2 did not come to the sum of the values") != NULL;
      g_clear_error (&ranks[r].error);
    }
  g_assert_cmpint (named, >=, 1);
}

static gpointer
leave_thread (gpointer data)
{
  Rank *r = data;
  g_autoptr (PlumbComm) comm
      = plumb_comm_new (plumb_shared_memory_path (r->memory), r->rank, r->ranks, r->patience, &r->error);
  g_usleep (G_USEC_PER_SEC / 5);
  plumb_comm_leave (comm);
  return NULL;
}

/* One that gives up ends the wait of the others at once. */
static void
test_left (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSharedMemory) memory = plumb_comm_memory_new (2, &error);
  g_assert_no_error (error);
  float values[8] = { 0 };
  Rank stays = { memory, 0, 2, 0, values, 8, NULL }, leaves = { memory, 1, 2, 0, NULL, 0, NULL };
  GThread *thread = g_thread_new ("rank", leave_thread, &leaves);
  sum_thread (&stays);
  g_thread_join (thread);
  g_assert_error (stays.error, PLUMB_COMM_ERROR, PLUMB_COMM_ERROR_LEFT);
  g_assert_nonnull (strstr (stays.error->message, "worker 2 gave up"));
  g_clear_error (&stays.error);
}

static void
test_refused (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSharedMemory) memory = plumb_comm_memory_new (2, &error), small = plumb_shared_memory_new (64, NULL);
  g_assert_no_error (error);
  const struct
  {
    const char *path;
    int rank, ranks;
  } wrong[] = { { plumb_shared_memory_path (memory), 2, 2 },  { plumb_shared_memory_path (memory), -1, 2 },
                { plumb_shared_memory_path (memory), 0, 65 }, { plumb_shared_memory_path (memory), 0, 3 },
                { plumb_shared_memory_path (small), 0, 2 },   { "/proc/self/exe", 0, 2 },
                { "/nonexistent", 0, 2 },                     { NULL, 0, 2 } };
  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (plumb_comm_new (wrong[i].path, wrong[i].rank, wrong[i].ranks, 1, &error));
      g_assert_nonnull (error);
      g_clear_error (&error);
    }
}

static void
test_checksum (void)
{
  guint8 bytes[100];
  for (gsize i = 0; i < sizeof bytes; i++)
    bytes[i] = (guint8) (i * 37);
  guint64 sum = plumb_checksum (bytes, sizeof bytes, 0);
  g_assert_cmpuint (sum, ==, plumb_checksum (bytes, sizeof bytes, 0));
  g_assert_cmpuint (sum, !=, plumb_checksum (bytes, sizeof bytes - 1, 0));
  g_assert_cmpuint (sum, !=, plumb_checksum (bytes, sizeof bytes, 1));
  for (gsize bit = 0; bit < 8 * sizeof bytes; bit++)
    {
      bytes[bit / 8] ^= (guint8) (1 << bit % 8);
      g_assert_cmpuint (sum, !=, plumb_checksum (bytes, sizeof bytes, 0));
      bytes[bit / 8] ^= (guint8) (1 << bit % 8);
    }
  /* Words that change places change the sum. */
  const guint64 a[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[] = { 5, 2, 3, 4, 1, 6, 7, 8 };
  g_assert_cmpuint (plumb_checksum (a, sizeof a, 0), !=, plumb_checksum (b, sizeof b, 0));
}

/* Every sequence is in one stretch, units stay together, and stretches weigh alike. */
static void
test_split (void)
{
  gint32 offsets[41] = { 0 };
  for (int s = 0; s < 40; s++)
    offsets[s + 1] = offsets[s] + 1 + s * s % 23;
  for (int parts = 1; parts <= 64; parts++)
    for (int unit = 1; unit <= 2; unit++)
      {
        int ends[64], before = 0;
        plumb_split_sequences (offsets, 40, unit, parts, ends);
        for (int i = 0; i < parts; i++)
          {
            g_assert_cmpint (ends[i], >=, before);
            g_assert_cmpint (ends[i] % unit, ==, 0);
            if (parts <= 4)
              g_assert_cmpint (ABS (offsets[ends[i]] - offsets[before] - offsets[40] / parts), <=, 2 * 23);
            before = ends[i];
          }
        g_assert_cmpint (before, ==, 40);
      }
}

/* A batch whose answers differ in length, prompts masked. */
static struct plumb_experience *
make_batch (int sequences)
{
  int tokens = 0;
  for (int s = 0; s < sequences; s++)
    tokens += 6 + s * 5 % 11;
  struct plumb_experience *e = plumb_experience_new (sequences, tokens);
  for (int s = 0, at = 0; s < sequences; s++)
    {
      for (int t = 0; t < 6 + s * 5 % 11; t++, at++)
        {
          e->ids[at] = (s * 13 + t * 7) % 64;
          e->mask[at] = t > 2;
          e->advantage[at] = (s % 3) - 1 + 0.1 * t;
          e->old_logp[at] = e->rollout_logp[at] = -4 - 0.01f * (float) t;
        }
      e->offsets[s + 1] = at;
    }
  return e;
}

typedef struct
{
  PlumbSharedMemory *memory;
  const struct plumb_experience *batch;
  PlumbLossSpec loss;
  int rank, ranks, budget;
  float *gradients;
  gsize elements;
  struct plumb_loss_statistics statistics;
} Share;

/* What a worker does with its part of a batch, up to the sum. */
static gpointer
gradient_thread (gpointer data)
{
  Share *share = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDevice) device = plumb_device_open ("cpu", WORKSPACE, &error);
  g_assert_no_error (error);
  PlumbModelConfig *config = plumb_model_config_new (32, 2, 4, 2, 48, 64, 96, &error);
  g_autoptr (PlumbModel) model = plumb_model_new (device, config, DEV_F32, 0, 3, &error);
  PlumbTrainerOptions options = { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 };
  g_autoptr (PlumbTrainer) trainer = plumb_trainer_new (model, &options, share->budget, &error);
  g_autoptr (PlumbComm) comm = plumb_comm_new (share->memory ? plumb_shared_memory_path (share->memory) : NULL,
                                               share->rank, share->ranks, 60, &error);
  g_assert_no_error (error);
  int ends[8], n = 0, mine[64];
  plumb_split_sequences (share->batch->offsets, share->batch->sequences, 1, share->ranks, ends);
  for (int s = share->rank ? ends[share->rank - 1] : 0; s < ends[share->rank]; s++)
    mine[n++] = s;
  plumb_trainer_accumulate (trainer, share->batch, mine, n, &share->loss, &share->statistics, &error);
  g_assert_no_error (error);
  share->elements = model->table->elements;
  share->gradients = g_new (float, share->elements);
  plumb_trainer_gradients (trainer, share->gradients, &error);
  g_assert_no_error (error);
  plumb_comm_sum (comm, device, share->gradients, share->elements, "gradients", &error);
  g_assert_no_error (error);
  return NULL;
}

/* The gradient of a batch that `ranks` workers share, cut into micro-batches of `budget` tokens. */
static float *
shared_gradient (const struct plumb_experience *batch, int ranks, int budget, gsize *elements, double *loss)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSharedMemory) memory = ranks > 1 ? plumb_comm_memory_new (ranks, &error) : NULL;
  g_assert_no_error (error);
  Share shares[4] = { 0 };
  GThread *threads[4];
  PlumbLossSpec spec = { .id = PLUMB_LOSS_POLICY, .temperature = 1,
                         .policy = { .clip_low = 0.2, .clip_high = 0.2, .entropy = 0.01 } };
  plumb_denominators_add (&spec.denominators, batch->sequences, batch->offsets, batch->mask);
  for (int r = 0; r < ranks; r++)
    {
      shares[r] = (Share){ .memory = memory, .batch = batch, .loss = spec, .rank = r, .ranks = ranks, .budget = budget };
      threads[r] = g_thread_new ("rank", gradient_thread, &shares[r]);
    }
  struct plumb_loss_statistics all = { 0 };
  for (int r = 0; r < ranks; r++)
    {
      g_thread_join (threads[r]);
      plumb_loss_statistics_add (&all, &shares[r].statistics);
      g_assert_cmpmem (shares[r].gradients, shares[r].elements * sizeof (float), shares[0].gradients,
                       shares[0].elements * sizeof (float));
      if (r > 0)
        g_free (shares[r].gradients);
    }
  *elements = shares[0].elements;
  *loss = all.loss;
  return shares[0].gradients;
}

/* However a batch is cut and shared, its gradient is the same. */
static void
test_gradients (void)
{
  static const int budgets[] = { 96, 128, 4096 };
  struct plumb_experience *batch = make_batch (23);
  gsize elements;
  double loss;
  g_autofree float *whole = shared_gradient (batch, 1, 4096, &elements, &loss);
  for (int ranks = 1; ranks <= 4; ranks++)
    for (gsize b = 0; b < G_N_ELEMENTS (budgets); b++)
      {
        double other, norm = 0, difference = 0;
        g_autofree float *shared = shared_gradient (batch, ranks, budgets[b], &elements, &other);
        for (gsize i = 0; i < elements; i++)
          {
            norm += (double) whole[i] * whole[i];
            difference += pow ((double) whole[i] - shared[i], 2);
          }
        g_assert_cmpfloat (norm, >, 0);
        g_assert_cmpfloat (sqrt (difference), <=, 1e-6 * sqrt (norm));
        g_assert_cmpfloat (fabs (other - loss), <=, 1e-6 * fabs (loss));
      }
  plumb_experience_free (batch);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/comm/sum", test_sum);
  g_test_add_func ("/comm/missing", test_missing);
  g_test_add_func ("/comm/left", test_left);
  g_test_add_func ("/comm/refused", test_refused);
  g_test_add_func ("/comm/checksum", test_checksum);
  g_test_add_func ("/comm/split", test_split);
  g_test_add_func ("/comm/gradients", test_gradients);
  return g_test_run ();
}
