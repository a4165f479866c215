/* SPDX-License-Identifier: Apache-2.0 */
/* plumbline-engine tokenize and detokenize: JSON lines {"text"} to {"ids"} and back. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <glib/gi18n.h>

#include "engine/cli/command.h"
#include "engine/core/error.h"
#include "engine/core/json-scan.h"
#include "engine/text/tokenizer.h"

typedef struct
{
  PlumbTokenizer *tokenizer;
  gboolean special; /* with the template's tokens; without special ones when decoding */
  gboolean plain;   /* control tokens in the text are text */
  guint line;
} Session;

typedef gboolean (*ConvertLine) (Session *session,
                                 PlumbJsonScan *scan,
                                 GString *out,
                                 GError **error);

static gboolean
bad_line (Session *session, GError **error, const char *what, gsize at)
{
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "standard input, line %u, byte %" G_GSIZE_FORMAT ": %s", session->line, at, what);
  return FALSE;
}

static void
append_json_text (GString *out, const char *text, gsize length)
{
  g_string_append_c (out, '"');
  for (gsize i = 0; i < length; i++)
    if ((guchar)text[i] < 0x20)
      g_string_append_printf (out, "\\u%04x", text[i]);
    else
      {
        if (text[i] == '"' || text[i] == '\\')
          g_string_append_c (out, '\\');
        g_string_append_c (out, text[i]);
      }
  g_string_append_c (out, '"');
}

static gboolean
tokenize_line (Session *session, PlumbJsonScan *scan, GString *out, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  gboolean found = FALSE;

  plumb_json_enter_object (scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "text"))
      found = plumb_json_get_string (scan, text);
    else
      plumb_json_skip (scan);
  if (!plumb_json_finish (scan))
    return bad_line (session, error, scan->message, scan->at);
  if (!found)
    return bad_line (session, error, "the object has no \"text\"", 0);
  if (!(session->plain ? plumb_tokenizer_encode_plain (session->tokenizer, text->str, text->len, ids, error)
                       : plumb_tokenizer_encode (session->tokenizer, text->str, text->len,
                                                 session->special, ids, error)))
    {
      g_prefix_error (error, "standard input, line %u: ", session->line);
      return FALSE;
    }
  g_string_append (out, "{\"ids\":[");
  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (out, "%s%d", i > 0 ? "," : "", g_array_index (ids, gint32, i));
  g_string_append (out, "]}\n");
  return TRUE;
}

static gboolean
detokenize_line (Session *session, PlumbJsonScan *scan, GString *out, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree char *text = NULL;
  gboolean found = FALSE;
  gsize length;

  plumb_json_enter_object (scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "ids") && plumb_json_enter_array (scan))
      {
        found = TRUE;
        while (plumb_json_next_element (scan))
          {
            gint64 value = 0;
            gint32 id;

            plumb_json_get_integer (scan, &value);
            id = CLAMP (value, -1, G_MAXINT32);
            g_array_append_val (ids, id);
          }
      }
    else
      plumb_json_skip (scan);
  if (!plumb_json_finish (scan))
    return bad_line (session, error, scan->message, scan->at);
  if (!found)
    return bad_line (session, error, "the object has no \"ids\"", 0);
  text = plumb_tokenizer_decode_full (session->tokenizer, (gpointer)ids->data, ids->len,
                                      session->special, &length, error);
  if (text == NULL)
    {
      g_prefix_error (error, "standard input, line %u: ", session->line);
      return FALSE;
    }
  g_string_append (out, "{\"text\":");
  append_json_text (out, text, length);
  g_string_append (out, "}\n");
  return TRUE;
}

static gboolean
convert_input (Session *session, ConvertLine convert, GError **error)
{
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  gboolean fine = TRUE;

  while (fine && (length = getline (&line, &room, stdin)) >= 0)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      PlumbJsonScan scan;

      session->line++;
      if (length > 0 && line[length - 1] == '\n')
        length--;
      if (length == 0)
        continue;
      plumb_json_scan_init (&scan, line, length);
      fine = convert (session, &scan, out, error);
      if (fine && (fwrite (out->str, 1, out->len, stdout) != out->len || fflush (stdout) != 0))
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_ENVIRONMENT, "standard output: %s",
                       g_strerror (errno));
          fine = FALSE;
        }
    }
  free (line);
  return fine;
}

static int
convert_command (int argc, char **argv, gboolean decode, GError **error)
{
  g_autofree char *model = NULL;
  Session session = { NULL };
  const GOptionEntry options[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &model, N_ ("folder with the tokenizer"),
      N_ ("DIR") },
    { decode ? "skip-special" : "special", 0, 0, G_OPTION_ARG_NONE, &session.special,
      decode ? N_ ("leave special tokens out of the text")
             : N_ ("add the special tokens around a text"),
      NULL },
    /* Only one of both commands has it: the list ends before it for the other. */
    { decode ? NULL : "plain", 0, 0, G_OPTION_ARG_NONE, &session.plain,
      N_ ("take control tokens in the text as text"), NULL },
    { NULL },
  };
  gboolean fine;

  if (!plumb_command_parse (&argc, &argv, options, "",
                            decode ? _ ("Reads lines {\"ids\": [...]}, prints lines {\"text\"}.")
                                   : _ ("Reads lines {\"text\": ...}, prints lines {\"ids\"}."),
                            0, 0, error))
    return PLUMB_ERROR_USAGE;
  if (model == NULL)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                           "give the folder of the tokenizer with --model DIR");
      return PLUMB_ERROR_USAGE;
    }
  if (session.plain && session.special)
    {
      g_set_error_literal (error, PLUMB_ERROR, PLUMB_ERROR_USAGE,
                           "--plain and --special exclude each other");
      return PLUMB_ERROR_USAGE;
    }
  session.tokenizer = plumb_tokenizer_load (model, error);
  if (session.tokenizer == NULL)
    return PLUMB_ERROR_INVALID;
  fine = convert_input (&session, decode ? detokenize_line : tokenize_line, error);
  plumb_tokenizer_unref (session.tokenizer);
  return fine ? 0 : PLUMB_ERROR_INVALID;
}

int
plumb_cmd_tokenize (int argc, char **argv, GError **error)
{
  return convert_command (argc, argv, FALSE, error);
}

int
plumb_cmd_detokenize (int argc, char **argv, GError **error)
{
  return convert_command (argc, argv, TRUE, error);
}
