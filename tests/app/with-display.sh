#!/bin/sh
# Runs a test in an X server and a session bus of its own; where there is no Xvfb it says so in TAP.
for program in Xvfb xauth dbus-run-session; do
  if ! command -v "$program" >/dev/null 2>&1; then
    echo "1..0 # SKIP $program is not installed"
    exit 0
  fi
done

folder=$(mktemp -d) || exit 1
# A test that fails half way leaves no run behind.
clean_up() {
  for file in "$folder"/STATE/plumbline/runs/*; do
    [ -f "$file" ] && [ -n "${REAL_ENGINE:-}" ] || continue
    "$REAL_ENGINE" stop "$(cat "$file")" --kill >/dev/null 2>&1
  done
  rm -rf "$folder"
}
trap clean_up EXIT INT TERM
mkdir -m 700 "$folder/runtime"
for name in CONFIG DATA CACHE STATE; do
  mkdir "$folder/$name"
  export "XDG_${name}_HOME=$folder/$name"
done
export XDG_RUNTIME_DIR="$folder/runtime" HOME="$folder"
export GDK_BACKEND=x11 GDK_SCALE=1 GSK_RENDERER=cairo GSETTINGS_BACKEND=memory ADW_DISABLE_PORTAL=1
export GTK_A11Y="${GTK_A11Y:-none}" NO_AT_BRIDGE=1
unset GTK_THEME WAYLAND_DISPLAY DISPLAY

# What the daemons of the bus say is not TAP: only the test itself writes to stdout.
dbus-run-session -- xvfb-run -a -s "-screen 0 ${SCREEN:-1280x800x24}" \
  sh -c 'exec "$@" >&3 3>&-' sh "$@" 3>&1 >&2
