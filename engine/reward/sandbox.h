/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Runs programs that nobody trusts: in bubblewrap, without network, on a read-only system and an
 * empty /tmp of its own, as one process that may start no other, with limits on time, memory and
 * output. There is no way to run one without all of it. */
typedef struct
{
  char *bwrap;    /* the program */
  double seconds; /* of the clock, and of the processor */
  guint64 memory; /* bytes of address space */
  gsize output;   /* bytes */
  gint cancelled; /* atomic; set from elsewhere it ends what runs */
} PlumbSandbox;

/* Finds bubblewrap: PLUMB_ERROR_ENVIRONMENT where there is none. */
gboolean plumb_sandbox_init (PlumbSandbox *sandbox, GError **error);
void plumb_sandbox_clear (PlumbSandbox *sandbox);

typedef enum
{
  PLUMB_SANDBOX_ENDED,
  PLUMB_SANDBOX_LATE,      /* ended, as it took too long */
  PLUMB_SANDBOX_TALKATIVE, /* ended, as it wrote too much */
  PLUMB_SANDBOX_CANCELLED,
} PlumbSandboxEnd;

typedef struct
{
  PlumbSandboxEnd end;
  int status;      /* exit code, or 128 + signal */
  GString *output; /* of stdout and stderr */
} PlumbSandboxResult;

void plumb_sandbox_result_clear (PlumbSandboxResult *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbSandboxResult, plumb_sandbox_result_clear)

/* Runs `command` (NULL-terminated; absolute path first) with `input` on its stdin until its end,
 * which nothing of it survives. FALSE with PLUMB_ERROR_ENVIRONMENT when it cannot be started. May be
 * called from several threads. */
gboolean plumb_sandbox_run (PlumbSandbox *sandbox,
                            const char *const *command,
                            const GString *input,
                            PlumbSandboxResult *result,
                            GError **error);

G_END_DECLS
