# What carries the data beside TCP and UDP: between ours, with what was sent counted at both ends.

KEYS=PROTOCOL,SOCKET_TYPE,THROUGHPUT,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,REMOTE_BYTES_SENT,LOCAL_BYTES_RECVD

# omni TRANSPORT OPTION...: an OMNI test's values in `out`; nothing may be said on stderr.
omni() {
    transport=$1 length=$2
    shift 2
    # The machine's own context.
    [ "$transport" != vsock ] || set -- "$@" -H 1
    client ours -t OMNI -P 0 -l "$length" -- -T "$transport" "$@" -k "$KEYS" >out 2>err || fail "$(cat err out)"
    [ ! -s err ] || fail "$(cat err)"
}

# arrived: what either end sent, the other has received.
arrived() {
    equal "bytes to the server" "$(value LOCAL_BYTES_SENT out)" "$(value REMOTE_BYTES_RECVD out)"
    equal "bytes to the client" "$(value REMOTE_BYTES_SENT out)" "$(value LOCAL_BYTES_RECVD out)"
}

# named PROTOCOL TYPE: the selectors' words.
named() {
    equal PROTOCOL "$(value PROTOCOL out)" "$1"
    equal SOCKET_TYPE "$(value SOCKET_TYPE out)" "$2"
    within THROUGHPUT "$(value THROUGHPUT out)" 0.01 1e6
}

# A bulk test either way. Who receives waits for the end of a stream for 0.2 s, which this machine may need for
# more: there it is so many bytes.
bulk() {
    serve ours
    if [ "$4 $6" = "recv reliable" ]; then
        omni "$1" -3276800 -d "$4" -m ,32768
    else
        omni "$1" 1 -d "$4" $5
    fi
    named "$2" "$3"
    [ "$6" = lossy ] || arrived
    sent=$(($(value LOCAL_BYTES_SENT out) + $(value REMOTE_BYTES_SENT out)))
    got=$(($(value REMOTE_BYTES_RECVD out) + $(value LOCAL_BYTES_RECVD out)))
    within "bytes received of $sent sent" "$got" 1 "$sent"
}

# So many transactions of so many bytes, each of which is to be found at both ends.
counted() {
    serve ours
    omni "$1" -50 -d rr $4 -r 100,200
    named "$2" "$3"
    equal "requests' bytes" "$(value REMOTE_BYTES_RECVD out)" 5000
    equal "responses' bytes" "$(value LOCAL_BYTES_RECVD out)" 10000
    arrived
}

closes() {
    serve ours
    omni "$1" -20 -c -d 0
    equal "bytes" "$(value LOCAL_BYTES_SENT out)" 0
}

# with_perl NAME CASE [ARGUMENT...]: tries it where there is one.
with_perl() {
    if command -v perl >/dev/null; then try "$@"; else skip "$1" "no perl here"; fi
}

# over TRANSPORT PROTOCOL TYPE reliable|lossy: every test that has a sense over it.
over() {
    for way in send recv; do
        try "transports.$1.$way" bulk "$1" "$2" "$3" $way "" "$4"
    done
    with_perl "transports.$1.content" content "$1"
    try "transports.$1.small" bulk "$1" "$2" "$3" send "-m 100 -M 100" "$4"
    try "transports.$1.rr" counted "$1" "$2" "$3" ""
    tests=4
    [ "$1" != udplite ] || tests=2
    try "transports.$1.main_job" main_job "$1" $tests
    [ "$1" = udplite ] && return
    try "transports.$1.crr" counted "$1" "$2" "$3" -c
    try "transports.$1.cc" closes "$1"
}

# content TRANSPORT [OPTION...]: what a program that is not ours takes off the transport, 300 messages of 1000
# bytes, is the file that was to be sent, three times, as so many buffers go round.
content() {
    transport=$1
    shift
    seq 20000 | head -c 100000 >fill
    $FAR perl -e "$RECEIVER" "$transport" 20997 300000 >got 2>ready &
    tries=0
    until grep -qsx ready ready; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || fail "no receiver: $(cat ready)"
        sleep 0.1
    done
    [ "$transport" != vsock ] || set -- "$@" -H 1
    # Slow enough that no queue overflows.
    $NEAR "$OURS/netperf" -N -H "$ADDRESS" -t OMNI -l -300000 -b 1 -w 1 -F fill -W 100 -P 0 \
        -- -T "$transport" -d send -m 1000 -P ,20997 "$@" >out 2>err || fail "$(cat err out)"
    wait $!
    if [ "$transport" = dccp ]; then
        # A receiver that has no CPU for a while loses datagrams.
        perl -e "$IN_ORDER" || fail "other bytes arrived, or in another order"
    else
        cat fill fill fill | cmp - got || fail "other bytes arrived"
    fi
}

# Fails unless "got" has messages of "fill" only, in the order of three rounds; any but most of them may be missing.
IN_ORDER='
    sub messages { open(my $file, "<", $_[0]) or die "$_[0]: $!"; local $/ = \1000; my @all = <$file>; @all }
    my @sent = (messages("fill")) x 3;
    my @got = messages("got");
    die "only " . @got . " messages\n" if @got < @sent / 2;
    for my $message (@got) {
        shift @sent while @sent && $sent[0] ne $message;
        die "a message that was not sent\n" unless @sent;
        shift @sent;
    }
'

# Perl without its library: numbers of linux/socket.h, linux/in.h and linux/dccp.h.
RECEIVER='
    my ($transport, $port, $wanted) = @ARGV;
    my %numbers = (tcp => [2, 1, 6], mptcp => [2, 1, 262], sctp => [2, 1, 132], dccp => [2, 6, 33],
        udp => [2, 2, 17], udplite => [2, 2, 136], vsock => [40, 1, 0]);
    my ($family, $type, $protocol) = @{$numbers{$transport}};
    socket(my $socket, $family, $type, $protocol) or die "socket: $!";
    # SO_REUSEADDR: an earlier case may have left connections behind.
    setsockopt($socket, 1, 2, pack("i", 1)) or die "reuse: $!";
    setsockopt($socket, 269, 2, "linr") or die "service: $!" if $transport eq "dccp";
    my $address = $family == 2 ? pack("S n x12", 2, $port) : pack("S x2 L L x4", 40, $port, 0xffffffff);
    bind($socket, $address) or die "bind: $!";
    my $data = $socket;
    listen($socket, 1) or die "listen: $!" if $type != 2;
    print STDERR "ready\n";
    accept($data, $socket) or die "accept: $!" if $type != 2;
    while ($wanted > 0) {
        defined recv($data, my $bytes, 65536, 0) or die "recv: $!";
        last if $bytes eq "";
        print $bytes;
        $wanted -= length $bytes;
    }
'

# A path that loses one packet in a hundred.
sctp_loses_nothing() {
    hosts
    $NEAR tc qdisc add dev eth0 root netem loss 1%
    content sctp
}

# Messages that do not fit into the receiver's window: slow, by the kernel's timers, but whole.
sctp_beyond_the_window() {
    hosts
    serve ours
    omni sctp -300000 -d send -m 150000
    arrived
    equal "bytes" "$(value REMOTE_BYTES_RECVD out)" 300000
}

no_delay() {
    serve ours
    client ours -t OMNI -P 0 -l -10 -- -T sctp -d rr -D -k LOCAL_NODELAY,REMOTE_NODELAY >out
    equal LOCAL_NODELAY "$(value LOCAL_NODELAY out)" 1
    equal REMOTE_NODELAY "$(value REMOTE_NODELAY out)" 1
}

# What is longer than a datagram's room is refused by the kernel, and said.
dccp_too_long() {
    hosts
    serve ours
    if client ours -t OMNI -P 0 -l 1 -- -T dccp -m 3000 >out 2>&1; then
        fail "3000 bytes in one packet: $(cat out)"
    fi
    grep -q "errno 90" out || fail "$(cat out)"
}

ipv6() {
    hosts
    ADDRESS=fd00::2
    serve ours
    omni "$1" -50 -d rr -r 100,200
    arrived
}

mptcp_in_force() {
    serve ours
    omni mptcp 1 -d rr
    $FAR nstat -asz MPTcpExtMPCapableSYNACKRX | grep -q 'SYNACKRX *[1-9]' || fail "$(nstat -as | grep MPTcp)"
}

# A second path carries data too: two links, and the far host tells of its second address.
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
    omni mptcp 2 -d send
    arrived
    carried=$(ip -n near -s -j link show eth1 | sed 's/.*"tx":{"bytes":\([0-9]*\).*/\1/')
    within "bytes of the second path" "$carried" 10000 1e12
}

# Data goes with the first segment from the second connection on.
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

# rates TESTS: `linerate run` has found a rate in so many tests, each of which it writes twice.
rates() {
    equal "tests with a rate" "$(grep -cE '"(throughput_bps|transactions_per_s)": [0-9]' out)" $(($1 * 2))
}

main_job() {
    linerate run -l 1 --json --transport "$1" >out || fail "exit code $?: $(grep error out)"
    rates "$2"
}

# The same of a server that is reached by its context alone.
main_job_by_context() {
    "$OURS/netserver" -D -p 20998 -L ,vsock >server.log 2>&1 &
    tries=0
    until linerate run -l 1 --json --transport vsock --port 20998 1 >out 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 20 ] || fail "$(cat out server.log)"
        sleep 0.1
    done
    rates 4
}

# The tables of the tests that are TCP's or UDP's by name.
tables() {
    serve ours
    for test in "TCP_STREAM -- -T sctp -m 8192" "TCP_RR -- -T sctp" "TCP_CRR -- -T vsock -H 1" "TCP_RR -- -T dccp" \
        "UDP_STREAM -- -T dccp" "UDP_STREAM -- -T udplite -m 1000" "UDP_RR -- -T udplite" "TCP_STREAM -- -T mptcp"; do
        client ours -P 0 -l 1 -t $test >out 2>&1 || fail "$test: $(cat out)"
        rate=$(awk 'NF { print $NF; exit }' out)
        within "rate of $test" "$rate" 0.01 1e6
    done
}

# The control connection, too, over VSOCK.
vsock_control() {
    "$OURS/netserver" -D -p 20999 -L ,vsock >server.log 2>&1 &
    tries=0
    until "$OURS/netperf" -H 1,vsock -p 20999 -t TCP_RR -l -50 -- -T vsock -r 100,200 -k "$KEYS" >out 2>err; do
        tries=$((tries + 1))
        [ "$tries" -lt 50 ] || fail "$(cat err server.log)"
        sleep 0.1
    done
    equal "requests' bytes" "$(value REMOTE_BYTES_RECVD out)" 5000
    arrived
    if "$OURS/netperf" -H 1,vsock -p 20999 -l 1 >out 2>&1; then
        fail "TCP over VSOCK: $(cat out)"
    fi
    grep -q "need test option -T vsock" out || fail "$(cat out)"
}

# It is not asked for what would make it end without a word.
vsock_to_stock() {
    serve stock
    if client ours -t OMNI -l 1 -- -T vsock -H 1 >out 2>&1; then
        fail "$(cat out)"
    fi
    grep -q "the server must be a linerate" out || fail "$(cat out)"
    # It is still there.
    client ours -t TCP_RR -l -10 -P 0
}

with_perl transports.tcp.content content tcp
with_perl transports.udp.content content udp
over udplite UDPLite Datagram lossy
over mptcp MPTCP Stream reliable
try transports.mptcp.in_force mptcp_in_force
try transports.mptcp.two_paths mptcp_two_paths
over sctp SCTP Stream reliable
with_perl transports.sctp.loss sctp_loses_nothing
try transports.sctp.main_job_of_many main_job sctp-many 2
try transports.sctp.beyond_the_window sctp_beyond_the_window
try transports.sctp.no_delay no_delay
try transports.sctp.ipv6 ipv6 sctp
# Debian's kernel does not load these by itself.
modprobe -a dccp_ipv4 dccp_ipv6
over dccp DCCP DCCP lossy
try transports.dccp.too_long dccp_too_long
try transports.dccp.ipv6 ipv6 dccp
over vsock VSOCK Stream reliable
try transports.vsock.control vsock_control
try transports.vsock.main_job_by_context main_job_by_context
if has stock; then
    try transports.vsock.to_stock vsock_to_stock
else
    skip transports.vsock.to_stock "no stock netserver here"
fi
try transports.udplite.ipv6 ipv6 udplite
try transports.fast_open fast_open
try transports.tables tables
