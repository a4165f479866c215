/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/json-scan.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* The parts of a tokenizer, in the order in which a text goes through them. */

/* --- characters: tokenizer-class.c */

typedef enum
{
  PLUMB_CLASS_OTHER,
  PLUMB_CLASS_LETTER, /* \p{L} */
  PLUMB_CLASS_NUMBER, /* \p{N} */
  PLUMB_CLASS_SPACE,  /* White_Space */
} PlumbCharClass;

PlumbCharClass plumb_char_class (gunichar c);
/* \w: letters, marks, decimal digits, connectors, joiners. */
gboolean plumb_char_is_word (gunichar c);
/* g_unichar_tolower() leaves Roman numerals and letters in circles as they are. */
gunichar plumb_char_lower (gunichar c);
/* The character at `text`, which is valid UTF-8 and may be a NUL; *size gets its bytes. */
gunichar plumb_char_at (const char *text, gsize *size);
/* Bytes of the character that starts with this one. */
gsize plumb_char_size (char first);
/* The character that stands for a byte in a byte-level vocabulary, and back (-1: none). */
gunichar plumb_byte_to_char (guint8 byte);
int plumb_char_to_byte (gunichar c);
/* Appends the bytes that a byte-level spelling stands for; FALSE, with nothing appended, when one of
 * its characters stands for none. */
gboolean plumb_append_visible (GString *bytes, const char *spelling, gsize length);

/* --- a prefix tree of byte strings: tokenizer-trie.c */

typedef struct _PlumbTrie PlumbTrie;

PlumbTrie *plumb_trie_new (void);
void plumb_trie_free (PlumbTrie *trie);
/* A string that is there already keeps its first value (0 or more). */
void plumb_trie_add (PlumbTrie *trie, const char *bytes, gsize length, gint32 value);
/* The node below `node` (0: the root) along a byte, -1: none. */
gint32 plumb_trie_step (const PlumbTrie *trie, gint32 node, guint8 byte);
gint32 plumb_trie_value (const PlumbTrie *trie, gint32 node); /* -1: no string ends here */
/* The longest string that text[0, length) starts with: its value and length, or -1. */
gint32 plumb_trie_longest (const PlumbTrie *trie, const char *text, gsize length, gsize *size);

/* --- vocabulary: tokenizer-vocab.c */

#define PLUMB_MOST_IDS (1 << 22)

typedef struct _PlumbVocab PlumbVocab;

PlumbVocab *plumb_vocab_new (void);
void plumb_vocab_free (PlumbVocab *vocab);
/* Each spelling and each id once. */
gboolean
plumb_vocab_add (PlumbVocab *vocab, const char *bytes, gsize length, gint64 id, GError **error);
gint32 plumb_vocab_find (const PlumbVocab *vocab, const char *bytes, gsize length); /* -1: none */
/* NULL: no such id. A NUL follows the bytes. */
const char *plumb_vocab_token (const PlumbVocab *vocab, gint32 id, gsize *length);
guint plumb_vocab_size (const PlumbVocab *vocab); /* highest id plus one */
guint plumb_vocab_count (const PlumbVocab *vocab);
/* {"token": id, ...} */
gboolean plumb_vocab_read (PlumbVocab *vocab, PlumbJsonScan *scan, GError **error);

/* --- added tokens: tokenizer-added.c */

typedef struct
{
  gint32 id;
  char *content;
  gsize length;
  gboolean special, normalized, lstrip, rstrip, single_word;
  gboolean fixed;   /* `content` is how it looks in a normalized text */
  gboolean control; /* says something to the model, rather than being a piece of text */
} PlumbAddedToken;

typedef struct
{
  GArray *tokens;    /* of PlumbAddedToken */
  GHashTable *by_id; /* id -> index in tokens, plus one */
  PlumbTrie *trie[2];         /* [normalized] of indices */
  guint8 first_two[2][8192];  /* [normalized] a bit for each pair of bytes that one starts with */
  gboolean one_byte[2][256];  /* [normalized] one is only this byte */
} PlumbAddedTokens;

typedef struct
{
  gsize from; /* up to here the text is used */
  gsize next; /* from here the search goes on */
  gsize start, end; /* of the token found, with the blanks that it swallows */
} PlumbAddedSearch;

/* One added token as tokenizer.json spells it; `id` -1: the member says it. */
gboolean plumb_added_token_read (PlumbAddedToken *token, PlumbJsonScan *scan);
gboolean plumb_added_tokens_read (PlumbAddedTokens *added, PlumbJsonScan *scan);
/* Takes a token over; one with the same id or content is there already: it is dropped. */
void plumb_added_tokens_take (PlumbAddedTokens *added, PlumbAddedToken *token);
/* `normalizer`: the steps that tokens pass which are looked for in normalized text. */
void plumb_added_tokens_prepare (PlumbAddedTokens *added, GArray *normalizer);
void plumb_added_tokens_clear (PlumbAddedTokens *added);
/* The next added token, leftmost and longest; `plain`: control tokens are text. */
const PlumbAddedToken *plumb_added_tokens_find (const PlumbAddedTokens *added,
                                                gboolean normalized,
                                                gboolean plain,
                                                const char *text,
                                                gsize length,
                                                PlumbAddedSearch *search);

/* --- the map of characters of SentencePiece models: tokenizer-charsmap.c */

typedef struct _PlumbCharsmap PlumbCharsmap;

/* Copies the bytes; NULL with an error when they are no such map. */
PlumbCharsmap *plumb_charsmap_new (const guint8 *bytes, gsize length, GError **error);
void plumb_charsmap_free (PlumbCharsmap *map);
/* Appends text[0, length) with every longest match replaced. */
void plumb_charsmap_apply (const PlumbCharsmap *map, const char *text, gsize length, GString *out);
/* The replacement of the longest match at the start, and its bytes there; NULL: none. */
const char *plumb_charsmap_find (const PlumbCharsmap *map, const char *text, gsize length, gsize *size);

/* --- SentencePiece's normalizer: tokenizer-sentence.c */

typedef struct _PlumbSentence PlumbSentence;

/* Takes the map over, NULL: none. squeeze: runs of blanks become one, none stay around the text; escape: blanks become
 * marks; prefix: a blank is put in front of a whole text. */
PlumbSentence *plumb_sentence_new (PlumbCharsmap *map, gboolean squeeze, gboolean escape, gboolean prefix);
void plumb_sentence_free (PlumbSentence *sentence);
/* This stays as it is wherever it stands. */
void plumb_sentence_keep (PlumbSentence *sentence, const char *piece, gsize length);
gboolean plumb_sentence_rewrites (const PlumbSentence *sentence);
GString *plumb_sentence_normalize (const PlumbSentence *sentence, const char *text, gsize length, gboolean at_start);

/* --- normalizers: tokenizer-normalize.c; pre-tokenizers: tokenizer-pre.c */

typedef enum
{
  PRE_UNICODE, /* one of the four normal forms */
  PRE_LOWERCASE,
  PRE_STRIP_ACCENTS,
  PRE_STRIP,
  PRE_NMT, /* control characters vanish, odd blanks become blanks */
  PRE_CHARSMAP,
  PRE_SENTENCE, /* all that SentencePiece does, in one pass */
  PRE_PREPEND,
  PRE_REPLACE,
  PRE_VISIBLE,    /* bytes become visible characters */
  PRE_SPLIT,      /* by a regular expression */
  PRE_DIGITS,     /* every digit alone, or runs of digits */
  PRE_CLASSES,    /* words, runs of blanks (dropped), and the rest */
  PRE_PUNCTUATION,
  PRE_MARKS,      /* a piece starts at each mark */
  PRE_BYTE_LEVEL, /* words of GPT-2; bytes stand for themselves until the model */
} PlumbPreKind;

typedef enum
{
  SPLIT_ISOLATED,
  SPLIT_REMOVED,
  SPLIT_WITH_PREVIOUS,
  SPLIT_WITH_NEXT,
  SPLIT_CONTIGUOUS,
} PlumbSplitBehavior;

/* Length of the word that text[0, length) starts with; every text is split without gaps. */
typedef gsize (*PlumbScanner) (const char *text, gsize length);

typedef struct
{
  PlumbPreKind kind;
  GNormalizeMode mode;     /* UNICODE */
  char *pattern, *content; /* REPLACE, PREPEND (content), MARKS (content) */
  GRegex *regex;           /* SPLIT, REPLACE (or NULL) */
  PlumbScanner scanner;    /* SPLIT, BYTE_LEVEL: instead of the regular expression */
  PlumbCharsmap *map;      /* CHARSMAP */
  PlumbSentence *sentence; /* SENTENCE */
  PlumbSplitBehavior behavior;
  gboolean invert;         /* SPLIT: the pieces are what stands between matches */
  gboolean prefix_space;   /* BYTE_LEVEL */
  gboolean individual;     /* DIGITS */
  gboolean words;          /* CLASSES: with the rest cut from words */
  gboolean left, right;    /* STRIP */
  gboolean first_only;     /* PREPEND: at the start of the whole text only */
  gboolean unless_there;   /* PREPEND: not when the text starts with it */
} PlumbPreStep;

void plumb_pre_step_clear (gpointer step);

/* What an object of a normalizer or pre-tokenizer says; each kind uses some of it. */
typedef struct
{
  char *type, *pattern, *content, *prepend, *replacement, *behavior, *scheme, *charsmap, *delimiter;
  gboolean is_regex, prefix_space, use_regex, invert, individual, split;
  gboolean left, right;
} PlumbPreOptions;

typedef gboolean (*PlumbReadStage) (GArray *steps, PlumbJsonScan *scan, GError **error);

/* Reads one object; the members of a Sequence go back to `read_stage`. */
gboolean plumb_pre_options_read (PlumbPreOptions *options,
                                 GArray *steps,
                                 PlumbJsonScan *scan,
                                 PlumbReadStage read_stage,
                                 GError **error);
void plumb_pre_options_clear (PlumbPreOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbPreOptions, plumb_pre_options_clear)

/* As the files write them: lines end in \n only, ^ and $ are ends of lines. */
GRegex *plumb_pre_regex (const char *pattern, GError **error);
/* NULL: none is known for this pattern. */
PlumbScanner plumb_scanner_find (const char *pattern);
#define PLUMB_GPT2_PATTERN                                                                         \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PLUMB_CL100K_PATTERN                                                                       \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"                        \
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PLUMB_QWEN2_PATTERN                                                                        \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"                             \
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Steps of one stage are appended to `steps` (of PlumbPreStep). */
gboolean plumb_normalizer_read (GArray *steps, PlumbJsonScan *scan, GError **error);
gboolean plumb_pre_tokenizer_read (GArray *steps, PlumbJsonScan *scan, GError **error);
/* A split without gaps by a pattern. */
gboolean plumb_pre_add_split (GArray *steps, const char *pattern, GError **error);
PlumbPreStep plumb_pre_step_gpt2 (void); /* the byte-level step of GPT-2, for vocab.json */
/* Puts `text` through one step that changes text; `at_start`: it is the start of the whole text. */
GString *plumb_normalize_step (const PlumbPreStep *step, GString *text, gboolean at_start);
/* The text after all normalizing steps, NULL when they leave it as it is. */
GString *plumb_normalize (GArray *steps, const char *text, gsize length, gboolean at_start);

typedef struct
{
  gsize start, length;
} PlumbSpan;

typedef struct
{
  const char *text;
  gsize length;
  GString *buffer; /* owns the text once a step has changed it, else NULL */
  GArray *spans;   /* of PlumbSpan in the text */
} PlumbPieces;

/* Cuts a normalized text, which must stay, into pieces. FALSE when a regular expression gives up. */
gboolean plumb_pre_tokenize (GArray *steps,
                             const char *text,
                             gsize length,
                             gboolean at_start,
                             PlumbPieces *pieces,
                             GError **error);
void plumb_pieces_clear (PlumbPieces *pieces);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbPieces, plumb_pieces_clear)

/* --- models: tokenizer-bpe.c, tokenizer-unigram.c; both look into a vocabulary of the tokenizer's */

typedef struct _PlumbBpe PlumbBpe;

PlumbBpe *plumb_bpe_new (PlumbVocab *vocab);
void plumb_bpe_free (PlumbBpe *bpe);
/* The model object of a tokenizer.json but for its vocabulary, merges and type. */
gboolean
plumb_bpe_read_option (PlumbBpe *bpe, PlumbJsonScan *scan, const char *key, GError **error);
gboolean plumb_bpe_read_merges (PlumbBpe *bpe, PlumbJsonScan *scan, GError **error);
gboolean plumb_bpe_add_merge (PlumbBpe *bpe,
                              const char *left,
                              gsize left_length,
                              const char *right,
                              gsize right_length,
                              GError **error);
/* Models without a list of merges: two neighbours merge when they spell a token, the one of lowest rank
 * first. `ranks` of each id, -1: is not merged to. */
void plumb_bpe_use_ranks (PlumbBpe *bpe, const gint32 *ranks);
void plumb_bpe_set_fallback (PlumbBpe *bpe, gint32 unknown, gboolean byte_fallback, gboolean fuse);
/* Tokens that are taken apart again after merging. */
void plumb_bpe_set_unused (PlumbBpe *bpe, gint32 id);
/* The vocabulary holds bytes: as they are, or spelled in visible characters. Before use_ranks. */
void plumb_bpe_set_bytes (PlumbBpe *bpe, gboolean spelled);
/* Checks and indexes what was read. */
gboolean plumb_bpe_prepare (PlumbBpe *bpe, GError **error);
/* The ids of one piece; a piece of a byte-level vocabulary is bytes. */
gboolean
plumb_bpe_encode (PlumbBpe *bpe, const char *piece, gsize length, GArray *ids, GError **error);
/* TRUE if no token holds a mark (U+2581) behind another character: a text may then be cut in front
 * of marks without a change of the result. */
gboolean plumb_bpe_marks_start_words (PlumbBpe *bpe);

typedef struct _PlumbUnigram PlumbUnigram;

PlumbUnigram *plumb_unigram_new (PlumbVocab *vocab);
void plumb_unigram_free (PlumbUnigram *unigram);
gboolean
plumb_unigram_read_option (PlumbUnigram *unigram, PlumbJsonScan *scan, const char *key, GError **error);
gboolean plumb_unigram_read_vocab (PlumbUnigram *unigram, PlumbJsonScan *scan, GError **error);
/* `scores` of each id, NAN: not found in text. `least`: the smallest score of a usual token. */
void plumb_unigram_set_scores (
    PlumbUnigram *unigram, const float *scores, float least, gint32 unknown, gboolean byte_fallback);
/* A piece that the user defined: it scores `each` for a byte, less 0.1. */
void plumb_unigram_set_defined (PlumbUnigram *unigram, gint32 id, float each);
gboolean plumb_unigram_prepare (PlumbUnigram *unigram, GError **error);
gboolean plumb_unigram_encode (
    PlumbUnigram *unigram, const char *piece, gsize length, GArray *ids, GError **error);

/* --- what stands around a text: tokenizer-post.c */

gboolean plumb_post_processor_read (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error);

/* --- decoder: tokenizer-decode.c */

typedef enum
{
  DECODE_REPLACE,
  DECODE_BYTE_FALLBACK,
  DECODE_SENTENCE, /* as SentencePiece: marks at the start vanish, a byte that is no text is one U+FFFD */
  DECODE_FUSE,
  DECODE_STRIP,
  DECODE_BYTE_LEVEL,
} PlumbDecodeKind;

typedef struct
{
  PlumbDecodeKind kind;
  char *pattern, *content;
  guint start, stop; /* STRIP; SENTENCE: marks that vanish, at most (start) */
} PlumbDecodeStep;

gboolean plumb_decoder_read (GArray *steps, PlumbJsonScan *scan, GError **error);
void plumb_decode_step_clear (gpointer step);
/* A mark is a blank; `strip`: the one in front of the text was put there by the encoder. */
void plumb_decoder_add_metaspace (GArray *steps, const char *mark, gboolean strip);

/* --- the whole */

struct _PlumbTokenizer
{
  gatomicrefcount refs;
  char *dir;
  char *file; /* the one that holds the vocabulary */
  PlumbAddedTokens added;
  GArray *normalizer, *pre_tokenizer; /* of PlumbPreStep */
  PlumbVocab *vocab;
  PlumbBpe *bpe;         /* or */
  PlumbUnigram *unigram; /* one of both */
  gboolean raw;          /* the spellings of the vocabulary are bytes */
  gboolean words;        /* pieces may be cut in front of marks */
  GArray *prefix, *suffix; /* gint32: what the template puts around a text */
  GArray *decoder;         /* of PlumbDecodeStep */
  guint vocab_size;
  gsize longest;
  gint32 bos;
  GArray *eos; /* gint32 */
};

/* The spelling of an id in the vocabulary or as an added token; NULL: none. */
const char *
plumb_tokenizer_spelling (PlumbTokenizer *tokenizer, gint32 id, gsize *length, gboolean *added);

/* tokenizer-special.c */
gboolean plumb_tokenizer_read_special (PlumbTokenizer *tokenizer, GError **error);
/* Added tokens that stand beside a vocabulary without its own: "added_tokens_decoder". */
gboolean plumb_tokenizer_read_added (PlumbTokenizer *tokenizer, GError **error);

/* tokenizer-json.c */
gboolean plumb_tokenizer_read_json (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error);
/* tokenizer-sentencepiece.c: a .model file, which is a protobuf message. */
gboolean plumb_tokenizer_read_model (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error);
/* tokenizer-tiktoken.c: lines of a token in base64 and its rank. */
gboolean plumb_tokenizer_is_ranks (GBytes *bytes);
gboolean plumb_tokenizer_read_ranks (PlumbTokenizer *tokenizer, GBytes *bytes, GError **error);

/* Sets an error for what a tokenizer.json asks for and we do not have. Returns FALSE. */
gboolean plumb_tokenizer_unsupported (GError **error, const char *what, const char *name);
gboolean plumb_tokenizer_invalid (GError **error, const char *what, const char *name);
/* Turns a fault of the scanner into an error. Returns FALSE. */
gboolean plumb_tokenizer_malformed (GError **error, PlumbJsonScan *scan);

G_END_DECLS
