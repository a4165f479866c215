/* SPDX-License-Identifier: Apache-2.0 */

/* The device layer: one versioned table of ops that a backend exports and everything above calls.
 *
 * Rules that every backend keeps:
 * - A pointer argument is a device pointer unless its name starts with `host_`. The CPU backend's
 *   device memory is ordinary memory, but callers never rely on it.
 * - Shapes stand beside pointers; matrices are row-major with a leading dimension where it may differ.
 * - `type` is the storage type of activations and weights (DEV_F32 or DEV_BF16). Statistics, the
 *   residual stream, log-probs and gradients of weights are always float.
 * - Ops are queued in order. None allocates: scratch comes from the workspace given to `open`.
 * - Errors are sticky: after the first one every op of the context does nothing, and `status`, asked
 *   at a synchronisation point, returns its code and message. So a forward pass needs one check.
 * - Row results never depend on how many rows a call has (batch invariance; on a GPU in deterministic mode
 *   only), and reductions over rows are repeatable for equal shapes.
 */

#pragma once

#include <stdbool.h> // defines: bool
#include <stddef.h>  // defines: size_t
#include <stdint.h>  // defines: int32_t, uint32_t, uint64_t

#ifdef __cplusplus
extern "C" {
#endif

/* Rises with every change of meaning; a change of layout is found by DEV_LAYOUT, too. */
#define DEV_VERSION 8u

/* Keys are visited in tiles of this many; a page of the KV cache is a multiple of it, so paged and
 * contiguous keys give equal bits. */
#define DEV_KEY_TILE 16

/* Arena offsets of weights and buffers are multiples of this many bytes. */
#define DEV_ALIGN 256

enum dev_type
{
  DEV_F32 = 0,
  DEV_BF16 = 1,
};

static inline size_t
dev_type_size (enum dev_type type)
{
  return type == DEV_BF16 ? 2 : 4;
}

static inline size_t
dev_align (size_t bytes)
{
  return (bytes + DEV_ALIGN - 1) / DEV_ALIGN * DEV_ALIGN;
}

enum dev_status
{
  DEV_OK = 0,
  DEV_NO_MEMORY = 1,   // an arena or the workspace is too small, or the system refused memory
  DEV_UNSUPPORTED = 2, // a shape or type that this backend does not implement
  DEV_FAILED = 3,      // a library or the device failed
};

struct dev_context; // device, stream, workspace, caches; opaque
struct dev_arena;   // a reserved address range, committed in parts; never moves
struct dev_graph;   // a recorded sequence of ops
struct dev_mark;    // a place in the queue that the host can wait for

struct dev_info
{
  char name[128];
  int cores;                 // CPU threads in use, or multiprocessors
  uint64_t memory_total;     // bytes
  uint64_t memory_available; // bytes, now
  bool native_bf16;          // bf16 products run in hardware
  bool asynchronous;         // ops run beside the host: it pays to queue ahead and to replay recorded ops
  char matmul_path[64];      // which product path the start-up self-test chose
};

/* One layer's keys and values. Row r of `k` is (groups, head_size); rows are addressed by slot. With scales (both or none) the
 * elements are e4m3 codes of one byte, and each stands for its code times the scale of its row and group: qkv_forward
 * writes them so and attention_forward reads them, attention_backward does not. */
struct dev_kv
{
  void *k;         // (rows, groups, head_size) of type, or codes
  void *v;         // (rows, groups, head_size) of type, or codes
  float *k_scales; // (rows, groups) or NULL
  float *v_scales; // (rows, groups) or NULL
};

/* Which tokens a call processes. Sequences lie end to end; sequence s owns the query rows
 * query_offsets[s] .. query_offsets[s+1], whose positions are the last ones of its context. */
struct dev_batch
{
  int tokens;                   // T, query rows of the whole batch
  int sequences;                // S
  int max_context;              // greatest context length, for scratch
  const int32_t *positions;     // (T) position of each token in its sequence
  const int32_t *query_offsets; // (S + 1)
  const int32_t *contexts;      // (S) context length after this call, in tokens
  const int32_t *slots;         // (T) KV row of each token; NULL: row t (contiguous)
  const int32_t *block_table;   // (S, table_stride) pages of each sequence; NULL: contiguous
  int table_stride;
  int page_tokens; // tokens of a page; a multiple of DEV_KEY_TILE
};

/* Shape of one attention layer. */
struct dev_attention
{
  int heads;     // H query heads
  int groups;    // G key/value heads; H is a multiple of G
  int head_size; // D
  int window;    // sliding window in tokens, 0 = none: position p sees keys p-window+1 .. p
  float scale;   // factor of the scores, 1 / sqrt (D)
  float soft_cap; // scaled scores s become soft_cap tanh (s / soft_cap), 0: they stay (Gemma Team 2024)
};

/* What turns the raw projections into queries, keys and values. */
struct dev_qkv
{
  const void *bias;      // ((H + 2 G) D) of type, or NULL
  const void *q_norm;    // (D) of type, or NULL
  const void *k_norm;    // (D) of type, or NULL
  float eps;             // of the q and k norms
  const float *rope_cos; // (positions, D / 2)
  const float *rope_sin; // (positions, D / 2)
};

/* A residual addition with its norm, as add_norm_forward takes it. */
struct dev_norm
{
  float *sum;         // (T, width)
  void *out;          // (T, width) of type
  float *rstd;        // (T)
  const float *x;     // (T, width)
  const void *delta;  // (T, width) of type, or NULL
  const void *weight; // (width) of type
  float eps;
};

/* A weight matrix of a linear layer, y = x W^T. `packed` is a copy in the backend's own layout made by
 * `pack`, or NULL; it never changes a result, only the time. With codes (both or none) the forward products may use code times
 * scale of its row in place of data, rounded to the type or not, and the CPU and the reference always do; the backward ones do
 * not. A GPU, outside deterministic mode, takes whichever of codes and data is faster for so many rows; from two rows on in
 * bf16 it may then make codes of x, too, in the same way: row by row, each element within 1/16 of itself, or 2^-10 of the
 * row's scale where that is more. All other inputs are exact. */
struct dev_matrix
{
  const void *data; // (rows, cols) of type
  const void *packed;
  int rows; // outputs
  int cols; // inputs
  const uint8_t *codes;     // (rows, cols) of e4m3, or NULL
  const float *code_scales; // (rows) or NULL
};

/* One AdamW update (Loshchilov and Hutter 2019, decoupled decay). */
struct dev_adamw
{
  float learning_rate;
  float beta1, beta2, epsilon, weight_decay;
  float correction1, correction2; // 1 - beta^t
  float gradient_scale;           // factor applied to each gradient first (clipping)
};

/* Counter of Philox4x32-10 for one sampled token: words 0 to 2; word 3 is the vocabulary index / 4. */
struct dev_random
{
  uint32_t counter[3];
};

/* How tokens are drawn from n rows of logits: repetition penalty, temperature, top-k, top-p and min-p, in this order. A
 * filter that is 0 does nothing. */
struct dev_sampling
{
  float temperature; // 0: the first greatest logit
  int top_k;         // the greatest so many, and what equals the last of them
  float top_p;       // the greatest that together reach this share
  float min_p;       // those of at least this share of the greatest
  uint64_t seed;
  const struct dev_random *random; // (n)
  const int32_t *forbidden;        // ids that rows with ban[i] != 0 do not get; at most 64, or NULL
  int n_forbidden;
  const uint8_t *ban; // (n) or NULL
  /* Logits of ids that were seen are divided by the penalty where positive, else multiplied. Row seen_rows[i] of `seen`
   * has a bit per id, and gains the one that is drawn; NULL: no penalty. */
  float repetition_penalty;
  uint32_t *seen;           // (rows, seen_stride)
  const int32_t *seen_rows; // (n); different, but for rows whose tokens nobody wants
  int seen_stride;          // words of 32 ids
};

static inline bool
dev_sampling_is_filtered (const struct dev_sampling *s)
{
  return s->top_k > 0 || (s->top_p > 0 && s->top_p < 1) || s->min_p > 0 || s->seen;
}

struct dev_ops
{
  uint32_t version; // DEV_VERSION
  uint32_t layout;  // DEV_LAYOUT
  const char *name; // "cpu", "cuda"

  /* Opens device `ordinal` with a workspace of `workspace` bytes. On failure returns a status and writes
   * a sentence to host_message. */
  int (*open) (int ordinal, size_t workspace, struct dev_context **context, char *host_message,
               size_t message_size);
  void (*close) (struct dev_context *);
  void (*info) (struct dev_context *, struct dev_info *host_info);
  /* What computes attention of whole sequences, and why: a sentence, "" where there is no choice. It may open a library. */
  const char *(*attention_path) (struct dev_context *);
  /* Waits for the queue; returns the sticky status and its message. */
  int (*status) (struct dev_context *, char *host_message, size_t message_size);
  /* Smallest workspace in bytes that serves the head over `vocabulary` entries, attention over
   * `max_context` keys of `head_size`, and rows of at most `width` elements. */
  size_t (*workspace_size) (int vocabulary, int max_context, int head_size, int width);

  /* Whether rows never depend on how many a call has, at the price of time; on the CPU they never do. To be
   * set before the first op. */
  void (*set_deterministic) (struct dev_context *, bool);

  /* Names the work of the host that follows, until the NULL that ends it, for profilers that look; ranges nest. */
  void (*range) (struct dev_context *, const char *host_name);

  /* Arenas reserve address space once; commit makes a part usable (zeroed), decommit returns its
   * memory. Offsets and sizes are rounded to pages of the backend. */
  struct dev_arena *(*arena_reserve) (struct dev_context *, size_t bytes);
  void *(*arena_base) (struct dev_arena *);
  int (*arena_commit) (struct dev_arena *, size_t offset, size_t bytes);
  void (*arena_decommit) (struct dev_arena *, size_t offset, size_t bytes);
  void (*arena_free) (struct dev_arena *);

  void (*upload) (struct dev_context *, void *to, const void *host_from, size_t bytes);
  void (*download) (struct dev_context *, void *host_to, const void *from, size_t bytes);
  /* Queues the download and returns: host_to, memory of host_allocate, is filled when a mark set after it is
   * passed. */
  void (*download_later) (struct dev_context *, void *host_to, const void *from, size_t bytes);
  /* Memory of the host that the device reaches, zeroed. It may stand for device memory in uploads, downloads, copies, zero,
   * convert and adamw, which then go at the speed of the bus. */
  void *(*host_allocate) (struct dev_context *, size_t bytes);
  void (*host_free) (struct dev_context *, void *host_memory);
  /* mark_set moves a mark to the end of the queue; mark_wait waits until the queue has passed it and returns the
   * sticky status. */
  struct dev_mark *(*mark_new) (struct dev_context *);
  void (*mark_set) (struct dev_context *, struct dev_mark *);
  int (*mark_wait) (struct dev_context *, struct dev_mark *);
  void (*mark_free) (struct dev_mark *);
  void (*copy) (struct dev_context *, void *to, const void *from, size_t bytes);
  void (*zero) (struct dev_context *, void *to, size_t bytes);
  /* to[i] = from[i] with another type, n elements. */
  void (*convert) (struct dev_context *, void *to, enum dev_type to_type, const void *from,
                   enum dev_type from_type, size_t n);
  /* Row i of `to` = row rows[i] of `from`; rows of `width` elements. */
  void (*gather_rows) (struct dev_context *, void *to, const void *from, const int32_t *rows, int n,
                       int width, enum dev_type type);
  /* Row rows[i] of `to` = row i of `from`; rows must differ. */
  void (*scatter_rows) (struct dev_context *, void *to, const void *from, const int32_t *rows, int n,
                        int width, enum dev_type type);

  /* ids[i] = tokens[source[i]] where source[i] >= 0: ids that the host does not know yet. n of them. */
  void (*take_tokens) (struct dev_context *, int32_t *ids, const int32_t *tokens, const int32_t *source,
                       int n);

  /* Records the ops until record_end; replay queues them again with the same arguments. A backend
   * without graphs runs them at once while recording, returns NULL and is never asked to replay. */
  void (*record_begin) (struct dev_context *);
  struct dev_graph *(*record_end) (struct dev_context *);
  void (*replay) (struct dev_context *, struct dev_graph *);
  void (*graph_free) (struct dev_graph *);

  /* Products. pack_size is 0 where the backend has no layout of its own. */
  size_t (*pack_size) (struct dev_context *, int rows, int cols, enum dev_type type);
  void (*pack) (struct dev_context *, void *packed, const void *data, int rows, int cols,
                enum dev_type type);
  /* codes (rows, cols) and scales (rows) of a matrix: a row's scale is its greatest size / 448, 1 where that is 0, and a code
   * the e4m3 value nearest to element / scale. */
  void (*encode) (struct dev_context *, uint8_t *codes, float *scales, const void *data, int rows, int cols,
                  enum dev_type type);
  /* y (T, rows) = x (T, cols) W^T. Codes need a workspace that holds the matrix in the type; see dev_matrix for what they may
   * do to x. */
  void (*linear_forward) (struct dev_context *, void *y, const void *x, const struct dev_matrix *w, int t,
                          enum dev_type type);
  /* dx (T, cols) = dy (T, rows) W; dw (rows, cols) += dy^T x, or = where `add` is false. dx or dw may be NULL. */
  void (*linear_backward) (struct dev_context *, void *dx, float *dw, bool add, const void *dy, const void *x,
                           const struct dev_matrix *w, int t, enum dev_type type);

  /* x (T, width) float = row ids[t] of table (vocabulary, width). */
  void (*embed_forward) (struct dev_context *, float *x, const void *table, const int32_t *ids, int t,
                         int width, enum dev_type type);
  /* dtable row ids[t] += dx row t, in the order of t; id `fixed` (-1: none) gains nothing. */
  void (*embed_backward) (struct dev_context *, float *dtable, const float *dx, const int32_t *ids, int t,
                          int width, int fixed);

  /* sum = x + delta (delta NULL: sum = x, and may be x itself);
   * out = sum * rstd * weight, rstd = 1 / sqrt (mean (sum^2) + eps). Zhang and Sennrich 2019. */
  void (*add_norm_forward) (struct dev_context *, float *sum, void *out, float *rstd, const float *x,
                            const void *delta, const void *weight, float eps, int t, int width,
                            enum dev_type type);
  /* dx (T, width), the gradient of sum, gains the norm's part; dx_typed is its copy of type, for the
   * products that follow; dweight (width) += its gradient. */
  void (*add_norm_backward) (struct dev_context *, float *dx, void *dx_typed, float *dweight,
                             const void *dout, const float *sum, const float *rstd, const void *weight,
                             int t, int width, enum dev_type type);

  /* Splits raw (T, (H + 2 G) D) into q (T, H, D) and rows of kv, adding the bias, normalising q and k
   * per head and turning them by their position (Su et al. 2021, halves layout). */
  void (*qkv_forward) (struct dev_context *, void *q, const struct dev_kv *kv, const void *raw,
                       const struct dev_qkv *, const struct dev_attention *, const struct dev_batch *,
                       enum dev_type type);
  /* draw from dq, dk, dv of type, all contiguous; dbias ((H + 2 G) D), dq_norm (D) and dk_norm (D) gain
   * their gradients where the weights exist. */
  void (*qkv_backward) (struct dev_context *, void *draw, float *dbias, float *dq_norm, float *dk_norm,
                        const void *dq, const void *dk, const void *dv, const void *raw,
                        const struct dev_qkv *, const struct dev_attention *, const struct dev_batch *,
                        enum dev_type type);

  /* out (T, H, D) = causal attention of q over the sequence's context; lse (T, H) is the log of the sum
   * of exponentials, or NULL. Dao 2023 (online softmax). */
  void (*attention_forward) (struct dev_context *, void *out, float *lse, const void *q,
                             const struct dev_kv *kv, const struct dev_attention *,
                             const struct dev_batch *, enum dev_type type);
  /* Contiguous batches only. dq (T, H, D), dk and dv (T, G, D). */
  void (*attention_backward) (struct dev_context *, void *dq, void *dk, void *dv, const void *dout,
                              const void *out, const float *lse, const void *q, const struct dev_kv *kv,
                              const struct dev_attention *, const struct dev_batch *, enum dev_type type);

  /* act (T, width) = silu (gate) * up, gate_up (T, 2 width). Shazeer 2020. */
  void (*swiglu_forward) (struct dev_context *, void *act, const void *gate_up, int t, int width,
                          enum dev_type type);
  void (*swiglu_backward) (struct dev_context *, void *dgate_up, const void *dact, const void *gate_up,
                           int t, int width, enum dev_type type);

  /* add_norm_forward, linear_forward and qkv_forward in one call, which leaves what they leave: where few tokens are
   * decoded the launches cost more than the arithmetic. `w` is (heads + 2 groups) head_size rows of width. */
  void (*norm_qkv_forward) (struct dev_context *, const struct dev_norm *, void *raw, void *q, const struct dev_kv *kv,
                            const struct dev_matrix *w, const struct dev_qkv *, const struct dev_attention *,
                            const struct dev_batch *, enum dev_type type);
  /* The same for add_norm_forward, linear_forward and swiglu_forward; w has 2 F rows, act is (T, F). */
  void (*norm_swiglu_forward) (struct dev_context *, const struct dev_norm *, void *act, void *gate_up,
                               const struct dev_matrix *w, int t, enum dev_type type);

  /* Vocabulary head: for row i of h (n, width), logits z = W h_i / temperature,
   * logp[i] = z_target - log sum exp z, entropy[i] = log sum exp z - sum softmax (z) z, in nats.
   * Logits exist for a chunk of rows at a time, in the workspace. Entries at and above `vocabulary` rows
   * do not exist, so a padded table passes its real size. lse (n) is kept for the backward pass. */
  void (*head_forward) (struct dev_context *, float *logp, float *entropy, float *lse, const void *h,
                        const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
                        enum dev_type type);
  /* dh (n, width) of type and dw (vocabulary, width) += (or = where `add` is false) from dL/dlogp and dL/dentropy (n each),
   * by recomputing the logits. dw may be NULL. */
  void (*head_backward) (struct dev_context *, void *dh, float *dw, bool add, const float *dlogp,
                         const float *dentropy, const float *entropy, const float *lse, const void *h,
                         const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
                         enum dev_type type);
  /* head_forward, and head_backward by a dL/dlogp that is known before (dL/dentropy 0), in one visit to the
   * logits. */
  void (*head_both) (struct dev_context *, float *logp, float *entropy, float *lse, void *dh, float *dw, bool add,
                     const float *dlogp, const void *h, const struct dev_matrix *w, const int32_t *targets,
                     float temperature, int n, enum dev_type type);
  /* logits (n, vocabulary) float of a few rows, for inspection. */
  void (*head_logits) (struct dev_context *, float *logits, const void *h, const struct dev_matrix *w,
                       int n, enum dev_type type);
  /* tokens[i] sampled from softmax (z) by Gumbel-max with Philox4x32-10 (Salmon et al. 2011), or the first
   * greatest logit where temperature is 0; logp[i] as head_forward gives it (at temperature 1 for greedy), with
   * filters that of the filtered distribution. */
  void (*head_sample) (struct dev_context *, int32_t *tokens, float *logp, const void *h,
                       const struct dev_matrix *w, const struct dev_sampling *, int n, enum dev_type type);

  /* values (n) = h (n, width) . weight (width); the score head of reward models and critics. */
  void (*value_forward) (struct dev_context *, float *values, const void *h, const void *weight, int n,
                         int width, enum dev_type type);
  void (*value_backward) (struct dev_context *, void *dh, float *dweight, const float *dvalues,
                          const void *h, const void *weight, int n, int width, enum dev_type type);

  /* One step over n elements. `master` is the float copy of a bf16 parameter; for float parameters it
   * is NULL and the parameter itself is updated. */
  void (*adamw) (struct dev_context *, void *param, float *master, const float *grad, float *m, float *v,
                 size_t n, const struct dev_adamw *, enum dev_type type);
  /* *out (one double on the device) = sum of squares of x, in a fixed order. */
  void (*square_sum) (struct dev_context *, double *out, const float *x, size_t n);
};

/* Sizes of the table and of all that crosses it, so that a module of another build is refused instead of misread. */
#define DEV_LAYOUT                                                                                                     \
  ((uint32_t) (sizeof (struct dev_ops) + 3 * sizeof (struct dev_info) + 5 * sizeof (struct dev_kv)                     \
               + 7 * sizeof (struct dev_batch) + 11 * sizeof (struct dev_attention) + 13 * sizeof (struct dev_qkv)     \
               + 17 * sizeof (struct dev_norm) + 19 * sizeof (struct dev_matrix) + 23 * sizeof (struct dev_adamw)      \
               + 29 * sizeof (struct dev_random) + 31 * sizeof (struct dev_sampling)))

/* A backend exports one function of this type, named `dev_backend`, in its module. */
typedef const struct dev_ops *(*dev_backend_function) (void);

/* The CPU backend, always linked. */
const struct dev_ops *dev_cpu (void);

/* Plain references of the same ops, in double arithmetic where it matters, to test backends against. */
const struct dev_ops *dev_reference (void);

#ifdef __cplusplus
}
#endif
