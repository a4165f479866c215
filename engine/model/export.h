/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/model/decoder.h"

G_BEGIN_DECLS

/* Writes a Hugging Face folder: weights of the model in their own type, and what `source` holds beside them
 * (config.json with its dtype amended, tokenizer and generation files). The folder is made aside,
 * reloaded, compared bit by bit, and only then renamed into place. */
gboolean plumb_model_export (PlumbModel *model, const char *source, const char *dir, GError **error);

/* Copies the small files of a model folder (configs, tokenizer); missing ones are skipped. With `score` the config
 * becomes that of a sequence classifier. */
gboolean plumb_model_copy_files (const char *source, const char *dir, enum dev_type type, gboolean score,
                                 GError **error);

/* Mean and deviation of a reward model's scores, in its config.json, for normalising them later. */
gboolean plumb_model_store_statistics (const char *dir, double mean, double deviation, GError **error);
gboolean plumb_model_read_statistics (const char *dir, double *mean, double *deviation, GError **error);

/* Removes a folder and what is in it. */
gboolean plumb_remove_tree (const char *path, GError **error);
/* Flushes a folder's entries to the disk. */
gboolean plumb_sync_folder (const char *path, GError **error);

G_END_DECLS
