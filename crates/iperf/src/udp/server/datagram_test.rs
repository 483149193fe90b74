//! The test of one client: the flow that the client sends, and the flows that it requests.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{DataSocket, FirstDatagram, Stop};
use model::{EndCause, FlowPlan, Limit, Transport};
use server::{MAX_AMPLIFICATION, RunningTest, UNPROVEN_ADDRESS};
use sys::{Address, call};

use super::DatagramReceiver;
use crate::connection;
use crate::event::{ConnectionInfo, FlowId};
use crate::flow::{datagram_format, flow_plan, send_length};
use crate::options::SendMode;
use crate::report_group::ReportGroup;
use crate::server::{SenderOptions, connect_back, run_both};
use crate::timing::{FlowTimings, TimingKind};
use crate::traffic::FlowResult;
use crate::udp::{MAX_PAYLOAD_BYTES, OneWay, server_report};
use crate::wire::flags::{self, upper};
use crate::wire::{DatagramHeader, Hello};

/// The wait for a repeated last datagram after each answer.
const REPEAT_TIMEOUT: Duration = Duration::from_millis(250);

/// The maximum number of answers, also to an unproven address, which keeps a slot meanwhile.
const MAX_ANSWERS: u64 = 200;
const MAX_UNPROVEN_ANSWERS: u64 = 10;

/// A client's test.
pub(super) struct DatagramTest<'a> {
    pub(super) receiver: &'a DatagramReceiver<'a>,
    pub(super) running: &'a RunningTest,
    pub(super) reports: Arc<ReportGroup>,
    /// The client.
    pub(super) from: Address,
    /// The header in the first datagram.
    pub(super) hello: Hello,
    /// Whether datagram numbers have 64 bits.
    pub(super) has_wide_numbers: bool,
    /// The datagrams received before the test started, at least one.
    pub(super) early_datagrams: &'a [FirstDatagram],
    pub(super) data: DataSocket,
    pub(super) connection: ConnectionInfo,
    /// The flow that the client requests.
    pub(super) send_plan: FlowPlan,
    pub(super) send_mode: SendMode,
}

impl DatagramTest<'_> {
    /// Runs the test to its end.
    pub(super) fn run(&self) -> Result<(), String> {
        let is_for_client = self.receiver.client_run.is_some();
        let requests_test_back =
            self.hello.flags & flags::VERSION1 != 0 && !is_for_client && !self.is_for_group();
        let is_full_duplex = self.connection.is_full_duplex;
        let may_send = self.receiver.service.may_amplify(&self.from);
        if (is_full_duplex || requests_test_back) && !may_send {
            self.running.record_failure(&UNPROVEN_ADDRESS);
            self.report_error(format_args!("gets no data: {UNPROVEN_ADDRESS}"));
            return self.receive();
        }
        if self.connection.is_reverse && !self.is_for_group() {
            self.send_reverse()
        } else if is_full_duplex && !self.is_for_group() {
            self.running.add_direction();
            run_both(|| self.send_reverse(), || self.receive())
        } else if requests_test_back {
            self.running.add_direction();
            let result = if self.hello.flags & flags::RUN_NOW != 0 {
                run_both(|| self.send_back(), || self.receive())
            } else {
                self.receive().and_then(|()| self.send_back())
            };
            self.reports.print_server_reports();
            result
        } else {
            self.receive()
        }
    }

    fn stop(&self) -> &Stop {
        self.running.cancel_stop()
    }

    /// Returns whether the client sends to a multicast group, to which nobody replies.
    fn is_for_group(&self) -> bool {
        let local_ip = self.connection.local.as_ref().and_then(Address::ip);
        local_ip.is_some_and(|ip| ip.is_multicast())
    }

    fn report_error(&self, text: fmt::Arguments<'_>) {
        self.receiver.report_error(format!("{}: {text}", self.from));
    }

    /// Receives the client's flow, and sends the report about it.
    fn receive(&self) -> Result<(), String> {
        let plan = self.receive_plan();
        let one_way = OneWay {
            early_datagrams: self.early_datagrams,
            has_wide_numbers: self.has_wide_numbers,
            ..self.one_way(&plan, &self.data, &[], &self.send_mode)
        };
        let id = self.connection.id.clone();
        let result = self.measure(one_way, id, &self.connection, self.receive_timings())?;
        if self.hello.has_any_flag(upper::L2_LENGTH) {
            self.check_lengths(&result);
        }
        if !self.connection.no_udp_fin && !self.is_for_group() {
            self.send_report(&result);
        }
        if let Some(run) = self.receiver.client_run {
            run.record_result(&plan, result);
        }
        Ok(())
    }

    /// Sends the requested flow from the socket that received the request.
    fn send_reverse(&self) -> Result<(), String> {
        SenderOptions::set_type_of_service(
            self.data.socket.as_fd(),
            &self.send_plan.local.socket,
            self.from.is_ipv6(),
        );
        let id = FlowId {
            is_starred: self.connection.is_full_duplex,
            ..self.connection.id.clone()
        };
        let pattern = self.pattern();
        let one_way = self.one_way(&self.send_plan, &self.data, &pattern, &self.send_mode);
        let has_frames = self.send_mode.periodic_bursts.is_some();
        let timings = has_frames.then(|| Arc::new(FlowTimings::new(TimingKind::Frames, None)));
        self.measure(one_way, id, &self.connection, timings)?;
        Ok(())
    }

    /// Sends the requested flow to the client's port, on a new socket (`-d`, `-r`).
    fn send_back(&self) -> Result<(), String> {
        let (data, connection) = connect_back(
            &self.from,
            &self.hello,
            &self.send_plan,
            &self.send_plan.local.socket,
            self.receiver.flow_numbers,
            &**self.receiver.observer,
            self.stop(),
        )?;
        let (pattern, send_mode) = (self.pattern(), SendMode::default());
        let one_way = OneWay {
            expects_report: true,
            ..self.one_way(&self.send_plan, &data, &pattern, &send_mode)
        };
        self.measure(one_way, connection.id.clone(), &connection, None)?;
        Ok(())
    }

    /// Returns the contents of sent datagrams.
    fn pattern(&self) -> Vec<u8> {
        connection::pattern(send_length(&self.send_plan), &[])
    }

    fn one_way<'f>(
        &'f self,
        flow: &'f FlowPlan,
        data: &'f DataSocket,
        pattern: &'f [u8],
        send_mode: &'f SendMode,
    ) -> OneWay<'f> {
        OneWay {
            flow,
            data,
            pattern,
            send_mode,
            early_datagrams: &[],
            stop: self.stop(),
            expects_report: false,
            max_refusals: 0,
            has_wide_numbers: true,
            requested: None,
        }
    }

    /// Runs one direction, and records its counters and its end.
    fn measure(
        &self,
        one_way: OneWay<'_>,
        id: FlowId,
        connection: &ConnectionInfo,
        timings: Option<Arc<FlowTimings>>,
    ) -> Result<FlowResult, String> {
        let measured = connection::measured_flow(id, one_way.flow, one_way.data, connection);
        let mut measured = measured.map_err(|error| sys::describe(&error))?;
        measured.timings = timings;
        let bins = self.receiver.settings.output.jitter_bins;
        let bins = bins.filter(|_| !measured.sends);
        let new_times = |bins| Arc::new(FlowTimings::new(TimingKind::Jitter, Some(bins)));
        measured.jitter_times = bins.map(new_times);
        self.running.add_counters(&measured.counters);
        let run_measured = || one_way.run(&measured, &self.reports);
        let result = match self.receiver.client_run {
            Some(run) => run.run_flow(&measured, run_measured)?,
            None => run_measured()?,
        };
        self.running.record_end(&result.ended);
        Ok(result)
    }

    /// Returns new timings for received datagrams or frames; `None` if the test records none.
    fn receive_timings(&self) -> Option<Arc<FlowTimings>> {
        let has_frames =
            self.connection.upper_flags & upper::ISOCHRONOUS != 0 && self.connection.has_trip_times;
        let bins = self.receiver.settings.output.bins;
        let kind = match bins {
            _ if has_frames => TimingKind::Frames,
            Some(_) => TimingKind::Datagrams,
            None => return None,
        };
        Some(Arc::new(FlowTimings::new(kind, bins)))
    }

    fn first_datagram(&self) -> &[u8] {
        &self.early_datagrams[0].data
    }

    /// Reports datagrams that arrived truncated or merged (`--l2checks`).
    fn check_lengths(&self, result: &FlowResult) {
        let length = self.first_datagram().len();
        let counts = result.side.counts;
        let (bytes, datagrams) = (counts.received.0, counts.receive_calls);
        if bytes != datagrams * length as u64 {
            self.receiver.report_error(format!(
                "length check failed: {datagrams} datagrams of {length} bytes have {bytes} bytes in total"
            ));
        }
    }

    fn receive_plan(&self) -> FlowPlan {
        let socket = &self.receiver.settings.socket;
        let send_plan = flow_plan(
            Transport::Udp,
            MAX_PAYLOAD_BYTES,
            None,
            Limit::Unlimited,
            socket,
        );
        let mut receive_plan = send_plan.reversed();
        let number = DatagramHeader::read(self.first_datagram(), self.has_wide_numbers)
            .map_or(1, |header| header.number);
        let mut format = datagram_format(self.has_wide_numbers);
        format.first_number = u32::from(number != 0);
        receive_plan.datagrams = Some(format);
        receive_plan
    }

    /// Answers the last datagram, and each repetition that follows within [`REPEAT_TIMEOUT`].
    fn send_report(&self, result: &FlowResult) {
        if matches!(result.ended, EndCause::Failed(_)) {
            return;
        }
        let is_enhanced = self.receiver.settings.output.enhanced || self.connection.has_trip_times;
        let report = server_report(&result.side, is_enhanced);
        let bytes = if self.has_wide_numbers {
            report.encode().to_vec()
        } else {
            report.encode_narrow(self.first_datagram())
        };
        let max_answers = if self.receiver.service.may_amplify(&self.from) {
            MAX_ANSWERS
        } else {
            let paid_answers =
                MAX_AMPLIFICATION * result.side.counts.received.0 / bytes.len() as u64;
            paid_answers.min(MAX_UNPROVEN_ANSWERS)
        };
        if max_answers == 0 {
            self.report_error(format_args!("gets no report: {UNPROVEN_ADDRESS}"));
        }
        let socket = self.data.socket.as_fd();
        let mut discarded = [0; 64];
        for _ in 0..max_answers {
            if call::send_without_waiting(socket, &bytes).is_err() {
                return;
            }
            match self
                .stop()
                .wait_readable(socket, Instant::now() + REPEAT_TIMEOUT)
            {
                Ok(true) => {}
                _ => return,
            }
            if call::receive_without_waiting(socket, &mut discarded).is_err() {
                return;
            }
        }
    }
}
