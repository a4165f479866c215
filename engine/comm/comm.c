/* SPDX-License-Identifier: Apache-2.0 */

/* Sums over ranks in shared memory. A sum goes in pieces: each rank writes its piece into its slot; all wait for each
 * other; each adds up its share over the slots; all wait; each takes the whole result. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/comm/comm.h"
#include "engine/core/error.h"

#define MAGIC 0x6d6d6f63u /* "comm" */
#define PIECE (1 << 20)   /* floats of a slot */
#define WAKE_MS 200       /* between two looks around while waiting */

/* At the start of the memory; slots follow after HEADER_BYTES, the result after the slots. */
typedef struct
{
  guint32 magic, ranks;
  _Atomic guint32 generation; /* meetings that are over */
  _Atomic guint32 arrived;    /* ranks at the present one */
  _Atomic guint32 left;       /* 1 + a rank that gave up; 0: none */
  _Atomic guint32 meetings[PLUMB_COMM_MAX_RANKS]; /* that each rank came to */
} Header;

#define HEADER_BYTES 4096
G_STATIC_ASSERT (sizeof (Header) <= HEADER_BYTES);

struct _PlumbComm
{
  int rank, ranks;
  double patience;
  PlumbSharedMemory *memory; /* NULL: alone */
  Header *header;
  PlumbCommWait wait;
  gpointer wait_data;
};

G_DEFINE_QUARK (plumb-comm-error-quark, plumb_comm_error)

static gsize
memory_bytes (int ranks)
{
  return HEADER_BYTES + (gsize) (ranks + 1) * PIECE * sizeof (float);
}

PlumbSharedMemory *
plumb_comm_memory_new (int ranks, GError **error)
{
  PlumbSharedMemory *memory = plumb_shared_memory_new (memory_bytes (ranks), error);
  if (memory)
    {
      Header *header = plumb_shared_memory_base (memory);
      header->ranks = (guint32) ranks;
      header->magic = MAGIC;
    }
  return memory;
}

PlumbComm *
plumb_comm_new (const char *path, int rank, int ranks, double patience, GError **error)
{
  g_autoptr (PlumbComm) self = g_new0 (PlumbComm, 1);
  self->rank = rank;
  self->ranks = ranks;
  self->patience = patience;
  if (ranks == 1)
    return g_steal_pointer (&self);
  if (ranks < 1 || ranks > PLUMB_COMM_MAX_RANKS || rank < 0 || rank >= ranks || !path)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "rank %d of %d is none", rank, ranks);
      return NULL;
    }
  self->memory = plumb_shared_memory_open (path, memory_bytes (ranks), error);
  if (!self->memory)
    return NULL;
  self->header = plumb_shared_memory_base (self->memory);
  if (self->header->magic == MAGIC && self->header->ranks == (guint32) ranks)
    return g_steal_pointer (&self);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%s was not made for %d ranks", path, ranks);
  return NULL;
}

void
plumb_comm_free (PlumbComm *self)
{
  if (!self)
    return;
  plumb_shared_memory_free (self->memory);
  g_free (self);
}

int
plumb_comm_rank (const PlumbComm *self)
{
  return self->rank;
}

int
plumb_comm_ranks (const PlumbComm *self)
{
  return self->ranks;
}

void
plumb_comm_set_wait (PlumbComm *self, PlumbCommWait wait, gpointer data)
{
  self->wait = wait;
  self->wait_data = data;
}

static void
wake (_Atomic guint32 *word)
{
  syscall (SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void
sleep_while (_Atomic guint32 *word, guint32 value)
{
  const struct timespec limit = { 0, WAKE_MS * 1000000L };
  syscall (SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void
plumb_comm_leave (PlumbComm *self)
{
  guint32 nobody = 0;
  if (!self->header)
    return;
  atomic_compare_exchange_strong (&self->header->left, &nobody, (guint32) self->rank + 1);
  wake (&self->header->generation);
}

/* The first rank that has not come to a meeting. */
static int
missing_rank (PlumbComm *self, guint32 meeting)
{
  for (int r = 0; r < self->ranks; r++)
    if ((gint32) (atomic_load (&self->header->meetings[r]) - meeting) < 0)
      return r;
  return self->rank;
}

static gboolean
check_others (PlumbComm *self, guint32 meeting, gint64 start, const char *what, GError **error)
{
  guint32 left = atomic_load (&self->header->left);
  double waited = (double) (g_get_monotonic_time () - start) / G_USEC_PER_SEC;
  if (left > 0)
    g_set_error (error, PLUMB_COMM_ERROR, PLUMB_COMM_ERROR_LEFT, "worker %u gave up before the sum of the %s", left,
                 what);
  else if (self->patience > 0 && waited > self->patience)
    g_set_error (error, PLUMB_COMM_ERROR, PLUMB_COMM_ERROR_TIMEOUT,
                 "worker %d did not come to the sum of the %s within %.0f s (placement.timeout)",
                 missing_rank (self, meeting) + 1, what, self->patience);
  else
    return !self->wait || self->wait (self->wait_data, error);
  return FALSE;
}

/* Returns when all ranks are here. */
static gboolean
meet (PlumbComm *self, const char *what, GError **error)
{
  Header *h = self->header;
  gint64 start = g_get_monotonic_time ();
  guint32 generation = atomic_load (&h->generation);
  atomic_store (&h->meetings[self->rank], generation + 1);
  if (atomic_fetch_add (&h->arrived, 1) + 1 == (guint32) self->ranks)
    {
      atomic_store (&h->arrived, 0);
      atomic_fetch_add (&h->generation, 1);
      wake (&h->generation);
      return TRUE;
    }
  while (atomic_load (&h->generation) == generation)
    {
      sleep_while (&h->generation, generation);
      if (atomic_load (&h->generation) == generation && !check_others (self, generation + 1, start, what, error))
        {
          plumb_comm_leave (self);
          return FALSE;
        }
    }
  return TRUE;
}

static float *
slot (PlumbComm *self, int rank)
{
  return (float *) (void *) ((char *) self->header + HEADER_BYTES) + (gsize) rank * PIECE;
}

/* This rank's share of a piece of n values: the sum over the slots in the order of the ranks. */
static void
add_share (PlumbComm *self, gsize n)
{
  gsize first = n * (gsize) self->rank / (gsize) self->ranks, last = n * (gsize) (self->rank + 1) / (gsize) self->ranks;
  float *result = slot (self, self->ranks);
  for (gsize i = first; i < last; i++)
    result[i] = slot (self, 0)[i];
  for (int r = 1; r < self->ranks; r++)
    {
      const float *values = slot (self, r);
      for (gsize i = first; i < last; i++)
        result[i] += values[i];
    }
}

gboolean
plumb_comm_sum (PlumbComm *self, PlumbDevice *device, float *values, gsize n, const char *what, GError **error)
{
  const struct dev_ops *ops = device->ops;
  if (self->ranks == 1)
    return TRUE;
  for (gsize at = 0; at < n; at += PIECE)
    {
      gsize piece = MIN (n - at, PIECE);
      ops->download (device->context, slot (self, self->rank), values + at, piece * sizeof *values);
      if (!plumb_device_check (device, error))
        {
          plumb_comm_leave (self);
          return FALSE;
        }
      if (!meet (self, what, error))
        return FALSE;
      add_share (self, piece);
      if (!meet (self, what, error))
        return FALSE;
      /* The result is not written again before all have come to the next meeting. */
      ops->upload (device->context, values + at, slot (self, self->ranks), piece * sizeof *values);
      if (!plumb_device_check (device, error))
        {
          plumb_comm_leave (self);
          return FALSE;
        }
    }
  return TRUE;
}
