/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the queue of prompts in a checkpoint. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/run/ahead-queue.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (PlumbAheadQueue) queue = plumb_ahead_queue_new (2, 64);
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  if (!plumb_ahead_queue_from_bytes (queue, bytes, NULL))
    return 0;
  g_assert_cmpuint (plumb_ahead_queue_ready (queue), <=, plumb_ahead_queue_finished (queue));
  for (guint i = 0; i < queue->groups->len; i++)
    plumb_ahead_group_version (plumb_ahead_queue_get (queue, i));
  g_autoptr (GBytes) again = plumb_ahead_queue_to_bytes (queue);
  plumb_ahead_queue_drop (queue, queue->groups->len);
  g_assert_true (plumb_ahead_queue_from_bytes (queue, again, NULL));
  return 0;
}
