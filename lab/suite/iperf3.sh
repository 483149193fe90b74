# iperf3 over SCTP: options and results, between two linerates and, if installed, with stock iperf3.

# start_server ours|stock [OPTION...]: starts a server; returns when it listens on port 5201.
start_server() {
    implementation=$1
    shift
    iperf3 "$implementation" -s "$@" >server.log 2>&1 &
    attempts=0
    until grep -qE "^ *[0-9]+: [0-9A-F]+:1451 [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || fail "the server does not listen: $(cat server.log)"
        sleep 0.05
    done
}

iperf3() {
    implementation=$1
    shift
    if [ "$implementation" = ours ]; then linerate iperf3 "$@"; else "$STOCK/iperf3" "$@"; fi
}

# check_streams SERVER CLIENT [OPTION...]: runs a test, and checks that the receiver reports data.
check_streams() {
    server=$1 client=$2
    shift 2
    modprobe sctp
    start_server "$server" -1
    iperf3 "$client" -c 127.0.0.1 --sctp -i 0 "$@" >out 2>&1 || fail "$(cat out server.log)"
    grep -qE "[1-9][0-9.]* [KM]Bytes .*  receiver" out || fail "$(cat out)"
}

# The association has both local addresses.
check_options() {
    modprobe sctp
    ip address add 127.0.0.2/8 dev lo
    start_server ours
    linerate iperf3 -c 127.0.0.1 --sctp -t 5 -i 0 -l 8K -M 1200 -N --nstreams 7 -X 127.0.0.1 -X 127.0.0.2 >out 2>&1 &
    attempts=0
    until grep -q "connected to" out; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || fail "$(cat out server.log)"
        sleep 0.05
    done
    cat /proc/net/sctp/assocs >associations
    grep -q "127.0.0.2 <-> " associations || grep -q "127.0.0.1 127.0.0.2" associations || fail "$(cat associations)"
    wait $!
}

try iperf3.sctp.send check_streams ours ours -n 4M
try iperf3.sctp.reverse check_streams ours ours -R -t 1
try iperf3.sctp.bidir check_streams ours ours --bidir -P 2 -t 1
try iperf3.sctp.options check_options
if [ -x "$STOCK/iperf3" ]; then
    try iperf3.sctp.stock_server check_streams stock ours -t 1
    try iperf3.sctp.stock_client check_streams ours stock -t 1
else
    skip iperf3.sctp.stock "stock iperf3 is not installed"
fi
