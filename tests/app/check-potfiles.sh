#!/bin/sh
# Every file of the window and of the engine with strings to translate is in po/POTFILES.in, every file
# that is named there exists, and no text is cut by a format macro, at which xgettext stops.
cd "$1" || exit 1
status=0
for file in $(grep -lE '(^|[^A-Za-z_])(_|N_|ngettext) \(' app/*.c engine/*/*.c; grep -l 'translatable="yes"' ui/*.ui); do
  if ! grep -qx "$file" po/POTFILES.in; then
    echo "$file is missing in po/POTFILES.in"
    status=1
  fi
done
while read -r file; do
  if [ -n "$file" ] && [ ! -f "$file" ]; then
    echo "po/POTFILES.in names $file, which is not there"
    status=1
  fi
done <po/POTFILES.in
if grep -nE '(^|[^A-Za-z_])(_|N_) \("[^)]*G_G[A-Z0-9]*_FORMAT' app/*.c engine/*/*.c; then
  echo "xgettext cuts these texts at the macro; cast to long or size_t and use %ld or %zu"
  status=1
fi
exit $status
