#!/usr/bin/env bash
# Installs published MCP servers for tests, below the target folder, and runs a command that finds
# them in the folder WEFT_TEST_MCP_SERVERS. Installs nothing if they are there.
#
#   scripts/mcp-servers.sh with COMMAND ARG...
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'mcp-servers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ "${1:-}" = with ] && [ $# -ge 2 ] || die "usage: scripts/mcp-servers.sh with COMMAND ARG..."
shift

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/mcp-servers")
pins=$(sha256sum scripts/mcp-servers.sh | cut -d ' ' -f 1)

# venv NAME REQUIREMENT...: creates a Python environment with these packages.
venv() {
  local name=$1
  shift
  python3 -m venv "$folder/$name"
  "$folder/$name/bin/pip" install --quiet --disable-pip-version-check "$@"
}

install() {
  command -v npm >/dev/null || die "npm is missing; run scripts/bootstrap.sh"
  command -v python3 >/dev/null || die "python3 is missing; run scripts/bootstrap.sh"
  say "installing into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --prefix "$folder" --silent --no-audit --no-fund \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/server-memory@2026.8.31
  venv python mcp-server-time==2026.10.19 mcp-server-git==2026.10.19
  # This server was written for the first major version of its library.
  venv python-mcp1 mcp-server-sqlite==2025.4.25 'mcp<2'
  printf '%s' "$pins" >"$folder/installed"
}

[ "$(cat "$folder/installed" 2>/dev/null)" = "$pins" ] || install
WEFT_TEST_MCP_SERVERS=$folder exec "$@"
