/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gstdio.h>
#include <string.h>

#include "app/reader.h"
#include "engine/core/metrics.h"

#define VISIBLE_INTERVAL (250 * G_TIME_SPAN_MILLISECOND)
#define HIDDEN_INTERVAL (2 * G_TIME_SPAN_SECOND)
#define STATE_INTERVAL (1 * G_TIME_SPAN_SECOND)
#define LIST_INTERVAL (5 * G_TIME_SPAN_SECOND)
#define FIRST_CHARTS 4 /* of the default ones, in sight at once: their history is read before all else */
#define MOST_IN_FLIGHT                                                                             \
  64 /* updates of a run that wait in the main loop: then the thread waits too */

/* A way through the rows of a run: the metrics of the first charts with all events, or the rest. */
typedef struct
{
  PlumbTelemetryReader *telemetry;
  char *store_id;
  gint64 last_seq;
  gboolean caught_up;
} Pass;

/* One watched run. The reader's lock guards what both threads touch; the second part belongs to
 * the reading thread. */
typedef struct
{
  gatomicrefcount refs;
  guint id;
  char *run;
  PlumbReaderUpdateFunc func; /* called and cleared in the main thread */
  gpointer user_data;
  gboolean visible;
  gboolean refresh;
  gboolean gone;
  guint in_flight;

  gboolean forced; /* look even where nothing seems to have changed */
  gint64 due;
  gint64 state_due;
  gboolean alive;
  gint64 state_mtime;
  char *database;
  char *algorithm;
  Pass first;
  Pass rest;
} Watch;

struct _PlumbReader
{
  GObject parent_instance;

  GThread *thread;
  GMutex lock;
  GCond wake;
  gboolean quit;
  gboolean poked;
  GPtrArray *watches;
  guint last_id;
  PlumbReaderListFunc list_func;
  gpointer list_data;
};

G_DEFINE_FINAL_TYPE (PlumbReader, plumb_reader, G_TYPE_OBJECT)

/* A message from the reading thread to the main loop. */
typedef struct
{
  PlumbReader *reader;
  Watch *watch;
  PlumbReaderUpdate update;
  char **paths;
} Delivery;

static void
pass_close (Pass *self)
{
  g_clear_pointer (&self->telemetry, plumb_telemetry_reader_free);
}

static Watch *
watch_ref (Watch *self)
{
  g_atomic_ref_count_inc (&self->refs);
  return self;
}

static void
watch_unref (gpointer data)
{
  Watch *self = data;

  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  pass_close (&self->first);
  pass_close (&self->rest);
  g_free (self->first.store_id);
  g_free (self->rest.store_id);
  g_free (self->database);
  g_free (self->algorithm);
  g_free (self->run);
  g_free (self);
}

static void
delivery_free (gpointer data)
{
  Delivery *self = data;

  g_clear_pointer (&self->update.info, plumb_run_info_free);
  g_clear_pointer (&self->update.chunk, plumb_chunk_unref);
  g_free (self->update.trouble);
  g_clear_pointer (&self->watch, watch_unref);
  g_strfreev (self->paths);
  g_object_unref (self->reader);
  g_free (self);
}

static gboolean
deliver_update_cb (gpointer data)
{
  Delivery *self = data;

  if (self->watch->func != NULL)
    self->watch->func (&self->update, self->watch->user_data);

  g_mutex_lock (&self->reader->lock);
  self->watch->in_flight--;
  g_cond_signal (&self->reader->wake);
  g_mutex_unlock (&self->reader->lock);
  return G_SOURCE_REMOVE;
}

static gboolean
deliver_list_cb (gpointer data)
{
  Delivery *self = data;

  if (self->reader->list_func != NULL)
    self->reader->list_func ((const char *const *)self->paths, self->reader->list_data);
  return G_SOURCE_REMOVE;
}

static Delivery *
delivery_new (PlumbReader *reader, Watch *watch)
{
  Delivery *self = g_new0 (Delivery, 1);

  self->reader = g_object_ref (reader);
  self->watch = watch != NULL ? watch_ref (watch) : NULL;
  return self;
}

/* Before drawing: there is no use in a picture of half a history. */
static void
post (Delivery *delivery, GSourceFunc func)
{
  g_autoptr (GSource) source = g_idle_source_new ();

  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, func, delivery, delivery_free);
  g_source_attach (source, NULL);
}

static gint64
state_mtime (const char *run)
{
  g_autofree char *path = g_build_filename (run, PLUMB_RUN_STATE, NULL);
  GStatBuf buffer;

  if (g_stat (path, &buffer) != 0)
    return 0;
  return (gint64)buffer.st_mtim.tv_sec * G_USEC_PER_SEC + buffer.st_mtim.tv_nsec / 1000;
}

/* The state of a run that is over changes only with its state file, unless an engine takes it up
 * again, which writes that file too. */
static void
read_state (Watch *watch, PlumbReaderUpdate *update)
{
  gint64 mtime = state_mtime (watch->run);

  if (!watch->forced && !watch->alive && watch->state_mtime == mtime && mtime != 0)
    return;
  update->info = plumb_run_info_read (watch->run, NULL);
  if (update->info == NULL)
    return;
  watch->state_mtime = mtime;
  watch->alive = plumb_run_state_is_alive (update->info->state);
  if (update->info->status == NULL)
    return;
  if (g_strcmp0 (watch->database, update->info->status->database) != 0)
    {
      pass_close (&watch->first);
      pass_close (&watch->rest);
    }
  g_free (watch->database);
  watch->database = g_strdup (update->info->status->database);
  g_free (watch->algorithm);
  watch->algorithm = g_strdup (update->info->status->algorithm);
}

/* The metrics of the charts that a page shows on top. */
static GStrv
first_patterns (const Watch *watch)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  PlumbAlgorithm algorithm = PLUMB_ALGORITHM_GRPO;
  const PlumbChart *charts;
  gsize n;

  for (int i = 0; i < PLUMB_N_ALGORITHMS; i++)
    if (g_strcmp0 (watch->algorithm, plumb_algorithm_name (i)) == 0)
      algorithm = i;
  charts = plumb_charts (algorithm, &n);
  for (gsize i = 0; i < MIN (n, FIRST_CHARTS); i++)
    for (gsize k = 0; k < PLUMB_CHART_MAX_METRICS && charts[i].metrics[k] != NULL; k++)
      g_strv_builder_add (builder, charts[i].metrics[k]);
  return g_strv_builder_end (builder);
}

static gboolean
pass_open (Pass *self, const Watch *watch, PlumbReaderUpdate *update, GError **error)
{
  g_autofree char *beside = g_build_filename (watch->run, PLUMB_RUN_TELEMETRY, NULL);
  g_auto (GStrv) patterns = NULL;
  const char *path = watch->database;
  const char *store_id;

  if (self->telemetry != NULL)
    return TRUE;
  if (path == NULL || !g_file_test (path, G_FILE_TEST_EXISTS))
    path = beside;
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return FALSE;
  self->telemetry = plumb_telemetry_reader_open (path, error);
  if (self->telemetry == NULL)
    return FALSE;

  patterns = first_patterns (watch);
  plumb_telemetry_reader_select (self->telemetry, (const char *const *)patterns,
                                 self == &watch->rest);
  store_id = plumb_telemetry_reader_store_id (self->telemetry);
  if (self->store_id != NULL && g_strcmp0 (self->store_id, store_id) != 0)
    {
      self->last_seq = 0;
      self->caught_up = FALSE;
      update->restarted = self == &watch->first;
    }
  g_free (self->store_id);
  self->store_id = g_strdup (store_id);
  return TRUE;
}

/* One read, of at most PLUMB_CHUNK_MAX_ROWS rows. Returns TRUE if there is more to read. */
static gboolean
pass_read (Pass *self, const Watch *watch, PlumbReaderUpdate *update)
{
  g_autoptr (GError) error = NULL;
  gboolean fresh = self->telemetry == NULL;

  if (!pass_open (self, watch, update, &error))
    {
      if (error != NULL)
        update->trouble = g_strdup (error->message);
      return FALSE;
    }
  if (!plumb_telemetry_reader_changed (self->telemetry) && !fresh && !watch->forced)
    return FALSE;

  update->chunk = plumb_telemetry_reader_read (self->telemetry, self->last_seq, &error);
  if (update->chunk == NULL)
    {
      update->trouble = g_strdup (error->message);
      pass_close (self);
      return FALSE;
    }
  self->last_seq = update->chunk->last_seq;
  self->caught_up = !update->chunk->more;
  return update->chunk->more;
}

static gboolean
is_empty (const PlumbReaderUpdate *update)
{
  return update->info == NULL && update->trouble == NULL && !update->caught_up
         && (update->chunk == NULL || plumb_chunk_n_rows (update->chunk) == 0);
}

static void
deliver (PlumbReader *self, Watch *watch, Delivery *delivery)
{
  if (is_empty (&delivery->update))
    {
      delivery_free (delivery);
      return;
    }
  g_mutex_lock (&self->lock);
  watch->in_flight++;
  g_mutex_unlock (&self->lock);
  post (delivery, deliver_update_cb);
}

/* Called without the lock. The second pass starts once the first has caught up, and both go on from
 * there. */
static void
visit (PlumbReader *self, Watch *watch, gboolean visible)
{
  Delivery *delivery = delivery_new (self, watch);
  gint64 now = g_get_monotonic_time ();
  gboolean more = FALSE, was_caught_up = watch->first.caught_up;

  if (now >= watch->state_due)
    {
      read_state (watch, &delivery->update);
      watch->state_due = now + (visible ? STATE_INTERVAL : HIDDEN_INTERVAL);
    }
  if (visible)
    more = pass_read (&watch->first, watch, &delivery->update);
  delivery->update.caught_up = watch->first.caught_up && !was_caught_up;
  deliver (self, watch, delivery);

  if (visible && watch->first.caught_up)
    {
      delivery = delivery_new (self, watch);
      more = pass_read (&watch->rest, watch, &delivery->update) || more;
      deliver (self, watch, delivery);
    }
  watch->forced = more;
  watch->due = more ? 0 : now + (visible ? VISIBLE_INTERVAL : HIDDEN_INTERVAL);
}

static void
visit_registry (PlumbReader *self, char ***known)
{
  g_auto (GStrv) paths = plumb_run_list (NULL);
  Delivery *delivery;

  if (paths == NULL)
    paths = g_new0 (char *, 1);
  if (*known != NULL && g_strv_equal ((const char *const *)*known, (const char *const *)paths))
    return;
  g_strfreev (*known);
  *known = g_strdupv (paths);
  delivery = delivery_new (self, NULL);
  delivery->paths = g_steal_pointer (&paths);
  post (delivery, deliver_list_cb);
}

/* Due or not; `due` becomes earlier if the run's time is earlier. */
static gboolean
is_due (Watch *watch, gint64 now, gint64 *due)
{
  if (watch->in_flight >= MOST_IN_FLIGHT)
    return FALSE;
  if (watch->refresh)
    {
      watch->refresh = FALSE;
      watch->forced = TRUE;
      watch->due = 0;
      watch->state_due = 0;
    }
  *due = MIN (*due, watch->due);
  return watch->due <= now;
}

/* The next run whose time has come, the visible one before others, with a reference; else NULL, and
 * `due` is when to look again. */
static Watch *
take_due (PlumbReader *self, gint64 now, gint64 *due, gboolean *visible)
{
  Watch *found = NULL;

  for (guint i = 0; i < self->watches->len; i++)
    {
      Watch *watch = self->watches->pdata[i];

      if (is_due (watch, now, due) && (found == NULL || (watch->visible && !found->visible)))
        found = watch;
    }
  if (found == NULL)
    return NULL;
  *visible = found->visible;
  return watch_ref (found);
}

static gpointer
reader_thread (gpointer data)
{
  PlumbReader *self = data;
  g_auto (GStrv) known = NULL;
  gint64 list_due = 0;

  g_mutex_lock (&self->lock);
  while (!self->quit)
    {
      gint64 now = g_get_monotonic_time ();
      gint64 due = list_due;
      gboolean visible = FALSE;
      Watch *watch = NULL;

      if (now >= list_due || self->poked)
        {
          self->poked = FALSE;
          list_due = now + LIST_INTERVAL;
          g_mutex_unlock (&self->lock);
          visit_registry (self, &known);
          g_mutex_lock (&self->lock);
          continue;
        }
      watch = take_due (self, now, &due, &visible);
      if (watch != NULL)
        {
          g_mutex_unlock (&self->lock);
          visit (self, watch, visible);
          watch_unref (watch);
          g_mutex_lock (&self->lock);
          continue;
        }
      g_cond_wait_until (&self->wake, &self->lock, due);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

static Watch *
find_watch (PlumbReader *self, guint id)
{
  for (guint i = 0; i < self->watches->len; i++)
    {
      Watch *watch = self->watches->pdata[i];

      if (watch->id == id)
        return watch;
    }
  return NULL;
}

void
plumb_reader_stop (PlumbReader *self)
{
  g_return_if_fail (PLUMB_IS_READER (self));

  if (self->thread == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->quit = TRUE;
  g_cond_signal (&self->wake);
  g_mutex_unlock (&self->lock);
  g_thread_join (g_steal_pointer (&self->thread));
}

static void
plumb_reader_dispose (GObject *object)
{
  PlumbReader *self = PLUMB_READER (object);

  plumb_reader_stop (self);
  self->list_func = NULL;
  g_ptr_array_set_size (self->watches, 0);
  G_OBJECT_CLASS (plumb_reader_parent_class)->dispose (object);
}

static void
plumb_reader_finalize (GObject *object)
{
  PlumbReader *self = PLUMB_READER (object);

  g_ptr_array_unref (self->watches);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->wake);
  G_OBJECT_CLASS (plumb_reader_parent_class)->finalize (object);
}

static void
plumb_reader_class_init (PlumbReaderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->dispose = plumb_reader_dispose;
  object_class->finalize = plumb_reader_finalize;
}

static void
plumb_reader_init (PlumbReader *self)
{
  g_mutex_init (&self->lock);
  g_cond_init (&self->wake);
  self->watches = g_ptr_array_new_with_free_func (watch_unref);
  self->thread = g_thread_new ("reader", reader_thread, self);
}

PlumbReader *
plumb_reader_new (void)
{
  return g_object_new (PLUMB_TYPE_READER, NULL);
}

void
plumb_reader_set_list_func (PlumbReader *self, PlumbReaderListFunc func, gpointer user_data)
{
  g_return_if_fail (PLUMB_IS_READER (self));

  self->list_func = func;
  self->list_data = user_data;
}

void
plumb_reader_poke (PlumbReader *self)
{
  g_return_if_fail (PLUMB_IS_READER (self));

  g_mutex_lock (&self->lock);
  self->poked = TRUE;
  g_cond_signal (&self->wake);
  g_mutex_unlock (&self->lock);
}

guint
plumb_reader_watch (PlumbReader *self,
                    const char *run,
                    PlumbReaderUpdateFunc func,
                    gpointer user_data)
{
  Watch *watch;

  g_return_val_if_fail (PLUMB_IS_READER (self) && run != NULL && func != NULL, 0);

  watch = g_new0 (Watch, 1);
  g_atomic_ref_count_init (&watch->refs);
  watch->run = g_strdup (run);
  watch->func = func;
  watch->user_data = user_data;
  watch->alive = TRUE;

  g_mutex_lock (&self->lock);
  watch->id = ++self->last_id;
  g_ptr_array_add (self->watches, watch);
  g_cond_signal (&self->wake);
  g_mutex_unlock (&self->lock);
  return watch->id;
}

void
plumb_reader_unwatch (PlumbReader *self, guint id)
{
  Watch *watch;

  g_return_if_fail (PLUMB_IS_READER (self));

  g_mutex_lock (&self->lock);
  watch = find_watch (self, id);
  if (watch != NULL)
    {
      watch->func = NULL;
      g_ptr_array_remove (self->watches, watch);
    }
  g_mutex_unlock (&self->lock);
}

void
plumb_reader_set_visible (PlumbReader *self, guint id, gboolean visible)
{
  Watch *watch;

  g_return_if_fail (PLUMB_IS_READER (self));

  g_mutex_lock (&self->lock);
  watch = find_watch (self, id);
  if (watch != NULL && watch->visible != !!visible)
    {
      watch->visible = !!visible;
      watch->refresh = TRUE;
      g_cond_signal (&self->wake);
    }
  g_mutex_unlock (&self->lock);
}

void
plumb_reader_refresh (PlumbReader *self, guint id)
{
  Watch *watch;

  g_return_if_fail (PLUMB_IS_READER (self));

  g_mutex_lock (&self->lock);
  watch = find_watch (self, id);
  if (watch != NULL)
    {
      watch->refresh = TRUE;
      g_cond_signal (&self->wake);
    }
  g_mutex_unlock (&self->lock);
}
