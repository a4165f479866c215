/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "app/run.h"

#define LOADING_INTERVAL (400 * G_TIME_SPAN_MILLISECOND)

struct _PlumbEventItem
{
  GObject parent_instance;

  PlumbEventLevel level;
  char *kind;
  char *message;
  gint64 step;
  double time;
};

G_DEFINE_FINAL_TYPE (PlumbEventItem, plumb_event_item, G_TYPE_OBJECT)

static void
plumb_event_item_finalize (GObject *object)
{
  PlumbEventItem *self = PLUMB_EVENT_ITEM (object);

  g_free (self->kind);
  g_free (self->message);
  G_OBJECT_CLASS (plumb_event_item_parent_class)->finalize (object);
}

static void
plumb_event_item_class_init (PlumbEventItemClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = plumb_event_item_finalize;
}

static void
plumb_event_item_init (PlumbEventItem *self)
{
}

static PlumbEventItem *
event_item_new (const PlumbEvent *event)
{
  PlumbEventItem *self = g_object_new (PLUMB_TYPE_EVENT_ITEM, NULL);

  self->level = event->level;
  self->kind = g_strdup (event->kind);
  self->message = g_strdup (event->message);
  self->step = event->step;
  self->time = event->time;
  return self;
}

PlumbEventLevel
plumb_event_item_get_level (PlumbEventItem *self)
{
  g_return_val_if_fail (PLUMB_IS_EVENT_ITEM (self), PLUMB_EVENT_INFO);

  return self->level;
}

const char *
plumb_event_item_get_kind (PlumbEventItem *self)
{
  g_return_val_if_fail (PLUMB_IS_EVENT_ITEM (self), NULL);

  return self->kind;
}

const char *
plumb_event_item_get_message (PlumbEventItem *self)
{
  g_return_val_if_fail (PLUMB_IS_EVENT_ITEM (self), NULL);

  return self->message;
}

gint64
plumb_event_item_get_step (PlumbEventItem *self)
{
  g_return_val_if_fail (PLUMB_IS_EVENT_ITEM (self), PLUMB_NO_STEP);

  return self->step;
}

double
plumb_event_item_get_time (PlumbEventItem *self)
{
  g_return_val_if_fail (PLUMB_IS_EVENT_ITEM (self), 0);

  return self->time;
}

typedef struct
{
  gint64 attempt;
  gint64 from_step;
} Start;

struct _PlumbRun
{
  GObject parent_instance;

  PlumbReader *reader;
  guint watch;
  char *path;
  char *basename;
  PlumbRunInfo *info;
  char *trouble;
  guint rank;
  gboolean visible;
  gboolean loaded;
  gint64 told; /* when "rows" was emitted last */
  PlumbSpec *spec;
  gboolean spec_asked;

  GHashTable *tracks; /* metric -> PlumbTrack */
  GArray *starts;     /* Start, for tracks that come later */
  double origin;
  GListStore *events;
  GArray *phases;
};

G_DEFINE_FINAL_TYPE (PlumbRun, plumb_run, G_TYPE_OBJECT)

enum
{
  CHANGED,
  ROWS,
  N_SIGNALS,
};
static guint signals[N_SIGNALS];

static void
forget_rows (PlumbRun *self)
{
  g_hash_table_remove_all (self->tracks);
  g_array_set_size (self->starts, 0);
  g_array_set_size (self->phases, 0);
  g_list_store_remove_all (self->events);
  self->origin = 0;
}

static PlumbTrack *
ensure_track (PlumbRun *self, const char *metric)
{
  PlumbTrack *track = g_hash_table_lookup (self->tracks, metric);

  if (track != NULL)
    return track;
  track = plumb_track_new ();
  for (guint i = 0; i < self->starts->len; i++)
    {
      const Start *start = &g_array_index (self->starts, Start, i);

      plumb_track_add_attempt (track, start->attempt, start->from_step);
    }
  g_hash_table_insert (self->tracks, g_strdup (metric), track);
  return track;
}

static void
add_attempt (PlumbRun *self, const PlumbAttempt *attempt)
{
  Start start = { attempt->attempt, attempt->from_step };
  GHashTableIter iter;
  gpointer track;

  if (self->origin == 0 || attempt->time < self->origin)
    self->origin = attempt->time;
  g_array_append_val (self->starts, start);
  g_hash_table_iter_init (&iter, self->tracks);
  while (g_hash_table_iter_next (&iter, NULL, &track))
    plumb_track_add_attempt (track, start.attempt, start.from_step);
}

static void
add_events (PlumbRun *self, GPtrArray *events)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < events->len; i++)
    g_ptr_array_add (items, event_item_new (events->pdata[i]));
  g_list_store_splice (self->events, g_list_model_get_n_items (G_LIST_MODEL (self->events)), 0,
                       items->pdata, items->len);
}

static void
add_rows (PlumbRun *self, PlumbChunk *chunk)
{
  for (guint i = 0; i < chunk->attempts->len; i++)
    add_attempt (self, chunk->attempts->pdata[i]);
  for (guint i = 0; i < chunk->series->len; i++)
    {
      const PlumbPoints *points = chunk->series->pdata[i];

      plumb_track_add_points (ensure_track (self, points->metric), points->points,
                              points->n_points);
    }
  for (guint i = 0; i < chunk->phases->len; i++)
    {
      const PlumbPhase *phase = chunk->phases->pdata[i];
      PlumbRunPhase copy = { g_intern_string (phase->worker), g_intern_string (phase->name),
                             phase->step, phase->start, phase->end };

      g_array_append_val (self->phases, copy);
    }
  if (chunk->events->len > 0)
    add_events (self, chunk->events);
}

/* While a long history comes in, its growth shows now and then only: drawing would hold it up. */
static void
tell_rows (PlumbRun *self)
{
  gint64 now = g_get_monotonic_time ();

  if (!self->loaded && now - self->told < LOADING_INTERVAL)
    return;
  self->told = now;
  g_signal_emit (self, signals[ROWS], 0);
}

static void
update_cb (PlumbReaderUpdate *update, gpointer user_data)
{
  g_autoptr (PlumbRun) self = g_object_ref (PLUMB_RUN (user_data));
  gboolean changed = update->info != NULL || g_strcmp0 (update->trouble, self->trouble) != 0;
  gboolean rows = update->restarted;

  if (update->info != NULL)
    {
      g_clear_pointer (&self->info, plumb_run_info_free);
      self->info = g_steal_pointer (&update->info);
    }
  g_free (self->trouble);
  self->trouble = g_strdup (update->trouble);

  if (update->restarted)
    forget_rows (self);
  if (update->chunk != NULL)
    {
      add_rows (self, update->chunk);
      rows = rows || plumb_chunk_n_rows (update->chunk) > 0;
    }
  if (update->caught_up && !self->loaded)
    self->loaded = rows = TRUE;
  if (changed)
    g_signal_emit (self, signals[CHANGED], 0);
  if (rows)
    tell_rows (self);
}

static void
plumb_run_dispose (GObject *object)
{
  PlumbRun *self = PLUMB_RUN (object);

  if (self->watch != 0)
    plumb_reader_unwatch (self->reader, self->watch);
  self->watch = 0;
  g_clear_object (&self->reader);
  G_OBJECT_CLASS (plumb_run_parent_class)->dispose (object);
}

static void
plumb_run_finalize (GObject *object)
{
  PlumbRun *self = PLUMB_RUN (object);

  g_clear_pointer (&self->info, plumb_run_info_free);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  g_free (self->trouble);
  g_free (self->path);
  g_free (self->basename);
  g_hash_table_unref (self->tracks);
  g_array_unref (self->starts);
  g_array_unref (self->phases);
  g_object_unref (self->events);
  G_OBJECT_CLASS (plumb_run_parent_class)->finalize (object);
}

static void
plumb_run_class_init (PlumbRunClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->dispose = plumb_run_dispose;
  object_class->finalize = plumb_run_finalize;
  signals[CHANGED] = g_signal_new ("changed", PLUMB_TYPE_RUN, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                   NULL, G_TYPE_NONE, 0);
  signals[ROWS] = g_signal_new ("rows", PLUMB_TYPE_RUN, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                G_TYPE_NONE, 0);
}

static void
plumb_run_init (PlumbRun *self)
{
  self->tracks
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)plumb_track_unref);
  self->starts = g_array_new (FALSE, FALSE, sizeof (Start));
  self->phases = g_array_new (FALSE, FALSE, sizeof (PlumbRunPhase));
  self->events = g_list_store_new (PLUMB_TYPE_EVENT_ITEM);
}

PlumbRun *
plumb_run_new (PlumbReader *reader, const char *path)
{
  PlumbRun *self;

  g_return_val_if_fail (PLUMB_IS_READER (reader) && path != NULL, NULL);

  self = g_object_new (PLUMB_TYPE_RUN, NULL);
  self->reader = g_object_ref (reader);
  self->path = g_strdup (path);
  self->basename = g_path_get_basename (path);
  self->watch = plumb_reader_watch (reader, path, update_cb, self);
  return self;
}

const char *
plumb_run_get_path (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return self->path;
}

const char *
plumb_run_get_title (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  if (self->info != NULL && self->info->status != NULL && self->info->status->name != NULL
      && *self->info->status->name != '\0')
    return self->info->status->name;
  return self->basename;
}

const PlumbRunInfo *
plumb_run_get_info (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return self->info;
}

gboolean
plumb_run_is_alive (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), FALSE);

  return self->info != NULL && plumb_run_state_is_alive (self->info->state);
}

PlumbAlgorithm
plumb_run_get_algorithm (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), PLUMB_ALGORITHM_GRPO);

  if (self->info != NULL && self->info->status != NULL)
    for (int i = 0; i < PLUMB_N_ALGORITHMS; i++)
      if (g_strcmp0 (self->info->status->algorithm, plumb_algorithm_name (i)) == 0)
        return i;
  return PLUMB_ALGORITHM_GRPO;
}

PlumbSpec *
plumb_run_get_spec (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return self->spec;
}

const char *
plumb_run_get_trouble (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return self->trouble;
}

gboolean
plumb_run_is_loaded (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), FALSE);

  return self->loaded;
}

static void
load_spec_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  static const char *const names[] = { PLUMB_RUN_RESOLVED, PLUMB_RUN_SPEC };
  g_autoptr (GPtrArray) problems = plumb_problems_new ();

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PlumbSpec) spec = plumb_spec_new ();
      g_autofree char *path = g_build_filename (data, names[i], NULL);

      if (plumb_spec_load_file (spec, path, problems, NULL))
        {
          g_task_return_pointer (task, g_steal_pointer (&spec), (GDestroyNotify)plumb_spec_unref);
          return;
        }
    }
  g_task_return_pointer (task, NULL, NULL);
}

static void
load_spec_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  PlumbRun *self = PLUMB_RUN (source);

  self->spec = g_task_propagate_pointer (G_TASK (result), NULL);
  self->spec_asked = self->spec != NULL;
  g_signal_emit (self, signals[CHANGED], 0);
}

static void
load_spec (PlumbRun *self)
{
  g_autoptr (GTask) task = g_task_new (self, NULL, load_spec_cb, NULL);

  self->spec_asked = TRUE;
  g_task_set_source_tag (task, load_spec);
  g_task_set_task_data (task, g_strdup (self->path), g_free);
  g_task_run_in_thread (task, load_spec_thread);
}

guint
plumb_run_get_rank (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), 0);

  return self->rank;
}

void
plumb_run_set_rank (PlumbRun *self, guint rank)
{
  g_return_if_fail (PLUMB_IS_RUN (self));

  self->rank = rank;
}

void
plumb_run_set_visible (PlumbRun *self, gboolean visible)
{
  g_return_if_fail (PLUMB_IS_RUN (self));

  if (self->visible == !!visible)
    return;
  self->visible = !!visible;
  self->told = g_get_monotonic_time ();
  plumb_reader_set_visible (self->reader, self->watch, self->visible);
  if (self->visible && !self->spec_asked)
    load_spec (self);
}

void
plumb_run_refresh (PlumbRun *self)
{
  g_return_if_fail (PLUMB_IS_RUN (self));

  plumb_reader_refresh (self->reader, self->watch);
}

PlumbTrack *
plumb_run_get_track (PlumbRun *self, const char *metric)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self) && metric != NULL, NULL);

  return g_hash_table_lookup (self->tracks, metric);
}

gboolean
plumb_run_get_last (PlumbRun *self, const char *metric, PlumbPoint *last)
{
  PlumbTrack *track = plumb_run_get_track (self, metric);

  return track != NULL && plumb_track_get_last (track, last);
}

guint
plumb_run_count_metrics (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), 0);

  return g_hash_table_size (self->tracks);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

GPtrArray *
plumb_run_list_metrics (PlumbRun *self)
{
  GPtrArray *names = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  g_return_val_if_fail (PLUMB_IS_RUN (self), names);

  g_hash_table_iter_init (&iter, self->tracks);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (names, name);
  g_ptr_array_sort (names, compare_names);
  return names;
}

double
plumb_run_get_origin (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), 0);

  return self->origin;
}

GListModel *
plumb_run_get_events (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return G_LIST_MODEL (self->events);
}

GArray *
plumb_run_get_phases (PlumbRun *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN (self), NULL);

  return self->phases;
}
