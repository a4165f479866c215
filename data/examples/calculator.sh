#!/bin/sh
# An environment for rollout.environment: a calculator. The model may write an expression of + - * / and brackets
# between <calc> and </calc>; the result comes back as an observation. An answer without one ends the episode, and is
# worth 1 if its last number is the right answer. One JSON line in, one out; needs jq and bc.
last_number() { tr -c '0-9.-' '\n' | sed 's/[.-]*$//' | grep '[0-9]' | tail -n 1; }

while read -r line; do
  action=$(printf '%s' "$line" | jq -r .action)
  expression=$(printf '%s' "$action" | tr '\n' ' ' | sed -n 's/.*<calc>\([-0-9.+*/() ]*\)<\/calc>.*/\1/p')
  if [ -n "$expression" ]; then
    result=$(printf 'scale=6\n%s\n' "$expression" | timeout 2 bc 2>/dev/null | head -n 1)
    printf '{"observation": "<result>%s</result>"}\n' "${result:-error}"
    continue
  fi
  answer=$(printf '%s' "$line" | jq -r '.answer // ""')
  last=$(printf '%s' "$action" | last_number)
  right=$(printf '%s' "$answer" | last_number)
  if [ -n "$last" ] && [ "$last" = "$right" ]; then
    echo '{"done": true, "reward": 1}'
  else
    echo '{"done": true, "reward": 0}'
  fi
done
