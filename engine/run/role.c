/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/role.h"

static const struct
{
  const char *name, *key;
} roles[PLUMB_N_ROLES] = {
  [PLUMB_ROLE_POLICY] = { "policy", "placement.policy" },
  [PLUMB_ROLE_ROLLOUT] = { "rollout", "placement.rollout" },
  [PLUMB_ROLE_CRITIC] = { "critic", "placement.critic" },
  [PLUMB_ROLE_REFERENCE] = { "reference", "placement.reference" },
  [PLUMB_ROLE_REWARD] = { "reward model", "placement.reward" },
};

const char *
plumb_role_name (PlumbRole role)
{
  return (guint) role < PLUMB_N_ROLES ? roles[role].name : "unknown";
}

const char *
plumb_role_key (PlumbRole role)
{
  return (guint) role < PLUMB_N_ROLES ? roles[role].key : "placement";
}
