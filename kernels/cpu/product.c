/* SPDX-License-Identifier: Apache-2.0 */

/* Products by oneDNN, with a cache of primitives.
 *
 * A row of a product must not depend on how many rows the call has: that is what makes rollout and
 * trainer log-probs equal. oneDNN does not promise it, so a self-test at start-up compares rows over
 * several row counts and picks the first path that passes:
 *   direct    one primitive per product;
 *   chunked   k in parts of 512 accumulated in order, rows padded to 16 (AMX needs this for bf16);
 *   portable  our own product.
 * Without bf16 products in hardware, bf16 operands are converted and multiplied in float.
 */

#include "kernels/cpu/product.h"
#include "kernels/cpu/vector.h"

#include <dnnl.h>   // defines: dnnl_matmul_desc_init, dnnl_primitive_execute
#include <stdio.h>  // defines: snprintf
#include <stdlib.h> // defines: aligned_alloc, free, getenv

#define CACHE_SLOTS 8192 // power of two
#define CHUNK_K 512
#define CHUNK_M 16

enum path
{
  PATH_DIRECT,
  PATH_CHUNKED,
  PATH_PORTABLE,
};

static const char *const path_names[] = { "direct", "chunked", "portable" };

struct key
{
  int m, n, k;
  int lda, ldc;
  uint32_t flags;
};

struct entry
{
  struct key key;
  dnnl_primitive_t primitive; // NULL: free slot
  dnnl_memory_t a, b, c, scratch;
};

struct scratch
{
  char *data;
  size_t size;
};

struct cpu_products
{
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  enum path path[2]; // by dev_type
  bool native_bf16;
  struct entry *cache;
  int used;
  struct scratch library;  // oneDNN's own scratchpad, shared by all primitives
  struct scratch operands; // converted operands
  struct scratch padding;  // padded copies of short parts
  char description[64];
};

static void *
scratch_get (struct scratch *s, size_t bytes)
{
  if (bytes > s->size)
    {
      free (s->data);
      s->size = dev_align (bytes + bytes / 4);
      s->data = aligned_alloc (DEV_ALIGN, s->size);
      if (!s->data)
        s->size = 0;
    }
  return s->data;
}

static dnnl_data_type_t
library_type (enum dev_type type)
{
  return type == DEV_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* Memory descriptor of a (rows, columns) matrix, stored transposed where asked. */
static dnnl_status_t
matrix_desc (dnnl_memory_desc_t *desc, int rows, int columns, int ld, bool transposed, enum dev_type type)
{
  dnnl_dims_t dims = { rows, columns };
  dnnl_dims_t strides = { transposed ? 1 : ld, transposed ? ld : 1 };
  return dnnl_memory_desc_init_by_strides (desc, 2, dims, library_type (type), strides);
}

/* The layout of a packed (n, k) matrix: what oneDNN would choose for a large product, the same for every
 * row count. */
static dnnl_status_t
packed_desc (struct cpu_products *self, dnnl_memory_desc_t *desc, int n, int k, enum dev_type type)
{
  dnnl_memory_desc_t a, b, c;
  dnnl_dims_t b_dims = { k, n };
  dnnl_matmul_desc_t op;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_status_t status = matrix_desc (&a, 64, k, k, false, type);
  if (!status)
    status = dnnl_memory_desc_init_by_tag (&b, 2, b_dims, library_type (type), dnnl_format_tag_any);
  if (!status)
    status = matrix_desc (&c, 64, n, n, false, DEV_F32);
  if (!status)
    status = dnnl_matmul_desc_init (&op, &a, &b, NULL, &c);
  if (!status)
    status = dnnl_primitive_desc_create (&pd, &op, NULL, self->engine, NULL);
  if (!status)
    *desc = *dnnl_primitive_desc_query_md (pd, dnnl_query_weights_md, 0);
  if (pd)
    dnnl_primitive_desc_destroy (pd);
  return status;
}

static void
entry_clear (struct entry *e)
{
  if (!e->primitive)
    return;
  dnnl_memory_destroy (e->a);
  dnnl_memory_destroy (e->b);
  dnnl_memory_destroy (e->c);
  dnnl_memory_destroy (e->scratch);
  dnnl_primitive_destroy (e->primitive);
  memset (e, 0, sizeof *e);
}

static dnnl_status_t
make_attributes (dnnl_primitive_attr_t *attr, bool accumulate)
{
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create (attr);
  if (!status)
    status = dnnl_primitive_attr_set_scratchpad_mode (*attr, dnnl_scratchpad_mode_user);
  if (!status && accumulate)
    {
      status = dnnl_post_ops_create (&ops);
      if (!status)
        status = dnnl_post_ops_append_sum (ops, 1.0f);
      if (!status)
        status = dnnl_primitive_attr_set_post_ops (*attr, ops);
      dnnl_post_ops_destroy (ops);
    }
  return status;
}

static dnnl_status_t
entry_build (struct cpu_products *self, struct entry *e, const struct cpu_product *p, int lda, int ldb)
{
  dnnl_memory_desc_t a, b, c;
  dnnl_matmul_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_status_t status = matrix_desc (&a, p->m, p->k, lda, p->a_transposed, p->type);
  if (!status)
    status = p->packed ? packed_desc (self, &b, p->n, p->k, p->type)
                       : matrix_desc (&b, p->k, p->n, ldb, p->b_transposed, p->type);
  if (!status)
    status = matrix_desc (&c, p->m, p->n, p->n, false, p->c_type);
  if (!status)
    status = dnnl_matmul_desc_init (&op, &a, &b, NULL, &c);
  if (!status)
    status = make_attributes (&attr, p->accumulate);
  if (!status)
    status = dnnl_primitive_desc_create (&pd, &op, attr, self->engine, NULL);
  if (!status)
    status = dnnl_primitive_create (&e->primitive, pd);
  if (!status)
    {
      const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md (pd, dnnl_query_scratchpad_md, 0);
      scratch_get (&self->library, dnnl_memory_desc_get_size (scratch));
      dnnl_memory_create (&e->a, &a, self->engine, DNNL_MEMORY_NONE);
      dnnl_memory_create (&e->b, &b, self->engine, DNNL_MEMORY_NONE);
      dnnl_memory_create (&e->c, &c, self->engine, DNNL_MEMORY_NONE);
      dnnl_memory_create (&e->scratch, scratch, self->engine, DNNL_MEMORY_NONE);
      if (!e->a || !e->b || !e->c || !e->scratch)
        status = dnnl_out_of_memory;
    }
  if (attr)
    dnnl_primitive_attr_destroy (attr);
  if (pd)
    dnnl_primitive_desc_destroy (pd);
  return status;
}

static uint32_t
key_hash (const struct key *key)
{
  const uint32_t *words = (const uint32_t *) key;
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < sizeof *key / sizeof *words; i++)
    hash = (hash ^ words[i]) * 16777619u;
  return hash ^ hash >> 15;
}

static struct entry *
cache_find (struct cpu_products *self, const struct cpu_product *p, int lda, int ldb,
            dnnl_status_t *status)
{
  struct key key = { p->m, p->n, p->k, lda, ldb, 0 };
  key.flags = (uint32_t) p->type | (uint32_t) p->c_type << 2 | (uint32_t) p->a_transposed << 4
              | (uint32_t) p->b_transposed << 5 | (uint32_t) p->accumulate << 6
              | (uint32_t) p->packed << 7;
  uint32_t slot = key_hash (&key) & (CACHE_SLOTS - 1);
  while (self->cache[slot].primitive)
    {
      if (!memcmp (&self->cache[slot].key, &key, sizeof key))
        return &self->cache[slot];
      slot = (slot + 1) & (CACHE_SLOTS - 1);
    }
  if (self->used >= CACHE_SLOTS / 2)
    {
      for (int i = 0; i < CACHE_SLOTS; i++)
        entry_clear (&self->cache[i]);
      self->used = 0;
      slot = key_hash (&key) & (CACHE_SLOTS - 1);
    }
  struct entry *e = &self->cache[slot];
  *status = entry_build (self, e, p, lda, ldb);
  if (*status)
    {
      entry_clear (e);
      memset (e, 0, sizeof *e);
      return NULL;
    }
  e->key = key;
  self->used++;
  return e;
}

/* One call of the library: the product as it stands, with leading dimensions lda and ldb. */
static dnnl_status_t
execute (struct cpu_products *self, const struct cpu_product *p, void *c, const void *a, int lda,
         const void *b, int ldb)
{
  dnnl_status_t status = dnnl_success;
  struct entry *e = cache_find (self, p, lda, ldb, &status);
  if (!e)
    return status;
  dnnl_memory_set_data_handle (e->a, (void *) a);
  dnnl_memory_set_data_handle (e->b, (void *) b);
  dnnl_memory_set_data_handle (e->c, c);
  dnnl_memory_set_data_handle (e->scratch, self->library.data);
  dnnl_exec_arg_t args[] = {
    { DNNL_ARG_SRC, e->a },
    { DNNL_ARG_WEIGHTS, e->b },
    { DNNL_ARG_DST, e->c },
    { DNNL_ARG_SCRATCHPAD, e->scratch },
  };
  return dnnl_primitive_execute (e->primitive, self->stream, 4, args);
}

/* Length of the next part of a dimension. Ragged batches have every length, and each length of each shape is a
 * primitive with code of its own; so there are few: parts of these sizes, and a rest that is padded. */
static int
next_part (int left)
{
  static const int sizes[] = { 1024, 256, 64 };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (left >= sizes[i])
      return sizes[i];
  return left;
}

/* The padded length of a part: 1, 2, 4, then multiples of 8. */
static int
padded_part (int part)
{
  return part <= 2 ? part : part <= 4 ? 4 : (part + 7) / 8 * 8;
}

/* `count` elements followed by zeros up to `padded`. */
static void
copy_padded (char *to, const void *from, size_t count, size_t padded, enum dev_type type)
{
  size_t size = dev_type_size (type);
  memcpy (to, from, count * size);
  memset (to + count * size, 0, (padded - count) * size);
}

/* Rows of a and c through padded copies. */
static dnnl_status_t
execute_padded_rows (struct cpu_products *self, const struct cpu_product *p, void *c, const void *a,
                     const void *b, int ldb)
{
  struct cpu_product whole = *p;
  whole.m = padded_part (p->m);
  if (whole.m == p->m)
    return execute (self, p, c, a, p->k, b, ldb);
  size_t a_bytes = dev_align ((size_t) whole.m * p->k * dev_type_size (p->type));
  size_t c_bytes = dev_align ((size_t) whole.m * p->n * dev_type_size (p->c_type));
  char *scratch = scratch_get (&self->padding, a_bytes + c_bytes);
  if (!scratch)
    return dnnl_out_of_memory;
  copy_padded (scratch, a, (size_t) p->m * p->k, (size_t) whole.m * p->k, p->type);
  if (p->accumulate)
    copy_padded (scratch + a_bytes, c, (size_t) p->m * p->n, (size_t) whole.m * p->n, p->c_type);
  dnnl_status_t status = execute (self, &whole, scratch + a_bytes, scratch, p->k, b, ldb);
  memcpy (c, scratch + a_bytes, (size_t) p->m * p->n * dev_type_size (p->c_type));
  return status;
}

/* Sum over k = tokens, a stored (k, m) and b (k, n): zero rows add nothing. */
static dnnl_status_t
execute_padded_sum (struct cpu_products *self, const struct cpu_product *p, void *c, const void *a,
                    const void *b)
{
  struct cpu_product whole = *p;
  whole.k = padded_part (p->k);
  if (whole.k == p->k)
    return execute (self, p, c, a, p->m, b, p->n);
  size_t a_bytes = dev_align ((size_t) whole.k * p->m * dev_type_size (p->type));
  size_t b_bytes = dev_align ((size_t) whole.k * p->n * dev_type_size (p->type));
  char *scratch = scratch_get (&self->padding, a_bytes + b_bytes);
  if (!scratch)
    return dnnl_out_of_memory;
  copy_padded (scratch, a, (size_t) p->k * p->m, (size_t) whole.k * p->m, p->type);
  copy_padded (scratch + a_bytes, b, (size_t) p->k * p->n, (size_t) whole.k * p->n, p->type);
  return execute (self, &whole, c, scratch, p->m, scratch + a_bytes, p->n);
}

static dnnl_status_t
multiply_direct (struct cpu_products *self, const struct cpu_product *p, void *c, const void *a,
                 const void *b)
{
  struct cpu_product part = *p;
  dnnl_status_t status = dnnl_success;
  int ldb = p->b_transposed ? p->k : p->n;
  if (p->a_transposed)
    {
      for (int done = 0; done < p->k && !status; done += part.k)
        {
          part.k = next_part (p->k - done);
          part.accumulate = p->accumulate || done > 0;
          status = execute_padded_sum (self, &part, c, typed_at (a, (size_t) done * p->m, p->type),
                                       typed_at (b, (size_t) done * p->n, p->type));
        }
      return status;
    }
  for (int done = 0; done < p->m && !status; done += part.m)
    {
      part.m = next_part (p->m - done);
      status = execute_padded_rows (self, &part, typed_at_mut (c, (size_t) done * p->n, p->c_type),
                                    typed_at (a, (size_t) done * p->k, p->type), b, ldb);
    }
  return status;
}

/* k in parts accumulated in order, rows padded to a multiple of CHUNK_M with zeros. */
static dnnl_status_t
multiply_chunked (struct cpu_products *self, const struct cpu_product *p, void *c, const void *a,
                  const void *b)
{
  if (p->a_transposed)
    return multiply_direct (self, p, c, a, b);
  int rows = (p->m + CHUNK_M - 1) / CHUNK_M * CHUNK_M;
  size_t a_bytes = dev_align ((size_t) rows * p->k * dev_type_size (p->type));
  size_t c_bytes = dev_align ((size_t) rows * p->n * sizeof (float));
  char *scratch = scratch_get (&self->operands, a_bytes + c_bytes);
  if (!scratch)
    return dnnl_out_of_memory;
  size_t a_real = (size_t) p->m * p->k * dev_type_size (p->type);
  memcpy (scratch, a, a_real);
  memset (scratch + a_real, 0, a_bytes - a_real);
  float *sum = (float *) (scratch + a_bytes);
  struct cpu_product part = *p;
  part.m = rows;
  part.c_type = DEV_F32;
  dnnl_status_t status = dnnl_success;
  int ldb = p->b_transposed ? p->k : p->n;
  for (int done = 0; done < p->k && !status; done += part.k)
    {
      part.k = p->k - done < CHUNK_K ? p->k - done : CHUNK_K;
      part.accumulate = done > 0;
      size_t b_offset = p->b_transposed ? (size_t) done : (size_t) done * p->n;
      status = execute (self, &part, sum, typed_at (scratch, done, p->type), p->k,
                        typed_at (b, b_offset, p->type), ldb);
    }
  for (size_t i = 0; i < (size_t) p->m && p->accumulate; i++)
    for (int j = 0; j < p->n; j++)
      ((float *) c)[i * p->n + j] += sum[i * p->n + j];
  if (!p->accumulate)
    cpu_row_store (c, sum, (size_t) p->m * p->n, p->c_type);
  return status;
}

/* Operands as float, then the product in float, then c in its own type. */
static dnnl_status_t
multiply_in_float (struct dev_context *context, struct cpu_products *self, const struct cpu_product *p,
                   void *c, const void *a, const void *b)
{
  size_t a_count = (size_t) p->m * p->k, b_count = (size_t) p->k * p->n, c_count = (size_t) p->m * p->n;
  bool convert = p->type == DEV_BF16;
  size_t a_bytes = convert ? dev_align (a_count * 4) : 0;
  size_t b_bytes = convert ? dev_align (b_count * 4) : 0;
  size_t c_bytes = p->c_type == DEV_BF16 ? dev_align (c_count * 4) : 0;
  size_t panel_bytes = dev_align ((size_t) p->k * 16 * sizeof (float) * context->threads);
  char *scratch = scratch_get (&self->operands, a_bytes + b_bytes + c_bytes + panel_bytes);
  if (!scratch)
    return dnnl_out_of_memory;
  const float *fa = a, *fb = b;
  float *fc = c_bytes ? (float *) (scratch + a_bytes + b_bytes) : c;
  if (convert)
    {
      cpu_convert (context, scratch, DEV_F32, a, DEV_BF16, a_count);
      cpu_convert (context, scratch + a_bytes, DEV_F32, b, DEV_BF16, b_count);
      fa = (const float *) scratch;
      fb = (const float *) (scratch + a_bytes);
    }
  struct cpu_product in_float = *p;
  in_float.type = in_float.c_type = DEV_F32;
  dnnl_status_t status = dnnl_success;
  if (self->path[DEV_F32] == PATH_DIRECT)
    status = multiply_direct (self, &in_float, fc, fa, fb);
  else
    cpu_portable_multiply (&in_float, fc, fa, fb,
                           (float *) (scratch + a_bytes + b_bytes + c_bytes), context->threads);
  if (!status && c_bytes)
    cpu_convert (context, c, DEV_BF16, fc, DEV_F32, c_count);
  return status;
}

static dnnl_status_t
multiply_on_path (struct dev_context *context, struct cpu_products *self, enum path path,
                  const struct cpu_product *p, void *c, const void *a, const void *b)
{
  if (path == PATH_PORTABLE)
    return multiply_in_float (context, self, p, c, a, b);
  return path == PATH_DIRECT ? multiply_direct (self, p, c, a, b)
                             : multiply_chunked (self, p, c, a, b);
}

void
cpu_multiply (struct dev_context *context, const struct cpu_product *p, void *c, const void *a,
              const void *b)
{
  if (context->status || p->m == 0)
    return;
  struct cpu_products *self = context->products;
  dnnl_status_t status = multiply_on_path (context, self, self->path[p->type], p, c, a, b);
  if (status)
    cpu_fail (context, status == dnnl_out_of_memory ? DEV_NO_MEMORY : DEV_FAILED,
              "oneDNN status %d in a product of %d x %d x %d (%s)", status, p->m, p->n, p->k,
              p->type == DEV_BF16 ? "bf16" : "fp32");
}

/* Whether rows of (m, k) x (n, k)^T are the same for every m tried. */
static bool
rows_agree (struct dev_context *context, struct cpu_products *self, enum path path, enum dev_type type,
            int n, int k)
{
  static const int row_counts[] = { 1, 2, 7, 16, 31, 64, 128 };
  const int most = 200;
  size_t size = dev_type_size (type);
  char *a = aligned_alloc (DEV_ALIGN, dev_align (most * k * size));
  char *b = aligned_alloc (DEV_ALIGN, dev_align ((size_t) n * k * size));
  float *all = aligned_alloc (DEV_ALIGN, dev_align ((size_t) most * n * sizeof (float)));
  float *few = aligned_alloc (DEV_ALIGN, dev_align ((size_t) most * n * sizeof (float)));
  bool agree = a && b && all && few;
  uint32_t state = 12345;
  for (size_t i = 0; agree && i < (size_t) (most + n) * k; i++)
    {
      state = state * 1664525u + 1013904223u;
      float value = (float) (state >> 8) / 16777216.0f - 0.5f;
      size_t at = i < (size_t) most * k ? i : i - (size_t) most * k;
      cpu_row_store ((i < (size_t) most * k ? a : b) + at * size, &value, 1, type);
    }
  struct cpu_product p = { most, n, k, type, DEV_F32, false, true, false, false };
  if (agree)
    agree = !multiply_on_path (context, self, path, &p, all, a, b);
  for (size_t i = 0; agree && i < sizeof row_counts / sizeof *row_counts; i++)
    {
      p.m = row_counts[i];
      agree = !multiply_on_path (context, self, path, &p, few, a, b)
              && !memcmp (few, all, (size_t) p.m * n * sizeof (float));
    }
  free (a);
  free (b);
  free (all);
  free (few);
  return agree;
}

static bool
path_passes (struct dev_context *context, struct cpu_products *self, enum path path, enum dev_type type)
{
  static const int shapes[][2] = { { 128, 64 }, { 260, 128 }, { 128, 384 }, { 1152, 576 }, { 576, 1536 } };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (!rows_agree (context, self, path, type, shapes[i][0], shapes[i][1]))
      return false;
  return true;
}

static bool
has_native_bf16 (void)
{
  return __builtin_cpu_supports ("avx512bf16");
}

/* First path that keeps rows apart from their number; PLUMB_PRODUCT_PATH forces one, for tests. */
static enum path
choose_path (struct dev_context *context, struct cpu_products *self, enum dev_type type)
{
  const char *forced = getenv ("PLUMB_PRODUCT_PATH");
  for (int i = 0; forced && i < 3; i++)
    if (!strcmp (forced, path_names[i]))
      return (enum path) i;
  if (type == DEV_BF16 && !self->native_bf16)
    return PATH_PORTABLE;
  if (path_passes (context, self, PATH_DIRECT, type))
    return PATH_DIRECT;
  if (type == DEV_BF16 && path_passes (context, self, PATH_CHUNKED, type))
    return PATH_CHUNKED;
  return PATH_PORTABLE;
}

struct cpu_products *
cpu_products_new (struct dev_context *context)
{
  struct cpu_products *self = calloc (1, sizeof *self);
  if (!self)
    return NULL;
  self->cache = calloc (CACHE_SLOTS, sizeof *self->cache);
  if (!self->cache || dnnl_engine_create (&self->engine, dnnl_cpu, 0)
      || dnnl_stream_create (&self->stream, self->engine, dnnl_stream_default_flags))
    {
      cpu_products_free (self);
      return NULL;
    }
  self->native_bf16 = has_native_bf16 ();
  self->path[DEV_F32] = choose_path (context, self, DEV_F32);
  self->path[DEV_BF16] = choose_path (context, self, DEV_BF16);
  snprintf (self->description, sizeof self->description, "fp32 %s, bf16 %s",
            path_names[self->path[DEV_F32]],
            self->native_bf16 ? path_names[self->path[DEV_BF16]] : "in fp32");
  return self;
}

void
cpu_products_free (struct cpu_products *self)
{
  if (!self)
    return;
  for (int i = 0; self->cache && i < CACHE_SLOTS; i++)
    entry_clear (&self->cache[i]);
  free (self->cache);
  free (self->library.data);
  free (self->operands.data);
  free (self->padding.data);
  if (self->stream)
    dnnl_stream_destroy (self->stream);
  if (self->engine)
    dnnl_engine_destroy (self->engine);
  free (self);
}

const char *
cpu_products_path (const struct cpu_products *self)
{
  return self->description;
}

bool
cpu_products_native_bf16 (const struct cpu_products *self)
{
  return self->native_bf16;
}

/* Packed copies serve the direct path; the others read the plain matrix. */
size_t
cpu_pack_size (struct dev_context *context, int rows, int cols, enum dev_type type)
{
  struct cpu_products *self = context->products;
  dnnl_memory_desc_t desc;
  if (self->path[type] != PATH_DIRECT || (type == DEV_BF16 && !self->native_bf16)
      || packed_desc (self, &desc, rows, cols, type))
    return 0;
  return dnnl_memory_desc_get_size (&desc);
}

void
cpu_pack (struct dev_context *context, void *packed, const void *data, int rows, int cols,
          enum dev_type type)
{
  struct cpu_products *self = context->products;
  dnnl_memory_desc_t from, to;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_t reorder = NULL;
  dnnl_memory_t source = NULL, target = NULL;
  dnnl_status_t status = matrix_desc (&from, cols, rows, cols, true, type);
  if (!status)
    status = packed_desc (self, &to, rows, cols, type);
  if (!status)
    status = dnnl_reorder_primitive_desc_create (&pd, &from, self->engine, &to, self->engine, NULL);
  if (!status)
    status = dnnl_primitive_create (&reorder, pd);
  if (!status)
    status = dnnl_memory_create (&source, &from, self->engine, (void *) data);
  if (!status)
    status = dnnl_memory_create (&target, &to, self->engine, packed);
  if (!status)
    {
      dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, source }, { DNNL_ARG_TO, target } };
      status = dnnl_primitive_execute (reorder, self->stream, 2, args);
      dnnl_stream_wait (self->stream);
    }
  if (status)
    cpu_fail (context, DEV_FAILED, "oneDNN status %d while packing a %d x %d matrix", status, rows, cols);
  if (source)
    dnnl_memory_destroy (source);
  if (target)
    dnnl_memory_destroy (target);
  if (reorder)
    dnnl_primitive_destroy (reorder);
  if (pd)
    dnnl_primitive_desc_destroy (pd);
}
