/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What a worker is for. A role that has no worker of its own is one of those that train. */
typedef enum
{
  PLUMB_ROLE_POLICY,    /* trains the policy, with all models that have no worker of their own */
  PLUMB_ROLE_ROLLOUT,   /* generates ahead of those that train */
  PLUMB_ROLE_CRITIC,    /* trains the critic */
  PLUMB_ROLE_REFERENCE, /* the frozen model */
  PLUMB_ROLE_REWARD,    /* scores completions */
  PLUMB_N_ROLES
} PlumbRole;

/* "critic", for logs and the timeline. */
const char *plumb_role_name (PlumbRole role);
/* The setting that places it: "placement.critic". */
const char *plumb_role_key (PlumbRole role);

G_END_DECLS
