/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "kernels/device.h"

/* A backend that takes host memory: each op runs on another backend over copies of every block, which come back after it.
 * So the tests of ops are the same for memory that the host cannot read. */

/* Opens device 0 of `real`, deterministic or not; the returned table is valid until mirror_close. */
const struct dev_ops *mirror_open (const struct dev_ops *real, size_t workspace, int deterministic,
                                   struct dev_context **context, char *message, size_t message_size);
void mirror_close (struct dev_context *context);
/* Memory that ops may be given. */
void *mirror_take (size_t bytes);
