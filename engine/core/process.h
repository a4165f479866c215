/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What /proc says about processes. */

/* Clock ticks since boot at which the process started; 0 when there is none (or it is a zombie). A
 * pid alone may have been given to another process; pid and start time and boot id name one for
 * ever. */
guint64 plumb_process_start_time (gint64 pid);
/* Of this boot of the machine; NULL when /proc cannot be read. (transfer full) */
char *plumb_boot_id (void);
/* Living processes of a process group: array of gint64. */
GArray *plumb_process_group_members (gint64 group);

G_END_DECLS
