#!/bin/sh
# Every file of the window with strings to translate is in po/POTFILES.in, and every file that is named
# there exists.
cd "$1" || exit 1
status=0
for file in $(grep -lE '(^|[^A-Za-z_])(_|N_|ngettext) \(' app/*.c; grep -l 'translatable="yes"' ui/*.ui); do
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
exit $status
