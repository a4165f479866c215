/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/algo/experience.h"
#include "engine/run/message.h"

G_BEGIN_DECLS

/* An experience as part of a body. With `targets`, the arrays that a loss reads travel too. */
void plumb_body_add_experience (GVariantDict *body, const struct plumb_experience *experience,
                                gboolean targets);
/* Copies it out again, after checking every size and offset; NULL with an error. */
struct plumb_experience *plumb_body_get_experience (GVariant *body, GError **error);

/* A new experience of some sequences of another. */
struct plumb_experience *plumb_experience_select (const struct plumb_experience *experience,
                                                  const int *sequences, int n);
/* One after the other, as a new experience. */
struct plumb_experience *plumb_experience_join (const struct plumb_experience *first,
                                                const struct plumb_experience *second);

G_END_DECLS
