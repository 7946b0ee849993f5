# Ports, processes and packages: what the three services have in common. Sourced, never run.

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# need COMMAND PACKAGE...: the command is there, or its Debian packages are installed when we may.
need() {
  local command=$1; shift
  command -v "$command" >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $* (for $command) ..."
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
      { apt-get update >/dev/null 2>&1 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1; } ||
      fail "apt-get could not install $*; install them by hand"
    command -v "$command" >/dev/null && return 0
  fi
  fail "$command is missing; install the Debian packages: $*"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# A port nobody listens on, below the range that the kernel gives to outgoing connections.
free_port() {
  local port
  for _ in $(seq 100); do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    listens "$port" || { echo "$port"; return 0; }
  done
  fail "no free port found on 127.0.0.1"
}

# running PIDFILE WORD: the process of the file lives and is ours (its command line has WORD), not a later one with its number.
running() {
  local pid
  pid=$(head -n 1 "$1" 2>/dev/null) && [ -n "$pid" ] || return 1
  [ -r "/proc/$pid/cmdline" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF -- "$2"
}

# end PIDFILE WORD SIGNAL SECONDS: signals and waits; after SECONDS it is killed.
end() {
  local pid tenths=0
  running "$1" "$2" || { rm -f "$1"; return 0; }
  pid=$(head -n 1 "$1")
  # A stopped process takes no other signal before it goes on.
  kill -CONT "$pid" 2>/dev/null
  kill "-$3" "$pid" 2>/dev/null
  while running "$1" "$2"; do
    sleep 0.1
    tenths=$((tenths + 1))
    if [ "$tenths" -ge $(($4 * 10)) ]; then kill -KILL "$pid" 2>/dev/null; fi
    if [ "$tenths" -ge $((($4 + 10) * 10)) ]; then say "process $pid does not end"; return 1; fi
  done
  rm -f "$1"
}

# await WHAT SECONDS PIDFILE WORD COMMAND...: until the command succeeds; fails early when the process is gone.
await() {
  local what=$1 seconds=$2 pidfile=$3 word=$4 tenths=0; shift 4
  until "$@"; do
    running "$pidfile" "$word" || { say "$what ended instead of starting"; return 1; }
    sleep 0.1
    tenths=$((tenths + 1))
    if [ "$tenths" -ge $((seconds * 10)) ]; then say "$what does not answer after $seconds s"; return 1; fi
    if [ $((tenths % 50)) = 0 ]; then say "waiting for $what ($((tenths / 10)) s) ..."; fi
  done
}
