//! What the peer said, brought from any family's messages into one form.

use std::time::Duration;

use model::{BuffersUsed, Counts, CpuMethod, CpuUse, Side, SocketFacts};
use units::Bytes;

use crate::conventions::cpu_method;
use crate::wire::{
    Flags, OmniResponse, OmniResults, StreamResponse, StreamResults, SysInfo, TransactionResponse,
    TransactionResults, finite,
};

/// What the peer said in its response and its results, word for word as in
/// [`OmniResponse`] and [`OmniResults`] (classic messages are brought into the same form; what they
/// lack has the value that the stock client prints for it). Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Initial SO_RCVBUF.
    pub receive_buffer: i32,
    /// Bytes a receive call, or the echo of what was asked (−1).
    pub receive_size: i32,
    /// Buffers in the receive ring, or the echo.
    pub receive_width: i32,
    /// Initial SO_SNDBUF.
    pub send_buffer: i32,
    /// Bytes a send call, or the echo (−1).
    pub send_size: i32,
    /// Buffers in the send ring, or the echo.
    pub send_width: i32,
    /// TCP_NODELAY is on.
    pub no_delay: bool,
    /// Whether the peer measures CPU …
    pub measures_cpu: bool,
    /// … and the calibration value that it does so with.
    pub cpu_rate: f32,
    /// The port that the data goes to.
    pub data_port: u32,
    /// SO_PRIORITY in force, −1 if none was asked for.
    pub priority: i32,
    /// Type of service in force, −1 if none was asked for.
    pub type_of_service: i32,
    /// Passes an interval that the peer is kept to; 0 is no pacing.
    pub interval_burst: u32,
    /// Final SO_RCVBUF.
    pub receive_buffer_end: i32,
    /// Final SO_SNDBUF.
    pub send_buffer_end: i32,
    /// Payload received.
    pub bytes_received: u64,
    /// Receive calls.
    pub receive_calls: u64,
    /// Payload sent.
    pub bytes_sent: u64,
    /// Send calls.
    pub send_calls: u64,
    /// CPU figures, when measured.
    pub cpu: Option<model::CpuUse>,
    /// Seconds that the peer measured; `None` when it did not say.
    pub elapsed: Option<Duration>,
    /// Transactions that the peer counted.
    pub transactions: u64,
    /// TCP retransmissions; −1 not TCP, −2 never asked.
    pub retransmits: i32,
    /// The congestion control algorithm ("TCP Only" on connected non-TCP).
    pub congestion_control: String,
    /// The peer's operating system, if it was asked.
    pub system: Option<SysInfo>,
}

impl From<&OmniResponse> for Told {
    fn from(response: &OmniResponse) -> Self {
        Self {
            receive_buffer: response.receive_buffer,
            receive_size: response.receive_size,
            receive_width: response.receive_width,
            send_buffer: response.send_buffer,
            send_size: response.send_size,
            send_width: response.send_width,
            no_delay: response.flags.has(Flags::NO_DELAY),
            measures_cpu: response.flags.has(Flags::MEASURE_CPU),
            cpu_rate: response.cpu_rate,
            data_port: response.data_port,
            priority: response.priority,
            type_of_service: response.type_of_service,
            interval_burst: response.interval_burst,
            receive_buffer_end: response.receive_buffer,
            send_buffer_end: response.send_buffer,
            retransmits: -2,
            ..Self::default()
        }
    }
}

impl From<&StreamResponse> for Told {
    fn from(response: &StreamResponse) -> Self {
        let (receive_buffer, send_buffer) = (response.receive_buffer, response.send_buffer);
        Self {
            receive_size: response.size,
            no_delay: response.no_delay,
            cpu_rate: response.cpu_rate,
            data_port: response.data_port as u32,
            ..Self::classic(receive_buffer, send_buffer, response.measure_cpu)
        }
    }
}

impl From<&TransactionResponse> for Told {
    fn from(response: &TransactionResponse) -> Self {
        let (receive_buffer, send_buffer) = (response.receive_buffer, response.send_buffer);
        Self {
            no_delay: response.no_delay,
            cpu_rate: response.cpu_rate,
            data_port: response.data_port as u32,
            ..Self::classic(receive_buffer, send_buffer, response.measure_cpu)
        }
    }
}

impl Told {
    /// What is known where nobody can be asked, in the stock client's words for it.
    pub(super) fn nothing() -> Self {
        Self {
            receive_buffer_end: -1,
            send_buffer_end: -1,
            ..Self::classic(0, 0, false)
        }
    }

    /// What the responses of all classic tests have.
    pub(super) fn classic(receive_buffer: i32, send_buffer: i32, measures_cpu: bool) -> Self {
        Self {
            receive_buffer,
            receive_size: -1,
            send_buffer,
            send_size: -1,
            measures_cpu,
            priority: -1,
            type_of_service: -1,
            receive_buffer_end: receive_buffer,
            send_buffer_end: send_buffer,
            retransmits: -2,
            ..Self::default()
        }
    }

    /// Adds what the peer received.
    pub(super) fn add_bulk(&mut self, calls: u32, bytes: u64) {
        self.receive_calls = calls.into();
        self.bytes_received = bytes;
    }

    /// Adds datagrams of this size that the peer received. A stock server's own count of bytes is one
    /// short for each call that its timer interrupts.
    pub(super) fn add_datagrams(&mut self, count: u32, size: i32) {
        self.add_bulk(count, u64::from(count) * size.max(0) as u64);
    }

    /// Adds transactions of messages of these sizes.
    pub(super) fn add_messages(&mut self, transactions: u32, request: i32, response: i32) {
        let count = u64::from(transactions);
        self.transactions = count;
        self.bytes_received = count * request.max(0) as u64;
        self.bytes_sent = count * response.max(0) as u64;
    }

    /// Adds what all classic results have: seconds, the busy percentage, how it was measured, CPUs.
    pub(super) fn add_classic(&mut self, elapsed: f32, busy: f32, method: i32, cpus: i32) {
        self.elapsed = seconds(elapsed);
        // The connection tests' results have no word for the method; there is only one on Linux.
        let method = match method {
            0 => CpuMethod::ProcStat,
            code => cpu_method(code as u32),
        };
        self.cpu = self.measures_cpu.then(|| CpuUse {
            busy_percent: percent(busy),
            user_percent: 0.0,
            system_percent: 0.0,
            iowait_percent: 0.0,
            irq_percent: 0.0,
            softirq_percent: 0.0,
            steal_percent: None,
            cpus: cpus.max(0) as u32,
            peak: None,
            method,
            each: Vec::new(),
        });
    }

    /// Adds the results of a classic stream that the peer received.
    pub(super) fn add_stream(&mut self, said: &StreamResults) {
        // A hostile NaN or a negative count is no bytes; a huge one saturates.
        self.add_bulk(said.calls, said.bytes as u64);
        let (busy, method) = (said.cpu_utilisation, said.cpu_method);
        self.add_classic(said.elapsed, busy, method, said.cpus);
    }

    /// Adds the results of a classic transactional test with messages of these sizes.
    pub(super) fn add_transactions(
        &mut self,
        said: &TransactionResults,
        request: i32,
        response: i32,
    ) {
        self.add_messages(said.transactions, request, response);
        let (busy, method) = (said.cpu_utilisation, said.cpu_method);
        self.add_classic(said.elapsed, busy, method, said.cpus);
    }

    /// Adds the results of an omni test.
    pub(super) fn add_omni(&mut self, results: &OmniResults) {
        self.bytes_received = results.bytes_received;
        self.receive_calls = results.receive_calls.into();
        self.bytes_sent = results.bytes_sent;
        self.send_calls = results.send_calls.into();
        self.receive_buffer_end = results.receive_buffer;
        self.send_buffer_end = results.send_buffer;
        self.retransmits = results.retransmits;
        self.congestion_control = results.congestion_control.to_string();
        self.elapsed = seconds(results.elapsed);
        self.transactions = results.transactions.into();
        self.cpu = self.measures_cpu.then(|| CpuUse {
            busy_percent: percent(results.cpu_utilisation),
            user_percent: percent(results.cpu_user),
            system_percent: percent(results.cpu_system),
            iowait_percent: percent(results.cpu_iowait),
            irq_percent: percent(results.cpu_irq),
            softirq_percent: percent(results.cpu_softirq),
            steal_percent: None,
            cpus: results.cpus,
            peak: u32::try_from(results.peak_cpu)
                .ok()
                .map(|cpu| (cpu, percent(results.peak_cpu_utilisation))),
            method: cpu_method(results.cpu_method),
            each: Vec::new(),
        });
    }

    /// Adds what another flow of the same test was told. What belongs to the host or cannot be added
    /// stays the first flow's.
    pub(super) fn add(&mut self, flow: &Self) {
        self.bytes_received = self.bytes_received.saturating_add(flow.bytes_received);
        self.receive_calls = self.receive_calls.saturating_add(flow.receive_calls);
        self.bytes_sent = self.bytes_sent.saturating_add(flow.bytes_sent);
        self.send_calls = self.send_calls.saturating_add(flow.send_calls);
        self.transactions = self.transactions.saturating_add(flow.transactions);
        self.elapsed = self.elapsed.max(flow.elapsed);
        self.retransmits = if self.retransmits < 0 || flow.retransmits < 0 {
            self.retransmits.min(flow.retransmits)
        } else {
            self.retransmits.saturating_add(flow.retransmits)
        };
    }

    /// The peer's side as far as netperf's words go.
    pub(super) fn side(&self) -> Side {
        let size = |word: i32| u32::try_from(word).ok().filter(|bytes| *bytes > 0);
        Side {
            counts: Counts {
                sent: Bytes(self.bytes_sent),
                received: Bytes(self.bytes_received),
                send_calls: self.send_calls,
                receive_calls: self.receive_calls,
                transactions: self.transactions,
                ..Counts::default()
            },
            elapsed: self.elapsed,
            socket: SocketFacts {
                send_buffer_bytes: size(self.send_buffer),
                send_buffer_end_bytes: size(self.send_buffer_end),
                receive_buffer_bytes: size(self.receive_buffer),
                receive_buffer_end_bytes: size(self.receive_buffer_end),
                retransmits: u32::try_from(self.retransmits).ok(),
                congestion_control: Some(self.congestion_control.clone())
                    .filter(|name| !name.is_empty()),
                no_delay: Some(self.no_delay),
                priority: Some(self.priority).filter(|told| *told != -1),
                type_of_service: Some(self.type_of_service).filter(|told| *told != -1),
                ..SocketFacts::default()
            },
            buffers: BuffersUsed {
                send_bytes: size(self.send_size),
                send_width: size(self.send_width),
                receive_bytes: size(self.receive_size),
                receive_width: size(self.receive_width),
            },
            cpu: self.cpu.clone(),
            ..Side::default()
        }
    }
}

/// A leftover that is no number is 0.
fn percent(value: f32) -> f64 {
    finite(value).map_or(0.0, f64::from)
}

fn seconds(value: f32) -> Option<Duration> {
    Duration::try_from_secs_f32(value)
        .ok()
        .filter(|elapsed| !elapsed.is_zero())
}
