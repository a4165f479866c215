/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/comm/weight-board.h"
#include "engine/model/roofline.h"
#include "engine/run/message.h"
#include "engine/run/settings.h"

G_BEGIN_DECLS

/* A generation that goes on while others train. */
typedef struct _PlumbStream PlumbStream;

/* Whose memory is awake, where generation and training take turns. */
typedef enum
{
  PLUMB_TURN_ANY,
  PLUMB_TURN_GENERATE,
  PLUMB_TURN_TRAIN,
} PlumbTurn;

/* One process or thread with a device, and the models that are placed on it. */
typedef struct
{
  void *socket;
  guint32 number;
  const PlumbMessage *request; /* being answered */
  gint64 attempt;              /* of the last request */
  gint64 last_progress;
  gboolean closing; /* told to end in the middle of a request */
  gboolean opened;
  PlumbWorkerSettings settings;
  PlumbComm *comm; /* with those that train the same models */
  PlumbDevice *device;
  PlumbLimits limits; /* of the device; zeros where they could not be measured */
  PlumbModel *policy, *reference, *critic, *reward; /* NULL: not placed here */
  PlumbTrainer *trainer, *critic_trainer;
  PlumbTrainer *scorer; /* runs the reward model, or a reference that is alone, without an optimizer */
  PlumbRollout *rollout;
  PlumbTurn turn;
  double switched; /* seconds that changes of turn took, not told yet */
  PlumbWeightBoard *board; /* to put weights up, or to take them from; NULL: none yet */
  PlumbStream *stream;     /* NULL: generates when it is asked */
} PlumbWorker;

/* worker.c: tells now and then that work goes on, and hears whether it still should. */
gboolean plumb_worker_report_progress (gint64 done, gint64 of, gpointer worker, GError **error);

/* The same while this worker waits for others: the controller decides how long that may last. */
gboolean plumb_worker_report_waiting (gpointer worker, GError **error);

/* The same without listening, for a worker that has no request; and any other message of its own accord. */
gboolean plumb_worker_tell_alive (PlumbWorker *worker, GError **error);
gboolean plumb_worker_tell (PlumbWorker *worker, PlumbMessageKind kind, GVariant *body, GError **error);

/* Answers to the messages, by kind; NULL with an error. */
typedef GVariant *(*PlumbWorkerHandler) (PlumbWorker *, GVariant *body, GError **error);

/* worker-turn.c: makes room for what follows and wakes it; nothing where the settings do not say so. */
gboolean plumb_worker_take_turn (PlumbWorker *worker, PlumbTurn turn, GError **error);

/* worker-models.c */
GVariant *plumb_worker_open (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_save (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_load (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_stage (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_check (PlumbWorker *worker, GVariant *body, GError **error);
void plumb_worker_close_models (PlumbWorker *worker);
/* Of the policy's weights. */
gsize plumb_worker_weight_bytes (const PlumbWorker *worker);
/* worker-generate.c */
GVariant *plumb_worker_generate (PlumbWorker *worker, GVariant *body, GError **error);
gboolean plumb_worker_begin_sampling (PlumbWorker *worker, GVariant *body, GError **error);
gboolean plumb_worker_submit_prompts (PlumbWorker *worker, GVariant *body, gint64 *samples, GError **error);

/* Completions as they finish, gathered into arrays for a message. */
typedef struct
{
  GArray *ordinals;                   /* gint64 */
  GArray *samples, *finish, *offsets; /* gint32 */
  GArray *ids;                        /* gint32 */
  GArray *log_probs;                  /* float */
  GArray *versions;                   /* gint32 */
} PlumbCollected;

void plumb_collected_init (PlumbCollected *collected);
void plumb_collected_clear (PlumbCollected *collected);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbCollected, plumb_collected_clear)
void plumb_collected_add (PlumbCollected *collected, const PlumbCompletion *completion);
void plumb_body_add_collected (GVariantDict *body, const PlumbCollected *collected, gboolean versions);
void plumb_body_add_rollout_statistics (GVariantDict *body, const PlumbWorker *worker);

/* worker-stream.c */
GVariant *plumb_worker_publish (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_stream_begin (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_stream_submit (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_stream_renew (PlumbWorker *worker, GVariant *body, GError **error);
/* Whether there is something to do, and one pass of it; what is finished is told. */
gboolean plumb_worker_stream_is_busy (PlumbWorker *worker);
gboolean plumb_worker_stream_advance (PlumbWorker *worker, GError **error);
void plumb_worker_stream_end (PlumbWorker *worker);
/* worker-train.c */
GVariant *plumb_worker_log_probs (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_values (PlumbWorker *worker, GVariant *body, GError **error);
GVariant *plumb_worker_train (PlumbWorker *worker, GVariant *body, GError **error);

G_END_DECLS
