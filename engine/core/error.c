/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <gio/gio.h>

#include "engine/core/error.h"

G_DEFINE_QUARK (plumb - error - quark, plumb_error)

int
plumb_error_exit_code (const GError *error)
{
  if (error == NULL)
    return 0;
  if (error->domain == PLUMB_ERROR)
    return error->code;
  if (error->domain == G_OPTION_ERROR)
    return PLUMB_ERROR_USAGE;
  if (g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOENT)
      || g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_ISDIR)
      || g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOTDIR)
      || g_error_matches (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND)
      || error->domain == G_CONVERT_ERROR)
    return PLUMB_ERROR_INVALID;
  return PLUMB_ERROR_FAILED;
}
