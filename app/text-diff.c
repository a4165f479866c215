/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "app/text-diff.h"

#define MOST_CELLS (4 << 20) /* of the table: 8 MiB */
#define LONGEST 65000        /* words on one side, so that a count of them fits a cell */

typedef struct
{
  const char *text;
  gsize length;
} Word;

static gboolean
is_space (char c)
{
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A word with the space behind it. */
static GArray *
split (const char *text)
{
  GArray *words = g_array_new (FALSE, FALSE, sizeof (Word));

  while (*text != '\0')
    {
      Word word = { text, 0 };

      while (text[word.length] != '\0' && !is_space (text[word.length]))
        word.length++;
      while (is_space (text[word.length]))
        word.length++;
      text += word.length;
      g_array_append_val (words, word);
    }
  return words;
}

static gboolean
same (const Word *a, const Word *b)
{
  return a->length == b->length && memcmp (a->text, b->text, a->length) == 0;
}

/* Words of one kind that follow each other are one piece. */
static void
add (GArray *pieces, PlumbDiffKind kind, const Word *word)
{
  PlumbDiffPiece piece = { kind, word->text, word->length };

  if (pieces->len > 0)
    {
      PlumbDiffPiece *last = &g_array_index (pieces, PlumbDiffPiece, pieces->len - 1);

      if (last->kind == kind && last->text + last->length == word->text)
        {
          last->length += word->length;
          return;
        }
    }
  g_array_append_val (pieces, piece);
}

/* Cell (i, k) of the table: how many words the rests of both texts from i and k on have in common.
 */
static guint16 *
fill_table (const Word *old_words, gsize n, const Word *new_words, gsize m)
{
  guint16 *table = g_new0 (guint16, (n + 1) * (m + 1));

  for (gsize i = n; i-- > 0;)
    for (gsize k = m; k-- > 0;)
      {
        guint16 *cell = table + i * (m + 1) + k;

        if (same (&old_words[i], &new_words[k]))
          *cell = cell[m + 2] + 1;
        else
          *cell = MAX (cell[m + 1], cell[1]);
      }
  return table;
}

static void
add_difference (GArray *pieces, const Word *old_words, gsize n, const Word *new_words, gsize m)
{
  g_autofree guint16 *table = NULL;
  gsize i = 0, k = 0;

  if (n > 0 && m > 0 && n < LONGEST && m < LONGEST && (n + 1) <= MOST_CELLS / (m + 1))
    table = fill_table (old_words, n, new_words, m);
  while (table != NULL && i < n && k < m)
    {
      const guint16 *cell = table + i * (m + 1) + k;

      if (same (&old_words[i], &new_words[k]))
        add (pieces, PLUMB_DIFF_SAME, &new_words[k++]), i++;
      else if (cell[m + 1] >= cell[1])
        add (pieces, PLUMB_DIFF_REMOVED, &old_words[i++]);
      else
        add (pieces, PLUMB_DIFF_ADDED, &new_words[k++]);
    }
  while (i < n)
    add (pieces, PLUMB_DIFF_REMOVED, &old_words[i++]);
  while (k < m)
    add (pieces, PLUMB_DIFF_ADDED, &new_words[k++]);
}

GArray *
plumb_text_diff (const char *old_text, const char *new_text)
{
  g_autoptr (GArray) old_words = NULL, new_words = NULL;
  GArray *pieces = g_array_new (FALSE, FALSE, sizeof (PlumbDiffPiece));
  const Word *old_word, *new_word;
  gsize n, m, head = 0, tail = 0;

  g_return_val_if_fail (old_text != NULL && new_text != NULL, pieces);

  old_words = split (old_text);
  new_words = split (new_text);
  old_word = (const Word *)(gpointer)old_words->data;
  new_word = (const Word *)(gpointer)new_words->data;
  n = old_words->len;
  m = new_words->len;
  /* Most of two long texts is often the same; what is left is what the table is for. */
  while (head < MIN (n, m) && same (&old_word[head], &new_word[head]))
    head++;
  while (tail < MIN (n, m) - head && same (&old_word[n - 1 - tail], &new_word[m - 1 - tail]))
    tail++;
  for (gsize i = 0; i < head; i++)
    add (pieces, PLUMB_DIFF_SAME, &new_word[i]);
  add_difference (pieces, old_word + head, n - head - tail, new_word + head, m - head - tail);
  for (gsize i = m - tail; i < m; i++)
    add (pieces, PLUMB_DIFF_SAME, &new_word[i]);
  return pieces;
}
