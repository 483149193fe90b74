//! UDP server. A client also uses it to receive the server's flows of `-d` and `-r`.

mod datagram_test;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use engine::{BudgetHolder, DataSocket, FirstDatagram, Stop, StopReason};
use model::Transport;
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use server::{
    ClientSlot, ClientTest, DatagramAcceptor, DatagramPeer, Dialect, ExpectedFlows, NewSource,
    Refusal, ServerConfig, Service, UNPROVEN_ADDRESS, is_exhaustion,
};
use sys::call::{self, Error};
use sys::{Address, Socket};

use self::datagram_test::DatagramTest;
use super::MAX_PAYLOAD_BYTES;
use super::first_datagram::{can_begin_flow, connection, parse_first_datagram};
use super::group::MulticastGroup;
use crate::client::ClientRun;
use crate::connection::FlowNumbers;
use crate::event::{Observer, TestEvent};
use crate::options::{ServerSettings, Settings};
use crate::report_group::ReportGroups;
use crate::server::{
    IperfDialect, OnListening, SenderOptions, describe_test, flow_id, listen_addresses, stop_after,
    thread_error, udp_send_mode, use_transfer_id,
};
use crate::wire::flags::upper;
use crate::wire::proof;

/// The time that a client has to prove its address.
const PROOF_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause if descriptors or memory for a client are exhausted.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The longest wait before the server checks its stop again.
const STOP_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A receiver of flows, which also sends the flows that clients request.
pub(super) struct DatagramReceiver<'a> {
    settings: &'a Settings,
    observer: &'a Arc<dyn Observer>,
    service: Service,
    flow_numbers: &'a FlowNumbers,
    report_groups: &'a ReportGroups,
    sender_options: SenderOptions,
    /// The run of the client that keeps the results; `None` on a server.
    client_run: Option<&'a ClientRun<'a>>,
}

/// The deadline of a client that waits for the server's flows.
pub(super) struct ReverseFlowDeadline<'a> {
    /// Set when the client's own flows have ended.
    pub(super) forward_done: &'a Stop,
    /// The maximum wait after that.
    pub(super) timeout: Duration,
}

/// A flow whose first datagram has arrived.
struct NewFlow {
    from: Address,
    early_datagrams: Vec<FirstDatagram>,
    socket: Socket,
    admission: Option<ClientSlot>,
}

/// Runs a server until `stop`.
pub(crate) fn run(
    settings: &Arc<Settings>,
    server_settings: &ServerSettings,
    observer: &Arc<dyn Observer>,
    stop: &Stop,
    on_listening: &OnListening<'_>,
) -> Result<(), String> {
    let (flow_numbers, report_groups) = (
        FlowNumbers::default(),
        ReportGroups::new(observer, settings),
    );
    let receiver = DatagramReceiver {
        settings,
        observer,
        service: Service::new(server_settings.config.clone(), stop.clone()),
        flow_numbers: &flow_numbers,
        report_groups: &report_groups,
        sender_options: SenderOptions {
            tos_override: server_settings.tos_override,
        },
        client_run: None,
    };
    let listen_addresses = listen_addresses(settings)?;
    let first = listen_addresses
        .first()
        .ok_or("listener bind failed: no address")?;
    if first.ip().is_some_and(|ip| ip.is_multicast()) {
        let group = MulticastGroup::new(settings, server_settings, first)?;
        return receiver.receive_group(&group, on_listening);
    }
    let mut acceptors = Vec::new();
    for address in &listen_addresses {
        let acceptor = DatagramAcceptor::open(address, &settings.socket);
        let acceptor = acceptor.map_err(|error| bind_failed(error.error()))?;
        acceptors.push(for_server(acceptor));
    }
    if !on_listening()? {
        return Ok(());
    }
    if let [first, ..] = &acceptors[..]
        && let [.., last] = &acceptors[..]
    {
        let window = first.receive_buffer_bytes();
        receiver.report_listening((first.address(), last.address()), window, None);
    }
    let _end_timer = stop_after(server_settings.time, stop);
    receiver.serve(&acceptors);
    Ok(())
}

/// Serves flows as part of `service`, until its stop.
pub fn serve_datagrams(
    acceptors: Vec<DatagramAcceptor>,
    settings: &Settings,
    observer: &Arc<dyn Observer>,
    service: &Service,
) {
    let acceptors: Vec<_> = acceptors.into_iter().map(for_server).collect();
    DatagramReceiver {
        settings,
        observer,
        service: service.clone(),
        flow_numbers: &FlowNumbers::default(),
        report_groups: &ReportGroups::new(observer, settings),
        sender_options: SenderOptions { tos_override: None },
        client_run: None,
    }
    .serve(&acceptors);
}

fn for_server(acceptor: DatagramAcceptor) -> DatagramAcceptor {
    acceptor
        .with_first_datagram_check(can_begin_flow)
        .with_second_datagram()
}

pub(super) fn bind_failed(error: &std::io::Error) -> String {
    format!("listener bind failed: {}", sys::describe(error))
}

impl<'a> DatagramReceiver<'a> {
    /// Returns the receiver of a client.
    pub(super) fn for_client(run: &'a ClientRun<'a>, report_groups: &'a ReportGroups) -> Self {
        Self {
            settings: run.settings,
            observer: run.observer,
            service: Service::new(ServerConfig::default(), run.stop.clone()),
            flow_numbers: &run.flow_numbers,
            report_groups,
            sender_options: SenderOptions { tos_override: None },
            client_run: Some(run),
        }
    }

    /// Listens for the server's flows to a client.
    pub(super) fn listen_for_reverse_flows(
        &self,
        run: &ClientRun<'_>,
    ) -> Result<DatagramAcceptor, String> {
        let listen_address = run
            .server_address
            .with_any_host()
            .with_port(run.client.listen_port.into());
        let listen_address = listen_address.ok_or("listener bind failed: no such port")?;
        let acceptor = DatagramAcceptor::open(&listen_address, &self.settings.socket);
        let acceptor = acceptor.map_err(|error| bind_failed(error.error()))?;
        let acceptor = acceptor.with_first_datagram_check(can_begin_flow);
        self.report_listening(
            (acceptor.address(), acceptor.address()),
            acceptor.receive_buffer_bytes(),
            None,
        );
        Ok(acceptor)
    }

    /// Receives `flows` flows of the server. Returns the number of missing flows.
    pub(super) fn receive_reverse_flows(
        &self,
        acceptor: &DatagramAcceptor,
        flows: u32,
        deadline: &ReverseFlowDeadline<'_>,
    ) -> u32 {
        let expected = acceptor.expect_all_flows();
        let mut give_up_at = None;
        let mut missing = flows;
        std::thread::scope(|scope| {
            while missing > 0 && !self.service.stop().is_set() {
                let now = Instant::now();
                if deadline.forward_done.is_set() {
                    give_up_at = give_up_at.or(Some(now + deadline.timeout));
                }
                let is_over = give_up_at.is_some_and(|time| now >= time);
                if is_over || deadline.forward_done.reason() == Some(StopReason::Cancelled) {
                    break;
                }
                let next_check = now + Duration::from_millis(100);
                let stop = self.service.stop();
                let peer = match expected.accept(&self.settings.socket, true, next_check, stop) {
                    Ok(peer) => peer,
                    Err(Error::TIMEDOUT | Error::INTR | Error::CANCELED) => continue,
                    Err(error) => {
                        self.report_error(format!("listen failed: {}", sys::describe(&error)));
                        break;
                    }
                };
                missing -= 1;
                let expected = &expected;
                let run_flow = move || self.run_flow(NewFlow::new(peer, expected, None));
                let started =
                    engine::spawn_scoped(Builder::new(), scope, BudgetHolder::Local, run_flow);
                self.report_thread_error(started.err());
            }
        });
        missing
    }

    fn report_listening(
        &self,
        (first, last): (&Address, &Address),
        window: u32,
        join_line: Option<String>,
    ) {
        self.observer.observe(&TestEvent::Listening {
            ports: (first.port() as u16, last.port() as u16),
            window,
            congestion_control: None,
            join_line,
        });
    }

    fn serve(&self, acceptors: &[DatagramAcceptor]) {
        std::thread::scope(|scope| {
            for acceptor in acceptors {
                scope.spawn(move || self.accept_flows(acceptor));
            }
        });
    }

    /// Serves each client on its own socket, in a thread or one client at a time, until the stop.
    fn accept_flows(&self, acceptor: &DatagramAcceptor) {
        let stop = self.service.stop();
        let expected = acceptor.expect_all_flows();
        let serves_one_at_a_time = self.service.config().serves_one_at_a_time;
        let mut is_failing = false;
        let report_failure = |is_failing: &mut bool, error| {
            if !std::mem::replace(is_failing, true) {
                let reason = sys::describe(&error);
                self.report_error(format!("cannot accept a client: {reason}"));
            }
            // The datagrams stay in the queue until other clients leave. Forged sources without a
            // route must not delay the others.
            if is_exhaustion(error) {
                std::thread::sleep(ACCEPT_RETRY_PAUSE);
            }
        };
        std::thread::scope(|scope| {
            while !stop.is_set() {
                let until = Instant::now() + STOP_CHECK_INTERVAL;
                let source = match expected.await_source(until, stop) {
                    Ok(source) => source,
                    Err(Error::TIMEDOUT | Error::INTR | Error::CANCELED) => continue,
                    Err(error) => {
                        report_failure(&mut is_failing, error);
                        continue;
                    }
                };
                let Some(admission) = self.admit(&source, &expected) else {
                    continue;
                };
                let peer = match expected.open(&source, &self.settings.socket, true) {
                    Ok(peer) => peer,
                    Err(error) => {
                        report_failure(&mut is_failing, error);
                        continue;
                    }
                };
                is_failing = false;
                let from = source.address;
                let expected = &expected;
                let run_flow = move || self.run_flow(NewFlow::new(peer, expected, Some(admission)));
                if serves_one_at_a_time {
                    run_flow();
                } else {
                    // The client's slot is charged for the thread.
                    let started = Builder::new().spawn_scoped(scope, run_flow);
                    if let Err(error) = started {
                        self.report_thread_error(Some(error));
                        expected.refuse(&from);
                    }
                }
            }
        });
    }

    /// Admits a flow. If that is impossible now, its next datagram finds a slot, or it is refused.
    fn admit(&self, source: &NewSource, expected: &ExpectedFlows<'_>) -> Option<ClientSlot> {
        let from = &source.address;
        let admission = self.service.admit_unproven(from, source.is_continuous);
        let reason = match admission {
            Ok(slot) => return Some(slot),
            Err(reason) => reason,
        };
        let may_wait = reason != Refusal::AddressNotAllowed;
        if may_wait && (!source.is_continuous || self.service.end_silent_test(from, &reason)) {
            expected.postpone(source);
        } else {
            expected.refuse(from);
            self.report_error(format!("{from}: refused a client: {reason}"));
        }
        None
    }

    fn report_thread_error(&self, error: Option<std::io::Error>) {
        if let Some(error) = error {
            self.report_error(thread_error(&error));
        }
    }

    /// Receives the datagrams of a multicast group, one flow at a time.
    fn receive_group(
        &self,
        group: &MulticastGroup,
        on_listening: &OnListening<'_>,
    ) -> Result<(), String> {
        let mut socket = group.join(&self.settings.socket)?;
        if !on_listening()? {
            return Ok(());
        }
        let window = socket.recv_buffer_size().unwrap_or(0) as u32;
        let address = &group.address;
        self.report_listening((address, address), window, Some(group.banner_line()));
        let _end_timer = stop_after(group.time, self.service.stop());
        while let Some((from, early_datagrams)) = group.next_flow(&socket, self.service.stop()) {
            self.run_flow(NewFlow {
                from,
                early_datagrams,
                socket,
                admission: None,
            });
            socket = group.join(&self.settings.socket)?;
        }
        Ok(())
    }

    fn report_error(&self, line: String) {
        self.observer.observe(&TestEvent::Error(line));
    }

    fn run_flow(&self, flow: NewFlow) {
        if let Err(reason) = self.run_test(flow) {
            self.report_error(reason);
        }
    }

    /// Returns whether the client proves its address. Only a linerate client can do so.
    fn has_proven_address(&self, socket: &Socket, first_datagram: &[u8]) -> bool {
        if proof::find_nonce(first_datagram).is_none() {
            return false;
        }
        let nonce: proof::AddressNonce = OsRng.unwrap_err().random();
        let _ = call::send_without_waiting(socket.as_fd(), &proof::challenge(nonce));
        let until = Instant::now() + PROOF_TIMEOUT;
        let mut datagram = vec![0; MAX_PAYLOAD_BYTES as usize];
        // With data in the queue, the wait does not end at its deadline.
        while let Ok(true) = self.service.stop().wait_readable(socket.as_fd(), until)
            && Instant::now() < until
        {
            let received = call::receive_without_waiting(socket.as_fd(), &mut datagram);
            if received.is_ok_and(|length| proof::find_nonce(&datagram[..length]) == Some(nonce)) {
                return true;
            }
            if received == Err(Error::AGAIN) {
                call::discard_errors(socket.as_fd());
            }
        }
        false
    }

    /// Runs the test that the flow's first datagram describes.
    fn run_test(&self, flow: NewFlow) -> Result<(), String> {
        let NewFlow {
            from,
            early_datagrams,
            socket,
            admission: mut slot,
        } = flow;
        let first_datagram = &*early_datagrams[0].data;
        let (hello, has_wide_numbers) = parse_first_datagram(first_datagram);
        let is_reverse = hello.has_any_flag(upper::REVERSE);
        if is_reverse && !self.service.may_amplify(&from) {
            if !self.has_proven_address(&socket, first_datagram) {
                return Err(format!("{from}: refused a test: {UNPROVEN_ADDRESS}"));
            }
            if let Some(unproven) = slot.take() {
                let proven = self.service.admit_proven(&from, unproven);
                slot =
                    Some(proven.map_err(|reason| format!("{from}: refused a client: {reason}"))?);
            }
        }
        let data = DataSocket::from_accepted(socket, Transport::Udp, &self.settings.socket);
        let data = data.map_err(|error| error.to_string())?;
        let number = self.flow_numbers.next();
        let client_test = ClientTest {
            is_unproven: slot.as_ref().is_some_and(ClientSlot::is_unproven),
            ..describe_test("UDP", Some(&hello))
        };
        let cancel = self.service.cancel_stop().child();
        let running = self
            .service
            .begin(IperfDialect::NAME, &from, client_test, &cancel)
            .map_err(|reason| format!("{from}: refused a test: {reason}"))?;
        let id = flow_id(number, false, None);
        let layout = self.settings.output.version.layout();
        let mut connection = connection(&data, id, &from, &hello, layout);
        self.observer.observe(&TestEvent::Connected(&connection));
        use_transfer_id(&mut connection, Some(&hello), &**self.observer);
        DatagramTest {
            receiver: self,
            running: &running,
            reports: self
                .report_groups
                .group_for(&from, connection.local.as_ref()),
            send_plan: self
                .sender_options
                .requested_plan(Transport::Udp, self.settings, &hello),
            send_mode: udp_send_mode(&hello),
            from,
            hello,
            has_wide_numbers,
            early_datagrams: &early_datagrams,
            data,
            connection,
        }
        .run()
    }
}

impl NewFlow {
    fn new(
        mut peer: DatagramPeer,
        expected: &ExpectedFlows<'_>,
        admission: Option<ClientSlot>,
    ) -> Self {
        expected.collect_in_transit(&mut peer);
        Self {
            from: peer.from,
            early_datagrams: peer.first_datagrams,
            socket: peer.socket,
            admission,
        }
    }
}
