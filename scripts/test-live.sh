#!/usr/bin/env bash
# Runs the order desk demo against an independent server: llama.cpp's own, from a prebuilt Python
# wheel, with the same weights that `weft models pull` downloads.
#
#   scripts/test-live.sh            runs the demo
#   scripts/test-live.sh --record   runs it and replaces the recording used by the tests
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=xllamacpp==2026.10.11549
target=${CARGO_TARGET_DIR:-target}
live=$target/live
model=smollm2-135m

say() { printf 'test-live: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

case "${1:-}" in
  "") ;;
  --record) export WEFT_TEST_LIVE_RECORD=1 ;;
  *) die "unknown option $1; the only one is --record" ;;
esac

command -v python3 >/dev/null || die "python3 is missing: install python3 and python3-venv"
mkdir -p "$live"
cargo build --locked --quiet -p weftwork-cli --bin weft
weights=${WEFT_MODEL_FILE:-$("$target/debug/weft" models pull "$model")}

if ! [ -x "$live/venv/bin/python" ]; then
  python3 -m venv "$live/venv" || die "the virtual environment could not be created: install python3-venv"
fi
"$live/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"

run=$(mktemp -d "$live/run.XXXXXX")
server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$live/venv/bin/python" scripts/live_server.py "$weights" "$model" "$run/url" \
  >"$live/server.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  [ -s "$run/url" ] && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.2
done
[ -s "$run/url" ] || { tail -n 20 "$live/server.log" >&2; die "the server did not start"; }

WEFT_TEST_LIVE_URL=$(cat "$run/url")
export WEFT_TEST_LIVE_URL
say "$wheel serves $weights at $WEFT_TEST_LIVE_URL"
seconds=$SECONDS
cargo test --locked --quiet -p weftwork-cli --test live -- --nocapture
say "the demo took $((SECONDS - seconds)) s; the server's own figures:"
grep -aE 'eval time' "$live/server.log" | sed 's/^.*print_timing[^|]*| *//' >&2 || true
