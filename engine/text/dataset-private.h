/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/text/dataset.h"

G_BEGIN_DECLS

/* What the cursor needs to know of a set. */

gboolean plumb_data_set_shuffles (PlumbDataSet *set, guint64 *seed);
/* Rows [first, first + n) of one source, and how many of them an epoch takes; FALSE behind the
 * last source. */
gboolean
plumb_data_set_share (PlumbDataSet *set, guint source, gsize *first, gsize *n, gsize *taken);

G_END_DECLS
