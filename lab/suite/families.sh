# netperf's tests over SCTP, DLPI (over LLC) and Unix domain sockets. Debian's netperf lacks these
# tests, so both ends are linerate. The counters of both ends show that no data is lost.

# stream OPTION...: sends 500 messages of 1000 bytes in one direction. The verbose output has a line
# of nine numbers: alignments, offsets, bytes, bytes per send, sends, bytes per receive, receives.
# The bytes per receive are rounded to hundredths.
stream() {
    client ours -l -500000 -P 0 -v 2 "$@" -m 1000 >out || fail "exit code $?: $(cat out)"
    cat out
    counts=$(awk 'NF == 9 && $6 == "1000.00" { print $7 * 1000, $8 * $9 }' out)
    set -- $counts
    equal "bytes sent" "$1" 500000
    within "bytes received" "$2" 499990 500010
}

# datagrams OPTION...: sends 500 datagrams of 1000 bytes, and checks the counters of both ends.
datagrams() {
    client ours -l -500000 -P 0 "$@" -m 1000 >out || fail "exit code $?: $(cat out)"
    cat out
    set -- $(awk 'NF == 6 { sent = $4 } NF == 4 { print sent, $3 }' out)
    equal "messages sent" "$1" 500
    equal "messages received" "$2" 500
}

# transactions OPTION...: runs 200 transactions of 100 and 300 bytes. A lost one fails the test.
transactions() {
    client ours -l -200 -P 0 "$@" -r 100,300 >out || fail "exit code $?: $(cat out)"
    cat out
    equal "sizes" "$(awk 'NF >= 6 && $6 + 0 > 0 { print $3, $4 }' out)" "100 300"
}

unix_domain() {
    serve ours
    stream -t STREAM_STREAM --
    transactions -t STREAM_RR --
    datagrams -t DG_STREAM --
    transactions -t DG_RR --
    [ -z "$(ls -d /tmp/lr-* 2>/dev/null)" ] || fail "files are left: $(ls -d /tmp/lr-*)"
}

# allow_only SOURCE PORT DESTINATION PORT: drops all other SCTP packets over IPv4 from near to far.
allow_only() {
    $NEAR tc qdisc add dev eth0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    $NEAR tc qdisc add dev eth0 parent 1:3 handle 3: netem loss 100%
    $NEAR tc filter add dev eth0 parent 1: prio 1 u32 match ip src "$1" match ip sport "$2" 0xffff \
        match ip dst "$3" match ip dport "$4" 0xffff flowid 1:1
    $NEAR tc filter add dev eth0 parent 1: prio 2 u32 match ip protocol 132 0xff flowid 1:3
}

# Prints the number of IPv6 packets that near has sent.
ipv6_packets() {
    $NEAR awk '$1 == "Ip6OutRequests" { print $2 }' /proc/net/snmp6
}

# Prints the socket buffer sizes (send, receive) of near and far in a request/response result.
buffers() {
    awk '/^[0-9 .]+$/ && (NF >= 6 || NF == 2) { printf "%s %s ", $1, $2 }' out
}

sctp_one_to_one() {
    hosts
    ip -n near address add 10.0.0.3/24 dev eth0
    ip -n far address add 10.0.0.4/24 dev eth0
    serve ours
    stream -t SCTP_STREAM --
    allow_only 10.0.0.3 7001 10.0.0.4 7002
    stream -t SCTP_STREAM -- -D -B -L 10.0.0.3,4 -H 10.0.0.4,4 -P 7001,7002 -M 300 -s 60000,70000 -S 80000,90000
    equal "socket buffers" "$(awk 'NF == 5 { print $1, $2 }' out)" "180000 120000"
    within "bytes per receive" "$(awk 'NF == 9 { print $8 }' out)" 1 300
    $NEAR tc qdisc delete dev eth0 root

    # The name `both` has an IPv4 and an IPv6 address.
    printf '10.0.0.2 both\nfd00::2 both\n' >>/etc/hosts
    ADDRESS=both
    start=$(ipv6_packets)
    transactions -t SCTP_RR -- -4 -V -I ignored
    within "IPv6 packets without IPv6" $(($(ipv6_packets) - start)) 0 150
    equal "notices" "$(grep -c 'Local .* copy avoidance not available' out)" 2
    start=$(ipv6_packets)
    transactions -t SCTP_RR -- -6 -D -B -s 60000,70000 -S 80000,90000
    within "IPv6 packets" $(($(ipv6_packets) - start)) 200 100000
    equal "socket buffers" "$(buffers)" "120000 140000 160000 180000 "

    client ours -t SCTP_STREAM -P 0 -v 2 -- -m 1000 -N 300 >out
    cat out
    equal "messages" "$(awk 'NF == 9 && $6 == "1000.00" { print $7 " " $9 }' out)" "300 300"
    client ours -t SCTP_STREAM -l 1 -P 0
}

sctp_one_to_many() {
    hosts
    serve ours
    stream -t SCTP_STREAM_MANY --
    stream -t SCTP_STREAM_MANY -- -T 5 -B
    transactions -t SCTP_RR_MANY --
    transactions -t SCTP_RR_MANY -- -T 5 -D
    client ours -t SCTP_STREAM_MANY -l 1 -P 0 -- -T 3
    client ours -t SCTP_RR_MANY -l 1 -P 0 -- -T 3
}

# The server ignores other senders, before and during a test. They run on the server's host.
sctp_ignores_other_senders() {
    hosts
    serve ours
    (while sleep 0.1; do
        $FAR "$OURS/netperf" -N -H 10.0.0.2 -t OMNI -l 1 -- -T sctp -d send -m 1000 -P ,20999 || true
    done) >other_sender 2>&1 &
    # The server aborts their association during the data or at the end of the stream.
    aborted="data send error|Connection reset by peer"
    # The server gives up 2 s after another sender. A test can end before another sender connects.
    for attempt in $(seq 20); do
        stream -t SCTP_STREAM_MANY -s 1 -- -P ,20999
        transactions -t SCTP_RR_MANY -s 1 -- -P ,20999
        ! grep -qE "$aborted" other_sender || break
    done
    grep -qE "$aborted" other_sender || fail "no other sender connected in $attempt attempts: $(cat other_sender)"
}

# A test whose server is stopped fails without results.
sctp_reports_stopped_server() {
    for test in "SCTP_STREAM --" "SCTP_RR --" "SCTP_STREAM_MANY --" "SCTP_RR_MANY --" "TCP_CRR -- -T sctp"; do
        serve ours
        server=$!
        "$OURS/netperf" -H "$ADDRESS" -p "$PORT" -P 0 -l 20 -t $test >out 2>&1 &
        client=$!
        until grep -qs 127.0.0.1 /proc/net/sctp/assocs; do sleep 0.1; done
        sleep 0.3
        kill "$server"
        wait "$server" || fail "$test: exit code of the server: $?"
        code=0
        wait "$client" || code=$?
        equal "$test: exit code" "$code" 1
        ! grep -qE '^ *[0-9]+ +[0-9]+ +[0-9.]+' out || fail "$test: unexpected result: $(cat out)"
    done
}

# blocking_call PID: prints whether a thread of the process blocks in a data call, or in poll.
# System calls of x86-64: recvfrom(2) is 45, recvmsg(2) 47, poll(2) 7 and ppoll(2) 271.
blocking_call() {
    cat /proc/"$1"/task/*/syscall | awk '
        $1 == 45 || $1 == 47 { data = 1 }
        $1 == 7 || $1 == 271 { poll = 1 }
        END { print data ? "data call" : poll ? "poll" : "neither" }'
}

# With -B, each end waits in poll and not in a data call while the peer is stopped.
sctp_waits_in_poll() {
    for test in SCTP_RR SCTP_RR_MANY; do
        for option in "" -B; do
            for stopped in client server; do
                serve ours
                server=$!
                "$OURS/netperf" -H "$ADDRESS" -p "$PORT" -t $test -l 20 -- $option >out 2>&1 &
                client=$!
                until grep -qs 127.0.0.1 /proc/net/sctp/assocs; do sleep 0.1; done
                sleep 0.5
                eval "kill -STOP \$$stopped"
                [ $stopped = client ] && running=$server || running=$client
                [ -z "$option" ] && expected="data call" || expected="poll"
                # The running end first handles data that is in flight, and then blocks.
                for _ in $(seq 100); do
                    sleep 0.2
                    call=$(blocking_call "$running")
                    [ "$call" != "$expected" ] || break
                done
                equal "$test $option: blocking call of the peer of a stopped $stopped" "$call" "$expected"
                kill -KILL "$client" "$server"
                wait "$client" "$server" || true
            done
        done
    done
}

# Creates a veth pair. LLC sockets work in the initial network namespace only.
add_link() {
    # The receive buffer must hold all data, because the receiver may get no CPU for a second.
    echo 4000000 >/proc/sys/net/core/rmem_default
    ip link delete near0 2>/dev/null || true
    ip link add near0 type veth peer name far0
    ip link set near0 up
    ip link set far0 up
}

delete_link() {
    ip link delete near0
}

# start_frame_count SAP: starts counting frames to a service access point that far0 receives.
start_frame_count() {
    tc qdisc add dev far0 clsact
    tc filter add dev far0 ingress protocol 802_2 u32 match u8 "$1" 0xff at 0
}

# Prints the number of counted frames.
frame_count() {
    tc -s filter show dev far0 ingress | sed -n 's/.*success \([0-9]*\).*/\1/p' | sort -n | tail -n 1
}

llc_connections() {
    add_link
    serve ours
    stream -t DLCO_STREAM -- -D near0,far0 -M 400
    within "bytes per receive" "$(awk 'NF == 9 { print $8 }' out)" 1 400
    start_frame_count 72
    stream -t DLCO_STREAM -- -D near,far -p 0 -s 72 -w 16 -W 16
    within "frames to 72" "$(frame_count)" 500 100000
    # The result shows the windows in place of the socket buffer sizes.
    transactions -t DLCO_RR -- -D near0,far0 -w 16,17 -W 18,19
    equal "windows" "$(buffers)" "16 17 18 19 "
    client ours -t DLCO_STREAM -l 1 -P 0 -- -D near0,far0
    delete_link
}

llc_datagrams() {
    add_link
    serve ours
    # Slow enough that no datagram is lost.
    datagrams -t DLCL_STREAM -b 5 -w 20m -- -D near0,far0
    transactions -t DLCL_RR -- -D near0,far0
    start_frame_count 40
    transactions -t DLCL_RR -- -s 40 -D /dev/near,/dev/far -p 0
    within "frames to 40" "$(frame_count)" 200 1000
    client ours -t DLCL_STREAM -l 1 -P 0 -- -D near0,far0 -m 500
    client ours -t DLCL_RR -l 1 -P 0 -- -D near0,far0
    delete_link
}

llc_refusals() {
    add_link
    serve ours
    ! client ours -t DLCO_STREAM -l 1 -- -D near0,far0 -m 2000 2>err || fail "accepted 2000 bytes per frame"
    grep -q "a frame has room for 1496 bytes" err || fail "$(cat err)"
    for devices in near0,none none,far0; do
        ! client ours -t DLCO_STREAM -l 1 -- -D $devices 2>err || fail "accepted an unknown interface"
        grep -q "No such device" err || fail "$devices: $(cat err)"
    done
    delete_link
}

try families.unix unix_domain
for case in sctp_one_to_one sctp_one_to_many sctp_ignores_other_senders sctp_reports_stopped_server sctp_waits_in_poll; do
    if has sctp; then try families.$case $case; else skip families.$case "the kernel has no SCTP"; fi
done
for case in llc_connections llc_datagrams llc_refusals; do
    if has llc2; then try families.$case $case; else skip families.$case "the kernel has no LLC"; fi
done
