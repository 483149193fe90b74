# uperf profiles over SCTP (with its options, in batches, and within UDP) and VSOCK, also for the
# control connection. Both ends are linerate. Their counters show that no data is lost.
#
# vm: --memory 384
# with: ../crates/uperf/tests/data/profiles

# start_slave [OPTION...]: starts a slave; returns when it listens on $PORT.
start_slave() {
    $FAR linerate uperf -s -P 0 "$@" >slave.log 2>&1 &
    attempts=0
    until grep -q 'Listening at port' slave.log; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 100 ] || fail "the slave does not listen: $(cat slave.log)"
        kill -0 $! 2>/dev/null || fail "the slave exited: $(cat slave.log)"
        sleep 0.05
    done
    PORT=$(sed -n 's/.*at port //p' slave.log)
}

# write_profile connect|accept OPTIONS COUNT FLOWOP...: writes a profile that opens a connection
# with OPTIONS, runs the flowops COUNT times, and disconnects.
write_profile() {
    kind=$1 options=$2 count=$3
    shift 3
    {
        echo '<profile name="case"> <group nthreads="2">'
        echo '<transaction iterations="1">'
        echo "<flowop type=\"$kind\" options=\"remotehost=\$h $options\"/>"
        echo "</transaction> <transaction iterations=\"$count\">"
        for flowop in "$@"; do
            echo "<flowop type=\"${flowop%% *}\" options=\"${flowop#* }\"/>"
        done
        echo '</transaction> <transaction iterations="1"> <flowop type="disconnect"/> </transaction>'
        echo '</group> </profile>'
    } >profile.xml
}

# run_master [OPTION...]: runs the profile with its output in `out`. Output on stderr fails the case.
run_master() {
    h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml "$@" >out 2>err || fail "exit code $?: $(cat err out slave.log)"
    [ ! -s err ] || fail "$(cat err)"
}

# assert_statistics DATA OPERATIONS: checks both ends in the Run Statistics.
assert_statistics() {
    cat out
    for end in "$ADDRESS" master; do
        equal "data and operations of $end" "$(awk -v end="$end" '$1 == end { print $3, $5 }' out)" "$1 $2"
    done
}

# assert_refused MESSAGE [OPTION...]: checks that the master refuses the profile with MESSAGE.
assert_refused() {
    message=$1
    shift
    if h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml "$@" >out 2>err; then
        fail "not refused: $(cat out)"
    fi
    cat out err | grep -qF "$message" || fail "$(cat out err)"
}

# sctp_counter HOST NAME: prints an SCTP counter of HOST's kernel.
sctp_counter() {
    $1 cat /proc/net/sctp/snmp | awk -v name="$2" '$1 == name { print $2 }'
}

# Uses more streams than the default of ten.
sctp_streams() {
    start_slave
    write_profile connect "protocol=sctp sctp_nodelay sctp_out_streams=128 sctp_in_streams=64" 100 \
        "write size=256 sctp_stream_id=127" "read size=900 sctp_stream_id=63"
    run_master
    assert_statistics 225.78KB 404
    write_profile connect "protocol=sctp sctp_out_streams=5" 1 "write size=1 sctp_stream_id=5"
    assert_refused "Invalid argument"
}

# The master listens, and the slave connects.
sctp_accept() {
    hosts
    start_slave
    write_profile accept "protocol=sctp" 50 "write size=100" "read size=300"
    run_master
    assert_statistics 39.06KB 204
}

sctp_unordered() {
    hosts
    start_slave
    write_profile connect "protocol=sctp" 50 "write size=100 sctp_unordered" "read size=100"
    run_master
    assert_statistics 19.53KB 204
    equal "unordered chunks" "$(sctp_counter "$NEAR" SctpOutUnorderChunks)" 100
    equal "ordered chunks" "$(sctp_counter "$NEAR" SctpOutOrderChunks)" 0
    within "ordered chunks of the slave" "$(sctp_counter "$FAR" SctpOutOrderChunks)" 1 100
}

# Sends four batches of eight messages, and a batch that exceeds one call.
sctp_batch() {
    hosts
    start_slave
    write_profile connect "protocol=sctp" 5 "write size=100 batch_size=8 repeat=4" "read size=3200" \
        "write size=10 batch_size=1100" "read size=50 batch_size=10"
    run_master
    # Two strands, five iterations of 3200, 3200, 11000 and 500 bytes.
    assert_statistics 174.80KB 44
    within "messages" "$(sctp_counter "$NEAR" SctpOutOrderChunks)" 11320 11330
}

# Compares the options with the kernel's values of an association during the test.
sctp_options() {
    hosts
    start_slave
    write_profile connect "protocol=sctp sctp_out_streams=20 sctp_in_streams=30 sctp_rto_min=200 sctp_rto_max=3000 \
        sctp_rto_initial=500 sctp_sack_delay=100 sctp_sack_frequency=3 sctp_max_burst_size=8 sctp_max_fragment_size=500 \
        sctp_hb_interval=7000 sctp_path_mtu=900 wndsz=100k" 1 "write size=2000" "think duration=1000s" "read size=2000"
    # The association lasts until the end of the case.
    h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml >association.log 2>&1 &
    until [ "$(sctp_counter "$NEAR" SctpOutOrderChunks)" -ge 8 ]; do
        kill -0 $! 2>/dev/null || fail "$(cat association.log slave.log)"
        sleep 0.05
    done
    $NEAR cat /proc/net/sctp/assocs >assocs
    cat assocs
    # Heartbeat interval (in ticks of 4 ms), inbound streams, outbound streams.
    equal "values of the association" "$(sed -n 's/.*10\.0\.0\.2//p' assocs | awk '{ print $1, $2, $3; exit }')" "1750 30 20"
    # 2000 bytes per strand, in fragments of 500 bytes.
    equal "fragmented messages" "$(sctp_counter "$NEAR" SctpFragUsrMsgs)" 2
    equal "chunks" "$(sctp_counter "$NEAR" SctpOutOrderChunks)" 8
    write_profile connect "protocol=sctp sctp_sack_delay=501" 1 "write size=1"
    assert_refused "protocol=sctp: sctp_sack_delay=501, sctp_sack_frequency=0: Invalid argument"
}

# A policy of no retransmissions loses messages in dropped packets. Without it, all messages arrive.
sctp_partial_reliability() {
    hosts
    $NEAR tc qdisc add dev eth0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    $NEAR tc qdisc add dev eth0 parent 1:3 handle 3: netem loss 10%
    $NEAR tc filter add dev eth0 parent 1: u32 match ip protocol 132 0xff flowid 1:3
    start_slave
    for policy in "" "sctp_pr_policy=rtx sctp_pr_value=0"; do
        write_profile connect "protocol=sctp sctp_nodelay sctp_rto_min=100 sctp_rto_initial=100 sctp_rto_max=200" 1 \
            "write size=1000 count=100 $policy" "think duration=4s"
        sed -i 's/count=100/timeout=1s canfail &/' profile.xml
        h=$ADDRESS $NEAR linerate uperf -P "$PORT" -m profile.xml >out 2>err || fail "$(cat err out)"
        cat out
        received=$(awk '$1 == "10.0.0.2" { print $3 }' out)
        [ -n "$policy" ] || equal "received data" "$received" 195.31KB
    done
    [ "$received" != 195.31KB ] || fail "no message was lost"
}

sctp_udp_encapsulation() {
    hosts
    start_slave
    write_profile connect "protocol=sctp encaps=9899" 100 "write size=256" "read size=900"
    assert_refused "encaps=9899: this host does not send SCTP over UDP (sysctl net.sctp.udp_port)"
    $NEAR sysctl -q -w net.sctp.udp_port=9900
    assert_refused "encaps=9899: this host does not accept SCTP over UDP (sysctl net.sctp.udp_port)"
    $FAR sysctl -q -w net.sctp.udp_port=9899
    run_master
    assert_statistics 225.78KB 404
    for host in "$NEAR" "$FAR"; do
        datagrams=$($host nstat -asz UdpInDatagrams | awk '$1 == "UdpInDatagrams" { print $2 }')
        within "datagrams" "$datagrams" 200 10000
    done
}

# The control connection uses SCTP, also for a workorder with 200 strands and their ports.
sctp_control_connection() {
    hosts
    start_slave -S sctp
    write_profile connect "protocol=sctp" 10 "write size=100" "read size=100"
    sed -i 's/nthreads="2"/nthreads="200"/' profile.xml
    run_master -S sctp
    assert_statistics 390.62KB 4400
    write_profile accept "protocol=tcp" 10 "write size=100" "read size=100"
    run_master -S sctp
    assert_statistics 3.91KB 44
    ADDRESS=fd00::2
    run_master -S sctp
    ! grep -q Errors.detected out || fail "$(cat out)"
}

vsock() {
    ADDRESS=1
    start_slave -S vsock
    for kind in connect accept; do
        write_profile $kind "protocol=vsock wndsz=64k" 50 "write size=8k" "read size=100"
        run_master -S vsock
        assert_statistics 809.77KB 204
    done
    write_profile connect "protocol=unix" 50 "write size=100" "read size=100"
    run_master -S vsock
    assert_statistics 19.53KB 204
    write_profile connect "protocol=tcp" 1 "write size=100"
    assert_refused "protocol=tcp cannot reach the peer of a VSOCK control connection" -S vsock
}

# A non-blocking flowop waits until its timeout, or fails if it has none.
vsock_non_blocking() {
    ADDRESS=1
    start_slave -S vsock
    write_profile connect "protocol=vsock non_blocking" 10 "write size=8k timeout=5s" "read size=100 timeout=5s"
    run_master -S vsock
    assert_statistics 161.95KB 44
    # More data than can be available at a time.
    write_profile connect "protocol=vsock" 1 "read size=4m non_blocking"
    assert_refused "Resource temporarily unavailable" -S vsock
}

# check_shipped NAME [OPTION...]: runs a shortened equivalent of a profile of uperf's package.
check_shipped() {
    sed 's/"1000"/"50"/; s/"30s"/"1s"/' "/work/profiles/$1.xml" >profile.xml
    shift
    start_slave "$@"
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
    check_shipped sctp-over-udp
}

shipped_over_vsock() {
    ADDRESS=1
    check_shipped vsock -S vsock
}

refuses_local_transports_between_hosts() {
    hosts
    start_slave
    write_profile connect "protocol=unix" 1 "write size=1"
    assert_refused "protocol=unix needs both ends on one machine; ::ffff:10.0.0.2 is another machine"
    write_profile connect "protocol=vsock" 1 "write size=1"
    assert_refused "protocol=vsock needs a control connection over VSOCK (-S vsock)"
}

for case in streams accept unordered batch options partial_reliability udp_encapsulation control_connection; do
    if has sctp; then try uperf.sctp.$case sctp_$case; else skip uperf.sctp.$case "the kernel has no SCTP"; fi
done
if has sctp; then
    try uperf.shipped.sctp check_shipped sctp
    try uperf.shipped.sctp_flowop_test check_shipped sctp_flowop_test
    try uperf.shipped.sctp-over-udp shipped_over_udp
fi
try uperf.shipped.vsock shipped_over_vsock
try uperf.vsock vsock
try uperf.vsock.non_blocking vsock_non_blocking
try uperf.local_transports_refused_between_hosts refuses_local_transports_between_hosts
