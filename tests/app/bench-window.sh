#!/bin/sh
# Figures of the window: how long a run of 20 metrics x 50,000 points takes to open, from the click until
# its charts are drawn, and what live charts cost of one core. To be run by with-display.sh.
set -u

app=$1
bus=org.plumbline.Plumbline
log="$XDG_CACHE_HOME/app.log"
big="$XDG_DATA_HOME/big"
live="$XDG_DATA_HOME/live"

activate() { # activate ACTION [TEXT]
  argument="[]"
  [ $# -gt 1 ] && argument="[<'$2'>]"
  gdbus call --session --dest $bus --object-path /org/plumbline/Plumbline/window/1 \
    --method org.gtk.Actions.Activate "$1" "$argument" '{}' >/dev/null 2>&1
}

ticks() { # of the processor, used by the window so far
  awk '{ print $14 + $15 }' /proc/$pid/stat
}

# From the click to the moment when each chart in sight has been drawn with all points.
opening() { # opening LOG
  awk '
    function ms(clock, part) { split(clock, part, /[:.]/); return ((part[1] * 60 + part[2]) * 60 + part[3]) * 1000 + part[4] }
    match($0, /[0-9]+:[0-9]+:[0-9]+\.[0-9]+/) { now = ms(substr($0, RSTART, RLENGTH)) }
    / page built after / { start = now - $(NF - 1) }
    / rows of / { read = now - start }
    / chart .* drawn / && read {
      name = $0; sub(/.* chart /, "", name); sub(/ drawn .*/, "", name)
      if (!(name in seen) && now - start < 2 * read + 200) { seen[name] = 1; last = now - start; n++ }
    }
    END { printf "open: %d ms, of which reading %d ms; %d charts (limit 300)\n", last, read, n }' "$1"
}

cpu() { # cpu VIEW
  activate view "$1"
  sleep 3
  before=$(ticks)
  sleep 10
  awk -v ticks=$(($(ticks) - before)) -v hz="$(getconf CLK_TCK)" -v view="$1" \
    'BEGIN { printf "live %-9s %5.1f %% of one core (limit 10)\n", view, 100 * ticks / hz / 10 }'
}

echo "writing 1,000,000 points"
"$MAKE_RUN" "$big" --name big --points 50000 --metrics 20 --no-samples || exit 1
"$MAKE_RUN" "$live" --name live --points 2000 --live 120 --rate 4 >/dev/null 2>&1 &
writer=$!

for attempt in 1 2 3 4 5; do
  G_MESSAGES_DEBUG=plumbline "$app" >"$log" 2>&1 &
  pid=$!
  until activate new-run; do sleep 0.1; done
  sleep 1
  activate open-run "$big"
  sleep 2
  kill $pid
  wait $pid 2>/dev/null
  opening "$log"
done

"$app" >"$log" 2>&1 &
pid=$!
until activate open-run "$live"; do sleep 0.1; done
for view in overview charts rollouts timeline details; do
  cpu $view
done
kill $pid $writer
wait 2>/dev/null
exit 0
