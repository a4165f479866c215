/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/comm/shared-memory.h"
#include "engine/model/device.h"

G_BEGIN_DECLS

/* Sums over the ranks that train one model together, through memory that they share. Each rank adds up its share of the
 * values, always in the order of the ranks, and all take the result: equal bits on every rank and in every run. */
typedef struct _PlumbComm PlumbComm;

#define PLUMB_COMM_MAX_RANKS 64

/* The error of a rank that waited in vain, since another failed or was silent: that other one knows why. */
#define PLUMB_COMM_ERROR (plumb_comm_error_quark ())
GQuark plumb_comm_error_quark (void);
typedef enum
{
  PLUMB_COMM_ERROR_LEFT,    /* a rank gave up */
  PLUMB_COMM_ERROR_TIMEOUT, /* a rank did not come in time */
} PlumbCommError;

/* The memory for so many ranks, made by whoever starts them, and held until they are done. */
PlumbSharedMemory *plumb_comm_memory_new (int ranks, GError **error);

/* Joins as rank 0 .. ranks-1; alone (ranks 1) no memory is needed and path may be NULL. `patience`: seconds that a rank
 * waits for the others; 0: without end. */
PlumbComm *plumb_comm_new (const char *path, int rank, int ranks, double patience, GError **error);
void plumb_comm_free (PlumbComm *comm);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbComm, plumb_comm_free)

int plumb_comm_rank (const PlumbComm *comm);
int plumb_comm_ranks (const PlumbComm *comm);

/* Called while others are awaited; FALSE with an error ends the wait. */
typedef gboolean (*PlumbCommWait) (gpointer data, GError **error);
void plumb_comm_set_wait (PlumbComm *comm, PlumbCommWait wait, gpointer data);

/* values (n, on the device) become their sum over all ranks. Every rank calls it with the same n and `what`, which names
 * the sum where a rank is missing. */
gboolean plumb_comm_sum (PlumbComm *comm, PlumbDevice *device, float *values, gsize n, const char *what,
                         GError **error);

/* This rank will not come: the others stop waiting. */
void plumb_comm_leave (PlumbComm *comm);

G_END_DECLS
