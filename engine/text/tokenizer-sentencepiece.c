/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's .model: a protobuf message with the pieces, their scores and kinds, and how a text is
 * normalized. Of protobuf only its wire format is needed: fields of (number, wire type, content). */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define MARK "\xe2\x96\x81"

/* --- wire format */

typedef struct
{
  const guint8 *next, *end;
  gboolean bad;
} Wire;

typedef struct
{
  guint number;
  guint64 value;       /* of a varint, or the bits of a fixed one */
  const guint8 *bytes; /* of a field with a length, else NULL */
  gsize length;
} Field;

static guint64
read_varint (Wire *wire)
{
  guint64 value = 0;

  for (guint shift = 0; shift < 64 && wire->next < wire->end; shift += 7)
    {
      guint8 byte = *wire->next++;

      value |= (guint64)(byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
  wire->bad = TRUE;
  return 0;
}

static gboolean
take_fixed (Wire *wire, Field *field, gsize size)
{
  if ((gsize)(wire->end - wire->next) < size)
    return FALSE;
  for (gsize i = 0; i < size; i++)
    field->value |= (guint64)wire->next[i] << (8 * i);
  wire->next += size;
  return TRUE;
}

/* FALSE at the end, and where the bytes are no field: then `bad` is set. */
static gboolean
next_field (Wire *wire, Field *field)
{
  guint64 tag;

  *field = (Field){ 0 };
  if (wire->next == wire->end || wire->bad)
    return FALSE;
  tag = read_varint (wire);
  field->number = tag >> 3;
  switch (tag & 7)
    {
    case 0:
      field->value = read_varint (wire);
      break;
    case 1:
      wire->bad = wire->bad || !take_fixed (wire, field, 8);
      break;
    case 2:
      field->length = read_varint (wire);
      wire->bad = wire->bad || field->length > (gsize)(wire->end - wire->next);
      if (wire->bad)
        break;
      field->bytes = wire->next;
      wire->next += field->length;
      break;
    case 5:
      wire->bad = wire->bad || !take_fixed (wire, field, 4);
      break;
    default:
      wire->bad = TRUE;
    }
  return !wire->bad;
}

/* --- the message */

typedef enum
{
  PIECE_NORMAL = 1,
  PIECE_UNKNOWN,
  PIECE_CONTROL,
  PIECE_USER_DEFINED,
  PIECE_UNUSED,
  PIECE_BYTE,
} PieceKind;

enum
{
  MODEL_UNIGRAM = 1,
  MODEL_BPE = 2,
};

typedef struct
{
  PlumbVocab *vocab;
  GArray *scores; /* float */
  GArray *kinds;  /* guint8 */
  gint32 unknown;
  guint model;
  gboolean byte_fallback, suffix;
  gboolean dummy_prefix, squeeze, escape;
  char *bos, *eos;
  const guint8 *charsmap;
  gsize charsmap_length;
} Model;

static void
model_clear (Model *model)
{
  g_clear_pointer (&model->scores, g_array_unref);
  g_clear_pointer (&model->kinds, g_array_unref);
  g_free (model->bos);
  g_free (model->eos);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Model, model_clear)

static gboolean
read_piece (Model *model, const Field *piece, GError **error)
{
  Wire wire = { piece->bytes, piece->bytes + piece->length };
  const char *text = "";
  gsize length = 0;
  guint8 kind = PIECE_NORMAL;
  float score = 0;
  Field field;

  while (next_field (&wire, &field))
    if (field.number == 1 && field.bytes != NULL)
      {
        text = (const char *)field.bytes;
        length = field.length;
      }
    else if (field.number == 2 && field.bytes == NULL)
      {
        guint32 bits = field.value;

        memcpy (&score, &bits, sizeof score);
      }
    else if (field.number == 3)
      kind = MIN (field.value, 255);
  if (wire.bad || !isfinite (score) || kind < PIECE_NORMAL || kind > PIECE_BYTE || length == 0
      || !g_utf8_validate_len (text, length, NULL))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "piece %u is damaged, or of a kind that this version does not know",
                   model->scores->len);
      return FALSE;
    }
  if (!plumb_vocab_add (model->vocab, text, length, model->scores->len, error))
    return FALSE;
  if (kind == PIECE_UNKNOWN)
    model->unknown = model->scores->len;
  g_array_append_val (model->scores, score);
  g_array_append_val (model->kinds, kind);
  return TRUE;
}

static gboolean
read_trainer (Model *model, const Field *spec)
{
  Wire wire = { spec->bytes, spec->bytes + spec->length };
  Field field;

  while (next_field (&wire, &field))
    if (field.number == 3)
      model->model = MIN (field.value, 255);
    else if (field.number == 24)
      model->suffix = field.value != 0;
    else if (field.number == 35)
      model->byte_fallback = field.value != 0;
    else if ((field.number == 46 || field.number == 47) && field.bytes != NULL)
      {
        char **name = field.number == 46 ? &model->bos : &model->eos;

        g_free (*name);
        *name = g_strndup ((const char *)field.bytes, field.length);
      }
  return !wire.bad;
}

static gboolean
read_normalizer (Model *model, const Field *spec)
{
  Wire wire = { spec->bytes, spec->bytes + spec->length };
  Field field;

  while (next_field (&wire, &field))
    if (field.number == 2 && field.bytes != NULL)
      {
        model->charsmap = field.bytes;
        model->charsmap_length = field.length;
      }
    else if (field.number == 3)
      model->dummy_prefix = field.value != 0;
    else if (field.number == 4)
      model->squeeze = field.value != 0;
    else if (field.number == 5)
      model->escape = field.value != 0;
  return !wire.bad;
}

static gboolean
read_message (Model *model, GBytes *bytes, GError **error)
{
  gsize length;
  const guint8 *data = g_bytes_get_data (bytes, &length);
  const guint8 *start = data != NULL ? data : (const guint8 *)""; /* an empty file */
  Wire wire = { start, start + length };
  Field field;

  while (next_field (&wire, &field))
    {
      if (field.bytes == NULL)
        continue;
      if (field.number == 1 && !read_piece (model, &field, error))
        return FALSE;
      if (field.number == 2)
        wire.bad = wire.bad || !read_trainer (model, &field);
      if (field.number == 3)
        wire.bad = wire.bad || !read_normalizer (model, &field);
    }
  if (wire.bad)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "byte %" G_GSIZE_FORMAT ": this is no SentencePiece model, or a part of one",
                   (gsize)(wire.next - start));
      return FALSE;
    }
  return model->scores->len > 0
         || plumb_tokenizer_invalid (error, "the vocabulary is empty", "pieces");
}

/* --- the tokenizer that it describes */

static PieceKind
kind_of (const Model *model, guint id)
{
  return (PieceKind)g_array_index (model->kinds, guint8, id);
}

static int
higher_first (gconstpointer a, gconstpointer b, gpointer data)
{
  const float *scores = data;
  float x = scores[*(const gint32 *)a], y = scores[*(const gint32 *)b];

  return (x < y) - (x > y);
}

/* Pieces of equal score have the same rank: of two places the first is merged. */
static void
use_bpe (PlumbTokenizer *tokenizer, const Model *model)
{
  const float *scores = (gconstpointer)model->scores->data;
  guint n = model->scores->len;
  g_autofree gint32 *order = g_new (gint32, n);
  g_autofree gint32 *ranks = g_new (gint32, n);
  guint used = 0;

  for (guint id = 0; id < n; id++)
    {
      ranks[id] = -1;
      if (kind_of (model, id) == PIECE_NORMAL || kind_of (model, id) == PIECE_UNUSED)
        order[used++] = id;
    }
  g_qsort_with_data (order, used, sizeof *order, higher_first, (gpointer)scores);
  for (guint i = 0; i < used; i++)
    ranks[order[i]]
        = i > 0 && scores[order[i]] == scores[order[i - 1]] ? ranks[order[i - 1]] : (gint32)i;
  tokenizer->bpe = plumb_bpe_new (tokenizer->vocab);
  plumb_bpe_set_fallback (tokenizer->bpe, model->unknown, model->byte_fallback, TRUE);
  plumb_bpe_use_ranks (tokenizer->bpe, ranks);
  for (guint id = 0; id < n; id++)
    if (kind_of (model, id) == PIECE_UNUSED)
      plumb_bpe_set_unused (tokenizer->bpe, id);
}

static void
use_unigram (PlumbTokenizer *tokenizer, const Model *model)
{
  guint n = model->scores->len;
  g_autofree float *scores = g_new (float, n);
  float least = INFINITY, most = FLT_MIN;

  for (guint id = 0; id < n; id++)
    {
      scores[id] = NAN;
      if (kind_of (model, id) != PIECE_NORMAL)
        continue;
      scores[id] = g_array_index (model->scores, float, id);
      least = MIN (least, scores[id]);
      most = MAX (most, scores[id]);
    }
  tokenizer->unigram = plumb_unigram_new (tokenizer->vocab);
  plumb_unigram_set_scores (tokenizer->unigram, scores, isfinite (least) ? least : 0,
                            model->unknown, model->byte_fallback);
  for (guint id = 0; id < n; id++)
    if (kind_of (model, id) == PIECE_USER_DEFINED)
      plumb_unigram_set_defined (tokenizer->unigram, id, most);
}

static gboolean
add_normalizer (PlumbTokenizer *tokenizer, const Model *model, GError **error)
{
  PlumbPreStep step = { .kind = PRE_SENTENCE };
  PlumbCharsmap *map = NULL;
  gsize length;

  if (model->charsmap_length > 0
      && (map = plumb_charsmap_new (model->charsmap, model->charsmap_length, error)) == NULL)
    return FALSE;
  step.sentence = plumb_sentence_new (map, model->squeeze, model->escape, model->dummy_prefix);
  for (guint id = 0; id < model->kinds->len; id++)
    if (kind_of (model, id) == PIECE_USER_DEFINED)
      {
        const char *piece = plumb_vocab_token (tokenizer->vocab, id, &length);

        plumb_sentence_keep (step.sentence, piece, length);
      }
  g_array_append_val (tokenizer->normalizer, step);
  return TRUE;
}

static void
add_decoder (PlumbTokenizer *tokenizer, const Model *model)
{
  PlumbDecodeStep bytes = { .kind = DECODE_BYTE_FALLBACK }, sentence = { .kind = DECODE_SENTENCE };

  sentence.start = model->squeeze ? G_MAXUINT : model->dummy_prefix ? 1 : 0;
  g_array_append_val (tokenizer->decoder, bytes);
  g_array_append_val (tokenizer->decoder, sentence);
  plumb_decoder_add_metaspace (tokenizer->decoder, MARK, FALSE);
}

/* A piece that the user defined is one token wherever it stands: cut out before pairs are merged, in a Unigram model by
 * its score. */
static void
add_tokens (PlumbTokenizer *tokenizer, const Model *model)
{
  for (guint id = 0; id < model->kinds->len; id++)
    {
      PieceKind kind = kind_of (model, id);
      PlumbAddedToken token = { .id = id };

      if (kind != PIECE_CONTROL && kind != PIECE_UNKNOWN
          && (kind != PIECE_USER_DEFINED || tokenizer->unigram != NULL))
        continue;
      token.special = kind != PIECE_USER_DEFINED;
      token.normalized = token.fixed = !token.special;
      token.content = g_strdup (plumb_vocab_token (tokenizer->vocab, id, &token.length));
      token.length = strlen (token.content);
      plumb_added_tokens_take (&tokenizer->added, &token);
    }
}

static void
add_ends (PlumbTokenizer *tokenizer, const Model *model)
{
  const char *bos = model->bos != NULL ? model->bos : "<s>";
  const char *eos = model->eos != NULL ? model->eos : "</s>";
  gint32 end = plumb_vocab_find (tokenizer->vocab, eos, strlen (eos));

  tokenizer->bos = plumb_vocab_find (tokenizer->vocab, bos, strlen (bos));
  if (end >= 0)
    g_array_append_val (tokenizer->eos, end);
  /* Decoders of BPE kind begin a text with BOS; encoders of Unigram kind end it with EOS. */
  if (tokenizer->bpe != NULL && tokenizer->bos >= 0)
    g_array_append_val (tokenizer->prefix, tokenizer->bos);
  else if (tokenizer->bpe == NULL && end >= 0)
    g_array_append_val (tokenizer->suffix, end);
}

gboolean
plumb_tokenizer_read_model (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error)
{
  g_auto (Model) model = { .vocab = tokenizer->vocab,
                           .unknown = -1,
                           .model = MODEL_UNIGRAM,
                           .dummy_prefix = TRUE,
                           .squeeze = TRUE,
                           .escape = TRUE };

  model.scores = g_array_new (FALSE, FALSE, sizeof (float));
  model.kinds = g_array_new (FALSE, FALSE, sizeof (guint8));
  if (!read_message (&model, bytes, error))
    return FALSE;
  if (model.suffix)
    return plumb_tokenizer_unsupported (error, "SentencePiece option",
                                        "treat_whitespace_as_suffix");
  if (model.model == MODEL_BPE)
    use_bpe (tokenizer, &model);
  else if (model.model == MODEL_UNIGRAM)
    use_unigram (tokenizer, &model);
  else
    return plumb_tokenizer_unsupported (error, "SentencePiece model type", "word or char");
  if (!add_normalizer (tokenizer, &model, error))
    return FALSE;
  add_decoder (tokenizer, &model);
  add_tokens (tokenizer, &model);
  add_ends (tokenizer, &model);
  return plumb_tokenizer_read_added (tokenizer, error);
}
