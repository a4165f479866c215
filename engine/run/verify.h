/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "engine/model/safetensors.h"

G_BEGIN_DECLS

/* A comparison of this engine with values made by another implementation: one line a value, with its
 * error and bound. It passes only if every key of the file was used and every value lies in its bound. */
typedef struct _PlumbVerify PlumbVerify;

PlumbVerify *plumb_verify_new (PlumbSafetensors *expected, gboolean quiet);
void plumb_verify_free (PlumbVerify *verify);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbVerify, plumb_verify_free)

/* The expected tensor of a key with so many elements (0: any). Missing, of another size or with a value that is
 * not finite: NULL, counted and told. The key counts as used. */
const PlumbTensor *plumb_verify_expect (PlumbVerify *verify, gsize count, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
/* Only keys without a dot-separated prefix, "seq" and this prefix count; others are told as left out. */
void plumb_verify_restrict (PlumbVerify *verify, const char *prefix);
gboolean plumb_verify_has (PlumbVerify *verify, const char *key);

/* Records one comparison: passes if error <= bound (a NaN fails). */
void plumb_verify_record (PlumbVerify *verify, const char *key, const char *measure, double error,
                          double bound);

/* Greatest absolute difference of `values` (count of the tensor) against the expected tensor. */
void plumb_verify_absolute (PlumbVerify *verify, const PlumbTensor *expected, const float *values,
                            double bound);
/* Relative L2 distance. */
void plumb_verify_relative (PlumbVerify *verify, const PlumbTensor *expected, const float *values,
                            double bound);
/* Each value within bound relative to the expected one. */
void plumb_verify_each_relative (PlumbVerify *verify, const PlumbTensor *expected, const double *values,
                                 double bound);
/* Each value within relative |expected| + absolute. */
void plumb_verify_near (PlumbVerify *verify, const PlumbTensor *expected, const double *values, double relative,
                        double absolute);
void plumb_verify_integers (PlumbVerify *verify, const PlumbTensor *expected, const gint32 *values);

/* Prints the summary; TRUE if all passed and nothing of the file was left out. */
gboolean plumb_verify_finish (PlumbVerify *verify);

/* Compares the model in `dir` with DIR/expected.safetensors, or with DIR/golden.json (and eval_nll.json, tokenizer
 * vectors are another command's); *passed tells the outcome. */
gboolean plumb_verify_model (const char *dir, const char *device, gboolean quiet, gboolean *passed, GError **error);

/* Estimators, losses, KL control, reward shaping and samplers against the stored values of `file`. */
gboolean plumb_verify_losses (const char *file, const char *device, gboolean quiet, gboolean *passed,
                              GError **error);

/* Replays the stored curves of one algorithm ("grpo"), or of all that this engine trains, on the model. */
gboolean plumb_verify_curves (const char *file, const char *dir, const char *device, const char *algorithm, gboolean quiet,
                              gboolean *passed, GError **error);

/* Compares the tokenizer of a folder (or file) with rows {"text", "ids", "ids_added"?, "decoded"?}, as JSON lines or
 * an array. */
gboolean plumb_verify_tokenizer (const char *dir, const char *file, gboolean quiet, gboolean *passed, GError **error);

/* Compares renders {"template", "messages", "add_generation_prompt", "variables", "text" or "error"} of a list with
 * those of the templates in a folder (or of one file). */
gboolean plumb_verify_templates (const char *dir, const char *file, gboolean quiet, gboolean *passed, GError **error);

G_END_DECLS
