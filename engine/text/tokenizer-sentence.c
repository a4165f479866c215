/* SPDX-License-Identifier: Apache-2.0 */
/* How SentencePiece normalizes a text: from left to right, what the user defined stays as it is, the map of characters
 * rewrites the rest, blanks are squeezed and written as marks. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/tokenizer-private.h"

#define MARK "\xe2\x96\x81"

struct _PlumbSentence
{
  PlumbCharsmap *map; /* NULL: none */
  PlumbTrie *fixed;   /* what the user defined; NULL: nothing */
  gboolean squeeze, escape, prefix;
};

PlumbSentence *
plumb_sentence_new (PlumbCharsmap *map, gboolean squeeze, gboolean escape, gboolean prefix)
{
  PlumbSentence *sentence = g_new0 (PlumbSentence, 1);

  *sentence = (PlumbSentence){ map, NULL, squeeze, escape, prefix };
  return sentence;
}

void
plumb_sentence_free (PlumbSentence *sentence)
{
  g_clear_pointer (&sentence->map, plumb_charsmap_free);
  g_clear_pointer (&sentence->fixed, plumb_trie_free);
  g_free (sentence);
}

void
plumb_sentence_keep (PlumbSentence *sentence, const char *piece, gsize length)
{
  if (sentence->fixed == NULL)
    sentence->fixed = plumb_trie_new ();
  plumb_trie_add (sentence->fixed, piece, length, 0);
}

gboolean
plumb_sentence_rewrites (const PlumbSentence *sentence)
{
  return sentence->map != NULL || sentence->squeeze;
}

/* What the start of a text becomes, and how much of it that is. */
static const char *
next_part (const PlumbSentence *sentence, const char *text, gsize length, gsize *used, gsize *size)
{
  const char *content = NULL;

  if (sentence->fixed != NULL && plumb_trie_longest (sentence->fixed, text, length, used) >= 0)
    {
      *size = *used;
      return text;
    }
  if (sentence->map != NULL)
    content = plumb_charsmap_find (sentence->map, text, length, used);
  if (content != NULL)
    {
      *size = strlen (content);
      return content;
    }
  *used = *size = MIN (plumb_char_size (*text), length);
  return text;
}

static void
append_part (const PlumbSentence *sentence, const char *part, gsize size, GString *result)
{
  for (gsize i = 0; i < size; i++)
    if (sentence->escape && part[i] == ' ')
      g_string_append (result, MARK);
    else
      g_string_append_c (result, part[i]);
}

/* Marks at the end are blanks too, also those that stood in the text. */
static void
trim (const PlumbSentence *sentence, GString *result)
{
  const char *blank = sentence->escape ? MARK : " ";
  gsize size = strlen (blank);

  while (result->len >= size && memcmp (result->str + result->len - size, blank, size) == 0)
    g_string_truncate (result, result->len - size);
}

GString *
plumb_sentence_normalize (const PlumbSentence *sentence, const char *text, gsize length, gboolean at_start)
{
  GString *result = g_string_sized_new (length + length / 4 + 4);
  gboolean after_blank = sentence->squeeze, begun = FALSE;
  gsize used;

  for (gsize at = 0; at < length; at += used)
    {
      gsize size;
      const char *part = next_part (sentence, text + at, length - at, &used, &size);

      if (!begun && sentence->squeeze && size == 1 && *part == ' ')
        continue;
      if (!begun && sentence->prefix && at_start)
        g_string_append (result, sentence->escape ? MARK : " ");
      begun = TRUE;
      for (; after_blank && size > 0 && *part == ' '; size--)
        part++;
      append_part (sentence, part, size, result);
      if (size > 0)
        after_blank = sentence->squeeze && part[size - 1] == ' ';
    }
  if (sentence->squeeze)
    trim (sentence, result);
  return result;
}
