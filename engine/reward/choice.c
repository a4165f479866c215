/* SPDX-License-Identifier: Apache-2.0 */
/* The multiple-choice verifier. A letter counts where it is stated as the answer: in a box, alone,
 * as the label in front, or behind a word such as "answer". Letters of ordinary prose never do. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/reward/answer-text.h"
#include "engine/reward/functions.h"

/* "answer is (B", "choose B", "Antwort: B"; the letter is capital: "the answer is a mess". */
#define CUE_PATTERN                                                                                \
  "(?i:\\b(?:answers?|choices?|options?|choose|select|pick|antwort|antworten|r[e\xc3\xa9]ponse|"   \
  "respuesta)\\b(?:\\s+(?:is|are|was|be|to|the|would|should|must|option|choice|letter|ist|lautet|" \
  "est|es|correct|final))*\\s*[:=]?\\s*[(\\[{*\"'$]*)(?-i:([A-Z]))(?![\\p{L}\\p{N}'])"

typedef struct
{
  GRegex *cue;
} Choice;

static gboolean
open_choice (PlumbSpec *spec, gpointer *state, GError **error)
{
  Choice *choice = g_new0 (Choice, 1);

  *state = choice;
  choice->cue = g_regex_new (CUE_PATTERN, G_REGEX_OPTIMIZE, 0, error);
  return choice->cue != NULL;
}

static void
close_choice (gpointer state)
{
  Choice *choice = state;

  g_clear_pointer (&choice->cue, g_regex_unref);
  g_free (choice);
}

static const char *
skip_marks (const char *c)
{
  while (*c != '\0'
         && (g_ascii_isspace (*c) || *c == PLUMB_ANSWER_TEXT_MARK || strchr ("()[]{}*\"'$", *c)))
    c++;
  return c;
}

/* Does "or B", "/ B", "and B", ", B" follow: undecided? */
static gboolean
is_undecided (const char *after)
{
  static const char *const joints[] = { "or ", "and ", "/", ",", "&", "oder ", "und " };

  after = skip_marks (after);
  for (gsize i = 0; i < G_N_ELEMENTS (joints); i++)
    if (g_str_has_prefix (after, joints[i]))
      {
        const char *next = skip_marks (after + strlen (joints[i]));

        return g_ascii_isupper (*next) && !g_ascii_isalnum (next[1]) && next[1] != '\'';
      }
  return FALSE;
}

/* The letter of a text that is nothing else, or begins with it as a label: "(B)", "B.", "b",
 * "E: a warm front". 0 for none. */
static char
label (const char *text)
{
  const char *c = skip_marks (text), *after;
  char letter = g_ascii_toupper (*c);

  if (!g_ascii_isalpha (*c))
    return 0;
  after = c + 1;
  if (*skip_marks (after) == '\0' || g_str_equal (skip_marks (after), "."))
    return letter;
  if (!g_ascii_isupper (*c) || is_undecided (after))
    return 0;
  while (*after == '*' || *after == PLUMB_ANSWER_TEXT_MARK)
    after++;
  /* A label is closed: "B)", "B.", "B:". */
  return strchr (").:]", *after) != NULL ? letter : 0;
}

/* The letter behind the last cue; -1 when the answer is left open. */
static int
letter_behind_cue (const Choice *choice, const char *response)
{
  g_autoptr (GMatchInfo) match = NULL;
  int letter = 0, start, end;

  g_regex_match (choice->cue, response, 0, &match);
  while (g_match_info_matches (match))
    {
      g_match_info_fetch_pos (match, 1, &start, &end);
      /* "the answer is I think B" is no I. */
      if (!(response[start] == 'I' && response[end] == ' ' && g_ascii_islower (response[end + 1])))
        letter = is_undecided (response + end) ? -1 : response[start];
      if (!g_match_info_next (match, NULL))
        break;
    }
  return letter;
}

static int
chosen (const Choice *choice, const char *response)
{
  const char *start;
  gsize length;
  int letter;

  switch (plumb_answer_find_box (response, &start, &length))
    {
    case PLUMB_BOX_FOUND:
      {
        g_autofree char *box = plumb_answer_clean (start, length);

        return label (box);
      }
    case PLUMB_BOX_CUT_OFF:
      return 0;
    case PLUMB_BOX_NONE:
      break;
    }
  letter = letter_behind_cue (choice, response);
  if (letter == 0)
    letter = label (response);
  return letter;
}

static void
score_choice (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  char right = label (input->answer);

  if (right == 0)
    {
      score->failed = TRUE;
      score->reason = g_strdup_printf ("the answer of the row is no letter: %.40s", input->answer);
      return;
    }
  score->value = chosen (state, input->response) == right;
}

static const char *const no_options[] = { NULL };

const PlumbRewardFunction plumb_reward_choice = {
  .name = "choice",
  .options = no_options,
  .needs_answer = TRUE,
  .open = open_choice,
  .score = score_choice,
  .close = close_choice,
};
