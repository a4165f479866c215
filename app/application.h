/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <adwaita.h>

#include "app/run-list.h"

G_BEGIN_DECLS

#define PLUMB_APPLICATION_ID "org.plumbline.Plumbline"

/* The program: it holds the runs, and opens a window on them. */
#define PLUMB_TYPE_APPLICATION (plumb_application_get_type ())
G_DECLARE_FINAL_TYPE (PlumbApplication, plumb_application, PLUMB, APPLICATION, AdwApplication)

PlumbApplication *plumb_application_new (void);

G_END_DECLS
