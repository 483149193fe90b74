# CPU use and memory on a small router with one processor. Its memory is just above the minimum of
# Debian's kernel, and leaves less to programs than a router of 64 MB with a kernel of its own does.
#
# vm: --cpus 1 --memory 96

# cpu NEAR FAR [RATE]: the CPU use of both ends is that of the only processor. A link of RATE leaves
# the processor idle for a part of the time.
cpu() {
    if [ -n "${3-}" ]; then
        hosts
        $NEAR tc qdisc add dev eth0 root netem rate "$3"
    fi
    serve "$2" && limit_memory
    measure "$1" -t TCP_STREAM -l 2 -c -C -- -k LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_CPU_METHOD,LOCAL_SD,LOCAL_CPU_COUNT,LOCAL_BYTES_SENT,ELAPSED_TIME
    within "processors" "$(value LOCAL_CPU_COUNT out)" 1 1
    equal "method" "$(value LOCAL_CPU_METHOD out)" S
    # On a busy host, stock's figure may be far above 100.
    [ "$1" = stock ] || is_kernels_count "local CPU use" "$(value LOCAL_CPU_UTIL out)"
    [ "$2" = stock ] || is_kernels_count "remote CPU use" "$(value REMOTE_CPU_UTIL out)"
    # The service demand in microseconds of CPU time per KB, from the reported CPU use.
    demand=$(echo "$(value LOCAL_CPU_UTIL out) $(value ELAPSED_TIME out) $(value LOCAL_BYTES_SENT out)" |
        awk '{ print $1 / 100 * $2 * 1e6 / ($3 / 1024) }')
    within "service demand" "$(value LOCAL_SD out)" \
        "$(echo "$demand" | awk '{ print $1 * 0.98 }')" "$(echo "$demand" | awk '{ print $1 * 1.02 }')"
}

# measure NEAR OPTION...: runs a client with its result in `out`, and the kernel's counts of CPU time
# in `samples`.
measure() {
    sample_cpu >samples
    while sleep 0.2; do sample_cpu; done >>samples &
    client "$@" >out
    kill $!
    sample_cpu >>samples
    cat out
}

# Prints the time, the busy ticks and the idle ticks of the processors.
sample_cpu() {
    read -r _ user nice system idle disk irq softirq _ </proc/stat
    read -r now _ </proc/uptime
    echo "$now $((user + nice + system + irq + softirq)) $((idle + disk))"
}

# is_kernels_count NAME VALUE: fails unless the kernel counted about this CPU use in a period of the
# test's length. On a busy host, the start and end of a client take as long as the test, and the
# kernel counts idle time also for a busy process.
is_kernels_count() {
    awk -v length_s="$(value ELAPSED_TIME out)" '
        { time[NR] = $1; busy[NR] = $2; idle[NR] = $3 }
        END {
            min = 100
            for (first = 1; first < NR; first++)
                for (last = first + 1; last <= NR; last++)
                    if (time[last] - time[first] >= length_s) {
                        ticks = busy[last] - busy[first]
                        share = 100 * ticks / (ticks + idle[last] - idle[first])
                        if (share < min) min = share
                        if (share > max) max = share
                        break
                    }
            print min - 20, (max > 80 ? 100 : max + 20)
        }' samples >bounds
    read -r low high <bounds
    within "$1" "$2" "$low" "$high"
}

# Ten transactions per second leave the processor idle; another process then makes it busy.
idle_and_busy() {
    hosts
    $NEAR tc qdisc add dev eth0 root netem delay 100ms
    serve "$2" && limit_memory
    set -- "$1" -t TCP_RR -l 4 -c -C -- -k LOCAL_CPU_UTIL,ELAPSED_TIME
    measure "$@"
    is_kernels_count "CPU use of the idle processor" "$(value LOCAL_CPU_UTIL out)"
    nice yes >/dev/null &
    measure "$@"
    is_kernels_count "CPU use of the busy processor" "$(value LOCAL_CPU_UTIL out)"
}

# Limits the memory of both ends, including the kernel's memory for their sockets.
limit_memory() {
    echo 24M >/sys/fs/cgroup/case/memory.max
}

echo +memory >/sys/fs/cgroup/cgroup.subtree_control

try router.cpu.ours.ours cpu ours ours
try router.cpu_of_slow_link cpu ours ours 20mbit
for pair in 'ours stock' 'stock ours'; do
    name=router.cpu.${pair% *}.${pair#* }
    if has stock; then
        # PAIR must split into words.
        # shellcheck disable=SC2086
        try "$name" cpu $pair
    else
        skip "$name" "stock netperf is not installed"
    fi
done
try router.idle_and_busy idle_and_busy ours ours
