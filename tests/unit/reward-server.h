/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* A real reward server of this process, on the loopback; the path of a request chooses whether it is honest, slow,
 * lying, failing or silent. A fixture: zeroed before the start. */
typedef struct
{
  GSocketService *service;
  GMainLoop *loop;
  GThread *thread;
  guint16 port;
  gint calls, running, most_running; /* atomic */
  char *key;                         /* of the last call's Authorization; NULL: none */
  GMutex mutex;
} RewardServer;

void reward_server_start (RewardServer *server, gconstpointer data);
void reward_server_stop (RewardServer *server, gconstpointer data);

G_END_DECLS
