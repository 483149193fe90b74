# Transports other than TCP and UDP, between two linerates. The counters of both ends must agree.

KEYS=PROTOCOL,SOCKET_TYPE,THROUGHPUT,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD

# run_omni TRANSPORT LENGTH OPTION...: runs an OMNI test, and writes its values to `out`. Output on
# stderr fails the case.
run_omni() {
    transport=$1 length=$2
    shift 2
    # Context ID 1 is the machine itself.
    [ "$transport" != vsock ] || set -- "$@" -H 1
    client ours -t OMNI -P 0 -l "$length" -- -T "$transport" "$@" -k "$KEYS" >out 2>err || fail "$(cat err out)"
    [ ! -s err ] || fail "$(cat err)"
}

# Fails unless each end has received all data that the other end has sent.
assert_all_received() {
    equal "bytes to the server" "$(value LOCAL_BYTES_SENT out)" "$(value REMOTE_BYTES_RECVD out)"
    equal "bytes to the client" "$(value REMOTE_BYTES_SENT out)" "$(value LOCAL_BYTES_RECVD out)"
}

# assert_selectors PROTOCOL SOCKET_TYPE: checks these selectors, and the range of THROUGHPUT.
assert_selectors() {
    equal PROTOCOL "$(value PROTOCOL out)" "$1"
    equal SOCKET_TYPE "$(value SOCKET_TYPE out)" "$2"
    within THROUGHPUT "$(value THROUGHPUT out)" 0.01 1e6
}

# check_bulk TRANSPORT PROTOCOL SOCKET_TYPE send|recv OPTIONS reliable|lossy: runs a bulk test. With
# recv, the client waits only 0.2 s for the end of a stream. This machine may take longer, so that a
# reliable test has a limit in bytes.
check_bulk() {
    serve ours
    if [ "$4 $6" = "recv reliable" ]; then
        run_omni "$1" -3276800 -d "$4" -m ,32768
    else
        run_omni "$1" 1 -d "$4" $5
    fi
    assert_selectors "$2" "$3"
    [ "$6" = lossy ] || assert_all_received
    sent=$(($(value LOCAL_BYTES_SENT out) + $(value REMOTE_BYTES_SENT out)))
    received=$(($(value REMOTE_BYTES_RECVD out) + $(value LOCAL_BYTES_RECVD out)))
    within "bytes received of $sent sent" "$received" 1 "$sent"
}

# check_transactions TRANSPORT PROTOCOL SOCKET_TYPE OPTIONS: runs 50 transactions.
check_transactions() {
    serve ours
    run_omni "$1" -50 -d rr $4 -r 100,200
    assert_selectors "$2" "$3"
    equal "bytes of requests" "$(value REMOTE_BYTES_RECVD out)" 5000
    equal "bytes of responses" "$(value LOCAL_BYTES_RECVD out)" 10000
    assert_all_received
}

# check_connects TRANSPORT: runs a test that opens and closes connections without data.
check_connects() {
    serve ours
    run_omni "$1" -20 -c -d 0
    equal "bytes" "$(value LOCAL_BYTES_SENT out)" 0
}

# try_with_perl NAME CASE [ARGUMENT...]: runs a case if perl is installed.
try_with_perl() {
    if command -v perl >/dev/null; then try "$@"; else skip "$1" "perl is not installed"; fi
}

# test_transport TRANSPORT PROTOCOL SOCKET_TYPE reliable|lossy: runs all tests of a transport.
test_transport() {
    for direction in send recv; do
        try "transports.$1.$direction" check_bulk "$1" "$2" "$3" $direction "" "$4"
    done
    try_with_perl "transports.$1.content" check_content "$1"
    try "transports.$1.small" check_bulk "$1" "$2" "$3" send "-m 100 -M 100" "$4"
    try "transports.$1.rr" check_transactions "$1" "$2" "$3" ""
    test_count=4
    [ "$1" != udplite ] || test_count=2
    try "transports.$1.linerate_run" check_linerate_run "$1" $test_count
    [ "$1" = udplite ] && return
    try "transports.$1.crr" check_transactions "$1" "$2" "$3" -c
    try "transports.$1.cc" check_connects "$1"
}

# check_content TRANSPORT [OPTION...]: sends 300 messages of 1000 bytes to a receiver in perl. They
# must contain the fill file three times, because the ring of 100 buffers is sent three times.
check_content() {
    transport=$1
    shift
    seq 20000 | head -c 100000 >fill
    $FAR perl -e "$RECEIVER" "$transport" 20997 300000 >received 2>ready &
    attempts=0
    until grep -qsx ready ready; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 100 ] || fail "the receiver is not ready: $(cat ready)"
        sleep 0.1
    done
    [ "$transport" != vsock ] || set -- "$@" -H 1
    # Slow enough that no queue overflows.
    $NEAR "$OURS/netperf" -N -H "$ADDRESS" -t OMNI -l -300000 -b 1 -w 1 -F fill -W 100 -P 0 \
        -- -T "$transport" -d send -m 1000 -P ,20997 "$@" >out 2>err || fail "$(cat err out)"
    wait $!
    if [ "$transport" = dccp ]; then
        # A receiver that gets no CPU for some time loses datagrams.
        perl -e "$IN_ORDER" || fail "received wrong data, or data in the wrong order"
    else
        cat fill fill fill | cmp - received || fail "received wrong data"
    fi
}

# Fails unless `received` contains messages of `fill` only, in the order of three rounds. At least
# half of them must be present.
IN_ORDER='
    sub messages { open(my $file, "<", $_[0]) or die "$_[0]: $!"; local $/ = \1000; my @all = <$file>; @all }
    my @sent = (messages("fill")) x 3;
    my @received = messages("received");
    die "only " . @received . " messages\n" if @received < @sent / 2;
    for my $message (@received) {
        shift @sent while @sent && $sent[0] ne $message;
        die "received a message that was not sent, or out of order\n" unless @sent;
        shift @sent;
    }
'

# The receiver. The guest's perl has no library, so the numbers of the socket API are literal.
RECEIVER='
    my ($transport, $port, $remaining) = @ARGV;
    my %numbers = (tcp => [2, 1, 6], mptcp => [2, 1, 262], sctp => [2, 1, 132], dccp => [2, 6, 33],
        udp => [2, 2, 17], udplite => [2, 2, 136], vsock => [40, 1, 0]);
    my ($family, $type, $protocol) = @{$numbers{$transport}};
    socket(my $socket, $family, $type, $protocol) or die "socket: $!";
    # SO_REUSEADDR: connections of an earlier case may still exist.
    setsockopt($socket, 1, 2, pack("i", 1)) or die "reuse: $!";
    setsockopt($socket, 269, 2, "linr") or die "service: $!" if $transport eq "dccp";
    my $address = $family == 2 ? pack("S n x12", 2, $port) : pack("S x2 L L x4", 40, $port, 0xffffffff);
    bind($socket, $address) or die "bind: $!";
    my $data = $socket;
    listen($socket, 1) or die "listen: $!" if $type != 2;
    print STDERR "ready\n";
    accept($data, $socket) or die "accept: $!" if $type != 2;
    while ($remaining > 0) {
        defined recv($data, my $bytes, 65536, 0) or die "recv: $!";
        last if $bytes eq "";
        print $bytes;
        $remaining -= length $bytes;
    }
'

# SCTP delivers all data over a link that drops 1 % of the packets.
sctp_delivers_all_data() {
    hosts
    $NEAR tc qdisc add dev eth0 root netem loss 1%
    check_content sctp
}

# Messages larger than the receive window arrive completely, after the kernel's timeouts.
sctp_message_exceeds_window() {
    hosts
    serve ours
    run_omni sctp -300000 -d send -m 150000
    assert_all_received
    equal "bytes" "$(value REMOTE_BYTES_RECVD out)" 300000
}

sctp_no_delay() {
    serve ours
    client ours -t OMNI -P 0 -l -10 -- -T sctp -d rr -D -k LOCAL_NODELAY,REMOTE_NODELAY >out
    equal LOCAL_NODELAY "$(value LOCAL_NODELAY out)" 1
    equal REMOTE_NODELAY "$(value REMOTE_NODELAY out)" 1
}

# The kernel refuses a message that exceeds a DCCP packet, and linerate reports the error.
dccp_refuses_oversized_message() {
    hosts
    serve ours
    if client ours -t OMNI -P 0 -l 1 -- -T dccp -m 3000 >out 2>&1; then
        fail "accepted 3000 bytes per packet: $(cat out)"
    fi
    grep -q "errno 90" out || fail "$(cat out)"
}

# check_ipv6 TRANSPORT: runs transactions over IPv6.
check_ipv6() {
    hosts
    ADDRESS=fd00::2
    serve ours
    run_omni "$1" -50 -d rr -r 100,200
    assert_all_received
}

mptcp_is_negotiated() {
    serve ours
    run_omni mptcp 1 -d rr
    $FAR nstat -asz MPTcpExtMPCapableSYNACKRX | grep -q 'SYNACKRX *[1-9]' || fail "$(nstat -as | grep MPTcp)"
}

# MPTCP also sends data over a second link, whose address the far host advertises.
mptcp_two_paths() {
    hosts
    ip link add eth1 netns near type veth peer name eth1 netns far
    ip -n near address add 10.0.1.1/24 dev eth1
    ip -n far address add 10.0.1.2/24 dev eth1
    ip -n near link set eth1 up
    ip -n far link set eth1 up
    $NEAR ip mptcp limits set subflow 2 add_addr_accepted 2
    $FAR ip mptcp limits set subflow 2
    $FAR ip mptcp endpoint add 10.0.1.2 dev eth1 signal
    serve ours
    run_omni mptcp 2 -d send
    assert_all_received
    second_path_bytes=$(ip -n near -s -j link show eth1 | sed 's/.*"tx":{"bytes":\([0-9]*\).*/\1/')
    within "bytes on the second path" "$second_path_bytes" 10000 1e12
}

# From the second connection on, the SYN carries data.
fast_open() {
    sysctl -q -w net.ipv4.tcp_fastopen=3
    serve ours
    client ours -t TCP_STREAM -l 1 -P 0 -- -F -k DATA_IN_SYN >out 2>err
    equal "DATA_IN_SYN without a cookie" "$(value DATA_IN_SYN out)" 0
    for test in TCP_STREAM TCP_RR TCP_CRR; do
        client ours -t $test -l 1 -P 0 -- -F -k DATA_IN_SYN >out 2>err
        equal "DATA_IN_SYN of $test" "$(value DATA_IN_SYN out)" 1
        [ ! -s err ] || fail "$(cat err)"
    done
}

# assert_rates COUNT: checks that `linerate run` reports rates of COUNT tests, each rate twice.
assert_rates() {
    equal "tests with a rate" "$(grep -cE '"(throughput_bps|transactions_per_s)": [0-9]' out)" $(($1 * 2))
}

# check_linerate_run TRANSPORT COUNT: runs `linerate run`, and checks the number of tests.
check_linerate_run() {
    linerate run -l 1 --json --transport "$1" >out || fail "exit code $?: $(grep error out)"
    assert_rates "$2"
}

# `linerate run` connects to a server by its VSOCK context ID only.
linerate_run_by_context_id() {
    "$OURS/netserver" -D -p 20998 -L ,vsock >server.log 2>&1 &
    attempts=0
    until linerate run -l 1 --json --transport vsock --port 20998 1 >out 2>&1; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 20 ] || fail "$(cat out server.log)"
        sleep 0.1
    done
    assert_rates 4
}

# Tests named after TCP or UDP print a table also over other transports.
prints_tables() {
    serve ours
    for test in "TCP_STREAM -- -T sctp -m 8192" "TCP_RR -- -T sctp" "TCP_CRR -- -T vsock -H 1" "TCP_RR -- -T dccp" \
        "UDP_STREAM -- -T dccp" "UDP_STREAM -- -T udplite -m 1000" "UDP_RR -- -T udplite" "TCP_STREAM -- -T mptcp"; do
        client ours -P 0 -l 1 -t $test >out 2>&1 || fail "$test: $(cat out)"
        rate=$(awk 'NF { print $NF; exit }' out)
        within "rate of $test" "$rate" 0.01 1e6
    done
}

# The control connection also uses VSOCK.
vsock_control() {
    "$OURS/netserver" -D -p 20999 -L ,vsock >server.log 2>&1 &
    attempts=0
    until "$OURS/netperf" -H 1,vsock -p 20999 -t TCP_RR -l -50 -- -T vsock -r 100,200 -k "$KEYS" >out 2>err; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 50 ] || fail "$(cat err server.log)"
        sleep 0.1
    done
    equal "bytes of requests" "$(value REMOTE_BYTES_RECVD out)" 5000
    assert_all_received
    if "$OURS/netperf" -H 1,vsock -p 20999 -l 1 >out 2>&1; then
        fail "accepted TCP over a VSOCK control connection: $(cat out)"
    fi
    grep -q "need test option -T vsock" out || fail "$(cat out)"
}

# The client requests no VSOCK from stock's server, because the request would end the server.
vsock_refuses_stock_server() {
    serve stock
    if client ours -t OMNI -l 1 -- -T vsock -H 1 >out 2>&1; then
        fail "$(cat out)"
    fi
    grep -q "use a linerate netserver" out || fail "$(cat out)"
    # The server still runs.
    client ours -t TCP_RR -l -10 -P 0
}

try_with_perl transports.tcp.content check_content tcp
try_with_perl transports.udp.content check_content udp
test_transport udplite UDPLite Datagram lossy
test_transport mptcp MPTCP Stream reliable
try transports.mptcp.negotiated mptcp_is_negotiated
try transports.mptcp.two_paths mptcp_two_paths
test_transport sctp SCTP Stream reliable
try_with_perl transports.sctp.loss sctp_delivers_all_data
try transports.sctp.linerate_run_one_to_many check_linerate_run sctp-many 2
try transports.sctp.message_exceeds_window sctp_message_exceeds_window
try transports.sctp.no_delay sctp_no_delay
try transports.sctp.ipv6 check_ipv6 sctp
# Debian's kernel does not load these modules automatically.
modprobe -a dccp_ipv4 dccp_ipv6
test_transport dccp DCCP DCCP lossy
try transports.dccp.oversized_message_refused dccp_refuses_oversized_message
try transports.dccp.ipv6 check_ipv6 dccp
test_transport vsock VSOCK Stream reliable
try transports.vsock.control vsock_control
try transports.vsock.linerate_run_by_context_id linerate_run_by_context_id
if has stock; then
    try transports.vsock.stock_server_refused vsock_refuses_stock_server
else
    skip transports.vsock.stock_server_refused "stock netserver is not installed"
fi
try transports.udplite.ipv6 check_ipv6 udplite
try transports.fast_open fast_open
try transports.tables prints_tables
