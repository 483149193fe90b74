# What linerate does on any host, here against the original in both roles, and what only a kernel
# with netem can show: figures that are equal to the kernel's own counts.

# Each case runs in all four pairings.
tcp_stream() {
    serve "$2"
    client "$1" -t TCP_STREAM -l -2000000 -- -k LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD >out
    sent=$(value LOCAL_BYTES_SENT out)
    # The original as a server stops reading when it has what the limit names, in the middle of a send.
    [ "$2" = stock ] || equal "bytes received" "$(value REMOTE_BYTES_RECVD out)" "$sent"
    within "bytes received" "$(value REMOTE_BYTES_RECVD out)" 2000000 "$sent"
    within "bytes sent" "$sent" 2000000 2100000
}

tcp_maerts() {
    serve "$2"
    client "$1" -t TCP_MAERTS -l 1 -- -k REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD >out
    # The original stops counting before the stream has ended, as a client and as a server.
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

# The link loses every tenth datagram or so. Of each that was sent the kernels know what became.
udp_stream_loss() {
    hosts
    lossy 'ip protocol 17 0xff' 10%
    serve "$2"
    client "$1" -t UDP_STREAM -l 1 -- -m 1000 -k LOCAL_SEND_CALLS,REMOTE_RECV_CALLS >out
    dropped=$(dropped)
    overflowed=$(counter "$FAR" UdpRcvbufErrors)
    out=$(counter "$NEAR" UdpOutDatagrams)
    arrived=$(counter "$FAR" UdpInDatagrams)
    unclaimed=$(counter "$FAR" UdpNoPorts)
    sent=$(value LOCAL_SEND_CALLS out)
    received=$(value REMOTE_RECV_CALLS out)
    echo "sent $sent, out $out, dropped $dropped, overflowed $overflowed, arrived $arrived, unclaimed $unclaimed, received $received"
    within "dropped by the link" "$dropped" 10 1000000
    # The end is marked by a few datagrams, which are no data. The first of them that arrives is the
    # last that is read.
    within "marks" $((out - sent)) 0 9
    within "marks unread" $((out - dropped - overflowed - arrived - unclaimed)) 0 8
    # What lay in the receiver's socket when the time was up is late.
    within "late" $((arrived - received)) 0 400
}

# Of the data connection alone, as the sender's kernel has them.
retransmissions() {
    hosts
    lossy 'ip dport 7777 0xffff' 2%
    # Some 800 packets of 64 KiB: all of them get through once in 10^7 runs.
    serve "$2"
    client "$1" -t TCP_STREAM -l -50000000 -- -P ,7777 -k LOCAL_TRANSPORT_RETRANS >out
    retransmitted=$(counter "$NEAR" TcpRetransSegs)
    within "the link's losses" "$(dropped)" 1 1000000
    # The original asks before the last data has arrived.
    [ "$1" = stock ] || equal "retransmissions" "$(value LOCAL_TRANSPORT_RETRANS out)" "$retransmitted"
    within "retransmissions" "$(value LOCAL_TRANSPORT_RETRANS out)" 1 "$retransmitted"
}

congestion_control() {
    # Stock's request loads the module; ours has to be allowed.
    if [ "$2" = ours ]; then serve ours --allow-modules; else serve "$2"; fi
    client "$1" -t TCP_STREAM -l -1000000 -- -K westwood,vegas -k LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL >out
    equal "here" "$(value LOCAL_CONG_CONTROL out)" westwood
    equal "there" "$(value REMOTE_CONG_CONTROL out)" vegas
}

# lossy MATCH SHARE: the link drops so much of what u32 matches on its way from near to far.
lossy() {
    $NEAR tc qdisc add dev eth0 root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    $NEAR tc qdisc add dev eth0 parent 1:3 handle 3: netem loss "$2" limit 100000
    # shellcheck disable=SC2086
    $NEAR tc filter add dev eth0 parent 1: u32 match $1 flowid 1:3
}

# counter HOST NAME: of all that there is in a network namespace.
counter() {
    $1 nstat -asz "$2" | awk -v name="$2" '$1 == name { print $2 }'
}

# What it has dropped.
dropped() {
    $NEAR tc -s qdisc show dev eth0 | grep -A 1 netem | sed -n 's/.*dropped \([0-9]*\).*/\1/p'
}

for case in tcp_stream tcp_maerts tcp_rr tcp_crr udp_rr udp_stream_loss retransmissions congestion_control; do
    for near in ours stock; do
        for far in ours stock; do
            if [ $near$far != oursours ] && ! has stock; then
                skip "base.$case.$near.$far" "no stock netperf here"
                continue
            fi
            try "base.$case.$near.$far" $case $near $far
        done
    done
done
