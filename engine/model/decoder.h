/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/weights.h"

G_BEGIN_DECLS

/* Weight matrices and vectors of one block, as the ops take them. */
typedef struct
{
  const void *input_norm, *post_norm;
  struct dev_matrix qkv, o, gate_up, down;
  const void *qkv_bias, *q_norm, *k_norm; /* NULL where the model has none */
} PlumbBlock;

/* A decoder on a device: one table, one arena, one forward pass for rollout and trainer. */
typedef struct
{
  PlumbDevice *device; /* borrowed */
  PlumbModelConfig *config;
  PlumbWeightTable *table;
  enum dev_type type;
  struct dev_arena *weights; /* (table->elements) of type */
  struct dev_arena *packed;  /* copies in the backend's layout, or NULL */
  guint64 version;           /* counts updates of the weights */
  guint64 packed_version;    /* version that `packed` was made from; 0: none */
  gboolean coded;            /* whether plumb_model_pack makes codes */
  struct dev_arena *codes;   /* e4m3 codes of the blocks' matrices and their scales, or NULL */
  PlumbBlock *blocks;        /* (layers) */
  PlumbBlock *coded_blocks;  /* the same with codes, or NULL */
  const void *embed, *final_norm, *score;
  struct dev_matrix head;
  struct dev_arena *rope; /* cosines then sines, (positions, D / 2) each */
  const float *rope_cos, *rope_sin;
  int positions; /* rows of the rope table: longest sequence */
} PlumbModel;

/* Loads a Hugging Face directory. `max_length` bounds the sequences; 0: the model's own. */
PlumbModel *plumb_model_load (PlumbDevice *device, const char *dir, enum dev_type type, int max_length,
                              GError **error);
/* The same with a scalar head, for critics and reward models: that of the files, else a fresh one by `seed`. */
PlumbModel *plumb_model_load_scalar (PlumbDevice *device, const char *dir, enum dev_type type, int max_length,
                                     guint64 seed, GError **error);
/* A model made from nothing; takes over the config. */
PlumbModel *plumb_model_new (PlumbDevice *device, PlumbModelConfig *config, enum dev_type type,
                             int max_length, guint64 seed, GError **error);
/* The same with weights of zero, to be filled by the caller. */
PlumbModel *plumb_model_new_empty (PlumbDevice *device, PlumbModelConfig *config, enum dev_type type,
                                   int max_length, GError **error);
void plumb_model_free (PlumbModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbModel, plumb_model_free)

/* Bytes that a model of this table keeps on the device: weights, packed copies, rope. */
gsize plumb_model_bytes (PlumbDevice *device, const PlumbModelConfig *config, enum dev_type type,
                         int positions, gboolean packed);

/* Bytes that the codes of the blocks' matrices and their scales take, and bytes of workspace that products with them need. */
gsize plumb_model_code_bytes (const PlumbModelConfig *config);
gsize plumb_model_code_workspace (const PlumbModelConfig *config, enum dev_type type);

void *plumb_model_weights (PlumbModel *model);

/* Ids at and above `vocabulary` do not exist: a table padded beyond the tokenizer's ids neither samples them nor
 * counts them in log-probs. */
void plumb_model_limit_vocabulary (PlumbModel *model, int vocabulary);

/* Fills the rope tables for frequencies (D / 2) in radians per position. */
void plumb_model_set_rope (PlumbModel *model, const double *frequencies);

/* Makes the packed copies for the current version, if they are older. Products give equal bits with and
 * without; a decode step of few rows is faster with. */
gboolean plumb_model_pack (PlumbModel *model, GError **error);
/* From now on plumb_model_pack also makes e4m3 codes of the blocks' matrices, for passes that ask for them. */
void plumb_model_make_codes (PlumbModel *model);
/* To be called after every change of the weights: their version grows and packed copies are stale. */
void plumb_model_touch (PlumbModel *model);

/* Buffers of a pass over at most `tokens` tokens of at most `sequences` sequences. */
typedef struct _PlumbBuffers PlumbBuffers;

/* What the backward pass computes again instead of keeping it; the bits are the same in each. */
typedef enum
{
  PLUMB_RECOMPUTE_NONE,
  PLUMB_RECOMPUTE_SELECTIVE, /* norms and SwiGLU: a third less memory, hardly any time */
  PLUMB_RECOMPUTE_FULL,      /* whole blocks, from their input: about a fifth more time */
  PLUMB_N_RECOMPUTE,
} PlumbRecompute;

/* Their names, then NULL. */
extern const char *const plumb_recompute_names[PLUMB_N_RECOMPUTE + 1];

typedef struct
{
  int tokens;
  int sequences;
  int head_rows;     /* rows given to the head at a time; 0: tokens */
  int table_stride;  /* pages per sequence, 0 without paging */
  gboolean training; /* keep the activations of every block for the backward pass */
  PlumbRecompute recompute;
} PlumbBufferPlan;

gsize plumb_buffers_bytes (const PlumbModelConfig *config, enum dev_type type,
                           const PlumbBufferPlan *plan);
PlumbBuffers *plumb_buffers_new (PlumbModel *model, const PlumbBufferPlan *plan, GError **error);
/* Gives the memory back, addresses kept, until it is woken: what was in it is lost. Both do nothing where it is so already. */
void plumb_buffers_sleep (PlumbBuffers *buffers);
gboolean plumb_buffers_wake (PlumbBuffers *buffers, GError **error);
void plumb_buffers_free (PlumbBuffers *buffers);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbBuffers, plumb_buffers_free)

/* Which tokens a pass is over; host arrays. Without pages the keys are those of the pass itself. */
typedef struct
{
  int sequences;
  const gint32 *ids;       /* (tokens) laid end to end */
  const gint32 *offsets;   /* (sequences + 1) */
  const gint32 *contexts;  /* (sequences) length with this pass; NULL: the pass is the whole sequence */
  const gint32 *slots;     /* (tokens) KV rows, with pages only */
  const gint32 *pages;     /* (sequences, table_stride), with pages only */
  int table_stride;
  int page_tokens;
  const struct dev_kv *kv; /* (layers) the paged cache; NULL: contiguous */
  gboolean coded;          /* by the codes of the last plumb_model_pack; never before a backward pass */
} PlumbPass;

/* Runs the blocks: hidden rows after the final norm stay in the buffers. */
gboolean plumb_model_forward (PlumbModel *model, PlumbBuffers *buffers, const PlumbPass *pass,
                              GError **error);

/* Row `rows[i]` of the last forward pass predicts targets[i]; host log-probs and entropies (n), nats. At most
 * the plan's head_rows. */
gboolean plumb_model_log_probs (PlumbModel *model, PlumbBuffers *buffers, const gint32 *rows,
                                const gint32 *targets, int n, double temperature, float *log_probs,
                                float *entropies, GError **error);
/* The same rows' logits: (n, vocabulary) on the host. */
gboolean plumb_model_logits (PlumbModel *model, PlumbBuffers *buffers, const gint32 *rows, int n,
                             float *logits, GError **error);
#define PLUMB_MAX_FORBIDDEN 64

/* Ids that sampled rows with ban[i] != 0 do not get; at most PLUMB_MAX_FORBIDDEN. */
void plumb_model_forbid (PlumbBuffers *buffers, const gint32 *ids, int n);

/* What narrows a distribution before a token is drawn; 0 of each: nothing. */
typedef struct
{
  int top_k;
  double top_p, min_p;
  double repetition_penalty; /* 0 or 1: none */
} PlumbFilters;

/* Which tokens a queued pass samples; host arrays. */
typedef struct
{
  const gint32 *source; /* (tokens of the pass) row of the queued pass before whose token is the id; -1: known */
  const gint32 *rows;   /* (n) rows of the pass to sample after */
  const struct dev_random *random; /* (n) */
  const guint8 *ban;               /* (n) */
  int n;
  double temperature;
  guint64 seed;
  PlumbFilters filters;
  guint32 *seen;           /* device memory of dev_sampling.seen, where there is a penalty */
  const gint32 *seen_rows; /* (n) */
  int seen_stride;
} PlumbWanted;

/* A pass that is queued again and again with equal sizes: recorded when it comes a second time. */
typedef struct
{
  struct dev_graph *graph;
  int passes; /* queued without being recorded */
} PlumbRecording;

/* Queues a paged pass and the sampling after it, without waiting. `host_sampled`, memory of dev_ops.host_allocate of
 * plumb_sampled_bytes, gets the tokens, and the log-probs plumb_sampled_stride behind them. With a recording (NULL: none)
 * the sizes and the sampling must always be the same. */
gboolean plumb_model_queue (PlumbModel *model, PlumbBuffers *buffers, const PlumbPass *pass,
                            const PlumbWanted *ask, PlumbRecording *recording, void *host_sampled, GError **error);
gsize plumb_sampled_bytes (const PlumbBuffers *buffers);
gsize plumb_sampled_stride (const PlumbBuffers *buffers);
/* Values of rows (n) by the score head. */
gboolean plumb_model_values (PlumbModel *model, PlumbBuffers *buffers, const gint32 *rows, int n,
                             float *values, GError **error);

/* Whether a row's gradient is a product's result, which may be written over what was there. */
gboolean plumb_model_overwrites (const PlumbModel *model, const PlumbWeight *row);
/* Gradients of all weights, added to `gradients` (table->elements, device), from the derivatives of the
 * rows that the last plumb_model_log_probs (or _values) computed: host arrays (n). Without `add`, rows that
 * plumb_model_overwrites tells are written instead: they need not be cleared before. */
gboolean plumb_model_backward (PlumbModel *model, PlumbBuffers *buffers, float *gradients, gboolean add,
                               const float *dlog_probs, const float *dentropies, GError **error);
/* plumb_model_log_probs and plumb_model_backward in one, for a loss whose derivatives dL/dlogp (n) are known before:
 * the logits are computed once. */
gboolean plumb_model_train (PlumbModel *model, PlumbBuffers *buffers, float *gradients, gboolean add,
                            const gint32 *rows, const gint32 *targets, int n, double temperature,
                            const float *dlog_probs, float *log_probs, float *entropies, GError **error);
gboolean plumb_model_backward_values (PlumbModel *model, PlumbBuffers *buffers, float *gradients, gboolean add,
                                      const float *dvalues, GError **error);

G_END_DECLS
