/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "engine/text/tokenizer.h"

G_BEGIN_DECLS

/* A chat template: how a list of messages becomes one text. Immutable after loading; may be used by
 * several threads at once. */
typedef struct _PlumbTemplate PlumbTemplate;

/* `name` stands in messages. The source is Jinja with trim_blocks and lstrip_blocks, as transformers has it. */
PlumbTemplate *
plumb_template_new (const char *name, const char *source, gssize length, GError **error);
/* Of a model folder (chat_template.jinja, or "chat_template" of its tokenizer_config.json) with its special
 * tokens as variables; or of one template file. */
PlumbTemplate *plumb_template_load (const char *path, GError **error);
/* The template of a model folder into `found`: NULL where it has none, which is no error. */
gboolean plumb_template_find (const char *folder, PlumbTemplate **found, GError **error);
PlumbTemplate *plumb_template_ref (PlumbTemplate *self);
void plumb_template_unref (PlumbTemplate *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbTemplate, plumb_template_unref)

/* Does it mark what the assistant says by {% generation %}? */
gboolean plumb_template_has_generation (PlumbTemplate *self);

typedef struct
{
  gsize start, end; /* bytes of a rendered text */
} PlumbTextSpan;

/* The text of `messages`, an array of objects. `variables` (NULL: none), such as tools, go over those of the
 * model folder. `spans` (NULL: not asked) gets the PlumbTextSpan of each {% generation %} block. A template that
 * raises an exception fails with its message. (transfer full) */
char *plumb_template_render (PlumbTemplate *self,
                             JsonNode *messages,
                             gboolean add_generation_prompt,
                             JsonObject *variables,
                             GArray *spans,
                             GError **error);

typedef enum
{
  PLUMB_TRAIN_ALL_TURNS,
  PLUMB_TRAIN_LAST_TURN,
} PlumbTrainedTurns;

/* A conversation as the model sees it. */
typedef struct
{
  char *text;
  GArray *spans;   /* PlumbTextSpan in `text`: what is trained */
  GArray *ids;     /* gint32 */
  GArray *trained; /* guint8 for each id: 1 trained */
  guint n_trained;
} PlumbConversation;

/* What a user should know about a conversation. */
typedef struct
{
  gint rewritten;      /* message that the template renders otherwise once later ones follow; -1: none */
  gsize rewritten_at;  /* character of the text at which the difference begins */
  gint control;        /* message whose content spells a special token; -1: none */
  char *control_token; /* that token */
  gboolean other_prompt; /* the template ends a prompt otherwise than it begins a turn */
} PlumbConversationNotes;

void plumb_conversation_free (PlumbConversation *conversation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbConversation, plumb_conversation_free)
void plumb_conversation_notes_clear (PlumbConversationNotes *notes);

/* Renders and encodes a conversation and marks the tokens that the assistant said, each turn with its end token.
 * The marks come from {% generation %} blocks, else from rendering prefixes. One row, an array of
 * PlumbConversation; but when the template rewrites history (it drops earlier thinking, say) one row per assistant
 * turn that ends there. A conversation without anything to train gives rows without trained tokens. Template
 * text and messages are encoded as one, so that special tokens in messages count; `notes` tell. */
GPtrArray *plumb_conversation_encode (PlumbTemplate *self,
                                      PlumbTokenizer *tokenizer,
                                      JsonNode *messages,
                                      JsonObject *variables,
                                      PlumbTrainedTurns turns,
                                      PlumbConversationNotes *notes,
                                      GError **error);

/* The ids of a prompt: the messages, and what begins the assistant's turn. */
gboolean plumb_conversation_prompt (PlumbTemplate *self,
                                    PlumbTokenizer *tokenizer,
                                    JsonNode *messages,
                                    JsonObject *variables,
                                    GArray *ids,
                                    GError **error);

G_END_DECLS
