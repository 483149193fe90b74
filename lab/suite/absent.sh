# A server does not load kernel modules for a client. This suite must be the first of its boot,
# because modules that another suite loads stay loaded.

iperf3_loads_no_sctp() {
    ! lsmod | grep -q "^sctp " || fail "SCTP is loaded already"
    linerate iperf3 -s >server.log 2>&1 &
    attempts=0
    until grep -q "Server listening" server.log; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || fail "the server does not listen: $(cat server.log)"
        sleep 0.05
    done
    if linerate iperf3 -c 127.0.0.1 --sctp -n 1M >out 2>&1; then fail "$(cat out)"; fi
    grep -q "protocol does not exist" out || fail "$(cat out)"
    grep -q "protocol does not exist: this kernel has not loaded it" server.log || fail "$(cat server.log)"
}

try absent.iperf3_loads_no_sctp iperf3_loads_no_sctp
