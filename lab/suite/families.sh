# Tests with a protocol or an address family of their own: SCTP, DLPI over LLC, Unix domain sockets.
# Nobody else has them, so both ends are ours. That nothing is lost is seen by the counts of both ends.

# stream OPTION...: 500 messages of 1000 bytes, in one direction. The extra block has one line of nine
# numbers: alignments, offsets, bytes, bytes a send, sends, bytes a receive, receives. The average of a
# receive is rounded to hundredths.
stream() {
    client ours -l -500000 -P 0 -v 2 "$@" -m 1000 >out || fail "exit code $?: $(cat out)"
    cat out
    counts=$(awk 'NF == 9 && $6 == "1000.00" { print $7 * 1000, $8 * $9 }' out)
    set -- $counts
    equal "bytes sent" "$1" 500000
    within "bytes received" "$2" 499990 500010
}

# datagrams OPTION...: as many messages, which both ends count.
datagrams() {
    client ours -l -500000 -P 0 "$@" -m 1000 >out || fail "exit code $?: $(cat out)"
    cat out
    set -- $(awk 'NF == 6 { sent = $4 } NF == 4 { print sent, $3 }' out)
    equal "messages sent" "$1" 500
    equal "messages received" "$2" 500
}

# transactions OPTION...: 200 of them, of 100 and 300 bytes: fewer would not end well.
transactions() {
    client ours -l -200 -P 0 "$@" -r 100,300 >out || fail "exit code $?: $(cat out)"
    cat out
    equal "sizes" "$(awk 'NF >= 6 && $6 > 0 { print $3, $4 }' out)" "100 300"
}

unix_domain() {
    serve ours
    stream -t STREAM_STREAM --
    transactions -t STREAM_RR --
    datagrams -t DG_STREAM --
    transactions -t DG_RR --
    [ -z "$(ls -d /tmp/lr-* 2>/dev/null)" ] || fail "left behind: $(ls -d /tmp/lr-*)"
}

sctp_one_to_one() {
    hosts
    serve ours
    stream -t SCTP_STREAM --
    stream -t SCTP_STREAM -- -D -B
    transactions -t SCTP_RR --
    transactions -t SCTP_RR -- -D -B
    client ours -t SCTP_STREAM -P 0 -v 2 -- -m 1000 -N 300 >out
    cat out
    equal "messages" "$(awk 'NF == 9 && $6 == "1000.00" { print $7 " " $9 }' out)" "300 300"
    client ours -t SCTP_STREAM -l 2 -P 0
}

sctp_one_to_many() {
    hosts
    serve ours
    stream -t SCTP_STREAM_MANY --
    stream -t SCTP_STREAM_MANY -- -T 5 -B
    transactions -t SCTP_RR_MANY --
    transactions -t SCTP_RR_MANY -- -T 5 -D
    client ours -t SCTP_STREAM_MANY -l 2 -P 0 -- -T 3
    client ours -t SCTP_RR_MANY -l 2 -P 0 -- -T 3
}

# Whoever is not the client is neither counted nor answered, before it and beside it: the server's own host.
sctp_strangers() {
    hosts
    serve ours
    (while sleep 0.1; do
        $FAR "$OURS/netperf" -N -H 10.0.0.2 -t OMNI -l 1 -- -T sctp -d send -m 1000 -P ,20999
    done) >stranger 2>&1 &
    stream -t SCTP_STREAM_MANY -s 2 -- -P ,20999
    transactions -t SCTP_RR_MANY -s 2 -- -P ,20999
    grep -q "data send error" stranger || fail "no stranger came: $(cat stranger)"
}

# LLC sockets know the first network namespace only, so both interfaces are in it.
link() {
    ip link delete near0 2>/dev/null || true
    ip link add near0 type veth peer name far0
    ip link set near0 up
    ip link set far0 up
}

unlink() {
    ip link delete near0
}

llc_connections() {
    link
    serve ours
    stream -t DLCO_STREAM -- -D near0,far0
    stream -t DLCO_STREAM -- -D near,far -p 0 -s 72 -w 16 -W 16
    transactions -t DLCO_RR -- -D near0,far0
    client ours -t DLCO_STREAM -l 2 -P 0 -- -D near0,far0
    unlink
}

llc_datagrams() {
    link
    serve ours
    # Slow enough that the receiver's queue has room for all of them.
    datagrams -t DLCL_STREAM -b 5 -w 20m -- -D near0,far0
    transactions -t DLCL_RR -- -D near0,far0
    transactions -t DLCL_RR -- -s 40 -D /dev/near,/dev/far -p 0
    client ours -t DLCL_STREAM -l 2 -P 0 -- -D near0,far0 -m 500
    client ours -t DLCL_RR -l 2 -P 0 -- -D near0,far0
    unlink
}

llc_refusals() {
    link
    serve ours
    ! client ours -t DLCO_STREAM -l 1 -- -D near0,far0 -m 2000 2>err || fail "2000 bytes in a frame"
    grep -q "a frame has room for 1496 bytes" err || fail "$(cat err)"
    ! client ours -t DLCO_STREAM -l 1 -- -D near0,none 2>err || fail "no such interface"
    unlink
}

try families.unix unix_domain
for case in sctp_one_to_one sctp_one_to_many sctp_strangers; do
    if has sctp; then try families.$case $case; else skip families.$case "no SCTP here"; fi
done
for case in llc_connections llc_datagrams llc_refusals; do
    if has llc2; then try families.$case $case; else skip families.$case "no LLC here"; fi
done
