/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* What a device can do, measured: the limits that shares refer to. */
typedef struct
{
  double products;  /* operations per second of a large matrix product */
  double codes;     /* the same with fp8 weights, making codes of the inputs included; 0: as products */
  double bandwidth; /* bytes per second of a copy, read and written */
  double peak;      /* operations per second in bf16, dense, by the datasheet; 0: not known */
} PlumbLimits;

/* Of an idle device. A CPU is measured within about so many bytes in some hundredths of a second, where `memory` is not 0; else, as
 * a GPU always, with 400 MB. */
gboolean plumb_limits_measure (PlumbDevice *device, enum dev_type type, gsize memory, PlumbLimits *limits, GError **error);

/* Adds the rate of products with codes, outside deterministic mode: of a GPU in bf16, others multiply what the codes stand for. */
gboolean plumb_limits_measure_codes (PlumbDevice *device, enum dev_type type, PlumbLimits *limits, GError **error);

/* Sequences that a model reads, or is trained on. */
typedef struct
{
  double tokens;
  double rows;  /* of the head: tokens that count */
  double pairs; /* sum of L (L + 1) / 2 over lengths L: query and key in causal attention */
} PlumbWork;

void plumb_work_add (PlumbWork *work, int length, int rows);

/* Parameters of the blocks' matrices; of the vocabulary head. */
double plumb_config_block_parameters (const PlumbModelConfig *config);
double plumb_config_head_parameters (const PlumbModelConfig *config);

/* Seconds that it takes at the limits: products at their rate, attention at half of it (what the best kernels reach). */
double plumb_limit_forward (const PlumbLimits *limits, const PlumbModelConfig *config, const PlumbWork *work);
/* Forward and backward, the head's logits twice, and elementwise traffic. */
double plumb_limit_train (const PlumbLimits *limits, const PlumbModelConfig *config, enum dev_type type,
                          const PlumbWork *work);
/* An AdamW update: gradients, moments and weights, each read once and what changes written once. */
double plumb_limit_update (const PlumbLimits *limits, const PlumbModelConfig *config, enum dev_type type);

/* What a generation did. */
typedef struct
{
  double prefill_tokens;
  double decode_passes, decode_rows; /* passes that decode, and the sum of their rows */
  double context_tokens;             /* keys that these rows saw, in all */
  gboolean weight_codes, kv_codes;   /* a byte an element, a scale a row and group */
} PlumbGenerated;

/* Prefill at the rate of products; a pass that decodes reads the weights or multiplies, whichever takes longer, and reads the keys
 * and values of its rows. */
double plumb_limit_generate (const PlumbLimits *limits, const PlumbModelConfig *config, enum dev_type type,
                             const PlumbGenerated *generated);

/* Operations that a model needs for training on the work, forward and backward, without recomputation: what MFU counts. */
double plumb_work_operations (const PlumbModelConfig *config, const PlumbWork *work);

G_END_DECLS
