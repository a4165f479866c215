/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/roofline.h"

G_BEGIN_DECLS

/* What is measured, with random weights and random tokens. */
typedef struct
{
  const char *shape; /* a name of plumb_bench_shapes */
  const char *device;
  enum dev_type type;
  gboolean deterministic;
  int requests, prompt, new_tokens; /* of rollout and step */
  int samples;                      /* of each request of step */
  int spread;                       /* of rollout: lengths from 1 to so many, mean new_tokens; 0: all the same */
  int sequences, length;            /* of train */
  PlumbRecompute recompute;         /* of train and step */
  gboolean offload;
  gboolean old_pass;                /* of step: log-probs before the update by a pass of their own */
  gboolean kv_codes;                /* of rollout and step: an fp8 cache */
  gboolean weight_codes;            /* of rollout and step: fp8 weights of the blocks */
} PlumbBenchOptions;

/* A model of a known shape on a device, and the limits of the device. */
typedef struct
{
  PlumbDevice *device;
  PlumbModel *model;
  PlumbLimits limits;
  double blocks, head; /* parameters of the matrices in the blocks; of the vocabulary head */
} PlumbBench;

/* Names of the shapes, ending with NULL. */
const char *const *plumb_bench_shapes (void);

/* Opens the device, measures its limits and makes the model for sequences of `positions` tokens. */
gboolean plumb_bench_open (PlumbBench *bench, const PlumbBenchOptions *options, int positions, GError **error);
void plumb_bench_clear (PlumbBench *bench);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbBench, plumb_bench_clear)

double plumb_bench_now (void); /* seconds */

/* Each prints its lines, with shares of the limit. */
gboolean plumb_bench_ops (const PlumbBenchOptions *options, GError **error);
gboolean plumb_bench_rollout (const PlumbBenchOptions *options, GError **error);
gboolean plumb_bench_train (const PlumbBenchOptions *options, GError **error);
gboolean plumb_bench_step (const PlumbBenchOptions *options, GError **error);
gboolean plumb_bench_sync (const PlumbBenchOptions *options, GError **error);

G_END_DECLS
