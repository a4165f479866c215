/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* One worker: holds a device with the models placed on it and serves messages until CLOSE. It is the same
 * loop whether it runs as a thread of the controller or in another process. */

/* Connects a dealer socket of `zmq_context` to `address` and serves. Returns when told to close, or when the
 * context ends. */
void plumb_worker_serve (void *zmq_context, const char *address, guint32 number);

/* The same as the work of this process. */
void plumb_worker_serve_process (const char *address, guint32 number);

/* The same in a thread of its own. */
GThread *plumb_worker_start (void *zmq_context, const char *address, guint32 number);

G_END_DECLS
