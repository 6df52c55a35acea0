#!/usr/bin/env bash
# Installs the project's prerequisites on a fresh Debian machine with a Rust toolchain. Prints and
# changes nothing if everything is installed.
#
#   scripts/bootstrap.sh           what `make test` and `make demo` need
#   scripts/bootstrap.sh --full    also what `make test-full` needs
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least FOUND WANTED: succeeds if FOUND is at least version WANTED.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# have_postgres: succeeds if scripts/postgres.sh will find Postgres. Debian does not put its
# programs on the PATH.
have_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || have pg_config; }

# value KEY FILE: prints a string from a TOML file.
value() { sed -n "s/^$1 *= *\"\([^\"]*\)\".*/\1/p" "$2" | head -n 1; }

# packages NAME...: installs Debian packages, if permitted.
packages() {
  local run=()
  if ! have apt-get; then
    die "missing: $*; install the equivalent packages with your system's package manager"
  elif [ "$(id -u)" -ne 0 ]; then
    if have sudo && sudo -n true 2>/dev/null; then
      run=(sudo)
    else
      die "missing: $*; run: sudo apt-get update && sudo apt-get install -y $*"
    fi
  fi
  say "installing Debian packages: $*"
  "${run[@]}" apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

system() {
  local missing=()
  have cc || missing+=(gcc libc6-dev)
  have make || missing+=(make)
  have git || missing+=(git)
  have_postgres || missing+=(postgresql)
  # A pooler before the database, which the store refuses.
  [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
  # Published MCP servers, which the tests call.
  have node || missing+=(nodejs)
  have npm || missing+=(npm)
  # Pages of chats, which the tests open.
  have chromium || missing+=(chromium)
  have python3 || missing+=(python3)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  # A service that the tests ask.
  [ "$extent" = fast ] || have docker-registry || missing+=(docker-registry)
  [ "${#missing[@]}" -eq 0 ] || packages "${missing[@]}"
}

rust() {
  local wanted found
  wanted=$(value rust-version Cargo.toml)
  have cargo && have rustc || die "no Rust toolchain; install Rust $wanted or newer from https://rustup.rs"
  found=$(rustc --version | cut -d ' ' -f 2)
  at_least "$found" "$wanted" || die "rustc $found is too old; install $wanted or newer: rustup update stable"
  for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 && continue
    have rustup || die "cargo $part is missing; install it beside your Rust toolchain"
    say "adding cargo $part"
    rustup component add "${part/#fmt/rustfmt}"
  done
}

# tool NAME ARG...: installs a pinned version of a cargo subcommand, built with the given arguments.
tool() {
  local name=$1 wanted found
  shift
  wanted=$(value "$name" tools.toml)
  found=$(cargo "${name#cargo-}" --version 2>/dev/null | sed -n '1s/^[^ ]* \([0-9.]*\).*/\1/p' || true)
  if [ -n "$found" ] && at_least "$found" "$wanted"; then
    return
  fi
  say "installing $name $wanted${found:+ in place of $found}; this takes some minutes"
  # Runs outside the repository, so that its compiler flags and target folder do not apply.
  (cd / && env -u CARGO_TARGET_DIR cargo install --quiet --locked --force "$name" --version "$wanted" "$@")
}

case "${1:-}" in
  "") extent=fast ;;
  --full) extent=full ;;
  *) die "unknown option $1; the only one is --full" ;;
esac
system
rust
tool cargo-nextest --no-default-features --features default-no-update
[ "$extent" = fast ] || tool cargo-deny --no-default-features
