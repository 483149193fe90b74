# A small router: one processor, and the least memory that Debian's kernel starts in with room to
# spare. What is left of it to programs is less than on a router of 64 MB with a kernel of its own.
#
# vm: --cpus 1 --memory 96

# Of one processor there are no shares of its share: /proc/stat has `cpu` and `cpu0`, and both ends
# are on it. While a busy host leaves the machine without time, its kernel sees idle time: the reference is the kernel's
# count for the client's whole life.
cpu() {
    serve "$2" && limit_memory
    before=$(ticks)
    client "$1" -t TCP_STREAM -l 2 -c -C -- -k LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_CPU_METHOD,LOCAL_SD,LOCAL_CPU_COUNT,LOCAL_BYTES_SENT,ELAPSED_TIME >out
    cat out
    busy=$(echo "$before $(ticks)" | awk '{ busy = $3 - $1; all = $4 - $2; print all > busy ? 100 * busy / all : 100 }')
    echo "busy by the kernel's count: $busy"
    within "processors" "$(value LOCAL_CPU_COUNT out)" 1 1
    equal "method" "$(value LOCAL_CPU_METHOD out)" S
    least=$(echo "$busy" | awk '{ print $1 - 20 }')
    within "busy here" "$(value LOCAL_CPU_UTIL out)" "$least" 100
    within "busy there" "$(value REMOTE_CPU_UTIL out)" "$least" 100
    # Microseconds of CPU per KB: a slow machine has any.
    demand=$(echo "$(value LOCAL_CPU_UTIL out) $(value ELAPSED_TIME out) $(value LOCAL_BYTES_SENT out)" |
        awk '{ print $1 / 100 * $2 * 1e6 / ($3 / 1024) }')
    within "service demand" "$(value LOCAL_SD out)" \
        "$(echo "$demand" | awk '{ print $1 * 0.98 }')" "$(echo "$demand" | awk '{ print $1 * 1.02 }')"
}

# Ticks that the processors were busy, and all.
ticks() {
    awk '$1 == "cpu" { busy = $2 + $3 + $4 + $7 + $8; print busy, busy + $5 + $6 }' /proc/stat
}

# Ten transactions a second leave a processor idle, and something else makes it busy.
idle_and_not() {
    hosts
    $NEAR tc qdisc add dev eth0 root netem delay 100ms
    serve "$2" && limit_memory
    set -- "$1" -t TCP_RR -l 4 -c -C -- -k LOCAL_CPU_UTIL
    client "$@" >idle
    nice yes >/dev/null &
    client "$@" >busy
    cat idle busy
    within "idle" "$(value LOCAL_CPU_UTIL idle)" 0 50
    within "busy" "$(value LOCAL_CPU_UTIL busy)" 90 100
}

# Both ends, buffers and the kernel's memory for their sockets included.
limit_memory() {
    echo 24M >/sys/fs/cgroup/case/memory.max
}

echo +memory >/sys/fs/cgroup/cgroup.subtree_control

for far in ours stock; do
    for near in ours stock; do
        if [ $near$far != oursours ] && ! has stock; then
            skip "router.$near.$far" "no stock netperf here"
            continue
        fi
        try "router.cpu.$near.$far" cpu $near $far
    done
done
try router.idle_and_not idle_and_not ours ours
