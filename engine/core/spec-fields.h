/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* The one table of settings. The spec reader, --set, the validator, the window's form, the diff and
 * the listing of `spec --fields` are all generated from it; a setting exists where it has a row. */

typedef enum
{
  PLUMB_ALGORITHM_SFT,
  PLUMB_ALGORITHM_RM,
  PLUMB_ALGORITHM_DPO,
  PLUMB_ALGORITHM_KTO,
  PLUMB_ALGORITHM_ORPO,
  PLUMB_ALGORITHM_SIMPO,
  PLUMB_ALGORITHM_PPO,
  PLUMB_ALGORITHM_REINFORCE,
  PLUMB_ALGORITHM_REINFORCE_BASELINE,
  PLUMB_ALGORITHM_RLOO,
  PLUMB_ALGORITHM_GRPO,
  PLUMB_ALGORITHM_DR_GRPO,
  PLUMB_ALGORITHM_REMAX,
  PLUMB_ALGORITHM_OPO,
  PLUMB_ALGORITHM_REJECTION_SAMPLING,
  PLUMB_ALGORITHM_ITERATIVE_DPO,
  PLUMB_ALGORITHM_DISTILL,
  PLUMB_N_ALGORITHMS,
} PlumbAlgorithm;

/* Sets of them. */
typedef enum
{
  PLUMB_ON_SFT = 1 << PLUMB_ALGORITHM_SFT,
  PLUMB_ON_RM = 1 << PLUMB_ALGORITHM_RM,
  PLUMB_ON_KTO = 1 << PLUMB_ALGORITHM_KTO,
  PLUMB_ON_ORPO = 1 << PLUMB_ALGORITHM_ORPO,
  PLUMB_ON_SIMPO = 1 << PLUMB_ALGORITHM_SIMPO,
  PLUMB_ON_PPO = 1 << PLUMB_ALGORITHM_PPO,
  PLUMB_ON_DISTILL = 1 << PLUMB_ALGORITHM_DISTILL,
  PLUMB_ON_ITERATIVE = 1 << PLUMB_ALGORITHM_ITERATIVE_DPO,
  PLUMB_ON_REJECTION = 1 << PLUMB_ALGORITHM_REJECTION_SAMPLING,
  PLUMB_ON_DPO = 1 << PLUMB_ALGORITHM_DPO | PLUMB_ON_ITERATIVE, /* by its loss */
  PLUMB_ON_PAIRS = 1 << PLUMB_ALGORITHM_DPO | PLUMB_ON_RM | PLUMB_ON_ORPO | PLUMB_ON_SIMPO, /* of the data */
  PLUMB_ON_OFFLINE = PLUMB_ON_SFT | PLUMB_ON_PAIRS | PLUMB_ON_KTO,
  PLUMB_ON_GROUPS = 1 << PLUMB_ALGORITHM_REINFORCE_BASELINE | 1 << PLUMB_ALGORITHM_RLOO
                    | 1 << PLUMB_ALGORITHM_GRPO | 1 << PLUMB_ALGORITHM_DR_GRPO | 1 << PLUMB_ALGORITHM_OPO,
  /* with a policy loss */
  PLUMB_ON_POLICY = PLUMB_ON_PPO | 1 << PLUMB_ALGORITHM_REINFORCE | PLUMB_ON_GROUPS
                    | 1 << PLUMB_ALGORITHM_REMAX | PLUMB_ON_DISTILL,
  PLUMB_ON_ONLINE = PLUMB_ON_POLICY | PLUMB_ON_REJECTION | PLUMB_ON_ITERATIVE, /* they generate */
  PLUMB_ON_REWARDED = PLUMB_ON_ONLINE & ~PLUMB_ON_DISTILL,
  PLUMB_ON_REFERENCE = PLUMB_ON_POLICY | PLUMB_ON_DPO | PLUMB_ON_KTO, /* may have a frozen model */
  PLUMB_ON_ALL = PLUMB_ON_OFFLINE | PLUMB_ON_ONLINE,
} PlumbAlgorithms;

/* Whether an algorithm belongs to a set. */
#define PLUMB_IS_ON(algorithm, set) (((set) >> (algorithm) & 1) != 0)

typedef enum
{
  PLUMB_FIELD_TEXT,
  PLUMB_FIELD_INTEGER,
  PLUMB_FIELD_REAL,
  PLUMB_FIELD_BOOLEAN, /* yes / no */
  PLUMB_FIELD_CHOICE,
  PLUMB_FIELD_PATH,
  PLUMB_FIELD_TEXTS, /* lists, written with commas */
  PLUMB_FIELD_PATHS,
  PLUMB_FIELD_REALS,
} PlumbFieldType;

typedef enum
{
  PLUMB_LEVEL_BASIC,
  PLUMB_LEVEL_MORE,
  PLUMB_LEVEL_EXPERT,
} PlumbFieldLevel;

/* What the window shows the field with. */
typedef enum
{
  PLUMB_WIDGET_ENTRY,
  PLUMB_WIDGET_TEXT, /* several lines */
  PLUMB_WIDGET_SPIN,
  PLUMB_WIDGET_SWITCH,
  PLUMB_WIDGET_COMBO,
  PLUMB_WIDGET_FILE,
  PLUMB_WIDGET_FOLDER,
  PLUMB_WIDGET_FILES,
} PlumbFieldWidget;

typedef enum
{
  PLUMB_FIELD_AUTO = 1 << 0,     /* takes `auto`, which a run resolves; it is then the default */
  PLUMB_FIELD_MIN_OPEN = 1 << 1, /* the minimum itself is not allowed */
  PLUMB_FIELD_OFF = 1 << 2,      /* takes `off`, read as the number 0 (or as an empty text) */
} PlumbFieldFlags;

typedef struct
{
  const char *key;   /* "group.key"; the key may itself hold dots: "algorithm.kl.estimator" */
  const char *label; /* translatable, as are unit and help: pass them through g_dgettext */
  PlumbFieldType type;
  const char *unit;        /* NULL: none */
  const char *standard;    /* the default as written in a spec; NULL: unset */
  double minimum, maximum; /* numbers only (each of a list); texts: longest length in `maximum` */
  const char *const *choices; /* CHOICE: NULL-terminated */
  const char *help;
  PlumbFieldLevel level;
  PlumbAlgorithms algorithms; /* those that show and use it */
  PlumbFieldWidget widget;
  PlumbFieldFlags flags;
  const char *openrlhf; /* the OpenRLHF flag that it answers to; NULL: none */
} PlumbField;

typedef struct
{
  const char *name;  /* "rollout" */
  const char *label; /* translatable */
  const char *help;  /* translatable */
} PlumbFieldGroup;

const PlumbField *plumb_fields (gsize *n);
const PlumbFieldGroup *plumb_field_groups (gsize *n);

/* NULL when there is no such key. */
const PlumbField *plumb_field_find (const char *key);

/* "rollout.samples" -> "rollout": the length of the group part of a key. */
gsize plumb_field_group_length (const char *key);

/* Default of a field as text for one algorithm ("auto" where it is automatic, NULL: unset). */
const char *plumb_field_default (const PlumbField *field, PlumbAlgorithm algorithm);

/* The known key nearest to a misspelt one, or NULL when nothing is near. */
const char *plumb_field_nearest (const char *key);

/* Nearest of `n` words by edit distance, or NULL when none is near enough to be meant. */
const char *plumb_nearest_word (const char *word, const char *const *words, gsize n);

/* Checks the text of a value against its row. On success `normal` (if not NULL) gets the text in
 * its one spelling ("yes" for "true"). On failure returns FALSE with what is wrong and the remedy.
 */
gboolean plumb_field_check (
    const PlumbField *field, const char *value, char **normal, char **message, char **remedy);

const char *plumb_algorithm_name (PlumbAlgorithm algorithm);
const char *plumb_field_type_name (PlumbFieldType type);
const char *plumb_field_level_name (PlumbFieldLevel level);
const char *plumb_field_widget_name (PlumbFieldWidget widget);

/* The listing of `spec --fields`: (transfer full). */
JsonNode *plumb_fields_to_json (void);
char *plumb_fields_to_text (void);

G_END_DECLS
