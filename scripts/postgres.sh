#!/usr/bin/env bash
# A temporary Postgres server for tests: a new cluster on a free loopback port, with synchronous
# writes, removed afterwards.
#
#   scripts/postgres.sh with COMMAND...      runs a command with the server's address in
#                                            WEFT_TEST_POSTGRES and its certificate in
#   scripts/postgres.sh serve FOLDER PORT    serves from a folder, created if it is missing,
#                                            until it is stopped; the password is in FOLDER.password
#   scripts/postgres.sh await PORT           returns when the server accepts connections
set -euo pipefail

say() { printf 'postgres: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Debian does not put the programs on the PATH; the newest version is used.
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
[ -n "$bin" ] || bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$bin/initdb" ] || die "no Postgres here; run scripts/bootstrap.sh"

# Postgres refuses to run as root, so root runs it as the user `postgres`.
as=()
if [ "$(id -u)" -eq 0 ]; then
  id postgres >/dev/null 2>&1 || die "no user postgres here; run scripts/bootstrap.sh"
  as=(setpriv --reuid=postgres --regid=postgres --init-groups --)
fi

# certify FOLDER: creates a self-signed certificate for the loopback address.
certify() {
  (umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -keyout "$1.key" -out "$1.crt" -config /dev/stdin >/dev/null 2>&1) <<'END' || die "no certificate in $1"
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = a Postgres for tests
[extensions]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:postgres.test
END
  [ "${#as[@]}" -eq 0 ] || chown postgres "$1.key" "$1.crt"
  chmod 644 "$1.crt"
}

# make FOLDER: creates a cluster.
make() {
  local secret=$1.password
  (umask 077 && head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$secret")
  mkdir -m 700 "$1"
  [ "${#as[@]}" -eq 0 ] || chown postgres "$1" "$secret"
  (cd / && "${as[@]}" "$bin/initdb" --pgdata="$1" --username=weft --pwfile="$secret" \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >"$1.log" 2>&1) || {
    cat "$1.log" >&2
    die "no cluster could be made in $1"
  }
  certify "$1"
}

# serve FOLDER PORT: replaces this process with the server.
serve() {
  [ -d "$1" ] || make "$1"
  cd /
  exec "${as[@]}" "$bin/postgres" -D "$1" -p "$2" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=200 -c shared_buffers=64MB \
    -c ssl=on -c ssl_cert_file="$1.crt" -c ssl_key_file="$1.key" \
    -c fsync=on -c synchronous_commit=on -c log_min_messages=error </dev/null
}

ready() { "$bin/pg_isready" -q -h 127.0.0.1 -p "$1"; }

# await PORT: waits for up to a minute.
await() {
  for _ in $(seq 600); do
    ! ready "$1" || return 0
    sleep 0.1
  done
  die "no server accepts connections on port $1"
}

server=
folder=

# start FOLDER: serves on a free port.
start() {
  local port
  for _ in 1 2 3 4 5 6 7 8 9; do
    port=$((20000 + RANDOM % 20000))
    ! ready "$port" || continue
    serve "$1" "$port" >>"$1.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
      kill -0 "$server" 2>/dev/null || break
      if ready "$port"; then
        found=$port
        return
      fi
      sleep 0.1
    done
    stop
  done
  cat "$1.log" >&2
  die "it does not start"
}

stop() {
  [ -n "$server" ] || return 0
  kill -INT "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}

with() {
  local password
  folder=$(mktemp -d)
  # Other users may traverse the folder, but not read it.
  chmod 711 "$folder"
  trap 'stop; rm -rf "$folder"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make "$folder/data"
  start "$folder/data"
  password=$(cat "$folder/data.password")
  WEFT_TEST_POSTGRES_CERTIFICATE=$folder/data.crt \
    WEFT_TEST_POSTGRES="postgres://weft:$password@127.0.0.1:$found/postgres" "$@"
}

case "${1:-}" in
  with) shift; [ "$#" -gt 0 ] || die "with what command?"; with "$@" ;;
  serve) [ "$#" -eq 3 ] || die "usage: serve FOLDER PORT"; serve "$2" "$3" ;;
  await) [ "$#" -eq 2 ] || die "usage: await PORT"; await "$2" ;;
  *) die "expected: with COMMAND..., serve FOLDER PORT, or await PORT" ;;
esac
