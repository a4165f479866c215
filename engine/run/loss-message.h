/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/train/trainer.h"

G_BEGIN_DECLS

/* A loss with its options and denominators inside a message body. */
void plumb_body_add_loss (GVariantDict *body, const PlumbLossSpec *loss);
gboolean plumb_body_get_loss (GVariant *body, PlumbLossSpec *loss, GError **error);

G_END_DECLS
