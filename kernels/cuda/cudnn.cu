/* SPDX-License-Identifier: Apache-2.0 */

/* The library cuDNN, opened at run time, and the building of its graphs (the backend API of cuDNN 9). */

#include "kernels/cuda/cudnn.cuh"

#ifdef PLUMB_CUDNN
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>  // defines: snprintf
#include <string.h> // defines: memset

/* The first version whose graphs are built from a description of the device. */
#define OLDEST_VERSION 90800
#define ENGINES 8
#define ALIGNMENT 16

static struct
{
  pthread_once_t once;
  bool found;
  struct cudnn_calls calls;
  char why[96];
} library = { PTHREAD_ONCE_INIT, false, {}, "" };

static void
find_library (void)
{
  struct cudnn_calls *c = &library.calls;
  const struct
  {
    const char *name;
    void **function;
  } calls[] = {
    { "cudnnGetVersion", (void **) &c->version },
    { "cudnnCreate", (void **) &c->create },
    { "cudnnDestroy", (void **) &c->destroy },
    { "cudnnSetStream", (void **) &c->set_stream },
    { "cudnnBackendCreateDescriptor", (void **) &c->make },
    { "cudnnBackendDestroyDescriptor", (void **) &c->unmake },
    { "cudnnBackendSetAttribute", (void **) &c->set },
    { "cudnnBackendGetAttribute", (void **) &c->get },
    { "cudnnBackendFinalize", (void **) &c->finalize },
    { "cudnnBackendExecute", (void **) &c->execute },
  };
  void *handle = dlopen ("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    {
      snprintf (library.why, sizeof library.why, "no libcudnn.so.9");
      return;
    }
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    if (!(*calls[i].function = dlsym (handle, calls[i].name)))
      {
        snprintf (library.why, sizeof library.why, "libcudnn.so.9 has no %s", calls[i].name);
        return;
      }
  size_t version = c->version ();
  if (version < OLDEST_VERSION)
    {
      snprintf (library.why, sizeof library.why, "cuDNN %zu is older than %d", version, OLDEST_VERSION);
      return;
    }
  library.found = true;
}

const struct cudnn_calls *
cudnn_find (const char **why)
{
  pthread_once (&library.once, find_library);
  *why = library.why;
  return library.found ? &library.calls : NULL;
}

static cudnnBackendDescriptor_t
make (struct cudnn_graph *g, cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t made = NULL;
  if (g->status == CUDNN_STATUS_SUCCESS && g->n_made == GRAPH_DESCRIPTORS)
    g->status = CUDNN_STATUS_INTERNAL_ERROR;
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->calls->make (type, &made);
  if (g->status != CUDNN_STATUS_SUCCESS)
    return NULL;
  g->made[g->n_made++] = made;
  return made;
}

static void
set (struct cudnn_graph *g, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
     cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->calls->set (of, name, type, n, values);
}

/* Sets a descriptor unless it is NULL. */
static void
set_part (struct cudnn_graph *g, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
          cudnnBackendDescriptor_t part)
{
  if (part)
    set (g, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void
finish (struct cudnn_graph *g, cudnnBackendDescriptor_t made)
{
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->calls->finalize (made);
}

static void
add_operation (struct cudnn_graph *g, cudnnBackendDescriptor_t operation)
{
  finish (g, operation);
  if (g->status == CUDNN_STATUS_SUCCESS && g->n_operations == GRAPH_OPERATIONS)
    g->status = CUDNN_STATUS_INTERNAL_ERROR;
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->operations[g->n_operations++] = operation;
}

static cudnnBackendDescriptor_t
make_tensor (struct cudnn_graph *g, int64_t id, cudnnDataType_t type, const struct cudnn_shape *shape,
             cudnnBackendDescriptor_t ragged, bool is_virtual, bool by_value)
{
  int64_t alignment = ALIGNMENT;
  cudnnBackendDescriptor_t tensor = make (g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set (g, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set (g, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set (g, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set (g, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->size);
  set (g, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
  set (g, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  set (g, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  set_part (g, tensor, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, ragged);
  finish (g, tensor);
  return tensor;
}

cudnnBackendDescriptor_t
graph_tensor (struct cudnn_graph *g, int64_t id, cudnnDataType_t type, struct cudnn_shape shape,
              cudnnBackendDescriptor_t ragged, bool by_value)
{
  return make_tensor (g, id, type, &shape, ragged, false, by_value);
}

cudnnBackendDescriptor_t
graph_virtual (struct cudnn_graph *g, cudnnDataType_t type, struct cudnn_shape shape, cudnnBackendDescriptor_t ragged)
{
  return make_tensor (g, 1000 + g->virtual_id++, type, &shape, ragged, true, false);
}

void
graph_pointwise (struct cudnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                 cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                 cudnnBackendDescriptor_t t)
{
  cudnnBackendDescriptor_t what = make (g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set (g, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set (g, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis >= 0)
    set (g, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  finish (g, what);
  cudnnBackendDescriptor_t operation = make (g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_part (g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  set_part (g, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  set_part (g, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_part (g, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
  set_part (g, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  add_operation (g, operation);
}

void
graph_reduce (struct cudnn_graph *g, cudnnReduceTensorOp_t operator_, cudnnBackendDescriptor_t y,
              cudnnBackendDescriptor_t x)
{
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t what = make (g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set (g, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator_);
  set (g, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finish (g, what);
  cudnnBackendDescriptor_t operation = make (g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set_part (g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
  set_part (g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set_part (g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add_operation (g, operation);
}

void
graph_multiply (struct cudnn_graph *g, cudnnBackendDescriptor_t c, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                cudnnBackendDescriptor_t m, cudnnBackendDescriptor_t n, cudnnBackendDescriptor_t k)
{
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnBackendDescriptor_t what = make (g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set (g, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finish (g, what);
  cudnnBackendDescriptor_t operation = make (g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
  set_part (g, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
  add_operation (g, operation);
}

void
graph_reshape (struct cudnn_graph *g, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x)
{
  cudnnBackendDescriptor_t operation = make (g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set_part (g, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set_part (g, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add_operation (g, operation);
}

/* Asks for engines with their settings, best first; their number. */
static int64_t
list_engines (struct cudnn_graph *g, cudnnBackendDescriptor_t *engines)
{
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  int64_t found = 0;
  cudnnBackendDescriptor_t operations = make (g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set (g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations, g->operations);
  finish (g, operations);
  cudnnBackendDescriptor_t guess = make (g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_part (g, guess, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
  set (g, guess, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  set_part (g, guess, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->device);
  finish (g, guess);
  for (int i = 0; i < ENGINES; i++)
    engines[i] = make (g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->calls->get (guess, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES, &found,
                               engines);
  return g->status == CUDNN_STATUS_SUCCESS ? found : 0;
}

cudnnBackendDescriptor_t
graph_plan (struct cudnn_graph *g, int64_t *workspace)
{
  cudnnBackendDescriptor_t engines[ENGINES], plan;
  int64_t n = list_engines (g, engines), got = 0;
  for (int64_t i = 0; i < n && i < ENGINES; i++)
    {
      if (g->calls->make (CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS)
        return NULL;
      if (g->calls->set (plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engines[i])
              == CUDNN_STATUS_SUCCESS
          && g->calls->set (plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->device)
                 == CUDNN_STATUS_SUCCESS
          && g->calls->finalize (plan) == CUDNN_STATUS_SUCCESS
          && g->calls->get (plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, workspace)
                 == CUDNN_STATUS_SUCCESS)
        return plan;
      g->calls->unmake (plan);
    }
  return NULL;
}

void
graph_clear (struct cudnn_graph *g)
{
  while (g->n_made > 0)
    g->calls->unmake (g->made[--g->n_made]);
}
#endif
