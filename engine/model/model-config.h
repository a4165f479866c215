/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  PLUMB_ROPE_DEFAULT,
  PLUMB_ROPE_LINEAR,
  PLUMB_ROPE_LLAMA3,
} PlumbRopeType;

/* How positions become angles. */
typedef struct
{
  PlumbRopeType type;
  double theta;
  double factor;           /* linear, llama3 */
  double low_frequency;    /* llama3 */
  double high_frequency;   /* llama3 */
  int original_positions;  /* llama3 */
} PlumbRope;

/* A decoder as a set of features; Llama, Qwen2, Qwen3 and Mistral differ in these alone. */
typedef struct
{
  char *model_type; /* "llama", ... */
  int width;        /* W, hidden_size */
  int layers;       /* L */
  int heads;        /* H query heads */
  int groups;       /* G key/value heads */
  int head_size;    /* D, may differ from W / H */
  int mlp;          /* F, intermediate_size */
  int vocabulary;   /* V */
  int positions;    /* max_position_embeddings */
  double norm_eps;
  PlumbRope rope;
  gboolean qkv_bias;
  gboolean qk_norm;
  gboolean tied;     /* head = embedding table */
  gboolean score;    /* scalar head instead of the vocabulary */
  gboolean fresh_score; /* that the files may lack: a language model becomes a critic or reward model */
  int window;        /* sliding window, 0: none */
  double soft_cap;   /* of the attention scores, 0: none */
  guint8 *windowed;  /* (L) 1: the layer slides */
  gint32 bos;        /* -1: none */
  gint32 pad;        /* -1: none; as in transformers its embedding is not trained by inputs */
  GArray *eos;       /* of gint32 */
  char *stored_type; /* dtype that the file names, or NULL */
  GPtrArray *notices; /* (char *) what was assumed or overruled, for the log */
} PlumbModelConfig;

/* Reads DIR/config.json, in the spelling of transformers 4 and 5; generation_config.json may add EOS ids. An
 * architecture, activation or rope type that is not supported is an error naming the key. */
PlumbModelConfig *plumb_model_config_load (const char *dir, GError **error);

/* A Llama-shaped config for a model made from nothing; head size = width / heads. */
PlumbModelConfig *plumb_model_config_new (int width, int layers, int heads, int groups, int mlp,
                                          int vocabulary, int positions, GError **error);
void plumb_model_config_free (PlumbModelConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbModelConfig, plumb_model_config_free)

/* Gives a config a scalar head, which the model's files may lack. */
void plumb_model_config_make_scalar (PlumbModelConfig *config);

/* config.json of a config made by plumb_model_config_new. (transfer full) */
char *plumb_model_config_to_json (const PlumbModelConfig *config);

/* Rotation per position of each pair of a head: (D / 2), radians. */
void plumb_rope_frequencies (const PlumbRope *rope, int head_size, double *frequencies);

G_END_DECLS
