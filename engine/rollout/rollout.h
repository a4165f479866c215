/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* What a random number is for: the high byte of the first counter word. */
typedef enum
{
  PLUMB_RANDOM_ROLLOUT = 1,
  PLUMB_RANDOM_EVAL = 2,
  PLUMB_RANDOM_GENERATE = 3,
} PlumbRandomPurpose;

typedef struct
{
  int max_running;       /* sequences decoded at once; bounds the samples of a prompt prefilled together */
  int page_tokens;       /* a multiple of DEV_KEY_TILE */
  int pages;             /* of the KV cache; 0: enough for max_running longest sequences */
  int max_prompt;        /* longest prompt, tokens */
  int max_new_tokens;    /* at most */
  int prefill_tokens;    /* prompt tokens of one pass; 0: automatic */
  int kv_codes;          /* whether the cache holds e4m3 codes, a byte each, with a scale per token and group */
  int weight_codes;      /* whether products with the blocks' weights use e4m3 codes with a scale per output */
} PlumbRolloutPlan;

/* How tokens are chosen; may differ from one generation to the next. */
typedef struct
{
  double temperature; /* 0: greedy */
  int max_new_tokens; /* <= the plan's */
  int min_new_tokens; /* stop tokens are not chosen before */
  const gint32 *stop; /* ids that end a completion (kept in it) */
  int n_stop;
  guint64 seed;
  PlumbRandomPurpose purpose;
  PlumbFilters filters; /* log-probs are those of the filtered distribution */
} PlumbSampling;

typedef enum
{
  PLUMB_FINISH_STOP,   /* a stop token */
  PLUMB_FINISH_LENGTH, /* cut at max_new_tokens or at the model's longest sequence */
} PlumbFinish;

/* One finished sample. */
typedef struct
{
  gint64 ordinal; /* of the prompt */
  int sample;     /* 0 .. n-1 */
  GArray *ids;        /* of gint32: the response, stop token included */
  GArray *log_probs;  /* of float: by the distribution it was sampled from */
  GArray *versions;   /* of gint32: of the weights that sampled each token */
  PlumbFinish finish;
} PlumbCompletion;

void plumb_completion_free (PlumbCompletion *completion);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbCompletion, plumb_completion_free)

typedef struct
{
  gint64 tokens;         /* generated */
  gint64 passes;
  gint64 decode_passes;  /* those that decode */
  gint64 decode_rows;    /* sum over passes of sequences decoded: running = decode_rows / passes */
  gint64 queued_rows;    /* sum over passes of samples that wait */
  gint64 context_tokens; /* sum over these of the keys they see */
  gint64 prefill_tokens; /* prompt tokens computed */
  gint64 shared_tokens;  /* prompt tokens that a sample took from its group's prefill */
  double kv_used;        /* peak share of the pages */
} PlumbRolloutStatistics;

/* Prompts in, completions out: paged KV, continuous batching, prompts prefilled once for their samples, admission
 * that never preempts. The model is borrowed. */
typedef struct _PlumbRollout PlumbRollout;

/* Completes the plan's automatic values for a model. */
void plumb_rollout_plan_complete (PlumbRolloutPlan *plan, const PlumbModelConfig *config);
/* Bytes of a page of the cache, of all layers. */
gsize plumb_rollout_page_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbRolloutPlan *plan);
gsize plumb_rollout_bytes (const PlumbModelConfig *config, enum dev_type type,
                           const PlumbRolloutPlan *plan);

PlumbRollout *plumb_rollout_new (PlumbModel *model, const PlumbRolloutPlan *plan, GError **error);
void plumb_rollout_free (PlumbRollout *rollout);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbRollout, plumb_rollout_free)

/* Starts a generation: copies the sampling, clears statistics, packs the weights. */
gboolean plumb_rollout_begin (PlumbRollout *rollout, const PlumbSampling *sampling, GError **error);
/* Tokens of the samples that are submitted from now on, at most; never more than the sampling allows. 0: as many as that. A new
 * generation begins without. */
void plumb_rollout_limit (PlumbRollout *rollout, int tokens);
/* Queues a prompt. `ordinal` numbers prompts over the whole run; with the seed it fixes the tokens. */
/* The same for sample number `first_sample` and on of the prompt: its random numbers are theirs. */
gboolean plumb_rollout_submit_from (PlumbRollout *rollout, const gint32 *prompt, int length, int first_sample,
                                    int samples, gint64 ordinal, GError **error);
gboolean plumb_rollout_submit (PlumbRollout *rollout, const gint32 *prompt, int length, int samples,
                               gint64 ordinal, GError **error);
/* One pass: decodes what runs, prefills what fits. *idle: nothing was left to do. */
gboolean plumb_rollout_advance (PlumbRollout *rollout, gboolean *idle, GError **error);
/* A finished completion (transfer full), or NULL when there is none yet. */
PlumbCompletion *plumb_rollout_take (PlumbRollout *rollout);
void plumb_rollout_statistics (PlumbRollout *rollout, PlumbRolloutStatistics *statistics);
/* While it is held, no further prompt begins: what runs drains. */
void plumb_rollout_hold (PlumbRollout *rollout, gboolean hold);
/* Samples and prompts that have begun and are not finished. */
int plumb_rollout_running (PlumbRollout *rollout);
/* Waits for the queued passes: the model's weights may then be replaced, even where samples are running. Their cached keys
 * and values stay those of the old weights. */
gboolean plumb_rollout_settle (PlumbRollout *rollout, GError **error);
/* The weights were replaced: tokens sampled from here on are of this version. */
gboolean plumb_rollout_renew (PlumbRollout *rollout, guint64 version, GError **error);
/* Gives the memory of the cache and of the passes back until it is woken; what was in the cache is lost, so nothing may be
 * running. */
void plumb_rollout_sleep (PlumbRollout *rollout);
gboolean plumb_rollout_wake (PlumbRollout *rollout, GError **error);
/* Drops everything queued and running. */
void plumb_rollout_abort (PlumbRollout *rollout);

G_END_DECLS
