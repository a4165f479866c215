/* SPDX-License-Identifier: Apache-2.0 */
/* What other trainers are started with becomes a form, what they recorded a run. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <string.h>

#include "app/engine-client.h"
#include "app/window-private.h"
#include "engine/core/error.h"
#include "engine/core/history.h"
#include "engine/core/run-dir.h"
#include "engine/core/spec-import.h"

#define MOST_BYTES (1 << 20) /* of a file of settings */
#define MOST_LINES 12        /* of remarks */

typedef struct
{
  PlumbWindow *window;
  char *path;
  char *run; /* of curves: the folder of the run that is made of them */
  PlumbSpec *spec;
  GPtrArray *notes; /* PlumbImportNote */
} Import;

static void
import_free (Import *self)
{
  g_object_unref (self->window);
  g_free (self->path);
  g_free (self->run);
  g_clear_pointer (&self->spec, plumb_spec_unref);
  g_ptr_array_unref (self->notes);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Import, import_free)

/* The window may have been closed meanwhile. */
static gboolean
is_gone (Import *self)
{
  return self->window->new_run == NULL;
}

/* A dialog is no place for more than a few lines. */
static char *
first_lines (const char *text)
{
  const char *end = text;

  for (guint i = 0; i < MOST_LINES && end != NULL; i++)
    {
      end = strchr (end, '\n');
      end = end != NULL ? end + 1 : NULL;
    }
  return end != NULL && *end != '\0' ? g_strdup_printf ("%.*s…", (int)(end - text), text)
                                     : g_strdup (text);
}

static void
show_text (PlumbWindow *window, const char *heading, const char *body)
{
  GtkWidget *dialog = adw_message_dialog_new (GTK_WINDOW (window), heading, body);

  adw_message_dialog_add_response (ADW_MESSAGE_DIALOG (dialog), "close", _ ("_Close"));
  gtk_window_present (GTK_WINDOW (dialog));
}

static void
show_trouble (Import *self, const char *message)
{
  g_autofree char *name = g_path_get_basename (self->path);
  g_autofree char *body
      = g_strdup_printf (_ ("%s: %s\n\nWhat can be imported: a command line of OpenRLHF or verl, a "
                            "YAML file of verl or TRL, and curves in TensorBoard’s event files, "
                            "JSON lines or CSV."),
                         name, message);

  show_text (self->window, _ ("The File Cannot Be Imported"), body);
}

static PlumbSpec *
read_settings (const char *path, GPtrArray *notes, GError **error)
{
  g_autofree char *text = NULL;
  GStatBuf status;

  if (g_stat (path, &status) == 0 && status.st_size > MOST_BYTES)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                           _ ("this is too long for settings"));
      return NULL;
    }
  if (!g_file_get_contents (path, &text, NULL, error))
    return NULL;
  return plumb_spec_import (text, NULL, notes, error);
}

/* Settings are read here; curves are the engine's business. */
static void
look_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  Import *self = data;
  g_autofree char *name = g_path_get_basename (self->path);
  GError *error = NULL;

  if (plumb_history_is_likely (self->path))
    self->run = plumb_run_dir_propose (name);
  else
    self->spec = read_settings (self->path, self->notes, &error);
  if (error != NULL)
    g_task_return_error (task, error);
  else
    g_task_return_boolean (task, TRUE);
}

static void
show_run (Import *self, const PlumbEngineReply *reply)
{
  g_autofree char *remarks = first_lines (reply->complaint != NULL ? reply->complaint : "");

  plumb_window_open_run (self->window, self->run);
  if (*remarks != '\0')
    show_text (self->window, _ ("Imported, with Remarks"), remarks);
}

static void
curves_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (Import) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbEngineReply) reply = plumb_engine_call_finish (result, &error);
  g_autofree char *summary = NULL;

  if (is_gone (self))
    return;
  if (reply != NULL && reply->exit_code == 0)
    {
      show_run (self, reply);
      return;
    }
  summary = reply != NULL ? plumb_engine_reply_summary (reply) : g_strdup (error->message);
  show_trouble (self, summary);
}

static void
looked_cb (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (Import) self = user_data;
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_path_get_basename (self->path);
  const char *arguments[] = { "import", self->path, "--run-dir", self->run, "--name", name, NULL };
  gboolean good = g_task_propagate_boolean (G_TASK (result), &error);

  if (is_gone (self))
    return;
  if (!good)
    show_trouble (self, error->message);
  else if (self->run != NULL)
    plumb_engine_call_async (arguments, NULL, curves_cb, g_steal_pointer (&self));
  else
    {
      plumb_new_run_page_load_import (self->window->new_run, self->spec, self->notes, self->path);
      plumb_window_show_new_run (self->window);
    }
}

void
plumb_window_import (PlumbWindow *window, const char *path)
{
  Import *self = g_new0 (Import, 1);
  g_autoptr (GTask) task = g_task_new (window, NULL, looked_cb, self);

  self->window = g_object_ref (window);
  self->path = g_strdup (path);
  self->notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
  g_task_set_source_tag (task, plumb_window_import);
  g_task_set_task_data (task, self, NULL);
  g_task_run_in_thread (task, look_thread);
}
