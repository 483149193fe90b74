# What the kernel has not loaded, a server does not load for a client. This suite is the first of its boot: what another
# one loads stays.

# iperf3 over SCTP.
iperf3() {
    ! lsmod | grep -q "^sctp " || fail "SCTP is loaded already"
    linerate iperf3 -s >server.log 2>&1 &
    waits=0
    until grep -q "Server listening" server.log; do
        waits=$((waits + 1))
        [ "$waits" -lt 200 ] || fail "the server does not listen: $(cat server.log)"
        sleep 0.05
    done
    if linerate iperf3 -c 127.0.0.1 --sctp -n 1M >out 2>&1; then fail "$(cat out)"; fi
    grep -q "protocol does not exist" out || fail "$(cat out)"
    grep -q "protocol does not exist: this kernel has not loaded it" server.log || fail "$(cat server.log)"
}

try absent.iperf3 iperf3
