/* SPDX-License-Identifier: Apache-2.0 */
/* A short run of every kind under valgrind: no error, nothing lost. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include "tests/engine/harness.h"

#define VALGRIND \
  "valgrind --quiet --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite " \
  "--error-exitcode=99 \"$ENGINE\" "

static void
check (Engine *engine, const char *arguments)
{
  g_autofree char *valgrind = g_find_program_in_path ("valgrind");
  if (!valgrind)
    {
      g_test_skip ("valgrind is not installed");
      return;
    }
  if (engine_shell (engine, VALGRIND "%s < /dev/null", arguments) != 0)
    g_error ("%s: %s", arguments, engine->err);
}

static void
test_run (Engine *engine, gconstpointer data)
{
  check (engine, "run $SPECS/warmup.spec --set schedule.steps=1 --set warmup.steps=1 --run-dir r");
  check (engine, "run --resume --run-dir r --set schedule.steps=2");
  check (engine, "export r --to out");
}

static void
test_bf16 (Engine *engine, gconstpointer data)
{
  check (engine, "run $SPECS/grpo.spec --set schedule.steps=1 --set model.precision=bf16 --run-dir r");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/memcheck/run", test_run);
  ENGINE_TEST ("/memcheck/bf16", test_bf16);
  return g_test_run ();
}
