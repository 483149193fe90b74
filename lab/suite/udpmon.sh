# UDPmon datagrams that the kernel paces: by a transmit time per datagram (SO_TXTIME) with etf or
# fq, or by a rate with fq. Without such a qdisc, linerate refuses the test and gives the reason.

# check_pacing QDISC METHOD: sends datagrams through a qdisc, and checks that all arrive.
check_pacing() {
    hosts
    $NEAR tc qdisc add dev eth0 root $1
    start_responder
    run_bw_mon "$2" >out 2>errors || fail "$(cat errors out)"
    assert_counts
}

# check_refusal QDISC METHOD: checks that linerate refuses to pace datagrams with a qdisc.
check_refusal() {
    hosts
    [ -z "$1" ] || $NEAR tc qdisc add dev eth0 root $1
    start_responder
    if run_bw_mon "$2" >out 2>errors; then fail "not refused: $(cat out)"; fi
    grep -q "SO_TXTIME needs the queueing discipline" errors || fail "unexpected reason: $(cat errors out)"
}

# Sends the datagrams, which have priority 3, through etf. Other packets use another queue.
check_etf_pacing() {
    hosts
    $NEAR ip link del eth0
    ip link add eth0 netns near numtxqueues 2 numrxqueues 2 type veth peer name eth0 netns far
    ip -n near address add 10.0.0.1/24 dev eth0
    ip -n far address add 10.0.0.2/24 dev eth0
    ip -n near link set eth0 up
    ip -n far link set eth0 up
    $NEAR tc qdisc add dev eth0 root handle 100: mqprio num_tc 2 map 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 1@1 hw 0
    $NEAR tc qdisc replace dev eth0 parent 100:1 etf clockid CLOCK_TAI delta 500000
    start_responder
    run_bw_mon txtime >out 2>errors || fail "$(cat errors out)"
    # etf drops datagrams that are late, which happens on an emulated processor.
    assert_counts 1
}

# Starts a responder on the far host; returns when it is ready to receive datagrams.
start_responder() {
    $FAR linerate udpmon_resp >server.log 2>&1 &
    attempts=0
    until $FAR cat /proc/net/udp /proc/net/udp6 | grep -q ":3799 "; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || fail "the responder does not listen: $(cat server.log)"
        sleep 0.05
    done
}

# run_bw_mon METHOD: sends 100 datagrams, with gaps that are long enough for an emulated processor.
run_bw_mon() {
    $NEAR linerate udpmon_bw_mon -d 10.0.0.2 -p 200 -l 100 -w 2000 -q --pacing "$1"
}

# assert_counts [MIN]: expects one line with 100 sent, and at least MIN (100) received ones.
assert_counts() {
    awk -F'; *' -v min="${1:-100}" \
        'NR == 1 { sent = $7; received = $10 } END { exit !(NR == 1 && sent == 100 && received >= min && received <= 100) }' out ||
        fail "$(cat out)"
}

if has sch_etf && has sch_mqprio; then
    try udpmon.txtime.etf check_etf_pacing
else
    skip udpmon.txtime.etf "the kernel has no etf or mqprio"
fi
if has sch_fq; then
    try udpmon.txtime.fq check_pacing fq txtime
    try udpmon.kernel.fq check_pacing fq kernel
else
    skip udpmon.txtime.fq "the kernel has no fq"
fi
try udpmon.txtime.refused check_refusal "" txtime
try udpmon.txtime.refused_by_fifo check_refusal pfifo txtime
