/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The codes of PLUMB_ERROR are the exit codes of plumbline-engine. */
typedef enum
{
  PLUMB_ERROR_USAGE = 2,       /* the command line is wrong */
  PLUMB_ERROR_INVALID = 3,     /* a spec, data file or model is wrong */
  PLUMB_ERROR_ENVIRONMENT = 4, /* no device, port, library, or the run is taken by another engine */
  PLUMB_ERROR_FAILED = 5,      /* the run itself failed */
} PlumbError;

#define PLUMB_EXIT_INTERRUPTED 130 /* interrupted twice */

#define PLUMB_ERROR (plumb_error_quark ())
GQuark plumb_error_quark (void);

/* Exit code for an error of any domain: 0 for NULL, a PLUMB_ERROR's own code, 3 for file errors
 * that a user can mend (missing file, bad encoding), 5 for the rest. */
int plumb_error_exit_code (const GError *error);

G_END_DECLS
