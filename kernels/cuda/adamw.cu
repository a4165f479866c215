/* SPDX-License-Identifier: Apache-2.0 */

/* AdamW (Loshchilov and Hutter 2019), with its state on the device or with the host, and the sum of squares that clipping
 * needs. */

#include "kernels/cuda/context.cuh"

#include <stdlib.h> // defines: calloc, free

#define THREADS 256
#define SQUARE_PARTS 1024

template <typename T, int N>
__global__ void
adamw (T *param, float *master, const float *grad, float *m, float *v, size_t chunks, dev_adamw a)
{
  size_t i = ((size_t) blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= chunks)
    return;
  float g[N], first[N], second[N], value[N];
  load_pack (g, grad + i * N);
  load_pack (first, m + i * N);
  load_pack (second, v + i * N);
  if (master)
    load_pack (value, master + i * N);
  else
    load_pack (value, param + i * N);
  float step = a.learning_rate / a.correction1, root = 1.0f / sqrtf (a.correction2);
  float keep = 1.0f - a.learning_rate * a.weight_decay;
#pragma unroll
  for (int k = 0; k < N; k++)
    {
      float scaled = g[k] * a.gradient_scale;
      first[k] = a.beta1 * first[k] + (1.0f - a.beta1) * scaled;
      second[k] = a.beta2 * second[k] + (1.0f - a.beta2) * scaled * scaled;
      value[k] = keep * value[k] - step * first[k] / (sqrtf (second[k]) * root + a.epsilon);
    }
  store_pack (m + i * N, first);
  store_pack (v + i * N, second);
  if (master)
    store_pack (master + i * N, value);
  store_pack (param + i * N, value);
}

static void
update (struct dev_context *context, void *param, float *master, const float *grad, float *m, float *v, size_t n,
        const struct dev_adamw *a, enum dev_type type)
{
  bool eights = cuda_in_eights (8, grad, m, v) && cuda_in_eights (8, master, param, NULL);
  size_t head = eights ? n / 8 * 8 : 0, size = dev_type_size (type);
  if (head)
    WITH_TYPE (type, (adamw<T, 8><<<ceil_div (head / 8, THREADS), THREADS, 0, context->stream>>> (
                         (T *) param, master, grad, m, v, head / 8, *a)));
  if (head < n)
    WITH_TYPE (type, (adamw<T, 1><<<ceil_div (n - head, THREADS), THREADS, 0, context->stream>>> (
                         (T *) ((char *) param + head * size), master ? master + head : NULL, grad + head, m + head,
                         v + head, n - head, *a)));
  CUDA_LAUNCHED (context, "adamw");
}

#define STAGES 3
#define MOST_STAGED ((size_t) 2 << 20) // elements of a piece

/* State that lies with the host comes in pieces: one is brought while the one before it is updated, and the one before that
 * is taken back. */
struct cuda_stager
{
  cudaStream_t in, out;
  cudaEvent_t start, end, brought[STAGES], updated[STAGES], taken[STAGES];
};

static bool
new_event (struct dev_context *context, cudaEvent_t *event)
{
  return cuda_ok (context, cudaEventCreateWithFlags (event, cudaEventDisableTiming), "cudaEventCreate");
}

static bool
make_stager (struct dev_context *context)
{
  if (context->stager)
    return true;
  struct cuda_stager *s = context->stager = (struct cuda_stager *) calloc (1, sizeof *s);
  if (!s)
    {
      cuda_fail (context, DEV_NO_MEMORY, "out of memory");
      return false;
    }
  bool ok = cuda_ok (context, cudaStreamCreateWithFlags (&s->in, cudaStreamNonBlocking), "cudaStreamCreate")
            && cuda_ok (context, cudaStreamCreateWithFlags (&s->out, cudaStreamNonBlocking), "cudaStreamCreate")
            && new_event (context, &s->start) && new_event (context, &s->end);
  for (int i = 0; ok && i < STAGES; i++)
    ok = new_event (context, &s->brought[i]) && new_event (context, &s->updated[i]) && new_event (context, &s->taken[i]);
  return ok;
}

void
cuda_stager_free (struct cuda_stager *s)
{
  if (!s)
    return;
  for (int i = 0; i < STAGES; i++)
    {
      cudaEvent_t events[] = { s->brought[i], s->updated[i], s->taken[i] };
      for (cudaEvent_t event : events)
        if (event)
          cudaEventDestroy (event);
    }
  if (s->start)
    cudaEventDestroy (s->start);
  if (s->end)
    cudaEventDestroy (s->end);
  if (s->in)
    cudaStreamDestroy (s->in);
  if (s->out)
    cudaStreamDestroy (s->out);
  free (s);
}

/* Copies the arrays of a piece, those that exist, one after the other. */
static void
copy_arrays (struct dev_context *context, float *const to[3], float *const from[3], size_t n, cudaStream_t stream)
{
  for (int i = 0; i < 3; i++)
    if (from[i] && to[i])
      cuda_ok (context, cudaMemcpyAsync (to[i], from[i], n * sizeof (float), cudaMemcpyDefault, stream), "off-loaded state");
}

static void
update_staged (struct dev_context *context, void *param, float *master, const float *grad, float *m, float *v, size_t n,
               const struct dev_adamw *a, enum dev_type type)
{
  size_t piece = context->workspace_size / (STAGES * 3 * sizeof (float)) / 64 * 64;
  piece = piece < MOST_STAGED ? piece : MOST_STAGED;
  if (!make_stager (context) || !cuda_scratch (context, (size_t) STAGES * 3 * 64 * sizeof (float), "adamw"))
    return;
  struct cuda_stager *s = context->stager;
  cudaEventRecord (s->start, context->stream);
  cudaStreamWaitEvent (s->in, s->start, 0);
  for (size_t at = 0, i = 0; at < n; at += piece, i++)
    {
      int stage = (int) (i % STAGES);
      size_t count = n - at < piece ? n - at : piece;
      float *base = (float *) context->workspace + (size_t) stage * 3 * piece;
      float *own[3] = { base, base + piece, master ? base + 2 * piece : NULL };
      float *host[3] = { m + at, v + at, master ? master + at : NULL };
      if (i >= STAGES)
        cudaStreamWaitEvent (s->in, s->taken[stage], 0);
      copy_arrays (context, own, host, count, s->in);
      cudaEventRecord (s->brought[stage], s->in);
      cudaStreamWaitEvent (context->stream, s->brought[stage], 0);
      update (context, (char *) param + at * dev_type_size (type), own[2], grad + at, own[0], own[1], count, a, type);
      cudaEventRecord (s->updated[stage], context->stream);
      cudaStreamWaitEvent (s->out, s->updated[stage], 0);
      copy_arrays (context, host, own, count, s->out);
      cudaEventRecord (s->taken[stage], s->out);
    }
  cudaEventRecord (s->end, s->out);
  cuda_ok (context, cudaStreamWaitEvent (context->stream, s->end, 0), "off-loaded state");
}

static bool
is_with_host (const void *memory)
{
  cudaPointerAttributes attributes;
  return cudaPointerGetAttributes (&attributes, memory) == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

void
cuda_adamw (struct dev_context *context, void *param, float *master, const float *grad, float *m, float *v, size_t n,
            const struct dev_adamw *a, enum dev_type type)
{
  if (!cuda_enter (context) || n == 0)
    return;
  if (is_with_host (m))
    update_staged (context, param, master, grad, m, v, n, a, type);
  else
    update (context, param, master, grad, m, v, n, a, type);
}

__device__ double
block_sum_double (double x, double *shared)
{
  shared[threadIdx.x] = x;
  for (int half = THREADS / 2; half; half /= 2)
    {
      __syncthreads ();
      if (threadIdx.x < half)
        shared[threadIdx.x] += shared[threadIdx.x + half];
    }
  __syncthreads ();
  return shared[0];
}

/* Part p sums its range, which begins at a multiple of four. */
__global__ void
square_parts (double *parts, const float *x, size_t n, size_t each, bool aligned)
{
  __shared__ double shared[THREADS];
  size_t start = blockIdx.x * each, end = start + each < n ? start + each : n;
  double sum = 0;
  for (size_t i = start + threadIdx.x * 4; i < end; i += THREADS * 4)
    {
      float four[4] = { 0, 0, 0, 0 };
      if (aligned && i + 4 <= end)
        load_pack (four, x + i);
      else
        for (size_t k = i; k < end && k < i + 4; k++)
          four[k - i] = x[k];
      for (int k = 0; k < 4; k++)
        sum += (double) four[k] * four[k];
    }
  sum = block_sum_double (sum, shared);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = start < n ? sum : 0;
}

__global__ void
add_parts (double *out, const double *parts)
{
  __shared__ double shared[THREADS];
  double sum = 0;
  for (int i = threadIdx.x; i < SQUARE_PARTS; i += THREADS)
    sum += parts[i];
  sum = block_sum_double (sum, shared);
  if (threadIdx.x == 0)
    *out = sum;
}

void
cuda_square_sum (struct dev_context *context, double *out, const float *x, size_t n)
{
  if (!cuda_enter (context))
    return;
  double *parts = (double *) cuda_scratch (context, SQUARE_PARTS * sizeof (double), "square_sum");
  if (!parts)
    return;
  size_t each = ((n + SQUARE_PARTS - 1) / SQUARE_PARTS + 3) / 4 * 4;
  square_parts<<<SQUARE_PARTS, THREADS, 0, context->stream>>> (parts, x, n, each, (uintptr_t) x % 16 == 0);
  add_parts<<<1, THREADS, 0, context->stream>>> (out, parts);
  CUDA_LAUNCHED (context, "square_sum");
}
