#!/usr/bin/env bash
# Kafka in KRaft mode, from its jars: no container, no installation.
# kafka.sh need           packages and jars (once, cached)
# kafka.sh up DIR         a new broker with empty data; prints its address
# kafka.sh stop|kill DIR  ends it (TERM, or KILL as in a crash), data and port stay
# kafka.sh start DIR      starts it again
# kafka.sh down DIR       ends it and removes its data
# kafka.sh cluster DIR    three new brokers in DIR/node-1 to DIR/node-3, each a DIR for the commands above; prints their addresses
# kafka.sh tool CLASS ... runs one of Kafka's own tools, such as org.apache.kafka.tools.TopicCommand
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/processes.sh"

version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/kafka-pom.xml")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/mailrail"
jars="$cache/kafka-$version"

need_all() {
  need java default-jre-headless
  [ -d "$jars" ] && return 0
  need mvn maven
  say "fetching Kafka $version with Maven (about 54 MB, once) ..."
  mkdir -p "$cache"
  local fresh
  fresh=$(mktemp -d "$cache/kafka.XXXXXX")
  # Maven keeps its target folder beside the pom: a copy keeps the checkout clean.
  cp "$here/kafka-pom.xml" "$fresh/pom.xml"
  mvn -q -B -f "$fresh/pom.xml" dependency:copy-dependencies -DoutputDirectory="$fresh/jars" >"$fresh/mvn.log" 2>&1 ||
    { tail -n 20 "$fresh/mvn.log" >&2; rm -rf "$fresh"; fail "Maven could not fetch Kafka $version"; }
  # Whole or not at all, also when two runs fetch at once.
  mv -T "$fresh/jars" "$jars" 2>/dev/null || [ -d "$jars" ] || fail "cannot write $jars"
  rm -rf "$fresh"
}

broker_java() { java -cp "$jars/*" "$@"; }

# ApiVersions version 0: any broker answers it once it takes requests.
answers() {
  local port=$1
  listens "$port" || return 1
  [ -n "$(timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" &&
    printf "\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff" >&3 && head -c 8 <&3 | od -An -tx1' "$port" 2>/dev/null)" ]
}

# configure DATA PORT CONTROLLER_PORT [NODE VOTERS COPIES]
configure() {
  local data=$1 port=$2 controller=$3 node=${4:-1} voters=${5:-1@127.0.0.1:$3} copies=${6:-1}
  # Each segment maps two index files of this size, full of holes. With 10 MiB, the default, the kernel made pages of zeros of them for
  # every new partition: as much CPU time in a short run as all its requests. 256 KiB are enough for 85 MB of records.
  cat >"$data/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data/log
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
min.insync.replicas=$((copies > 1 ? copies - 1 : 1))
offsets.topic.num.partitions=5
offsets.topic.replication.factor=$copies
transaction.state.log.min.isr=$((copies > 1 ? copies - 1 : 1))
transaction.state.log.num.partitions=5
transaction.state.log.replication.factor=$copies
num.partitions=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
log.index.size.max.bytes=262144
PROPERTIES
}

start() {
  local data=$1/kafka port
  [ -f "$data/server.properties" ] || fail "no Kafka at $1; use: kafka.sh up $1"
  running "$data/pid" "$data/server.properties" && return 0
  port=$(cat "$data/port")
  setsid java "${KAFKA_HEAP:--Xmx512m}" -cp "$jars/*" kafka.Kafka "$data/server.properties" >>"$data/broker.log" 2>&1 </dev/null &
  echo $! >"$data/pid"
  # The name of the new process is the script's until java is running.
  for _ in $(seq 50); do running "$data/pid" "$data/server.properties" && break; sleep 0.1; done
  await "Kafka at 127.0.0.1:$port" 60 "$data/pid" "$data/server.properties" answers "$port" ||
    { tail -n 15 "$data/broker.log" >&2; return 1; }
}

up() {
  local dir=$1 data=$1/kafka
  down "$dir"
  echo $$ >"$dir/kafka.starting"
  for attempt in 1 2 3; do
    mkdir -p "$data"
    free_port >"$data/port"
    configure "$data" "$(cat "$data/port")" "$(free_port)"
    broker_java kafka.tools.StorageTool format -t "$(broker_java kafka.tools.StorageTool random-uuid 2>/dev/null)" \
      -c "$data/server.properties" >"$data/format.log" 2>&1 || { cat "$data/format.log" >&2; fail "Kafka's storage cannot be formatted"; }
    # Another program may have taken the port meanwhile: try another one.
    if start "$dir"; then
      rm -f "$dir/kafka.starting"
      echo "127.0.0.1:$(cat "$data/port")"
      return 0
    fi
    say "Kafka did not start (attempt $attempt)"
    remove "$dir"
  done
  fail "Kafka did not start"
}

# Three brokers that are controllers too, and must all be started before any of them answers.
cluster() {
  local dir=$1 node uuid voters= addresses= failed=
  local -a pids=() ports=() controllers=()
  for node in 1 2 3; do
    down "$dir/node-$node"
    mkdir -p "$dir/node-$node/kafka"
    ports[node]=$(free_port)
    controllers[node]=$(free_port)
    voters+="${voters:+,}$node@127.0.0.1:${controllers[node]}"
    addresses+="${addresses:+,}127.0.0.1:${ports[node]}"
  done
  uuid=$(broker_java kafka.tools.StorageTool random-uuid 2>/dev/null)
  for node in 1 2 3; do
    local data=$dir/node-$node/kafka
    echo "${ports[node]}" >"$data/port"
    configure "$data" "${ports[node]}" "${controllers[node]}" "$node" "$voters" 3
    broker_java kafka.tools.StorageTool format -t "$uuid" -c "$data/server.properties" >"$data/format.log" 2>&1 ||
      { cat "$data/format.log" >&2; fail "Kafka's storage cannot be formatted"; }
  done
  for node in 1 2 3; do
    KAFKA_HEAP=-Xmx384m start "$dir/node-$node" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  if [ -n "$failed" ]; then
    for node in 1 2 3; do down "$dir/node-$node"; done
    fail "the cluster did not start"
  fi
  echo "$addresses"
}

down() {
  # An up whose caller was killed goes on by itself.
  end "$1/kafka.starting" "kafka.sh up" TERM 5
  remove "$1"
}

remove() {
  end "$1/kafka/pid" "$1/kafka/server.properties" KILL 5
  rm -rf "$1/kafka"
}

command=${1:-}
if [ "$command" = need ]; then need_all; exit 0; fi
if [ "$command" = tool ] && [ $# -ge 2 ]; then need_all; shift; broker_java "$@"; exit; fi
[ $# = 2 ] || { sed -n '2,10s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
case $command in
  up) need_all; up "$dir" ;;
  start) start "$dir" ;;
  stop) end "$dir/kafka/pid" "$dir/kafka/server.properties" TERM 30 ;;
  kill) end "$dir/kafka/pid" "$dir/kafka/server.properties" KILL 5 ;;
  down) down "$dir" ;;
  cluster) need_all; cluster "$dir" ;;
  *) fail "unknown command: $command" ;;
esac
