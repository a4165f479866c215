/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"
#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* A model opened for a command: device, weights, tokenizer. */
typedef struct
{
  PlumbDevice *device;
  PlumbModel *model;
  PlumbTokenizer *tokenizer; /* NULL where the command needs none */
  gboolean weight_codes;     /* to be set before: products will use e4m3 codes of the blocks' weights */
} PlumbModelSession;

/* Opens DIR at a precision ("fp32", "bf16") on a device ("cpu", "cuda:N"; NULL: auto); `with_tokenizer` also loads its tokenizer. */
gboolean plumb_model_session_open (PlumbModelSession *session, const char *dir, const char *precision,
                                   const char *device, gboolean with_tokenizer, GError **error);
void plumb_model_session_clear (PlumbModelSession *session);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbModelSession, plumb_model_session_clear)

G_END_DECLS
