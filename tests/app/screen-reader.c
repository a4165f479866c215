/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <gio/gio.h>
#include <string.h>

#include "tests/app/screen-reader.h"

#define DEEPEST 64
#define PAUSE 50000 /* us between two looks */
#define SOON 10.0   /* s */

typedef AtspiAccessible Node;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Node, g_object_unref)

typedef gboolean (*Visit) (Node *node, int depth, gpointer data);

static Node *app; /* the program that is driven */

/* Depth first, until a visit returns TRUE. The program may change meanwhile: what has gone has no
 * children any more. */
static gboolean
walk (Node *node, int depth, Visit visit, gpointer data)
{
  int n;

  if (visit (node, depth, data))
    return TRUE;
  if (depth == DEEPEST)
    return FALSE;
  n = atspi_accessible_get_child_count (node, NULL);
  for (int i = 0; i < n; i++)
    {
      g_autoptr (Node) child = atspi_accessible_get_child_at_index (node, i, NULL);

      if (child != NULL && walk (child, depth + 1, visit, data))
        return TRUE;
    }
  return FALSE;
}

static char *
name_of (Node *node)
{
  char *name = atspi_accessible_get_name (node, NULL);

  return name != NULL ? name : g_strdup ("");
}

static char *
description_of (Node *node)
{
  char *description = atspi_accessible_get_description (node, NULL);

  return description != NULL ? description : g_strdup ("");
}

static gboolean
dump_visit (Node *node, int depth, gpointer data)
{
  g_autofree char *role = atspi_accessible_get_role_name (node, NULL);
  g_autofree char *name = name_of (node);
  g_autofree char *description = description_of (node);

  if (*name != '\0')
    g_printerr ("# %*s%s “%s” %s\n", depth, "", role, name, description);
  return FALSE;
}

gboolean
reader_start (void)
{
  g_autoptr (GDBusConnection) bus = g_bus_get_sync (G_BUS_TYPE_SESSION, NULL, NULL);
  g_autoptr (GVariant) address = NULL;

  if (bus != NULL)
    address = g_dbus_connection_call_sync (bus, "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus",
                                           "GetAddress", NULL, G_VARIANT_TYPE ("(s)"), 0, -1, NULL,
                                           NULL);
  /* What was true a moment ago is of no use to a test. */
  g_setenv ("ATSPI_NO_CACHE", "1", TRUE);
  return address != NULL && atspi_init () <= 1;
}

typedef struct
{
  AtspiRole role;
  const char *name;
  const char *description; /* NULL: any */
  Node *found;
} Search;

static gboolean
search_visit (Node *node, int depth, gpointer data)
{
  Search *search = data;
  g_autofree char *name = NULL, *description = NULL;

  if (atspi_accessible_get_role (node, NULL) != search->role)
    return FALSE;
  name = name_of (node);
  if (!g_pattern_match_simple (search->name, name))
    return FALSE;
  if (search->description != NULL)
    {
      description = description_of (node);
      if (!g_pattern_match_simple (search->description, description))
        return FALSE;
    }
  search->found = g_object_ref (node);
  return TRUE;
}

static void
give_up (Node *root, const char *what, const Search *search, double seconds)
{
  g_autofree char *role = atspi_role_get_name (search->role);

  walk (root, 0, dump_visit, NULL);
  g_error ("after %g s %s: %s “%s”%s%s", seconds, what, role, search->name,
           search->description != NULL ? ", described as " : "",
           search->description != NULL ? search->description : "");
}

static Node *
wait_search (Node *root, AtspiRole role, const char *name, const char *description, double seconds)
{
  gint64 end = g_get_monotonic_time () + seconds * G_USEC_PER_SEC;
  Search search = { role, name, description, NULL };

  while (!walk (root, 0, search_visit, &search))
    {
      if (g_get_monotonic_time () > end)
        give_up (root, "still missing", &search, seconds);
      g_usleep (PAUSE);
    }
  return search.found;
}

void
reader_attach (const char *name, double seconds)
{
  g_autoptr (Node) desktop = atspi_get_desktop (0);

  app = wait_search (desktop, ATSPI_ROLE_APPLICATION, name, NULL, seconds);
}

void
reader_detach (void)
{
  g_clear_object (&app);
}

gboolean
reader_sees (AtspiRole role, const char *name)
{
  Search search = { role, name, NULL, NULL };
  gboolean found = walk (app, 0, search_visit, &search);

  g_clear_object (&search.found);
  return found;
}

void
reader_wait (AtspiRole role, const char *name, double seconds)
{
  g_object_unref (wait_search (app, role, name, NULL, seconds));
}

void
reader_wait_described (AtspiRole role, const char *name, const char *text, double seconds)
{
  g_object_unref (wait_search (app, role, name, text, seconds));
}

void
reader_wait_gone (AtspiRole role, const char *name, double seconds)
{
  gint64 end = g_get_monotonic_time () + seconds * G_USEC_PER_SEC;

  while (reader_sees (role, name))
    {
      if (g_get_monotonic_time () > end)
        give_up (app, "still there", &(Search){ role, name, NULL, NULL }, seconds);
      g_usleep (PAUSE);
    }
}

static gboolean
has_state (Node *node, AtspiStateType state)
{
  AtspiStateSet *states = atspi_accessible_get_state_set (node);
  gboolean has = states != NULL && atspi_state_set_contains (states, state);

  g_clear_object (&states);
  return has;
}

void
reader_wait_state (AtspiRole role, const char *name, AtspiStateType state, gboolean set)
{
  g_autoptr (Node) node = wait_search (app, role, name, NULL, SOON);
  gint64 end = g_get_monotonic_time () + SOON * G_USEC_PER_SEC;

  while (has_state (node, state) != set)
    {
      if (g_get_monotonic_time () > end)
        g_error ("“%s” %s state %d", name, set ? "lacks" : "still has", state);
      g_usleep (PAUSE);
    }
}

static char *
text_of (Node *node)
{
  AtspiText *text = atspi_accessible_get_text_iface (node);
  char *content = NULL;

  if (text != NULL)
    content = atspi_text_get_text (text, 0, atspi_text_get_character_count (text, NULL), NULL);
  g_clear_object (&text);
  return content != NULL ? content : g_strdup ("");
}

void
reader_wait_text (AtspiRole role, const char *name, const char *text, double seconds)
{
  g_autoptr (Node) node = wait_search (app, role, name, NULL, seconds);
  gint64 end = g_get_monotonic_time () + seconds * G_USEC_PER_SEC;

  for (;;)
    {
      g_autofree char *content = text_of (node);

      if (g_pattern_match_simple (text, content))
        return;
      if (g_get_monotonic_time () > end)
        g_error ("after %g s “%s” still says: %s", seconds, name, content);
      g_usleep (PAUSE);
    }
}

void
reader_act (AtspiRole role, const char *name, const char *action)
{
  g_autoptr (Node) node = wait_search (app, role, name, NULL, SOON);
  AtspiAction *actions = atspi_accessible_get_action_iface (node);
  int n = actions != NULL ? atspi_action_get_n_actions (actions, NULL) : 0;
  gboolean done = FALSE;

  for (int i = 0; i < n && !done; i++)
    {
      g_autofree char *found = atspi_action_get_action_name (actions, i, NULL);

      done = g_strcmp0 (found, action) == 0 && atspi_action_do_action (actions, i, NULL);
    }
  g_clear_object (&actions);
  if (!done)
    g_error ("“%s” does not do the action “%s”", name, action);
}

void
reader_press (const char *name)
{
  reader_act (ATSPI_ROLE_PUSH_BUTTON, name, "click");
}

void
reader_write (AtspiRole role, const char *name, const char *text)
{
  g_autoptr (Node) node = wait_search (app, role, name, NULL, SOON);
  AtspiEditableText *editor = atspi_accessible_get_editable_text_iface (node);

  if (editor == NULL || !atspi_editable_text_set_text_contents (editor, text, NULL))
    g_error ("“%s” takes no text", name);
  g_object_unref (editor);
}

static gboolean
needs_name (Node *node)
{
  g_autoptr (Node) parent = NULL;

  switch (atspi_accessible_get_role (node, NULL))
    {
    case ATSPI_ROLE_PUSH_BUTTON:
    case ATSPI_ROLE_TOGGLE_BUTTON:
      /* The button inside a drop-down is the drop-down, which has the name. */
      parent = atspi_accessible_get_parent (node, NULL);
      return parent == NULL || atspi_accessible_get_role (parent, NULL) != ATSPI_ROLE_COMBO_BOX;
    case ATSPI_ROLE_CHECK_BOX:
    case ATSPI_ROLE_COMBO_BOX:
    case ATSPI_ROLE_ENTRY:
    case ATSPI_ROLE_PAGE_TAB:
    case ATSPI_ROLE_SLIDER:
    case ATSPI_ROLE_SPIN_BUTTON:
    case ATSPI_ROLE_TEXT:
      return TRUE;
    case ATSPI_ROLE_IMAGE:
    case ATSPI_ROLE_LIST_ITEM:
      return has_state (node, ATSPI_STATE_FOCUSABLE);
    default:
      return FALSE;
    }
}

static gboolean
nameless_visit (Node *node, int depth, gpointer data)
{
  static const char *const inner[] = { "Gtk*", "Adw*", "Plumb*", "_*", "*-symbolic", "" };
  g_autofree char *name = NULL, *role = NULL;

  if (!needs_name (node))
    return FALSE;
  name = name_of (node);
  for (guint i = 0; i < G_N_ELEMENTS (inner); i++)
    if (g_pattern_match_simple (inner[i], name) && !g_str_equal (name, "Plumbline"))
      {
        role = atspi_accessible_get_role_name (node, NULL);
        g_printerr ("# a %s is called “%s”\n", role, name);
        ++*(guint *)data;
        break;
      }
  return FALSE;
}

guint
reader_count_nameless (void)
{
  guint n = 0;

  walk (app, 0, nameless_visit, &n);
  return n;
}
