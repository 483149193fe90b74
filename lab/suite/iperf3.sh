# iperf3 over SCTP, between ours and, where it is there, with stock 3.12: its options, and what both ends count.

# iperf3_server ours|stock [OPTION...]: an iperf3 server of that make that listens at 5201 when this returns.
iperf3_server() {
    make=$1
    shift
    iperf3 "$make" -s "$@" >server.log 2>&1 &
    waits=0
    until grep -qE "^ *[0-9]+: [0-9A-F]+:1451 [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6; do
        waits=$((waits + 1))
        [ "$waits" -lt 200 ] || fail "the server does not listen: $(cat server.log)"
        sleep 0.05
    done
}

iperf3() {
    make=$1
    shift
    if [ "$make" = ours ]; then linerate iperf3 "$@"; else "$STOCK/iperf3" "$@"; fi
}

# streams SERVER CLIENT [OPTION...]: a test whose bytes arrive.
streams() {
    server=$1 client=$2
    shift 2
    modprobe sctp
    iperf3_server "$server" -1
    iperf3 "$client" -c 127.0.0.1 --sctp -i 0 "$@" >out 2>&1 || fail "$(cat out server.log)"
    grep -qE "[1-9][0-9.]* [KM]Bytes .*  receiver" out || fail "$(cat out)"
}

# An association with both local addresses, and as many streams as were asked for.
options() {
    modprobe sctp
    ip address add 127.0.0.2/8 dev lo
    iperf3_server ours
    linerate iperf3 -c 127.0.0.1 --sctp -t 5 -i 0 -l 8K -M 1200 -N --nstreams 7 -X 127.0.0.1 -X 127.0.0.2 >out 2>&1 &
    waits=0
    until grep -q "connected to" out; do
        waits=$((waits + 1))
        [ "$waits" -lt 200 ] || fail "$(cat out server.log)"
        sleep 0.05
    done
    cat /proc/net/sctp/assocs >associations
    grep -q "127.0.0.2 <-> " associations || grep -q "127.0.0.1 127.0.0.2" associations || fail "$(cat associations)"
    wait $!
}

try iperf3.sctp.send streams ours ours -n 4M
try iperf3.sctp.reverse streams ours ours -R -t 1
try iperf3.sctp.both streams ours ours --bidir -P 2 -t 1
try iperf3.sctp.options options
if [ -x "$STOCK/iperf3" ]; then
    try iperf3.sctp.stock_server streams stock ours -t 1
    try iperf3.sctp.stock_client streams ours stock -t 1
else
    skip iperf3.sctp.stock "no stock iperf3 here"
fi
