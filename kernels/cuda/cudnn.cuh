/* SPDX-License-Identifier: Apache-2.0 */

/* cuDNN's graphs: the library, opened at run time where there is one, and a small builder for its descriptors. */

#pragma once

#if __has_include(<cudnn.h>)
#define PLUMB_CUDNN 1
#include <cudnn.h>

#include "kernels/cuda/context.cuh"

/* Calls of the library. */
struct cudnn_calls
{
  size_t (*version) (void);
  cudnnStatus_t (*create) (cudnnHandle_t *);
  cudnnStatus_t (*destroy) (cudnnHandle_t);
  cudnnStatus_t (*set_stream) (cudnnHandle_t, cudaStream_t);
  cudnnStatus_t (*make) (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
  cudnnStatus_t (*unmake) (cudnnBackendDescriptor_t);
  cudnnStatus_t (*set) (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                        const void *);
  cudnnStatus_t (*get) (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                        int64_t *, void *);
  cudnnStatus_t (*finalize) (cudnnBackendDescriptor_t);
  cudnnStatus_t (*execute) (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
};

/* Finds the library once for the process; NULL where there is none or it is too old, and *why says so. */
const struct cudnn_calls *cudnn_find (const char **why);

#define GRAPH_DESCRIPTORS 192
#define GRAPH_OPERATIONS 48

/* A graph under construction. Every descriptor is kept until graph_clear; after the first failure nothing is made. */
struct cudnn_graph
{
  const struct cudnn_calls *calls;
  cudnnBackendDescriptor_t device; // what it is built for
  cudnnStatus_t status;
  cudnnBackendDescriptor_t made[GRAPH_DESCRIPTORS], operations[GRAPH_OPERATIONS];
  int n_made, n_operations;
  int64_t virtual_id;
};

/* Four dimensions, batch first. */
struct cudnn_shape
{
  int64_t size[4], stride[4];
};

/* A tensor of the caller's memory, a value handed over at each call where `by_value`; `ragged` NULL or the tensor
 * of its sequences' first elements. */
cudnnBackendDescriptor_t graph_tensor (struct cudnn_graph *, int64_t id, cudnnDataType_t type, struct cudnn_shape,
                                       cudnnBackendDescriptor_t ragged, bool by_value);
/* One that exists only between operations. */
cudnnBackendDescriptor_t graph_virtual (struct cudnn_graph *, cudnnDataType_t type, struct cudnn_shape,
                                        cudnnBackendDescriptor_t ragged);
/* y = mode (x, b), or x where t and else b. `compute` is the type of the arithmetic; axis -1: none. */
void graph_pointwise (struct cudnn_graph *, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                      cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                      cudnnBackendDescriptor_t t);
/* y = x reduced over the dimensions that y has not. */
void graph_reduce (struct cudnn_graph *, cudnnReduceTensorOp_t, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x);
/* c = a b for each of the batch; m, n, k NULL or the tensors of the lengths that count. */
void graph_multiply (struct cudnn_graph *, cudnnBackendDescriptor_t c, cudnnBackendDescriptor_t a,
                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t m, cudnnBackendDescriptor_t n,
                     cudnnBackendDescriptor_t k);
/* y = x seen with other dimensions. */
void graph_reshape (struct cudnn_graph *, cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t x);
/* The first plan of the library's own order that it can make, and its workspace in bytes; NULL where there is none. The caller
 * destroys it, after which the graph. */
cudnnBackendDescriptor_t graph_plan (struct cudnn_graph *, int64_t *workspace);
void graph_clear (struct cudnn_graph *);
#endif
