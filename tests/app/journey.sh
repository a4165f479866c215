#!/bin/sh
# A person's way through the program, driven over D-Bus by the window's own actions: first start, a new
# run from a preset, its views, stop, continue, a run killed from outside, the window closed and opened
# again. Takes a picture of every page in light and dark, wide and narrow, into $PICTURES if that is set.
# To be run by with-display.sh. Prints TAP.
set -u

app=$1
number=0
failed=0
log="$XDG_CACHE_HOME/app.log"
bus=org.plumbline.Plumbline
window=/org/plumbline/Plumbline/window

report() { # report STATUS NAME
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    failed=1
  fi
}

activate() { # activate ACTION [TEXT]
  argument="[]"
  [ $# -gt 1 ] && argument="[<'$2'>]"
  gdbus call --session --dest $bus --object-path "$window/$serial" \
    --method org.gtk.Actions.Activate "$1" "$argument" '{}' >/dev/null
}

enabled() { # enabled ACTION
  gdbus call --session --dest $bus --object-path "$window/$serial" \
    --method org.gtk.Actions.Describe "$1" 2>/dev/null | grep -q '^((true,'
}

state() { # state RUN: as the engine sees it
  "$REAL_ENGINE" status "$1" --json 2>/dev/null | sed -n 's/.*"state" *: *"\([a-z_]*\)".*/\1/p' | head -n 1
}

newest() {
  for file in "$XDG_STATE_HOME"/plumbline/runs/*; do
    [ -f "$file" ] && cat "$file" && return
  done
  return 1
}

until_true() { # until_true SECONDS COMMAND...
  tries=$(($1 * 10))
  shift
  while [ $tries -gt 0 ]; do
    "$@" >/dev/null 2>&1 && return 0
    tries=$((tries - 1))
    sleep 0.1
  done
  return 1
}

is_state() { [ "$(state "$1")" = "$2" ]; }

start_app() { # start_app SCHEME
  ADW_DEBUG_COLOR_SCHEME=$1 "$app" >>"$log" 2>&1 &
  pid=$!
  serial=$2
  until_true 10 enabled new-run
}

stop_app() {
  gdbus call --session --dest $bus --object-path /org/plumbline/Plumbline \
    --method org.gtk.Actions.Activate quit '[]' '{}' >/dev/null
  wait $pid
}

picture() { # picture NAME
  [ -n "${PICTURES:-}" ] || return 0
  command -v import >/dev/null 2>&1 || return 0
  sleep 1
  import -window root "$PICTURES/$1.png"
}

resize() { # resize WIDTH HEIGHT
  command -v xdotool >/dev/null 2>&1 || return 0
  id=$(xdotool search --onlyvisible --pid $pid 2>/dev/null | tail -n 1)
  xdotool windowsize "$id" "$1" "$2" windowmove "$id" 0 0
}

pictures_of() { # pictures_of RUN NAME
  activate open-run "$1"
  for view in overview charts rollouts timeline details; do
    activate view $view
    picture "$2-$view"
  done
  activate new-run
  picture "$2-new-run"
}

echo "1..14"
command -v openbox >/dev/null 2>&1 && openbox >/dev/null 2>&1 &

start_app prefer-light 1
report $? "the program starts and offers a new run"
enabled stop
[ $? -ne 0 ]
report $? "nothing can be stopped where nothing runs"

activate preset arithmetic
activate set run.seed=7
until_true 5 enabled start
report $? "the preset can be started"
activate start
until_true 20 enabled stop
report $? "the started run opens and can be stopped"
run=$(newest)
is_state "$run" running
report $? "the engine says that it is running"

stop_app
report $? "the window closes"
is_state "$run" running
report $? "the run goes on without a window"

start_app prefer-dark 1
activate open-run "$run"
until_true 10 enabled stop
report $? "a new window finds it"
for view in charts rollouts timeline details overview; do
  activate view $view
  sleep 0.3
done
kill -0 $pid
report $? "every view opens"

activate stop
until_true 15 is_state "$run" stopped
report $? "stop ends it"
until_true 5 enabled continue
report $? "it can be continued"

"$MAKE_RUN" "$XDG_DATA_HOME/victim" --register --name victim --points 120 --live 60 >/dev/null 2>&1 &
victim=$!
until_true 10 is_state "$XDG_DATA_HOME/victim" running
activate open-run "$XDG_DATA_HOME/victim"
until_true 5 enabled kill
kill -9 $victim
until_true 5 enabled continue
report $? "a killed run is seen within five seconds"

if [ -n "${PICTURES:-}" ]; then
  resize 1280 800
  pictures_of "$XDG_DATA_HOME/victim" dark-wide
  resize 400 700
  pictures_of "$XDG_DATA_HOME/victim" dark-narrow
  stop_app
  start_app prefer-light 1
  resize 1280 800
  pictures_of "$XDG_DATA_HOME/victim" light-wide
  resize 400 700
  pictures_of "$XDG_DATA_HOME/victim" light-narrow
fi

stop_app
report $? "the program ends by itself"
! grep -E 'CRITICAL|WARNING|ERROR' "$log" | grep -v 'dconf\|fd limit\|portal\|Notifications' | sed 's/^/# /' | grep .
report $? "it had nothing to complain about"
exit $failed
