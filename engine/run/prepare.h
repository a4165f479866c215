/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/run-private.h"

G_BEGIN_DECLS

/* What a run reads: opened once, in the foreground, so that every fault is told before anything starts. */
typedef struct
{
  PlumbSpec *spec; /* borrowed */
  char *start_model;
  gboolean to_make; /* it lacks its weights yet */
  PlumbTokenizer *tokenizer;
  PlumbTemplate *chat; /* NULL: the model has none */
  GArray *stop_ids; /* gint32 */
  PlumbDataSet *train, *warmup; /* NULL: none */
  GPtrArray *evals;             /* of PlumbEvalSet, one for each path of data.eval */
  PlumbReward *reward;                 /* NULL: offline */
  PlumbLineProgram *environment;       /* NULL: none */
  gint64 reference_step;               /* of the checkpoint that the run goes on from; 0: none */
  double reward_mean, reward_deviation; /* of the reward model's scores: 0 and 1 unless they are normalised */
  GPtrArray *reports;                  /* of PlumbProblem: rows that were left out */
} PlumbRunInputs;

/* Resolves automatic settings, describes RUN/start where the model is new, and opens the rest. */
gboolean plumb_run_inputs_open (PlumbRunInputs *inputs, PlumbSpec *spec, const char *dir, GError **error);
/* Makes the weights of a new model, once it is known that the machine can hold them. */
gboolean plumb_run_inputs_make_model (const PlumbRunInputs *inputs, GError **error);
/* Only tokenizer, chat template and data: for looking at rows. The model's weights may be missing. */
gboolean plumb_run_inputs_open_data (PlumbRunInputs *inputs, PlumbSpec *spec, const char *dir, GError **error);
void plumb_run_inputs_clear (PlumbRunInputs *inputs);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbRunInputs, plumb_run_inputs_clear)

/* Steps of the supervised and of the online stage. */
void plumb_run_count_steps (const PlumbRunInputs *inputs, gint64 steps[2]);
/* What the worker needs; resolves the settings that depend on the model. */
gboolean plumb_run_make_settings (PlumbWorkerSettings *settings, const PlumbRunInputs *inputs,
                                  const char *dir, GError **error);

/* open-crew.c: starts the workers, which load the models; tells what they are. */
gboolean plumb_run_open_crew (PlumbRun *run, const PlumbRunInputs *inputs, GError **error);

G_END_DECLS
