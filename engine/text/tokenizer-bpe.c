/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding: the merges, and the merging of a piece. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define SHORT_PIECE 32 /* up to here a plain search for the best merge is faster than a heap */
#define MARK "\xe2\x96\x81"

typedef struct
{
  gint32 left, right; /* -1 in `left`: an empty slot */
  gint32 rank, result;
} Merge;

struct _PlumbBpe
{
  PlumbVocab *vocab;   /* the tokenizer's */
  PlumbVocab *bytes;   /* id -> the bytes it stands for; NULL: pieces are characters */
  PlumbVocab *pieces;  /* one of both: what pieces are looked up in */
  PlumbVocab *hidden;  /* characters that only occur within tokens, with ids behind the vocabulary's */
  GArray *pending;     /* of Merge, in order of rank */
  Merge *merges;       /* open hash table by (left, right) */
  gsize mask;
  gint32 fallback[256]; /* <0xNN>, -1: none */
  gint32 symbol[256];   /* of a byte, or of an ASCII character; -1: none */
  guint8 *whole;        /* of each id: is its spelling merged to it? (see Whole) */
  GHashTable *unused;   /* ids that are taken apart again; or NULL */
  gint32 unknown;       /* -1: none */
  char *unknown_token;
  gboolean byte_fallback, fuse_unknown, ignore_merges;
};

/* Learnt when a piece first spells a token: most words are tokens, and need no merging then. */
typedef enum
{
  WHOLE_NOT_TRIED,
  WHOLE_YES,
  WHOLE_NO,
} Whole;

PlumbBpe *
plumb_bpe_new (PlumbVocab *vocab)
{
  PlumbBpe *bpe = g_new0 (PlumbBpe, 1);

  bpe->vocab = bpe->pieces = vocab;
  bpe->pending = g_array_new (FALSE, FALSE, sizeof (Merge));
  bpe->unknown = -1;
  return bpe;
}

void
plumb_bpe_free (PlumbBpe *bpe)
{
  g_clear_pointer (&bpe->bytes, plumb_vocab_free);
  g_clear_pointer (&bpe->hidden, plumb_vocab_free);
  g_clear_pointer (&bpe->unused, g_hash_table_unref);
  g_array_unref (bpe->pending);
  g_free (bpe->merges);
  g_free (bpe->whole);
  g_free (bpe->unknown_token);
  g_free (bpe);
}

gboolean
plumb_bpe_add_merge (PlumbBpe *bpe,
                     const char *left,
                     gsize left_length,
                     const char *right,
                     gsize right_length,
                     GError **error)
{
  g_autoptr (GString) whole = g_string_new_len (left, left_length);
  Merge merge = { .rank = bpe->pending->len };

  g_string_append_len (whole, right, right_length);
  merge.left = plumb_vocab_find (bpe->vocab, left, left_length);
  merge.right = plumb_vocab_find (bpe->vocab, right, right_length);
  merge.result = plumb_vocab_find (bpe->vocab, whole->str, whole->len);
  if (merge.left < 0 || merge.right < 0 || merge.result < 0)
    return plumb_tokenizer_invalid (error, "a merge needs a token that the vocabulary lacks",
                                    whole->str);
  g_array_append_val (bpe->pending, merge);
  return TRUE;
}

/* "a b" or ["a", "b"] */
static gboolean
read_merge (PlumbBpe *bpe, PlumbJsonScan *scan, GString *left, GString *right, GError **error)
{
  char *blank;

  if (plumb_json_peek (scan) == PLUMB_JSON_ARRAY)
    {
      if (!plumb_json_enter_array (scan) || !plumb_json_next_element (scan)
          || !plumb_json_get_string (scan, left) || !plumb_json_next_element (scan)
          || !plumb_json_get_string (scan, right))
        {
          if (scan->message == NULL)
            return plumb_tokenizer_invalid (error, "a merge is no pair", left->str);
          return plumb_tokenizer_malformed (error, scan);
        }
      if (plumb_json_next_element (scan))
        return plumb_tokenizer_invalid (error, "a merge has more than two parts", left->str);
      return plumb_bpe_add_merge (bpe, left->str, left->len, right->str, right->len, error);
    }
  if (!plumb_json_get_string (scan, left))
    return plumb_tokenizer_malformed (error, scan);
  blank = memchr (left->str, ' ', left->len);
  if (blank == NULL)
    return plumb_tokenizer_invalid (error, "a merge is no pair", left->str);
  return plumb_bpe_add_merge (bpe, left->str, blank - left->str, blank + 1,
                              left->str + left->len - blank - 1, error);
}

gboolean
plumb_bpe_read_merges (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) left = g_string_new (NULL);
  g_autoptr (GString) right = g_string_new (NULL);

  if (!plumb_json_enter_array (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_element (scan))
    if (!read_merge (bpe, scan, left, right, error))
      return FALSE;
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

/* Options that would change the result and that no model in use has. */
static gboolean
refuse_option (PlumbJsonScan *scan, const char *key, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  PlumbJsonType type = plumb_json_peek (scan);

  if (type == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (type == PLUMB_JSON_STRING && plumb_json_get_string (scan, text) && text->len == 0)
    return TRUE;
  return plumb_tokenizer_unsupported (error, "BPE option", key);
}

gboolean
plumb_bpe_read_option (PlumbBpe *bpe, PlumbJsonScan *scan, const char *key, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);

  if (g_str_equal (key, "unk_token") && plumb_json_peek (scan) == PLUMB_JSON_STRING)
    {
      plumb_json_get_string (scan, text);
      g_free (bpe->unknown_token);
      bpe->unknown_token = g_strdup (text->str);
    }
  else if (g_str_equal (key, "byte_fallback"))
    plumb_json_get_boolean (scan, &bpe->byte_fallback);
  else if (g_str_equal (key, "fuse_unk"))
    plumb_json_get_boolean (scan, &bpe->fuse_unknown);
  else if (g_str_equal (key, "ignore_merges"))
    plumb_json_get_boolean (scan, &bpe->ignore_merges);
  else if (g_str_equal (key, "continuing_subword_prefix") || g_str_equal (key, "end_of_word_suffix")
           || g_str_equal (key, "dropout"))
    return refuse_option (scan, key, error);
  else
    plumb_json_skip (scan);
  return scan->message == NULL || plumb_tokenizer_malformed (error, scan);
}

void
plumb_bpe_set_fallback (PlumbBpe *bpe, gint32 unknown, gboolean byte_fallback, gboolean fuse)
{
  bpe->unknown = unknown;
  bpe->byte_fallback = byte_fallback;
  bpe->fuse_unknown = fuse;
}

void
plumb_bpe_set_unused (PlumbBpe *bpe, gint32 id)
{
  if (bpe->unused == NULL)
    bpe->unused = g_hash_table_new (NULL, NULL);
  g_hash_table_add (bpe->unused, GINT_TO_POINTER (id));
}

/* A token that is spelled with other than visible bytes never stands in a text of bytes. */
static void
add_visible (PlumbBpe *bpe, gint32 id, GString *bytes)
{
  gsize length;
  const char *token = plumb_vocab_token (bpe->vocab, id, &length);

  g_string_truncate (bytes, 0);
  if (token != NULL && length > 0 && plumb_append_visible (bytes, token, length))
    plumb_vocab_add (bpe->bytes, bytes->str, bytes->len, id, NULL);
}

void
plumb_bpe_set_bytes (PlumbBpe *bpe, gboolean spelled)
{
  g_autoptr (GString) bytes = g_string_new (NULL);

  bpe->bytes = plumb_vocab_new ();
  bpe->pieces = bpe->bytes;
  /* tiktoken looks a word up before it merges. */
  bpe->ignore_merges = bpe->ignore_merges || !spelled;
  for (guint id = 0; id < plumb_vocab_size (bpe->vocab); id++)
    {
      gsize length;
      const char *token = plumb_vocab_token (bpe->vocab, id, &length);

      if (spelled)
        add_visible (bpe, id, bytes);
      else if (token != NULL)
        plumb_vocab_add (bpe->bytes, token, length, id, NULL);
    }
}

/* --- merges that follow from ranks */

/* The id of a part of a token: one that is merged to, or a single character, known or not. */
static gint32
part_id (PlumbBpe *bpe, const gint32 *ranks, const char *part, gsize length)
{
  gint32 id = plumb_vocab_find (bpe->pieces, part, length);
  gsize first = bpe->bytes != NULL ? 1 : plumb_char_size (*part);

  if (id >= 0 && (ranks[id] >= 0 || length == first))
    return id;
  if (length != first)
    return -1;
  id = plumb_vocab_find (bpe->hidden, part, length);
  if (id < 0)
    {
      id = MAX (plumb_vocab_size (bpe->hidden), plumb_vocab_size (bpe->vocab));
      if (!plumb_vocab_add (bpe->hidden, part, length, id, NULL))
        return -1;
    }
  return id;
}

void
plumb_bpe_use_ranks (PlumbBpe *bpe, const gint32 *ranks)
{
  bpe->hidden = plumb_vocab_new ();
  for (guint id = 0; id < plumb_vocab_size (bpe->vocab); id++)
    {
      gsize length, step;
      const char *token = plumb_vocab_token (bpe->pieces, id, &length);

      if (token == NULL || ranks[id] < 0)
        continue;
      for (gsize cut = 0; cut < length; cut += step)
        {
          Merge merge = { .rank = ranks[id], .result = id };

          step = bpe->bytes != NULL ? 1 : plumb_char_size (token[cut]);
          if (cut == 0)
            continue;
          merge.left = part_id (bpe, ranks, token, cut);
          merge.right = part_id (bpe, ranks, token + cut, length - cut);
          if (merge.left >= 0 && merge.right >= 0)
            g_array_append_val (bpe->pending, merge);
        }
    }
}

static gsize
slot_of (gint32 left, gint32 right)
{
  guint64 key = (guint64)(guint32)left << 32 | (guint32)right;

  key *= G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return key ^ key >> 29;
}

static const Merge *
find_merge (const PlumbBpe *bpe, gint32 left, gint32 right)
{
  for (gsize slot = slot_of (left, right);; slot++)
    {
      const Merge *merge = &bpe->merges[slot & bpe->mask];

      if (merge->left < 0)
        return NULL;
      if (merge->left == left && merge->right == right)
        return merge;
    }
}

static void
index_merges (PlumbBpe *bpe)
{
  gsize size = 16;

  while (size < (gsize)bpe->pending->len * 2)
    size *= 2;
  bpe->mask = size - 1;
  bpe->merges = g_new (Merge, size);
  for (gsize i = 0; i < size; i++)
    bpe->merges[i].left = -1;
  for (guint i = 0; i < bpe->pending->len; i++)
    {
      const Merge *merge = &g_array_index (bpe->pending, Merge, i);
      gsize slot = slot_of (merge->left, merge->right);

      if (find_merge (bpe, merge->left, merge->right) != NULL)
        continue; /* named twice: the first rank counts */
      while (bpe->merges[slot & bpe->mask].left >= 0)
        slot++;
      bpe->merges[slot & bpe->mask] = *merge;
    }
  g_array_set_size (bpe->pending, 0);
}

gboolean
plumb_bpe_prepare (PlumbBpe *bpe, GError **error)
{
  guint size = plumb_vocab_size (bpe->vocab);

  if (plumb_vocab_count (bpe->vocab) == 0)
    return plumb_tokenizer_invalid (error, "the vocabulary is empty", "model.vocab");
  index_merges (bpe);
  for (guint i = 0; i < 256; i++)
    {
      char name[8], byte = i;

      bpe->fallback[i] = plumb_vocab_find (
          bpe->vocab, name, g_snprintf (name, sizeof name, "<0x%02X>", i));
      bpe->symbol[i] = bpe->bytes != NULL || i < 0x80
                           ? plumb_vocab_find (bpe->pieces, &byte, 1)
                           : -1;
      if (bpe->symbol[i] < 0 && bpe->hidden != NULL)
        bpe->symbol[i] = plumb_vocab_find (bpe->hidden, &byte, 1);
    }
  if (bpe->unknown_token != NULL)
    bpe->unknown
        = plumb_vocab_find (bpe->vocab, bpe->unknown_token, strlen (bpe->unknown_token));
  bpe->whole = g_malloc0 (MAX (size, 1));
  return TRUE;
}

gboolean
plumb_bpe_marks_start_words (PlumbBpe *bpe)
{
  gsize length;

  if (plumb_vocab_find (bpe->vocab, MARK, strlen (MARK)) < 0)
    return FALSE;
  for (guint id = 0; id < plumb_vocab_size (bpe->vocab); id++)
    {
      const char *token = plumb_vocab_token (bpe->vocab, id, &length);
      gboolean other = FALSE;

      for (gsize at = 0; token != NULL && at < length; at += plumb_char_size (token[at]))
        if (length - at < strlen (MARK) || memcmp (token + at, MARK, strlen (MARK)) != 0)
          other = TRUE;
        else if (other)
          return FALSE;
    }
  return TRUE;
}

static gboolean
append_unknown (PlumbBpe *bpe, const char *c, gsize size, GArray *symbols, GError **error)
{
  gboolean all = bpe->byte_fallback;

  for (gsize i = 0; i < size; i++)
    all = all && bpe->fallback[(guchar)c[i]] >= 0;
  if (all)
    {
      for (gsize i = 0; i < size; i++)
        g_array_append_val (symbols, bpe->fallback[(guchar)c[i]]);
      return TRUE;
    }
  if (bpe->unknown < 0)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "the vocabulary has no token for the %s \"%.*s\" and none for unknown"
                   " ones",
                   bpe->bytes != NULL ? "byte" : "character", (int)size,
                   bpe->bytes != NULL && (guchar)*c >= 0x80 ? "?" : c);
      return FALSE;
    }
  if (!bpe->fuse_unknown || symbols->len == 0
      || g_array_index (symbols, gint32, symbols->len - 1) != bpe->unknown)
    g_array_append_val (symbols, bpe->unknown);
  return TRUE;
}

/* One symbol per character, or per byte. */
static gboolean
to_symbols (PlumbBpe *bpe, const char *piece, gsize length, GArray *symbols, GError **error)
{
  gsize size = 1;

  for (gsize at = 0; at < length; at += size)
    {
      const char *c = piece + at;
      gint32 id = bpe->symbol[(guchar)*c];

      if (bpe->bytes == NULL && (guchar)*c >= 0x80)
        {
          size = plumb_char_size (*c);
          id = plumb_vocab_find (bpe->vocab, c, size);
          if (id < 0 && bpe->hidden != NULL)
            id = plumb_vocab_find (bpe->hidden, c, size);
        }
      else
        size = 1;
      if (id >= 0)
        g_array_append_val (symbols, id);
      else if (!append_unknown (bpe, c, size, symbols, error))
        return FALSE;
    }
  return TRUE;
}

/* Ranks of neighbours are kept beside the symbols, so that a merge looks up two pairs only. */
static void
merge_short (const PlumbBpe *bpe, GArray *array, GArray *trace)
{
  gint32 *symbols = (gpointer)array->data;
  const Merge *pairs[SHORT_PIECE];
  guint n = array->len;

  for (guint i = 0; i + 1 < n; i++)
    pairs[i] = find_merge (bpe, symbols[i], symbols[i + 1]);
  while (n > 1)
    {
      const Merge *best = NULL;
      guint place = 0;

      for (guint i = 0; i + 1 < n; i++)
        if (pairs[i] != NULL && (best == NULL || pairs[i]->rank < best->rank))
          {
            best = pairs[i];
            place = i;
          }
      if (best == NULL)
        break;
      if (trace != NULL)
        g_array_append_vals (trace, best, 1);
      symbols[place] = best->result;
      memmove (symbols + place + 1, symbols + place + 2, (n - place - 2) * sizeof *symbols);
      memmove (pairs + place, pairs + place + 1, (n - place - 2) * sizeof *pairs);
      n--;
      if (place + 1 < n)
        pairs[place] = find_merge (bpe, symbols[place], symbols[place + 1]);
      if (place > 0)
        pairs[place - 1] = find_merge (bpe, symbols[place - 1], symbols[place]);
    }
  g_array_set_size (array, n);
}

typedef struct
{
  gint32 rank, place;
  gint32 left, right; /* the symbols when it was queued: stale if they have changed */
} Candidate;

static gboolean
comes_before (const Candidate *a, const Candidate *b)
{
  return a->rank < b->rank || (a->rank == b->rank && a->place < b->place);
}

static void
heap_push (GArray *heap, Candidate candidate)
{
  guint child = heap->len;
  Candidate *items;

  g_array_append_val (heap, candidate);
  items = (gpointer)heap->data;
  while (child > 0 && comes_before (&candidate, &items[(child - 1) / 2]))
    {
      items[child] = items[(child - 1) / 2];
      child = (child - 1) / 2;
    }
  items[child] = candidate;
}

static Candidate
heap_pop (GArray *heap)
{
  Candidate *items = (gpointer)heap->data;
  Candidate top = items[0], last = items[heap->len - 1];
  guint parent = 0, n = heap->len - 1;

  for (guint child = 1; child < n; child = 2 * parent + 1)
    {
      if (child + 1 < n && comes_before (&items[child + 1], &items[child]))
        child++;
      if (!comes_before (&items[child], &last))
        break;
      items[parent] = items[child];
      parent = child;
    }
  items[parent] = last;
  g_array_set_size (heap, n);
  return top;
}

static void
queue_pair (const PlumbBpe *bpe, GArray *heap, const gint32 *symbols, gint32 place, gint32 after)
{
  const Merge *merge;

  if (place < 0 || after < 0)
    return;
  merge = find_merge (bpe, symbols[place], symbols[after]);
  if (merge != NULL)
    heap_push (heap, (Candidate){ merge->rank, place, symbols[place], symbols[after] });
}

/* The same for long pieces: a linked list of symbols and a heap of candidates. */
static void
merge_long (const PlumbBpe *bpe, GArray *array, GArray *trace)
{
  gint32 *symbols = (gpointer)array->data;
  gint32 n = array->len, kept = 0;
  g_autofree gint32 *before = g_new (gint32, n);
  g_autofree gint32 *after = g_new (gint32, n);
  g_autoptr (GArray) heap = g_array_new (FALSE, FALSE, sizeof (Candidate));

  for (gint32 i = 0; i < n; i++)
    {
      before[i] = i - 1;
      after[i] = i + 1 < n ? i + 1 : -1;
      queue_pair (bpe, heap, symbols, i, after[i]);
    }
  while (heap->len > 0)
    {
      Candidate candidate = heap_pop (heap);
      gint32 place = candidate.place, next = after[place];
      const Merge *merge;

      if (next < 0 || symbols[place] != candidate.left || symbols[next] != candidate.right)
        continue;
      merge = find_merge (bpe, candidate.left, candidate.right);
      if (trace != NULL)
        g_array_append_vals (trace, merge, 1);
      symbols[place] = merge->result;
      symbols[next] = -1;
      after[place] = after[next];
      if (after[place] >= 0)
        before[after[place]] = place;
      after[next] = -1;
      queue_pair (bpe, heap, symbols, before[place], place);
      queue_pair (bpe, heap, symbols, place, after[place]);
    }
  for (gint32 i = 0; i < n; i++)
    if (symbols[i] >= 0)
      symbols[kept++] = symbols[i];
  g_array_set_size (array, kept);
}

/* --- what the symbols stand for */

/* The merge that made a symbol last is undone, and so on below. `budget` bounds the work. */
static void
take_apart (
    const PlumbBpe *bpe, const GArray *trace, gint32 symbol, GArray *symbols, guint *budget)
{
  if (g_hash_table_contains (bpe->unused, GINT_TO_POINTER (symbol)))
    for (guint i = trace->len; i > 0 && *budget > 0; i--)
      {
        const Merge *merge = &g_array_index (trace, Merge, i - 1);

        if (merge->result != symbol)
          continue;
        --*budget;
        take_apart (bpe, trace, merge->left, symbols, budget);
        take_apart (bpe, trace, merge->right, symbols, budget);
        return;
      }
  g_array_append_val (symbols, symbol);
}

static gboolean
append_symbol (PlumbBpe *bpe, gint32 symbol, GArray *ids, GError **error)
{
  gsize length;
  const char *hidden;

  if (symbol < plumb_vocab_size (bpe->vocab))
    {
      g_array_append_val (ids, symbol);
      return TRUE;
    }
  hidden = plumb_vocab_token (bpe->hidden, symbol, &length);
  return append_unknown (bpe, hidden, length, ids, error);
}

static gboolean
encode_parts (PlumbBpe *bpe, const char *piece, gsize length, GArray *ids, GError **error)
{
  g_autoptr (GArray) symbols
      = g_array_sized_new (FALSE, FALSE, sizeof (gint32), MIN (length, 1 << 20));
  g_autoptr (GArray) trace
      = bpe->unused != NULL ? g_array_new (FALSE, FALSE, sizeof (Merge)) : NULL;
  guint n;

  if (!to_symbols (bpe, piece, length, symbols, error))
    return FALSE;
  if (symbols->len <= SHORT_PIECE)
    merge_short (bpe, symbols, trace);
  else
    merge_long (bpe, symbols, trace);
  n = symbols->len;
  if (trace != NULL)
    {
      guint budget = length;

      for (guint i = 0; i < n; i++)
        take_apart (bpe, trace, g_array_index (symbols, gint32, i), symbols, &budget);
      g_array_remove_range (symbols, 0, n);
    }
  if (bpe->hidden == NULL)
    g_array_append_vals (ids, symbols->data, symbols->len);
  else
    for (guint i = 0; i < symbols->len; i++)
      if (!append_symbol (bpe, g_array_index (symbols, gint32, i), ids, error))
        return FALSE;
  return TRUE;
}

gboolean
plumb_bpe_encode (PlumbBpe *bpe, const char *piece, gsize length, GArray *ids, GError **error)
{
  gint32 id = plumb_vocab_find (bpe->pieces, piece, length);
  guint before = ids->len;
  Whole whole;

  if (id < 0)
    return encode_parts (bpe, piece, length, ids, error);
  whole = bpe->ignore_merges ? WHOLE_YES : __atomic_load_n (&bpe->whole[id], __ATOMIC_RELAXED);
  if (whole == WHOLE_YES)
    {
      g_array_append_val (ids, id);
      return TRUE;
    }
  if (!encode_parts (bpe, piece, length, ids, error))
    return FALSE;
  if (whole == WHOLE_NOT_TRIED)
    {
      whole = ids->len == before + 1 && g_array_index (ids, gint32, before) == id ? WHOLE_YES
                                                                                  : WHOLE_NO;
      __atomic_store_n (&bpe->whole[id], whole, __ATOMIC_RELAXED);
    }
  return TRUE;
}
