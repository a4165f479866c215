/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* An environment's program that is asked in a thread of its own, one line after the other, while the caller does other
 * work. */
typedef struct _PlumbPlayer PlumbPlayer;

/* What was asked, and the answer to it. */
typedef struct
{
  gint64 ordinal;   /* whose turn it is: told back */
  int sample;
  guint64 ticket;
  char *line;
  GString *answer;
  char *problem; /* why there is no answer; NULL: there is one */
} PlumbPlayerCall;

void plumb_player_call_free (PlumbPlayerCall *call);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbPlayerCall, plumb_player_call_free)

PlumbPlayer *plumb_player_new (const char *command, double timeout, GError **error);
void plumb_player_free (PlumbPlayer *player);
/* A line (taken over) in the name of a sample. */
void plumb_player_ask (PlumbPlayer *player, gint64 ordinal, int sample, guint64 ticket, char *line);
/* The next one that was answered (transfer full), or NULL. */
PlumbPlayerCall *plumb_player_take (PlumbPlayer *player);
/* How many were asked and not taken yet. */
guint plumb_player_pending (const PlumbPlayer *player);

G_END_DECLS
