//! Command lines of existing harnesses, and the text, stream and exit code of each refusal.

use std::time::Duration;

use netperf::options::{
    Exit, OutputForm, Selection, Settings, Test, parse_netperf, parse_netserver,
};

/// Parses the command lines of flent, k8s-netperf, LKP, Phoronix, LISA, avocado, OpenWrt, Cilium,
/// perf-tests and the OS contests (as of 2025), without unsupported options.
#[test]
fn parses_command_lines_of_harnesses() {
    const FLENT: &str = "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,\
        LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,\
        DIRECTION,ELAPSED_TIME,PROTOCOL,LOCAL_SEND_SIZE,LOCAL_RECV_SIZE,REMOTE_SEND_SIZE,\
        REMOTE_RECV_SIZE,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";
    const CILIUM: &str = "-R 1 -o MIN_LATENCY,MEAN_LATENCY,MAX_LATENCY,P50_LATENCY,P90_LATENCY,\
        P99_LATENCY,TRANSACTION_RATE,THROUGHPUT,THROUGHPUT_UNITS";
    const K8S: &str = "-s 2 -H 10.0.0.1 -l 10";
    const K8S_KEYS: &str = "-P 42424 -k rt_latency,p99_latency,throughput,throughput_units,\
        remote_recv_calls,local_send_calls,local_transport_retrans";
    let flent = |test, test_options| {
        format!(
            "-P 0 -v 0 -4 -Y 0x20,0x20 -H ctrl -p 12865 -t {test} -l 60 -F /dev/urandom -f m \
             -L 10.0.0.1,4 -- {test_options} -H host -k {FLENT}"
        )
    };
    for (line, test) in [
        (flent("TCP_MAERTS", ""), Test::TcpMaerts),
        (
            flent(
                "TCP_STREAM",
                "-e 1 -m 16384 -M 16384 -L 10.0.0.1,4 -K cubic",
            ),
            Test::TcpStream,
        ),
        (flent("UDP_RR", "-e 1 -L 10.0.0.1,4"), Test::UdpRr),
        ("-l 1 -- -e 1".to_owned(), Test::TcpStream),
        ("-l -1000000 -t TCP_STREAM".to_owned(), Test::TcpStream),
        (
            format!("{K8S} -t TCP_STREAM -- {K8S_KEYS} -m 1024"),
            Test::TcpStream,
        ),
        (
            format!("{K8S} -t UDP_STREAM -- {K8S_KEYS} -m 1024 -R 1"),
            Test::UdpStream,
        ),
        (
            format!("{K8S} -t TCP_RR -- {K8S_KEYS} -r 1024,1024 -b 16"),
            Test::TcpRr,
        ),
        (
            format!("{K8S} -t TCP_CRR -- {K8S_KEYS} -r 1024,1024"),
            Test::TcpCrr,
        ),
        ("-H 10.0.0.1 -l 1 -- 42424".to_owned(), Test::TcpStream),
        (
            "-4 -H s -t TCP_SENDFILE -c -C -l 60".to_owned(),
            Test::TcpSendfile,
        ),
        (
            "-4 -H s -t UDP_STREAM -c -C -l 60 -- -m 1K -s 2M -S 2M".to_owned(),
            Test::UdpStream,
        ),
        ("-4 -H s -t TCP_CRR -c -C -l 60".to_owned(), Test::TcpCrr),
        (
            "-P 0 -v 0 -H s -t UDP_STREAM -b 10G -l 10".to_owned(),
            Test::UdpStream,
        ),
        (
            "-P 0 -v 0 -H s -t TCP_SENDFILE -l 10".to_owned(),
            Test::TcpSendfile,
        ),
        (
            "-4 -H h -t TCP_MAERTS -l 60 -v 0 -P 0".to_owned(),
            Test::TcpMaerts,
        ),
        (
            "-t UDP_STREAM -l 1 -- -s 16k -S 16k -m 1k -M 1k".to_owned(),
            Test::UdpStream,
        ),
        (
            "-t TCP_RR -l 1 -- -s 16k -S 16k -m 1k -M 1k -r 64,64 -R 1".to_owned(),
            Test::TcpRr,
        ),
        (
            format!("-H 10.0.0.1 -l 10s -t TCP_RR -- {CILIUM} -r 1"),
            Test::TcpRr,
        ),
        (
            format!("-H 10.0.0.1 -l 1m0s -t TCP_STREAM -- {CILIUM} -m 1024"),
            Test::TcpStream,
        ),
        (
            format!("-H 10.0.0.1 -l 1h0m0s -t UDP_STREAM -- {CILIUM}"),
            Test::UdpStream,
        ),
        ("-H 10.0.0.1".to_owned(), Test::TcpStream),
    ] {
        let settings = parse_client(&line).unwrap_or_else(|exit| panic!("{line}: {exit:?}"));
        assert_eq!(settings.test, test, "{line}");
    }
}

/// LISA separates selectors with a comma and a space, in one argument.
#[test]
fn a_selection_may_have_spaces() {
    let line = "-H s -p 30000 -t TCP_RR -n 4 -l 150 -- -O";
    let arguments = line
        .split(' ')
        .chain(["THROUGHPUT, THROUGHPUT_UNITS, MIN_LATENCY"]);
    let settings = parse_netperf("netperf", arguments.map(Into::into)).unwrap();
    let OutputForm::Human(Selection::Blocks(blocks)) = settings.print.form else {
        panic!("{:?}", settings.print.form);
    };
    assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [3]);
    assert!(settings.print.latency);
}

#[test]
fn parses_netserver_command_lines_of_harnesses() {
    for line in ["", "-D", "-4", "-p 30000", "-D -4 -p 30000 -L 127.0.0.1"] {
        let arguments = line.split_whitespace().map(Into::into);
        assert!(parse_netserver("netserver", arguments).is_ok(), "{line}");
    }
}

/// flent's probe searches the output for two texts that report missing options. It does not use
/// `-e` if it finds a third one.
#[test]
fn flents_probe_finds_all_options() {
    let settings = parse_client("-l 1 -D -0.2 -- -e 1").unwrap();
    assert_eq!(settings.print.interim, Some(Duration::from_millis(200)));
    assert!(settings.notices.is_empty() && settings.warnings.is_empty());
}

/// The texts are the output of Debian's packages 2.7.0-0.1 and 2.7.1-1 for `netperf -h`,
/// `netserver -h`, `netperf -- -h` and `netperf -t TCP_CC -- -h`.
#[test]
fn usage_texts_match_stock() {
    let netperf_usage = include_str!("options-usage/netperf.txt");
    let own_heading = "linerate's own options:\n    --";
    let netserver_usage = include_str!("options-usage/netserver.txt");
    let omni = include_str!("options-usage/omni-2.7.1.txt");
    let classic = include_str!("options-usage/classic-2.7.1.txt");
    let older_omni = include_str!("options-usage/omni-2.7.0.txt");
    let older_classic = include_str!("options-usage/classic-2.7.0.txt");
    for (line, stdout, stderr) in [
        ("-h", "", netperf_usage.to_owned()),
        (
            "-x",
            "",
            format!("netperf: invalid option -- 'x'\n{netperf_usage}"),
        ),
        (
            "--foo",
            "",
            format!("netperf: invalid option -- '-'\n{netperf_usage}"),
        ),
        (
            "-c1",
            "",
            format!("netperf: invalid option -- '1'\n{netperf_usage}"),
        ),
        (
            "-l",
            "",
            format!("netperf: option requires an argument -- 'l'\n{netperf_usage}"),
        ),
        ("-- -h", omni, String::new()),
        ("-t OMNI -- -h", omni, String::new()),
        ("-t UUID -- -h", omni, String::new()),
        ("-t TCP_SENDFILE -- -h", classic, String::new()),
        ("-t TCP_MSS -- -h", classic, String::new()),
        ("-t TCP_CC -- -h", classic, String::new()),
        ("--stock-version 2.7.0 -- -h", older_omni, String::new()),
        (
            "--stock-version 2.7.0 -t TCP_CC -- -h",
            older_classic,
            String::new(),
        ),
    ] {
        let exit = parse_client(line).unwrap_err();
        let (stock_part, own_part) = exit.stderr.split_at(stderr.len());
        assert_eq!(
            (exit.stdout.as_str(), stock_part, exit.code),
            (stdout, stderr.as_str(), 1),
            "{line}"
        );
        let has_own_options = !stderr.is_empty();
        assert_eq!(
            own_part.trim_start().starts_with(own_heading),
            has_own_options,
            "{line}: {own_part}"
        );
    }

    for (line, error) in [("-h", ""), ("-x", "netserver: invalid option -- 'x'\n")] {
        let exit = parse_netserver("netserver", [line.into()]).unwrap_err();
        let stock = format!("{error}{netserver_usage}");
        let own = exit
            .stderr
            .strip_prefix(&stock)
            .expect("the stock text comes first");
        assert!(
            own.starts_with("\nlinerate's own options:\n    --allow-fill-dir DIR"),
            "{own}"
        );
        assert_eq!((exit.stdout.as_str(), exit.code), ("", 1));
    }
}

#[test]
fn version_has_lines_of_stock_and_linerate() {
    for (options, version) in [
        ("-V", "2.7.1"),
        ("--stock-version 2.7.1 -V", "2.7.1"),
        ("--stock-version=2.7.0 -V", "2.7.0"),
    ] {
        let expected = Exit {
            stdout: format!(
                "Netperf version {version}\nlinerate {}\n",
                env!("CARGO_PKG_VERSION")
            ),
            stderr: String::new(),
            code: 0,
        };
        assert_eq!(parse_client(options).unwrap_err(), expected);
        let words = options.split_whitespace().map(Into::into);
        assert_eq!(parse_netserver("netserver", words).unwrap_err(), expected);
    }
}

#[test]
fn an_older_version_lacks_options() {
    let settings = parse_client("-t UDP_RR -- -f").unwrap();
    assert!(settings.flow.local.socket.do_not_fragment);
    assert!(settings.flow.remote.socket.do_not_fragment);
    for (line, error) in [
        ("-- -f", "invalid option -- 'f'"),
        ("-t TCP_CC -- -A", "invalid option -- 'A'"),
    ] {
        let exit = parse_client(&format!("--stock-version 2.7.0 {line}")).unwrap_err();
        assert_eq!(
            exit.stderr.lines().next(),
            Some(&*format!("netperf: {error}"))
        );
    }
    assert_refused(&[
        (
            "-t TCP_CC -- -a",
            "netperf: test option -a: asynchronous calls (aio_read, aio_write) are not available\n",
        ),
        (
            "-t TCP_SENDFILE -- -A",
            "netperf: test option -A: asynchronous calls (aio_read, aio_write) are not available\n",
        ),
        (
            "-t OMNI -- -T vsock -f",
            "netperf: test option -f contradicts VSOCK, which does not support it\n",
        ),
        (
            "--stock-version 2.6.0",
            "netperf: --stock-version 2.6.0: '2.6.0' is not a known version of netperf; known are 2.7.0, 2.7.1\n",
        ),
    ]);
}

#[test]
fn errors_name_the_wrong_global_option() {
    assert_refused(&[
        (
            "-I 99,x",
            "netperf: -I 99,x: 'x' is not a width in percent\n",
        ),
        ("-i 3,x", "netperf: -i 3,x: 'x' is not a number\n"),
        ("-c 1x", "netperf: -c 1x: '1x' is not a calibration value\n"),
        (
            "-l 1.5s",
            "netperf: -l 1.5s: the protocol carries whole seconds only\n",
        ),
        (
            "-l 500ms",
            "netperf: -l 500ms: a test takes at least one second\n",
        ),
        ("-l x", "netperf: -l x: 'x' is not a number\n"),
        (
            "-a 3",
            "netperf: -a 3: an alignment of 3 is not a power of two\n",
        ),
        (
            "-A 0",
            "netperf: -A 0: an alignment of 0 is not a power of two\n",
        ),
        ("-p 70000", "netperf: -p 70000: '70000' is not a port\n"),
        ("-v x", "netperf: -v x: 'x' is not a number\n"),
        (
            "--histogram-buckets 100",
            "netperf: --histogram-buckets needs -v 2, which prints the histogram\n",
        ),
        (
            "-v 2 --histogram-buckets 15",
            "netperf: --histogram-buckets 15: the number of buckets per decade must be a multiple of 10\n",
        ),
        (
            "-v 2 --histogram-buckets 2000",
            "netperf: --histogram-buckets 2000: 2000 is not from 10 to 1000\n",
        ),
        ("-s -1", "netperf: -s -1: -1 is not from 0 to 2147483647\n"),
    ]);
}

#[test]
fn transports_refuse_unsupported_options() {
    assert_refused(&[
        (
            "-- -T sdp",
            "netperf: test option -T sdp: the Sockets Direct Protocol has no provider on Linux\n",
        ),
        (
            "-- -T foo",
            "netperf: test option -T foo: not a protocol: tcp, mptcp, udp, udplite, sctp, dccp or vsock\n",
        ),
        (
            "-- -T udplite -D",
            "netperf: test option -D contradicts UDPLite, which does not support it\n",
        ),
        (
            "-- -T sctp -K cubic",
            "netperf: test option -K contradicts SCTP, which does not support it\n",
        ),
        (
            "-- -T udp -F",
            "netperf: test option -F contradicts UDP, which does not support it\n",
        ),
        (
            "-H 2,vsock",
            "netperf: VSOCK addresses need test option -T vsock, or test option -H with another address\n",
        ),
        (
            "-- -T vsock",
            "netperf: test option -T vsock needs the peer's context ID: add test option -H\n",
        ),
        (
            "-- -T vsock -H host,inet",
            "netperf: test option -T vsock contradicts IPv4 and IPv6 addresses\n",
        ),
        (
            "-Y 1 -- -T vsock -H 1",
            "netperf: -Y contradicts VSOCK, which does not support it\n",
        ),
        (
            "-- -T vsock -H 1 -s 64K",
            "netperf: test option -s contradicts VSOCK, which does not support it\n",
        ),
        (
            "-- -T sctp -e 1",
            "netperf: test option -e contradicts SCTP, which does not support it\n",
        ),
        (
            "-- -T dccp -V",
            "netperf: test option -V contradicts DCCP, which does not support it\n",
        ),
        (
            "-- -T vsock -H 1 -n",
            "netperf: test option -n contradicts VSOCK, which does not support it\n",
        ),
        (
            "-- -T dccp -t stream",
            "netperf: test option -t stream contradicts DCCP\n",
        ),
        (
            "-t TCP_CRR -- -T udplite",
            "netperf: test option -T udplite contradicts a test of connections\n",
        ),
        (
            "-t XTI_UDP_RR",
            "netperf: XTI_UDP_RR cannot run: the X/Open Transport Interface has no provider on Linux\n",
        ),
        (
            "-t XTI_TCP_CC -- -X /dev/tcp,/dev/tcp -w 5",
            "netperf: XTI_TCP_CC cannot run: the X/Open Transport Interface has no provider on Linux\n",
        ),
        (
            "-t sdp_cc",
            "netperf: SDP_CC cannot run: the Sockets Direct Protocol has no provider on Linux\n",
        ),
    ]);
}

#[test]
fn errors_name_the_wrong_test_option() {
    assert_refused(&[
        ("-- -x", "netperf: invalid option -- 'x'\n"),
        ("-- -m", "netperf: option requires an argument -- 'm'\n"),
        ("-t TCP_CC -- -o", "netperf: invalid option -- 'o'\n"),
        (
            "-- -m x",
            "netperf: test option -m x: 'x' is not a number\n",
        ),
        (
            "-- -m -5",
            "netperf: test option -m -5: -5 is not from 0 to 2147483647\n",
        ),
        (
            "-- -r 0,5",
            "netperf: test option -r 0,5: 0 is not from 1 to 2147483647\n",
        ),
        (
            "-- -t dgram",
            "netperf: test option -t dgram contradicts TCP\n",
        ),
        (
            "-- -T udp -t stream",
            "netperf: test option -t stream contradicts UDP\n",
        ),
        (
            "-t UDP_RR -- -c",
            "netperf: test option -c contradicts UDP, which has no connections\n",
        ),
        (
            "-t TCP_CRR -- -T udp",
            "netperf: test option -T udp contradicts a test of connections\n",
        ),
        (
            "-- -c",
            "netperf: test option -c contradicts a test that only sends: TCP_STREAM\n",
        ),
        (
            "-W 4K -- -m 1M",
            "netperf: test option -m or -r (1048576 bytes), with 4096 buffers (-W) of alignment 8 and \
             offset 0, needs more than 2 GiB\n",
        ),
        (
            "-t TCP_CC -b ,5",
            "netperf: -b ,5: the protocol of TCP_CC cannot request pacing from the peer\n",
        ),
        (
            "-b ,10G",
            "netperf: -b ,10737418240: the protocol carries only 32 bits\n",
        ),
        (
            "-t TCP_SENDFILE -K 5",
            "netperf: -K: the protocol of TCP_SENDFILE cannot request buffer accesses from the peer\n",
        ),
        (
            "-t TCP_SENDFILE -k 5",
            "netperf: -k contradicts TCP_SENDFILE: the kernel sends the file without a buffer\n",
        ),
        (
            "-t TCP_MAERTS -k 5 -- -V",
            "netperf: -k and -K contradict test option -V: the kernel discards the data without a buffer\n",
        ),
        (
            "-K 5 -- -V",
            "netperf: -k and -K contradict test option -V: the kernel discards the data without a buffer\n",
        ),
        (
            "-- -p 7000,6000",
            "netperf: test option -p 7000,6000: the first port 7000 is above the last port 6000\n",
        ),
        (
            "-- -k NOSUCH,UUID",
            "netperf: test option -k NOSUCH,UUID: unknown selector 'NOSUCH' ('?' lists them)\n",
        ),
    ]);
}

#[test]
fn errors_of_stock_keep_their_text() {
    for (line, stdout, stderr, code) in [
        (
            "-t foo -- -h",
            "The test you requested (FOO) is unknown to this netperf.\n\
             Please verify that you have the correct test name, \n\
             and that test family has been compiled into this netperf.\n",
            "",
            1,
        ),
        (
            "-F ,12345678901234567890123456789012",
            "",
            "Remote fill file name must be less than 32 characters\n",
            255,
        ),
        (
            "-- -k /nonexistent",
            "Could not open output selection file '/nonexistent' errno 2\n",
            "",
            255,
        ),
        // Stock has already printed the warnings about the earlier options.
        (
            "-L x,odd -l x",
            "WARNING! odd not recognized as an address family, using AF_UNPSEC\n\
             Are you sure netperf was configured for that address family?\n",
            "netperf: -l x: 'x' is not a number\n",
            1,
        ),
    ] {
        let exit = parse_client(line).unwrap_err();
        assert_eq!(
            (exit.stdout.as_str(), exit.stderr.as_str(), exit.code),
            (stdout, stderr, code),
            "{line}"
        );
    }
}

#[test]
fn valid_command_lines_return_notices_and_warnings() {
    for (line, notices, warnings) in [
        ("-b 5 -w 6 -k 1 -K 2", 0, 0),
        ("-w 6,7 --spin", 0, 3),
        ("-b ,5 -w 6", 0, 1),
        ("-b ,5 --spin", 0, 0),
        ("-b 5 --spin=local", 0, 0),
        ("-b ,5 --spin=local", 0, 1),
        ("-b 5 --spin=remote", 0, 1),
        ("-H 127.0.0.1,foo", 1, 0),
        ("-t TCP_SENDFILE -- -V -H 127.0.0.1,foo", 3, 0),
        ("-- -i 5", 0, 1),
        ("-- -w text -j 4 -N", 0, 0),
        ("-t TCP_CC -- -T 5 -w 5 -z", 0, 0),
        ("-t LOC_CPU -- -x", 0, 0),
        ("stray -l 1 stray -- stray -m 5 stray -- -x", 0, 0),
    ] {
        let settings = parse_client(line).unwrap_or_else(|exit| panic!("{line}: {exit:?}"));
        assert_eq!(settings.notices.len(), notices, "{line}");
        assert_eq!(settings.warnings.len(), warnings, "{line}");
    }
}

#[test]
fn refuses_invalid_utf8() {
    use std::os::unix::ffi::OsStringExt;

    let argument = std::ffi::OsString::from_vec(vec![b'-', b'H', 0xff]);
    let exit = parse_netperf("netperf", [argument]).unwrap_err();
    assert_eq!(
        (exit.stderr.as_str(), exit.code),
        ("netperf: argument '-H�' is not valid UTF-8\n", 1)
    );
}

fn parse_client(line: &str) -> Result<Settings, Exit> {
    parse_netperf("netperf", line.split_whitespace().map(Into::into))
}

fn assert_refused(table: &[(&str, &str)]) {
    for (line, stderr) in table {
        let expected = Exit {
            stdout: String::new(),
            stderr: (*stderr).to_owned(),
            code: 1,
        };
        assert_eq!(parse_client(line), Err(expected), "{line}");
    }
}
