/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/run/completions.h"

G_BEGIN_DECLS

/* One sample on its way through several turns with an environment. */
typedef struct
{
  GArray *ids;       /* gint32: prompt, answers and observations so far */
  GArray *mask;      /* guint8: 1 sampled by the policy */
  GArray *log_probs; /* float, 0 where not sampled */
  GArray *versions;  /* gint32 */
  guint action;      /* where the last answer begins */
  gint32 finish;     /* PlumbFinish of it */
  int turn;          /* answers so far */
  gboolean over;
  PlumbRewardScore score; /* by the environment */
} PlumbEpisode;

/* With the prompt of a row. */
void plumb_episode_init (PlumbEpisode *episode, const PlumbDataRow *row);
void plumb_episode_clear (PlumbEpisode *episode);
/* The next answer begins at the end: n tokens with their log-probs and versions (NULL: `version`). */
void plumb_episode_answer (PlumbEpisode *episode, gsize n, const gint32 *ids, const float *log_probs, const gint32 *versions,
                           gint32 version, gint32 finish);
/* What the environment is asked after an answer; `id` numbers the sample. (transfer full) */
char *plumb_episode_request (PlumbRun *run, const PlumbEpisode *episode, const PlumbDataRow *row, gint64 id, GError **error);
/* What it said: a line, or a problem with it (taken over). Afterwards the episode is over, or waits for the next answer. */
gboolean plumb_episode_hear (PlumbRun *run, PlumbEpisode *episode, const char *line, char *problem, GError **error);

G_END_DECLS
