# What the files of lab/suite/ are written with; sourced before each of them, in the guest of lab/vm.
#
#   tcp_works() {
#       serve stock
#       client ours -t TCP_RR -l -100 >out
#       grep -q TCP out || fail "no TCP in $(cat out)"
#   }
#   try tcp.works tcp_works
#
# A case is a function. It runs in a subshell with `set -e`, in an empty directory of its own, and
# everything that it started is killed when it ends. The last line that it printed is why it failed.

# Seconds after which a case hangs; on a busy machine some take more than a minute.
LIMIT=240

# try NAME FUNCTION [ARGUMENT...]: prints `ok NAME`, or `FAIL NAME: why` and what the case printed.
try() {
    name=$1
    shift
    group=/sys/fs/cgroup/case
    watch=/sys/fs/cgroup/watch
    log=/run/case.log
    mkdir "$group" "$watch"
    (
        echo 0 >"$watch/cgroup.procs"
        exec >/dev/null 2>&1
        sleep "$LIMIT"
        echo "not done after $LIMIT s" >>"$log"
        echo 1 >"$group/cgroup.kill"
    ) &
    : >"$log"
    (
        echo 0 >"$group/cgroup.procs"
        directory=$(mktemp -d)
        cd "$directory"
        set -e
        "$@"
    ) >>"$log" 2>&1 </dev/null
    code=$?
    empty "$group"
    empty "$watch"
    wait
    ip -all netns delete
    if [ "$code" -eq 0 ]; then
        echo "ok $name"
        return
    fi
    why=$(tail -n 1 "$log")
    echo "FAIL $name: ${why:-exit code $code}"
    sed 's/^/    /' "$log"
}

# skip NAME WHY: a case that cannot be tried here.
skip() {
    echo "SKIPPED $1: $2"
}

# fail WHY: ends the case.
fail() {
    echo "$@"
    exit 1
}

# serve ours|stock [OPTION...]: a netserver of that make, which listens at $PORT when this returns.
serve() {
    make=$1
    shift
    PORT=$(($(cat /run/port 2>/dev/null || echo 20000) + 1))
    echo "$PORT" >/run/port
    $FAR "$(program "$make" netserver)" -D -p "$PORT" "$@" >server.log 2>&1 &
    waits=0
    until $FAR cat /proc/net/tcp /proc/net/tcp6 | grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$PORT") [0-9A-F:]+ 0A "; do
        waits=$((waits + 1))
        [ "$waits" -lt 200 ] || fail "the $make netserver does not listen: $(cat server.log)"
        kill -0 $! 2>/dev/null || fail "the $make netserver ended: $(cat server.log)"
        sleep 0.05
    done
}

# client ours|stock OPTION...: a netperf of that make, at the server of `serve`.
client() {
    make=$1
    shift
    $NEAR "$(program "$make" netperf)" -H "$ADDRESS" -p "$PORT" "$@"
}

# Both ends in the guest, unless `hosts` was called.
NEAR= FAR= ADDRESS=127.0.0.1

# hosts: two hosts, `near` and `far`, with a veth pair between `eth0` of each. The case's client runs
# on near (10.0.0.1, fd00::1), its server on far (10.0.0.2, fd00::2). `$NEAR COMMAND` runs there.
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

# program ours|stock netperf|netserver: its path.
program() {
    case $1 in
    ours) echo "$OURS/$2" ;;
    stock) echo "$STOCK/$2" ;;
    *) fail "whose $2 is $1?" ;;
    esac
}

# has stock: whether the original programs are in the guest. has MODULE: whether the kernel has it.
has() {
    case $1 in
    stock) [ -x "$STOCK/netperf" ] ;;
    *) modprobe "$1" 2>/dev/null ;;
    esac
}

# value KEY FILE: of an output with -k, or of any lines KEY=value.
value() {
    sed -n "s/^$1=//p" "$2"
}

# equal WHAT A B: fails unless A and B are the same number or word.
equal() {
    [ "$2" = "$3" ] || fail "$1: $2 is not $3"
}

# within WHAT VALUE LOW HIGH: fails unless LOW <= VALUE <= HIGH.
within() {
    awk -v value="$2" -v low="$3" -v high="$4" \
        'BEGIN { exit !(value ~ /^-?[0-9.]+(e[+-]?[0-9]+)?$/ && value + 0 >= low + 0 && value + 0 <= high + 0) }' ||
        fail "$1: '$2' is not within $3 to $4"
}

# empty CGROUP: kills all that is in it, and removes it.
empty() {
    echo 1 >"$1/cgroup.kill"
    until rmdir "$1" 2>/dev/null; do
        sleep 0.01
    done
}
