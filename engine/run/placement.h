/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"
#include "engine/run/settings.h"

G_BEGIN_DECLS

/* Which worker of a run works on which device. */

/* The devices that a spec names must be there: an error says which setting names one that is not. */
gboolean plumb_placement_check (PlumbSpec *spec, GError **error);

/* What the device of the run has. */
typedef struct
{
  guint64 memory_available;
  gboolean gpu;
} PlumbPlacementDevice;

/* Chooses the devices of those that train, and of what generates ahead; resolves what was automatic. */
gboolean plumb_placement_choose (PlumbWorkerSettings *settings, PlumbSpec *spec, PlumbPlacementDevice *device, GError **error);
/* Those of the roles, once the settings hold their models. */
gboolean plumb_placement_choose_roles (PlumbWorkerSettings *settings, PlumbSpec *spec, GError **error);

/* A worker, what it is to take, and where. */
typedef struct
{
  guint32 number;
  PlumbRole role;
  char *device;
  PlumbMemoryPlan memory;
} PlumbPlacedWorker;

/* The settings of a worker by its role, and for those that train by their rank; `device` (transfer full) is what
 * own->device points to where a GPU was counted on. */
void plumb_placement_settings (PlumbWorkerSettings *own, const PlumbWorkerSettings *settings, PlumbRole role, int rank,
                               char **device);
/* All workers in the order of their numbers: array of PlumbPlacedWorker. */
GArray *plumb_placement_plan (const PlumbWorkerSettings *settings, GError **error);
/* Bytes that the others of this role's device are to take; those that train count as one, each of them. */
gsize plumb_placement_others (GArray *workers, PlumbRole role);

G_END_DECLS
