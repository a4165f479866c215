/* SPDX-License-Identifier: Apache-2.0 */

/* State of the CUDA backend, and what its kernels share. No GLib here: nvcc does not digest its headers. */

#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/device.h"

typedef __nv_bfloat16 bf16;
typedef __nv_fp8_e4m3 e4m3;

#define WARP 32
#define FULL_MASK 0xffffffffu
#define CUDA_TICKETS 4096

struct cuda_products; // chosen algorithms; see product.cu
struct cuda_ring;     // pinned memory that uploads pass through; see context.cu
struct cuda_attention; // a library's attention; see attention-cudnn.cu

/* Rows that the op before wrote for a product, and whether their codes are in the workspace; x NULL: there are none. */
struct cuda_rows
{
  const void *x; // (rows, cols)
  int rows, cols;
  bool codes;
};

struct dev_context
{
  int status;
  char message[256];
  int ordinal;
  int multiprocessors;
  int shared_limit;   // bytes of shared memory that a block may have
  int shared_of_multiprocessor; // bytes
  bool virtual_memory;
  bool hopper;  // compute capability 9
  bool overlap; // a kernel may start while the one before it ends
  bool deterministic;
  bool recording;
  cudaStream_t stream;
  cudaEvent_t timed[2]; // beginning and end of what is timed
  char *workspace;
  size_t workspace_size;
  struct cuda_products *products;
  struct cuda_ring *ring;
  struct cuda_attention *attention; // NULL: not there, or not looked for
  struct cuda_rows before;
  bool attention_known;
  char attention_path[80];
  struct cuda_stager *stager; // NULL until an update's state lies with the host
  unsigned *tickets; // (CUDA_TICKETS) zeros between launches: who of several blocks ends last
};

/* Records the first error; later ones are consequences. */
void cuda_fail (struct dev_context *, int status, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
/* Makes the context's device current; false after an error, when ops do nothing. */
bool cuda_enter (struct dev_context *);
/* Turns an error of the runtime into the sticky one; true if there was none. */
bool cuda_ok (struct dev_context *, cudaError_t, const char *what);
/* To be called after every launch. */
#define CUDA_LAUNCHED(context, what) cuda_ok (context, cudaGetLastError (), what)
/* `bytes` of the workspace, or NULL with an error that names the op. */
void *cuda_scratch (struct dev_context *, size_t bytes, const char *what);

void cuda_stager_free (struct cuda_stager *);

/* Runs `body` with T as the C++ type of `type`. */
#define WITH_TYPE(type, body) \
  do                          \
    {                         \
      if ((type) == DEV_BF16) \
        {                     \
          typedef bf16 T;     \
          body;               \
        }                     \
      else                    \
        {                     \
          typedef float T;    \
          body;               \
        }                     \
    }                         \
  while (0)

static inline int
ceil_div (int64_t a, int64_t b)
{
  return (int) ((a + b - 1) / b);
}

/* Whether rows of `width` elements at these addresses can be read eight at a time. */
static inline bool
cuda_in_eights (int width, const void *a, const void *b, const void *c)
{
  return width % 8 == 0 && ((uintptr_t) a | (uintptr_t) b | (uintptr_t) c) % 32 == 0;
}

template <typename T> struct same_type
{
  typedef T type;
};

/* Runs `body` with K as the C++ type of the cache's elements: codes, or T. */
#define WITH_CACHE(kv, T, body) \
  do                            \
    {                           \
      if ((kv)->k_scales)       \
        {                       \
          typedef e4m3 K;       \
          body;                 \
        }                       \
      else                      \
        {                       \
          typedef T K;          \
          body;                 \
        }                       \
    }                           \
  while (0)

/* Launches a kernel that calls wait_for_inputs before it touches what earlier kernels wrote: where the device can, its
 * blocks start while the kernel before still runs. */
template <typename... P>
static inline void
cuda_launch (struct dev_context *context, void (*kernel) (P...), dim3 grid, dim3 threads, size_t shared,
             typename same_type<P>::type... args)
{
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = context->stream;
  config.attrs = &attribute;
  config.numAttrs = context->overlap ? 1 : 0;
  cudaLaunchKernelEx (&config, kernel, args...);
}

/* Milliseconds of the best of `times` calls of `call`, the first not counted, each behind `before`, which is not timed; negative where
 * one fails. Both are functions that return whether they succeeded. */
template <typename Before, typename Call>
static inline float
cuda_time_best (struct dev_context *context, int times, Before before, Call call)
{
  float best = -1;
  for (int i = 0; i < times; i++)
    {
      float each = 0;
      if (!before ())
        return -1;
      cudaEventRecord (context->timed[0], context->stream);
      if (!call ())
        return -1;
      cudaEventRecord (context->timed[1], context->stream);
      if (cudaEventSynchronize (context->timed[1]) != cudaSuccess
          || cudaEventElapsedTime (&each, context->timed[0], context->timed[1]) != cudaSuccess)
        return -1;
      if (i > 0 && (best < 0 || each < best))
        best = each;
    }
  return best;
}

/* Lets the next kernel start, and waits until what the kernels before wrote is there. Kernels that write weights are
 * launched without overlap, so weights may be read before. */
__device__ __forceinline__ void
wait_for_inputs ()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
  asm volatile ("griddepcontrol.launch_dependents;\n" ::: "memory");
  asm volatile ("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/* N elements moved as one. */
template <typename T, int N> struct alignas (sizeof (T) * N <= 16 ? sizeof (T) * N : 16) pack
{
  T x[N];
};

template <typename T, int N>
__device__ __forceinline__ void
load_pack (float (&to)[N], const T *from)
{
  pack<T, N> p = *reinterpret_cast<const pack<T, N> *> (from);
#pragma unroll
  for (int i = 0; i < N; i++)
    to[i] = (float) p.x[i];
}

template <typename T, int N>
__device__ __forceinline__ void
store_pack (T *to, const float (&from)[N])
{
  pack<T, N> p;
#pragma unroll
  for (int i = 0; i < N; i++)
    p.x[i] = (T) from[i];
  *reinterpret_cast<pack<T, N> *> (to) = p;
}

__device__ __forceinline__ float
warp_sum (float x)
{
#pragma unroll
  for (int offset = WARP / 2; offset; offset /= 2)
    x += __shfl_xor_sync (FULL_MASK, x, offset);
  return x;
}

__device__ __forceinline__ float
warp_max (float x)
{
#pragma unroll
  for (int offset = WARP / 2; offset; offset /= 2)
    x = fmaxf (x, __shfl_xor_sync (FULL_MASK, x, offset));
  return x;
}

/* Sum over the block in a fixed order, given to every thread. `shared` holds one float per warp. */
__device__ __forceinline__ float
block_sum (float x, float *shared)
{
  int warps = (blockDim.x + WARP - 1) / WARP, lane = threadIdx.x % WARP;
  x = warp_sum (x);
  if (lane == 0)
    shared[threadIdx.x / WARP] = x;
  __syncthreads ();
  float total = lane < warps ? shared[lane] : 0;
  __syncthreads ();
  return warp_sum (total);
}

/* Row of key j of sequence s in the cache. */
__device__ __forceinline__ int64_t
key_row (const dev_batch &batch, int s, int first, int j)
{
  if (!batch.block_table)
    return first + j;
  int page = batch.block_table[(int64_t) s * batch.table_stride + j / batch.page_tokens];
  return (int64_t) page * batch.page_tokens + j % batch.page_tokens;
}

/* Whether elements of a cache of this type are codes with scales. */
template <typename K> struct is_coded
{
  static constexpr bool value = false;
};

template <> struct is_coded<e4m3>
{
  static constexpr bool value = true;
};

/* Scale of a row and group (its number) of a cache. */
template <typename K>
__device__ __forceinline__ float
cache_scale (const float *scales, int64_t row)
{
  return is_coded<K>::value ? scales[row] : 1.0f;
}

/* to (width) += sum over `parts` rows of partial (parts, stride), in the order of the rows. */
void cuda_add_partials (struct dev_context *, float *to, const float *partial, int parts, int width, int stride);

/* The parts of attention; attention.cu chooses. Each returns false where it does not serve the shape. */
bool cuda_attention_tensor_forward (struct dev_context *, void *out, float *lse, const void *q, const struct dev_kv *,
                                    const struct dev_attention *, const struct dev_batch *, bool skip_decode);
bool cuda_attention_tensor_decode (struct dev_context *, void *out, float *lse, const void *q, const struct dev_kv *,
                                   const struct dev_attention *, const struct dev_batch *);
bool cuda_attention_tensor_backward (struct dev_context *, void *dq, void *dk, void *dv, const void *dout,
                                     const void *q, const struct dev_kv *, const float *lse, const float *delta,
                                     const struct dev_attention *, const struct dev_batch *);
/* The same with what Hopper has. */
bool cuda_attention_hopper_forward (struct dev_context *, void *out, float *lse, const void *q, const struct dev_kv *,
                                    const struct dev_attention *, const struct dev_batch *, bool skip_decode);
bool cuda_attention_hopper_backward (struct dev_context *, void *dq, void *dk, void *dv, const void *dout,
                                     const void *q, const struct dev_kv *, const float *lse, const float *delta,
                                     const struct dev_attention *, const struct dev_batch *);
/* Whole packed sequences by cuDNN; false where our own kernels are to be taken. The path says which, and why. */
bool cuda_attention_library_forward (struct dev_context *, void *out, float *lse, const void *q, const struct dev_kv *,
                                     const struct dev_attention *, const struct dev_batch *);
bool cuda_attention_library_backward (struct dev_context *, void *dq, void *dk, void *dv, const void *dout,
                                      const void *out, const float *lse, const void *q, const struct dev_kv *,
                                      const struct dev_attention *, const struct dev_batch *);
const char *cuda_attention_path (struct dev_context *);
void cuda_attention_free (struct cuda_attention *);
/* The ops by our own kernels. */
void cuda_attention_own_forward (struct dev_context *, void *, float *, const void *, const struct dev_kv *,
                                 const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cuda_attention_own_backward (struct dev_context *, void *, void *, void *, const void *, const void *,
                                  const float *, const void *, const struct dev_kv *, const struct dev_attention *,
                                  const struct dev_batch *, enum dev_type);
/* dk and dv (count each) = sums of the heads of a group, in their order, from partial (k and v, parts, count). */
void cuda_merge_heads (struct dev_context *, void *dk, void *dv, const float *partial, int parts, int64_t count,
                       float scale);

/* Products, row-major: c (m, n) = alpha a b^T and so on; see product.cu. */
struct cuda_products *cuda_products_new (struct dev_context *);
void cuda_products_free (struct cuda_products *);
const char *cuda_products_path (struct cuda_products *);

enum cuda_product
{
  PRODUCT_FORWARD, // c (m, n) = a (m, k) b (n, k)^T
  PRODUCT_INPUT,   // c (m, n) = a (m, k) b (k, n)
  PRODUCT_WEIGHT,  // c (m, n) = a (k, m)^T b (k, n), c float
  PRODUCT_WEIGHT_ADD, // the same added to c
  PRODUCT_CODES, // PRODUCT_FORWARD of e4m3 codes with a scale for each row of a and b
};

void cuda_multiply (struct dev_context *, enum cuda_product, void *c, enum dev_type c_type, const void *a,
                    const void *b, enum dev_type type, int m, int n, int k);

/* The same by a plain kernel. */
void cuda_multiply_plain (struct dev_context *, enum cuda_product, void *c, enum dev_type c_type, const void *a,
                          const void *b, enum dev_type type, int m, int n, int k);
/* Whether rows of a deterministic forward product never depend on how many there are. */
bool cuda_rows_are_equal (struct dev_context *);

/* Places in the workspace for `rows` rows of inputs as codes, and for sums of parts of a product. */
struct cuda_codes
{
  int rows;
  float *scales;  // (rows)
  uint8_t *codes; // (rows, cols)
  float *partial;
  size_t room; // bytes of partial
};

/* Whether y (t, rows) = x w^T in bf16 is to be multiplied with x and w as codes: that is measured for each shape and bucket of t,
 * so y is written to. `along`: the kernel that makes x makes its codes, too. */
bool cuda_wants_codes (struct dev_context *, void *y, const struct cuda_codes *, const void *x, const struct dev_matrix *w,
                       int t, bool along);
/* Whether that was so for such inputs whose codes could be made along. */
bool cuda_wants_inputs (struct dev_context *, int t, int cols);
/* Multiplies the codes after cuda_wants_codes; false where the library refuses all the same. */
bool cuda_multiply_codes (struct dev_context *, void *y, const struct cuda_codes *, const struct dev_matrix *w, int t);
/* add_norm_forward, and the codes of its rows where they are not NULL; false where the shape has none. See norm.cu. */
bool cuda_norm_codes (struct dev_context *, const struct dev_norm *, uint8_t *codes, float *scales, int t, int width);
/* swiglu_forward in bf16, and the codes of its rows. */
bool cuda_swiglu_codes (struct dev_context *, void *act, const void *gate_up, uint8_t *codes, float *scales, int t,
                        int width);
/* add_norm_forward and linear_forward. */
void cuda_norm_linear_forward (struct dev_context *, const struct dev_norm *, void *y, const struct dev_matrix *, int t,
                               enum dev_type);
/* swiglu_forward of what came out of w, for a product by codes if w has them. */
void cuda_swiglu_before_linear (struct dev_context *, void *act, const void *gate_up, const struct dev_matrix *w, int t,
                                enum dev_type);

/* y (rows) = x w^T in bf16 for one row x, by w or its codes; false where it does not serve the shape. */
bool cuda_multiply_row (struct dev_context *, void *y, enum dev_type y_type, const void *x, const struct dev_matrix *w);

/* Rows first..first+count-1 of a call of head_sample: scales logits (count, vocabulary) and leaves -INFINITY where nothing
 * may be drawn; notes what was drawn. See filter.cu. */
void cuda_filter_rows (struct dev_context *, float *logits, int vocabulary, const struct dev_sampling *, int first,
                       int count);
void cuda_mark_seen (struct dev_context *, const int32_t *tokens, const struct dev_sampling *, int n);

/* The ops, one file each; cuda.cu puts them into the table. */
int cuda_open (int, size_t, struct dev_context **, char *, size_t);
void cuda_close (struct dev_context *);
void cuda_info (struct dev_context *, struct dev_info *);
int cuda_status (struct dev_context *, char *, size_t);
size_t cuda_workspace_size (int, int, int, int);
void cuda_set_deterministic (struct dev_context *, bool);
void cuda_range (struct dev_context *, const char *);
struct dev_arena *cuda_arena_reserve (struct dev_context *, size_t);
void *cuda_arena_base (struct dev_arena *);
int cuda_arena_commit (struct dev_arena *, size_t, size_t);
void cuda_arena_decommit (struct dev_arena *, size_t, size_t);
void cuda_arena_free (struct dev_arena *);
void *cuda_host_allocate (struct dev_context *, size_t);
void cuda_host_free (struct dev_context *, void *);
void cuda_upload (struct dev_context *, void *, const void *, size_t);
void cuda_download (struct dev_context *, void *, const void *, size_t);
void cuda_download_later (struct dev_context *, void *, const void *, size_t);
struct dev_mark *cuda_mark_new (struct dev_context *);
void cuda_mark_set (struct dev_context *, struct dev_mark *);
int cuda_mark_wait (struct dev_context *, struct dev_mark *);
void cuda_mark_free (struct dev_mark *);
void cuda_copy (struct dev_context *, void *, const void *, size_t);
void cuda_zero (struct dev_context *, void *, size_t);
void cuda_convert (struct dev_context *, void *, enum dev_type, const void *, enum dev_type, size_t);
void cuda_gather_rows (struct dev_context *, void *, const void *, const int32_t *, int, int, enum dev_type);
void cuda_scatter_rows (struct dev_context *, void *, const void *, const int32_t *, int, int, enum dev_type);
void cuda_take_tokens (struct dev_context *, int32_t *, const int32_t *, const int32_t *, int);
void cuda_record_begin (struct dev_context *);
struct dev_graph *cuda_record_end (struct dev_context *);
void cuda_replay (struct dev_context *, struct dev_graph *);
void cuda_graph_free (struct dev_graph *);
size_t cuda_pack_size (struct dev_context *, int, int, enum dev_type);
void cuda_pack (struct dev_context *, void *, const void *, int, int, enum dev_type);
void cuda_encode (struct dev_context *, uint8_t *, float *, const void *, int, int, enum dev_type);
void cuda_linear_forward (struct dev_context *, void *, const void *, const struct dev_matrix *, int, enum dev_type);
void cuda_linear_backward (struct dev_context *, void *, float *, bool, const void *, const void *,
                           const struct dev_matrix *, int, enum dev_type);
void cuda_embed_forward (struct dev_context *, float *, const void *, const int32_t *, int, int, enum dev_type);
void cuda_embed_backward (struct dev_context *, float *, const float *, const int32_t *, int, int, int);
void cuda_add_norm_forward (struct dev_context *, float *, void *, float *, const float *, const void *,
                            const void *, float, int, int, enum dev_type);
void cuda_add_norm_backward (struct dev_context *, float *, void *, float *, const void *, const float *,
                             const float *, const void *, int, int, enum dev_type);
void cuda_qkv_forward (struct dev_context *, void *, const struct dev_kv *, const void *, const struct dev_qkv *,
                       const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cuda_qkv_backward (struct dev_context *, void *, float *, float *, float *, const void *, const void *,
                        const void *, const void *, const struct dev_qkv *, const struct dev_attention *,
                        const struct dev_batch *, enum dev_type);
void cuda_attention_forward (struct dev_context *, void *, float *, const void *, const struct dev_kv *,
                             const struct dev_attention *, const struct dev_batch *, enum dev_type);
void cuda_attention_backward (struct dev_context *, void *, void *, void *, const void *, const void *,
                              const float *, const void *, const struct dev_kv *, const struct dev_attention *,
                              const struct dev_batch *, enum dev_type);
void cuda_swiglu_forward (struct dev_context *, void *, const void *, int, int, enum dev_type);
void cuda_swiglu_backward (struct dev_context *, void *, const void *, const void *, int, int, enum dev_type);
void cuda_norm_qkv_forward (struct dev_context *, const struct dev_norm *, void *, void *, const struct dev_kv *,
                            const struct dev_matrix *, const struct dev_qkv *, const struct dev_attention *,
                            const struct dev_batch *, enum dev_type);
void cuda_norm_swiglu_forward (struct dev_context *, const struct dev_norm *, void *, void *,
                               const struct dev_matrix *, int, enum dev_type);
void cuda_head_forward (struct dev_context *, float *, float *, float *, const void *, const struct dev_matrix *,
                        const int32_t *, float, int, enum dev_type);
void cuda_head_backward (struct dev_context *, void *, float *, bool, const float *, const float *, const float *,
                         const float *, const void *, const struct dev_matrix *, const int32_t *, float, int,
                         enum dev_type);
void cuda_head_both (struct dev_context *, float *, float *, float *, void *, float *, bool, const float *,
                     const void *, const struct dev_matrix *, const int32_t *, float, int, enum dev_type);
void cuda_head_logits (struct dev_context *, float *, const void *, const struct dev_matrix *, int, enum dev_type);
void cuda_head_sample (struct dev_context *, int32_t *, float *, const void *, const struct dev_matrix *,
                       const struct dev_sampling *, int, enum dev_type);
void cuda_value_forward (struct dev_context *, float *, const void *, const void *, int, int, enum dev_type);
void cuda_value_backward (struct dev_context *, void *, float *, const float *, const void *, const void *, int,
                          int, enum dev_type);
void cuda_adamw (struct dev_context *, void *, float *, const float *, float *, float *, size_t,
                 const struct dev_adamw *, enum dev_type);
void cuda_square_sum (struct dev_context *, double *, const float *, size_t);
