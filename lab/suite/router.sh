# CPU use and memory on a small router with one processor. Its memory is just above the minimum of
# Debian's kernel, and leaves less to programs than a router of 64 MB with a kernel of its own does.
#
# vm: --cpus 1 --memory 96

# With one processor, the CPU use of both ends is that of this processor. If the host is busy, the
# guest's kernel counts idle time, so the expected value is the kernel's count over the lifetime of
# the client.
cpu() {
    serve "$2" && limit_memory
    before=$(cpu_ticks)
    client "$1" -t TCP_STREAM -l 2 -c -C -- -k LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_CPU_METHOD,LOCAL_SD,LOCAL_CPU_COUNT,LOCAL_BYTES_SENT,ELAPSED_TIME >out
    cat out
    busy=$(echo "$before $(cpu_ticks)" | awk '{ busy = $3 - $1; all = $4 - $2; print all > busy ? 100 * busy / all : 100 }')
    echo "CPU use by the kernel's count: $busy"
    within "processors" "$(value LOCAL_CPU_COUNT out)" 1 1
    equal "method" "$(value LOCAL_CPU_METHOD out)" S
    minimum=$(echo "$busy" | awk '{ print $1 - 20 }')
    within "local CPU use" "$(value LOCAL_CPU_UTIL out)" "$minimum" 100
    within "remote CPU use" "$(value REMOTE_CPU_UTIL out)" "$minimum" 100
    # The service demand in microseconds of CPU time per KB, from the reported CPU use.
    demand=$(echo "$(value LOCAL_CPU_UTIL out) $(value ELAPSED_TIME out) $(value LOCAL_BYTES_SENT out)" |
        awk '{ print $1 / 100 * $2 * 1e6 / ($3 / 1024) }')
    within "service demand" "$(value LOCAL_SD out)" \
        "$(echo "$demand" | awk '{ print $1 * 0.98 }')" "$(echo "$demand" | awk '{ print $1 * 1.02 }')"
}

# Prints the busy ticks and all ticks of the processors.
cpu_ticks() {
    awk '$1 == "cpu" { busy = $2 + $3 + $4 + $7 + $8; print busy, busy + $5 + $6 }' /proc/stat
}

# Ten transactions per second leave the processor idle; another process then makes it busy.
idle_and_busy() {
    hosts
    $NEAR tc qdisc add dev eth0 root netem delay 100ms
    serve "$2" && limit_memory
    set -- "$1" -t TCP_RR -l 4 -c -C -- -k LOCAL_CPU_UTIL
    client "$@" >idle
    nice yes >/dev/null &
    client "$@" >busy
    cat idle busy
    within "CPU use of the idle processor" "$(value LOCAL_CPU_UTIL idle)" 0 50
    within "CPU use of the busy processor" "$(value LOCAL_CPU_UTIL busy)" 90 100
}

# Limits the memory of both ends, including the kernel's memory for their sockets.
limit_memory() {
    echo 24M >/sys/fs/cgroup/case/memory.max
}

echo +memory >/sys/fs/cgroup/cgroup.subtree_control

for far in ours stock; do
    for near in ours stock; do
        if [ $near$far != oursours ] && ! has stock; then
            skip "router.$near.$far" "stock netperf is not installed"
            continue
        fi
        try "router.cpu.$near.$far" cpu $near $far
    done
done
try router.idle_and_busy idle_and_busy ours ours
