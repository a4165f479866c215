/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/rollout/rollout.h"
#include "engine/run/role.h"
#include "engine/train/trainer.h"

G_BEGIN_DECLS

/* What a worker needs to open its models; travels in the OPEN message. */
typedef struct
{
  char *no_gpu;        /* why the CPU was chosen, for the log; does not travel. NULL: it was asked for, or a GPU is used */
  char *policy;        /* Hugging Face folder */
  char *reference;     /* NULL: none */
  char *device;        /* "cpu" or "cuda:N"; NULL: cpu */
  char *devices[PLUMB_N_ROLES]; /* of the roles with a worker of their own; do not travel. NULL: none */
  int role;            /* PlumbRole of this worker */
  gboolean deterministic; /* rows do not depend on their batch; the CPU always is */
  gboolean reference_from_policy; /* the reference is what the policy is when its stage begins */
  char *critic;        /* NULL: none */
  char *reward;        /* NULL: none */
  gboolean measure_only; /* no gradients and no optimizer */
  gboolean scalar;     /* the policy itself has a scalar head: a reward model in training */
  char *comm;          /* shared memory of the workers that train together; NULL: one alone */
  int rank, ranks;     /* this worker among them */
  int seed;            /* of fresh heads */
  enum dev_type type;
  int max_length;      /* 0: the model's own */
  int vocabulary;      /* ids of the tokenizer; 0: the model's own */
  PlumbTrainerOptions trainer;
  gboolean together; /* trainer and generation give each other their memory in turn */
  int tokens_per_micro_batch;
  PlumbRolloutPlan rollout; /* max_new_tokens 0: no generation */
} PlumbWorkerSettings;

void plumb_worker_settings_clear (PlumbWorkerSettings *settings);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbWorkerSettings, plumb_worker_settings_clear)

GVariant *plumb_worker_settings_to_body (const PlumbWorkerSettings *settings);
gboolean plumb_worker_settings_from_body (PlumbWorkerSettings *settings, GVariant *body, GError **error);

/* What the worker of a role is to open, of all that `settings` name; `own` borrows from them. */
void plumb_worker_settings_for (PlumbWorkerSettings *own, const PlumbWorkerSettings *settings, PlumbRole role);

/* Peak memory of a worker, part by part, in bytes; computed before anything is taken. */
typedef struct
{
  gsize program; /* what the process holds before the models: libraries, data, tokenizer */
  gsize weights, packed, reference, critic, reward, state, activations, rollout, workspace;
  gsize asleep;     /* what training gives back while others generate, where they take turns */
  gsize turns;      /* what the activations or the rollout, whichever is less, give back while the other works */
  gsize others;     /* other processes of the run together: further workers, and what leads them */
  gsize checkpoint; /* host copies while the optimizer state is written */
  gsize host;       /* memory of the host beside a GPU: off-loaded state. Not in the sums */
} PlumbMemoryPlan;

/* Resident memory of this process now. */
gsize plumb_resident_bytes (void);

gboolean plumb_memory_plan_make (PlumbMemoryPlan *plan, const PlumbWorkerSettings *settings,
                                 PlumbDevice *device, GError **error);
gsize plumb_memory_plan_total (const PlumbMemoryPlan *plan);
/* Without the program and without other processes: what this worker is still to take. */
gsize plumb_memory_plan_needed (const PlumbMemoryPlan *plan);
/* Peak of a phase, with the program and without other processes. */
typedef enum
{
  PLUMB_MEMORY_GENERATE,
  PLUMB_MEMORY_TRAIN, /* log-probs and values too */
  PLUMB_MEMORY_CHECKPOINT,
  PLUMB_MEMORY_N_PHASES
} PlumbMemoryPhase;

gsize plumb_memory_plan_peak (const PlumbMemoryPlan *plan, PlumbMemoryPhase phase);
/* "weights 3.6 MB, ..." for the log. (transfer full) */
char *plumb_memory_plan_to_text (const PlumbMemoryPlan *plan);

/* Workspace for the models of the settings. */
gsize plumb_worker_workspace (const PlumbWorkerSettings *settings, const PlumbModelConfig *config);

G_END_DECLS
