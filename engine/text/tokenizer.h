/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A tokenizer of BPE or Unigram kind, byte-level (GPT-2, Llama 3, Qwen) or with byte fallback (Llama 2).
 * May be used by several threads at once. */
typedef struct _PlumbTokenizer PlumbTokenizer;

/* Reads the tokenizer of a model folder: tokenizer.json, vocab.json with merges.txt, tokenizer.model
 * (SentencePiece), or a *.tiktoken file, each also as .gz; and what its tokenizer_config.json,
 * generation_config.json and config.json say about special tokens. */
PlumbTokenizer *plumb_tokenizer_load (const char *dir, GError **error);
PlumbTokenizer *plumb_tokenizer_ref (PlumbTokenizer *tokenizer);
void plumb_tokenizer_unref (PlumbTokenizer *tokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbTokenizer, plumb_tokenizer_unref)

/* Appends the ids of `text` to `ids` (of gint32). `length` in bytes, or -1 up to the NUL; the text
 * may hold NULs but must be UTF-8. Added tokens typed in the text become their ids. `add_special`:
 * with what the template puts around a text (BOS). On failure `ids` is left as it was. */
gboolean plumb_tokenizer_encode (PlumbTokenizer *tokenizer,
                                 const char *text,
                                 gssize length,
                                 gboolean add_special,
                                 GArray *ids,
                                 GError **error);

/* The same, but control tokens typed in the text stay text: special ones, and others that say something to the
 * model (<tool_call>). Runs of blanks that are tokens are found. */
gboolean plumb_tokenizer_encode_plain (PlumbTokenizer *tokenizer,
                                       const char *text,
                                       gssize length,
                                       GArray *ids,
                                       GError **error);
/* The first control token that is typed in a text, or NULL: in data it would end a turn, or forge one.
 * `special`: only special ones, not the <think> and <tool_call> of an assistant. */
const char *
plumb_tokenizer_find_control (PlumbTokenizer *tokenizer, const char *text, gssize length, gboolean special);

/* The text of some ids, always valid UTF-8: U+FFFD stands where bytes are incomplete, and for a
 * NUL. Spaces are never cleaned up. Unknown ids are an error. (transfer full) */
char *plumb_tokenizer_decode (
    PlumbTokenizer *tokenizer, const gint32 *ids, gsize n, gboolean skip_special, GError **error);
/* The same with NULs kept; `length` gets its bytes. */
char *plumb_tokenizer_decode_full (PlumbTokenizer *tokenizer,
                                   const gint32 *ids,
                                   gsize n,
                                   gboolean skip_special,
                                   gsize *length,
                                   GError **error);

/* The text that ids add behind those before them, with the blank that starts it where there is one. */
char *plumb_tokenizer_decode_after (PlumbTokenizer *tokenizer,
                                    const gint32 *before,
                                    gsize n_before,
                                    const gint32 *ids,
                                    gsize n,
                                    gboolean skip_special,
                                    GError **error);

/* Text as ids arrive. All that `push` and `finish` append to `text`, one after the other, is what decode_full
 * gives for all ids; nothing but an incomplete character (at most 3 bytes) is held back, and U+FFFD only
 * stands where bytes are wrong. */
typedef struct _PlumbDetokenizer PlumbDetokenizer;

PlumbDetokenizer *plumb_detokenizer_new (PlumbTokenizer *tokenizer, gboolean skip_special);
gboolean
plumb_detokenizer_push (PlumbDetokenizer *detokenizer, gint32 id, GString *text, GError **error);
void plumb_detokenizer_finish (PlumbDetokenizer *detokenizer, GString *text);
void plumb_detokenizer_free (PlumbDetokenizer *detokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDetokenizer, plumb_detokenizer_free)

/* Highest id plus one; the model's embedding may have more rows. */
guint plumb_tokenizer_vocab_size (PlumbTokenizer *tokenizer);
gint32 plumb_tokenizer_bos (PlumbTokenizer *tokenizer); /* -1: none */
/* Ids that end a text; the first is the one to train. */
const gint32 *plumb_tokenizer_eos (PlumbTokenizer *tokenizer, gsize *n);
/* Id of a token as the vocabulary spells it; -1: none. */
gint32 plumb_tokenizer_find (PlumbTokenizer *tokenizer, const char *token);
/* The spelling of an id in the vocabulary; NULL: no such id. */
const char *plumb_tokenizer_token (PlumbTokenizer *tokenizer, gint32 id);
gboolean plumb_tokenizer_is_special (PlumbTokenizer *tokenizer, gint32 id);
/* Bytes of text that the longest token stands for: a text of more than n times this has more than
 * n tokens. */
gsize plumb_tokenizer_longest_token (PlumbTokenizer *tokenizer);

/* TRUE if encoding loses something of a text that decoding cannot give back, but for its normal form. */
gboolean plumb_tokenizer_rewrites (PlumbTokenizer *tokenizer);

/* Copies the tokenizer's files as they are into an export folder. */
gboolean plumb_tokenizer_copy_files (PlumbTokenizer *tokenizer, const char *to_dir, GError **error);

#define PLUMB_BYTES_BOS 256
#define PLUMB_BYTES_EOS 257

/* Writes the files of a byte tokenizer: ids 0 to 255 are the bytes, 256 <bos>, 257 <eos>, then
 * spare ones up to `vocab_size` (at least 258; 260 is usual). */
gboolean plumb_tokenizer_write_bytes (const char *dir, guint vocab_size, GError **error);

G_END_DECLS
