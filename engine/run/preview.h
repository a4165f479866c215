/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* The first `n` rows of a spec's training data as the model will see them: {"model", "template", "format", "sets":
 * [{"file", "keys"}], "counts", "notes", "left_out", "rows"}. A row has "file", "line", "answer", and "sequences": for
 * each its "kind" (prompt, response, chosen, rejected, turn), "ids", "mask" (1: trained) and "segments" of text
 * {"text", "trained"}. Opens tokenizer, template and data, but no weights. NULL with an error, and what was left out
 * in `left_out` (of PlumbProblem). */
JsonNode *plumb_preview (PlumbSpec *spec, guint n, GPtrArray *left_out, GError **error);

G_END_DECLS
