//! The test of one TCP client: the flow that the client sends, and the flows that it requests.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{BudgetShare, BufferMemory, DataSocket, Stop};
use model::{FlowPlan, IoMethod, Limit, Transport};
use server::RunningTest;
use sys::Address;

use super::requested::tcp_send_mode;
use super::{IperfDialect, SenderOptions, StreamStart, connect_back, run_both};
use crate::connection;
use crate::event::{ConnectionInfo, FlowId};
use crate::flow::{flow_plan, send_length};
use crate::options::{PeriodicBursts, SendMode};
use crate::report_group::ReportGroup;
use crate::timing::{FlowTimings, TimingKind};
use crate::traffic::{self, ReceivedBursts, StreamTransfer};
use crate::wire::flags::{self, upper};
use crate::wire::{Hello, HelloTransport, WallTime};

/// The maximum time until a client finishes its stream.
const FINISH_TIMEOUT: Duration = Duration::from_secs(4);

/// A client's test.
pub(super) struct StreamTest<'a> {
    pub(super) dialect: &'a IperfDialect,
    pub(super) running: &'a RunningTest,
    /// Ends the test early.
    pub(super) stop: &'a Stop,
    pub(super) reports: Arc<ReportGroup>,
    /// The client.
    pub(super) peer: &'a Address,
    pub(super) stream_start: &'a StreamStart,
    /// The bursts that the header describes.
    pub(super) requested_bursts: Option<PeriodicBursts>,
    pub(super) data: &'a DataSocket,
    pub(super) connection: ConnectionInfo,
}

impl StreamTest<'_> {
    /// Runs the test to its end.
    pub(super) fn run(&self) -> Result<(), String> {
        let Some(hello) = &self.stream_start.hello else {
            return self.receive();
        };
        if self.connection.is_reverse {
            self.send(hello)
        } else if self.connection.is_full_duplex {
            self.running.add_direction();
            run_both(|| self.send(hello), || self.receive())
        } else if hello.flags & flags::VERSION1 == 0 {
            self.receive()
        } else if hello.flags & flags::RUN_NOW != 0 {
            self.running.add_direction();
            let send_back = || {
                self.send_back(hello);
                Ok(())
            };
            run_both(send_back, || self.receive())
        } else {
            self.running.add_direction();
            self.receive()?;
            // The client measures until the server shuts down this direction.
            let _ = sys::call::shutdown_write(self.data.socket.as_fd());
            self.send_back(hello);
            Ok(())
        }
    }

    /// Receives the client's flow.
    fn receive(&self) -> Result<(), String> {
        let plan = self.receive_plan();
        let timing = self.receive_timing_kind();
        let memory = self.dialect.memory_for(self.peer);
        let _pattern_share = reserve_pattern(&memory, &plan)?;
        let pattern = connection::pattern(send_length(&plan), &[]);
        let send_mode = self.send_mode();
        let transfer = StreamTransfer {
            is_duplex: self.connection.is_full_duplex,
            bytes_before_start: self.stream_start.header_bytes,
            received_bursts: timing.map(|_| ReceivedBursts {
                stream_has_test_header: false,
            }),
            ..self.transfer(&plan, self.data, &pattern, &send_mode, &memory)
        };
        self.measure(
            &transfer,
            self.connection.id.clone(),
            &self.connection,
            timing,
        )
    }

    /// Sends the requested flow on the client's connection.
    fn send(&self, hello: &Hello) -> Result<(), String> {
        let plan = self.send_plan(hello);
        let header = if hello.has_any_flag(upper::TRIP_TIMES | upper::BURSTS) {
            server_hello(hello, self.connection.is_reverse)
        } else {
            Vec::new()
        };
        let memory = self.dialect.memory_for(self.peer);
        let _pattern_share = reserve_pattern(&memory, &plan)?;
        let pattern = connection::pattern(send_length(&plan), &header);
        let socket = self.data.socket.as_fd();
        SenderOptions::set_type_of_service(socket, &plan.local.socket, self.peer.is_ipv6());
        send_all(socket, &header)?;
        let send_mode = self.send_mode();
        let transfer = StreamTransfer {
            is_duplex: self.connection.is_full_duplex,
            bytes_before_start: header.len(),
            ..self.transfer(&plan, self.data, &pattern, &send_mode, &memory)
        };
        let id = FlowId {
            is_starred: self.connection.is_full_duplex,
            ..self.connection.id.clone()
        };
        let bursts = send_mode.periodic_bursts;
        let frames = bursts.filter(|bursts| bursts.is_isochronous);
        let timing = frames.map(|_| TimingKind::Frames);
        self.measure(&transfer, id, &self.connection, timing)
    }

    /// Sends the requested flow on a connection to the client's port (`-d`, `-r`). Its failure does
    /// not end the client's flow.
    fn send_back(&self, hello: &Hello) {
        if let Err(reason) = self.try_send_back(hello) {
            self.running.record_failure(&reason);
            self.dialect.report_error(reason);
        }
    }

    fn try_send_back(&self, hello: &Hello) -> Result<(), String> {
        let plan = self.send_plan(hello);
        let (data, connection) = connect_back(
            self.peer,
            hello,
            &plan,
            &self.dialect.socket_options(),
            &self.dialect.flow_numbers,
            &*self.dialect.observer,
            self.stop,
        )?;
        let memory = self.dialect.memory_for(self.peer);
        let _pattern_share = reserve_pattern(&memory, &plan)?;
        let pattern = connection::pattern(send_length(&plan), &[]);
        let send_mode = SendMode::default();
        let transfer = self.transfer(&plan, &data, &pattern, &send_mode, &memory);
        self.measure(&transfer, connection.id.clone(), &connection, None)
    }

    fn send_plan(&self, hello: &Hello) -> FlowPlan {
        let sender_options = &self.dialect.sender_options;
        sender_options.requested_plan(Transport::Tcp, &self.dialect.settings, hello)
    }

    fn send_mode(&self) -> SendMode {
        let hello = self.stream_start.hello.as_ref();
        hello.map_or_else(SendMode::default, |hello| {
            tcp_send_mode(hello, self.requested_bursts)
        })
    }

    fn receive_plan(&self) -> FlowPlan {
        let settings = &self.dialect.settings;
        let plan = flow_plan(
            Transport::Tcp,
            settings.length,
            settings.rate,
            Limit::Unlimited,
            &settings.socket,
        );
        let pacing = plan.local.pacing;
        let mut plan = plan.reversed();
        plan.local.pacing = pacing;
        if settings.skips_receive_copy {
            plan.local.io = IoMethod::Trunc;
        }
        plan
    }

    /// Returns what a receiver times: bursts, frames or single writes. Returns `None` if the client
    /// requested neither bursts nor `--trip-times`.
    fn receive_timing_kind(&self) -> Option<TimingKind> {
        let bursts = self.requested_bursts;
        match bursts.filter(|bursts| !bursts.is_isochronous) {
            Some(PeriodicBursts { period, .. }) => Some(TimingKind::Bursts { period }),
            None if !self.connection.has_trip_times => None,
            None if self.connection.upper_flags & upper::ISOCHRONOUS != 0 => {
                Some(TimingKind::Frames)
            }
            None => Some(TimingKind::TripTimes),
        }
    }

    fn transfer<'t>(
        &'t self,
        flow: &'t FlowPlan,
        data: &'t DataSocket,
        pattern: &'t [u8],
        send_mode: &'t SendMode,
        memory: &'t BufferMemory,
    ) -> StreamTransfer<'t> {
        StreamTransfer {
            flow,
            data,
            pattern,
            group: None,
            finish_timeout: FINISH_TIMEOUT,
            is_duplex: false,
            bytes_before_start: 0,
            counts_reads: self.dialect.settings.output.enhanced,
            send_mode,
            received_bursts: None,
            requested: Instant::now(),
            started: WallTime::now(),
            ends_on_reset: true,
            ignores_shutdown: false,
            memory,
            stop: self.stop,
        }
    }

    /// Runs one direction, and records its counters and its end.
    fn measure(
        &self,
        transfer: &StreamTransfer<'_>,
        id: FlowId,
        connection: &ConnectionInfo,
        timing: Option<TimingKind>,
    ) -> Result<(), String> {
        let measured = connection::measured_flow(id, transfer.flow, transfer.data, connection);
        let mut measured = measured.map_err(|error| sys::describe(&error))?;
        let bins = self.dialect.settings.output.bins;
        let timings = timing.map(|kind| FlowTimings::new(kind, bins));
        let share = timings
            .as_ref()
            .map(|timings| timings.reserve(transfer.memory));
        let _share = share.transpose().map_err(|exceeded| exceeded.to_string())?;
        measured.timings = timings.map(Arc::new);
        self.running.add_counters(&measured.counters);
        let result = traffic::run(transfer, &measured, &self.reports);
        self.running.record_end(&result.ended);
        Ok(())
    }
}

/// Charges the memory of a send buffer's content.
fn reserve_pattern(memory: &BufferMemory, plan: &FlowPlan) -> Result<BudgetShare, String> {
    (memory.reserve(send_length(plan).into())).map_err(|exceeded| exceeded.to_string())
}

/// Returns the header that the server sends first on its own stream, if that stream carries burst
/// records.
fn server_hello(requested: &Hello, is_reverse: bool) -> Vec<u8> {
    let mut hello = requested.clone();
    if let (Some(extension), true) = (&mut hello.extension, is_reverse) {
        hello.flags &= !flags::VERSION2;
        extension.upper &= !upper::REVERSE;
    }
    if let Some(start) = &mut hello.start {
        start.at = WallTime::now();
    }
    hello.key = None;
    hello.flags &= !flags::KEY;
    hello.encode(HelloTransport::Stream)
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() {
        match sys::call::send(socket, bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(sys::call::Error::INTR) => {}
            Err(error) => return Err(sys::describe(&error)),
        }
    }
    Ok(())
}
