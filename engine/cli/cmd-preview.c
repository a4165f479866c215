/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine preview: the first rows of the data as the model will see them. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <unistd.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/run/preview.h"

#define MOST_ROWS 1000
#define MOST_LEFT_OUT 10 /* rows that are named */

/* How trained text is marked: by colour on a terminal, by brackets elsewhere. */
typedef struct
{
  const char *on, *off;
} Marks;

static Marks
marks_for_output (void)
{
  const char *term = g_getenv ("TERM");
  gboolean colour = isatty (STDOUT_FILENO) && g_strcmp0 (term, "dumb") != 0 && g_getenv ("NO_COLOR") == NULL;

  return colour ? (Marks){ "\033[1;32m", "\033[0m" } : (Marks){ "⟦", "⟧" };
}

/* Control characters of the data must not reach the terminal. */
static void
print_text (const char *text)
{
  g_autoptr (GString) clean = g_string_new (NULL);

  for (const char *p = text; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (c == '\n' || c == '\t' || !g_unichar_iscntrl (c))
        g_string_append_unichar (clean, c);
      else
        g_string_append_printf (clean, "\\u%04x", c);
    }
  g_print ("%s", clean->str);
}

static void
print_segments (JsonArray *segments, const Marks *marks)
{
  for (guint i = 0; i < json_array_get_length (segments); i++)
    {
      JsonObject *segment = json_array_get_object_element (segments, i);
      gboolean trained = json_object_get_boolean_member (segment, "trained");

      if (trained)
        g_print ("%s", marks->on);
      print_text (json_object_get_string_member (segment, "text"));
      if (trained)
        g_print ("%s", marks->off);
    }
  g_print ("\n");
}

/* Counts of rows and tokens, which fit. */
static int
number_of (JsonObject *object, const char *name)
{
  return (int)MIN (json_object_get_int_member (object, name), G_MAXINT);
}

static void
print_row (JsonObject *row, const Marks *marks)
{
  JsonArray *sequences = json_object_get_array_member (row, "sequences");

  g_print ("── %s:%" G_GINT64_FORMAT, json_object_get_string_member (row, "file"),
           json_object_get_int_member (row, "line"));
  if (json_object_has_member (row, "label"))
    g_print ("  %s", json_object_get_boolean_member (row, "label") ? _ ("liked") : _ ("disliked"));
  g_print ("\n");
  for (guint i = 0; i < json_array_get_length (sequences); i++)
    {
      JsonObject *sequence = json_array_get_object_element (sequences, i);

      g_print (_ ("[%s: %d tokens, %d of the prompt, %d trained]\n"), json_object_get_string_member (sequence, "kind"),
               number_of (sequence, "tokens"), number_of (sequence, "prompt_tokens"),
               number_of (sequence, "trained_tokens"));
      print_segments (json_object_get_array_member (sequence, "segments"), marks);
    }
  if (!json_object_get_null_member (row, "answer"))
    {
      g_print (_ ("[answer] "));
      print_text (json_object_get_string_member (row, "answer"));
      g_print ("\n");
    }
}

static const char *
text_of (JsonObject *object, const char *name)
{
  return json_object_get_null_member (object, name) ? NULL : json_object_get_string_member (object, name);
}

static void
print_problems (const char *title, JsonArray *problems, guint most)
{
  guint n = json_array_get_length (problems);

  if (n > 0)
    g_print ("%s\n", title);
  for (guint i = 0; i < MIN (n, most); i++)
    {
      JsonObject *problem = json_array_get_object_element (problems, i);
      const char *file = text_of (problem, "file"), *remedy = text_of (problem, "remedy");

      g_print ("  %s", file != NULL ? file : "");
      if (!json_object_get_null_member (problem, "line"))
        g_print (":%" G_GINT64_FORMAT, json_object_get_int_member (problem, "line"));
      g_print ("%s", file != NULL ? ": " : "");
      print_text (json_object_get_string_member (problem, "message"));
      g_print ("%s%s\n", remedy != NULL ? "; " : "", remedy != NULL ? remedy : "");
    }
  if (n > most)
    g_print (_ ("  and %u more\n"), n - most);
}

static void
print_preview (JsonObject *preview)
{
  Marks marks = marks_for_output ();
  JsonArray *rows = json_object_get_array_member (preview, "rows");
  JsonObject *counts = json_object_get_object_member (preview, "counts");

  print_problems (_ ("Keys and notes:"), json_object_get_array_member (preview, "notes"), G_MAXUINT);
  g_print (_ ("%d rows are used, %d are broken, %d too long, %d cut\n"), number_of (counts, "rows"),
           number_of (counts, "broken"), number_of (counts, "dropped"), number_of (counts, "truncated"));
  if (number_of (counts, "unchecked") > 0)
    g_print (_ ("%d of them will be looked at when they are taken\n"), number_of (counts, "unchecked"));
  print_problems (_ ("Rows that are left out:"), json_object_get_array_member (preview, "left_out"), MOST_LEFT_OUT);
  for (guint i = 0; i < json_array_get_length (rows); i++)
    print_row (json_array_get_object_element (rows, i), &marks);
}

static void
print_faults (GPtrArray *problems)
{
  g_autofree char *text = plumb_problems_to_text (problems);

  if (problems->len > 0)
    g_printerr ("%s\n", text);
}

int
plumb_cmd_preview (int argc, char **argv, GError **error)
{
  g_auto (GStrv) assignments = NULL;
  gboolean json = FALSE;
  int n = 3;
  const GOptionEntry options[] = {
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &assignments, N_ ("set one value"), N_ ("group.key=value") },
    { "rows", 'n', 0, G_OPTION_ARG_INT, &n, N_ ("how many rows"), N_ ("N") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, N_ ("print as JSON, with token ids"), NULL },
    { NULL },
  };
  g_autoptr (GPtrArray) problems = plumb_problems_new (), left_out = plumb_problems_new ();
  g_autoptr (PlumbSpec) spec = NULL;
  g_autoptr (JsonNode) preview = NULL;
  g_autoptr (GError) local = NULL;

  if (!plumb_command_parse (&argc, &argv, options, "SPEC",
                            _ ("Shows the first rows of the data as the model will see them."), 1, 1, error))
    return PLUMB_ERROR_USAGE;
  if (n < 1 || n > MOST_ROWS)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, _ ("-n %d: between 1 and %d rows can be shown"), n, MOST_ROWS);
      return PLUMB_ERROR_USAGE;
    }
  spec = plumb_command_load_spec (argv[1], assignments, problems, error);
  if (spec == NULL)
    return PLUMB_ERROR_INVALID;
  preview = plumb_preview (spec, n, left_out, &local);
  if (preview != NULL)
    {
      if (json)
        plumb_command_print_json (preview, FALSE);
      else
        print_preview (json_node_get_object (preview));
      print_faults (problems);
      return 0;
    }
  g_ptr_array_extend_and_steal (problems, g_steal_pointer (&left_out));
  plumb_problems_add_error (problems, local);
  if (json)
    {
      g_autoptr (JsonNode) node = plumb_problems_to_json (problems);

      plumb_command_print_json (node, FALSE);
    }
  else
    print_faults (problems);
  return plumb_error_exit_code (local);
}
