#!/usr/bin/env bash
# One Postgres server from the Debian package, on 127.0.0.1 only, no password.
# postgres.sh need      packages
# postgres.sh up DIR    a new server with empty data; prints its URL
# postgres.sh down DIR  ends it and removes its data
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/processes.sh"

# Debian keeps the server programs out of PATH, one folder a version: the newest.
programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

need_all() {
  [ -n "$(programs)" ] || command -v initdb >/dev/null || need /usr/lib/postgresql/15/bin/initdb postgresql
}

# The server refuses to run as root.
as_server() {
  if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi
}

up() {
  local dir=$1 bin data port
  down "$dir"
  echo $$ >"$dir/postgres.starting"
  bin=$(programs)
  # Not below DIR: the server's user may be unable to enter it.
  data=$(mktemp -d "${TMPDIR:-/tmp}/mailrail-postgres.XXXXXX")
  echo "$data" >"$dir/postgres"
  [ "$(id -u)" != 0 ] || chown postgres "$data"
  as_server "${bin:+$bin/}initdb" -D "$data/data" -U postgres -A trust -E UTF8 --no-locale >"$dir/postgres.log" 2>&1 ||
    { cat "$dir/postgres.log" >&2; fail "initdb failed"; }
  for attempt in 1 2 3; do
    port=$(free_port)
    if as_server "${bin:+$bin/}pg_ctl" -D "$data/data" -w -t 60 -l "$data/server.log" \
      -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=''" start >>"$dir/postgres.log" 2>&1 </dev/null; then
      rm -f "$dir/postgres.starting"
      echo "postgres://postgres@127.0.0.1:$port/postgres"
      return 0
    fi
    say "Postgres did not start (attempt $attempt)"
    tail -n 5 "$data/server.log" >&2 || true
  done
  fail "Postgres did not start"
}

down() {
  local data
  # An up whose caller was killed goes on by itself.
  end "$1/postgres.starting" "postgres.sh up" TERM 5
  data=$(cat "$1/postgres" 2>/dev/null) || return 0
  end "$data/data/postmaster.pid" "$data/data" INT 15
  # An initdb that was left alone writes for a moment longer.
  case $data in */mailrail-postgres.??????)
    for _ in $(seq 50); do rm -rf "$data" 2>/dev/null && break; sleep 0.1; done ;;
  esac
  rm -f "$1/postgres" "$1/postgres.log"
}

command=${1:-}
if [ "$command" = need ]; then need_all; exit 0; fi
[ $# = 2 ] || { sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
case $command in
  up) need_all; up "$dir" ;;
  down) down "$dir" ;;
  *) fail "unknown command: $command" ;;
esac
