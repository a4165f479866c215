/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"
#include "engine/algo/policy-loss.h"
#include "engine/algo/preference-loss.h"
#include "engine/algo/value-loss.h"
#include "engine/comm/comm.h"
#include "engine/model/decoder.h"

G_BEGIN_DECLS

typedef struct
{
  double beta1, beta2, epsilon; /* of AdamW */
  double weight_decay;          /* on matrices only */
  double max_grad_norm;         /* 0: no clipping */
  PlumbRecompute recompute;
  gboolean offload; /* moments and master weights lie in the host's memory, where an update reads and writes them */
} PlumbTrainerOptions;

/* What a step trains by: the worker evaluates it on its own micro-batches. */
typedef enum
{
  PLUMB_LOSS_SFT,
  PLUMB_LOSS_POLICY,
  PLUMB_LOSS_VALUE,  /* of a critic */
  PLUMB_LOSS_PAIR,   /* DPO and its kin: sequences 2i and 2i + 1 are a pair */
  PLUMB_LOSS_KTO,
  PLUMB_LOSS_REWARD, /* of a reward model: pairs */
  PLUMB_N_LOSSES,
} PlumbLossId;

typedef struct
{
  PlumbLossId id;
  double temperature;                 /* of the distribution whose log-probs are trained */
  struct plumb_policy_options policy; /* its aggregate is also that of SFT */
  struct plumb_value_options value;
  struct plumb_pair_options pair;
  struct plumb_kto_options kto;
  enum plumb_reward_loss reward;
  int reward_margin;                       /* use the pairs' margins */
  struct plumb_denominators denominators; /* of the whole optimizer step */
  int on_policy; /* the only update of its batch: what it finds are the log-probs and entropies before it */
} PlumbLossSpec;

/* A model in training: gradients, optimizer state, buffers. */
typedef struct _PlumbTrainer PlumbTrainer;

/* `tokens_per_micro_batch` bounds a micro-batch; it is raised to the model's longest sequence. The model is
 * borrowed. */
PlumbTrainer *plumb_trainer_new (PlumbModel *model, const PlumbTrainerOptions *options,
                                 int tokens_per_micro_batch, GError **error);
/* One without gradients and optimizer: it only computes log-probs or values. */
PlumbTrainer *plumb_trainer_new_scorer (PlumbModel *model, int tokens_per_micro_batch, GError **error);
void plumb_trainer_free (PlumbTrainer *trainer);
/* Gives the memory of the activations back until it is woken. */
void plumb_trainer_sleep (PlumbTrainer *trainer);
gboolean plumb_trainer_wake (PlumbTrainer *trainer, GError **error);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbTrainer, plumb_trainer_free)

/* Bytes beside the model: gradients; moments and master weights, on the device or, off-loaded, with the host; activations. */
gsize plumb_trainer_gradient_bytes (const PlumbModelConfig *config);
gsize plumb_trainer_state_bytes (const PlumbModelConfig *config, enum dev_type type);
gsize plumb_trainer_activation_bytes (const PlumbModelConfig *config, enum dev_type type, int positions,
                                      int tokens_per_micro_batch, gboolean training, PlumbRecompute recompute);

/* Called after each micro-batch of log_probs and accumulate with tokens done and in all; FALSE with an error ends
 * the call. */
typedef gboolean (*PlumbTrainerProgress) (gint64 done, gint64 of, gpointer data, GError **error);
void plumb_trainer_set_progress (PlumbTrainer *trainer, PlumbTrainerProgress progress, gpointer data);

/* The ranks that train this model together: each step adds up their gradients. Borrowed; NULL: alone. */
void plumb_trainer_set_comm (PlumbTrainer *trainer, PlumbComm *comm);
/* Of weights and optimizer state: equal on all ranks. */
gboolean plumb_trainer_checksum (PlumbTrainer *trainer, guint64 *sum, GError **error);

/* Takes better master weights than the rounded ones of the model from its files (bf16 models). */
gboolean plumb_trainer_load_master (PlumbTrainer *trainer, PlumbSafetensors *tensors, GError **error);

/* Log-prob and entropy of every token with mask 1, at its place in the arrays (N); others are 0. `model` is
 * the trainer's own or one of the same shape (the reference). entropies may be NULL. */
gboolean plumb_trainer_log_probs (PlumbTrainer *trainer, PlumbModel *model,
                                  const struct plumb_experience *experience, double temperature,
                                  float *log_probs, float *entropies, GError **error);

/* Values of every token with mask 1 by a model with a score head, at their places (N); or, with `last`, the score of
 * each sequence at the place of its last token. Others are 0. */
gboolean plumb_trainer_values (PlumbTrainer *trainer, PlumbModel *model,
                               const struct plumb_experience *experience, gboolean last, float *values,
                               GError **error);

/* Adds the gradient of the loss over `sequences` (n indices) of the experience; the loss and its
 * statistics are added to *statistics. With loss->on_policy the old log-probs and the entropies of the experience are written
 * with those of this pass before the loss is evaluated. */
gboolean plumb_trainer_accumulate (PlumbTrainer *trainer, const struct plumb_experience *experience,
                                   const int *sequences, int n, const PlumbLossSpec *loss,
                                   struct plumb_loss_statistics *statistics, GError **error);

typedef enum
{
  PLUMB_STEP_DONE,
  PLUMB_STEP_NOT_FINITE, /* the gradient holds a NaN or infinity: nothing was changed */
} PlumbStepResult;

/* Adds up the gradients of all ranks, clips, updates the weights by AdamW and clears the gradients. `gradient_norm` is
 * that before clipping. */
gboolean plumb_trainer_step (PlumbTrainer *trainer, double learning_rate, PlumbStepResult *result,
                             double *gradient_norm, GError **error);

/* Gradients so far, on the host (table->elements), for inspection. */
gboolean plumb_trainer_gradients (PlumbTrainer *trainer, float *host, GError **error);

/* Optimizer state as safetensors (moments, master weights of a bf16 model, number of updates). */
gboolean plumb_trainer_save_state (PlumbTrainer *trainer, const char *path, GError **error);
gboolean plumb_trainer_load_state (PlumbTrainer *trainer, const char *path, GError **error);
/* The master weights of a bf16 model become what its weights are now. */
void plumb_trainer_take_weights (PlumbTrainer *trainer);
/* Forgets moments and counts: a new stage starts. */
void plumb_trainer_reset_state (PlumbTrainer *trainer);

G_END_DECLS
