//! Conversion of parsed options to [`Settings`]. It fills in defaults and refuses contradictions.

use std::time::Duration;

use getopt::{EarlyExit, refuse};
use model::{BufferPlan, FlowPlan, Limit, SizeRule, Timing, Transport, Workload};

use super::global::{GlobalOptions, Length};
use super::test::{DataEndpoint, SocketType, TestOptions};
use super::{
    ControlOptions, DataOptions, Family, Settings, Test, TestDirection, endpoint_plans, no_control,
    print, refusals, rings,
};

/// Returns the settings for `test`. A refusal is one line without the program's name.
pub(super) fn settings(
    test: Test,
    mut global: GlobalOptions,
    options: TestOptions,
    command_line: String,
) -> Result<Settings, EarlyExit> {
    let no_control = global.settings.no_control;
    refusals::check_family(test, no_control, &options)?;
    set_default_host(&mut global.settings.control);
    let transport = transport(test, &options)?;
    let direction = direction(test, transport, &options)?;
    let mut plan = flow_plan(test, transport, direction, &global, &options)?;
    let mut default_port = "0".to_owned();
    if no_control {
        plan = no_control::plan_without_control(test, plan)?;
        if options.data_ports[1].is_none() {
            default_port = no_control::service_name(test, direction)?;
        }
    }
    refusals::check_vsock_addresses(transport, &global, &options)?;
    refusals::check_flow_count(test, global.bidirectional, &global.settings)?;
    refusals::check_output(test, &global, options.output.is_some())?;
    let reverse = reverse_settings(direction, transport, &global, &options, &command_line)?;
    let print = print::print_options(test, direction, &global, &options, command_line);
    let sockets = [&options.local.socket, &options.remote.socket];
    let family_settings = options.family.family_settings(test, sockets)?;
    let needs = options.needs();
    let warnings = [pacing_warnings(&global), options.warnings].concat();
    let [local_port, port] = options.data_ports;
    let port = port.unwrap_or(default_port);
    // TCP_CC ignores the local port and uses a range of ports.
    let local_port = local_port.filter(|_| test != Test::TcpCc);
    let local_port = local_port.unwrap_or_else(|| "0".to_owned());
    Ok(Settings {
        test,
        direction,
        needs,
        data: data_options(
            transport,
            &global.settings.control,
            (options.source, local_port),
            (options.destination, port),
        ),
        name: test.name().to_owned(),
        flow: plan,
        reverse,
        family_settings,
        ports: options.ports,
        repeat: global.repeat.to_repeat(),
        print,
        warnings,
        notices: [&global.settings.notices[..], &options.notices].concat(),
        ..global.settings
    })
}

/// Returns warnings about pacing options without effect. Stock ignores them silently.
fn pacing_warnings(global: &GlobalOptions) -> Vec<String> {
    let ends = ["", " ,n"].into_iter().enumerate();
    let mut lines: Vec<_> = ends
        .filter(|(end, _)| global.pace_burst[*end] == 0 && global.pace_interval_us[*end] > 0)
        .map(|(_, value)| format!("-w{value} has no effect without -b{value}"))
        .collect();
    let [spins_unpaced_locally, spins_unpaced_remotely] =
        [0, 1].map(|end| global.spin[end] && global.pace_burst[end] == 0);
    match global.spin {
        // `--spin` without an end applies to each paced end.
        [true, true] if spins_unpaced_locally && spins_unpaced_remotely => {
            lines.push("--spin has no effect without -b".to_owned());
        }
        [true, false] if spins_unpaced_locally => {
            lines.push("--spin=local has no effect without -b".to_owned());
        }
        [false, true] if spins_unpaced_remotely => {
            lines.push("--spin=remote has no effect without -b ,n".to_owned());
        }
        _ => {}
    }
    lines
}

fn transport(test: Test, options: &TestOptions) -> Result<Transport, EarlyExit> {
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
    // The stock tool loops forever on these two contradictions.
    let contradiction = match options.socket_type {
        Some(SocketType::Datagram) if transport.has_connections() => "dgram",
        Some(SocketType::Stream) if transport.has_datagrams() => "stream",
        _ => return refusals::check_transport_options(transport, options),
    };
    let name = transport.name();
    refuse(format!("test option -t {contradiction} contradicts {name}"))
}

/// Returns the direction of `test`. For OMNI, it depends on `-d` or else on other options.
fn direction(
    test: Test,
    transport: Transport,
    options: &TestOptions,
) -> Result<TestDirection, EarlyExit> {
    let (transmit, receive) = match test {
        Test::TcpRr | Test::TcpCrr | Test::UdpRr => (true, true),
        _ if test.is_non_inet_transaction() => (true, true),
        Test::TcpMaerts => (false, true),
        Test::TcpCc => (false, false),
        Test::Omni => options
            .transmit_receive
            .unwrap_or_else(|| suggested_direction(options)),
        _ => (true, false),
    };
    let connection = options.connection || matches!(test, Test::TcpCrr | Test::TcpCc);
    let direction = TestDirection {
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
    // In this case, the stock tool opens a connection per buffer and reports a stream's throughput.
    if connection && !direction.is_transactional() {
        let verb = if transmit { "sends" } else { "receives" };
        return refuse(format!(
            "test option -c contradicts a test that only {verb}: {}",
            test.name()
        ));
    }
    Ok(direction)
}

/// Returns whether OMNI transmits and receives, from the sizes that were typed.
fn suggested_direction(options: &TestOptions) -> (bool, bool) {
    let has_message_sizes = options.message_sizes.iter().any(Option::is_some);
    let is_typed = |buffers: &BufferPlan| buffers.size != SizeRule::SocketBuffer;
    let (local, remote) = (&options.local, &options.remote);
    let transmit = is_typed(&local.send) || is_typed(&remote.receive);
    let receive = is_typed(&remote.send) || is_typed(&local.receive);
    (has_message_sizes || transmit, has_message_sizes || receive)
}

fn flow_plan(
    test: Test,
    transport: Transport,
    direction: TestDirection,
    global: &GlobalOptions,
    options: &TestOptions,
) -> Result<FlowPlan, EarlyExit> {
    let workload = workload(direction);
    let records_times = print::needs_latency(global, options)
        || global.settings.print.verbosity >= 2
        || global.settings.histogram.is_some();
    let (mut local, mut remote) =
        endpoint_plans::endpoint_plans(test, transport, direction, global, options);
    rings::set_sizes_and_widths(&mut local, &mut remote, test, direction, options)?;
    refusals::check_remote_endpoint(test, &remote)?;
    refusals::check_touch(&local, direction.receive && !direction.transmit)?;
    refusals::check_touch(&remote, direction.transmit && !direction.receive)?;
    let plan = FlowPlan {
        limit: limit(global.length, direction, options.family.messages),
        // Only a transaction test on one connection sends requests ahead of the responses.
        burst: if workload == Workload::request() {
            options.burst
        } else {
            0
        },
        timing: Timing {
            passes: records_times && direction.is_transactional(),
            calls: records_times && !direction.is_transactional(),
        },
        local,
        remote,
        ..FlowPlan::new(transport, workload)
    };
    refusals::check_io(test, &plan)?;
    Ok(plan)
}

/// Returns the settings of the other direction with `--bidirectional`.
fn reverse_settings(
    direction: TestDirection,
    transport: Transport,
    global: &GlobalOptions,
    options: &TestOptions,
    command_line: &str,
) -> Result<Option<Box<Settings>>, EarlyExit> {
    if !global.bidirectional {
        return Ok(None);
    }
    refusals::check_bidirectional(direction)?;
    let global = GlobalOptions {
        bidirectional: false,
        ..global.clone()
    };
    let mut options = TestOptions {
        transport: Some(transport),
        socket_type: None,
        transmit_receive: Some((direction.receive, direction.transmit)),
        ..options.clone()
    };
    // A size typed for one end also applies to the other end, unless that has its own size.
    let (local, remote) = (&mut options.local, &mut options.remote);
    for (local_size, remote_size) in [
        (&mut local.send.size, &mut remote.send.size),
        (&mut local.receive.size, &mut remote.receive.size),
    ] {
        match (*local_size, *remote_size) {
            (SizeRule::SocketBuffer, typed) => *local_size = typed,
            (typed, SizeRule::SocketBuffer) => *remote_size = typed,
            _ => {}
        }
    }
    let reverse = settings(Test::Omni, global, options, command_line.to_owned())?;
    Ok(Some(Box::new(reverse)))
}

fn workload(direction: TestDirection) -> Workload {
    match (direction.transmit, direction.receive, direction.connection) {
        (true, true, true) => Workload::connect_and_request(),
        (true, true, false) => Workload::request(),
        (false, true, _) => Workload::receive(),
        (true, false, _) => Workload::send(),
        (false, false, _) => Workload::connect_and_close(),
    }
}

/// Returns the limit from `-l`, or from SCTP's `-N` (`messages`) if that is not 0.
fn limit(length: Length, direction: TestDirection, messages: u32) -> Limit {
    match length {
        _ if messages > 0 && direction.is_transactional() => Limit::Transactions(messages.into()),
        _ if messages > 0 => Limit::Messages(messages.into()),
        Length::Seconds(seconds) => Limit::Time(Duration::from_secs(seconds.into())),
        Length::Amount(n) if direction.is_transactional() => Limit::Transactions(n.into()),
        Length::Amount(n) => Limit::Bytes(n.into()),
        Length::Unlimited => Limit::Unlimited,
    }
}

/// Sets the default host of the server if no option names one.
fn set_default_host(control: &mut ControlOptions) {
    let default = match control.family {
        Family::V6 => "::1",
        Family::V4 | Family::Unspecified => "localhost",
        // VMADDR_CID_HOST: the host of the virtual machine.
        Family::Vsock => "2",
    };
    if control.host.is_empty() {
        default.clone_into(&mut control.host);
    }
}

fn data_options(
    transport: Transport,
    control: &ControlOptions,
    (local, local_port): (DataEndpoint, String),
    (remote, port): (DataEndpoint, String),
) -> DataOptions {
    let family_or = |family, inherited| match family {
        _ if transport == Transport::Vsock => Family::Vsock,
        Family::Unspecified => inherited,
        family => family,
    };
    DataOptions {
        host: remote.host,
        host_prefix_bits: remote.prefix_bits,
        family: family_or(remote.family, control.family),
        port,
        local_host: local.host,
        local_prefix_bits: local.prefix_bits,
        local_family: family_or(local.family, control.local_family),
        local_port,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::{EndpointPlan, SizeRule, SocketOptions, WidthRule};

    use super::*;
    use crate::options::{ThroughputUnit, parse_netperf};

    #[rustfmt::skip]
    #[test]
    fn tests_have_their_presets() {
        for (line, workload, transport, letter, routing) in [
            ("", Workload::send(), Transport::Tcp, 'm', true),
            ("-t tcp_maerts", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t TCP_SENDFILE", Workload::send(), Transport::Tcp, 'm', true),
            ("-t TCP_MSS", Workload::send(), Transport::Tcp, 'm', true),
            ("-t TCP_RR", Workload::request(), Transport::Tcp, 'x', true),
            ("-t TCP_CRR", Workload::connect_and_request(), Transport::Tcp, 'x', true),
            ("-t TCP_RR -- -c", Workload::connect_and_request(), Transport::Tcp, 'x', true),
            ("-t TCP_CC", Workload::connect_and_close(), Transport::Tcp, 'm', true),
            ("-t UDP_STREAM", Workload::send(), Transport::Udp, 'm', false),
            ("-t UDP_STREAM -- -R 1", Workload::send(), Transport::Udp, 'm', true),
            ("-t UDP_RR", Workload::request(), Transport::Udp, 'x', true),
            ("-t UDP_RR -- -R 0", Workload::request(), Transport::Udp, 'x', false),
            ("-t TCP_STREAM -- -T udp", Workload::send(), Transport::Udp, 'm', false),
            ("-t UDP_STREAM -- -T tcp", Workload::send(), Transport::Tcp, 'm', true),
            ("-t UDP_RR -- -t dgram", Workload::request(), Transport::Udp, 'x', true),
            ("-- -t dgram -T tcp", Workload::send(), Transport::Tcp, 'm', true),
            ("-t UDP_RR -t TCP_MAERTS", Workload::receive(), Transport::Tcp, 'm', true),
            // OMNI takes its direction from the options.
            ("-t OMNI", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m 5", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m ,5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -M 5", Workload::send(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -M ,5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -m 5,5", Workload::request(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -r 5", Workload::request(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d maerts -r 5", Workload::receive(), Transport::Tcp, 'm', true),
            ("-t OMNI -- -d 6", Workload::request(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d crr", Workload::connect_and_request(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -d rr -c", Workload::connect_and_request(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -c", Workload::connect_and_close(), Transport::Tcp, 'x', true),
            ("-t OMNI -- -T udp", Workload::send(), Transport::Udp, 'm', false),
            ("-t OMNI -- -T udp -d rr", Workload::request(), Transport::Udp, 'x', true),
            // The other families.
            ("-t stream_stream", Workload::send(), Transport::UnixStream, 'm', true),
            ("-t STREAM_RR -- -r 5", Workload::request(), Transport::UnixStream, 'x', true),
            ("-t DG_STREAM -f x", Workload::send(), Transport::UnixDatagram, 'm', true),
            ("-t DG_RR", Workload::request(), Transport::UnixDatagram, 'x', true),
            ("-t SCTP_STREAM -- -N 5", Workload::send(), Transport::Sctp, 'm', true),
            ("-t SCTP_RR_MANY -- -T 3", Workload::request(), Transport::SctpMany, 'x', true),
            ("-t DLCO_STREAM -- -D eth -p 0,1", Workload::send(), Transport::LlcStream, 'm', true),
            ("-t DLCL_RR -- -p 2", Workload::request(), Transport::LlcDatagram, 'x', true),
            // -f x is for transactions only.
            ("-f x", Workload::send(), Transport::Tcp, 'm', true),
            ("-f K", Workload::send(), Transport::Tcp, 'K', true),
            ("-f m -t TCP_RR", Workload::request(), Transport::Tcp, 'm', true),
        ] {
            let settings = parse(line);
            assert_eq!(settings.flow.workload, workload, "{line}");
            assert_eq!(settings.flow.transport, transport, "{line}");
            assert_eq!(settings.print.unit, ThroughputUnit(letter), "{line}");
            assert_eq!(settings.flow.local.socket.dont_route, !routing, "{line}");
            assert_eq!(settings.flow.remote.socket.dont_route, !routing, "{line}");
        }
    }

    #[test]
    fn without_control_a_standard_service_is_used() {
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
            let settings = parse(line);
            assert_eq!(settings.data.port, port, "{line}");
            assert_eq!(settings.no_control, line.starts_with("-N"));
        }
        let settings = parse("-N -C -T ,1 -t TCP_CRR -- -r 7,9 -S 64K");
        assert_eq!(settings.flow.remote, EndpointPlan::default());
        assert_eq!(settings.flow.local.receive.size, SizeRule::Bytes(7));
        assert_eq!(
            settings.flow.workload,
            Workload::connect_and_request().with_half_close()
        );
    }

    #[rustfmt::skip]
    #[test]
    fn options_set_sizes_and_widths() {
        use SizeRule::{Bytes, SocketBuffer};
        use WidthRule::{Buffers, CoverSocketBuffer};
        const DEFAULT: (SizeRule, WidthRule) = (SocketBuffer, CoverSocketBuffer);
        let bulk = |bytes| (Bytes(bytes), CoverSocketBuffer);
        let message = |bytes| (Bytes(bytes), Buffers(1));
        // Local send and receive, then remote send and receive.
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
            let FlowPlan { local, remote, .. } = parse(line).flow;
            let rings = [local.send, local.receive, remote.send, remote.receive];
            assert_eq!(
                rings.map(|ring| (ring.size, ring.width)),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn alignments_and_offsets_are_set_per_end_and_direction() {
        let FlowPlan { local, remote, .. } = parse("-a 16,32 -A 64 -o 1,2 -O ,3").flow;
        let rings = [local.send, local.receive, remote.send, remote.receive];
        assert_eq!(
            rings.map(|ring| (ring.alignment, ring.offset)),
            [(16, 1), (32, 2), (64, 0), (64, 3)]
        );
    }

    #[test]
    fn limits_and_bursts_depend_on_the_test() {
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
            let plan = parse(line).flow;
            assert_eq!((plan.limit, plan.burst), (limit, burst), "{line}");
        }
    }

    #[test]
    fn times_are_recorded_when_requested() {
        for (line, latency, passes, calls) in [
            ("", false, false, false),
            ("-j", true, false, true),
            ("-v 2", false, false, true),
            ("-v 2 -t TCP_CC", false, true, false),
            ("-t TCP_RR -j", true, true, false),
            ("-t TCP_RR -- -k P99_LATENCY", true, true, false),
            ("-t TCP_RR -- -o all", true, true, false),
            ("-t TCP_RR -- -k RT_LATENCY", false, false, false),
            // The last selection wins.
            ("-t TCP_RR -- -k P99_LATENCY -o", false, false, false),
        ] {
            let settings = parse(line);
            assert_eq!(settings.print.latency, latency, "{line}");
            assert_eq!(settings.flow.timing, Timing { passes, calls }, "{line}");
        }
    }

    #[test]
    fn requesting_remote_cong_control_clears_dont_route_of_the_peer() {
        let plan = parse("-t UDP_STREAM -- -k REMOTE_CONG_CONTROL").flow;
        assert!(plan.local.socket.dont_route);
        assert!(!plan.remote.socket.dont_route);
    }

    #[test]
    fn options_set_addresses_and_ports() {
        let host = |line| parse(line).control.host;
        assert_eq!(host(""), "localhost");
        assert_eq!(host("-6"), "::1");
        assert_eq!(host("-H ,6"), "::1");
        assert_eq!(host("-L ,6"), "localhost");
        assert_eq!(host("-6 -H fe80::1%eth0"), "fe80::1%eth0");

        let Settings { control, data, .. } =
            parse("-4 -H a -p 1,2 -L b,6 -- -H c/24 -L ,unspec -P 3,4");
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
            (data.host.as_deref(), data.host_prefix_bits),
            (Some("c"), Some(24))
        );
        assert_eq!((data.family, data.local_family), (Family::V4, Family::V6));
        assert_eq!((data.port.as_str(), data.local_port.as_str()), ("4", "3"));

        let data = parse("-- -6").data;
        assert_eq!((data.family, data.local_family), (Family::V6, Family::V6));
    }

    #[test]
    fn every_socket_option_reaches_its_end() {
        let settings = parse(
            "-S -y 5,6 -Y cs1,0x20 -T 0,1 -c -C -F /a,/b -s 3 -- -a -B -C -D -e 2 -F -g -G 500 -I \
             -K cubic,reno -l 4 -n -s 1K,2K -S 3K,-1 -V",
        );
        let plan = &settings.flow;
        assert_eq!(
            plan.local.socket,
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
            plan.remote.socket,
            SocketOptions {
                send_buffer_bytes: Some(3072),
                no_delay: true,
                defer_accept_seconds: Some(5),
                fast_open: true,
                keep_alive: true,
                priority: Some(6),
                type_of_service: Some(0x20),
                congestion_control: Some("reno".to_owned()),
                reply_from_destination: true,
                ..SocketOptions::default()
            }
        );
        assert_eq!((plan.local.cpu, plan.remote.cpu), (Some(0), Some(1)));
        assert!(plan.local.measure_cpu && plan.remote.measure_cpu);
        assert!(plan.local.discard_in_kernel && plan.remote.discard_in_kernel);
        assert!(plan.local.write_instead_of_send && !plan.remote.write_instead_of_send);
        assert_eq!(plan.local.fill, Some(PathBuf::from("/a")));
        assert_eq!(plan.remote.fill, Some(PathBuf::from("/b")));
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
            let ports = parse(line).ports;
            assert_eq!((ports.first, ports.end), (min, max), "{line}");
        }
    }

    fn parse(line: &str) -> Settings {
        parse_netperf("netperf", line.split_whitespace().map(Into::into))
            .unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
    }
}
