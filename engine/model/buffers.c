/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/model/buffers.h"

const char *const plumb_recompute_names[PLUMB_N_RECOMPUTE + 1] = { "none", "selective", "full", NULL };

/* Cuts the buffers of a block. What is recomputed is taken from `first`, the first block's (NULL: this is the first). */
static void
cut_block (PlumbBlockBuffers *block, const PlumbBlockBuffers *first, PlumbCutter *cutter, const PlumbModelConfig *c,
           enum dev_type type, const PlumbBufferPlan *plan)
{
  gsize t = (gsize) plan->tokens, size = dev_type_size (type), width = c->width;
  gsize q = (gsize) c->heads * c->head_size, kv = (gsize) c->groups * c->head_size;
  gboolean selective = plan->recompute == PLUMB_RECOMPUTE_SELECTIVE;
  if (first)
    *block = *first;
  block->sum1 = plumb_cut (cutter, t * width * sizeof (float));
  block->rstd1 = plumb_cut (cutter, t * sizeof (float));
  if (first && plan->recompute == PLUMB_RECOMPUTE_FULL)
    return;
  /* Only the norms of queries and keys need the raw projections again. */
  if (!first || c->qk_norm)
    block->raw = plumb_cut (cutter, t * (q + 2 * kv) * size);
  block->q = plumb_cut (cutter, t * q * size);
  block->attended = plumb_cut (cutter, t * q * size);
  block->lse = plumb_cut (cutter, t * (gsize) c->heads * sizeof (float));
  block->kv.k = plumb_cut (cutter, t * kv * size);
  block->kv.v = plumb_cut (cutter, t * kv * size);
  block->sum2 = plumb_cut (cutter, t * width * sizeof (float));
  block->rstd2 = plumb_cut (cutter, t * sizeof (float));
  block->gate_up = plumb_cut (cutter, t * 2 * (gsize) c->mlp * size);
  if (first && selective)
    return;
  block->norm1 = plumb_cut (cutter, t * width * size);
  block->norm2 = plumb_cut (cutter, t * width * size);
  block->act = plumb_cut (cutter, t * (gsize) c->mlp * size);
}

static void
cut_gradient (PlumbGradientBuffers *g, PlumbCutter *cutter, const PlumbModelConfig *c, enum dev_type type,
              gsize t)
{
  gsize size = dev_type_size (type), width = c->width;
  gsize q = (gsize) c->heads * c->head_size, kv = (gsize) c->groups * c->head_size;
  g->dx = plumb_cut (cutter, t * width * sizeof (float));
  g->dx_typed = plumb_cut (cutter, t * width * size);
  g->dwidth = plumb_cut (cutter, t * width * size);
  g->dact = plumb_cut (cutter, t * (gsize) c->mlp * size);
  g->dgate_up = plumb_cut (cutter, t * 2 * (gsize) c->mlp * size);
  g->dattended = plumb_cut (cutter, t * q * size);
  g->dq = plumb_cut (cutter, t * q * size);
  g->dk = plumb_cut (cutter, t * kv * size);
  g->dv = plumb_cut (cutter, t * kv * size);
  g->draw = plumb_cut (cutter, t * (q + 2 * kv) * size);
}

/* Most bytes of the description of a pass: ids, positions, slots and sources of tokens; offsets, contexts and pages of
 * sequences; rows, random counters, bans and rows of the seen ids of what is sampled. */
static gsize
description_bytes (const PlumbBufferPlan *plan)
{
  gsize t = (gsize) plan->tokens, s = (gsize) plan->sequences;
  gsize head = (gsize) (plan->head_rows ? plan->head_rows : plan->tokens);
  return 4 * dev_align (t * sizeof (gint32)) + dev_align ((s + 1) * sizeof (gint32)) + dev_align (s * sizeof (gint32))
         + dev_align (s * (gsize) plan->table_stride * sizeof (gint32)) + 2 * dev_align (head * sizeof (gint32))
         + dev_align (head * sizeof (struct dev_random)) + dev_align (head);
}

static void
cut_buffers (PlumbBuffers *b, PlumbCutter *cutter, const PlumbModelConfig *c, enum dev_type type)
{
  gsize t = (gsize) b->plan.tokens, size = dev_type_size (type);
  gsize head = (gsize) (b->plan.head_rows ? b->plan.head_rows : b->plan.tokens), width = c->width;
  for (int i = 0; i < b->blocks; i++)
    cut_block (&b->block[i], i > 0 ? &b->block[0] : NULL, cutter, c, type, &b->plan);
  if (b->plan.training)
    cut_gradient (&b->gradient, cutter, c, type, t);
  b->delta = plumb_cut (cutter, t * width * size);
  b->sum_final = plumb_cut (cutter, t * width * sizeof (float));
  b->rstd_final = plumb_cut (cutter, t * sizeof (float));
  b->hidden = plumb_cut (cutter, t * width * size);
  b->head_in = plumb_cut (cutter, head * width * size);
  b->head_dx = b->plan.training ? plumb_cut (cutter, head * width * size) : NULL;
  float **floats[] = { &b->log_probs, &b->entropies, &b->lse, &b->dlog_probs, &b->dentropies };
  for (gsize i = 0; i < G_N_ELEMENTS (floats); i++)
    *floats[i] = plumb_cut (cutter, head * sizeof (float));
  b->description = plumb_cut (cutter, description_bytes (&b->plan));
  b->rows = plumb_cut (cutter, head * sizeof (gint32));
  b->targets = plumb_cut (cutter, head * sizeof (gint32));
  b->forbidden = plumb_cut (cutter, PLUMB_MAX_FORBIDDEN * sizeof (gint32));
  b->tokens = plumb_cut (cutter, head * sizeof (gint32));
  b->token_log_probs = plumb_cut (cutter, head * sizeof (float));
}

static PlumbBuffers *
buffers_alloc (const PlumbModelConfig *config, const PlumbBufferPlan *plan)
{
  PlumbBuffers *buffers = g_new0 (PlumbBuffers, 1);
  buffers->plan = *plan;
  buffers->blocks = plan->training ? config->layers : 1;
  buffers->block = g_new0 (PlumbBlockBuffers, buffers->blocks);
  return buffers;
}

gsize
plumb_buffers_bytes (const PlumbModelConfig *config, enum dev_type type, const PlumbBufferPlan *plan)
{
  PlumbBuffers *buffers = buffers_alloc (config, plan);
  PlumbCutter cutter = { NULL, 0 };
  cut_buffers (buffers, &cutter, config, type);
  plumb_buffers_free (buffers);
  return cutter.used;
}

PlumbBuffers *
plumb_buffers_new (PlumbModel *model, const PlumbBufferPlan *plan, GError **error)
{
  g_autoptr (PlumbBuffers) buffers = buffers_alloc (model->config, plan);
  gsize bytes = plumb_buffers_bytes (model->config, model->type, plan);
  buffers->device = model->device;
  buffers->bytes = bytes;
  buffers->arena = plumb_device_allocate (model->device, bytes, "activations", error);
  if (!buffers->arena)
    return NULL;
  PlumbCutter cutter = { model->device->ops->arena_base (buffers->arena), 0 };
  cut_buffers (buffers, &cutter, model->config, model->type);
  buffers->host_description = g_malloc0 (description_bytes (plan));
  return g_steal_pointer (&buffers);
}

void
plumb_buffers_sleep (PlumbBuffers *buffers)
{
  if (!buffers->asleep)
    plumb_device_sleep (buffers->device, buffers->arena, buffers->bytes);
  buffers->asleep = TRUE;
}

gboolean
plumb_buffers_wake (PlumbBuffers *buffers, GError **error)
{
  if (buffers->asleep && !plumb_device_wake (buffers->device, buffers->arena, buffers->bytes, "activations", error))
    return FALSE;
  buffers->asleep = FALSE;
  return TRUE;
}

void
plumb_buffers_free (PlumbBuffers *buffers)
{
  if (!buffers)
    return;
  if (buffers->device)
    buffers->device->ops->arena_free (buffers->arena);
  g_free (buffers->block);
  g_free (buffers->host_description);
  g_free (buffers);
}
