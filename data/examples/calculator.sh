#!/bin/sh
# An environment for rollout.environment: a calculator. The model may write an expression of + - * / and brackets
# between <calc> and </calc>; the result comes back as an observation. An answer without one ends the episode, and is
# worth 1 if its last number is the right answer. One JSON line in, one out; needs awk alone.
exec awk '
# The text of a member of the line, its escapes undone as far as numbers need it; "" without.
function member(line, name,    start, at, c, text) {
  if (!match(line, "\"" name "\"[ ]*:[ ]*\"")) return ""
  for (at = RSTART + RLENGTH; at <= length(line); at++) {
    c = substr(line, at, 1)
    if (c == "\"") return text
    if (c == "\\") {
      c = substr(line, ++at, 1)
      if (c == "u") {
        c = tolower(substr(line, at + 1, 4)); at += 4
        c = c == "003c" ? "<" : c == "003e" ? ">" : c == "002f" ? "/" : " "
      } else if (index("nrtbf", c) > 0) c = " "
    }
    text = text c
  }
  return ""
}

function last_number(text,    found) {
  while (match(text, /-?[0-9]+([.][0-9]+)?/)) {
    found = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
  }
  return found
}

# Sums of products of numbers and brackets; `wrong` where the expression is none.
function sum(    value, sign) {
  value = product()
  while (!wrong && (sign = substr(rest, 1, 1)) ~ /[-+]/ && sign != "") {
    rest = substr(rest, 2)
    value = sign == "+" ? value + product() : value - product()
  }
  return value
}

function product(    value, sign, right) {
  value = factor()
  while (!wrong && (sign = substr(rest, 1, 1)) ~ /[*\/]/ && sign != "") {
    rest = substr(rest, 2)
    right = factor()
    if (sign == "/" && right == 0) wrong = 1
    else value = sign == "*" ? value * right : value / right
  }
  return value
}

function factor(    value) {
  if (++depth > 500) wrong = 1
  if (!wrong && substr(rest, 1, 1) == "-") { rest = substr(rest, 2); value = -factor() }
  else if (!wrong && substr(rest, 1, 1) == "(") {
    rest = substr(rest, 2)
    value = sum()
    if (substr(rest, 1, 1) != ")") wrong = 1
    rest = substr(rest, 2)
  }
  else if (!wrong && match(rest, /^[0-9]+([.][0-9]+)?/)) {
    value = substr(rest, 1, RLENGTH) + 0
    rest = substr(rest, RLENGTH + 1)
  }
  else wrong = 1
  depth--
  return value
}

function result(expression,    value) {
  gsub(/ /, "", expression)
  rest = expression; wrong = 0; depth = 0
  value = sum()
  if (wrong || rest != "") return "error"
  value = sprintf("%.6f", value)
  sub(/0+$/, "", value)
  sub(/[.]$/, "", value)
  return value == "-0" ? "0" : value
}

{
  action = member($0, "action")
  right = last_number(member($0, "answer"))
  last = last_number(action)
  if (match(action, /<calc>[-0-9.+*\/() ]*<\/calc>/))
    printf "{\"observation\": \"<result>%s</result>\"}\n", result(substr(action, RSTART + 6, RLENGTH - 13))
  else
    printf "{\"done\": true, \"reward\": %d}\n", last != "" && last "" == right ""
  fflush()
}'
