/* SPDX-License-Identifier: Apache-2.0 */

/* The one forward pass, for rollout and trainer alike, and its gradient. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/model/buffers.h"

static struct dev_attention
attention_of (const PlumbModel *model, int block)
{
  const PlumbModelConfig *c = model->config;
  return (struct dev_attention){
    .heads = c->heads,
    .groups = c->groups,
    .head_size = c->head_size,
    .window = c->windowed[block] ? c->window : 0,
    .scale = 1.0f / sqrtf ((float) c->head_size),
    .soft_cap = (float) c->soft_cap,
  };
}

static struct dev_qkv
qkv_of (const PlumbModel *model, int block)
{
  const PlumbBlock *b = &model->blocks[block];
  return (struct dev_qkv){ b->qkv_bias, b->q_norm, b->k_norm, (float) model->config->norm_eps,
                           model->rope_cos, model->rope_sin };
}

static void
upload (PlumbBuffers *b, gint32 *to, const gint32 *from, gsize n)
{
  b->device->ops->upload (b->device->context, to, from, n * sizeof (gint32));
}

/* Room for `bytes` in the description of a pass: sets the device pointer and returns where the host writes it. The
 * places depend on the sizes of the pass alone, so that a recorded pass finds them again. */
static void *
describe (PlumbBuffers *b, gsize bytes, void *device_pointer)
{
  char *device = b->description + b->described;
  memcpy (device_pointer, &device, sizeof device);
  void *host = b->host_description + b->described;
  b->described += dev_align (bytes);
  return host;
}

static void *
describe_copy (PlumbBuffers *b, const void *from, gsize bytes, void *device_pointer)
{
  void *host = describe (b, bytes, device_pointer);
  return bytes > 0 ? memcpy (host, from, bytes) : host;
}

/* Sends the description in one piece. */
static void
send_description (PlumbBuffers *b)
{
  b->device->ops->upload (b->device->context, b->description, b->host_description, b->described);
}

static gboolean
check_pass (const PlumbModel *model, const PlumbBuffers *b, const PlumbPass *pass, GError **error)
{
  int tokens = pass->offsets[pass->sequences];
  if (tokens > b->plan.tokens || pass->sequences > b->plan.sequences
      || (pass->kv && pass->table_stride > b->plan.table_stride))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
                   "a pass of %d tokens in %d sequences does not fit buffers for %d in %d", tokens,
                   pass->sequences, b->plan.tokens, b->plan.sequences);
      return FALSE;
    }
  for (int i = 0; i < tokens; i++)
    if (pass->ids[i] < 0 || pass->ids[i] >= model->config->vocabulary)
      {
        g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                     "token id %d is outside the model's vocabulary of %d", pass->ids[i],
                     model->config->vocabulary);
        return FALSE;
      }
  for (int s = 0; s < pass->sequences; s++)
    {
      int length = pass->contexts ? pass->contexts[s] : pass->offsets[s + 1] - pass->offsets[s];
      if (length <= model->positions)
        continue;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "a sequence of %d tokens is longer than the %d that the model was opened for "
                   "(model.max_length)", length, model->positions);
      return FALSE;
    }
  return TRUE;
}

/* Describes the pass for the device. */
static void
set_batch (PlumbBuffers *b, const PlumbPass *pass)
{
  int tokens = pass->offsets[pass->sequences], longest = 0;
  b->described = 0;
  b->batch = (struct dev_batch){ .tokens = tokens, .sequences = pass->sequences };
  gint32 *positions = describe (b, tokens * sizeof (gint32), &b->batch.positions);
  gint32 *contexts = describe (b, pass->sequences * sizeof (gint32), &b->batch.contexts);
  for (int s = 0; s < pass->sequences; s++)
    {
      int length = pass->offsets[s + 1] - pass->offsets[s];
      contexts[s] = pass->contexts ? pass->contexts[s] : length;
      longest = MAX (longest, contexts[s]);
      for (int i = 0; i < length; i++)
        positions[pass->offsets[s] + i] = contexts[s] - length + i;
    }
  describe_copy (b, pass->ids, tokens * sizeof (gint32), &b->ids);
  describe_copy (b, pass->offsets, (pass->sequences + 1) * sizeof (gint32), &b->batch.query_offsets);
  b->batch.max_context = longest;
  if (!pass->kv)
    return;
  describe_copy (b, pass->slots, tokens * sizeof (gint32), &b->batch.slots);
  describe_copy (b, pass->pages, (gsize) pass->sequences * pass->table_stride * sizeof (gint32),
                 &b->batch.block_table);
  b->batch.table_stride = pass->table_stride;
  b->batch.page_tokens = pass->page_tokens;
}

/* One block but for its last product. `x` is the residual stream and `delta` what the block before it adds. */
static void
block_forward_inside (PlumbModel *model, PlumbBuffers *b, const PlumbBlock *w, int i, const float *x, const void *delta,
                      const struct dev_kv *kv)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  PlumbBlockBuffers *a = &b->block[i % b->blocks];
  struct dev_attention attention = attention_of (model, i);
  struct dev_qkv qkv = qkv_of (model, i);
  int t = b->batch.tokens;
  float eps = (float) model->config->norm_eps;
  struct dev_norm input = { a->sum1, a->norm1, a->rstd1, x, delta, w->input_norm, eps };
  struct dev_norm post = { a->sum2, a->norm2, a->rstd2, a->sum1, b->delta, w->post_norm, eps };
  ops->norm_qkv_forward (context, &input, a->raw, a->q, kv, &w->qkv, &qkv, &attention, &b->batch, model->type);
  ops->attention_forward (context, a->attended, a->lse, a->q, kv, &attention, &b->batch, model->type);
  ops->linear_forward (context, b->delta, a->attended, &w->o, t, model->type);
  ops->norm_swiglu_forward (context, &post, a->act, a->gate_up, &w->gate_up, t, model->type);
}

static void
block_forward (PlumbModel *model, PlumbBuffers *b, const PlumbBlock *w, int i, const float *x, const void *delta,
               const struct dev_kv *kv)
{
  block_forward_inside (model, b, w, i, x, delta, kv);
  model->device->ops->linear_forward (model->device->context, b->delta, b->block[i % b->blocks].act,
                                      &w->down, b->batch.tokens, model->type);
}

/* From the ids of the described pass to the hidden rows. */
static void
run_blocks (PlumbModel *model, PlumbBuffers *b, const PlumbPass *pass)
{
  const struct dev_kv *kv = pass->kv;
  const PlumbBlock *blocks = pass->coded ? model->coded_blocks : model->blocks;
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  int t = b->batch.tokens, width = model->config->width;
  /* The stream enters through the first block's own buffer, which its norm then overwrites in place. */
  float *x = b->block[0].sum1;
  ops->embed_forward (context, x, model->embed, b->ids, t, width, model->type);
  const void *delta = NULL;
  for (int i = 0; i < model->config->layers; i++)
    {
      block_forward (model, b, &blocks[i], i, x, delta, kv ? &kv[i] : &b->block[i % b->blocks].kv);
      x = b->block[i % b->blocks].sum2;
      delta = b->delta;
    }
  ops->add_norm_forward (context, b->sum_final, b->hidden, b->rstd_final, x, delta, model->final_norm,
                         (float) model->config->norm_eps, t, width, model->type);
}

gboolean
plumb_model_forward (PlumbModel *model, PlumbBuffers *b, const PlumbPass *pass, GError **error)
{
  if (!check_pass (model, b, pass, error))
    return FALSE;
  set_batch (b, pass);
  send_description (b);
  run_blocks (model, b, pass);
  /* The head that follows checks what is queued: the host can do its part meanwhile. */
  return model->device->asynchronous || plumb_device_check (model->device, error);
}

static gboolean
check_rows (const PlumbBuffers *b, int n, GError **error)
{
  int most = b->plan.head_rows ? b->plan.head_rows : b->plan.tokens;
  if (n <= most)
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "%d rows for a head planned for %d", n, most);
  return FALSE;
}

/* Collects the hidden rows that the head works on. */
static gboolean
take_rows (PlumbModel *model, PlumbBuffers *b, const gint32 *rows, int n, GError **error)
{
  if (!check_rows (b, n, error))
    return FALSE;
  upload (b, b->rows, rows, n);
  model->device->ops->gather_rows (model->device->context, b->head_in, b->hidden, b->rows, n,
                                   model->config->width, model->type);
  b->head_count = n;
  return TRUE;
}

gboolean
plumb_model_log_probs (PlumbModel *model, PlumbBuffers *b, const gint32 *rows, const gint32 *targets,
                       int n, double temperature, float *log_probs, float *entropies, GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  if (!take_rows (model, b, rows, n, error))
    return FALSE;
  upload (b, b->targets, targets, n);
  b->temperature = (float) temperature;
  ops->head_forward (context, b->log_probs, b->entropies, b->lse, b->head_in, &model->head, b->targets,
                     b->temperature, n, model->type);
  ops->download (context, log_probs, b->log_probs, n * sizeof (float));
  if (entropies)
    ops->download (context, entropies, b->entropies, n * sizeof (float));
  return plumb_device_check (model->device, error);
}

gboolean
plumb_model_logits (PlumbModel *model, PlumbBuffers *b, const gint32 *rows, int n, float *logits,
                    GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  gsize bytes = (gsize) n * model->config->vocabulary * sizeof (float);
  if (!take_rows (model, b, rows, n, error))
    return FALSE;
  struct dev_arena *arena = plumb_device_allocate (model->device, bytes, "logits", error);
  if (!arena)
    return FALSE;
  float *device_logits = ops->arena_base (arena);
  ops->head_logits (model->device->context, device_logits, b->head_in, &model->head, n, model->type);
  ops->download (model->device->context, logits, device_logits, bytes);
  ops->arena_free (arena);
  return plumb_device_check (model->device, error);
}

void
plumb_model_forbid (PlumbBuffers *b, const gint32 *ids, int n)
{
  b->n_forbidden = MIN (n, PLUMB_MAX_FORBIDDEN);
  upload (b, b->forbidden, ids, b->n_forbidden);
}

/* What the description of a sampled pass holds beside the batch. */
typedef struct
{
  gint32 *source, *rows;
  struct dev_random *random;
  guint8 *ban;
  gint32 *seen_rows;
} AskPlaces;

static void
run_sampled_pass (PlumbModel *model, PlumbBuffers *b, const PlumbPass *pass, const PlumbWanted *ask,
                  const AskPlaces *places)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  ops->take_tokens (context, b->ids, b->tokens, places->source, b->batch.tokens);
  run_blocks (model, b, pass);
  if (ask->n == 0)
    return;
  ops->gather_rows (context, b->head_in, b->hidden, places->rows, ask->n, model->config->width, model->type);
  const PlumbFilters *filters = &ask->filters;
  struct dev_sampling sampling = { .temperature = (float) ask->temperature,
                                   .top_k = filters->top_k,
                                   .top_p = (float) filters->top_p,
                                   .min_p = (float) filters->min_p,
                                   .seed = ask->seed,
                                   .random = places->random,
                                   .forbidden = b->forbidden,
                                   .n_forbidden = b->n_forbidden,
                                   .ban = places->ban,
                                   .repetition_penalty = (float) filters->repetition_penalty,
                                   .seen = ask->seen,
                                   .seen_rows = places->seen_rows,
                                   .seen_stride = ask->seen_stride };
  ops->head_sample (context, b->tokens, b->token_log_probs, b->head_in, &model->head, &sampling, ask->n, model->type);
}

gboolean
plumb_model_queue (PlumbModel *model, PlumbBuffers *b, const PlumbPass *pass, const PlumbWanted *ask,
                   PlumbRecording *recording, void *host_sampled, GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  AskPlaces places;
  if (!check_pass (model, b, pass, error) || !check_rows (b, ask->n, error))
    return FALSE;
  set_batch (b, pass);
  describe_copy (b, ask->source, b->batch.tokens * sizeof (gint32), &places.source);
  describe_copy (b, ask->rows, ask->n * sizeof (gint32), &places.rows);
  describe_copy (b, ask->random, ask->n * sizeof *ask->random, &places.random);
  describe_copy (b, ask->ban, ask->n, &places.ban);
  describe_copy (b, ask->seen_rows, ask->n * sizeof (gint32), &places.seen_rows);
  send_description (b);
  if (recording)
    b->batch.max_context = pass->table_stride * pass->page_tokens; /* whatever the lengths will be */
  if (recording && recording->graph)
    ops->replay (context, recording->graph);
  else if (recording && recording->passes++ > 0)
    {
      ops->record_begin (context);
      run_sampled_pass (model, b, pass, ask, &places);
      recording->graph = ops->record_end (context);
    }
  else
    run_sampled_pass (model, b, pass, ask, &places);
  ops->download_later (context, host_sampled, b->tokens, plumb_sampled_bytes (b));
  return TRUE;
}

gsize
plumb_sampled_bytes (const PlumbBuffers *b)
{
  return 2 * plumb_sampled_stride (b);
}

gsize
plumb_sampled_stride (const PlumbBuffers *b)
{
  gsize most = (gsize) (b->plan.head_rows ? b->plan.head_rows : b->plan.tokens);
  return dev_align (most * sizeof (gint32));
}

gboolean
plumb_model_values (PlumbModel *model, PlumbBuffers *b, const gint32 *rows, int n, float *values,
                    GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  if (!take_rows (model, b, rows, n, error))
    return FALSE;
  ops->value_forward (model->device->context, b->log_probs, b->head_in, model->score, n,
                      model->config->width, model->type);
  ops->download (model->device->context, values, b->log_probs, n * sizeof (float));
  return plumb_device_check (model->device, error);
}

static float *
gradient_of (const PlumbModel *model, float *gradients, PlumbWeightRole role, int block)
{
  const PlumbWeight *row = plumb_weight_table_find (model->table, role, block);
  return row && row->trainable ? gradients + row->first : NULL;
}

gboolean
plumb_model_overwrites (const PlumbModel *model, const PlumbWeight *row)
{
  switch (row->role)
    {
    case PLUMB_WEIGHT_Q:
    case PLUMB_WEIGHT_K:
    case PLUMB_WEIGHT_V:
    case PLUMB_WEIGHT_O:
    case PLUMB_WEIGHT_GATE:
    case PLUMB_WEIGHT_UP:
    case PLUMB_WEIGHT_DOWN:
    case PLUMB_WEIGHT_HEAD:
      return TRUE;
    case PLUMB_WEIGHT_EMBED:
      return model->config->tied && !model->score;
    default:
      return FALSE;
    }
}

/* What the forward pass of block i left and did not keep. The last block's is still there. */
static void
recompute_block (PlumbModel *model, PlumbBuffers *b, int i)
{
  const struct dev_ops *ops = model->device->ops;
  const PlumbBlock *w = &model->blocks[i];
  const PlumbBlockBuffers *a = &b->block[i];
  int t = b->batch.tokens, width = model->config->width;
  float eps = (float) model->config->norm_eps;
  if (b->plan.recompute == PLUMB_RECOMPUTE_NONE || i == model->config->layers - 1)
    return;
  if (b->plan.recompute == PLUMB_RECOMPUTE_FULL)
    {
      block_forward_inside (model, b, &model->blocks[i], i, a->sum1, NULL, &a->kv);
      return;
    }
  ops->add_norm_forward (model->device->context, a->sum1, a->norm1, a->rstd1, a->sum1, NULL, w->input_norm, eps, t, width,
                         model->type);
  ops->add_norm_forward (model->device->context, a->sum2, a->norm2, a->rstd2, a->sum2, NULL, w->post_norm, eps, t, width,
                         model->type);
  ops->swiglu_forward (model->device->context, a->act, a->gate_up, t, model->config->mlp, model->type);
}

static void
block_backward (PlumbModel *model, PlumbBuffers *b, float *gradients, int i)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  const PlumbBlock *w = &model->blocks[i];
  const PlumbBlockBuffers *a = &b->block[i];
  PlumbGradientBuffers *g = &b->gradient;
  struct dev_attention attention = attention_of (model, i);
  struct dev_qkv qkv = qkv_of (model, i);
  enum dev_type type = model->type;
  int t = b->batch.tokens, width = model->config->width;
  recompute_block (model, b, i);
  ops->linear_backward (context, g->dact, gradient_of (model, gradients, PLUMB_WEIGHT_DOWN, i), b->add_gradients,
                        g->dx_typed, a->act, &w->down, t, type);
  ops->swiglu_backward (context, g->dgate_up, g->dact, a->gate_up, t, model->config->mlp, type);
  ops->linear_backward (context, g->dwidth, gradient_of (model, gradients, PLUMB_WEIGHT_GATE, i), b->add_gradients,
                        g->dgate_up, a->norm2, &w->gate_up, t, type);
  ops->add_norm_backward (context, g->dx, g->dx_typed,
                          gradient_of (model, gradients, PLUMB_WEIGHT_POST_NORM, i), g->dwidth, a->sum2,
                          a->rstd2, w->post_norm, t, width, type);
  ops->linear_backward (context, g->dattended, gradient_of (model, gradients, PLUMB_WEIGHT_O, i), b->add_gradients,
                        g->dx_typed, a->attended, &w->o, t, type);
  ops->attention_backward (context, g->dq, g->dk, g->dv, g->dattended, a->attended, a->lse, a->q, &a->kv,
                           &attention, &b->batch, type);
  ops->qkv_backward (context, g->draw, gradient_of (model, gradients, PLUMB_WEIGHT_Q_BIAS, i),
                     gradient_of (model, gradients, PLUMB_WEIGHT_Q_NORM, i),
                     gradient_of (model, gradients, PLUMB_WEIGHT_K_NORM, i), g->dq, g->dk, g->dv, a->raw,
                     &qkv, &attention, &b->batch, type);
  ops->linear_backward (context, g->dwidth, gradient_of (model, gradients, PLUMB_WEIGHT_Q, i), b->add_gradients,
                        g->draw, a->norm1, &w->qkv, t, type);
  ops->add_norm_backward (context, g->dx, g->dx_typed,
                          gradient_of (model, gradients, PLUMB_WEIGHT_INPUT_NORM, i), g->dwidth, a->sum1,
                          a->rstd1, w->input_norm, t, width, type);
}

/* From the gradient of the head's rows back to the embedding. */
static void
queue_blocks_backward (PlumbModel *model, PlumbBuffers *b, float *gradients)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  PlumbGradientBuffers *g = &b->gradient;
  int t = b->batch.tokens, width = model->config->width;
  gsize size = dev_type_size (model->type);
  ops->zero (context, g->dwidth, (gsize) t * width * size);
  ops->scatter_rows (context, g->dwidth, b->head_dx, b->rows, b->head_count, width, model->type);
  ops->zero (context, g->dx, (gsize) t * width * sizeof (float));
  ops->add_norm_backward (context, g->dx, g->dx_typed,
                          gradient_of (model, gradients, PLUMB_WEIGHT_FINAL_NORM, -1), g->dwidth,
                          b->sum_final, b->rstd_final, model->final_norm, t, width, model->type);
  for (int i = model->config->layers - 1; i >= 0; i--)
    block_backward (model, b, gradients, i);
  float *embed = gradient_of (model, gradients, PLUMB_WEIGHT_EMBED, -1);
  if (embed)
    ops->embed_backward (context, embed, g->dx, b->ids, t, width, model->config->pad);
}

static gboolean
blocks_backward (PlumbModel *model, PlumbBuffers *b, float *gradients, GError **error)
{
  queue_blocks_backward (model, b, gradients);
  return plumb_device_check (model->device, error);
}

gboolean
plumb_model_backward (PlumbModel *model, PlumbBuffers *b, float *gradients, gboolean add, const float *dlog_probs,
                      const float *dentropies, GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  int n = b->head_count;
  PlumbWeightRole role = model->config->tied ? PLUMB_WEIGHT_EMBED : PLUMB_WEIGHT_HEAD;
  b->add_gradients = add;
  ops->upload (context, b->dlog_probs, dlog_probs, n * sizeof (float));
  if (dentropies)
    ops->upload (context, b->dentropies, dentropies, n * sizeof (float));
  else
    ops->zero (context, b->dentropies, n * sizeof (float));
  ops->head_backward (context, b->head_dx, gradient_of (model, gradients, role, -1), add, b->dlog_probs,
                      b->dentropies, b->entropies, b->lse, b->head_in, &model->head, b->targets,
                      b->temperature, n, model->type);
  return blocks_backward (model, b, gradients, error);
}

gboolean
plumb_model_train (PlumbModel *model, PlumbBuffers *b, float *gradients, gboolean add, const gint32 *rows,
                   const gint32 *targets, int n, double temperature, const float *dlog_probs, float *log_probs,
                   float *entropies, GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  struct dev_context *context = model->device->context;
  PlumbWeightRole role = model->config->tied ? PLUMB_WEIGHT_EMBED : PLUMB_WEIGHT_HEAD;
  b->add_gradients = add;
  if (!take_rows (model, b, rows, n, error))
    return FALSE;
  upload (b, b->targets, targets, n);
  ops->upload (context, b->dlog_probs, dlog_probs, n * sizeof (float));
  ops->head_both (context, b->log_probs, b->entropies, b->lse, b->head_dx, gradient_of (model, gradients, role, -1),
                  add, b->dlog_probs, b->head_in, &model->head, b->targets, (float) temperature, n, model->type);
  queue_blocks_backward (model, b, gradients);
  ops->download (context, log_probs, b->log_probs, n * sizeof (float));
  ops->download (context, entropies, b->entropies, n * sizeof (float));
  return plumb_device_check (model->device, error);
}

gboolean
plumb_model_backward_values (PlumbModel *model, PlumbBuffers *b, float *gradients, gboolean add, const float *dvalues,
                             GError **error)
{
  const struct dev_ops *ops = model->device->ops;
  int n = b->head_count;
  b->add_gradients = add;
  ops->upload (model->device->context, b->dlog_probs, dvalues, n * sizeof (float));
  ops->value_backward (model->device->context, b->head_dx,
                       gradient_of (model, gradients, PLUMB_WEIGHT_SCORE, -1), b->dlog_probs, b->head_in,
                       model->score, n, model->config->width, model->type);
  return blocks_backward (model, b, gradients, error);
}
