//! Runs one test, from the request to the results.

use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::{GroupMember, Stop};
use model::{
    Counts, EndCause, EndpointPlan, FlowPlan, IoMethod, Limit, Side, Transport, Wait, Warning,
    Workload,
};
use sys::{Address, LlcAddress};
use units::Bytes;

use super::ClientError;
use super::control::{QUEUE_TIMEOUT, ServerConnection, ServerDescription};
use super::interim::Progress;
use super::local::{LocalEnd, ProofMethod};
use super::request::build_request;
use crate::details::Details;
use crate::options::{Settings, Test, TestFamily};
use crate::peer_report::PeerReport;
use crate::result::{Endpoints, FinishedTest};
use crate::warnings;
use crate::wire::{
    Capability, Classic, DetailsResponse, Frame, MAX_DETAILS_BYTES, MESSAGE_BYTES, RemoteError,
    Request, TestResponse, TestResults, UNKNOWN_REQUEST,
};

/// Runs the test, together with the group of `member`. Returns the result and the start of the
/// measured phase.
pub(super) fn run_test(
    settings: &Settings,
    control: &mut ServerConnection,
    endpoints: Endpoints,
    cancel: &Stop,
    progress: Progress<'_>,
    member: Option<GroupMember<'_>>,
) -> Result<(FinishedTest, Instant), ClientError> {
    let plan = &settings.flow;
    let description = check_server(settings, control)?;
    let mut local = LocalEnd::prepare(settings, &endpoints)?;
    let request = build_request(settings, &endpoints, local.setup());
    let mut frame = request.encode(settings.flow.remote.cpu);
    client_capability(settings).write_into(&mut frame);
    let requested = Instant::now();
    control.send(&frame)?;

    let response_frame = control.receive()?;
    let described_capability = description
        .as_ref()
        .and_then(|description| description.capability);
    let response_capability = Capability::find(&response_frame);
    local.nonce = response_capability.and_then(|peer| peer.nonce);
    let peer_capability = response_capability.or(described_capability);
    let (mut report, address) = parse_response(&request, &response_frame)?;
    report.system = description.map(|description| description.system);
    let dest = match address {
        Some(address) => address,
        None => endpoints
            .dest
            .with_port(report.response.data_port)
            .ok_or_else(|| ClientError::BadPort(report.response.data_port.to_string()))?,
    };
    local
        .warnings
        .extend(response_warnings(&plan.remote, &report, peer_capability));

    let test_start = Instant::now();
    let result = local.run(settings, &dest, Some(control), cancel, progress, member);
    let (mut outcome, started) = result.map_err(|cause| match cause {
        ClientError::Data { .. } | ClientError::DataConnect { .. }
            if progress.counters.counts() != Counts::default() =>
        {
            cut_short(cause, Some(test_start.elapsed()), plan)
        }
        cause => cause,
    })?;

    let has_details = peer_capability.is_some_and(|peer| peer.has_all(Capability::DETAILS));
    // TCP_MSS has no results, so there are no details.
    let details = if settings.test == Test::TcpMss {
        None
    } else {
        let received = receive_results(
            settings,
            &request,
            &mut report,
            &outcome.local.counts,
            has_details,
            control,
        );
        match received {
            // After a local cancel, a peer that sends or accepts connections waits for its own
            // timer, or fails because its connection is gone. It reports no results then; the local
            // results are enough.
            Err(_) if cancel.is_set() && (plan.workload.receives() || plan.workload.connects()) => {
                None
            }
            Err(cause) if outcome.ended == EndCause::PeerClosed => {
                return Err(cut_short(cause, outcome.local.elapsed, plan));
            }
            other => other?,
        }
    };
    if outcome.ended == EndCause::Cancelled
        && plan.transport.has_datagrams()
        && plan.workload == Workload::send()
    {
        // The server received until the end mark, which waited in the same queues as the data.
        outcome.local.elapsed = outcome.local.elapsed.max(report.elapsed);
    }
    let reported = report.side();
    let detailed = details.as_ref().map(|details| &details.side);
    for peer in iter::once(&reported).chain(detailed) {
        check_peer(plan, &outcome.local.counts, peer, requested.elapsed())?;
    }
    outcome.local.host = Some(engine::host_facts(local_ip(control)));
    outcome.remote = Some(Side {
        // The details, if any, replace this name by one with a version.
        program: peer_capability.map(|_| crate::PROGRAM_NAME.to_owned()),
        // A stock server's clock starts with its response, before the pause of -s and the start of
        // other flows.
        elapsed: reported.elapsed.map(|time| time.min(started.elapsed())),
        ..reported
    });
    warnings::add_peer_details(
        &mut outcome,
        peer_capability.map(|peer| peer.shares_host_with(&Capability::of_this_process())),
        details,
    );
    let run = FinishedTest {
        outcome,
        peer: report,
        endpoints,
        repetition_means: None,
    };
    Ok((run, started))
}

/// Returns the server's description if the test depends on it. Refuses tests that this server
/// cannot run.
fn check_server(
    settings: &Settings,
    control: &mut ServerConnection,
) -> Result<Option<ServerDescription>, ClientError> {
    // A stock server exits silently if it receives the address family of VSOCK.
    let transport = settings.flow.transport;
    let needs_linerate = transport == Transport::Vsock;
    let description = if settings.needs.peer_system || needs_linerate {
        Some(control.description()?.clone())
    } else {
        None
    };
    let is_linerate = description
        .as_ref()
        .is_some_and(|known| known.capability.is_some());
    if needs_linerate && !is_linerate {
        return Err(ClientError::RequiresLinerate(transport));
    }
    if settings.test.family() == TestFamily::Unix && !is_on_this_host(&control.remote) {
        return Err(ClientError::NotLocalHost);
    }
    Ok(description)
}

/// Returns warnings about requested features that the server does not support.
fn response_warnings(
    endpoint: &EndpointPlan,
    report: &PeerReport,
    peer: Option<Capability>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if endpoint.pacing.is_some() && report.response.interval_burst == 0 {
        // Most stock servers are built without pacing and do not report that.
        warnings.push(Warning::NotPaced);
    } else if paces_by_spinning(endpoint)
        && !peer.is_some_and(|peer| peer.has_all(Capability::CAN_SPIN))
    {
        warnings.push(Warning::NotSpinning);
    }
    if endpoint.measure_cpu && !report.measures_cpu() {
        warnings.push(Warning::NotReportedByPeer {
            figure: "its CPU time".to_owned(),
        });
    }
    warnings
}

/// Whether the address of the server is certainly one of this host. A boot ID in its messages would
/// prove nothing: this client sends its own boot ID to each server, which could send it back.
fn is_on_this_host(server: &Address) -> bool {
    server
        .ip()
        .is_some_and(|ip| sys::facts::is_local_address(ip.to_canonical()))
}

/// Returns this client's capability and its requests beyond netperf's protocol.
fn client_capability(settings: &Settings) -> Capability {
    let plan = &settings.flow;
    let mut capability = Capability::of_this_process();
    if plan.transport == Transport::Mptcp {
        capability.features |= Capability::REQUESTS_MULTIPATH;
    }
    if settings.histogram.is_some() && plan.timing.calls {
        capability.features |= Capability::REQUESTS_DURATIONS;
    }
    if paces_by_spinning(&plan.remote) {
        capability.features |= Capability::REQUESTS_SPIN;
    }
    if plan.remote.io == IoMethod::Mmsg {
        capability.features |= Capability::REQUESTS_MMSG;
    }
    if plan.remote.measure_cpu && plan.remote.idle_loop.is_some() {
        capability.features |= Capability::REQUESTS_LOOPER;
    }
    capability.features |= match ProofMethod::for_plan(plan) {
        Some(ProofMethod::InBand) => Capability::SENDS_NONCE,
        Some(ProofMethod::SeparateConnection) => Capability::SENDS_NONCE_SEPARATELY,
        None => 0,
    };
    capability
}

fn paces_by_spinning(endpoint: &EndpointPlan) -> bool {
    endpoint
        .pacing
        .is_some_and(|pacing| pacing.wait == Wait::Spin)
}

/// Parses the response. Also returns the server's data address if it is a socket path or an LLC
/// address, not a port.
fn parse_response(
    request: &Request,
    frame: &Frame,
) -> Result<(PeerReport, Option<Address>), RemoteError> {
    let (messages, _) = request.test().ok_or(RemoteError(UNKNOWN_REQUEST))?;
    let response = messages.parse_response(frame)?;
    let address = match request {
        Request::Classic(test, _) => address_without_port(*test, &response),
        _ => None,
    };
    Ok((PeerReport::from_response(request, response), address))
}

fn address_without_port(test: Classic, response: &TestResponse) -> Option<Address> {
    match test.transport() {
        Transport::UnixStream | Transport::UnixDatagram => {
            let path = OsStr::from_bytes(response.path.0.raw_bytes());
            Some(Address::Unix(PathBuf::from(path)))
        }
        Transport::LlcStream | Transport::LlcDatagram => {
            let [mac @ .., _, _] = response.station;
            let sap = response.sap as u8;
            Some(Address::Llc(LlcAddress { mac, sap }))
        }
        _ => None,
    }
}

/// Receives the peer's results into `report`, and requests the details of a linerate server.
fn receive_results(
    settings: &Settings,
    request: &Request,
    report: &mut PeerReport,
    counts: &Counts,
    has_details: bool,
    control: &mut ServerConnection,
) -> Result<Option<Details>, ClientError> {
    let is_cancelled = control.is_cancelled();
    let opens_connections = settings.flow.workload.connects();
    // In a connection test, the request for details also reports the end of the connections to the
    // server. In other tests it follows the results: a server with an error would close the
    // connection with the request unread, and the reset could overtake its response.
    let requests_before_results = has_details && opens_connections && !is_cancelled;
    let mut is_requested =
        requests_before_results && control.send(&Request::Details.encode(None)).is_ok();
    let has_sent = counts.sent.0 > 0;
    let frame = if has_sent && settings.flow.workload == Workload::send() {
        control.receive_results()?
    } else {
        control.receive()?
    };
    add_results(request, report, counts, &frame)?;
    check_numbers(&report.results)?;
    if has_details && !opens_connections {
        // Without details, the results still count.
        is_requested = control.send(&Request::Details.encode(None)).is_ok();
    }
    let details = is_requested.then(|| receive_details(control)).flatten();
    control.has_pending_response |= has_details && details.is_none();
    Ok(details)
}

/// Returns the error of a test that the peer ended before its time limit, without results.
fn cut_short(cause: ClientError, after: Option<Duration>, plan: &FlowPlan) -> ClientError {
    let length = match plan.limit {
        Limit::Time(length) => Some(length),
        _ => None,
    };
    match after {
        Some(after) if length.is_none_or(|length| after < length) => ClientError::CutShort {
            after,
            length,
            cause: Box::new(cause),
        },
        _ => cause,
    }
}

fn add_results(
    request: &Request,
    report: &mut PeerReport,
    counts: &Counts,
    frame: &Frame,
) -> Result<(), RemoteError> {
    if let Some((messages, _)) = request.test() {
        report.add_results(request, messages.parse_results(frame)?, counts.sent.0);
    }
    Ok(())
}

/// Rejects results that are not counts and times.
fn check_numbers(results: &TestResults) -> Result<(), ClientError> {
    let [elapsed, bytes] = [results.elapsed.into(), results.bytes];
    let is_possible = |value: f64| value.is_finite() && value >= 0.0;
    if is_possible(elapsed) && is_possible(bytes) {
        return Ok(());
    }
    Err(impossible(&format!("{bytes} bytes in {elapsed} s")))
}

/// Rejects measurements of the server that cannot be, in its results or its details. `longest` is
/// the time since the request.
fn check_peer(
    plan: &FlowPlan,
    local: &Counts,
    peer: &Side,
    longest: Duration,
) -> Result<(), ClientError> {
    /// The network may copy datagrams, and a transaction may end in the middle.
    const MAX_COPIES: u64 = 16;
    const MAX_UNCOUNTED_BYTES: u64 = 1 << 20;
    const MAX_TIME_DIFFERENCE: Duration = Duration::from_secs(60);
    let Bytes(sent) = local.sent;
    let is_stream = plan.workload == Workload::send() && !plan.transport.has_datagrams();
    let most = if is_stream {
        sent
    } else {
        let copies = sent.saturating_mul(MAX_COPIES);
        copies.saturating_add(MAX_UNCOUNTED_BYTES)
    };
    let Bytes(received) = peer.counts.received;
    // The clock of a host may be inaccurate, or be set.
    let longest = 2 * longest + MAX_TIME_DIFFERENCE;
    let elapsed = peer.elapsed.unwrap_or_default();
    if received > most {
        return Err(impossible(&format!(
            "it received {received} bytes of {sent}"
        )));
    }
    if elapsed > longest {
        return Err(impossible("its time exceeds that since the request"));
    }
    Ok(())
}

fn impossible(figures: &str) -> ClientError {
    let reason = format!("the server reported impossible results: {figures}");
    ClientError::Failed(reason)
}

/// Receives the requested details of a linerate server; `None` if they do not arrive.
fn receive_details(control: &mut ServerConnection) -> Option<Details> {
    let mut frame = [0; MESSAGE_BYTES];
    control.receive_exact(&mut frame, QUEUE_TIMEOUT).ok()?;
    let length = DetailsResponse::decode(&frame).ok()?.len;
    let mut document = vec![0; length.min(MAX_DETAILS_BYTES) as usize];
    control.receive_exact(&mut document, QUEUE_TIMEOUT).ok()?;
    Details::from_json(&document)
}

fn local_ip(control: &ServerConnection) -> Option<std::net::IpAddr> {
    control
        .connection
        .local_address()?
        .ip()
        .map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::SystemTime;

    use model::{HostFacts, Interface, Outcome};
    use rand::Rng;
    use rand::seq::IndexedRandom;
    use stats::Histogram;

    use super::*;
    use crate::client::request::LocalSetup;
    use crate::fuzz;
    use crate::selector::Selector;

    #[test]
    fn only_local_addresses_are_on_this_host() {
        for (server, expected) in [
            ("127.0.0.1:12865", true),
            ("[::1]:12865", true),
            ("[::ffff:127.0.0.1]:12865", true),
            // Documentation addresses: RFC 5737, RFC 3849.
            ("192.0.2.1:12865", false),
            ("[2001:db8::1]:12865", false),
        ] {
            let address: SocketAddr = server.parse().unwrap();
            assert_eq!(
                is_on_this_host(&Address::Inet(address)),
                expected,
                "{server}"
            );
        }
    }

    #[test]
    fn results_must_be_counts_and_times() {
        for (elapsed, bytes, is_possible) in [
            (1.0, 1000.0, true),
            (0.0, 0.0, true),
            (1.0, -1.0, false),
            (1.0, f64::INFINITY, false),
            (-1.0, 1000.0, false),
            (f32::NAN, 1000.0, false),
        ] {
            let results = TestResults {
                bytes,
                elapsed,
                ..TestResults::default()
            };
            let result = check_numbers(&results);
            assert_eq!(result.is_ok(), is_possible, "{elapsed} {bytes}: {result:?}");
        }
    }

    #[test]
    fn counts_of_the_peer_must_be_possible() {
        let plan = FlowPlan::new(model::Transport::Tcp, Workload::send());
        let sent = Counts {
            sent: Bytes(1000),
            ..Counts::default()
        };
        let second = Duration::from_secs(1);
        for (elapsed, received, is_possible) in [
            (second, 1000, true),
            (Duration::ZERO, 0, true),
            (second, 1001, false),
            (second * 60, 1000, true),
            (second * 63, 1000, false),
        ] {
            let mut peer = Side {
                elapsed: Some(elapsed),
                ..Side::default()
            };
            peer.counts.received = Bytes(received);
            let result = check_peer(&plan, &sent, &peer, second);
            assert_eq!(result.is_ok(), is_possible, "{received}: {result:?}");
        }
    }

    /// Covers the path from a hostile peer's response, results and details to the output.
    #[test]
    fn any_peer_message_gives_an_error_or_a_printable_result() {
        let selectors: Vec<_> = Selector::list()
            .map(|selector| selector.name().to_owned())
            .collect();
        let all_selectors = format!("-t TCP_RR -c -C -- -k {}", selectors.join(","));
        let lines = [
            "-t TCP_STREAM",
            "-t TCP_STREAM -c -C -v 2 -- -V",
            "-t TCP_MAERTS -C",
            "-t TCP_RR -j -C -v 2",
            "-t TCP_CRR -C",
            "-t TCP_CC -C",
            "-t TCP_SENDFILE -C -v 2",
            "-t TCP_MSS",
            "-t UDP_STREAM -C -- -R 1",
            "-t UDP_RR -b ,5 -C",
            "-t OMNI -C -- -d send -O all",
            "-t OMNI -C -- -d recv -o all",
            "-t OMNI -C -- -c -k all",
            "-t UDP_STREAM -- -R 1 -o LATE_DATAGRAMS,LOST_DATAGRAMS,WARNINGS",
            &all_selectors,
            "-t STREAM_STREAM -C -v 2",
            "-t STREAM_RR -C",
            "-t DG_STREAM -C",
            "-t DG_RR -C -v 2",
            "-t SCTP_STREAM_MANY -C -v 2",
            "-t SCTP_RR -C",
            "-t DLCO_STREAM -C -v 2 -- -D lo",
            "-t DLCO_RR -- -D lo",
            "-t DLCL_STREAM -C -- -D lo",
            "-t DLCL_RR -- -D lo",
        ];
        let address = Address::Inet("127.0.0.1:4000".parse().unwrap());
        let endpoints = Endpoints {
            source_name: "0.0.0.0".to_owned(),
            source: address.clone(),
            dest_name: "127.0.0.1".to_owned(),
            dest: address,
        };
        let tests: Vec<_> = lines
            .iter()
            .map(|line| {
                let words = line.split_whitespace().map(Into::into);
                let settings = crate::options::parse_netperf("netperf", words).unwrap();
                let request = build_request(&settings, &endpoints, LocalSetup::default());
                (settings, request)
            })
            .collect();
        let document = Details::from_side(full_side(), 1, None).to_json();
        let accepted_percent = 90..=97;
        testkit::fuzz::run_inputs("messages of a peer", accepted_percent, |rng| {
            let (settings, request) = tests.choose(rng).unwrap();
            let Ok((mut report, _)) = parse_response(request, &fuzz::random_frame(rng, &[])) else {
                return false;
            };
            let local = full_side();
            if add_results(
                request,
                &mut report,
                &local.counts,
                &fuzz::random_frame(rng, &[]),
            )
            .is_err()
            {
                return false;
            }
            let (plan, started) = (settings.plan(), SystemTime::UNIX_EPOCH);
            let remote = Some(report.side());
            let mut outcome = Outcome::for_flow(plan, started, local, remote, EndCause::Deadline);
            let details = Details::from_json(&fuzz::damage(rng, &document));
            warnings::add_peer_details(&mut outcome, Some(rng.random()), details);
            let run = FinishedTest {
                outcome,
                peer: report,
                endpoints: endpoints.clone(),
                repetition_means: None,
            };
            let mut text = crate::output::format_result(settings, &run);
            for warning in &run.outcome.warnings {
                text += &warning.to_string();
            }
            let is_escape = |char: char| char.is_control() && char != '\n';
            assert!(!text.contains(is_escape), "{text:?}");
            true
        });
    }

    /// Returns a side with a value in each field that is compared with a peer's value or replaced
    /// by it.
    fn full_side() -> Side {
        let mut times = Histogram::default();
        (1..50).for_each(|n| times.record(n * 1000));
        Side {
            counts: Counts {
                sent: Bytes(1_000_000),
                received: Bytes(2_000_000),
                send_calls: 1000,
                receive_calls: 2000,
                transactions: 1000,
                ..Counts::default()
            },
            elapsed: Some(Duration::from_secs(1)),
            latency: Some(times.clone()),
            send_times: Some(times.clone()),
            receive_times: Some(times),
            interface: Some(Interface {
                name: "eth0".to_owned(),
                ..Interface::default()
            }),
            host: Some(HostFacts::default()),
            ..Side::default()
        }
    }
}
