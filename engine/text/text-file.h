/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Largest content that a packed file may unfold to. */
#define PLUMB_TEXT_FILE_MAX (G_GUINT64_CONSTANT (2) << 30)

/* The content of a file: mapped, or unpacked to memory when its name ends in .gz. Its bytes are not
 * followed by a NUL. Errors name the file. */
GBytes *plumb_text_file_read (const char *path, GError **error);

/* `folder`/`name`, or the same with .gz when only that exists; NULL when neither does. */
char *plumb_text_file_find (const char *folder, const char *name);

G_END_DECLS
