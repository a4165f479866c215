/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/train/trainer.h"

G_BEGIN_DECLS

struct _PlumbTrainer
{
  PlumbModel *model;   /* borrowed */
  PlumbDevice *device; /* borrowed */
  PlumbTrainerOptions options;
  int budget; /* tokens of a micro-batch */
  struct dev_arena *memory; /* of the gradients, and of the state unless it is off-loaded */
  float *host_state;        /* NULL: on the device */
  float *gradients, *m, *v; /* (elements) in table order */
  float *master;            /* (elements), NULL where the weights are fp32 themselves */
  double *square_sum;       /* on the device */
  PlumbBuffers *buffers;
  gint64 updates;
  gboolean stale; /* gradients that products overwrite are still those of the update before */
  PlumbComm *comm; /* borrowed; NULL: alone */
  PlumbTrainerProgress progress; /* or NULL */
  gpointer progress_data;
};

/* Makes stale gradients zeros: for who reads them without a backward pass. */
void plumb_trainer_settle (PlumbTrainer *trainer);

G_END_DECLS
