/* SPDX-License-Identifier: Apache-2.0 */
/* What work takes at the limits: counted by hand for a small model, and the limits of this machine. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "engine/model/roofline.h"

/* Width 8, 2 blocks, 2 heads of 4 on 1 group, hidden 16, 10 tokens: a block has 8 * (2 * 2 + 2 * 1) * 4 = 192 parameters of
 * attention and 3 * 8 * 16 = 384 behind it. */
static PlumbModelConfig *
small (void)
{
  g_autoptr (GError) error = NULL;
  PlumbModelConfig *config = plumb_model_config_new (8, 2, 2, 1, 16, 10, 64, &error);
  g_assert_no_error (error);
  config->tied = FALSE;
  return config;
}

static const PlumbLimits limits = { .products = 1000, .bandwidth = 100 };

static void
test_parameters (void)
{
  PlumbModelConfig *config = small ();
  g_assert_cmpfloat (plumb_config_block_parameters (config), ==, 2 * (192 + 384));
  g_assert_cmpfloat (plumb_config_head_parameters (config), ==, 80);
  plumb_model_config_free (config);
}

static void
test_work (void)
{
  PlumbModelConfig *config = small ();
  PlumbWork work = { 0 };
  plumb_work_add (&work, 3, 2);
  plumb_work_add (&work, 5, 1);
  g_assert_cmpfloat (work.tokens, ==, 8);
  g_assert_cmpfloat (work.rows, ==, 3);
  g_assert_cmpfloat (work.pairs, ==, 6 + 15);
  double attention = 4.0 * 2 * 2 * 4 * 21; /* two products of 8 a pair and block */
  double forward = 2 * (1152 * 8.0 + 80 * 3.0);
  g_assert_cmpfloat_with_epsilon (plumb_limit_forward (&limits, config, &work), (forward + 2 * attention) / 1000, 1e-9);
  double products = 6 * 1152 * 8.0 + 8 * 80 * 3.0 + 7 * attention;
  double bytes = 3 * 4 * 2 * (8 * 8 + 2 * (2 + 2) * 4 + 3 * 16) * 8.0;
  g_assert_cmpfloat_with_epsilon (plumb_limit_train (&limits, config, DEV_F32, &work), products / 1000 + bytes / 100, 1e-9);
  g_assert_cmpfloat_with_epsilon (plumb_work_operations (config, &work), 3 * forward + 3 * attention, 1e-9);
  g_assert_cmpfloat_with_epsilon (plumb_limit_update (&limits, config, DEV_F32), 28 * (1152 + 160) / 100.0, 1e-9);
  g_assert_cmpfloat_with_epsilon (plumb_limit_update (&limits, config, DEV_BF16), 30 * (1152 + 160) / 100.0, 1e-9);
  config->tied = TRUE;
  g_assert_cmpfloat_with_epsilon (plumb_limit_update (&limits, config, DEV_F32), 28 * (1152 + 80) / 100.0, 1e-9);
  plumb_model_config_free (config);
}

/* Few rows read the weights, many multiply. */
static void
test_generated (void)
{
  PlumbModelConfig *config = small ();
  PlumbGenerated few = { .prefill_tokens = 10, .decode_passes = 4, .decode_rows = 4, .context_tokens = 50 };
  double prefill = 2 * 1152 * 10 / 1000.0, keys = 50 * 2 * 2 * 4 * 2 / 100.0;
  g_assert_cmpfloat_with_epsilon (plumb_limit_generate (&limits, config, DEV_BF16, &few),
                                  prefill + 4 * 1232 * 2 / 100.0 + keys, 1e-9);
  PlumbGenerated many = few;
  many.decode_rows = 400;
  g_assert_cmpfloat_with_epsilon (plumb_limit_generate (&limits, config, DEV_BF16, &many),
                                  prefill + 4 * 2 * 1232 * 100 / 1000.0 + keys, 1e-9);
  PlumbGenerated coded = few;
  coded.weight_codes = coded.kv_codes = TRUE;
  g_assert_cmpfloat_with_epsilon (plumb_limit_generate (&limits, config, DEV_BF16, &coded),
                                  prefill + 4 * (1152 + 80 * 2) / 100.0 + 50 * 2 * 2 * (4 + 4) / 100.0, 1e-9);
  plumb_model_config_free (config);
}

static void
test_measured (void)
{
  g_autoptr (GError) error = NULL;
  PlumbDevice *device = plumb_device_open ("cpu", 1 << 20, &error);
  PlumbLimits found;
  g_assert_no_error (error);
  for (int i = 0; i < 2; i++)
    {
      g_assert_true (plumb_limits_measure (device, i ? DEV_BF16 : DEV_F32, 1, &found, &error));
      g_assert_no_error (error);
      g_assert_cmpfloat (found.products, >, 1e6);
      g_assert_cmpfloat (found.bandwidth, >, 1e6);
      g_assert_cmpfloat (found.peak, ==, 0);
    }
  plumb_device_close (device);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/roofline/parameters", test_parameters);
  g_test_add_func ("/roofline/work", test_work);
  g_test_add_func ("/roofline/generated", test_generated);
  g_test_add_func ("/roofline/measured", test_measured);
  return g_test_run ();
}
