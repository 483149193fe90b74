//! One test from the request to the results.

use std::time::{Instant, SystemTime};
use sys::Address;

use engine::{Member, Stop};
use model::{Counts, Ended, Half, Outcome, Transport, Wait, Warning};

use super::control::{Established, SHORT_PATIENCE};
use super::family::{self, Location};
use super::interim::Progress;
use super::local::{LocalEnd, Measured, bind_thread};
use super::request::request;
use super::{ClientError, Endpoints, TestRun, Told};
use crate::details::Details;
use crate::options::{Settings, Test, TestFamily};
use crate::warnings;
use crate::wire::{
    Capability, DETAILS_MAX, DetailsResponse, Frame, MESSAGE_LEN, OmniResponse, OmniResults,
    Request, StreamResponse, StreamResults, TransactionResponse, TransactionResults,
};

/// Runs the test, which begins when `member`'s company does; also when its measured phase began. An
/// error is a test without a result.
pub(super) fn test(
    settings: &Settings,
    control: &mut Established,
    endpoints: Endpoints,
    cancel: &Stop,
    progress: Progress<'_>,
    member: Option<Member<'_>>,
) -> Result<(TestRun, Instant), ClientError> {
    let plan = &settings.plan;
    let mut doubts: Vec<_> = bind_thread(plan).into_iter().collect();
    // At an address family that it does not know a stock server ends without a word.
    let only_ours = plan.transport == Transport::Vsock;
    let introduction = if settings.needs.peer_system || only_ours {
        Some(control.introduction()?.clone())
    } else {
        None
    };
    let is_ours = introduction
        .as_ref()
        .is_some_and(|known| known.capability.is_some());
    if only_ours && !is_ours {
        return Err(ClientError::OnlyLinerate(plan.transport));
    }
    if settings.test.family() == TestFamily::Unix && !is_here(&control.remote) {
        return Err(ClientError::OtherHost);
    }
    let mut end = LocalEnd::prepare(settings, &endpoints, &mut doubts)?;
    let asked = request(settings, &endpoints, end.own());
    let mut frame = asked.encode(settings.plan.there.cpu);
    introduction_of(settings).put(&mut frame);
    control.send(&frame)?;

    let answer = control.receive()?;
    let introduced = introduction
        .as_ref()
        .and_then(|introduction| introduction.capability);
    let peer = Capability::find(&answer).or(introduced);
    let (mut told, location) = response(&asked, &answer)?;
    told.system = introduction.map(|introduction| introduction.system);
    let dest = match location {
        Location::Port(port) => endpoints
            .dest
            .with_port(port)
            .ok_or_else(|| ClientError::BadPort(port.to_string()))?,
        Location::At(address) => address,
    };
    if plan.there.pacing.is_some() && told.interval_burst == 0 {
        // A stock server is seldom built for it, and says nothing.
        doubts.push(Warning::NotPaced);
    } else if spins(&plan.there) && !peer.is_some_and(|peer| peer.has(Capability::SPINS)) {
        doubts.push(Warning::NotSpinning);
    }

    if plan.there.measure_cpu && !told.measures_cpu {
        doubts.push(Warning::PeerCannotTell {
            figure: "its CPU time".to_owned(),
        });
    }

    let started = SystemTime::now();
    let Measured {
        begun,
        mut here,
        ended,
        doubts: own,
        tcp_info,
    } = end.run(settings, &dest, Some(control), cancel, progress, member)?;
    doubts.extend(own);
    // The stock tool's classic tests have no word of it.
    if let Some(dump) = tcp_info.filter(|_| !settings.test.is_classic()) {
        dump.print();
    }

    // TCP_MSS does not wait for results, so there is nothing to add to them.
    let tells_more = settings.test != Test::TcpMss
        && ended != Ended::Cancelled
        && peer.is_some_and(|peer| peer.has(Capability::DETAILS));
    // In a connection test the question also says that no more connections come. Elsewhere it waits for
    // the results: a server that has an error to tell instead would close with the question unread,
    // and the reset could overtake its answer.
    let ask_first = tells_more && plan.workload.connects();
    let mut asked_for_more = ask_first && control.send(&Request::Details.encode(None)).is_ok();
    if settings.test != Test::TcpMss {
        match results(&asked, &mut told, &here.counts, control) {
            // A peer that sends or accepts goes by its own clock, or has been cut off: it has no
            // results when a test is ended here, and ours are what there is.
            Err(_) if cancel.is_set() && (plan.workload.receives() || plan.workload.connects()) => {
            }
            other => other?,
        }
    }
    if tells_more && !ask_first {
        // A result that is there is not lost for want of what would be added to it.
        asked_for_more = control.send(&Request::Details.encode(None)).is_ok();
    }
    let details = asked_for_more.then(|| details(control)).flatten();
    control.out_of_step |= tells_more && details.is_none();
    here.host = Some(engine::facts(local_ip(control)));
    here.program = Some(crate::PROGRAM.to_owned());
    let mut outcome = Outcome {
        plan: plan.clone(),
        started,
        here,
        there: Some(told.side()),
        flows: Vec::new(),
        ended,
        warnings: doubts,
    };
    warnings::of_peer(
        &mut outcome,
        peer.map(|peer| peer.shares_host_with(&Capability::own())),
        details,
    );
    let run = TestRun {
        outcome,
        told,
        endpoints,
        repeated: None,
    };
    Ok((run, begun))
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
    let plan = &settings.plan;
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
    if plan.there.measure_cpu && plan.there.idle_loop.is_some() {
        own.features |= Capability::ASKS_LOOPER;
    }
    own
}

fn spins(half: &Half) -> bool {
    half.pacing.is_some_and(|pacing| pacing.wait == Wait::Spin)
}

fn response(asked: &Request, answer: &Frame) -> Result<(Told, Location), ClientError> {
    if let Some(told) = family::response(asked, answer) {
        return told;
    }
    let told = match asked {
        Request::TcpStream(_) => Told::from(&StreamResponse::decode(answer)?),
        Request::TcpCc(_) => Told::from(&TransactionResponse::decode(answer)?),
        _ => Told::from(&OmniResponse::decode(answer)?),
    };
    let port = Location::Port(told.data_port);
    Ok((told, port))
}

fn results(
    asked: &Request,
    told: &mut Told,
    counts: &Counts,
    control: &mut Established,
) -> Result<(), ClientError> {
    let frame = control.receive()?;
    if let Some(added) = family::results(asked, told, counts, &frame) {
        return added;
    }
    match asked {
        Request::TcpStream(_) => told.add_stream(&StreamResults::decode(&frame)?),
        // It moves no data.
        Request::TcpCc(_) => told.add_transactions(&TransactionResults::decode(&frame)?, 0, 0),
        _ => told.add_omni(&OmniResults::decode(&frame)?),
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
    let local = Address::of(&control.stream).ok()?;
    local.ip().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

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
}
