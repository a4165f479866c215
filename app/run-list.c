/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gstdio.h>

#include "app/run-list.h"
#include "engine/core/paths.h"

struct _PlumbRunList
{
  GObject parent_instance;

  PlumbReader *reader;
  GFileMonitor *monitor;
  GPtrArray *runs;
  GHashTable *listed; /* paths that the registry has named */
  gboolean loaded;
};

enum
{
  PROP_0,
  PROP_LOADED,
  N_PROPS,
};
static GParamSpec *properties[N_PROPS];

static GType
get_item_type (GListModel *model)
{
  return PLUMB_TYPE_RUN;
}

static guint
get_n_items (GListModel *model)
{
  return PLUMB_RUN_LIST (model)->runs->len;
}

static gpointer
get_item (GListModel *model, guint position)
{
  PlumbRunList *self = PLUMB_RUN_LIST (model);

  return position < self->runs->len ? g_object_ref (self->runs->pdata[position]) : NULL;
}

static void
list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = get_item_type;
  iface->get_n_items = get_n_items;
  iface->get_item = get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (PlumbRunList,
                               plumb_run_list,
                               G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

static gboolean
find (PlumbRunList *self, const char *path, guint *position)
{
  for (guint i = 0; i < self->runs->len; i++)
    if (g_strcmp0 (plumb_run_get_path (self->runs->pdata[i]), path) == 0)
      {
        *position = i;
        return TRUE;
      }
  return FALSE;
}

/* The ranks come first: who hears of a change may ask for them. */
static void
tell_changed (PlumbRunList *self, guint position, guint removed, guint added)
{
  for (guint i = 0; i < self->runs->len; i++)
    plumb_run_set_rank (self->runs->pdata[i], i);
  g_list_model_items_changed (G_LIST_MODEL (self), position, removed, added);
}

/* A run that was opened by its path may not be registered, or not yet when this list was made. */
static void
remove_missing (PlumbRunList *self, const char *const *paths)
{
  for (guint i = self->runs->len; i > 0; i--)
    if (!g_strv_contains (paths, plumb_run_get_path (self->runs->pdata[i - 1]))
        && g_hash_table_remove (self->listed, plumb_run_get_path (self->runs->pdata[i - 1])))
      {
        g_ptr_array_remove_index (self->runs, i - 1);
        tell_changed (self, i - 1, 1, 0);
      }
}

/* Runs that stay keep their place: paths come newest first, so that new ones belong before the next
 * known one. */
static void
insert_new (PlumbRunList *self, const char *const *paths)
{
  guint place = 0, position;

  for (gsize i = 0; paths[i] != NULL;)
    {
      guint first = place;

      for (; paths[i] != NULL && !find (self, paths[i], &position); i++)
        {
          g_hash_table_add (self->listed, g_strdup (paths[i]));
          g_ptr_array_insert (self->runs, place++, plumb_run_new (self->reader, paths[i]));
        }
      if (place > first)
        tell_changed (self, first, 0, place - first);
      for (; paths[i] != NULL && find (self, paths[i], &position); i++)
        {
          g_hash_table_add (self->listed, g_strdup (paths[i]));
          place = position + 1;
        }
    }
}

static void
list_cb (const char *const *paths, gpointer user_data)
{
  PlumbRunList *self = PLUMB_RUN_LIST (user_data);

  remove_missing (self, paths);
  insert_new (self, paths);
  if (!self->loaded)
    {
      self->loaded = TRUE;
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOADED]);
    }
}

static void
monitor_cb (PlumbRunList *self)
{
  plumb_reader_poke (self->reader);
}

static void
watch_registry (PlumbRunList *self)
{
  g_autofree char *path = plumb_path_registry ();
  g_autoptr (GFile) folder = g_file_new_for_path (path);

  g_mkdir_with_parents (path, 0700);
  self->monitor = g_file_monitor_directory (folder, G_FILE_MONITOR_WATCH_MOVES, NULL, NULL);
  if (self->monitor != NULL)
    g_signal_connect_object (self->monitor, "changed", G_CALLBACK (monitor_cb), self,
                             G_CONNECT_SWAPPED);
}

static void
plumb_run_list_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  PlumbRunList *self = PLUMB_RUN_LIST (object);

  switch (id)
    {
    case PROP_LOADED:
      g_value_set_boolean (value, self->loaded);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
plumb_run_list_dispose (GObject *object)
{
  PlumbRunList *self = PLUMB_RUN_LIST (object);

  if (self->reader != NULL)
    plumb_run_list_stop (self);
  g_ptr_array_set_size (self->runs, 0);
  g_clear_object (&self->monitor);
  g_clear_object (&self->reader);
  G_OBJECT_CLASS (plumb_run_list_parent_class)->dispose (object);
}

static void
plumb_run_list_finalize (GObject *object)
{
  g_ptr_array_unref (PLUMB_RUN_LIST (object)->runs);
  g_hash_table_unref (PLUMB_RUN_LIST (object)->listed);
  G_OBJECT_CLASS (plumb_run_list_parent_class)->finalize (object);
}

static void
plumb_run_list_class_init (PlumbRunListClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = plumb_run_list_get_property;
  object_class->dispose = plumb_run_list_dispose;
  object_class->finalize = plumb_run_list_finalize;
  properties[PROP_LOADED]
      = g_param_spec_boolean ("loaded", NULL, NULL, FALSE,
                              G_PARAM_READABLE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
plumb_run_list_init (PlumbRunList *self)
{
  self->runs = g_ptr_array_new_with_free_func (g_object_unref);
  self->listed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->reader = plumb_reader_new ();
  plumb_reader_set_list_func (self->reader, list_cb, self);
  watch_registry (self);
}

PlumbRunList *
plumb_run_list_new (void)
{
  return g_object_new (PLUMB_TYPE_RUN_LIST, NULL);
}

gboolean
plumb_run_list_is_loaded (PlumbRunList *self)
{
  g_return_val_if_fail (PLUMB_IS_RUN_LIST (self), FALSE);

  return self->loaded;
}

PlumbRun *
plumb_run_list_ensure (PlumbRunList *self, const char *path)
{
  guint position;

  g_return_val_if_fail (PLUMB_IS_RUN_LIST (self) && path != NULL, NULL);

  if (!find (self, path, &position))
    {
      position = 0;
      g_ptr_array_insert (self->runs, 0, plumb_run_new (self->reader, path));
      tell_changed (self, 0, 0, 1);
    }
  return self->runs->pdata[position];
}

void
plumb_run_list_refresh (PlumbRunList *self)
{
  g_return_if_fail (PLUMB_IS_RUN_LIST (self));

  plumb_reader_poke (self->reader);
}

void
plumb_run_list_stop (PlumbRunList *self)
{
  g_return_if_fail (PLUMB_IS_RUN_LIST (self));

  plumb_reader_set_list_func (self->reader, NULL, NULL);
  plumb_reader_stop (self->reader);
}
