# uperf's profiles over what only some kernels have: SCTP with its options, in batches and within UDP, and
# VSOCK; the control connection over both. Both ends are ours; that nothing is lost is seen by both ends' counts.
#
# vm: --memory 384
# with: ../crates/uperf/tests/data/profiles

# slave [OPTION...]: one that listens at $PORT when this returns.
slave() {
    $FAR linerate uperf -s -P 0 "$@" >slave.log 2>&1 &
    waits=0
    until grep -q 'Listening at port' slave.log; do
        waits=$((waits + 1))
        [ "$waits" -lt 100 ] || fail "the slave does not listen: $(cat slave.log)"
        kill -0 $! 2>/dev/null || fail "the slave ended: $(cat slave.log)"
        sleep 0.05
    done
    PORT=$(sed -n 's/.*at port //p' slave.log)
}

# profile CONNECT CONNECTION TIMES FLOWOP...: a connect or accept with these options, the flowops so
# often, and a disconnect.
profile() {
    kind=$1 options=$2 times=$3
    shift 3
    {
        echo '<profile name="case"> <group nthreads="2">'
        echo '<transaction iterations="1">'
        echo "<flowop type=\"$kind\" options=\"remotehost=\$h $options\"/>"
        echo "</transaction> <transaction iterations=\"$times\">"
        for flowop in "$@"; do
            echo "<flowop type=\"${flowop%% *}\" options=\"${flowop#* }\"/>"
        done
        echo '</transaction> <transaction iterations="1"> <flowop type="disconnect"/> </transaction>'
        echo '</group> </profile>'
    } >profile.xml
}

# master [OPTION...]: runs it; everything that it has to say is in `out`.
master() {
    h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml "$@" >out 2>err || fail "exit code $?: $(cat err out slave.log)"
    [ ! -s err ] || fail "$(cat err)"
}

# counted DATA OPERATIONS: what Run Statistics has of both ends.
counted() {
    cat out
    for end in "$ADDRESS" master; do
        equal "of $end" "$(awk -v end="$end" '$1 == end { print $3, $5 }' out)" "$1 $2"
    done
}

# refused WORDS [OPTION...]: it does not run, and says why.
refused() {
    words=$1
    shift
    if h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml "$@" >out 2>err; then
        fail "it runs: $(cat out)"
    fi
    cat out err | grep -qF "$words" || fail "$(cat out err)"
}

# sctp HOST NAME: one of the kernel's counters.
sctp() {
    $1 cat /proc/net/sctp/snmp | awk -v name="$2" '$1 == name { print $2 }'
}

# Streams beyond the ten that there are anyway.
sctp_streams() {
    slave
    profile connect "protocol=sctp sctp_nodelay sctp_out_streams=128 sctp_in_streams=64" 100 \
        "write size=256 sctp_stream_id=127" "read size=900 sctp_stream_id=63"
    master
    counted 225.78KB 404
    profile connect "protocol=sctp sctp_out_streams=5" 1 "write size=1 sctp_stream_id=5"
    refused "Invalid argument"
}

# The master listens, and the other host's end connects.
sctp_accept() {
    hosts
    slave
    profile accept "protocol=sctp" 50 "write size=100" "read size=300"
    master
    counted 39.06KB 204
}

sctp_unordered() {
    hosts
    slave
    profile connect "protocol=sctp" 50 "write size=100 sctp_unordered" "read size=100"
    master
    counted 19.53KB 204
    equal "unordered" "$(sctp "$NEAR" SctpOutUnorderChunks)" 100
    equal "ordered" "$(sctp "$NEAR" SctpOutOrderChunks)" 0
    within "unordered of the other end" "$(sctp "$FAR" SctpOutOrderChunks)" 1 100
}

# Four calls of eight messages, and more than one call takes.
sctp_batch() {
    hosts
    slave
    profile connect "protocol=sctp" 5 "write size=100 batch_size=8 repeat=4" "read size=3200" \
        "write size=10 batch_size=1100" "read size=50 batch_size=10"
    master
    # Two strands, five times: 3200 and 3200, 11000 and 500 bytes.
    counted 174.80KB 44
    within "messages" "$(sctp "$NEAR" SctpOutOrderChunks)" 11320 11330
}

# What the kernel says of an association in the middle of it.
sctp_options() {
    hosts
    slave
    profile connect "protocol=sctp sctp_out_streams=20 sctp_in_streams=30 sctp_rto_min=200 sctp_rto_max=3000 \
        sctp_rto_initial=500 sctp_sack_delay=100 sctp_sack_frequency=3 sctp_max_burst_size=8 sctp_max_fragment_size=500 \
        sctp_hb_interval=7000 sctp_path_mtu=900 wndsz=100k" 1 "write size=2000" "think duration=1500ms" "read size=2000"
    (
        for _ in $(seq 100); do
            sleep 0.05
            $NEAR cat /proc/net/sctp/assocs >assocs
            if grep -q '10\.0\.0\.2' assocs; then break; fi
        done
    ) &
    h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml >out 2>err || fail "$(cat err out)"
    wait $!
    cat assocs
    # Heartbeats (in ticks of 4 ms), streams in and out.
    equal "of an association" "$(sed -n 's/.*10\.0\.0\.2//p' assocs | awk '{ print $1, $2, $3; exit }')" "1750 30 20"
    # 2000 bytes of each strand, in pieces of 500.
    equal "fragmented" "$(sctp "$NEAR" SctpFragUsrMsgs)" 2
    equal "pieces" "$(sctp "$NEAR" SctpOutOrderChunks)" 8
    profile connect "protocol=sctp sctp_sack_delay=501" 1 "write size=1"
    refused "protocol=sctp: sctp_sack_delay=501, sctp_sack_frequency=0: Invalid argument"
}

# A message that may not be sent again is lost with its packet; one of which nothing is said is not.
sctp_patience() {
    hosts
    $NEAR tc qdisc add dev eth0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    $NEAR tc qdisc add dev eth0 parent 1:3 handle 3: netem loss 20%
    $NEAR tc filter add dev eth0 parent 1: u32 match ip protocol 132 0xff flowid 1:3
    slave
    for policy in "" "sctp_pr_policy=rtx sctp_pr_value=0"; do
        profile connect "protocol=sctp sctp_nodelay sctp_rto_min=100 sctp_rto_initial=100 sctp_rto_max=200" 1 \
            "write size=1000 count=100 $policy" "think duration=2s"
        sed -i 's/count=100/timeout=1s canfail &/' profile.xml
        h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml >out 2>err || fail "$(cat err out)"
        cat out
        received=$(awk '$1 == "10.0.0.2" { print $3 }' out)
        [ -n "$policy" ] || equal "received" "$received" 195.31KB
    done
    [ "$received" != 195.31KB ] || fail "nothing was given up"
}

sctp_within_udp() {
    hosts
    slave
    profile connect "protocol=sctp encaps=9899" 100 "write size=256" "read size=900"
    refused "encaps=9899: this host does not send SCTP over UDP (sysctl net.sctp.udp_port)"
    $NEAR sysctl -q -w net.sctp.udp_port=9900
    refused "encaps=9899: this host does not accept SCTP over UDP (sysctl net.sctp.udp_port)"
    $FAR sysctl -q -w net.sctp.udp_port=9899
    master
    counted 225.78KB 404
    for host in "$NEAR" "$FAR"; do
        datagrams=$($host nstat -asz UdpInDatagrams | awk '$1 == "UdpInDatagrams" { print $2 }')
        within "datagrams" "$datagrams" 200 10000
    done
}

# The control connection, too; a workorder of many strands and the ports of all of them.
sctp_control() {
    hosts
    slave -S sctp
    profile connect "protocol=sctp" 10 "write size=100" "read size=100"
    sed -i 's/nthreads="2"/nthreads="200"/' profile.xml
    master -S sctp
    counted 390.62KB 4400
    profile accept "protocol=tcp" 10 "write size=100" "read size=100"
    master -S sctp
    counted 3.91KB 44
    ADDRESS=fd00::2
    master -S sctp
    ! grep -q Errors.detected out || fail "$(cat out)"
}

vsock() {
    ADDRESS=1
    slave -S vsock
    for kind in connect accept; do
        profile $kind "protocol=vsock wndsz=64k" 50 "write size=8k" "read size=100"
        master -S vsock
        counted 809.77KB 204
    done
    profile connect "protocol=unix" 50 "write size=100" "read size=100"
    master -S vsock
    counted 19.53KB 204
    profile connect "protocol=tcp" 1 "write size=100"
    refused "protocol=tcp cannot reach the peer of a VSOCK control connection" -S vsock
}

# What would wait has its time for it, or fails.
vsock_non_blocking() {
    ADDRESS=1
    slave -S vsock
    profile connect "protocol=vsock non_blocking" 10 "write size=8k timeout=5s" "read size=100 timeout=5s"
    master -S vsock
    counted 161.95KB 44
    # More than there can be at any time.
    profile connect "protocol=vsock" 1 "read size=4m non_blocking"
    refused "Resource temporarily unavailable" -S vsock
}

# shipped NAME [OPTION...]: the like of a profile that uperf is shipped with, shortened.
shipped() {
    sed 's/"1000"/"50"/; s/"30s"/"1s"/' "/work/profiles/$1.xml" >profile.xml
    shift
    slave "$@"
    h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml "$@" >out 2>err || fail "exit code $?: $(cat err out slave.log)"
    cat out err
    ! grep -q 'Errors detected' out || fail "$(cat out)"
    within "operations" "$(awk '$1 == "master" { print $5 }' out)" 10 1000000
}

shipped_over_udp() {
    hosts
    for host in "$NEAR" "$FAR"; do
        $host sysctl -q -w net.sctp.udp_port=9899
    done
    shipped sctp-over-udp
}

shipped_over_vsock() {
    ADDRESS=1
    shipped vsock -S vsock
}

elsewhere() {
    hosts
    slave
    profile connect "protocol=unix" 1 "write size=1"
    refused "protocol=unix needs both ends on one machine; ::ffff:10.0.0.2 is another machine"
    profile connect "protocol=vsock" 1 "write size=1"
    refused "protocol=vsock needs a control connection over VSOCK (-S vsock)"
}

for case in streams accept unordered batch options patience within_udp control; do
    if has sctp; then try uperf.sctp.$case sctp_$case; else skip uperf.sctp.$case "no SCTP here"; fi
done
if has sctp; then
    try uperf.shipped.sctp shipped sctp
    try uperf.shipped.sctp_flowop_test shipped sctp_flowop_test
    try uperf.shipped.sctp-over-udp shipped_over_udp
fi
try uperf.shipped.vsock shipped_over_vsock
try uperf.vsock vsock
try uperf.vsock.non_blocking vsock_non_blocking
try uperf.elsewhere elsewhere
