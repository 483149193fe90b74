# Datagrams that the kernel spaces: by a time for each (SO_TXTIME) with etf or fq, or at a rate with fq. Without such a
# queue they are refused with a reason.

# spaced QDISC METHOD: datagrams over a link with that queue, all of which arrive.
spaced() {
    hosts
    $NEAR tc qdisc add dev eth0 root $1
    responds
    asks "$2" >out 2>errors || fail "$(cat errors out)"
    counted
}

# refused QDISC METHOD
refused() {
    hosts
    [ -z "$1" ] || $NEAR tc qdisc add dev eth0 root $1
    responds
    if asks "$2" >out 2>errors; then fail "it was not refused: $(cat out)"; fi
    grep -q "SO_TXTIME needs the queueing discipline" errors || fail "no reason: $(cat errors out)"
}

# spaced_by_priority: etf for the datagrams, which have priority 3, and another queue for the rest.
spaced_by_priority() {
    hosts
    $NEAR ip link del eth0
    ip link add eth0 netns near numtxqueues 2 numrxqueues 2 type veth peer name eth0 netns far
    ip -n near address add 10.0.0.1/24 dev eth0
    ip -n far address add 10.0.0.2/24 dev eth0
    ip -n near link set eth0 up
    ip -n far link set eth0 up
    $NEAR tc qdisc add dev eth0 root handle 100: mqprio num_tc 2 map 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 1@1 hw 0
    $NEAR tc qdisc replace dev eth0 parent 100:1 etf clockid CLOCK_TAI delta 500000
    responds
    asks txtime >out 2>errors || fail "$(cat errors out)"
    # etf drops what comes after its time, as it does where a processor is emulated.
    counted 1
}

# responds: a responder on the far host, that takes datagrams when this returns.
responds() {
    $FAR linerate udpmon_resp >server.log 2>&1 &
    waits=0
    until $FAR cat /proc/net/udp /proc/net/udp6 | grep -q ":3799 "; do
        waits=$((waits + 1))
        [ "$waits" -lt 200 ] || fail "the responder does not listen: $(cat server.log)"
        sleep 0.05
    done
}

# asks METHOD: a test of 100 datagrams; the wide gaps leave an emulated processor time.
asks() {
    $NEAR linerate udpmon_bw_mon -d 10.0.0.2 -p 200 -l 100 -w 2000 -q --pacing "$1"
}

# counted [LEAST]: the only line has 100 sent datagrams, of which at least as many were received; else all.
counted() {
    awk -F'; *' -v least="${1:-100}" \
        'NR == 1 { sent = $7; received = $10 } END { exit !(NR == 1 && sent == 100 && received >= least && received <= 100) }' out ||
        fail "$(cat out)"
}

if has sch_etf && has sch_mqprio; then
    try udpmon.txtime.etf spaced_by_priority
else
    skip udpmon.txtime.etf "no etf or mqprio here"
fi
if has sch_fq; then
    try udpmon.txtime.fq spaced fq txtime
    try udpmon.kernel.fq spaced fq kernel
else
    skip udpmon.txtime.fq "no fq here"
fi
try udpmon.txtime.refused refused "" txtime
try udpmon.txtime.refused_by_fifo refused pfifo txtime
