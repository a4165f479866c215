/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/core/error.h"
#include "engine/run/loss-message.h"

/* Every number of the options, and where it lies: one list for both directions. Choices are ints with a bound. */
typedef struct
{
  const char *key;
  gsize offset;
  int choices; /* of an int; 0: a double */
} Field;

#define REAL(key, member) { key, G_STRUCT_OFFSET (PlumbLossSpec, member), 0 }
#define CHOICE(key, member, n) { key, G_STRUCT_OFFSET (PlumbLossSpec, member), n }

static const Field fields[] = {
  CHOICE ("loss", id, PLUMB_N_LOSSES),
  REAL ("temperature", temperature),
  CHOICE ("surrogate", policy.surrogate, PLUMB_SURROGATE_GMPO + 1),
  REAL ("clip-low", policy.clip_low),
  REAL ("clip-high", policy.clip_high),
  REAL ("dual-clip", policy.dual_clip),
  CHOICE ("correction", policy.correction, PLUMB_CORRECTION_SEQUENCE_MASK_CLAMPED + 1),
  REAL ("correction-low", policy.correction_low),
  REAL ("correction-high", policy.correction_high),
  REAL ("kl-coefficient", policy.kl_coefficient),
  CHOICE ("kl-estimator", policy.kl_estimator, PLUMB_KL_K3 + 1),
  CHOICE ("kl-unbiased", policy.kl_unbiased, 2),
  REAL ("entropy", policy.entropy),
  CHOICE ("aggregate", policy.aggregate, PLUMB_AGGREGATE_CONSTANT + 1),
  REAL ("value-clip", value.clip),
  REAL ("value-weight", value.weight),
  CHOICE ("value-aggregate", value.aggregate, PLUMB_AGGREGATE_CONSTANT + 1),
  CHOICE ("pair", pair.loss, PLUMB_PAIR_SIMPO + 1),
  REAL ("pair-beta", pair.beta),
  REAL ("pair-smoothing", pair.label_smoothing),
  REAL ("pair-nll", pair.nll),
  REAL ("pair-margin", pair.margin),
  REAL ("kto-beta", kto.beta),
  REAL ("kto-desirable", kto.desirable),
  REAL ("kto-undesirable", kto.undesirable),
  CHOICE ("kto-paired", kto.paired, 2),
  REAL ("kto-kl-desirable", kto.kl_desirable),
  REAL ("kto-kl-undesirable", kto.kl_undesirable),
  REAL ("kto-by-kl-desirable", kto.by_kl_desirable),
  REAL ("kto-by-kl-undesirable", kto.by_kl_undesirable),
  CHOICE ("reward", reward, PLUMB_REWARD_LOGEXP + 1),
  CHOICE ("reward-margin", reward_margin, 2),
  REAL ("tokens", denominators.tokens),
  REAL ("sequences", denominators.sequences),
  REAL ("limit", denominators.limit),
  CHOICE ("on-policy", on_policy, 2),
};

void
plumb_body_add_loss (GVariantDict *body, const PlumbLossSpec *loss)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if (fields[i].choices)
      g_variant_dict_insert (body, fields[i].key, "i", G_STRUCT_MEMBER (int, loss, fields[i].offset));
    else
      g_variant_dict_insert (body, fields[i].key, "d", G_STRUCT_MEMBER (double, loss, fields[i].offset));
}

gboolean
plumb_body_get_loss (GVariant *body, PlumbLossSpec *loss, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      const Field *f = &fields[i];
      int *choice = G_STRUCT_MEMBER_P (loss, f->offset);
      double *real = G_STRUCT_MEMBER_P (loss, f->offset);
      gboolean ok = f->choices ? g_variant_lookup (body, f->key, "i", choice) && *choice >= 0
                                     && *choice < f->choices
                               : g_variant_lookup (body, f->key, "d", real);
      if (ok)
        continue;
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED, "a train message lacks a right value of %s", f->key);
      return FALSE;
    }
  return TRUE;
}
