/* SPDX-License-Identifier: Apache-2.0 */

/* Opening the processor, its memory, and plain copies. */

#include "kernels/cpu/context.h"
#include "kernels/cpu/product.h"

#include <omp.h>      // defines: omp_get_max_threads
#include <stdarg.h>   // defines: va_list
#include <stdio.h>    // defines: snprintf, fopen
#include <stdlib.h>   // defines: calloc, free
#include <string.h>   // defines: memcpy, memset
#include <sys/mman.h> // defines: mmap, madvise
#include <unistd.h>   // defines: sysconf

struct dev_arena
{
  char *base;
  size_t size;
};

void
cpu_fail (struct dev_context *context, int status, const char *format, ...)
{
  if (context->status)
    return;
  va_list args;
  va_start (args, format);
  vsnprintf (context->message, sizeof context->message, format, args);
  va_end (args);
  context->status = status;
}

int
cpu_open (int ordinal, size_t workspace, struct dev_context **context, char *host_message,
          size_t message_size)
{
  struct dev_context *self = calloc (1, sizeof *self);
  if (!self)
    {
      snprintf (host_message, message_size, "out of memory");
      return DEV_NO_MEMORY;
    }
  self->threads = omp_get_max_threads ();
  if (self->threads > CPU_MAX_THREADS)
    self->threads = CPU_MAX_THREADS;
  self->workspace_size = dev_align (workspace);
  self->workspace = aligned_alloc (DEV_ALIGN, self->workspace_size);
  self->products = self->workspace ? cpu_products_new (self) : NULL;
  if (!self->products)
    {
      snprintf (host_message, message_size, "cannot open the processor with %zu bytes of workspace",
                workspace);
      cpu_close (self);
      return DEV_NO_MEMORY;
    }
  *context = self;
  return DEV_OK;
}

void
cpu_close (struct dev_context *context)
{
  if (!context)
    return;
  cpu_products_free (context->products);
  free (context->workspace);
  free (context);
}

static uint64_t
read_available_memory (void)
{
  FILE *file = fopen ("/proc/meminfo", "r");
  char line[128];
  unsigned long long kib = 0;
  while (file && fgets (line, sizeof line, file))
    if (sscanf (line, "MemAvailable: %llu kB", &kib) == 1)
      break;
  if (file)
    fclose (file);
  return (uint64_t) kib * 1024;
}

void
cpu_info (struct dev_context *context, struct dev_info *host_info)
{
  memset (host_info, 0, sizeof *host_info);
  FILE *file = fopen ("/proc/cpuinfo", "r");
  char line[256];
  while (file && fgets (line, sizeof line, file))
    if (sscanf (line, "model name : %127[^\n]", host_info->name) == 1)
      break;
  if (file)
    fclose (file);
  host_info->cores = context->threads;
  host_info->memory_total = (uint64_t) sysconf (_SC_PHYS_PAGES) * (uint64_t) sysconf (_SC_PAGESIZE);
  host_info->memory_available = read_available_memory ();
  host_info->native_bf16 = cpu_products_native_bf16 (context->products);
  snprintf (host_info->matmul_path, sizeof host_info->matmul_path, "%s",
            cpu_products_path (context->products));
}

const char *
cpu_attention_path (struct dev_context *context)
{
  return "";
}

int
cpu_status (struct dev_context *context, char *host_message, size_t message_size)
{
  if (context->status && host_message)
    snprintf (host_message, message_size, "%s", context->message);
  return context->status;
}

size_t
cpu_workspace_size (int vocabulary, int max_context, int head_size, int width)
{
  size_t threads = (size_t) omp_get_max_threads ();
  if (threads > CPU_MAX_THREADS)
    threads = CPU_MAX_THREADS;
  size_t head = 2 * dev_align ((size_t) CPU_HEAD_CHUNK * vocabulary * sizeof (float));
  size_t attention = cpu_attention_scratch (max_context, head_size);
  size_t rows = CPU_ROW_SCRATCH * (size_t) width * sizeof (float);
  size_t slice = attention > rows ? attention : rows;
  slice = dev_align (slice) * threads;
  return head > slice ? head : slice;
}

char *
cpu_thread_scratch (struct dev_context *context, size_t bytes, size_t *stride)
{
  *stride = context->workspace_size / context->threads / DEV_ALIGN * DEV_ALIGN;
  if (*stride < bytes)
    {
      cpu_fail (context, DEV_NO_MEMORY,
                "the workspace has %zu bytes per thread where %zu are needed; open it for longer "
                "contexts",
                *stride, bytes);
      return NULL;
    }
  return context->workspace;
}

static size_t
page_round (size_t bytes)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

struct dev_arena *
cpu_arena_reserve (struct dev_context *context, size_t bytes)
{
  struct dev_arena *arena = calloc (1, sizeof *arena);
  if (!arena)
    return NULL;
  arena->size = page_round (bytes ? bytes : 1);
  arena->base = mmap (NULL, arena->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena->base == MAP_FAILED)
    {
      cpu_fail (context, DEV_NO_MEMORY, "cannot reserve %zu bytes of address space", arena->size);
      free (arena);
      return NULL;
    }
  return arena;
}

void *
cpu_arena_base (struct dev_arena *arena)
{
  return arena->base;
}

int
cpu_arena_commit (struct dev_arena *arena, size_t offset, size_t bytes)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  size_t start = offset / page * page;
  size_t end = page_round (offset + bytes);
  if (end > arena->size || offset + bytes < offset)
    return DEV_NO_MEMORY;
  if (mprotect (arena->base + start, end - start, PROT_READ | PROT_WRITE))
    return DEV_NO_MEMORY;
  madvise (arena->base + start, end - start, MADV_HUGEPAGE);
  return DEV_OK;
}

void
cpu_arena_decommit (struct dev_arena *arena, size_t offset, size_t bytes)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  size_t start = page_round (offset);
  size_t end = (offset + bytes) / page * page;
  if (end <= start || end > arena->size)
    return;
  madvise (arena->base + start, end - start, MADV_DONTNEED);
  mprotect (arena->base + start, end - start, PROT_NONE);
}

void
cpu_arena_free (struct dev_arena *arena)
{
  if (!arena)
    return;
  munmap (arena->base, arena->size);
  free (arena);
}

void
cpu_upload (struct dev_context *context, void *to, const void *host_from, size_t bytes)
{
  cpu_copy (context, to, host_from, bytes);
}

void
cpu_download (struct dev_context *context, void *host_to, const void *from, size_t bytes)
{
  cpu_copy (context, host_to, from, bytes);
}

void
cpu_copy (struct dev_context *context, void *to, const void *from, size_t bytes)
{
  if (!context->status && bytes)
    memcpy (to, from, bytes);
}

void
cpu_zero (struct dev_context *context, void *to, size_t bytes)
{
  if (!context->status && bytes)
    memset (to, 0, bytes);
}

void
cpu_take_tokens (struct dev_context *context, int32_t *ids, const int32_t *tokens, const int32_t *source, int n)
{
  for (int i = 0; !context->status && i < n; i++)
    if (source[i] >= 0)
      ids[i] = tokens[source[i]];
}

/* The CPU is always deterministic, and ops are done when they return: there is nothing to wait for. */
/* Profilers of the CPU see the functions themselves. */
void
cpu_range (struct dev_context *context, const char *host_name)
{
}

void
cpu_set_deterministic (struct dev_context *context, bool deterministic)
{
}

void
cpu_download_later (struct dev_context *context, void *host_to, const void *from, size_t bytes)
{
  cpu_download (context, host_to, from, bytes);
}

void *
cpu_host_allocate (struct dev_context *context, size_t bytes)
{
  void *memory = aligned_alloc (DEV_ALIGN, dev_align (bytes ? bytes : 1));
  return memory ? memset (memory, 0, bytes) : NULL;
}

void
cpu_host_free (struct dev_context *context, void *host_memory)
{
  free (host_memory);
}

struct dev_mark *
cpu_mark_new (struct dev_context *context)
{
  return NULL;
}

void
cpu_mark_set (struct dev_context *context, struct dev_mark *mark)
{
}

int
cpu_mark_wait (struct dev_context *context, struct dev_mark *mark)
{
  return context->status;
}

void
cpu_mark_free (struct dev_mark *mark)
{
}

/* The CPU runs ops as they come; there is nothing to record. */
void
cpu_record_begin (struct dev_context *context)
{
}

struct dev_graph *
cpu_record_end (struct dev_context *context)
{
  return NULL;
}

void
cpu_replay (struct dev_context *context, struct dev_graph *graph)
{
}

void
cpu_graph_free (struct dev_graph *graph)
{
}
