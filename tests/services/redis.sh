#!/usr/bin/env bash
# One Redis server, on 127.0.0.1 only, nothing on disk.
# redis.sh need      packages
# redis.sh up DIR    a new server; prints its URL
# redis.sh down DIR  ends it
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/processes.sh"

pings() { [ "$(redis-cli -h 127.0.0.1 -p "$1" ping 2>/dev/null)" = PONG ]; }

up() {
  local dir=$1 data=$1/redis port
  down "$dir"
  echo $$ >"$dir/redis.starting"
  mkdir -p "$data"
  for attempt in 1 2 3; do
    port=$(free_port)
    echo "$port" >"$data/port"
    setsid redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$data" --daemonize no \
      >"$data/server.log" 2>&1 </dev/null &
    echo $! >"$data/pid"
    for _ in $(seq 50); do running "$data/pid" redis-server && break; sleep 0.1; done
    if await "Redis at 127.0.0.1:$port" 20 "$data/pid" redis-server pings "$port"; then
      rm -f "$dir/redis.starting"
      echo "redis://127.0.0.1:$port/"
      return 0
    fi
    say "Redis did not start (attempt $attempt)"
    tail -n 5 "$data/server.log" >&2
  done
  fail "Redis did not start"
}

down() {
  # An up whose caller was killed goes on by itself.
  end "$1/redis.starting" "redis.sh up" TERM 5
  # The server shows its address in its command line: another server with the same number is not ours.
  [ ! -f "$1/redis/port" ] || end "$1/redis/pid" "127.0.0.1:$(cat "$1/redis/port")" TERM 10
  rm -rf "$1/redis"
}

command=${1:-}
if [ "$command" = need ]; then need redis-server redis-server; need redis-cli redis-tools; exit 0; fi
[ $# = 2 ] || { sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
case $command in
  up) need redis-server redis-server; need redis-cli redis-tools; up "$dir" ;;
  down) down "$dir" ;;
  *) fail "unknown command: $command" ;;
esac
