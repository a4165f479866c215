/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/message.h"
#include "engine/run/settings.h"

G_BEGIN_DECLS

/* One process or thread with a device, and the models that are placed on it. */
typedef struct
{
  void *socket;
  guint32 number;
  const PlumbMessage *request; /* being answered */
  gint64 last_progress;
  gboolean closing; /* told to end in the middle of a request */
  PlumbWorkerSettings settings;
  PlumbComm *comm; /* with those that train the same models */
  PlumbDevice *device;
  PlumbModel *policy, *reference, *critic, *reward; /* NULL: not placed here */
  PlumbTrainer *trainer, *critic_trainer;
  PlumbTrainer *scorer; /* runs the reward model, without an optimizer */
  PlumbRollout *rollout;
} PlumbWorker;

/* worker.c: tells now and then that work goes on, and hears whether it still should. */
gboolean plumb_worker_report_progress (gint64 done, gint64 of, gpointer worker, GError **error);

/* Answers to the messages, by kind; NULL with an error. */
typedef GVariant *(*PlumbWorkerHandler) (PlumbWorker *, GVariant *body, GError **error);

/* worker-models.c */
GVariant *plumb_worker_open (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_save (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_load (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_stage (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_check (PlumbWorker *worker, GVariant *body, GError **error);
void plumb_worker_close_models (PlumbWorker *worker);
/* worker-generate.c */
GVariant *plumb_worker_generate (PlumbWorker *worker, GVariant *body, GError **error);
/* worker-train.c */
GVariant *plumb_worker_log_probs (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_values (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_train (PlumbWorker *worker, GVariant *body, GError **error);

G_END_DECLS
