/* SPDX-License-Identifier: Apache-2.0 */
/* Which key of a row holds what, guessed from the keys that the first rows have. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/data-json.h"

/* Likely names, the likeliest first. An answer is also a response when nothing better is there. */
static const char *const prompt_names[]
    = { "prompt", "question", "problem", "instruction", "input", "query", "text", "Question", NULL };
static const char *const answer_names[] = { "answer", "solution", "label", "target", "final_answer", "gold",
                                            "Answer", "canonical_solution", NULL };
static const char *const response_names[]
    = { "response", "completion", "output", "answer", "solution", "target", "chosen", "canonical_solution",
        "Answer", NULL };
static const char *const chosen_names[] = { "chosen", "preferred", "winner", "better", NULL };
static const char *const rejected_names[] = { "rejected", "dispreferred", "loser", "worse", NULL };
static const char *const margin_names[] = { "margin", "score_difference", NULL };
static const char *const label_names[] = { "label", "desirable", "liked", "is_good", "tag", NULL };
static const char *const messages_names[] = { "messages", "conversations", "conversation", "dialog", NULL };
static const char *const system_names[] = { "system", "system_prompt", NULL };
static const char *const tools_names[] = { "tools", NULL };

/* Prompts that are spread over two keys. */
static const struct
{
  const char *first, *second, *form;
  const char *answer, *response; /* NULL: by its usual name */
} shapes[] = {
  { "instruction", "input", "{1}\n\n{2}", NULL, NULL },
  { "instruction", "instances.0.input", "{1}\n\n{2}", "instances.0.output", "instances.0.output" },
  { "Body", "Question", "{1} {2}", NULL, NULL },
  { "nums", "target",
    "Using the numbers {1}, each at most once, and + - * /, write an expression that equals {2}.", "target", NULL },
};

#define N_KEYS 10

static void
list_keys (PlumbDataKeys *keys, char **list[N_KEYS])
{
  char **all[N_KEYS]
      = { &keys->messages, &keys->prompt, &keys->context, &keys->answer, &keys->response,
          &keys->rejected, &keys->margin, &keys->label,   &keys->system, &keys->tools };

  memcpy (list, all, sizeof all);
}

void
plumb_data_keys_clear (PlumbDataKeys *keys)
{
  char **list[N_KEYS];

  list_keys (keys, list);
  for (gsize i = 0; i < N_KEYS; i++)
    g_clear_pointer (list[i], g_free);
}

void
plumb_data_keys_copy (PlumbDataKeys *to, const PlumbDataKeys *from)
{
  char **list[N_KEYS];

  *to = *from;
  list_keys (to, list);
  for (gsize i = 0; i < N_KEYS; i++)
    *list[i] = g_strdup (*list[i]);
}

char *
plumb_data_keys_describe (const PlumbDataKeys *keys)
{
  const struct
  {
    const char *what, *key;
    gboolean used;
  } all[] = {
    { "messages", keys->messages, TRUE },
    { "prompt", keys->prompt, keys->messages == NULL },
    { "context", keys->context, keys->context != NULL },
    { "answer", keys->answer, keys->need_answer || keys->prompts_only },
    { keys->need_pair ? "chosen" : "response", keys->response, !keys->prompts_only },
    { "rejected", keys->rejected, keys->need_pair },
    { "margin", keys->margin, keys->need_pair },
    { "label", keys->label, keys->need_label },
    { "system", keys->system, TRUE },
    { "tools", keys->tools, TRUE },
  };
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i].key != NULL && all[i].used)
      g_string_append_printf (text, "%s%s = %s", text->len > 0 ? ", " : "", all[i].what, all[i].key);
  return g_string_free (text, FALSE);
}

static const char *
guess (const char *const *names, GHashTable *seen, const char *taken)
{
  for (gsize i = 0; names[i] != NULL; i++)
    if (g_hash_table_contains (seen, names[i]) && g_strcmp0 (names[i], taken) != 0)
      return names[i];
  return NULL;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *)a, *(char *const *)b);
}

/* The keys that rows have themselves, sorted, without those below them. */
static GPtrArray *
outer_keys (GHashTable *seen)
{
  GPtrArray *keys = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer key, kind;

  g_hash_table_iter_init (&iter, seen);
  while (g_hash_table_iter_next (&iter, &key, &kind))
    if (GPOINTER_TO_INT (kind) != INNER_KEY)
      g_ptr_array_add (keys, key);
  g_ptr_array_sort (keys, compare_names);
  return keys;
}

/* What a key that no row has may have been meant to be: a misspelling, or the usual name. */
static char *
missing_key (const char *setting, const char *key, const char *const *names, GHashTable *seen)
{
  g_autoptr (GPtrArray) keys = outer_keys (seen);
  const char *nearest = plumb_nearest_word (key, (const char *const *)keys->pdata, keys->len);
  g_autofree char *all = NULL;

  g_ptr_array_add (keys, NULL);
  all = g_strjoinv (", ", (char **)keys->pdata);
  if (nearest == NULL)
    nearest = guess (names, seen, NULL);
  if (nearest != NULL)
    return g_strdup_printf ("no row has the key %s; the rows have: %s; set %s = %s?", key, all,
                            setting, nearest);
  return g_strdup_printf ("no row has the key %s; the rows have: %s; set %s to one of them", key,
                          all, setting);
}

static gboolean
is_seen (GHashTable *seen, const char *key)
{
  g_autofree char *first = g_strndup (key, strcspn (key, "."));

  return g_hash_table_contains (seen, key)
         || (strchr (key, '.') != NULL && g_hash_table_contains (seen, first));
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

/* A conversation goes before a prompt where it is asked for, or where prompts alone do not say enough. */
static void
choose_messages (PlumbDataKeys *keys, GHashTable *seen)
{
  const char *messages = guess (messages_names, seen, NULL);
  gboolean prompt = keys->prompt != NULL || guess (prompt_names, seen, NULL) != NULL;
  gboolean answer = keys->response != NULL || guess (response_names, seen, keys->prompt) != NULL;
  gboolean answered = keys->need_response || keys->need_label;

  if (keys->messages != NULL || messages == NULL || keys->format == PLUMB_DATA_PROMPTS
      || keys->format == PLUMB_DATA_INSTRUCTION)
    return;
  if (keys->format != PLUMB_DATA_MESSAGES && prompt && (keys->prompt != NULL || !answered || answer))
    return;
  keys->messages = g_strdup (messages);
}

/* Prompts in two parts, unless a key says what the prompt is. */
static void
choose_shape (PlumbDataKeys *keys, GHashTable *seen)
{
  static const char *const plain[] = { "prompt", "question", "problem", NULL };

  if (keys->prompt != NULL || keys->messages != NULL || guess (plain, seen, NULL) != NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      if (!g_hash_table_contains (seen, shapes[i].first) || !g_hash_table_contains (seen, shapes[i].second))
        continue;
      keys->prompt = g_strdup (shapes[i].first);
      keys->context = g_strdup (shapes[i].second);
      keys->form = shapes[i].form;
      if (keys->answer == NULL)
        keys->answer = g_strdup (shapes[i].answer);
      if (keys->response == NULL && !keys->need_pair)
        keys->response = g_strdup (shapes[i].response);
      return;
    }
}

/* Where a text has a label and nothing else, the text is what was liked. */
static void
choose_liked_text (PlumbDataKeys *keys, GHashTable *seen)
{
  if (!keys->need_label || keys->messages != NULL || keys->response != NULL || keys->prompt != NULL
      || guess (response_names, seen, NULL) != NULL)
    return;
  keys->response = g_strdup (guess (prompt_names, seen, NULL));
}

char *
plumb_data_json_choose (PlumbDataKeys *keys, GHashTable *seen)
{
  gboolean answered = keys->need_response || keys->need_label;
  gboolean prompted;

  choose_messages (keys, seen);
  choose_shape (keys, seen);
  choose_liked_text (keys, seen);
  answered = answered && keys->messages == NULL;
  /* Answers of a pair may hold the prompt. */
  prompted = keys->messages == NULL && !keys->need_pair && !(keys->need_label && keys->prompt == NULL && keys->response != NULL);
  Choice choices[] = {
    { "data.messages_key", "messages", &keys->messages, messages_names, keys->format == PLUMB_DATA_MESSAGES, NULL },
    { "data.prompt_key", "prompt", &keys->prompt, prompt_names, prompted && !keys->scored, &keys->answer },
    { "data.answer_key", "answer", &keys->answer, answer_names, keys->need_answer, &keys->prompt },
    { keys->need_pair ? "data.chosen_key" : "data.response_key", keys->need_pair ? "chosen" : "response",
      &keys->response, keys->need_pair ? chosen_names : response_names, keys->need_pair || answered,
      &keys->prompt },
    { "data.rejected_key", "rejected", &keys->rejected, rejected_names, keys->need_pair, NULL },
    { "data.margin_key", "margin", &keys->margin, margin_names, FALSE, NULL },
    { "data.label_key", "label", &keys->label, label_names, keys->need_label, NULL },
    { NULL, "system", &keys->system, system_names, FALSE, NULL },
    { NULL, "tools", &keys->tools, tools_names, FALSE, NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (choices); i++)
    if (*choices[i].key != NULL && (choices[i].needed || i < 2) && !is_seen (seen, *choices[i].key))
      return missing_key (choices[i].setting, *choices[i].key, choices[i].names, seen);
  for (gsize i = 1; i < G_N_ELEMENTS (choices); i++)
    {
      gboolean free = choices[i].key != &keys->prompt || (keys->messages == NULL && (prompted || keys->need_pair));
      /* A conversation holds its answer. */
      free = free && !(choices[i].key == &keys->response && keys->messages != NULL && !keys->need_pair);
      if (*choices[i].key == NULL && free)
        *choices[i].key = g_strdup (
            guess (choices[i].names, seen, choices[i].other != NULL ? *choices[i].other : NULL));
      if (*choices[i].key == NULL && choices[i].needed)
        return missing_key (choices[i].setting, choices[i].usual, choices[i].names, seen);
    }
  return NULL;
}
