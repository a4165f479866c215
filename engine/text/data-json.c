/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <math.h>
#include <string.h>

#include "engine/text/data-json.h"

/* Likely names, the likeliest first. An answer is also a response when nothing better is there. */
static const char *const prompt_names[] = { "prompt",      "question", "problem",
                                            "instruction", "input",    "query",
                                            "text",        "Question", NULL };
static const char *const answer_names[]
    = { "answer", "solution", "label", "target", "final_answer", "gold", "Answer", NULL };
static const char *const response_names[]
    = { "response", "completion", "output", "answer", "solution", "target", "chosen", NULL };
static const char *const chosen_names[] = { "chosen", "preferred", "winner", "better", NULL };
static const char *const rejected_names[] = { "rejected", "dispreferred", "loser", "worse", NULL };
static const char *const margin_names[] = { "margin", "score_difference", NULL };
static const char *const label_names[] = { "label", "desirable", "liked", "is_good", "tag", NULL };

void
plumb_data_text_clear (PlumbDataText *text)
{
  GString **strings[] = { &text->prompt,   &text->answer, &text->response,
                          &text->rejected, &text->margin, &text->label };

  for (gsize i = 0; i < G_N_ELEMENTS (strings); i++)
    {
      if (*strings[i] != NULL)
        g_string_free (*strings[i], TRUE);
      *strings[i] = NULL;
    }
}

gboolean
plumb_data_label (const char *text, gboolean *liked)
{
  static const char *const words[] = { "true", "1", "yes", "false", "0", "no" };

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_ascii_strcasecmp (text, words[i]) == 0)
      {
        *liked = i < G_N_ELEMENTS (words) / 2;
        return TRUE;
      }
  return FALSE;
}

double
plumb_data_number (const char *text)
{
  char *end;
  double value = g_ascii_strtod (text, &end);

  return end != text && *end == '\0' ? value : NAN;
}

void
plumb_row_fault_clear (PlumbRowFault *fault)
{
  g_clear_pointer (&fault->message, g_free);
  g_clear_pointer (&fault->remedy, g_free);
}

static gboolean
fault_at (PlumbRowFault *fault, char *message, char *remedy)
{
  plumb_row_fault_clear (fault);
  fault->message = message;
  fault->remedy = remedy;
  return FALSE;
}

/* A scalar as it is spelled; anything else is named in `wrong`. */
static GString *
read_scalar (PlumbJsonScan *scan, const char **wrong)
{
  PlumbJsonType type = plumb_json_peek (scan);
  GString *string = NULL;
  const char *number;
  gsize length;
  gboolean yes;

  *wrong = NULL;
  switch (type)
    {
    case PLUMB_JSON_STRING:
      string = g_string_new (NULL);
      plumb_json_get_string (scan, string);
      break;
    case PLUMB_JSON_NUMBER:
      if (plumb_json_get_number (scan, &number, &length))
        string = g_string_new_len (number, length);
      break;
    case PLUMB_JSON_BOOLEAN:
      if (plumb_json_get_boolean (scan, &yes))
        string = g_string_new (yes ? "true" : "false");
      break;
    case PLUMB_JSON_OBJECT:
    case PLUMB_JSON_ARRAY:
    case PLUMB_JSON_NULL:
    case PLUMB_JSON_NOTHING:
      *wrong = plumb_json_type_name (type);
      plumb_json_skip (scan);
      break;
    }
  return string;
}

typedef struct
{
  const char *key; /* NULL: not asked for */
  GString **string;
  const char *wrong; /* type that was found instead of a scalar */
  gboolean needed;
  gboolean may_be_empty;
} Wanted;

static void
take_member (Wanted *wanted, gsize n, const char *key, PlumbJsonScan *scan)
{
  const char *start = scan->next;

  for (gsize i = 0; i < n; i++)
    {
      PlumbJsonScan again = *scan;

      if (g_strcmp0 (wanted[i].key, key) != 0)
        continue;
      /* One key may serve two purposes (an answer that is also the response). */
      again.next = start;
      if (*wanted[i].string != NULL)
        g_string_free (*wanted[i].string, TRUE);
      *wanted[i].string = read_scalar (&again, &wanted[i].wrong);
    }
  plumb_json_skip (scan);
}

static gboolean
check_wanted (const Wanted *wanted, GHashTable *seen, PlumbRowFault *fault)
{
  g_autofree const char **names = NULL;
  const char *nearest;
  guint n;

  if (wanted->key == NULL || !wanted->needed)
    return TRUE;
  if (wanted->wrong != NULL)
    return fault_at (fault,
                     g_strdup_printf ("%s is %s, not a text or number", wanted->key, wanted->wrong),
                     NULL);
  if (*wanted->string == NULL)
    {
      names = (const char **)g_hash_table_get_keys_as_array (seen, &n);
      nearest = plumb_nearest_word (wanted->key, names, n);
      return fault_at (
          fault, g_strdup_printf ("%s is missing", wanted->key),
          nearest != NULL ? g_strdup_printf ("the nearest key of the row is %s", nearest) : NULL);
    }
  if ((*wanted->string)->len == 0 && !wanted->may_be_empty)
    return fault_at (fault, g_strdup_printf ("%s is empty", wanted->key), NULL);
  return TRUE;
}

static gboolean
malformed (PlumbJsonScan *scan, gsize offset, PlumbRowFault *fault)
{
  gboolean early = scan->at == (gsize)(scan->end - scan->data);

  return fault_at (fault,
                   g_strdup_printf ("this is no sound JSON: %s (at byte %" G_GSIZE_FORMAT
                                    " of the line, %" G_GSIZE_FORMAT " of the file)",
                                    early ? "it is incomplete" : scan->message, scan->at,
                                    offset + scan->at),
                   NULL);
}

/* A label that says nothing and a margin that is no number are faults of the row. */
static gboolean
check_numbers (const PlumbDataKeys *keys, const PlumbDataText *text, PlumbRowFault *fault)
{
  gboolean liked;

  if (keys->need_label && !plumb_data_label (text->label->str, &liked))
    return fault_at (fault,
                     g_strdup_printf ("%s is \"%.40s\", not a label", keys->label, text->label->str),
                     g_strdup ("write true or false, 1 or 0"));
  if (text->margin != NULL && !isfinite (plumb_data_number (text->margin->str)))
    return fault_at (
        fault, g_strdup_printf ("%s is \"%.40s\", not a number", keys->margin, text->margin->str),
        NULL);
  return TRUE;
}

gboolean
plumb_data_json_read (const char *line,
                      gsize length,
                      gsize offset,
                      const PlumbDataKeys *keys,
                      PlumbDataText *text,
                      PlumbRowFault *fault)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree char *twice = NULL;
  PlumbJsonScan scan;
  Wanted wanted[] = {
    { keys->prompt, &text->prompt, NULL, TRUE, FALSE },
    { keys->answer, &text->answer, NULL, keys->need_answer, FALSE },
    { keys->response, &text->response, NULL,
      keys->need_response || keys->need_pair || keys->need_label, FALSE },
    { keys->rejected, &text->rejected, NULL, keys->need_pair, FALSE },
    { keys->margin, &text->margin, NULL, FALSE, FALSE },
    { keys->label, &text->label, NULL, keys->need_label, FALSE },
  };

  plumb_json_scan_init (&scan, line, length);
  if (plumb_json_peek (&scan) != PLUMB_JSON_OBJECT)
    {
      PlumbJsonType type = plumb_json_peek (&scan);

      plumb_json_skip (&scan);
      if (!plumb_json_finish (&scan))
        return malformed (&scan, offset, fault);
      return fault_at (
          fault, g_strdup_printf ("the row is %s, not an object", plumb_json_type_name (type)),
          NULL);
    }
  plumb_json_enter_object (&scan);
  while (plumb_json_next_member (&scan, key))
    {
      if (!g_hash_table_add (seen, g_strdup (key->str)) && twice == NULL)
        twice = g_strdup (key->str);
      take_member (wanted, G_N_ELEMENTS (wanted), key->str, &scan);
    }
  if (!plumb_json_finish (&scan))
    return malformed (&scan, offset, fault);
  if (twice != NULL)
    return fault_at (fault, g_strdup_printf ("%s stands twice in the row", twice), NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (wanted); i++)
    if (!check_wanted (&wanted[i], seen, fault))
      return FALSE;
  return check_numbers (keys, text, fault);
}

gboolean
plumb_data_json_keys (const char *line, gsize length, GHashTable *seen)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_free);
  PlumbJsonScan scan;

  plumb_json_scan_init (&scan, line, length);
  if (!plumb_json_enter_object (&scan))
    return FALSE;
  while (plumb_json_next_member (&scan, key))
    {
      if (plumb_json_peek (&scan) != PLUMB_JSON_NULL)
        g_ptr_array_add (found, g_strdup (key->str));
      plumb_json_skip (&scan);
    }
  if (!plumb_json_finish (&scan))
    return FALSE;
  for (guint i = 0; i < found->len; i++)
    g_hash_table_add (seen, g_strdup (g_ptr_array_index (found, i)));
  return TRUE;
}

static char *
guess (const char *const *names, GHashTable *seen, const char *taken)
{
  for (gsize i = 0; names[i] != NULL; i++)
    if (g_hash_table_contains (seen, names[i]) && g_strcmp0 (names[i], taken) != 0)
      return g_strdup (names[i]);
  return NULL;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

static char *
list_keys (GHashTable *seen)
{
  guint n;
  g_autofree char **keys = (char **)g_hash_table_get_keys_as_array (seen, &n);

  qsort (keys, n, sizeof *keys, compare_names);
  return g_strjoinv (", ", keys);
}

/* What a key that no row has may have been meant to be: a misspelling, or the usual name. */
static char *
missing_key (const char *setting, const char *key, const char *const *names, GHashTable *seen)
{
  g_autofree char *all = list_keys (seen), *usual = guess (names, seen, NULL);
  guint n;
  g_autofree const char **keys = (const char **)g_hash_table_get_keys_as_array (seen, &n);
  const char *nearest = plumb_nearest_word (key, keys, n);

  if (nearest == NULL)
    nearest = usual;
  if (nearest != NULL)
    return g_strdup_printf ("no row has the key %s; the rows have: %s; set %s = %s?", key, all,
                            setting, nearest);
  return g_strdup_printf ("no row has the key %s; the rows have: %s; set %s to one of them", key,
                          all, setting);
}

/* A key that a spec may give, and where it comes from otherwise. */
typedef struct
{
  const char *setting;
  const char *usual; /* what it is called in a message */
  char **key;
  const char *const *names;
  gboolean needed;
  char **other; /* that the guess must not take too; NULL: none */
} Choice;

char *
plumb_data_json_choose (PlumbDataKeys *keys, GHashTable *seen)
{
  gboolean answered = keys->need_response || keys->need_label;
  Choice choices[] = {
    { "data.prompt_key", "prompt", &keys->prompt, prompt_names, TRUE, &keys->answer },
    { "data.answer_key", "answer", &keys->answer, answer_names, keys->need_answer, &keys->prompt },
    { keys->need_pair ? "data.chosen_key" : "data.response_key", keys->need_pair ? "chosen" : "response",
      &keys->response, keys->need_pair ? chosen_names : response_names, keys->need_pair || answered,
      &keys->prompt },
    { "data.rejected_key", "rejected", &keys->rejected, rejected_names, keys->need_pair, NULL },
    { "data.margin_key", "margin", &keys->margin, margin_names, FALSE, NULL },
    { "data.label_key", "label", &keys->label, label_names, keys->need_label, NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (choices); i++)
    if (*choices[i].key != NULL && choices[i].needed && !g_hash_table_contains (seen, *choices[i].key))
      return missing_key (choices[i].setting, *choices[i].key, choices[i].names, seen);
  for (gsize i = 0; i < G_N_ELEMENTS (choices); i++)
    {
      if (*choices[i].key == NULL)
        *choices[i].key
            = guess (choices[i].names, seen, choices[i].other != NULL ? *choices[i].other : NULL);
      if (*choices[i].key == NULL && choices[i].needed)
        return missing_key (choices[i].setting, choices[i].usual, choices[i].names, seen);
    }
  return NULL;
}
