/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/device.h"

G_BEGIN_DECLS

/* Compares a model with the cases of a golden.json: prompt ids, log-probs, greatest next log-probs, logits, greedy
 * ids, log-probs and text; and with eval_nll.json beside it where there is one. */
gboolean plumb_verify_golden (PlumbDevice *device, const char *dir, const char *file, gboolean quiet,
                              gboolean *passed, GError **error);

G_END_DECLS
