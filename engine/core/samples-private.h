/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/database.h"

G_BEGIN_DECLS

/* Whether a samples.db knows versions by token: one of an earlier program does not. */
gboolean plumb_samples_have_versions (PlumbDatabase *db, gboolean *has, GError **error);

G_END_DECLS
