//! What was typed and cannot be: contradictions, and what a transport or the protocol has no room for. Each is one line without the program's name.

use getopt::{Quit, refuse};
use model::{FlowPlan, Half, Transport};

use super::global::Global;
use super::test::TestOptions;
use super::{Direction, Family, Settings, Test, TestFamily};

/// Refuses options that the transport has not got. With TCP and UDP some do nothing, as in the stock
/// tool.
pub(super) fn with_its_options(
    transport: Transport,
    options: &TestOptions,
) -> Result<Transport, Quit> {
    let tcp = transport.has_tcp_options() || transport == Transport::Udp;
    let (here, there) = (&options.here.socket, &options.there.socket);
    let datagrams = tcp || !transport.has_connections();
    let loses = tcp || transport.has_datagrams();
    let wrong = [
        ("-D", here.no_delay && !tcp && !transport.has_no_delay()),
        ("-C", here.cork && !tcp),
        ("-G", here.max_segment_bytes.is_some() && !tcp),
        ("-a", there.defer_accept_seconds.is_some() && !tcp),
        ("-F", here.fast_open && !transport.has_tcp_options()),
        (
            "-K",
            (here.congestion_control.is_some() || there.congestion_control.is_some()) && !tcp,
        ),
        ("-n", here.connect_datagrams && !datagrams),
        ("-e", here.receive_timeout.is_some() && !loses),
        ("-l", here.multicast_ttl.is_some() && !datagrams),
        ("-B", there.answer_from_destination && !datagrams),
        (
            "-V",
            options.here.discard_in_kernel && !tcp && !transport.has_bytes(),
        ),
    ];
    match wrong.iter().find(|(_, wrong)| *wrong) {
        Some((option, _)) => refuse(format!(
            "test option {option} contradicts {}, which has no such thing",
            transport.name()
        )),
        None => Ok(transport),
    }
}

/// Refuses options of an output that is not printed, and a report of what has no result.
pub(super) fn of_output(test: Test, global: &Global, has_selection: bool) -> Result<(), Quit> {
    let Settings {
        print, json, html, ..
    } = &global.settings;
    let of_text = [
        ("-D", print.interim.is_some()),
        ("-v", print.verbosity != 1),
        ("-B", print.brand.is_some()),
        ("-f", global.unit.is_some()),
        ("test options -o, -O and -k", has_selection),
    ];
    if let Some((option, _)) = of_text.iter().find(|(_, given)| *json && *given) {
        return refuse(format!(
            "--json prints nothing beside its document: it contradicts {option}"
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

/// Refuses a second direction of what has both.
pub(super) fn of_two_ways(is_two_way: bool, direction: Direction) -> Result<(), Quit> {
    if is_two_way && direction.is_transactional() {
        return refuse(
            "--bidirectional is for one-way tests: in this one data goes both ways already",
        );
    }
    Ok(())
}

/// Refuses more than one flow where the test, or the control connection, allows one only.
pub(super) fn several_flows(test: Test, is_two_way: bool, settings: &Settings) -> Result<(), Quit> {
    if settings.flows == 1 && !is_two_way {
        return Ok(());
    }
    if !test.moves_data() || test == Test::TcpMss {
        return refuse(format!("{} has no flows to run at once", test.name()));
    }
    if is_two_way && test.is_classic() {
        return refuse(format!(
            "--bidirectional: the peer has no {} of its own",
            test.name()
        ));
    }
    if is_two_way && settings.no_control {
        return refuse(
            "--bidirectional: without a control connection (-N) nobody is asked to send",
        );
    }
    if settings.control.local_port != "0" {
        return refuse("several flows cannot share the local control port that -p asks for");
    }
    Ok(())
}

/// Refuses what there is no word for.
pub(super) fn within_the_protocol(test: Test, there: &Half) -> Result<(), Quit> {
    if let Some(pacing) = &there.pacing {
        if test.is_classic() {
            return refuse(format!(
                "-b ,{}: the protocol of {} has no word for the peer's pacing",
                pacing.burst,
                test.name()
            ));
        }
        if u32::try_from(pacing.burst).is_err() {
            return refuse(format!(
                "-b ,{}: the protocol has 32 bits for it",
                pacing.burst
            ));
        }
    }
    if there.touch.is_some() && test.is_classic() {
        return refuse(format!(
            "-K: no peer can be told in the protocol of {} (a stock one leaves chance there)",
            test.name()
        ));
    }
    Ok(())
}

/// Refuses to touch data that never comes into this end's memory.
pub(super) fn within_reach(half: &Half, only_receives: bool) -> Result<(), Quit> {
    if !half.touch.is_some() {
        return Ok(());
    }
    if half.send_from_file {
        return refuse(
            "-k contradicts TCP_SENDFILE: what the kernel sends from a file is in no buffer",
        );
    }
    if half.discard_in_kernel && only_receives {
        return refuse(
            "-k and -K contradict test option -V: what the kernel throws away is in no buffer",
        );
    }
    Ok(())
}

/// Refuses batches of anything but one-way datagrams, and of calls that something else chooses or times.
pub(super) fn of_io(test: Test, plan: &FlowPlan) -> Result<(), Quit> {
    let half = &plan.here;
    if half.io.is_plain() {
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
            "--io mmsg contradicts -j, -v 2, --histogram and latency selectors: they time single datagrams",
        );
    }
    for (option, chosen) in [
        ("-I", half.write_instead_of_send),
        ("-V", half.discard_in_kernel),
    ] {
        if chosen {
            return refuse(format!(
                "--io mmsg contradicts test option {option}, which selects other calls"
            ));
        }
    }
    Ok(())
}

/// Refuses VSOCK without addresses of its kind, and them without it.
pub(super) fn with_its_addresses(
    transport: Transport,
    global: &Global,
    options: &TestOptions,
) -> Result<(), Quit> {
    let remote = &options.remote;
    let vsock = |family| family == Family::Vsock;
    if transport != Transport::Vsock {
        let inherited =
            remote.family == Family::Unspecified && vsock(global.settings.control.family);
        let wrong = vsock(remote.family) || vsock(options.local.family) || inherited;
        return if wrong {
            refuse(
                "VSOCK addresses need test option -T vsock, or -H with another address for the data",
            )
        } else {
            Ok(())
        };
    }
    let other = |family| !matches!(family, Family::Unspecified | Family::Vsock);
    if other(remote.family) || other(options.local.family) {
        return refuse("test option -T vsock contradicts an address family of IP");
    }
    if remote.host.is_none() && !vsock(global.settings.control.family) {
        return refuse("test option -T vsock needs the peer's context: test option -H");
    }
    let sockets = [&options.here.socket, &options.there.socket];
    if sockets
        .iter()
        .any(|socket| socket.type_of_service.is_some())
    {
        return refuse("-Y contradicts VSOCK, which has no such thing");
    }
    for (option, socket) in ["-s", "-S"].into_iter().zip(sockets) {
        if socket.send_buffer_bytes.is_some() || socket.receive_buffer_bytes.is_some() {
            return refuse(format!(
                "test option {option} contradicts VSOCK, which has no such thing"
            ));
        }
    }
    Ok(())
}

/// Refuses what the family's requests have no word for, or its sockets no use.
pub(super) fn of_family(test: Test, no_control: bool, options: &TestOptions) -> Result<(), Quit> {
    let family = test.family();
    if family == TestFamily::Inet {
        return Ok(());
    }
    let name = test.name();
    if no_control {
        return refuse(format!("-N: {name} needs its netserver"));
    }
    if options.there.fill.is_some() {
        return refuse(format!(
            "-F: the request of {name} has no word for a remote fill file"
        ));
    }
    let (here, there) = (&options.here.socket, &options.there.socket);
    if there.priority.is_some() && here.priority != there.priority {
        return refuse(format!(
            "-y: the request of {name} has no word for a remote priority"
        ));
    }
    let has_type = here.type_of_service.is_some() || there.type_of_service.is_some();
    if family != TestFamily::Sctp && has_type {
        return refuse(format!("-Y: {name} has no IP header"));
    }
    Ok(())
}
