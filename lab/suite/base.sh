# Basic tests between linerate and stock in both roles. Some compare results with kernel counters.

# Each case is a function with two arguments: CLIENT SERVER.
tcp_stream() {
    serve "$2"
    client "$1" -t TCP_STREAM -l -2000000 -- -k LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD >out
    sent=$(value LOCAL_BYTES_SENT out)
    # Stock's server stops reading at the byte limit, in the middle of a send.
    [ "$2" = stock ] || equal "bytes received" "$(value REMOTE_BYTES_RECVD out)" "$sent"
    within "bytes received" "$(value REMOTE_BYTES_RECVD out)" 2000000 "$sent"
    within "bytes sent" "$sent" 2000000 2100000
}

tcp_maerts() {
    serve "$2"
    client "$1" -t TCP_MAERTS -l 1 -- -k REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD >out
    # Stock stops counting before the end of the stream, both as a client and as a server.
    [ "$1$2" != oursours ] || equal "bytes received" "$(value LOCAL_BYTES_RECVD out)" "$(value REMOTE_BYTES_SENT out)"
    within "bytes received" "$(value LOCAL_BYTES_RECVD out)" 1000 1e12
}

tcp_rr() {
    serve "$2"
    client "$1" -t TCP_RR -l -200 -- -r 100,300 -k LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD >out
    equal "bytes sent" "$(value LOCAL_BYTES_SENT out)" 20000
    equal "bytes received" "$(value LOCAL_BYTES_RECVD out)" 60000
}

tcp_crr() {
    serve "$2"
    client "$1" -t TCP_CRR -l -50 -- -k LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD >out
    equal "bytes sent" "$(value LOCAL_BYTES_SENT out)" 50
    equal "bytes received" "$(value LOCAL_BYTES_RECVD out)" 50
}

udp_rr() {
    serve "$2"
    client "$1" -t UDP_RR -l -200 -- -k LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD >out
    equal "bytes sent" "$(value LOCAL_BYTES_SENT out)" 200
    equal "bytes received" "$(value LOCAL_BYTES_RECVD out)" 200
}

# The link drops about 10 % of the datagrams. The kernels' counters account for each sent datagram.
udp_stream_loss() {
    hosts
    drop_share 'ip protocol 17 0xff' 10%
    serve "$2"
    client "$1" -t UDP_STREAM -l 1 -- -m 1000 -k LOCAL_SEND_CALLS,REMOTE_RECV_CALLS >out
    dropped=$(drop_count)
    overflowed=$(counter "$FAR" UdpRcvbufErrors)
    out=$(counter "$NEAR" UdpOutDatagrams)
    arrived=$(counter "$FAR" UdpInDatagrams)
    unclaimed=$(counter "$FAR" UdpNoPorts)
    sent=$(value LOCAL_SEND_CALLS out)
    received=$(value REMOTE_RECV_CALLS out)
    echo "sent $sent, out $out, dropped $dropped, overflowed $overflowed, arrived $arrived, unclaimed $unclaimed, received $received"
    within "dropped by the link" "$dropped" 10 1000000
    # The client sends a few empty end markers. The server stops reading at the first one.
    within "end markers" $((out - sent)) 0 9
    within "unread end markers" $((out - dropped - overflowed - arrived - unclaimed)) 0 8
    # Datagrams that are still in the receive buffer at the end of the test count as late.
    within "late" $((arrived - received)) 0 400
}

# Compares the retransmissions of the data connection with those of the sender's kernel.
retransmissions() {
    hosts
    drop_share 'ip dport 7777 0xffff' 2%
    # About 800 packets of 64 KiB; the probability that the link drops none is 10^-7.
    serve "$2"
    client "$1" -t TCP_STREAM -l -50000000 -- -P ,7777 -k LOCAL_TRANSPORT_RETRANS >out
    retransmitted=$(counter "$NEAR" TcpRetransSegs)
    within "packets that the link dropped" "$(drop_count)" 1 1000000
    # Stock reads the counter before the last data has arrived.
    [ "$1" = stock ] || equal "retransmissions" "$(value LOCAL_TRANSPORT_RETRANS out)" "$retransmitted"
    within "retransmissions" "$(value LOCAL_TRANSPORT_RETRANS out)" 1 "$retransmitted"
}

congestion_control() {
    # Stock's server loads the modules; linerate's needs an option to do so.
    if [ "$2" = ours ]; then serve ours --allow-modules; else serve "$2"; fi
    client "$1" -t TCP_STREAM -l -1000000 -- -K westwood,vegas -k LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL >out
    equal "local congestion control" "$(value LOCAL_CONG_CONTROL out)" westwood
    equal "remote congestion control" "$(value REMOTE_CONG_CONTROL out)" vegas
}

# drop_share MATCH SHARE: drops SHARE of the packets from near to far that match in u32.
drop_share() {
    $NEAR tc qdisc add dev eth0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    $NEAR tc qdisc add dev eth0 parent 1:3 handle 3: netem loss "$2" limit 100000
    # shellcheck disable=SC2086
    $NEAR tc filter add dev eth0 parent 1: u32 match $1 flowid 1:3
}

# counter HOST NAME: prints a counter of HOST's network namespace.
counter() {
    $1 nstat -asz "$2" | awk -v name="$2" '$1 == name { print $2 }'
}

# Prints the number of packets that the link has dropped.
drop_count() {
    $NEAR tc -s qdisc show dev eth0 | grep -A 1 netem | sed -n 's/.*dropped \([0-9]*\).*/\1/p'
}

# The suite `interop` tests the other pairings on the host. These cases test the guest's kernel.
for case in tcp_stream tcp_maerts tcp_rr tcp_crr udp_rr; do
    try "base.$case.ours.ours" $case ours ours
done

for case in udp_stream_loss retransmissions congestion_control; do
    for pair in 'ours ours' 'ours stock' 'stock ours'; do
        name=base.$case.${pair% *}.${pair#* }
        if [ "$pair" != 'ours ours' ] && ! has stock; then
            skip "$name" "stock netperf is not installed"
            continue
        fi
        # PAIR must split into words.
        # shellcheck disable=SC2086
        try "$name" $case $pair
    done
done
