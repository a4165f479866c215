/* SPDX-License-Identifier: Apache-2.0 */

/* State of the CPU backend: the sticky error, the workspace, and one scratch slice per thread. */

#pragma once

#include "kernels/device.h"

#define CPU_MAX_THREADS 256

/* Work below this many elements stays on one thread: waking the others costs more. A decode step of one sequence
 * then synchronises in its products only. */
#define CPU_PARALLEL_ELEMENTS 8192
#define CPU_HEAD_CHUNK 64  // rows of logits that the head holds at a time
#define CPU_ROW_SCRATCH 16 // rows of scratch that an op may ask for per thread

struct cpu_products; // cache of oneDNN primitives; see product.c

struct dev_context
{
  int status;
  char message[256];
  int threads;
  char *workspace; // chunk logits and per-thread scratch
  size_t workspace_size;
  struct cpu_products *products;
};

/* Records the first error; later ones are consequences. */
void cpu_fail (struct dev_context *, int status, const char *format, ...)
  __attribute__ ((format (printf, 3, 4)));

/* Splits the workspace into one equal slice per thread, each at least `bytes`; NULL with an error where
 * it is too small. Slice i starts at the result + i * *stride. */
char *cpu_thread_scratch (struct dev_context *, size_t bytes, size_t *stride);

/* Bytes of scratch that attention needs per thread. */
size_t cpu_attention_scratch (int max_context, int head_size);

/* The ops, one file each; cpu.c puts them into the table. */
int cpu_open (int, size_t, struct dev_context **, char *, size_t);
void cpu_close (struct dev_context *);
void cpu_info (struct dev_context *, struct dev_info *);
const char *cpu_attention_path (struct dev_context *);
int cpu_status (struct dev_context *, char *, size_t);
size_t cpu_workspace_size (int, int, int, int);
void cpu_range (struct dev_context *, const char *host_name);
void cpu_set_deterministic (struct dev_context *, bool);

struct dev_arena *cpu_arena_reserve (struct dev_context *, size_t);
void *cpu_arena_base (struct dev_arena *);
int cpu_arena_commit (struct dev_arena *, size_t, size_t);
void cpu_arena_decommit (struct dev_arena *, size_t, size_t);
void cpu_arena_free (struct dev_arena *);

void cpu_upload (struct dev_context *, void *, const void *, size_t);
void cpu_download (struct dev_context *, void *, const void *, size_t);
void cpu_download_later (struct dev_context *, void *, const void *, size_t);
void *cpu_host_allocate (struct dev_context *, size_t);
void cpu_host_free (struct dev_context *, void *);
struct dev_mark *cpu_mark_new (struct dev_context *);
void cpu_mark_set (struct dev_context *, struct dev_mark *);
int cpu_mark_wait (struct dev_context *, struct dev_mark *);
void cpu_mark_free (struct dev_mark *);
void cpu_copy (struct dev_context *, void *, const void *, size_t);
void cpu_zero (struct dev_context *, void *, size_t);
void cpu_convert (struct dev_context *, void *, enum dev_type, const void *, enum dev_type, size_t);
void cpu_gather_rows (struct dev_context *, void *, const void *, const int32_t *, int, int,
                      enum dev_type);
void cpu_scatter_rows (struct dev_context *, void *, const void *, const int32_t *, int, int,
                       enum dev_type);
void cpu_take_tokens (struct dev_context *, int32_t *, const int32_t *, const int32_t *, int);
void cpu_record_begin (struct dev_context *);
struct dev_graph *cpu_record_end (struct dev_context *);
void cpu_replay (struct dev_context *, struct dev_graph *);
void cpu_graph_free (struct dev_graph *);

size_t cpu_pack_size (struct dev_context *, int, int, enum dev_type);
void cpu_pack (struct dev_context *, void *, const void *, int, int, enum dev_type);
void cpu_encode (struct dev_context *, uint8_t *, float *, const void *, int, int, enum dev_type);
void cpu_linear_forward (struct dev_context *, void *, const void *, const struct dev_matrix *, int,
                         enum dev_type);
void cpu_linear_backward (struct dev_context *, void *, float *, bool, const void *, const void *,
                          const struct dev_matrix *, int, enum dev_type);
void cpu_embed_forward (struct dev_context *, float *, const void *, const int32_t *, int, int,
                        enum dev_type);
void cpu_embed_backward (struct dev_context *, float *, const float *, const int32_t *, int, int, int);
void cpu_add_norm_forward (struct dev_context *, float *, void *, float *, const float *, const void *,
                           const void *, float, int, int, enum dev_type);
void cpu_add_norm_backward (struct dev_context *, float *, void *, float *, const void *, const float *,
                            const float *, const void *, int, int, enum dev_type);
void cpu_qkv_forward (struct dev_context *, void *, const struct dev_kv *, const void *,
                      const struct dev_qkv *, const struct dev_attention *, const struct dev_batch *,
                      enum dev_type);
void cpu_qkv_backward (struct dev_context *, void *, float *, float *, float *, const void *,
                       const void *, const void *, const void *, const struct dev_qkv *,
                       const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cpu_attention_forward (struct dev_context *, void *, float *, const void *, const struct dev_kv *,
                            const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cpu_attention_backward (struct dev_context *, void *, void *, void *, const void *, const void *,
                             const float *, const void *, const struct dev_kv *,
                             const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cpu_norm_qkv_forward (struct dev_context *, const struct dev_norm *, void *, void *, const struct dev_kv *,
                           const struct dev_matrix *, const struct dev_qkv *, const struct dev_attention *,
                           const struct dev_batch *, enum dev_type);
void cpu_norm_swiglu_forward (struct dev_context *, const struct dev_norm *, void *, void *,
                              const struct dev_matrix *, int, enum dev_type);
void cpu_swiglu_forward (struct dev_context *, void *, const void *, int, int, enum dev_type);
void cpu_swiglu_backward (struct dev_context *, void *, const void *, const void *, int, int,
                          enum dev_type);
void cpu_head_forward (struct dev_context *, float *, float *, float *, const void *,
                       const struct dev_matrix *, const int32_t *, float, int, enum dev_type);
void cpu_head_backward (struct dev_context *, void *, float *, bool, const float *, const float *,
                        const float *, const float *, const void *, const struct dev_matrix *,
                        const int32_t *, float, int, enum dev_type);
void cpu_head_both (struct dev_context *, float *, float *, float *, void *, float *, bool, const float *,
                    const void *, const struct dev_matrix *, const int32_t *, float, int, enum dev_type);
void cpu_head_logits (struct dev_context *, float *, const void *, const struct dev_matrix *, int,
                      enum dev_type);
void cpu_head_sample (struct dev_context *, int32_t *, float *, const void *, const struct dev_matrix *,
                      const struct dev_sampling *, int, enum dev_type);
/* Scales logits z (n) of row `index` and leaves -INFINITY where nothing may be drawn; filter.c. */
void cpu_filter_row (float *z, int n, const struct dev_sampling *, int index);
void cpu_mark_seen (const struct dev_sampling *, int index, int token);
void cpu_value_forward (struct dev_context *, float *, const void *, const void *, int, int,
                        enum dev_type);
void cpu_value_backward (struct dev_context *, void *, float *, const float *, const void *, const void *,
                         int, int, enum dev_type);
void cpu_adamw (struct dev_context *, void *, float *, const float *, float *, float *, size_t,
                const struct dev_adamw *, enum dev_type);
void cpu_square_sum (struct dev_context *, double *, const float *, size_t);
