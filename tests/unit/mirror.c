/* SPDX-License-Identifier: Apache-2.0 */

#include "config.h"

#include <glib.h>
#include <stdlib.h>

#include "tests/unit/mirror.h"

typedef struct
{
  char *host, *device;
  size_t bytes;
  struct dev_arena *arena;
} Block;

static const struct dev_ops *real;
static struct dev_context *open_context;
static GArray *blocks; /* of Block */

void *
mirror_take (size_t bytes)
{
  Block block = { .bytes = bytes };
  block.host = aligned_alloc (DEV_ALIGN, dev_align (bytes ? bytes : 1));
  block.arena = real->arena_reserve (open_context, bytes);
  g_assert_nonnull (block.arena);
  g_assert_cmpint (real->arena_commit (block.arena, 0, bytes), ==, DEV_OK);
  block.device = real->arena_base (block.arena);
  g_array_append_val (blocks, block);
  return block.host;
}

/* Where the device keeps what the host has at this address. */
static void *
there (const void *host)
{
  for (guint i = 0; host && i < blocks->len; i++)
    {
      const Block *block = &g_array_index (blocks, Block, i);
      if ((const char *) host >= block->host && (const char *) host < block->host + MAX (block->bytes, 1))
        return block->device + ((const char *) host - block->host);
    }
  if (host)
    g_error ("an op was given memory that mirror_take did not hand out");
  return NULL;
}

static void
push (void)
{
  for (guint i = 0; i < blocks->len; i++)
    {
      const Block *block = &g_array_index (blocks, Block, i);
      real->upload (open_context, block->device, block->host, block->bytes);
    }
}

static void
pull (void)
{
  char message[256] = "";
  for (guint i = 0; i < blocks->len; i++)
    {
      const Block *block = &g_array_index (blocks, Block, i);
      real->download (open_context, block->host, block->device, block->bytes);
    }
  if (real->status (open_context, message, sizeof message) != DEV_OK)
    g_error ("%s", message);
}

static struct dev_matrix
matrix (const struct dev_matrix *w)
{
  return (struct dev_matrix){ there (w->data), there (w->packed), w->rows, w->cols, there (w->codes),
                              there (w->code_scales) };
}

static struct dev_kv
cache (const struct dev_kv *kv)
{
  return (struct dev_kv){ there (kv->k), there (kv->v), there (kv->k_scales), there (kv->v_scales) };
}

static struct dev_qkv
projection (const struct dev_qkv *qkv)
{
  return (struct dev_qkv){ there (qkv->bias), there (qkv->q_norm),   there (qkv->k_norm),
                           qkv->eps,          there (qkv->rope_cos), there (qkv->rope_sin) };
}

static struct dev_batch
batch_of (const struct dev_batch *from)
{
  struct dev_batch batch = *from;
  batch.positions = there (from->positions);
  batch.query_offsets = there (from->query_offsets);
  batch.contexts = there (from->contexts);
  batch.slots = there (from->slots);
  batch.block_table = there (from->block_table);
  return batch;
}

static void
convert (struct dev_context *c, void *to, enum dev_type to_type, const void *from, enum dev_type from_type, size_t n)
{
  push ();
  real->convert (c, there (to), to_type, there (from), from_type, n);
  pull ();
}

static void
gather_rows (struct dev_context *c, void *to, const void *from, const int32_t *rows, int n, int width,
             enum dev_type type)
{
  push ();
  real->gather_rows (c, there (to), there (from), there (rows), n, width, type);
  pull ();
}

static void
scatter_rows (struct dev_context *c, void *to, const void *from, const int32_t *rows, int n, int width,
              enum dev_type type)
{
  push ();
  real->scatter_rows (c, there (to), there (from), there (rows), n, width, type);
  pull ();
}

static void
take_tokens (struct dev_context *c, int32_t *ids, const int32_t *tokens, const int32_t *source, int n)
{
  push ();
  real->take_tokens (c, there (ids), there (tokens), there (source), n);
  pull ();
}

static void
pack (struct dev_context *c, void *packed, const void *data, int rows, int cols, enum dev_type type)
{
  push ();
  real->pack (c, there (packed), there (data), rows, cols, type);
  pull ();
}

static void
encode (struct dev_context *c, uint8_t *codes, float *scales, const void *data, int rows, int cols, enum dev_type type)
{
  push ();
  real->encode (c, there (codes), there (scales), there (data), rows, cols, type);
  pull ();
}

static void
linear_forward (struct dev_context *c, void *y, const void *x, const struct dev_matrix *w, int t, enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->linear_forward (c, there (y), there (x), &m, t, type);
  pull ();
}

static void
linear_backward (struct dev_context *c, void *dx, float *dw, bool add, const void *dy, const void *x, const struct dev_matrix *w,
                 int t, enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->linear_backward (c, there (dx), there (dw), add, there (dy), there (x), &m, t, type);
  pull ();
}

static void
embed_forward (struct dev_context *c, float *x, const void *table, const int32_t *ids, int t, int width,
               enum dev_type type)
{
  push ();
  real->embed_forward (c, there (x), there (table), there (ids), t, width, type);
  pull ();
}

static void
embed_backward (struct dev_context *c, float *dtable, const float *dx, const int32_t *ids, int t, int width, int fixed)
{
  push ();
  real->embed_backward (c, there (dtable), there (dx), there (ids), t, width, fixed);
  pull ();
}

static void
add_norm_forward (struct dev_context *c, float *sum, void *out, float *rstd, const float *x, const void *delta,
                  const void *weight, float eps, int t, int width, enum dev_type type)
{
  push ();
  real->add_norm_forward (c, there (sum), there (out), there (rstd), there (x), there (delta), there (weight), eps, t,
                          width, type);
  pull ();
}

static void
add_norm_backward (struct dev_context *c, float *dx, void *dx_typed, float *dweight, const void *dout, const float *sum,
                   const float *rstd, const void *weight, int t, int width, enum dev_type type)
{
  push ();
  real->add_norm_backward (c, there (dx), there (dx_typed), there (dweight), there (dout), there (sum), there (rstd),
                           there (weight), t, width, type);
  pull ();
}

static void
qkv_forward (struct dev_context *c, void *q, const struct dev_kv *kv, const void *raw, const struct dev_qkv *qkv,
             const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  struct dev_kv own_cache = cache (kv);
  struct dev_qkv own_qkv = projection (qkv);
  struct dev_batch own_batch = batch_of (batch);
  push ();
  real->qkv_forward (c, there (q), &own_cache, there (raw), &own_qkv, shape, &own_batch, type);
  pull ();
}

static void
qkv_backward (struct dev_context *c, void *draw, float *dbias, float *dq_norm, float *dk_norm, const void *dq,
              const void *dk, const void *dv, const void *raw, const struct dev_qkv *qkv,
              const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  struct dev_qkv own_qkv = projection (qkv);
  struct dev_batch own_batch = batch_of (batch);
  push ();
  real->qkv_backward (c, there (draw), there (dbias), there (dq_norm), there (dk_norm), there (dq), there (dk),
                      there (dv), there (raw), &own_qkv, shape, &own_batch, type);
  pull ();
}

static void
attention_forward (struct dev_context *c, void *out, float *lse, const void *q, const struct dev_kv *kv,
                   const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  struct dev_kv own_cache = cache (kv);
  struct dev_batch own_batch = batch_of (batch);
  push ();
  real->attention_forward (c, there (out), there (lse), there (q), &own_cache, shape, &own_batch, type);
  pull ();
}

static void
attention_backward (struct dev_context *c, void *dq, void *dk, void *dv, const void *dout, const void *out,
                    const float *lse, const void *q, const struct dev_kv *kv, const struct dev_attention *shape,
                    const struct dev_batch *batch, enum dev_type type)
{
  struct dev_kv own_cache = cache (kv);
  struct dev_batch own_batch = batch_of (batch);
  push ();
  real->attention_backward (c, there (dq), there (dk), there (dv), there (dout), there (out), there (lse), there (q),
                            &own_cache, shape, &own_batch, type);
  pull ();
}

static void
swiglu_forward (struct dev_context *c, void *act, const void *gate_up, int t, int width, enum dev_type type)
{
  push ();
  real->swiglu_forward (c, there (act), there (gate_up), t, width, type);
  pull ();
}

static void
swiglu_backward (struct dev_context *c, void *dgate_up, const void *dact, const void *gate_up, int t, int width,
                 enum dev_type type)
{
  push ();
  real->swiglu_backward (c, there (dgate_up), there (dact), there (gate_up), t, width, type);
  pull ();
}

static struct dev_norm
norm_of (const struct dev_norm *n)
{
  return (struct dev_norm){ there (n->sum),   there (n->out),    there (n->rstd), there (n->x),
                            there (n->delta), there (n->weight), n->eps };
}

static void
norm_qkv_forward (struct dev_context *c, const struct dev_norm *norm, void *raw, void *q, const struct dev_kv *kv,
                  const struct dev_matrix *w, const struct dev_qkv *qkv, const struct dev_attention *shape,
                  const struct dev_batch *batch, enum dev_type type)
{
  struct dev_norm own_norm = norm_of (norm);
  struct dev_kv own_cache = cache (kv);
  struct dev_matrix m = matrix (w);
  struct dev_qkv own_qkv = projection (qkv);
  struct dev_batch own_batch = batch_of (batch);
  push ();
  real->norm_qkv_forward (c, &own_norm, there (raw), there (q), &own_cache, &m, &own_qkv, shape, &own_batch, type);
  pull ();
}

static void
norm_swiglu_forward (struct dev_context *c, const struct dev_norm *norm, void *act, void *gate_up,
                     const struct dev_matrix *w, int t, enum dev_type type)
{
  struct dev_norm own_norm = norm_of (norm);
  struct dev_matrix m = matrix (w);
  push ();
  real->norm_swiglu_forward (c, &own_norm, there (act), there (gate_up), &m, t, type);
  pull ();
}

static void
head_forward (struct dev_context *c, float *logp, float *entropy, float *lse, const void *h, const struct dev_matrix *w,
              const int32_t *targets, float temperature, int n, enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->head_forward (c, there (logp), there (entropy), there (lse), there (h), &m, there (targets), temperature, n,
                      type);
  pull ();
}

static void
head_backward (struct dev_context *c, void *dh, float *dw, bool add, const float *dlogp, const float *dentropy,
               const float *entropy, const float *lse, const void *h, const struct dev_matrix *w,
               const int32_t *targets, float temperature, int n, enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->head_backward (c, there (dh), there (dw), add, there (dlogp), there (dentropy), there (entropy), there (lse),
                       there (h), &m, there (targets), temperature, n, type);
  pull ();
}

static void
head_both (struct dev_context *c, float *logp, float *entropy, float *lse, void *dh, float *dw, bool add, const float *dlogp,
           const void *h, const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
           enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->head_both (c, there (logp), there (entropy), there (lse), there (dh), there (dw), add, there (dlogp), there (h), &m,
                   there (targets), temperature, n, type);
  pull ();
}

static void
head_logits (struct dev_context *c, float *logits, const void *h, const struct dev_matrix *w, int n,
             enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  push ();
  real->head_logits (c, there (logits), there (h), &m, n, type);
  pull ();
}

static void
head_sample (struct dev_context *c, int32_t *tokens, float *logp, const void *h, const struct dev_matrix *w,
             const struct dev_sampling *sampling, int n, enum dev_type type)
{
  struct dev_matrix m = matrix (w);
  struct dev_sampling s = *sampling;
  s.random = there (s.random);
  s.forbidden = there (s.forbidden);
  s.ban = there (s.ban);
  s.seen = there (s.seen);
  s.seen_rows = there (s.seen_rows);
  push ();
  real->head_sample (c, there (tokens), there (logp), there (h), &m, &s, n, type);
  pull ();
}

static void
value_forward (struct dev_context *c, float *values, const void *h, const void *weight, int n, int width,
               enum dev_type type)
{
  push ();
  real->value_forward (c, there (values), there (h), there (weight), n, width, type);
  pull ();
}

static void
value_backward (struct dev_context *c, void *dh, float *dweight, const float *dvalues, const void *h,
                const void *weight, int n, int width, enum dev_type type)
{
  push ();
  real->value_backward (c, there (dh), there (dweight), there (dvalues), there (h), there (weight), n, width, type);
  pull ();
}

static void
adamw (struct dev_context *c, void *param, float *master, const float *grad, float *m, float *v, size_t n,
       const struct dev_adamw *a, enum dev_type type)
{
  push ();
  real->adamw (c, there (param), there (master), there (grad), there (m), there (v), n, a, type);
  pull ();
}

static void
square_sum (struct dev_context *c, double *out, const float *x, size_t n)
{
  push ();
  real->square_sum (c, there (out), there (x), n);
  pull ();
}

const struct dev_ops *
mirror_open (const struct dev_ops *backend, size_t workspace, int deterministic, struct dev_context **context,
             char *message, size_t message_size)
{
  static struct dev_ops ops;
  if (backend->open (0, workspace, &open_context, message, message_size) != DEV_OK)
    return NULL;
  real = backend;
  real->set_deterministic (open_context, deterministic);
  blocks = g_array_new (FALSE, FALSE, sizeof (Block));
  ops = *real;
#define OP(name) ops.name = name
  OP (convert);
  OP (gather_rows);
  OP (scatter_rows);
  OP (take_tokens);
  OP (pack);
  OP (encode);
  OP (linear_forward);
  OP (linear_backward);
  OP (embed_forward);
  OP (embed_backward);
  OP (add_norm_forward);
  OP (add_norm_backward);
  OP (qkv_forward);
  OP (qkv_backward);
  OP (attention_forward);
  OP (attention_backward);
  OP (swiglu_forward);
  OP (swiglu_backward);
  OP (norm_qkv_forward);
  OP (norm_swiglu_forward);
  OP (head_forward);
  OP (head_backward);
  OP (head_both);
  OP (head_logits);
  OP (head_sample);
  OP (value_forward);
  OP (value_backward);
  OP (adamw);
  OP (square_sum);
#undef OP
  *context = open_context;
  return &ops;
}

void
mirror_close (struct dev_context *context)
{
  for (guint i = 0; i < blocks->len; i++)
    {
      Block *block = &g_array_index (blocks, Block, i);
      real->arena_free (block->arena);
      free (block->host);
    }
  g_clear_pointer (&blocks, g_array_unref);
  real->close (context);
}
