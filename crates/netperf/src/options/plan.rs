//! What was typed → [`Settings`]: every default filled in, contradictions refused.

use std::time::Duration;

use getopt::{Quit, refuse};
use model::{BufferPlan, FlowPlan, Limit, SizeRule, Timing, Transport, Workload};

use super::global::{Global, Length};
use super::test::{DataEnd, Socket, TestOptions};
use super::{
    Control, Data, Direction, Family, Settings, Test, halves, print, refusals, rings, uncontrolled,
};

/// What `global` and `options` come to for `test`. A refusal is one line without the program's name.
pub(super) fn settings(
    test: Test,
    mut global: Global,
    options: TestOptions,
    command_line: String,
) -> Result<Settings, Quit> {
    let no_control = global.settings.no_control;
    refusals::of_family(test, no_control, &options)?;
    settle_host(&mut global.settings.control);
    let transport = transport(test, &options)?;
    let direction = direction(test, transport, &options)?;
    let mut plan = plan(test, transport, direction, &global, &options)?;
    let mut default_port = "0".to_owned();
    if no_control {
        plan = uncontrolled::plan(test, plan)?;
        if options.port[1].is_none() {
            default_port = uncontrolled::service(test, direction)?;
        }
    }
    refusals::with_its_addresses(transport, &global, &options)?;
    refusals::several_flows(test, global.bidirectional, &global.settings)?;
    refusals::of_output(test, &global, options.output.is_some())?;
    let reverse = reverse(direction, transport, &global, &options, &command_line)?;
    let print = print::print(test, direction, &global, &options, command_line);
    let sockets = [&options.here.socket, &options.there.socket];
    let special = options.of_family.special(test, sockets)?;
    let needs = options.needs();
    let warnings = [paced_by_nothing(&global), options.warnings].concat();
    let [local_port, port] = options.port;
    let port = port.unwrap_or(default_port);
    // TCP_CC draws its local ports from a range, whatever was asked for.
    let local_port = local_port.filter(|_| test != Test::TcpCc);
    let local_port = local_port.unwrap_or_else(|| "0".to_owned());
    Ok(Settings {
        test,
        direction,
        needs,
        data: data(
            transport,
            &global.settings.control,
            (options.local, local_port),
            (options.remote, port),
        ),
        name: test.name().to_owned(),
        flow: plan,
        reverse,
        special,
        ports: options.ports,
        repeat: global.repeat.settled(),
        print,
        warnings,
        notices: [&global.settings.notices[..], &options.notices].concat(),
        ..global.settings
    })
}

/// Intervals without a burst pace nothing, in stock without a word.
fn paced_by_nothing(global: &Global) -> Vec<String> {
    let ends = ["", " ,n"].into_iter().enumerate();
    let mut lines: Vec<_> = ends
        .filter(|(end, _)| global.pace_burst[*end] == 0 && global.pace_interval_us[*end] > 0)
        .map(|(_, half)| format!("-w{half} has no effect without -b{half}"))
        .collect();
    let [here, there] = [0, 1].map(|end| global.spin[end] && global.pace_burst[end] == 0);
    match global.spin {
        // Whichever end has a pace.
        [true, true] if here && there => lines.push("--spin has no effect without -b".to_owned()),
        [true, false] if here => lines.push("--spin=local has no effect without -b".to_owned()),
        [false, true] if there => {
            lines.push("--spin=remote has no effect without -b ,n".to_owned());
        }
        _ => {}
    }
    lines
}

fn transport(test: Test, options: &TestOptions) -> Result<Transport, Quit> {
    let preset = match test {
        Test::UdpStream | Test::UdpRr => Transport::Udp,
        Test::StreamStream | Test::StreamRr => return Ok(Transport::UnixStream),
        Test::DgStream | Test::DgRr => return Ok(Transport::UnixDatagram),
        Test::SctpStream | Test::SctpRr => return Ok(Transport::Sctp),
        Test::SctpStreamMany | Test::SctpRrMany => return Ok(Transport::SctpMany),
        Test::DlcoStream | Test::DlcoRr => return Ok(Transport::LlcStream),
        Test::DlclStream | Test::DlclRr => return Ok(Transport::LlcDatagram),
        _ => Transport::Tcp,
    };
    let transport = options.transport.unwrap_or(preset);
    // The stock tool spins for ever on these two.
    let wrong = match options.socket {
        Some(Socket::Datagram) if transport.has_connections() => "dgram",
        Some(Socket::Stream) if transport.has_datagrams() => "stream",
        _ => return refusals::with_its_options(transport, options),
    };
    let name = transport.name();
    refuse(format!("test option -t {wrong} contradicts {name}"))
}

/// The test's own direction, or for OMNI what `-d` says, or else what other options suggest.
fn direction(test: Test, transport: Transport, options: &TestOptions) -> Result<Direction, Quit> {
    let (transmit, receive) = match test {
        Test::TcpRr | Test::TcpCrr | Test::UdpRr => (true, true),
        _ if test.is_family_transaction() => (true, true),
        Test::TcpMaerts => (false, true),
        Test::TcpCc => (false, false),
        Test::Omni => options.direction.unwrap_or_else(|| suggested(options)),
        _ => (true, false),
    };
    let connection = options.connection || matches!(test, Test::TcpCrr | Test::TcpCc);
    let direction = Direction {
        transmit: transmit || (!receive && !connection),
        receive,
        connection,
    };
    if connection && !transport.has_connections() {
        let name = transport.name();
        return refuse(if options.connection {
            format!("test option -c contradicts {name}, which has no connections")
        } else {
            format!(
                "test option -T {} contradicts a test of connections",
                name.to_lowercase()
            )
        });
    }
    // The stock tool opens a connection for each buffer and reports a stream's throughput.
    if connection && !direction.is_transactional() {
        let way = if transmit { "sends" } else { "receives" };
        return refuse(format!(
            "test option -c contradicts a test that only {way}: {}",
            test.name()
        ));
    }
    Ok(direction)
}

/// What OMNI's other options say about its direction.
fn suggested(options: &TestOptions) -> (bool, bool) {
    let both = options.sizes.iter().any(Option::is_some);
    let is_typed = |buffers: &BufferPlan| buffers.size != SizeRule::SocketBuffer;
    let (here, there) = (&options.here, &options.there);
    let transmit = is_typed(&here.send) || is_typed(&there.receive);
    let receive = is_typed(&there.send) || is_typed(&here.receive);
    (both || transmit, both || receive)
}

fn plan(
    test: Test,
    transport: Transport,
    direction: Direction,
    global: &Global,
    options: &TestOptions,
) -> Result<FlowPlan, Quit> {
    let workload = workload(direction);
    let timed = print::wants_latency(global, options)
        || global.settings.print.verbosity >= 2
        || global.settings.histogram.is_some();
    let (mut here, mut there) = halves::halves(test, transport, direction, global, options);
    rings::settle(&mut here, &mut there, test, direction, options)?;
    refusals::within_the_protocol(test, &there)?;
    refusals::within_reach(&here, direction.receive && !direction.transmit)?;
    refusals::within_reach(&there, direction.transmit && !direction.receive)?;
    let plan = FlowPlan {
        limit: limit(global.length, direction, options.of_family.messages),
        // Requests ahead of the answers: not on a stream, not where each has a connection.
        burst: if workload == Workload::ask() {
            options.burst
        } else {
            0
        },
        timing: Timing {
            passes: timed && direction.is_transactional(),
            calls: timed && !direction.is_transactional(),
        },
        here,
        there,
        ..FlowPlan::of(transport, workload)
    };
    refusals::of_io(test, &plan)?;
    Ok(plan)
}

/// What runs the other way at the same time: `--bidirectional`.
fn reverse(
    direction: Direction,
    transport: Transport,
    global: &Global,
    options: &TestOptions,
    command_line: &str,
) -> Result<Option<Box<Settings>>, Quit> {
    if !global.bidirectional {
        return Ok(None);
    }
    refusals::of_two_ways(true, direction)?;
    let global = Global {
        bidirectional: false,
        ..global.clone()
    };
    let mut options = TestOptions {
        transport: Some(transport),
        socket: None,
        direction: Some((direction.receive, direction.transmit)),
        ..options.clone()
    };
    // A size for one end is that of the other's data, too, unless that has its own.
    let (here, there) = (&mut options.here, &mut options.there);
    for (here, there) in [
        (&mut here.send.size, &mut there.send.size),
        (&mut here.receive.size, &mut there.receive.size),
    ] {
        match (*here, *there) {
            (SizeRule::SocketBuffer, typed) => *here = typed,
            (typed, SizeRule::SocketBuffer) => *there = typed,
            _ => {}
        }
    }
    let reverse = settings(Test::Omni, global, options, command_line.to_owned())?;
    Ok(Some(Box::new(reverse)))
}

fn workload(direction: Direction) -> Workload {
    match (direction.transmit, direction.receive, direction.connection) {
        (true, true, true) => Workload::connect_and_ask(),
        (true, true, false) => Workload::ask(),
        (false, true, _) => Workload::receive(),
        (true, false, _) => Workload::send(),
        (false, false, _) => Workload::connect_and_close(),
    }
}

/// `-l`, unless SCTP's `-N` gives a number of messages.
fn limit(length: Length, direction: Direction, messages: u32) -> Limit {
    match length {
        _ if messages > 0 && direction.is_transactional() => Limit::Transactions(messages.into()),
        _ if messages > 0 => Limit::Messages(messages.into()),
        Length::Seconds(seconds) => Limit::Time(Duration::from_secs(seconds.into())),
        Length::Amount(n) if direction.is_transactional() => Limit::Transactions(n.into()),
        Length::Amount(n) => Limit::Bytes(n.into()),
        Length::Unlimited => Limit::Unlimited,
    }
}

/// Names the server's host if no option did.
fn settle_host(control: &mut Control) {
    let default = match control.family {
        Family::V6 => "::1",
        Family::V4 | Family::Unspecified => "localhost",
        // VMADDR_CID_HOST: from a guest, its host.
        Family::Vsock => "2",
    };
    if control.host.is_empty() {
        default.clone_into(&mut control.host);
    }
}

fn data(
    transport: Transport,
    control: &Control,
    (local, local_port): (DataEnd, String),
    (remote, port): (DataEnd, String),
) -> Data {
    let or = |family, inherited| match family {
        _ if transport == Transport::Vsock => Family::Vsock,
        Family::Unspecified => inherited,
        family => family,
    };
    Data {
        host: remote.host,
        host_bits: remote.bits,
        family: or(remote.family, control.family),
        port,
        local_host: local.host,
        local_bits: local.bits,
        local_family: or(local.family, control.local_family),
        local_port,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::{Half, SizeRule, SocketOptions, WidthRule};

    use super::*;
    use crate::options::{Unit, netperf};

    #[rustfmt::skip]
    #[test]
    fn tests_have_their_presets() {
        for (line, workload, transport, letter, routing) in [
            ("", Workload::send(), Transport::Tcp, 'm', true),
            ("-t tcp_maerts", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t TCP_SENDFILE", Workload::send(), Transport::Tcp, 'm', true),
            ("-t TCP_MSS", Workload::send(), Transport::Tcp, 'm', true),
            ("-t TCP_RR", Workload::ask(), Transport::Tcp, 'x', true),
            ("-t TCP_CRR", Workload::connect_and_ask(), Transport::Tcp, 'x', true),
            ("-t TCP_RR -- -c", Workload::connect_and_ask(), Transport::Tcp, 'x', true),
            ("-t TCP_CC", Workload::connect_and_close(), Transport::Tcp, 'm', true),
            ("-t UDP_STREAM", Workload::send(), Transport::Udp, 'm', false),
            ("-t UDP_STREAM -- -R 1", Workload::send(), Transport::Udp, 'm', true),
            ("-t UDP_RR", Workload::ask(), Transport::Udp, 'x', true),
            ("-t UDP_RR -- -R 0", Workload::ask(), Transport::Udp, 'x', false),
            ("-t TCP_STREAM -- -T udp", Workload::send(), Transport::Udp, 'm', false),
            ("-t UDP_STREAM -- -T tcp", Workload::send(), Transport::Tcp, 'm', true),
            ("-t UDP_RR -- -t dgram", Workload::ask(), Transport::Udp, 'x', true),
            ("-- -t dgram -T tcp", Workload::send(), Transport::Tcp, 'm', true),
            ("-t UDP_RR -t TCP_MAERTS", Workload::receive(), Transport::Tcp, 'm', true),
            // OMNI goes where its options say.
            ("-t OMNI", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m 5", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m ,5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -M 5", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -M ,5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m 5,5", Workload::ask(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -r 5", Workload::ask(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d maerts -r 5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -d 6", Workload::ask(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d crr", Workload::connect_and_ask(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d rr -c", Workload::connect_and_ask(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -c", Workload::connect_and_close(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -T udp", Workload::send(), Transport::Udp, 'm', false),
            ("-t OMNI -- -T udp -d rr", Workload::ask(), Transport::Udp, 'x', true),
            // The other families.
            ("-t stream_stream", Workload::send(), Transport::UnixStream, 'm', true),
            ("-t STREAM_RR -- -r 5", Workload::ask(), Transport::UnixStream, 'x', true),
            ("-t DG_STREAM -f x", Workload::send(), Transport::UnixDatagram, 'm', true),
            ("-t DG_RR", Workload::ask(), Transport::UnixDatagram, 'x', true),
            ("-t SCTP_STREAM -- -N 5", Workload::send(), Transport::Sctp, 'm', true),
            ("-t SCTP_RR_MANY -- -T 3", Workload::ask(), Transport::SctpMany, 'x', true),
            ("-t DLCO_STREAM -- -D eth -p 0,1", Workload::send(), Transport::LlcStream, 'm', true),
            ("-t DLCL_RR -- -p 2", Workload::ask(), Transport::LlcDatagram, 'x', true),
            // -f x is for transactions only.
            ("-f x", Workload::send(), Transport::Tcp, 'm', true),
            ("-f K", Workload::send(), Transport::Tcp, 'K', true),
            ("-f m -t TCP_RR", Workload::ask(), Transport::Tcp, 'm', true),
        ] {
            let settings = run(line);
            assert_eq!(settings.flow.workload, workload, "{line}");
            assert_eq!(settings.flow.transport, transport, "{line}");
            assert_eq!(settings.print.unit, Unit(letter), "{line}");
            assert_eq!(settings.flow.here.socket.dont_route, !routing, "{line}");
            assert_eq!(settings.flow.there.socket.dont_route, !routing, "{line}");
        }
    }

    #[test]
    fn without_control_a_service_stands_in() {
        for (line, port) in [
            ("-N", "discard"),
            ("-N -t TCP_SENDFILE", "discard"),
            ("-N -t UDP_STREAM", "discard"),
            ("-N -t TCP_MAERTS", "chargen"),
            ("-N -t TCP_RR", "echo"),
            ("-N -t UDP_RR", "echo"),
            ("-N -t TCP_CRR", "echo"),
            ("-N -t OMNI -- -c", "echo"),
            ("-N -t OMNI -- -d recv", "chargen"),
            ("-N -- -P ,4444", "4444"),
            ("-N -t TCP_CC -- -P ,4444", "4444"),
            ("-t TCP_RR", "0"),
        ] {
            let settings = run(line);
            assert_eq!(settings.data.port, port, "{line}");
            assert_eq!(settings.no_control, line.starts_with("-N"));
        }
        let settings = run("-N -C -T ,1 -t TCP_CRR -- -r 7,9 -S 64K");
        assert_eq!(settings.flow.there, Half::default());
        assert_eq!(settings.flow.here.receive.size, SizeRule::Bytes(7));
        assert_eq!(
            settings.flow.workload,
            Workload::connect_and_ask().closing_first()
        );
    }

    #[rustfmt::skip]
    #[test]
    fn sizes_and_widths() {
        use SizeRule::{Bytes, SocketBuffer};
        use WidthRule::{Buffers, CoverSocketBuffer};
        const DEFAULT: (SizeRule, WidthRule) = (SocketBuffer, CoverSocketBuffer);
        let bulk = |bytes| (Bytes(bytes), CoverSocketBuffer);
        let message = |bytes| (Bytes(bytes), Buffers(1));
        // Here: send, receive; there: send, receive.
        for (line, expected) in [
            ("", [DEFAULT, DEFAULT, DEFAULT, DEFAULT]),
            ("-- -m 1K", [bulk(1024), DEFAULT, DEFAULT, DEFAULT]),
            ("-- -m 1K,2K -M 3K,4K", [bulk(1024), bulk(4096), bulk(2048), bulk(3072)]),
            ("-- -m ,2K", [DEFAULT, DEFAULT, bulk(2048), DEFAULT]),
            ("-- -M 3K", [DEFAULT, DEFAULT, DEFAULT, bulk(3072)]),
            ("-- -m 0 -M 0", [DEFAULT, DEFAULT, DEFAULT, DEFAULT]),
            ("-t TCP_RR", [message(1), message(1), message(1), message(1)]),
            ("-t TCP_RR -- -r 5,6", [message(5), message(6), message(6), message(5)]),
            ("-t TCP_RR -- -r 5,", [message(5), message(1), message(1), message(5)]),
            ("-t TCP_RR -- -m 9,9 -M 9,9", [message(1), message(1), message(1), message(1)]),
            ("-- -r 5 -m 9", [message(5), message(5), message(5), message(5)]),
            ("-t TCP_SENDFILE -- -r 5 -m 9", [bulk(9), DEFAULT, DEFAULT, DEFAULT]),
            ("-t TCP_CC -- -r 5,6", [message(5), message(6), message(6), message(5)]),
            (
                "-W 3,4",
                [
                    (SocketBuffer, Buffers(3)),
                    (SocketBuffer, Buffers(4)),
                    (SocketBuffer, Buffers(3)),
                    (SocketBuffer, Buffers(4)),
                ],
            ),
            (
                "-t TCP_RR -- -W 5",
                [
                    (Bytes(1), Buffers(5)),
                    message(1),
                    (Bytes(1), Buffers(5)),
                    message(1),
                ],
            ),
        ] {
            let FlowPlan { here, there, .. } = run(line).flow;
            let rings = [here.send, here.receive, there.send, there.receive];
            assert_eq!(
                rings.map(|ring| (ring.size, ring.width)),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn alignments_and_offsets_by_end_and_direction() {
        let FlowPlan { here, there, .. } = run("-a 16,32 -A 64 -o 1,2 -O ,3").flow;
        let rings = [here.send, here.receive, there.send, there.receive];
        assert_eq!(
            rings.map(|ring| (ring.alignment, ring.offset)),
            [(16, 1), (32, 2), (64, 0), (64, 3)]
        );
    }

    #[test]
    fn limits_and_bursts_count_what_the_test_counts() {
        for (line, limit, burst) in [
            ("", Limit::Time(Duration::from_secs(10)), 0),
            ("-l 1m0s", Limit::Time(Duration::from_secs(60)), 0),
            ("-l 0", Limit::Unlimited, 0),
            ("-l -1K -- -b 5", Limit::Bytes(1024), 0),
            ("-l -1K -t TCP_RR -- -b 5", Limit::Transactions(1024), 5),
            ("-l -1K -t STREAM_STREAM", Limit::Bytes(1024), 0),
            (
                "-l 3 -t SCTP_STREAM_MANY -- -N 1K",
                Limit::Messages(1024),
                0,
            ),
            ("-t SCTP_RR -- -N 7", Limit::Transactions(7), 0),
            ("-l -9 -t TCP_CRR -- -b 5", Limit::Transactions(9), 0),
            ("-l -9 -t TCP_CC -- -b 5", Limit::Transactions(9), 0),
            ("-l -9 -t TCP_SENDFILE -- -b 5", Limit::Bytes(9), 0),
            ("-l -9 -t OMNI -- -c", Limit::Transactions(9), 0),
        ] {
            let plan = run(line).flow;
            assert_eq!((plan.limit, plan.burst), (limit, burst), "{line}");
        }
    }

    #[test]
    fn times_are_recorded_where_somebody_asks() {
        for (line, latency, passes, calls) in [
            ("", false, false, false),
            ("-j", true, false, true),
            ("-v 2", false, false, true),
            ("-v 2 -t TCP_CC", false, true, false),
            ("-t TCP_RR -j", true, true, false),
            ("-t TCP_RR -- -k P99_LATENCY", true, true, false),
            ("-t TCP_RR -- -o all", true, true, false),
            ("-t TCP_RR -- -k RT_LATENCY", false, false, false),
            // The last selection counts.
            ("-t TCP_RR -- -k P99_LATENCY -o", false, false, false),
        ] {
            let settings = run(line);
            assert_eq!(settings.print.latency, latency, "{line}");
            assert_eq!(settings.flow.timing, Timing { passes, calls }, "{line}");
        }
    }

    #[test]
    fn asking_for_the_peers_congestion_control_allows_it_to_route() {
        let plan = run("-t UDP_STREAM -- -k REMOTE_CONG_CONTROL").flow;
        assert!(plan.here.socket.dont_route);
        assert!(!plan.there.socket.dont_route);
    }

    #[test]
    fn addresses() {
        let host = |line| run(line).control.host;
        assert_eq!(host(""), "localhost");
        assert_eq!(host("-6"), "::1");
        assert_eq!(host("-H ,6"), "::1");
        assert_eq!(host("-L ,6"), "localhost");
        assert_eq!(host("-6 -H fe80::1%eth0"), "fe80::1%eth0");

        let Settings { control, data, .. } =
            run("-4 -H a -p 1,2 -L b,6 -- -H c/24 -L ,unspec -P 3,4");
        assert_eq!(
            (control.family, control.local_family),
            (Family::V4, Family::V6)
        );
        assert_eq!(
            (control.port.as_str(), control.local_port.as_str()),
            ("1", "2")
        );
        assert_eq!(control.local_host.as_deref(), Some("b"));
        assert_eq!(
            (data.host.as_deref(), data.host_bits),
            (Some("c"), Some(24))
        );
        assert_eq!((data.family, data.local_family), (Family::V4, Family::V6));
        assert_eq!((data.port.as_str(), data.local_port.as_str()), ("4", "3"));

        let data = run("-- -6").data;
        assert_eq!((data.family, data.local_family), (Family::V6, Family::V6));
    }

    #[test]
    fn every_socket_option_reaches_its_end() {
        let settings = run(
            "-S -y 5,6 -Y cs1,0x20 -T 0,1 -c -C -F /a,/b -s 3 -- -a -B -C -D -e 2 -F -g -G 500 -I \
             -K cubic,reno -l 4 -n -s 1K,2K -S 3K,-1 -V",
        );
        let plan = &settings.flow;
        assert_eq!(
            plan.here.socket,
            SocketOptions {
                send_buffer_bytes: Some(1024),
                receive_buffer_bytes: Some(2048),
                no_delay: true,
                cork: true,
                max_segment_bytes: Some(500),
                fast_open: true,
                keep_alive: true,
                priority: Some(5),
                type_of_service: Some(0x20),
                congestion_control: Some("cubic".to_owned()),
                connect_datagrams: true,
                receive_timeout: Some(Duration::from_secs(2)),
                debug: true,
                multicast_ttl: Some(4),
                ..SocketOptions::default()
            }
        );
        assert_eq!(
            plan.there.socket,
            SocketOptions {
                send_buffer_bytes: Some(3072),
                no_delay: true,
                defer_accept_seconds: Some(5),
                fast_open: true,
                keep_alive: true,
                priority: Some(6),
                type_of_service: Some(0x20),
                congestion_control: Some("reno".to_owned()),
                answer_from_destination: true,
                ..SocketOptions::default()
            }
        );
        assert_eq!((plan.here.cpu, plan.there.cpu), (Some(0), Some(1)));
        assert!(plan.here.measure_cpu && plan.there.measure_cpu);
        assert!(plan.here.discard_in_kernel && plan.there.discard_in_kernel);
        assert!(plan.here.write_instead_of_send && !plan.there.write_instead_of_send);
        assert_eq!(plan.here.fill, Some(PathBuf::from("/a")));
        assert_eq!(plan.there.fill, Some(PathBuf::from("/b")));
        assert_eq!(settings.wait, Duration::from_secs(3));
    }

    #[test]
    fn a_lone_port_is_a_range_of_one() {
        for (line, min, max) in [
            ("", 5000, 65535),
            ("-t TCP_CRR -- -p 6000", 6000, 6001),
            ("-t TCP_CRR -- -p 6000,", 6000, 65535),
            ("-t TCP_CRR -- -p 6000,7000", 6000, 7000),
        ] {
            let ports = run(line).ports;
            assert_eq!((ports.min, ports.max), (min, max), "{line}");
        }
    }

    fn run(line: &str) -> Settings {
        netperf("netperf", line.split_whitespace().map(Into::into))
            .unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
    }
}
