/* SPDX-License-Identifier: Apache-2.0 */

/* Opening a GPU, its memory, transfers, marks and recorded graphs. */

#include "kernels/cuda/context.cuh"

#include <nvtx3/nvToolsExt.h>
#include <stdarg.h> // defines: va_list
#include <stdio.h>  // defines: snprintf
#include <stdlib.h> // defines: calloc, free
#include <string.h> // defines: memcpy

#define RING_PARTS 4
#define RING_PART_BYTES (4u << 20)

/* Pinned memory that uploads pass through, so that the caller's buffer is free when an upload returns and the
 * queue need not be waited for. A part is used again when the copies out of it are done. */
struct cuda_ring
{
  char *memory;
  cudaEvent_t done[RING_PARTS];
  int part;
  size_t used;
};

struct dev_arena
{
  struct dev_context *context;
  CUdeviceptr base;
  size_t size, page;             // page 0: one plain allocation
  CUmemGenericAllocationHandle *handles; // one per page, 0 where not committed
};

struct dev_mark
{
  cudaEvent_t event;
};

struct dev_graph
{
  cudaGraphExec_t exec;
};

/* Calls of the driver, found at run time: the module loads where only the runtime is installed. */
static struct
{
  CUresult (*reserve) (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
  CUresult (*release) (CUdeviceptr, size_t);
  CUresult (*create) (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
  CUresult (*destroy) (CUmemGenericAllocationHandle);
  CUresult (*map) (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
  CUresult (*unmap) (CUdeviceptr, size_t);
  CUresult (*access) (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
  CUresult (*granularity) (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
} driver;

static bool
find_driver (void)
{
  struct
  {
    const char *name;
    void **function;
  } calls[] = {
    { "cuMemAddressReserve", (void **) &driver.reserve },
    { "cuMemAddressFree", (void **) &driver.release },
    { "cuMemCreate", (void **) &driver.create },
    { "cuMemRelease", (void **) &driver.destroy },
    { "cuMemMap", (void **) &driver.map },
    { "cuMemUnmap", (void **) &driver.unmap },
    { "cuMemSetAccess", (void **) &driver.access },
    { "cuMemGetAllocationGranularity", (void **) &driver.granularity },
  };
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    {
      cudaDriverEntryPointQueryResult found;
      if (cudaGetDriverEntryPointByVersion (calls[i].name, calls[i].function, 12000, cudaEnableDefault, &found)
              != cudaSuccess
          || found != cudaDriverEntryPointSuccess)
        {
          cudaGetLastError ();
          return false;
        }
    }
  return true;
}

void
cuda_fail (struct dev_context *context, int status, const char *format, ...)
{
  if (context->status)
    return;
  va_list args;
  va_start (args, format);
  vsnprintf (context->message, sizeof context->message, format, args);
  va_end (args);
  context->status = status;
}

bool
cuda_ok (struct dev_context *context, cudaError_t error, const char *what)
{
  if (error == cudaSuccess)
    return true;
  cuda_fail (context, error == cudaErrorMemoryAllocation ? DEV_NO_MEMORY : DEV_FAILED, "%s: %s", what,
             cudaGetErrorString (error));
  return false;
}

bool
cuda_enter (struct dev_context *context)
{
  static thread_local int current = -1;
  context->before.x = NULL;
  if (context->status)
    return false;
  if (current != context->ordinal)
    {
      if (!cuda_ok (context, cudaSetDevice (context->ordinal), "cudaSetDevice"))
        return false;
      current = context->ordinal;
    }
  return true;
}

void *
cuda_scratch (struct dev_context *context, size_t bytes, const char *what)
{
  if (bytes <= context->workspace_size)
    return context->workspace;
  cuda_fail (context, DEV_NO_MEMORY, "%s needs %zu bytes of workspace, which has %zu: it is too small", what, bytes,
             context->workspace_size);
  return NULL;
}

static bool
ring_new (struct dev_context *context)
{
  struct cuda_ring *ring = (struct cuda_ring *) calloc (1, sizeof *ring);
  if (!ring)
    return false;
  context->ring = ring;
  if (!cuda_ok (context, cudaMallocHost ((void **) &ring->memory, (size_t) RING_PARTS * RING_PART_BYTES),
                "cudaMallocHost"))
    return false;
  for (int i = 0; i < RING_PARTS; i++)
    if (!cuda_ok (context, cudaEventCreateWithFlags (&ring->done[i], cudaEventDisableTiming), "cudaEventCreate"))
      return false;
  return true;
}

static void
ring_free (struct cuda_ring *ring)
{
  if (!ring)
    return;
  for (int i = 0; i < RING_PARTS; i++)
    if (ring->done[i])
      cudaEventDestroy (ring->done[i]);
  cudaFreeHost (ring->memory);
  free (ring);
}

/* Finds the device and makes its queue, workspace, ring and products. */
static void
open_device (struct dev_context *self, int ordinal, size_t workspace)
{
  int count = 0, supported = 0, shared = 0, major = 0;
  if (!cuda_ok (self, cudaGetDeviceCount (&count), "looking for a GPU"))
    return;
  if (ordinal < 0 || ordinal >= count)
    {
      cuda_fail (self, DEV_FAILED, "there is no cuda:%d; this machine has %d GPU%s", ordinal, count,
                 count == 1 ? "" : "s");
      return;
    }
  if (!cuda_enter (self)
      || !cuda_ok (self, cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, ordinal), "attributes"))
    return;
  if (major < 8)
    {
      cuda_fail (self, DEV_UNSUPPORTED, "cuda:%d has compute capability %d; 8.0 (A100) or later is needed", ordinal,
                 major);
      return;
    }
  cudaDeviceGetAttribute (&self->multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
  cudaDeviceGetAttribute (&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
  self->shared_limit = shared;
  cudaDeviceGetAttribute (&self->shared_of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal);
  self->overlap = major >= 9;
  self->hopper = major == 9;
  if (find_driver ())
    {
      struct cudaDeviceProp properties;
      supported = cudaGetDeviceProperties (&properties, ordinal) == cudaSuccess;
    }
  self->virtual_memory = supported != 0;
  self->workspace_size = dev_align (workspace ? workspace : 1);
  if (!cuda_ok (self, cudaStreamCreateWithFlags (&self->stream, cudaStreamNonBlocking), "cudaStreamCreate")
      || !cuda_ok (self, cudaMalloc ((void **) &self->workspace, self->workspace_size), "the workspace")
      || !cuda_ok (self, cudaMalloc ((void **) &self->tickets, CUDA_TICKETS * sizeof *self->tickets), "tickets")
      || !cuda_ok (self, cudaMemset (self->tickets, 0, CUDA_TICKETS * sizeof *self->tickets), "tickets")
      || !cuda_ok (self, cudaEventCreate (&self->timed[0]), "cudaEventCreate")
      || !cuda_ok (self, cudaEventCreate (&self->timed[1]), "cudaEventCreate") || !ring_new (self))
    return;
  self->products = cuda_products_new (self);
}

int
cuda_open (int ordinal, size_t workspace, struct dev_context **context, char *host_message, size_t message_size)
{
  struct dev_context *self = (struct dev_context *) calloc (1, sizeof *self);
  if (!self)
    {
      snprintf (host_message, message_size, "out of memory");
      return DEV_NO_MEMORY;
    }
  self->ordinal = ordinal;
  open_device (self, ordinal, workspace);
  if (self->status == DEV_OK)
    {
      *context = self;
      return DEV_OK;
    }
  int status = self->status;
  snprintf (host_message, message_size, "%s", self->message);
  cuda_close (self);
  return status;
}

void
cuda_close (struct dev_context *context)
{
  if (!context)
    return;
  if (context->stream)
    cudaStreamSynchronize (context->stream);
  cuda_attention_free (context->attention);
  cuda_products_free (context->products);
  ring_free (context->ring);
  cuda_stager_free (context->stager);
  cudaFree (context->workspace);
  cudaFree (context->tickets);
  for (int i = 0; i < 2; i++)
    if (context->timed[i])
      cudaEventDestroy (context->timed[i]);
  if (context->stream)
    cudaStreamDestroy (context->stream);
  free (context);
}

void
cuda_info (struct dev_context *context, struct dev_info *host_info)
{
  size_t available = 0, total = 0;
  struct cudaDeviceProp properties;
  memset (host_info, 0, sizeof *host_info);
  if (!cuda_enter (context))
    return;
  if (cudaGetDeviceProperties (&properties, context->ordinal) == cudaSuccess)
    snprintf (host_info->name, sizeof host_info->name, "%.127s", properties.name);
  cudaMemGetInfo (&available, &total);
  host_info->cores = context->multiprocessors;
  host_info->memory_total = total;
  host_info->memory_available = available;
  host_info->native_bf16 = true;
  host_info->asynchronous = true;
  snprintf (host_info->matmul_path, sizeof host_info->matmul_path, "%s%s", cuda_products_path (context->products),
            context->deterministic ? ", deterministic" : "");
}

int
cuda_status (struct dev_context *context, char *host_message, size_t message_size)
{
  if (cuda_enter (context))
    cuda_ok (context, cudaStreamSynchronize (context->stream), "running the queue");
  if (context->status && host_message)
    snprintf (host_message, message_size, "%s", context->message);
  return context->status;
}

void
cuda_set_deterministic (struct dev_context *context, bool deterministic)
{
  context->deterministic = deterministic;
}

void
cuda_range (struct dev_context *context, const char *host_name)
{
  if (host_name)
    nvtxRangePushA (host_name);
  else
    nvtxRangePop ();
}

static CUmemAllocationProp
page_properties (int ordinal)
{
  CUmemAllocationProp properties;
  memset (&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

/* Reserves addresses; false where one plain allocation serves better (small arenas) or must do. */
static bool
reserve_addresses (struct dev_context *context, struct dev_arena *arena, size_t bytes)
{
  CUmemAllocationProp properties = page_properties (context->ordinal);
  size_t page = 0;
  if (!context->virtual_memory
      || driver.granularity (&page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS || !page
      || bytes < page)
    return false;
  /* Large arenas take larger pages, so that committing them is not thousands of calls. */
  while (page < ((size_t) 64 << 20) && bytes / page > 256)
    page *= 2;
  arena->size = (bytes + page - 1) / page * page;
  arena->handles = (CUmemGenericAllocationHandle *) calloc (arena->size / page, sizeof *arena->handles);
  if (!arena->handles || driver.reserve (&arena->base, arena->size, 0, 0, 0) != CUDA_SUCCESS)
    {
      free (arena->handles);
      arena->handles = NULL;
      return false;
    }
  arena->page = page;
  return true;
}

struct dev_arena *
cuda_arena_reserve (struct dev_context *context, size_t bytes)
{
  struct dev_arena *arena = (struct dev_arena *) calloc (1, sizeof *arena);
  if (!arena || !cuda_enter (context))
    {
      free (arena);
      return NULL;
    }
  arena->context = context;
  if (reserve_addresses (context, arena, bytes ? bytes : 1))
    return arena;
  arena->size = bytes ? bytes : 1;
  if (cudaMalloc ((void **) &arena->base, arena->size) == cudaSuccess
      && cuda_ok (context, cudaMemsetAsync ((void *) arena->base, 0, arena->size, context->stream), "clearing memory"))
    return arena;
  cudaGetLastError ();
  cudaFree ((void *) arena->base);
  free (arena);
  return NULL;
}

void *
cuda_arena_base (struct dev_arena *arena)
{
  return (void *) arena->base;
}

/* One page: memory, its mapping, the right to use it. */
static bool
commit_page (struct dev_arena *arena, size_t index)
{
  CUmemAllocationProp properties = page_properties (arena->context->ordinal);
  CUmemAccessDesc access;
  CUdeviceptr at = arena->base + index * arena->page;
  memset (&access, 0, sizeof access);
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (driver.create (&arena->handles[index], arena->page, &properties, 0) != CUDA_SUCCESS)
    {
      arena->handles[index] = 0;
      return false;
    }
  if (driver.map (at, arena->page, 0, arena->handles[index], 0) == CUDA_SUCCESS)
    {
      if (driver.access (at, arena->page, &access, 1) == CUDA_SUCCESS)
        return true;
      driver.unmap (at, arena->page);
    }
  driver.destroy (arena->handles[index]);
  arena->handles[index] = 0;
  return false;
}

int
cuda_arena_commit (struct dev_arena *arena, size_t offset, size_t bytes)
{
  struct dev_context *context = arena->context;
  if (offset + bytes > arena->size || offset + bytes < offset || !cuda_enter (context))
    return DEV_NO_MEMORY;
  if (!arena->page)
    return DEV_OK;
  size_t first = offset / arena->page, last = (offset + bytes + arena->page - 1) / arena->page;
  for (size_t i = first; i < last; i++)
    {
      if (arena->handles[i])
        continue;
      if (!commit_page (arena, i))
        return DEV_NO_MEMORY;
      cuda_ok (context, cudaMemsetAsync ((void *) (arena->base + i * arena->page), 0, arena->page, context->stream),
               "clearing memory");
    }
  return context->status;
}

void
cuda_arena_decommit (struct dev_arena *arena, size_t offset, size_t bytes)
{
  if (!arena->page || offset + bytes > arena->size)
    return;
  cudaStreamSynchronize (arena->context->stream);
  size_t first = (offset + arena->page - 1) / arena->page, last = (offset + bytes) / arena->page;
  for (size_t i = first; i < last; i++)
    if (arena->handles[i])
      {
        driver.unmap (arena->base + i * arena->page, arena->page);
        driver.destroy (arena->handles[i]);
        arena->handles[i] = 0;
      }
}

void
cuda_arena_free (struct dev_arena *arena)
{
  if (!arena)
    return;
  if (arena->page)
    {
      cuda_arena_decommit (arena, 0, arena->size);
      driver.release (arena->base, arena->size);
    }
  else
    {
      cudaStreamSynchronize (arena->context->stream);
      cudaFree ((void *) arena->base);
    }
  free (arena->handles);
  free (arena);
}

void *
cuda_host_allocate (struct dev_context *context, size_t bytes)
{
  void *memory = NULL;
  if (!cuda_enter (context) || !cuda_ok (context, cudaMallocHost (&memory, bytes ? bytes : 1), "pinned memory"))
    return NULL;
  memset (memory, 0, bytes);
  return memory;
}

void
cuda_host_free (struct dev_context *context, void *host_memory)
{
  if (host_memory)
    cudaFreeHost (host_memory);
}

/* Room for up to `bytes` in the current part of the ring; *got says how much there is. */
static char *
ring_take (struct dev_context *context, size_t bytes, size_t *got)
{
  struct cuda_ring *ring = context->ring;
  if (ring->used == RING_PART_BYTES)
    {
      cudaEventRecord (ring->done[ring->part], context->stream);
      ring->part = (ring->part + 1) % RING_PARTS;
      ring->used = 0;
      if (!cuda_ok (context, cudaEventSynchronize (ring->done[ring->part]), "waiting for an upload"))
        return NULL;
    }
  size_t room = RING_PART_BYTES - ring->used;
  *got = bytes < room ? bytes : room;
  char *at = ring->memory + (size_t) ring->part * RING_PART_BYTES + ring->used;
  ring->used += (*got + 15) / 16 * 16;
  if (ring->used > RING_PART_BYTES)
    ring->used = RING_PART_BYTES;
  return at;
}

void
cuda_upload (struct dev_context *context, void *to, const void *host_from, size_t bytes)
{
  size_t got = 0;
  for (size_t done = 0; done < bytes && cuda_enter (context); done += got)
    {
      char *at = ring_take (context, bytes - done, &got);
      if (!at)
        return;
      memcpy (at, (const char *) host_from + done, got);
      cuda_ok (context, cudaMemcpyAsync ((char *) to + done, at, got, cudaMemcpyDefault, context->stream), "upload");
    }
}

void
cuda_download (struct dev_context *context, void *host_to, const void *from, size_t bytes)
{
  if (cuda_enter (context)
      && cuda_ok (context, cudaMemcpyAsync (host_to, from, bytes, cudaMemcpyDefault, context->stream), "download"))
    cuda_ok (context, cudaStreamSynchronize (context->stream), "download");
}

void
cuda_download_later (struct dev_context *context, void *host_to, const void *from, size_t bytes)
{
  if (cuda_enter (context))
    cuda_ok (context, cudaMemcpyAsync (host_to, from, bytes, cudaMemcpyDefault, context->stream), "download");
}

struct dev_mark *
cuda_mark_new (struct dev_context *context)
{
  struct dev_mark *mark = (struct dev_mark *) calloc (1, sizeof *mark);
  if (mark && cuda_enter (context)
      && cuda_ok (context, cudaEventCreateWithFlags (&mark->event, cudaEventDisableTiming), "cudaEventCreate"))
    return mark;
  free (mark);
  return NULL;
}

void
cuda_mark_set (struct dev_context *context, struct dev_mark *mark)
{
  if (mark && cuda_enter (context))
    cuda_ok (context, cudaEventRecord (mark->event, context->stream), "cudaEventRecord");
}

int
cuda_mark_wait (struct dev_context *context, struct dev_mark *mark)
{
  if (mark && cuda_enter (context))
    cuda_ok (context, cudaEventSynchronize (mark->event), "running the queue");
  return context->status;
}

void
cuda_mark_free (struct dev_mark *mark)
{
  if (mark)
    cudaEventDestroy (mark->event);
  free (mark);
}

void
cuda_copy (struct dev_context *context, void *to, const void *from, size_t bytes)
{
  if (cuda_enter (context))
    cuda_ok (context, cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, context->stream), "copy");
}

void
cuda_zero (struct dev_context *context, void *to, size_t bytes)
{
  if (cuda_enter (context))
    cuda_ok (context, cudaMemsetAsync (to, 0, bytes, context->stream), "zero");
}

void
cuda_record_begin (struct dev_context *context)
{
  if (!cuda_enter (context))
    return;
  context->recording
      = cuda_ok (context, cudaStreamBeginCapture (context->stream, cudaStreamCaptureModeThreadLocal), "recording");
}

/* The recorded ops have not run yet, so they are queued once: recording does what the ops do. */
struct dev_graph *
cuda_record_end (struct dev_context *context)
{
  cudaGraph_t graph = NULL;
  if (!context->recording)
    return NULL;
  context->recording = false;
  cudaError_t error = cudaStreamEndCapture (context->stream, &graph);
  struct dev_graph *self = (struct dev_graph *) calloc (1, sizeof *self);
  if (self && cuda_ok (context, error, "recording")
      && cuda_ok (context, cudaGraphInstantiate (&self->exec, graph, 0), "cudaGraphInstantiate"))
    {
      cudaGraphDestroy (graph);
      cuda_replay (context, self);
      return self;
    }
  if (graph)
    cudaGraphDestroy (graph);
  free (self);
  return NULL;
}

void
cuda_replay (struct dev_context *context, struct dev_graph *graph)
{
  if (graph && cuda_enter (context))
    cuda_ok (context, cudaGraphLaunch (graph->exec, context->stream), "cudaGraphLaunch");
}

void
cuda_graph_free (struct dev_graph *graph)
{
  if (graph)
    cudaGraphExecDestroy (graph->exec);
  free (graph);
}

/* Logits of up to 2048 rows and their gradients, or what the sums over rows of the other ops take. */
size_t
cuda_workspace_size (int vocabulary, int max_context, int head_size, int width)
{
  size_t head = (size_t) vocabulary * 6 * 2048 + ((size_t) vocabulary / 8192 + 1) * 2048 * 32;
  size_t rows = (size_t) width * sizeof (float) * 1024;
  size_t attention = (size_t) head_size * 4 * 16384;
  size_t most = head > rows ? head : rows;
  return dev_align (most > attention ? most : attention) + 8 * DEV_ALIGN;
}
