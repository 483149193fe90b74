//! One test from the request to the results.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::{GroupMember, Stop};
use model::{Counts, Ended, FlowPlan, Half, IoMethod, Limit, Side, Transport, Wait, Warning};
use sys::{Address, Llc};

use super::ClientError;
use super::control::{Established, Introduction, SHORT_PATIENCE};
use super::interim::Progress;
use super::local::{LocalEnd, Way};
use super::request::request;
use crate::details::Details;
use crate::options::{Settings, Test, TestFamily};
use crate::peer_report::PeerReport;
use crate::result::{Endpoints, TestRun};
use crate::warnings;
use crate::wire::{
    Capability, Classic, DETAILS_MAX, DetailsResponse, Frame, MESSAGE_LEN, RemoteError, Request,
    TestResponse, UNKNOWN_REQUEST,
};

/// Runs the test, together with the group of `member`. Returns also when the measured phase began. An
/// error is a test without a result.
pub(super) fn test(
    settings: &Settings,
    control: &mut Established,
    endpoints: Endpoints,
    cancel: &Stop,
    progress: Progress<'_>,
    member: Option<GroupMember<'_>>,
) -> Result<(TestRun, Instant), ClientError> {
    let plan = &settings.flow;
    let introduction = introduction(settings, control)?;
    let mut end = LocalEnd::prepare(settings, &endpoints)?;
    let asked = request(settings, &endpoints, end.own());
    let mut frame = asked.encode(settings.flow.there.cpu);
    introduction_of(settings).put(&mut frame);
    control.send(&frame)?;

    let answer = control.receive()?;
    let introduced = introduction
        .as_ref()
        .and_then(|introduction| introduction.capability);
    let in_answer = Capability::find(&answer);
    end.nonce = in_answer.and_then(|peer| peer.nonce);
    let peer = in_answer.or(introduced);
    let (mut report, address) = response(&asked, &answer)?;
    report.system = introduction.map(|introduction| introduction.system);
    let dest = match address {
        Some(address) => address,
        None => endpoints
            .dest
            .with_port(report.response.data_port)
            .ok_or_else(|| ClientError::BadPort(report.response.data_port.to_string()))?,
    };
    end.doubts.extend(of_response(&plan.there, &report, peer));

    let before = Instant::now();
    let measured = end.run(settings, &dest, Some(control), cancel, progress, member);
    let (mut outcome, begun) = measured.map_err(|cause| match cause {
        ClientError::Data { .. } | ClientError::DataConnect { .. }
            if progress.counters.counts() != Counts::default() =>
        {
            cut_short(cause, Some(before.elapsed()), plan)
        }
        cause => cause,
    })?;

    let has_details = peer.is_some_and(|peer| peer.has(Capability::DETAILS));
    // TCP_MSS does not wait for results, so there is nothing to add to them.
    let details = if settings.test == Test::TcpMss {
        None
    } else {
        let reported = reports(
            settings,
            &asked,
            &mut report,
            &outcome.here.counts,
            has_details,
            control,
        );
        match reported {
            // A peer that sends or accepts goes by its own clock, or has been cut off: it has no
            // results when a test is ended here, and ours are what there is.
            Err(_) if cancel.is_set() && (plan.workload.receives() || plan.workload.connects()) => {
                None
            }
            Err(cause) if outcome.ended == Ended::PeerClosed => {
                return Err(cut_short(cause, outcome.here.elapsed, plan));
            }
            other => other?,
        }
    };
    outcome.here.host = Some(engine::facts(local_ip(control)));
    outcome.there = Some(Side {
        // With its version in the details.
        program: peer.map(|_| crate::NAME.to_owned()),
        ..report.side()
    });
    warnings::of_peer(
        &mut outcome,
        peer.map(|peer| peer.shares_host_with(&Capability::own())),
        details,
    );
    let run = TestRun {
        outcome,
        peer: report,
        endpoints,
        repeated: None,
    };
    Ok((run, begun))
}

/// How the server describes itself, where the test depends on it.
fn introduction(
    settings: &Settings,
    control: &mut Established,
) -> Result<Option<Introduction>, ClientError> {
    // At an address family that it does not know a stock server ends without a word.
    let transport = settings.flow.transport;
    let only_ours = transport == Transport::Vsock;
    let introduction = if settings.needs.peer_system || only_ours {
        Some(control.introduction()?.clone())
    } else {
        None
    };
    let is_ours = introduction
        .as_ref()
        .is_some_and(|known| known.capability.is_some());
    if only_ours && !is_ours {
        return Err(ClientError::OnlyLinerate(transport));
    }
    if settings.test.family() == TestFamily::Unix && !is_here(&control.remote) {
        return Err(ClientError::OtherHost);
    }
    Ok(introduction)
}

/// What the server does not do of what it was asked for.
fn of_response(asked: &Half, report: &PeerReport, peer: Option<Capability>) -> Vec<Warning> {
    let mut doubts = Vec::new();
    if asked.pacing.is_some() && report.response.interval_burst == 0 {
        // A stock server is seldom built for it, and says nothing.
        doubts.push(Warning::NotPaced);
    } else if spins(asked) && !peer.is_some_and(|peer| peer.has(Capability::SPINS)) {
        doubts.push(Warning::NotSpinning);
    }
    if asked.measure_cpu && !report.measures_cpu() {
        doubts.push(Warning::PeerCannotTell {
            figure: "its CPU time".to_owned(),
        });
    }
    doubts
}

/// Whether a server is on this host for certain. Its boot identity proves nothing: every server that
/// this client ever asked knows ours.
fn is_here(server: &Address) -> bool {
    server
        .ip()
        .is_some_and(|ip| sys::facts::is_own(ip.to_canonical()))
}

/// What a linerate server is told of this client, and asked for beyond netperf's words.
fn introduction_of(settings: &Settings) -> Capability {
    let plan = &settings.flow;
    let mut own = Capability::own();
    if plan.transport == Transport::Mptcp {
        own.features |= Capability::ASKS_MULTIPATH;
    }
    if settings.histogram.is_some() && plan.timing.calls {
        own.features |= Capability::ASKS_TIMES;
    }
    if spins(&plan.there) {
        own.features |= Capability::ASKS_SPIN;
    }
    if plan.there.io == IoMethod::Mmsg {
        own.features |= Capability::ASKS_MMSG;
    }
    if plan.there.measure_cpu && plan.there.idle_loop.is_some() {
        own.features |= Capability::ASKS_LOOPER;
    }
    own.features |= match Way::of(plan) {
        Some(Way::AtTheBeginning) => Capability::PROVES,
        Some(Way::Apart) => Capability::PROVES_APART,
        None => 0,
    };
    own
}

fn spins(half: &Half) -> bool {
    half.pacing.is_some_and(|pacing| pacing.wait == Wait::Spin)
}

/// What the response says, and where the server's data socket is if that is no port of its host.
fn response(asked: &Request, answer: &Frame) -> Result<(PeerReport, Option<Address>), RemoteError> {
    let (messages, _) = asked.test().ok_or(RemoteError(UNKNOWN_REQUEST))?;
    let said = messages.response(answer)?;
    let address = match asked {
        Request::Classic(test, _) => no_port(*test, &said),
        _ => None,
    };
    Ok((PeerReport::of(asked, said), address))
}

fn no_port(test: Classic, said: &TestResponse) -> Option<Address> {
    match test.transport() {
        Transport::UnixStream | Transport::UnixDatagram => {
            let path = OsStr::from_bytes(said.path.0.raw_bytes());
            Some(Address::Unix(PathBuf::from(path)))
        }
        Transport::LlcStream | Transport::LlcDatagram => {
            let [mac @ .., _, _] = said.station;
            let sap = said.sap as u8;
            Some(Address::Llc(Llc { mac, sap }))
        }
        _ => None,
    }
}

/// Reads the peer's results into `report`, and asks a linerate for its details.
fn reports(
    settings: &Settings,
    asked: &Request,
    report: &mut PeerReport,
    counts: &Counts,
    has_details: bool,
    control: &mut Established,
) -> Result<Option<Details>, ClientError> {
    let is_cancelled = control.is_cancelled();
    let connects = settings.flow.workload.connects();
    // In a connection test the question also says that no more connections come. Elsewhere it waits for
    // the results: a server that has an error to tell instead would close with the question unread,
    // and the reset could overtake its answer.
    let ask_first = has_details && connects && !is_cancelled;
    let mut is_asked = ask_first && control.send(&Request::Details.encode(None)).is_ok();
    add_results(asked, report, counts, &control.receive()?)?;
    if has_details && !connects {
        // A result that is there is not lost for want of what would be added to it.
        is_asked = control.send(&Request::Details.encode(None)).is_ok();
    }
    let details = is_asked.then(|| details(control)).flatten();
    control.out_of_step |= has_details && details.is_none();
    Ok(details)
}

/// The error of a test that the peer ended before its time, so that there are no results.
fn cut_short(cause: ClientError, after: Option<Duration>, plan: &FlowPlan) -> ClientError {
    let length = match plan.limit {
        Limit::Time(length) => Some(length),
        _ => None,
    };
    match after {
        Some(after) if length.is_none_or(|length| after < length) => ClientError::Cut {
            after,
            length,
            cause: Box::new(cause),
        },
        _ => cause,
    }
}

fn add_results(
    asked: &Request,
    report: &mut PeerReport,
    counts: &Counts,
    frame: &Frame,
) -> Result<(), RemoteError> {
    if let Some((messages, _)) = asked.test() {
        report.add_results(asked, messages.results(frame)?, counts.sent.0);
    }
    Ok(())
}

/// What a linerate adds to its results when it was asked to; nothing when it does not.
fn details(control: &mut Established) -> Option<Details> {
    let mut frame = [0; MESSAGE_LEN];
    control.receive_exact(&mut frame, SHORT_PATIENCE).ok()?;
    let length = DetailsResponse::decode(&frame).ok()?.len;
    let mut document = vec![0; length.min(DETAILS_MAX) as usize];
    control.receive_exact(&mut document, SHORT_PATIENCE).ok()?;
    Details::from_json(&document)
}

fn local_ip(control: &Established) -> Option<std::net::IpAddr> {
    control.connection.here()?.ip().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::SystemTime;

    use model::{HostFacts, Interface, Outcome};
    use rand::Rng;
    use rand::seq::IndexedRandom;
    use stats::Histogram;
    use units::Bytes;

    use super::*;
    use crate::client::request::Own;
    use crate::fuzz;
    use crate::selector::Selector;

    #[test]
    fn only_an_own_address_is_here() {
        for (server, here) in [
            ("127.0.0.1:12865", true),
            ("[::1]:12865", true),
            ("[::ffff:127.0.0.1]:12865", true),
            // For documentation: RFC 5737, RFC 3849.
            ("192.0.2.1:12865", false),
            ("[2001:db8::1]:12865", false),
        ] {
            let address: SocketAddr = server.parse().unwrap();
            assert_eq!(is_here(&Address::Inet(address)), here, "{server}");
        }
    }

    /// From the answer, the results and the details of a peer that means harm to what is printed.
    #[test]
    fn whatever_a_peer_says_is_an_error_or_a_result_in_its_lines() {
        let own: Vec<_> = Selector::listed()
            .map(|selector| selector.name().to_owned())
            .collect();
        let named = format!("-t TCP_RR -c -C -- -k {}", own.join(","));
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
            &named,
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
        let ends = Endpoints {
            source_name: "0.0.0.0".to_owned(),
            source: address.clone(),
            dest_name: "127.0.0.1".to_owned(),
            dest: address,
        };
        let tests: Vec<_> = lines
            .iter()
            .map(|line| {
                let words = line.split_whitespace().map(Into::into);
                let settings = crate::options::netperf("netperf", words).unwrap();
                let asked = request(&settings, &ends, Own::default());
                (settings, asked)
            })
            .collect();
        let document = Details::of(full_side(), 1, None).to_json();
        testkit::fuzz::each("a peer's words", 90..=97, |rng| {
            let (settings, asked) = tests.choose(rng).unwrap();
            let Ok((mut report, _)) = response(asked, &fuzz::frame(rng, &[])) else {
                return false;
            };
            let here = full_side();
            if add_results(asked, &mut report, &here.counts, &fuzz::frame(rng, &[])).is_err() {
                return false;
            }
            let (plan, started) = (settings.plan(), SystemTime::UNIX_EPOCH);
            let there = Some(report.side());
            let mut outcome = Outcome::of_flow(plan, started, here, there, Ended::Deadline);
            let details = Details::from_json(&fuzz::damaged(rng, &document));
            warnings::of_peer(&mut outcome, Some(rng.random()), details);
            let run = TestRun {
                outcome,
                peer: report,
                endpoints: ends.clone(),
                repeated: None,
            };
            let mut text = crate::output::result(settings, &run);
            for doubt in &run.outcome.warnings {
                text += &doubt.to_string();
            }
            let escapes = |char: char| char.is_control() && char != '\n';
            assert!(!text.contains(escapes), "{text:?}");
            true
        });
    }

    /// One with something in everything that a peer's words are compared with or stand in for.
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
