/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/advantage.h"
#include "engine/algo/loss.h"
#include "engine/algo/schedule.h"
#include "engine/comm/shared-memory.h"
#include "engine/core/run-dir.h"
#include "engine/core/spec.h"
#include "engine/core/telemetry.h"
#include "engine/reward/line-program.h"
#include "engine/reward/reward.h"
#include "engine/run/crew.h"
#include "engine/run/diagnosis.h"
#include "engine/run/hardware.h"
#include "engine/run/progress.h"
#include "engine/run/recipe.h"
#include "engine/run/settings.h"
#include "engine/text/dataset.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* Supervised steps come first where a spec asks for a warm-up; an offline run has only them. */
typedef enum
{
  PLUMB_STAGE_SUPERVISED, /* [warmup], or the whole of an sft run */
  PLUMB_STAGE_ONLINE,
} PlumbStage;

/* Where a run stands: all that a checkpoint must bring back beside the worker's part. */
typedef struct
{
  gint64 step;        /* steps done, over all stages */
  gint64 stage_step;  /* of these in the present stage */
  gint64 updates;     /* optimizer updates of the present stage */
  gint64 ordinal;     /* prompts generated so far: numbers the next one */
  gint64 tokens, samples;
  PlumbStage stage;
  guint64 epoch, row; /* place in the present stage's data */
  double pass1;       /* last measured accuracy; < 0: none */
  gint64 critic_updates;
  gint64 round;             /* of iterative DPO */
  gint64 reference_step;    /* at which the reference was renewed last: it is reference/step-NNNNNN; 0: the first model */
  gint64 bad_steps;         /* updates in a row without a finite gradient */
  gint64 critic_bad_steps;
  double kl_coefficient;    /* in force: it may adapt */
  gint64 rollbacks;         /* times that the run went back to a checkpoint by itself */
  gint64 best_step;         /* of the best checkpoint; 0: none yet */
  double best_value;
} PlumbPosition;

/* A prompt whose answers are shown before and after. */
typedef struct
{
  char *prompt, *answer, *before, *after;
} PlumbShowpiece;

/* The last value of a metric, and the step that it belongs to. */
typedef struct
{
  double value;
  gint64 step;
} PlumbLatest;

/* A set of held-out data and what its metrics are called: eval/NAME/... */
typedef struct
{
  char *name;
  PlumbDataSet *set;
} PlumbEvalSet;

typedef struct _PlumbRun PlumbRun;
typedef struct _PlumbAhead PlumbAhead;

struct _PlumbRun
{
  PlumbSpec *spec;
  char *dir;
  PlumbAlgorithm algorithm;
  const PlumbRecipe *recipe;
  gboolean alone;                           /* nothing is trained: the model is only measured */
  int lock;
  PlumbRunStatus *status;
  PlumbTelemetry *telemetry;
  PlumbProgress *progress;
  PlumbCrew *crew;
  PlumbSharedMemory *comm;                  /* in which the workers add up gradients; NULL: one alone */
  PlumbAhead *ahead;                        /* NULL: generates and trains in turn */
  PlumbTokenizer *tokenizer;
  PlumbReward *reward;                      /* NULL: offline */
  PlumbLineProgram *environment;            /* NULL: single answers */
  PlumbDataSet *train, *warmup;             /* NULL: none */
  PlumbDataSet *eval;                       /* the first of `evals`; NULL: none */
  GPtrArray *evals;                         /* of PlumbEvalSet */
  PlumbDataCursor *cursor;                  /* in the present stage's data */
  PlumbDataSet *cursor_set;                 /* that data; `train` or `warmup` */
  gsize passed_over;                        /* of its rows, up to the last step */
  PlumbPosition position;
  gint64 last_whole_step;                   /* before the one that is being made */
  gint64 steps[2];                          /* of each stage; supervised: at most */
  GArray *stop_ids;                         /* gint32 */
  guint64 memory_planned;
  guint64 memory_peak;                      /* bytes taken on GPUs, the most that an update saw; 0: none */
  double reward_mean, reward_deviation;     /* of the reward model, for reward.normalize; 0, 1 */
  GPtrArray *showpieces;                    /* of PlumbShowpiece */
  /* ending */
  GPtrArray *stop_rules;                    /* of PlumbStopRule */
  gint64 deadline;                          /* seconds since 1970; G_MAXINT64: none */
  gboolean fulfilled;                       /* a condition of schedule.stop_if */
  gboolean mastered;                        /* no prompt is left that could teach anything: all answers are right */
  PlumbDiagnosis *diagnosis;
  GHashTable *latest;                       /* metric -> PlumbLatest: the last values */
  /* keeper */
  gint64 last_state;                        /* monotonic, microseconds */
  char *phase;
  double phase_start;
  GArray *phase_seconds;                    /* of double, latest phases */
  GHashTable *phase_sums;                   /* of double by name: seconds since somebody asked */
  PlumbHardware *hardware;
  gint64 last_done;                         /* samples that the worker had ready at the last tick */
  gboolean silence_told;
  struct
  {
    double probe, train; /* seconds that the step's probes and updates take at the limits of the devices */
    double operations;   /* of the models in its updates */
    double peak;         /* per second, of the devices that train, by the datasheet; 0: not known */
  } limits;
  double step_seconds, step_average;        /* of the last step; of the last ones */
  int timed_steps;                          /* that the average is of */
  double last_reward, last_loss;            /* for the progress line; last_reward NaN: every reward failed */
  gint64 failed_steps;                      /* in a row, without any reward */
  char *failure;                            /* why, of the last of them */
  gboolean critic_follows;                  /* a critic of another worker begins as the policy of its stage */
  gboolean reference_kept;                  /* RUN/reference holds what the policy was when its stage began */
  gboolean telemetry_told;                  /* that it cannot be written */
  /* rollback */
  gboolean diverged;                        /* the step failed by too many bad updates */
  gint64 first_bad_step;                    /* of the present row of them */
  GArray *norms;                            /* of double: gradients that were not bad, the latest */
  /* disk */
  guint64 checkpoint_bytes;                 /* that one takes; 0: not known yet */
  gboolean disk_told;                       /* that it gets scarce */
  gint64 last_disk;                         /* monotonic, microseconds: when it was looked at last */
};

/* open-crew.c: whose processes the workers are, for state.json; `workers` (PlumbPlacedWorker) the first time, NULL after
 * one got a successor. */
void plumb_run_note_workers (PlumbRun *run, GArray *workers);

/* keeper.c: heartbeat, phases and signals. */
void plumb_run_install_signals (void);
gboolean plumb_run_should_stop (PlumbRun *run);
/* A phase that fails is not ended: what tells of the failure names it. */
void plumb_run_begin_phase (PlumbRun *run, const char *name);
void plumb_run_end_phase (PlumbRun *run);
/* Seconds that phases of the name took since it was last asked; 0: there was none. */
double plumb_run_take_phase (PlumbRun *run, const char *name);
/* Writes state.json when it is due; called at every tick. FALSE after a second signal. */
gboolean plumb_run_tick (PlumbRun *run, gint64 done, gint64 of);
gboolean plumb_run_write_state (PlumbRun *run, GError **error);

/* generate.c: prompts in, scored experience out. */
typedef struct
{
  struct plumb_experience *experience; /* sequences in the order of prompts and samples */
  int prompts, samples;
  PlumbDataRow **data; /* (prompts) */
  gint64 *ordinals;    /* (prompts) */
  char **responses;  /* (sequences) text */
  gint32 *finish;    /* (sequences) PlumbFinish */
  double *raw;       /* (sequences) rewards before they were shaped; NULL: they are not */
  PlumbRewardScore *scores; /* (sequences) */
  PlumbRewardScore *episodes; /* (sequences) by the environment; NULL: none */
  guint n_parts;     /* of the reward */
  double *parts;     /* (sequences, n_parts) */
  double *reward_seconds; /* (sequences) that a call took; NULL: nothing was called */
  int asked;         /* prompts that were tried for these, with dynamic sampling */
  gboolean early, probed; /* log-probs and values are to be asked for beside the scores; they are there */
  gint64 generated, prefill, shared; /* tokens */
  double kv_used, running, queued;
  double seconds;
  double limit; /* seconds that its generation takes at the limits of the devices; 0: not measured */
} PlumbBatch;

void plumb_batch_free (PlumbBatch *batch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbBatch, plumb_batch_free)

typedef struct
{
  PlumbDataSet *set;
  const gsize *rows; /* (prompts) */
  int prompts, samples;
  gint64 first_ordinal;
  double temperature;
  PlumbRandomPurpose purpose;
  gboolean early; /* what training needs is asked for beside the reward model's scores */
} PlumbAsk;

/* Moves whole groups, by their index, from a batch to the end of another, which may be empty. */
void plumb_batch_take (PlumbBatch *to, PlumbBatch *from, const int *groups, int n);

/* Whole batches (n > 0; each is taken over and set NULL) as one, in their order. */
PlumbBatch *plumb_batch_gather (PlumbBatch **batches, int n);

/* Generates and scores; the batch's rewards, masks and log-probs of the sampler are filled. */
PlumbBatch *plumb_run_generate (PlumbRun *run, const PlumbAsk *ask, GError **error);

/* preflight.c: a word where generation runs ahead and nothing corrects for it. */
void plumb_run_note_correction (PlumbSpec *spec, GPtrArray *notes);

/* online.c and supervised.c: one step. */
gboolean plumb_run_online_step (PlumbRun *run, GError **error);
gboolean plumb_run_supervised_step (PlumbRun *run, GError **error);
/* Loss and more of the first rows of held-out data, without training. */
gboolean plumb_run_supervised_evaluate (PlumbRun *run, PlumbDataSet *set, const char *name, int rows,
                                        double *accuracy, GError **error);
/* Mean and unbiased deviation of a reward model's scores over the first rows of its data, for its config.json. */
gboolean plumb_run_measure_scores (PlumbRun *run, double *mean, double *deviation, GError **error);
/* Whether the supervised stage is a warm-up, not the run itself. */
static inline gboolean
plumb_run_is_warmup (PlumbRun *run)
{
  return run->position.stage == PLUMB_STAGE_SUPERVISED && run->recipe->online;
}

/* ending.c: conditions and times that end a run early. */
gboolean plumb_run_open_ending (PlumbRun *run, GError **error);
void plumb_run_see_metric (PlumbRun *run, const char *metric, double value);
gboolean plumb_run_is_out_of_time (PlumbRun *run);

/* rollback.c: a gradient that is not finite changes nothing; too many of them in a row, or of divergent ones, are an error,
 * after which the run may go back to its last good checkpoint, as train.rollback says. */
gboolean plumb_run_count_update (PlumbRun *run, gint64 *bad_steps, gboolean finite, double norm, gboolean critic,
                                 GError **error);
gboolean plumb_run_roll_back (PlumbRun *run, const GError *cause, GError **error);

/* disk.c: what a checkpoint takes; whether the disk has room for this one and the next, told where it gets scarce. */
void plumb_run_measure_checkpoint (PlumbRun *run, const char *folder);
gboolean plumb_run_has_room (PlumbRun *run);
/* Whether a single one fits. */
gboolean plumb_run_check_room (PlumbRun *run, GError **error);

/* best.c: the best checkpoint, which rotation keeps: whether this step's is it, and, once it is complete, telling so. */
void plumb_run_note_best (PlumbRun *run);
void plumb_run_tell_best (PlumbRun *run);

/* probe.c: what the worker computes for a batch without training on it. */
/* A question about each token of an experience; those to different workers are answered at the same time. */
typedef enum
{
  PLUMB_PROBE_POLICY,    /* log-probs and entropies */
  PLUMB_PROBE_REFERENCE, /* the same of the frozen model */
  PLUMB_PROBE_CRITIC,    /* values */
  PLUMB_PROBE_REWARD,    /* scores at the last tokens */
  PLUMB_PROBE_SCORES,    /* the same of a reward model in training */
} PlumbProbeOf;

typedef struct
{
  PlumbProbeOf of;
  double temperature;
  float *log_probs, *entropies; /* (N); NULL: not wanted */
  double *values;               /* (N) */
} PlumbProbe;

gboolean plumb_run_probe (PlumbRun *run, const struct plumb_experience *experience, const PlumbProbe *probes, int n,
                          GError **error);
/* Copies an array of n floats, one a token, out of an answer. */
gboolean plumb_run_take_floats (GVariant *answer, const char *key, gsize n, float *to, GError **error);
/* What training on an experience needs to know of it before: log-probs of the policy (unless the update or the sampler tells
 * them) and, where a term needs them, of the reference, and values. The number of probes (at most PLUMB_TRAINING_PROBES). */
#define PLUMB_TRAINING_PROBES 3
int plumb_run_training_probes (PlumbRun *run, struct plumb_experience *experience, gboolean policy, PlumbProbe *probes);
/* Log-probs (N) at a temperature, and entropies (N; NULL: not wanted), by the policy or the reference. */
gboolean plumb_run_log_probs (PlumbRun *run, const struct plumb_experience *experience, gboolean reference,
                              double temperature, float *log_probs, float *entropies, GError **error);
/* What a loss over preferences needs to know of a batch before it trains: reference log-probs, KTO's estimates. */
gboolean plumb_run_prepare_preferences (PlumbRun *run, struct plumb_experience *experience, PlumbLossSpec *loss,
                                        GError **error);
/* Sends optimizer updates, of the critic where the loss is its; adds to the sums. Those of different workers happen at the
 * same time. */
typedef struct
{
  struct plumb_loss_statistics statistics;
  double gradient_norm, learning_rate;
  int updates;
} PlumbUpdateSums;

/* One of several updates on the same sequences, in their order. */
typedef struct
{
  const PlumbLossSpec *loss;
  const struct plumb_schedule *schedule;
  PlumbUpdateSums *sums;
} PlumbUpdate;

gboolean plumb_run_update (PlumbRun *run, const struct plumb_experience *experience, const int *sequences, int n,
                           const PlumbUpdate *updates, int n_updates, GError **error);

/* evaluate.c */
gboolean plumb_run_evaluate (PlumbRun *run, PlumbDataSet *set, const char *name, int prompts, int samples,
                             double temperature, double *pass1, GError **error);
/* Answers to a few fixed prompts: before the training, then after it; told at the end. */
gboolean plumb_run_show (PlumbRun *run, gboolean after, GError **error);

/* run.c */
void plumb_run_tell_telemetry (PlumbRun *run, const GError *error);

/* run.c: the reference becomes what the policy is now, and is kept for a resume; a new stage forgets the optimizer's
 * moments, a new round keeps them. */
gboolean plumb_run_renew_reference (PlumbRun *run, gboolean keep_moments, GError **error);

/* checkpoint.c */
gboolean plumb_run_save_checkpoint (PlumbRun *run, GError **error);
gboolean plumb_run_load_checkpoint (PlumbRun *run, gint64 step, GError **error);
/* Writes the policy as the Hugging Face folder FOLDER/NAME. */
gboolean plumb_run_save_model (PlumbRun *run, const char *folder, const char *name, GError **error);
char *plumb_run_checkpoint_path (const char *dir, gint64 step);
/* The newest complete one before a step, or 0; removes those after a step. */
gint64 plumb_run_checkpoint_before (const char *dir, gint64 step);
gboolean plumb_run_drop_checkpoints (const char *dir, gint64 after, GError **error);
/* The step at which the reference of a checkpoint was renewed; 0: never. */
gboolean plumb_run_read_reference_step (const char *dir, gint64 step, gint64 *reference, GError **error);

/* record.c and record-updates.c */
void plumb_run_record_batch (PlumbRun *run, const PlumbBatch *batch,
                             const struct plumb_group_statistics *groups);
/* How far rollout and trainer are apart on the same tokens (0 on the CPU), and the entropy; and the KL to the reference. */
void plumb_run_record_gap (PlumbRun *run, const struct plumb_experience *experience);
void plumb_run_record_reference (PlumbRun *run, const struct plumb_experience *experience);
void plumb_run_record_samples (PlumbRun *run, const PlumbBatch *batch, gboolean evaluation, const char *set);
void plumb_run_record_updates (PlumbRun *run, const PlumbUpdateSums *sums, const PlumbLossSpec *loss,
                               const char *metric);
/* A step begins: what was computed and timed before (an evaluation, a step that failed) is none of its own. */
void plumb_run_forget_work (PlumbRun *run);
/* Shares of the limits that a step reached; `limit` is that of its generation. What took no time, or was not measured, is not
 * told. */
void plumb_run_record_shares (PlumbRun *run, double limit, double train_seconds, double step_seconds);
void plumb_run_record_step (PlumbRun *run, double seconds, gint64 tokens);
void plumb_run_point (PlumbRun *run, const char *metric, double value);

G_END_DECLS
