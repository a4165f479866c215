/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a SentencePiece model or a tiktoken file; if it loads, a text goes through it and back. */
#include "config.h"

#include <glib/gstdio.h>

#include "engine/text/tokenizer.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static char *
model_path (void)
{
  static char *folder;

  if (folder == NULL)
    folder = g_dir_make_tmp ("plumbline-fuzz-XXXXXX", NULL);
  return g_build_filename (folder, "tokenizer.model", NULL);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const char text[] = "<s> a ab  abc 1234\n\xc3\xa9\xe2\x96\x81 ab</s>";
  g_autofree char *path = model_path ();
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  if (!g_file_set_contents_full (path, (const char *)data, size, G_FILE_SET_CONTENTS_NONE, 0600, NULL))
    return 0;
  tokenizer = plumb_tokenizer_load (path, NULL);
  if (tokenizer != NULL && plumb_tokenizer_encode (tokenizer, text, -1, TRUE, ids, NULL))
    {
      g_autofree char *back
          = plumb_tokenizer_decode (tokenizer, (gpointer)ids->data, ids->len, FALSE, NULL);

      if (back == NULL || !g_utf8_validate (back, -1, NULL))
        g_error ("decoded to invalid UTF-8");
    }
  return 0;
}
