#!/bin/sh
# Stands in for plumbline-engine in the tests of the window: `run` starts made-up runs, everything
# else is the real engine's business. FAKE_ANSWER=problems makes `run` refuse.
verb=$1
[ $# -gt 0 ] && shift
if [ "$verb" = validate ]; then
  echo '{"problems": []}'
  exit 0
fi
if [ "$verb" != run ]; then
  exec "$REAL_ENGINE" "$verb" "$@"
fi

if [ -e "$XDG_RUNTIME_DIR/refuse" ]; then
  echo '{"problems": [{"key": "rollout.samples", "value": "8", "file": null, "line": 0,'
  echo ' "message": "too many for this machine", "remedy": "take 4"}]}'
  exit 3
fi
run="$XDG_DATA_HOME/plumbline/runs/made-up-$$"
mkdir -p "$XDG_DATA_HOME/plumbline/runs"
"$MAKE_RUN" "$run" --register --spec "$1" --points 20 --live 120 --rate 10 >/dev/null 2>&1 &
while [ ! -e "$run/state.json" ]; do
  sleep 0.05
done
echo "{\"run\": \"$run\"}"
