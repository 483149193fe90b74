# Functions for the files of lab/suite/. The guest of lab/vm sources this file before each of them.
#
#   tcp_works() {
#       serve stock
#       client ours -t TCP_RR -l -100 >out
#       grep -q TCP out || fail "no TCP in $(cat out)"
#   }
#   try tcp.works tcp_works
#
# A case is a function. It runs in a subshell with `set -e`, in a new directory. When it ends, `try`
# kills all processes that it started. If it fails, its last line of output is the reason.

# Timeout of a case, in seconds. On a busy machine, some cases take more than a minute.
CASE_TIMEOUT=240

# try NAME FUNCTION [ARGUMENT...]: runs a case; prints `ok NAME, 1.2 s`, or `FAIL NAME: REASON` and
# output. The time is the guest's.
try() {
    name=$1
    shift
    case_group=/sys/fs/cgroup/case
    watchdog_group=/sys/fs/cgroup/watchdog
    log=/run/case.log
    mkdir "$case_group" "$watchdog_group"
    (
        echo 0 >"$watchdog_group/cgroup.procs"
        exec >/dev/null 2>&1
        sleep "$CASE_TIMEOUT"
        echo "timed out after $CASE_TIMEOUT s" >>"$log"
        echo 1 >"$case_group/cgroup.kill"
    ) &
    : >"$log"
    started=$(cut -d ' ' -f 1 /proc/uptime)
    (
        echo 0 >"$case_group/cgroup.procs"
        directory=$(mktemp -d)
        cd "$directory"
        set -e
        "$@"
    ) >>"$log" 2>&1 </dev/null
    code=$?
    kill_group "$case_group"
    kill_group "$watchdog_group"
    wait
    ip -all netns delete
    if [ "$code" -eq 0 ]; then
        echo "ok $name, $(echo "$started $(cat /proc/uptime)" | awk '{ printf "%.1f", $2 - $1 }') s"
        return
    fi
    reason=$(tail -n 1 "$log")
    echo "FAIL $name: ${reason:-exit code $code}"
    sed 's/^/    /' "$log"
}

# skip NAME REASON: reports a case that cannot run here.
skip() {
    echo "SKIPPED $1: $2"
}

# fail REASON: ends the case as failed.
fail() {
    echo "$@"
    exit 1
}

# serve ours|stock [OPTION...]: starts a netserver; returns when it listens on $PORT.
serve() {
    implementation=$1
    shift
    PORT=$(($(cat /run/port 2>/dev/null || echo 20000) + 1))
    echo "$PORT" >/run/port
    $FAR "$(program_path "$implementation" netserver)" -D -p "$PORT" "$@" >server.log 2>&1 &
    attempts=0
    until $FAR cat /proc/net/tcp /proc/net/tcp6 | grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$PORT") [0-9A-F:]+ 0A "; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || fail "the $implementation netserver does not listen: $(cat server.log)"
        kill -0 $! 2>/dev/null || fail "the $implementation netserver exited: $(cat server.log)"
        sleep 0.05
    done
}

# client ours|stock OPTION...: runs netperf as a client of the server that `serve` started.
client() {
    implementation=$1
    shift
    $NEAR "$(program_path "$implementation" netperf)" -H "$ADDRESS" -p "$PORT" "$@"
}

# By default, both ends run in the guest's own network namespace. `hosts` changes this.
NEAR= FAR= ADDRESS=127.0.0.1

# hosts: creates two hosts, `near` and `far`, with a veth pair between their interfaces `eth0`. The
# client runs on near (10.0.0.1, fd00::1), the server on far (10.0.0.2, fd00::2). `$NEAR COMMAND`
# runs COMMAND on near.
hosts() {
    ip netns add near
    ip netns add far
    ip link add eth0 netns near type veth peer name eth0 netns far
    for host in near far; do
        ip netns exec "$host" sysctl -q -w net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
            net.ipv6.conf.eth0.accept_dad=0
        number=1
        [ "$host" = near ] || number=2
        ip -n "$host" address add 10.0.0.$number/24 dev eth0
        ip -n "$host" address add fd00::$number/64 dev eth0
        ip -n "$host" link set lo up
        ip -n "$host" link set eth0 up
    done
    NEAR='ip netns exec near' FAR='ip netns exec far' ADDRESS=10.0.0.2
}

# program_path ours|stock netperf|netserver: prints the path of a program.
program_path() {
    case $1 in
    ours) echo "$OURS/$2" ;;
    stock) echo "$STOCK/$2" ;;
    *) fail "not 'ours' or 'stock': $1" ;;
    esac
}

# has stock|MODULE: succeeds if the guest has stock netperf, or if the kernel can load MODULE.
has() {
    case $1 in
    stock) [ -x "$STOCK/netperf" ] ;;
    *) modprobe "$1" 2>/dev/null ;;
    esac
}

# value KEY FILE: prints the value of a line KEY=VALUE, for example of netperf's -k.
value() {
    sed -n "s/^$1=//p" "$2"
}

# equal NAME ACTUAL EXPECTED: fails unless both strings are equal.
equal() {
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# within NAME VALUE MIN MAX: fails unless MIN <= VALUE <= MAX.
within() {
    awk -v value="$2" -v min="$3" -v max="$4" \
        'BEGIN { exit !(value ~ /^-?[0-9.]+(e[+-]?[0-9]+)?$/ && value + 0 >= min + 0 && value + 0 <= max + 0) }' ||
        fail "$1: '$2' is not in $3 to $4"
}

# kill_group CGROUP: kills all processes of a cgroup, and removes it.
kill_group() {
    echo 1 >"$1/cgroup.kill"
    until rmdir "$1" 2>/dev/null; do
        sleep 0.01
    done
}
