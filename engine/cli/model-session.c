/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/cli/model-session.h"
#include "engine/core/error.h"
#include "engine/run/settings.h"

gboolean
plumb_model_session_open (PlumbModelSession *session, const char *dir, const char *precision,
                          const char *device, gboolean with_tokenizer, GError **error)
{
  enum dev_type type = g_strcmp0 (precision, "bf16") == 0 ? DEV_BF16 : DEV_F32;
  if (precision && type == DEV_F32 && !g_str_equal (precision, "fp32"))
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_USAGE, "precision %s is not known; there are fp32 and bf16",
                   precision);
      return FALSE;
    }
  g_autoptr (PlumbModelConfig) config = plumb_model_config_load (dir, error);
  if (!config)
    return FALSE;
  g_autofree char *chosen = plumb_device_choose (device, NULL);
  PlumbWorkerSettings settings = { .device = chosen, .type = type, .rollout.weight_codes = session->weight_codes };
  session->device = plumb_device_open (chosen, plumb_worker_workspace (&settings, config), error);
  if (session->device)
    session->model = plumb_model_load (session->device, dir, type, 0, error);
  if (session->model && with_tokenizer)
    session->tokenizer = plumb_tokenizer_load (dir, error);
  if (session->tokenizer)
    plumb_model_limit_vocabulary (session->model, (int) plumb_tokenizer_vocab_size (session->tokenizer));
  return session->model && (session->tokenizer || !with_tokenizer);
}

void
plumb_model_session_clear (PlumbModelSession *session)
{
  g_clear_pointer (&session->model, plumb_model_free);
  g_clear_pointer (&session->device, plumb_device_close);
  g_clear_pointer (&session->tokenizer, plumb_tokenizer_unref);
}
