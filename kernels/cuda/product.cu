/* SPDX-License-Identifier: Apache-2.0 */

/* Products by cuBLASLt, with one algorithm per shape, chosen once.
 *
 * The number of rows enters the choice by a bucket only. The candidates that the library proposes are timed where the
 * result may be written more than once; the weights are read from memory then, as they are in a pass.
 * In deterministic mode nothing is timed and the number of rows does not enter at all: every forward
 * product of a matrix takes the algorithm that suits 256 rows, without splitting k, so that a row's sum
 * runs in the same order whatever the call. A self-test at start-up checks that; where it fails, or where the library
 * has no algorithm for a shape, a plain kernel of our own multiplies. */

#include "kernels/cuda/context.cuh"

#include <stdlib.h> // defines: calloc, free
#include <string.h> // defines: memcmp, memset

#define LIBRARY_WORKSPACE ((size_t) 64 << 20)
#define CACHE_SLOTS 4096 // power of two
#define DETERMINISTIC_ROWS 256

struct key
{
  int kind, c_type, type, alignment, deterministic;
  int m, n, k; // m: the bucket
};

struct entry
{
  struct key key;
  int state; // 0: free slot, 1: algorithm, 2: the library has none
  cublasLtMatmulAlgo_t algorithm;
};

struct cuda_products
{
  cublasLtHandle_t handle;
  void *workspace;
  cudaEvent_t start, end;
  struct entry *cache;
  int used;
  bool rows_equal; // the self-test passed
};

/* Operands of one call as cuBLASLt wants them: column-major, so that c^T = b' a'. */
struct call
{
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  float beta;
};

static bool
is_weight (enum cuda_product kind)
{
  return kind == PRODUCT_WEIGHT || kind == PRODUCT_WEIGHT_ADD;
}

static cudaDataType
library_type (enum dev_type type)
{
  return type == DEV_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void
call_init (struct call *call, enum cuda_product kind, enum dev_type c_type, enum dev_type type, int m, int n, int k)
{
  cublasOperation_t first = kind == PRODUCT_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = is_weight (kind) ? CUBLAS_OP_T : CUBLAS_OP_N;
  cudaDataType in = library_type (type);
  cublasLtMatmulDescInit (&call->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  cublasLtMatmulDescSetAttribute (&call->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (kind == PRODUCT_FORWARD)
    cublasLtMatrixLayoutInit (&call->a, in, k, n, k);
  else
    cublasLtMatrixLayoutInit (&call->a, in, n, k, n);
  if (is_weight (kind))
    cublasLtMatrixLayoutInit (&call->b, in, m, k, m);
  else
    cublasLtMatrixLayoutInit (&call->b, in, k, m, k);
  cublasLtMatrixLayoutInit (&call->c, library_type (c_type), n, m, n);
  call->beta = kind == PRODUCT_WEIGHT_ADD ? 1.0f : 0.0f;
}

/* Upper bound of the bucket of m: powers of two and their halves between. */
static int
bucket_of (int m)
{
  int bound = 16;
  while (bound < m)
    {
      if (bound + bound / 2 >= m)
        return bound + bound / 2;
      if (bound > (1 << 28))
        return m;
      bound *= 2;
    }
  return bound;
}

static int
alignment_of (const void *a, const void *b, const void *c)
{
  uintptr_t bits = (uintptr_t) a | (uintptr_t) b | (uintptr_t) c | 16;
  return (int) (bits & (~bits + 1));
}

#define CANDIDATES 12
#define TIMINGS 3

/* Candidates for the key's shape, best first by the library's own estimate. */
static int
list_algorithms (struct cuda_products *self, const struct key *key, cublasLtMatmulHeuristicResult_t *results, int most)
{
  struct call call;
  cublasLtMatmulPreferenceOpaque_t preference;
  size_t workspace = LIBRARY_WORKSPACE;
  uint32_t schemes = key->deterministic ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  uint32_t alignment = (uint32_t) key->alignment;
  int found = 0;
  call_init (&call, (enum cuda_product) key->kind, (enum dev_type) key->c_type, (enum dev_type) key->type, key->m,
             key->n, key->k);
  cublasLtMatmulPreferenceInit (&preference);
  cublasLtMatmulPreferenceSetAttribute (&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                        sizeof workspace);
  cublasLtMatmulPreferenceSetAttribute (&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                        sizeof schemes);
  cublasLtMatmulPreferenceAttributes_t operands[]
      = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  for (int i = 0; i < 4; i++)
    cublasLtMatmulPreferenceSetAttribute (&preference, operands[i], &alignment, sizeof alignment);
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic (self->handle, &call.operation, &call.a, &call.b, &call.c,
                                                          &call.c, &preference, most, results, &found);
  return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

/* One product as it is called. */
struct job
{
  enum cuda_product kind;
  enum dev_type c_type, type;
  void *c;
  const void *a, *b;
  int m, n, k;
};

static cublasStatus_t
run_job (struct dev_context *context, const struct job *job, const cublasLtMatmulAlgo_t *algorithm)
{
  struct cuda_products *self = context->products;
  struct call call;
  float alpha = 1.0f;
  call_init (&call, job->kind, job->c_type, job->type, job->m, job->n, job->k);
  return cublasLtMatmul (self->handle, &call.operation, &alpha, job->b, &call.a, job->a, &call.b, &call.beta, job->c,
                         &call.c, job->c, &call.c, algorithm, self->workspace, LIBRARY_WORKSPACE, context->stream);
}

/* Milliseconds of an algorithm, the best of some calls; negative where it fails. The cache is filled with other things
 * first. */
static float
time_algorithm (struct dev_context *context, const struct job *job, const cublasLtMatmulAlgo_t *algorithm)
{
  struct cuda_products *self = context->products;
  float best = -1;
  for (int i = 0; i < TIMINGS; i++)
    {
      float each = 0;
      cudaMemsetAsync (self->workspace, 0, LIBRARY_WORKSPACE, context->stream);
      cudaEventRecord (self->start, context->stream);
      if (run_job (context, job, algorithm) != CUBLAS_STATUS_SUCCESS)
        return -1;
      cudaEventRecord (self->end, context->stream);
      if (cudaEventSynchronize (self->end) != cudaSuccess
          || cudaEventElapsedTime (&each, self->start, self->end) != cudaSuccess)
        return -1;
      if (i > 0 && (best < 0 || each < best))
        best = each;
    }
  return best;
}

/* Whether candidates may be timed: the mode allows it, the result is not a sum, and nothing is being recorded. */
static bool
may_time (const struct dev_context *context, const struct job *job)
{
  return !context->deterministic && job->kind != PRODUCT_WEIGHT_ADD && !context->recording;
}

#define SPLIT_ROWS 512
#define SPLIT_CANDIDATES 6

/* Few rows make few tiles: tries the candidates with k in several parts, whose sums are added in order. */
static void
try_splits (struct dev_context *context, const struct job *job, const cublasLtMatmulHeuristicResult_t *results, int found,
            float best_time, cublasLtMatmulAlgo_t *algorithm)
{
  static const int splits[] = { 2, 3, 4, 6, 8 };
  struct call call;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  call_init (&call, job->kind, job->c_type, job->type, job->m, job->n, job->k);
  for (int i = 0; i < found; i++)
    for (size_t s = 0; s < sizeof splits / sizeof splits[0]; s++)
      {
        cublasLtMatmulAlgo_t split = results[i].algo;
        cublasLtMatmulHeuristicResult_t checked;
        int32_t parts = splits[s];
        if (cublasLtMatmulAlgoConfigSetAttribute (&split, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts)
            || cublasLtMatmulAlgoConfigSetAttribute (&split, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme)
            || cublasLtMatmulAlgoCheck (context->products->handle, &call.operation, &call.a, &call.b, &call.c, &call.c,
                                        &split, &checked)
            || checked.state != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > LIBRARY_WORKSPACE)
          continue;
        float each = time_algorithm (context, job, &split);
        if (each >= 0 && each < best_time * 0.98f)
          {
            best_time = each;
            *algorithm = split;
          }
      }
}

static bool
find_algorithm (struct dev_context *context, const struct key *key, const struct job *job,
                cublasLtMatmulAlgo_t *algorithm)
{
  cublasLtMatmulHeuristicResult_t results[CANDIDATES];
  bool timed = may_time (context, job);
  int found = list_algorithms (context->products, key, results, timed ? CANDIDATES : 1), best = 0;
  float best_time = -1;
  if (found < 1 || results[0].state != CUBLAS_STATUS_SUCCESS)
    return false;
  for (int i = 0; timed && i < found; i++)
    {
      float each = results[i].state == CUBLAS_STATUS_SUCCESS ? time_algorithm (context, job, &results[i].algo) : -1;
      if (each >= 0 && (best_time < 0 || each < best_time * 0.98f))
        {
          best_time = each;
          best = i;
        }
    }
  *algorithm = results[best].algo;
  if (timed && key->m <= SPLIT_ROWS)
    try_splits (context, job, results, found < SPLIT_CANDIDATES ? found : SPLIT_CANDIDATES, best_time, algorithm);
  return true;
}

static struct entry *
find_entry (struct dev_context *context, const struct key *key, const struct job *job)
{
  struct cuda_products *self = context->products;
  const unsigned char *bytes = (const unsigned char *) key;
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < sizeof *key; i++)
    hash = (hash ^ bytes[i]) * 16777619u;
  if (self->used > CACHE_SLOTS / 2)
    {
      memset (self->cache, 0, CACHE_SLOTS * sizeof *self->cache);
      self->used = 0;
    }
  for (uint32_t i = hash;; i++)
    {
      struct entry *entry = &self->cache[i % CACHE_SLOTS];
      if (entry->state && memcmp (&entry->key, key, sizeof *key) != 0)
        continue;
      if (!entry->state)
        {
          entry->key = *key;
          entry->state = find_algorithm (context, key, job, &entry->algorithm) ? 1 : 2;
          self->used++;
        }
      return entry;
    }
}

#define PORTABLE_TILE 32

/* c (m, n) by tiles, sums over k in order; strides of the three kinds. */
template <typename T, typename C>
__global__ void
portable_product (C *c, const T *a, const T *b, int m, int n, int k, int64_t a_row, int64_t a_k, int64_t b_row,
                  int64_t b_k, bool accumulate)
{
  __shared__ float left[PORTABLE_TILE][PORTABLE_TILE + 1], right[PORTABLE_TILE][PORTABLE_TILE + 1];
  int x = threadIdx.x, y = threadIdx.y;
  int64_t row = (int64_t) blockIdx.y * PORTABLE_TILE, column = (int64_t) blockIdx.x * PORTABLE_TILE;
  float sum[4] = { 0, 0, 0, 0 };
  for (int first = 0; first < k; first += PORTABLE_TILE)
    {
      for (int i = y; i < PORTABLE_TILE; i += 8)
        {
          bool inside = first + x < k;
          left[i][x] = inside && row + i < m ? (float) a[(row + i) * a_row + (first + x) * a_k] : 0.0f;
          right[i][x] = inside && column + i < n ? (float) b[(column + i) * b_row + (first + x) * b_k] : 0.0f;
        }
      __syncthreads ();
      for (int l = 0; l < PORTABLE_TILE; l++)
        for (int i = 0; i < 4; i++)
          sum[i] += left[y + 8 * i][l] * right[x][l];
      __syncthreads ();
    }
  for (int i = 0; i < 4; i++)
    if (row + y + 8 * i < m && column + x < n)
      {
        C *to = &c[(row + y + 8 * i) * n + column + x];
        *to = (C) (accumulate ? (float) *to + sum[i] : sum[i]);
      }
}

template <typename T, typename C>
static void
launch_portable (struct dev_context *context, enum cuda_product kind, void *c, const void *a, const void *b, int m,
                 int n, int k)
{
  int64_t a_row = is_weight (kind) ? 1 : k, a_k = is_weight (kind) ? m : 1;
  int64_t b_row = kind == PRODUCT_FORWARD ? k : 1, b_k = kind == PRODUCT_FORWARD ? 1 : n;
  int most = 65535 * PORTABLE_TILE;
  for (int first = 0; first < m; first += most)
    {
      int rows = m - first < most ? m - first : most;
      dim3 grid (ceil_div (n, PORTABLE_TILE), ceil_div (rows, PORTABLE_TILE));
      portable_product<T, C><<<grid, dim3 (PORTABLE_TILE, 8), 0, context->stream>>> (
          (C *) c + (int64_t) first * n, (const T *) a + first * a_row, (const T *) b, rows, n, k, a_row, a_k, b_row,
          b_k, kind == PRODUCT_WEIGHT_ADD);
    }
  CUDA_LAUNCHED (context, "plain product");
}

static void
multiply_portably (struct dev_context *context, enum cuda_product kind, void *c, enum dev_type c_type, const void *a,
                   const void *b, enum dev_type type, int m, int n, int k)
{
  if (type == DEV_F32)
    launch_portable<float, float> (context, kind, c, a, b, m, n, k);
  else if (c_type == DEV_F32)
    launch_portable<bf16, float> (context, kind, c, a, b, m, n, k);
  else
    launch_portable<bf16, bf16> (context, kind, c, a, b, m, n, k);
}

void
cuda_multiply (struct dev_context *context, enum cuda_product kind, void *c, enum dev_type c_type, const void *a,
               const void *b, enum dev_type type, int m, int n, int k)
{
  struct cuda_products *self = context->products;
  if (!cuda_enter (context) || m <= 0 || n <= 0 || k <= 0)
    return;
  bool equal_rows = context->deterministic && kind == PRODUCT_FORWARD;
  if (kind == PRODUCT_FORWARD && type == DEV_BF16 && !equal_rows
      && cuda_multiply_few_rows (context, c, c_type, a, b, m, n, k))
    return;
  struct key key;
  memset (&key, 0, sizeof key);
  key.kind = is_weight (kind) ? PRODUCT_WEIGHT : kind; /* with and without adding by one algorithm */
  key.c_type = c_type;
  key.type = type;
  key.alignment = alignment_of (a, b, c);
  key.deterministic = context->deterministic;
  key.m = equal_rows ? DETERMINISTIC_ROWS : is_weight (kind) ? m : bucket_of (m);
  key.n = n;
  key.k = is_weight (kind) ? bucket_of (k) : k;
  struct job job = { kind, c_type, type, c, a, b, m, n, k };
  struct entry *entry = find_entry (context, &key, &job);
  if (entry->state == 1 && (!equal_rows || self->rows_equal))
    {
      cublasStatus_t status = run_job (context, &job, &entry->algorithm);
      if (status == CUBLAS_STATUS_SUCCESS)
        return;
      if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
        {
          cuda_fail (context, DEV_FAILED, "a product of %d x %d x %d: %s", m, n, k, cublasLtGetStatusString (status));
          return;
        }
    }
  multiply_portably (context, kind, c, c_type, a, b, type, m, n, k);
}

__global__ void
fill_pattern (void *to, int n, bool as_bf16)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint32_t bits = (uint32_t) i * 2654435761u;
  bits ^= bits >> 15;
  float value = (float) (bits % 2001u) / 1000.0f - 1.0f;
  if (as_bf16)
    ((bf16 *) to)[i] = (bf16) value;
  else
    ((float *) to)[i] = value;
}

#define TEST_ROWS 300
#define TEST_SIZE 640

/* Whether rows of a product are equal for several numbers of rows, in one type; the scratch holds everything. */
static bool
rows_are_equal (struct dev_context *context, enum dev_type type, char *scratch, char *host)
{
  static const int counts[] = { 1, 2, 15, 17, 64, 130, 299 };
  size_t size = dev_type_size (type), bytes = TEST_ROWS * TEST_SIZE * size;
  char *x = scratch, *w = x + dev_align (bytes), *y = w + dev_align (TEST_SIZE * TEST_SIZE * size);
  int nx = TEST_ROWS * TEST_SIZE, nw = TEST_SIZE * TEST_SIZE;
  bool equal = true;
  fill_pattern<<<ceil_div (nx, 256), 256, 0, context->stream>>> (x, nx, type == DEV_BF16);
  fill_pattern<<<ceil_div (nw, 256), 256, 0, context->stream>>> (w, nw, type == DEV_BF16);
  cuda_multiply (context, PRODUCT_FORWARD, y, type, x, w, type, TEST_ROWS, TEST_SIZE, TEST_SIZE);
  cuda_download (context, host, y, bytes);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0] && equal && !context->status; i++)
    {
      size_t part = counts[i] * TEST_SIZE * size;
      cuda_multiply (context, PRODUCT_FORWARD, y, type, x, w, type, counts[i], TEST_SIZE, TEST_SIZE);
      cuda_download (context, host + bytes, y, part);
      equal = memcmp (host, host + bytes, part) == 0;
    }
  return equal;
}

static void
self_test (struct dev_context *context, struct cuda_products *self)
{
  size_t bytes = TEST_ROWS * TEST_SIZE * sizeof (float), weights = TEST_SIZE * TEST_SIZE * sizeof (float);
  char *scratch = NULL, *host = (char *) malloc (2 * bytes);
  self->rows_equal = true;
  if (host && cuda_ok (context, cudaMalloc ((void **) &scratch, 2 * bytes + weights + 4 * DEV_ALIGN), "self-test of products"))
    {
      context->deterministic = true;
      self->rows_equal = rows_are_equal (context, DEV_BF16, scratch, host)
                         && rows_are_equal (context, DEV_F32, scratch, host);
      context->deterministic = false;
    }
  cudaFree (scratch);
  free (host);
}

struct cuda_products *
cuda_products_new (struct dev_context *context)
{
  struct cuda_products *self = (struct cuda_products *) calloc (1, sizeof *self);
  if (!self || !(self->cache = (struct entry *) calloc (CACHE_SLOTS, sizeof *self->cache))
      || cublasLtCreate (&self->handle) != CUBLAS_STATUS_SUCCESS)
    {
      cuda_fail (context, DEV_FAILED, "cuBLASLt could not be started");
      cuda_products_free (self);
      return NULL;
    }
  cuda_ok (context, cudaMalloc (&self->workspace, LIBRARY_WORKSPACE), "the workspace of cuBLASLt");
  cuda_ok (context, cudaEventCreate (&self->start), "cudaEventCreate");
  cuda_ok (context, cudaEventCreate (&self->end), "cudaEventCreate");
  context->products = self;
  self_test (context, self);
  return self;
}

void
cuda_products_free (struct cuda_products *self)
{
  if (!self)
    return;
  if (self->handle)
    cublasLtDestroy (self->handle);
  if (self->start)
    cudaEventDestroy (self->start);
  if (self->end)
    cudaEventDestroy (self->end);
  cudaFree (self->workspace);
  free (self->cache);
  free (self);
}

const char *
cuda_products_path (struct cuda_products *self)
{
  return self->rows_equal ? "cuBLASLt" : "cuBLASLt, plain where rows must be equal";
}
