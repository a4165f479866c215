/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/json-scan.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* The parts of a tokenizer.json, in the order in which a text goes through them. */

/* --- added tokens: tokenizer-added.c */

typedef struct
{
  gint32 id;
  char *content;
  gsize length;
  gboolean special, normalized, lstrip, rstrip, single_word;
} PlumbAddedToken;

typedef struct
{
  GArray *tokens;              /* of PlumbAddedToken, longest first */
  gboolean first_byte[2][256]; /* [normalized]: does one start with this byte? */
} PlumbAddedTokens;

gboolean plumb_added_tokens_read (PlumbAddedTokens *added, PlumbJsonScan *scan);
void plumb_added_tokens_prepare (PlumbAddedTokens *added);
void plumb_added_tokens_clear (PlumbAddedTokens *added);
/* The first added token in text[from, length): its place, blanks that it swallows included. */
const PlumbAddedToken *plumb_added_tokens_find (const PlumbAddedTokens *added,
                                                gboolean normalized,
                                                const char *text,
                                                gsize length,
                                                gsize from,
                                                gsize *start,
                                                gsize *end);

/* --- normalizer and pre-tokenizer: tokenizer-pre.c */

typedef enum
{
  PRE_NFC,
  PRE_PREPEND,
  PRE_REPLACE,
  PRE_SPLIT,      /* by a regular expression; matches and what is between them are pieces */
  PRE_DIGITS,     /* every digit alone, or runs of digits */
  PRE_BYTE_LEVEL, /* bytes become visible characters */
} PlumbPreKind;

typedef struct
{
  PlumbPreKind kind;
  char *pattern, *content; /* REPLACE, PREPEND (content) */
  GRegex *regex;           /* SPLIT, BYTE_LEVEL (or NULL) */
  gboolean prefix_space;   /* BYTE_LEVEL */
  gboolean individual;     /* DIGITS */
  gboolean invert;         /* SPLIT: the matches are what stands between pieces */
  gboolean removed;        /* SPLIT: the matches are dropped */
  gboolean first_only;     /* PREPEND: at the start of the whole text only */
  gboolean unless_there;   /* PREPEND: not when the text starts with it */
} PlumbPreStep;

/* Steps of one stage are appended to `steps` (of PlumbPreStep). */
gboolean plumb_normalizer_read (GArray *steps, PlumbJsonScan *scan, GError **error);
gboolean plumb_pre_tokenizer_read (GArray *steps, PlumbJsonScan *scan, GError **error);
void plumb_pre_step_clear (gpointer step);
PlumbPreStep plumb_pre_step_gpt2 (void); /* the byte-level step of GPT-2, for vocab.json */
/* The text after all normalizing steps. `at_start`: it is the start of the whole text. */
GString *plumb_normalize (GArray *steps, const char *text, gsize length, gboolean at_start);
/* Pieces of a normalized text: array of GString. NULL with an error when a regular expression
 * gives up. */
GPtrArray *plumb_pre_tokenize (GArray *steps, const char *text, gsize length, GError **error);

/* The character that stands for a byte in a byte-level vocabulary, and back (-1: none). */
gunichar plumb_byte_to_char (guint8 byte);
int plumb_char_to_byte (gunichar c);

/* --- model: tokenizer-bpe.c */

typedef struct _PlumbBpe PlumbBpe;

PlumbBpe *plumb_bpe_new (void);
void plumb_bpe_free (PlumbBpe *bpe);
gboolean plumb_bpe_read (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error);
gboolean plumb_bpe_read_vocab (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error);
gboolean plumb_bpe_add_merge (PlumbBpe *bpe, const char *left, const char *right, GError **error);
/* Checks and indexes what was read. */
gboolean plumb_bpe_prepare (PlumbBpe *bpe, GError **error);
gboolean
plumb_bpe_encode (PlumbBpe *bpe, const char *piece, gsize length, GArray *ids, GError **error);
gint32 plumb_bpe_find (PlumbBpe *bpe, const char *token);
/* NULL: no such id. */
const char *plumb_bpe_token (PlumbBpe *bpe, gint32 id);
guint plumb_bpe_size (PlumbBpe *bpe); /* highest id plus one */

/* --- decoder: tokenizer-decode.c */

typedef enum
{
  DECODE_REPLACE,
  DECODE_BYTE_FALLBACK,
  DECODE_FUSE,
  DECODE_STRIP,
  DECODE_BYTE_LEVEL,
} PlumbDecodeKind;

typedef struct
{
  PlumbDecodeKind kind;
  char *pattern, *content;
  guint start, stop; /* STRIP */
} PlumbDecodeStep;

gboolean plumb_decoder_read (GArray *steps, PlumbJsonScan *scan, GError **error);
void plumb_decode_step_clear (gpointer step);
/* Takes the spelled tokens (of GString), gives the text. */
GString *plumb_decode (GArray *steps, GPtrArray *tokens);

/* --- the whole */

struct _PlumbTokenizer
{
  gatomicrefcount refs;
  char *dir;
  PlumbAddedTokens added;
  GArray *normalizer, *pre_tokenizer; /* of PlumbPreStep */
  PlumbBpe *bpe;
  GArray *prefix, *suffix; /* gint32: what the template puts around a text */
  GArray *decoder;         /* of PlumbDecodeStep */
  GHashTable *added_by_id; /* id -> index in added.tokens, plus one */
  guint vocab_size;
  gsize longest;
  gint32 bos;
  GArray *eos; /* gint32 */
};

/* tokenizer-load.c */
gboolean plumb_tokenizer_read_special (PlumbTokenizer *tokenizer, GError **error);

/* Sets an error for what a tokenizer.json asks for and we do not have. Returns FALSE. */
gboolean plumb_tokenizer_unsupported (GError **error, const char *what, const char *name);
/* Turns a fault of the scanner into an error. Returns FALSE. */
gboolean plumb_tokenizer_malformed (GError **error, PlumbJsonScan *scan);

G_END_DECLS
