/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files: what is read and written, and that no header can lie. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/core/error.h"
#include "engine/model/safetensors.h"
#include "tests/unit/temporary.h"

typedef struct
{
  char *folder, *path;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->folder = temporary_folder ();
  fixture->path = g_build_filename (fixture->folder, "model.safetensors", NULL);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
}

/* A file of this header and so many bytes of data; `claimed` is the length that it tells, 0: the true one. */
static void
write_file (const char *path, const char *header, gsize bytes, guint64 claimed)
{
  g_autoptr (GByteArray) file = g_byte_array_new ();
  guint64 length = GUINT64_TO_LE (claimed ? claimed : strlen (header));
  g_autofree guint8 *data = g_malloc0 (bytes + 1);
  for (gsize i = 0; i < bytes; i++)
    data[i] = (guint8) i;
  g_byte_array_append (file, (guint8 *) &length, 8);
  g_byte_array_append (file, (const guint8 *) header, (guint) strlen (header));
  g_byte_array_append (file, data, (guint) bytes);
  g_assert_true (g_file_set_contents (path, (char *) file->data, file->len, NULL));
}

static void
assert_refused (Fixture *fixture, const char *header, gsize bytes, const char *part)
{
  g_autoptr (GError) error = NULL;
  write_file (fixture->path, header, bytes, 0);
  g_autoptr (PlumbSafetensors) file = plumb_safetensors_open (fixture->path, &error);
  if (file)
    g_error ("%s is accepted", header);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  if (!strstr (error->message, "model.safetensors") || !strstr (error->message, part))
    g_error ("%s: \"%s\" is not in: %s", header, part, error->message);
}

static void
test_lies (Fixture *fixture, gconstpointer data)
{
  g_autofree char *deep = g_strnfill (100000, '[');
#define ENTRY(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
  assert_refused (fixture, ENTRY ("\"F8_E4M3\"", "[2]", "[0,2]"), 2, "F8_E4M3");
  assert_refused (fixture, ENTRY ("\"bf16\"", "[2]", "[0,4]"), 4, "bf16");
  assert_refused (fixture, ENTRY ("7", "[2]", "[0,8]"), 8, "dtype");
  assert_refused (fixture, ENTRY ("\"F32\"", "[3]", "[0,8]"), 8, "do not fit");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[8,0]"), 8, "do not fit");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[-8,0]"), 8, "do not fit");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[0,8]"), 7, "truncated");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[4,12]"), 12, "hole");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[0,8]"), 9, "belong to none");
  assert_refused (fixture, ENTRY ("\"F32\"", "[-2]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2.0]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[\"2\"]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[[2]]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "2", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[4294967296,4294967296]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[9223372036854775807]", "[0,8]"), 8, "shape");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[0]"), 8, "data_offsets");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[0,8.5]"), 8, "data_offsets");
  assert_refused (fixture, ENTRY ("\"F32\"", "[2]", "[null,{}]"), 8, "data_offsets");
  assert_refused (fixture, "{\"t\":7}", 8, "entry t");
  assert_refused (fixture, "[]", 0, "not an object");
  assert_refused (fixture, "{", 0, "not valid JSON");
  assert_refused (fixture, deep, 0, "nested too deeply");
  assert_refused (fixture,
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlap");
}

static void
test_short_files (Fixture *fixture, gconstpointer data)
{
  static const guint64 claims[] = { 3, 1000, G_GUINT64_CONSTANT (1) << 40, G_MAXUINT64 };
  for (gsize i = 0; i < G_N_ELEMENTS (claims); i++)
    {
      g_autoptr (GError) error = NULL;
      write_file (fixture->path, "{}", 0, claims[i]);
      g_assert_null (plumb_safetensors_open (fixture->path, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
  for (gsize length = 0; length < 8; length++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (g_file_set_contents (fixture->path, "\2\0\0\0\0\0\0\0", (gssize) length, NULL));
      g_assert_null (plumb_safetensors_open (fixture->path, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
  g_autoptr (GError) error = NULL;
  g_assert_null (plumb_safetensors_open ("/nowhere/model.safetensors", &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_cmpint (plumb_error_exit_code (error), ==, PLUMB_ERROR_INVALID);
}

static void
test_types (Fixture *fixture, gconstpointer data)
{
  static const guint16 bf16[] = { 0x3f80, 0xc000, 0x7f80 };
  static const guint16 f16[] = { 0x3c00, 0xc100, 0x0001, 0x7c00, 0x8000 };
  static const float f32[] = { 1.5f, -2 };
  static const double f64[] = { G_PI };
  static const gint32 i32[] = { -7 };
  static const gint64 i64[] = { 1 << 30 };
  const PlumbTensorOut out[] = {
    { "bf16", PLUMB_TENSOR_BF16, 1, { 3 }, bf16 }, { "f16", PLUMB_TENSOR_F16, 1, { 5 }, f16 },
    { "f32", PLUMB_TENSOR_F32, 2, { 2, 1 }, f32 }, { "f64", PLUMB_TENSOR_F64, 0, { 0 }, f64 },
    { "i32", PLUMB_TENSOR_I32, 1, { 1 }, i32 },    { "i64", PLUMB_TENSOR_I64, 1, { 1 }, i64 },
    { "none", PLUMB_TENSOR_F32, 2, { 0, 5 }, f32 },
  };
  static const char *const metadata[] = { "format", "pt", "n\"", "\n", NULL };
  g_autoptr (GError) error = NULL;
  plumb_safetensors_write (fixture->path, out, G_N_ELEMENTS (out), metadata, &error);
  g_assert_no_error (error);
  g_autoptr (PlumbSafetensors) file = plumb_safetensors_open (fixture->path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_safetensors_list (file)->len, ==, G_N_ELEMENTS (out));
  g_assert_cmpstr (plumb_safetensors_metadata (file, "n\""), ==, "\n");
#define AT(name, i) plumb_tensor_get (plumb_safetensors_find (file, name), i)
  g_assert_cmpfloat (AT ("bf16", 0), ==, 1);
  g_assert_cmpfloat (AT ("bf16", 1), ==, -2);
  g_assert_true (isinf (AT ("bf16", 2)));
  g_assert_cmpfloat (AT ("f16", 0), ==, 1);
  g_assert_cmpfloat (AT ("f16", 1), ==, -2.5);
  g_assert_cmpfloat (AT ("f16", 2), ==, 0x1p-24);
  g_assert_true (isinf (AT ("f16", 3)));
  g_assert_true (signbit (AT ("f16", 4)));
  g_assert_cmpfloat (AT ("f32", 1), ==, -2);
  g_assert_cmpfloat (AT ("f64", 0), ==, G_PI);
  g_assert_cmpfloat (AT ("i32", 0), ==, -7);
  g_assert_cmpfloat (AT ("i64", 0), ==, 1 << 30);
  g_assert_cmpuint (plumb_safetensors_find (file, "none")->count, ==, 0);
  g_assert_null (plumb_safetensors_find (file, "nothing"));
  float floats[2];
  plumb_tensor_to_floats (plumb_safetensors_find (file, "f16"), 1, 2, floats);
  g_assert_cmpfloat (floats[0], ==, -2.5);
}

/* Shards by an index; names that would leave the folder are refused. */
static void
test_shards (Fixture *fixture, gconstpointer data)
{
  static const float one[] = { 1 }, two[] = { 2 };
  const PlumbTensorOut a = { "a", PLUMB_TENSOR_F32, 1, { 1 }, one }, b = { "b", PLUMB_TENSOR_F32, 1, { 1 }, two };
  g_autofree char *first = g_build_filename (fixture->folder, "x-1.safetensors", NULL);
  g_autofree char *second = g_build_filename (fixture->folder, "x-2.safetensors", NULL);
  g_autofree char *index = g_build_filename (fixture->folder, "model.safetensors.index.json", NULL);
  g_assert_true (plumb_safetensors_write (first, &a, 1, NULL, NULL));
  g_assert_true (plumb_safetensors_write (second, &b, 1, NULL, NULL));
  g_assert_true (g_file_set_contents (
      index, "{\"weight_map\":{\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\"}}", -1, NULL));
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSafetensors) both = plumb_safetensors_open_model (fixture->folder, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (plumb_tensor_get (plumb_safetensors_find (both, "b"), 0), ==, 2);
  static const char *const bad[] = {
    "{\"weight_map\":{\"a\":\"../x-1.safetensors\"}}", "{\"weight_map\":{\"a\":7}}", "{\"weight_map\":[]}", "{}", "[]",
    "{", "",
  };
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) failure = NULL;
      g_assert_true (g_file_set_contents (index, bad[i], -1, NULL));
      g_assert_null (plumb_safetensors_open_model (fixture->folder, &failure));
      g_assert_error (failure, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      g_assert_nonnull (strstr (failure->message, "index.json"));
    }
  g_assert_true (g_file_set_contents (index, "{\"weight_map\":{\"a\":\"x-1.safetensors\",\"c\":\"x-3.safetensors\"}}",
                                      -1, NULL));
  g_assert_null (plumb_safetensors_open_model (fixture->folder, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
}

/* A write that fails leaves the file of before, and nothing beside it. */
static void
test_write_fails (Fixture *fixture, gconstpointer data)
{
  static const float value[] = { 1 };
  g_autofree float *many = g_new0 (float, 100000);
  const PlumbTensorOut small = { "a", PLUMB_TENSOR_F32, 1, { 1 }, value };
  const PlumbTensorOut large = { "a", PLUMB_TENSOR_F32, 1, { 100000 }, many };
  g_autofree char *aside = g_strconcat (fixture->path, ".new", NULL);
  struct rlimit before, limit;
  g_autoptr (GError) error = NULL;
  g_assert_true (plumb_safetensors_write (fixture->path, &small, 1, NULL, NULL));
  signal (SIGXFSZ, SIG_IGN);
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  limit = before;
  limit.rlim_cur = 65536;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  gboolean written = plumb_safetensors_write (fixture->path, &large, 1, NULL, &error);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_false (written);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED);
  g_assert_false (g_file_test (aside, G_FILE_TEST_EXISTS));
  g_autoptr (PlumbSafetensors) kept = plumb_safetensors_open (fixture->path, NULL);
  g_assert_cmpuint (plumb_safetensors_find (kept, "a")->count, ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add ("/safetensors/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("types", test_types);
  ADD ("lies", test_lies);
  ADD ("short-files", test_short_files);
  ADD ("shards", test_shards);
  ADD ("write-fails", test_write_fails);
  return g_test_run ();
}
