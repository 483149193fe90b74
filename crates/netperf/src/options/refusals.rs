//! Checks that refuse options which contradict each other, the transport or the protocol.
//!
//! Each refusal is one line without the program's name.

use getopt::{EarlyExit, refuse};
use model::{EndpointPlan, FlowPlan, Transport};

use super::global::GlobalOptions;
use super::test::TestOptions;
use super::{Family, Settings, Test, TestDirection, TestFamily};

/// Refuses options that the transport lacks.
///
/// With TCP and UDP, some of them are accepted without effect, as in the stock tool.
pub(super) fn check_transport_options(
    transport: Transport,
    options: &TestOptions,
) -> Result<Transport, EarlyExit> {
    let is_tcp_or_udp = transport.has_tcp_options() || transport == Transport::Udp;
    let (local, remote) = (&options.local.socket, &options.remote.socket);
    let can_send_datagrams = is_tcp_or_udp || !transport.has_connections();
    let can_lose_data = is_tcp_or_udp || transport.has_datagrams();
    let contradictions = [
        (
            "-D",
            local.no_delay && !is_tcp_or_udp && !transport.has_nodelay_option(),
        ),
        ("-C", local.cork && !is_tcp_or_udp),
        ("-G", local.max_segment_bytes.is_some() && !is_tcp_or_udp),
        (
            "-a",
            remote.defer_accept_seconds.is_some() && !is_tcp_or_udp,
        ),
        ("-f", local.do_not_fragment && !transport.has_ip()),
        ("-F", local.fast_open && !transport.has_tcp_options()),
        (
            "-K",
            (local.congestion_control.is_some() || remote.congestion_control.is_some())
                && !is_tcp_or_udp,
        ),
        ("-n", local.connect_datagrams && !can_send_datagrams),
        ("-e", local.receive_timeout.is_some() && !can_lose_data),
        ("-l", local.multicast_ttl.is_some() && !can_send_datagrams),
        ("-B", remote.reply_from_destination && !can_send_datagrams),
        (
            "-V",
            options.local.discard_in_kernel && !is_tcp_or_udp && !transport.is_byte_stream(),
        ),
    ];
    match contradictions.iter().find(|(_, is_wrong)| *is_wrong) {
        Some((option, _)) => refuse(format!(
            "test option {option} contradicts {}, which does not support it",
            transport.name()
        )),
        None => Ok(transport),
    }
}

/// Refuses options for an output that is not printed, and reports of tests that move no data.
pub(super) fn check_output(
    test: Test,
    global: &GlobalOptions,
    has_selection: bool,
) -> Result<(), EarlyExit> {
    let Settings {
        print, json, html, ..
    } = &global.settings;
    let text_options = [
        ("-D", print.interim.is_some()),
        ("-v", print.verbosity != 1),
        ("-B", print.brand.is_some()),
        ("-f", global.unit.is_some()),
        ("test options -o, -O and -k", has_selection),
    ];
    if let Some((option, _)) = text_options.iter().find(|(_, given)| *json && *given) {
        return refuse(format!(
            "--json prints only its document: it contradicts {option}"
        ));
    }
    if (*json || html.is_some()) && !test.moves_data() {
        return refuse(format!("--json and --html: {} moves no data", test.name()));
    }
    if global.histogram_buckets.is_some() && print.verbosity < 2 {
        return refuse("--histogram-buckets needs -v 2, which prints the histogram");
    }
    Ok(())
}

/// Refuses `--bidirectional` in a test that sends data in both directions.
pub(super) fn check_bidirectional(direction: TestDirection) -> Result<(), EarlyExit> {
    if direction.is_transactional() {
        return refuse(
            "--bidirectional is for one-way tests: this test sends data in both directions",
        );
    }
    Ok(())
}

/// Refuses more than one flow if the test or the control connection allows only one.
pub(super) fn check_flow_count(
    test: Test,
    is_two_way: bool,
    settings: &Settings,
) -> Result<(), EarlyExit> {
    if settings.flows == 1 && !is_two_way {
        return Ok(());
    }
    if !test.moves_data() || test == Test::TcpMss {
        return refuse(format!("{} cannot run several flows", test.name()));
    }
    if is_two_way && test.is_classic() {
        return refuse(format!(
            "--bidirectional: the protocol of {} has only one direction",
            test.name()
        ));
    }
    if is_two_way && settings.no_control {
        return refuse("--bidirectional contradicts -N: the peer needs a request to send");
    }
    if settings.control.local_port != "0" {
        return refuse("several flows cannot share the local control port of -p");
    }
    Ok(())
}

/// Refuses settings of the remote end that the protocol cannot carry.
pub(super) fn check_remote_endpoint(test: Test, remote: &EndpointPlan) -> Result<(), EarlyExit> {
    if let Some(pacing) = &remote.pacing {
        if test.is_classic() {
            return refuse(format!(
                "-b ,{}: the protocol of {} cannot request pacing from the peer",
                pacing.burst,
                test.name()
            ));
        }
        if u32::try_from(pacing.burst).is_err() {
            return refuse(format!(
                "-b ,{}: the protocol carries only 32 bits",
                pacing.burst
            ));
        }
    }
    if remote.touch.is_requested() && test.is_classic() {
        return refuse(format!(
            "-K: the protocol of {} cannot request buffer accesses from the peer",
            test.name()
        ));
    }
    Ok(())
}

/// Refuses to touch data that never enters the process's memory.
pub(super) fn check_touch(endpoint: &EndpointPlan, only_receives: bool) -> Result<(), EarlyExit> {
    if !endpoint.touch.is_requested() {
        return Ok(());
    }
    if endpoint.send_from_file {
        return refuse("-k contradicts TCP_SENDFILE: the kernel sends the file without a buffer");
    }
    if endpoint.discard_in_kernel && only_receives {
        return refuse(
            "-k and -K contradict test option -V: the kernel discards the data without a buffer",
        );
    }
    Ok(())
}

/// Refuses `--io mmsg` except for one-way datagrams, and if an option selects or times the calls.
pub(super) fn check_io(test: Test, plan: &FlowPlan) -> Result<(), EarlyExit> {
    let endpoint = &plan.local;
    if endpoint.io.is_one_per_call() {
        return Ok(());
    }
    if !plan.has_one_way_datagrams() {
        return refuse(format!(
            "--io mmsg contradicts {}: it is for one-way datagrams over UDP or UDP-Lite",
            test.name()
        ));
    }
    if plan.timing.calls {
        return refuse(
            "--io mmsg contradicts -j, -v 2, --histogram and latency selectors, which time single datagrams",
        );
    }
    for (option, is_set) in [
        ("-I", endpoint.write_instead_of_send),
        ("-V", endpoint.discard_in_kernel),
    ] {
        if is_set {
            return refuse(format!(
                "--io mmsg contradicts test option {option}, which selects other calls"
            ));
        }
    }
    Ok(())
}

/// Refuses VSOCK with IP addresses, and VSOCK addresses with other transports.
pub(super) fn check_vsock_addresses(
    transport: Transport,
    global: &GlobalOptions,
    options: &TestOptions,
) -> Result<(), EarlyExit> {
    let remote = &options.destination;
    let is_vsock = |family| family == Family::Vsock;
    if transport != Transport::Vsock {
        let inherited =
            remote.family == Family::Unspecified && is_vsock(global.settings.control.family);
        let is_wrong = is_vsock(remote.family) || is_vsock(options.source.family) || inherited;
        return if is_wrong {
            refuse(
                "VSOCK addresses need test option -T vsock, or test option -H with another address",
            )
        } else {
            Ok(())
        };
    }
    let is_ip = |family| !matches!(family, Family::Unspecified | Family::Vsock);
    if is_ip(remote.family) || is_ip(options.source.family) {
        return refuse("test option -T vsock contradicts IPv4 and IPv6 addresses");
    }
    if remote.host.is_none() && !is_vsock(global.settings.control.family) {
        return refuse("test option -T vsock needs the peer's context ID: add test option -H");
    }
    let sockets = [&options.local.socket, &options.remote.socket];
    if sockets
        .iter()
        .any(|socket| socket.type_of_service.is_some())
    {
        return refuse("-Y contradicts VSOCK, which does not support it");
    }
    for (option, socket) in ["-s", "-S"].into_iter().zip(sockets) {
        if socket.send_buffer_bytes.is_some() || socket.receive_buffer_bytes.is_some() {
            return refuse(format!(
                "test option {option} contradicts VSOCK, which does not support it"
            ));
        }
    }
    Ok(())
}

/// Refuses options that the family's requests cannot carry or its sockets do not support.
pub(super) fn check_family(
    test: Test,
    no_control: bool,
    options: &TestOptions,
) -> Result<(), EarlyExit> {
    let family = test.family();
    if family == TestFamily::Inet {
        return Ok(());
    }
    let name = test.name();
    if no_control {
        return refuse(format!("-N: {name} needs a netserver"));
    }
    if options.remote.fill.is_some() {
        return refuse(format!(
            "-F: the protocol of {name} cannot request a remote fill file"
        ));
    }
    let (local, remote) = (&options.local.socket, &options.remote.socket);
    if remote.priority.is_some() && local.priority != remote.priority {
        return refuse(format!(
            "-y: the protocol of {name} cannot request a remote priority"
        ));
    }
    let has_type = local.type_of_service.is_some() || remote.type_of_service.is_some();
    if family != TestFamily::Sctp && has_type {
        return refuse(format!("-Y: {name} has no IP header"));
    }
    Ok(())
}
