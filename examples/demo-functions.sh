# Functions of the demos: start programs, print commands and run them, stop all programs at the end.
# The demos source this file in the root of the checkout. BIN is the directory of the programs.

BIN=$(cd "${BIN:-target/demo}" && pwd)
export PATH="$BIN:$PATH"
work=$(mktemp -d)
pids=()

finish() {
  status=$?
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if [ "$status" -ne 0 ]; then
    echo "the demo failed; last lines of the logs:" >&2
    tail -n 5 "$work"/*.log >&2 || true
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

steps=0
step() { printf '\n\033[1m== %d. %s\033[0m\n' "$((steps += 1))" "$*"; }
# Prints a command in a form that can be pasted, and runs it.
show() {
  local word line=
  for word in "$@"; do
    if [[ $word =~ [^A-Za-z0-9@:./_=-] ]]; then line+=" '$word'"; else line+=" $word"; fi
  done
  printf '\033[2m$%s\033[0m\n' "$line"
  "$@"
}
# Runs a command that must be rejected (exit code 1), not fail to connect.
refused() {
  local code=0
  show "$@" 2>&1 || code=$?
  [ "$code" -eq 1 ] || { echo "this command should be rejected, but its exit code is $code" >&2; return 1; }
}
# Starts a program and waits until it listens.
start() { # NAME COMMAND...
  local name=$1; shift
  : >"$work/$name.out" # an earlier program of this name has written its address
  "$@" >"$work/$name.out" 2>>"$work/$name.log" &
  pids+=($!); started=$!
  for _ in $(seq 300); do
    if grep -q 'listening on' "$work/$name.out"; then cat "$work/$name.out"; return 0; fi
    kill -0 "$started" 2>/dev/null || { echo "$name ended at its start" >&2; return 1; }
    sleep 0.1
  done
  echo "$name does not listen" >&2; return 1
}
address() { sed -n 's|.*listening on http://\([^ ]*\).*|\1|p' "$work/$1.out"; }
admin_of() { sed -n 's|.*listening for admin requests address=\([^ ]*\).*|http://\1|p' "$work/$1.log" | tail -1; }
stop() { kill -TERM "$1"; wait "$1"; }
until_true() { for _ in $(seq 100); do if "$@" >/dev/null 2>&1; then return 0; fi; sleep 0.1; done; "$@"; }
# Checks that an output has a text.
has() { # TEXT FILE
  grep -q -- "$1" "$work/$2" || { echo "the answer should have $1" >&2; return 1; }
}
