#!/bin/sh
# Runs a test in an X server and a session bus of its own; where there is no Xvfb it says so in TAP.
for program in Xvfb xauth dbus-run-session; do
  if ! command -v "$program" >/dev/null 2>&1; then
    echo "1..0 # SKIP $program is not installed"
    exit 0
  fi
done

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT INT TERM
mkdir -m 700 "$folder/runtime"
for name in CONFIG DATA CACHE STATE; do
  mkdir "$folder/$name"
  export "XDG_${name}_HOME=$folder/$name"
done
export XDG_RUNTIME_DIR="$folder/runtime" HOME="$folder"
export GDK_BACKEND=x11 GDK_SCALE=1 GSK_RENDERER=cairo GSETTINGS_BACKEND=memory ADW_DISABLE_PORTAL=1
export GTK_A11Y="${GTK_A11Y:-none}" NO_AT_BRIDGE=1
unset GTK_THEME WAYLAND_DISPLAY DISPLAY

dbus-run-session -- xvfb-run -a -s "-screen 0 ${SCREEN:-1280x800x24}" "$@"
