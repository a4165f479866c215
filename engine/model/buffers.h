/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* What a block's forward pass leaves for its backward pass. T tokens. Parts that are recomputed are shared by all blocks. */
typedef struct
{
  float *sum1, *rstd1; /* (T, W) residual stream before the input norm, (T) */
  void *norm1;         /* (T, W) */
  void *raw;           /* (T, (H + 2 G) D) */
  void *q;             /* (T, H, D) */
  void *attended;      /* (T, H, D) */
  float *lse;          /* (T, H) */
  struct dev_kv kv;    /* (T, G, D) each */
  float *sum2, *rstd2; /* before the post norm */
  void *norm2;         /* (T, W) */
  void *gate_up;       /* (T, 2 F) */
  void *act;           /* (T, F) */
} PlumbBlockBuffers;

/* Gradients of one block at a time. */
typedef struct
{
  float *dx;                     /* (T, W) of the residual stream */
  void *dx_typed;                /* its copy of type */
  void *dwidth;                  /* (T, W) */
  void *dact, *dgate_up;         /* (T, F), (T, 2 F) */
  void *dattended, *dq, *dk, *dv, *draw;
} PlumbGradientBuffers;

struct _PlumbBuffers
{
  PlumbBufferPlan plan;
  PlumbDevice *device; /* borrowed */
  struct dev_arena *arena;
  gsize bytes; /* of it */
  gboolean asleep;
  int blocks; /* block buffers that exist: all for training, else one */
  PlumbBlockBuffers *block;
  PlumbGradientBuffers gradient;
  void *delta;           /* (T, W) output of o and down */
  float *sum_final, *rstd_final;
  void *hidden;          /* (T, W) after the final norm */
  void *head_in, *head_dx; /* (head rows, W) */
  float *log_probs, *entropies, *lse; /* (head rows) */
  float *dlog_probs, *dentropies;
  gint32 *ids; /* of the last pass, in its description */
  gint32 *rows, *targets, *forbidden; /* device copies */
  int n_forbidden;
  gint32 *tokens;         /* (head rows) sampled by the last queued pass; their log-probs follow */
  float *token_log_probs;
  char *description;      /* what a pass is over: everything that the host tells, sent in one piece */
  char *host_description; /* (description_bytes) */
  gsize described;        /* bytes of it in use */
  struct dev_batch batch;   /* of the last forward pass */
  int head_count;           /* rows of the last head call */
  gboolean add_gradients;   /* of the backward pass under way */
  float temperature;        /* of the last plumb_model_log_probs */
};

G_END_DECLS
