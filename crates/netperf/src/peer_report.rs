//! What the peer reports of a test, brought from the messages of any test into one form.

use std::time::Duration;

use model::{BuffersUsed, Counts, CpuMethod, CpuUse, Side, SocketFacts, Transport};
use units::Bytes;

use crate::conventions::cpu_method;
use crate::wire::{
    Classic, ClassicRequest, ClassicResponse, ClassicResults, Flags, OmniResponse, OmniResults,
    SysInfo, Task, finite,
};

/// What the peer reports in its response and its results, word for word as in
/// [`OmniResponse`] and [`OmniResults`] (classic messages are brought into the same form; what they
/// lack has the value that the stock client prints for it). Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReport {
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

impl From<&OmniResponse> for PeerReport {
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

impl PeerReport {
    /// What is known where nobody can be asked, in the stock client's words for it.
    pub(crate) fn nothing() -> Self {
        Self {
            receive_buffer_end: -1,
            send_buffer_end: -1,
            ..Self::silent()
        }
    }

    /// What a classic response says.
    pub(crate) fn classic(test: Classic, said: &ClassicResponse) -> Self {
        let (receive_buffer, send_buffer) = (said.receive_buffer, said.send_buffer);
        Self {
            receive_buffer,
            receive_size: match test.task() {
                Task::Receive | Task::Send => said.receive_size,
                _ => -1,
            },
            send_buffer,
            no_delay: said.no_delay,
            measures_cpu: said.measure_cpu,
            // What a Unix domain or DLPI client gave stays what it was.
            cpu_rate: if has_ports(test) { said.cpu_rate } else { 0.0 },
            data_port: said.data_port as u32,
            receive_buffer_end: receive_buffer,
            send_buffer_end: send_buffer,
            ..Self::silent()
        }
    }

    /// What no classic message has a word for.
    fn silent() -> Self {
        Self {
            receive_size: -1,
            send_size: -1,
            priority: -1,
            type_of_service: -1,
            retransmits: -2,
            ..Self::default()
        }
    }

    /// Adds classic results. This end's count of sent bytes widens a word that has lost what was above it.
    pub(crate) fn add_classic(
        &mut self,
        test: Classic,
        asked: &ClassicRequest,
        said: &ClassicResults,
        sent: u64,
    ) {
        match test.task() {
            Task::Receive | Task::Send => {
                self.receive_calls = said.calls.into();
                // A hostile NaN or a negative count is no bytes; a huge one saturates.
                self.bytes_received = if has_ports(test) {
                    said.bytes as u64
                } else {
                    widened(said.bytes_low, sent)
                };
            }
            // A stock server's own count of bytes is one short for each call that its timer interrupts.
            Task::Datagrams => {
                self.receive_calls = said.calls.into();
                self.bytes_received = u64::from(said.calls) * asked.receive_size.max(0) as u64;
            }
            Task::Answer | Task::AcceptAndAnswer | Task::AcceptAndClose => {
                let count = u64::from(said.transactions);
                self.transactions = count;
                if test.task() != Task::AcceptAndClose {
                    self.bytes_received = count * asked.request_size.max(0) as u64;
                    self.bytes_sent = count * asked.response_size.max(0) as u64;
                }
            }
        }
        self.elapsed = seconds(said.elapsed);
        // The connection tests' results have no word for the method; there is only one on Linux.
        let method = match said.cpu_method {
            0 => CpuMethod::ProcStat,
            code => cpu_method(code as u32),
        };
        // The peer of a Unix domain test is on this host, and the stock server does not say how many CPUs that has.
        let cpus = match test.transport() {
            Transport::UnixStream | Transport::UnixDatagram => sys::cpu::online() as u32,
            _ => said.cpus.max(0) as u32,
        };
        self.cpu = self.measures_cpu.then(|| CpuUse {
            busy_percent: percent(said.cpu_utilisation),
            user_percent: 0.0,
            system_percent: 0.0,
            iowait_percent: 0.0,
            irq_percent: 0.0,
            softirq_percent: 0.0,
            steal_percent: None,
            cpus,
            peak: None,
            method,
            each: Vec::new(),
        });
    }

    /// Adds the results of an omni test.
    pub(crate) fn add_omni(&mut self, results: &OmniResults) {
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

    /// Adds the report of another flow of the same test. What belongs to the host or cannot be added
    /// stays the first flow's.
    pub(crate) fn add(&mut self, flow: &Self) {
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
    pub(crate) fn side(&self) -> Side {
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

/// Whether the data goes over IP: these tests have the messages of TCP's.
fn has_ports(test: Classic) -> bool {
    matches!(
        test.transport(),
        Transport::Tcp | Transport::Udp | Transport::Sctp | Transport::SctpMany
    )
}

/// The number with these low 32 bits that is nearest below `near`, which is what was sent.
fn widened(low: u32, near: u64) -> u64 {
    let missing = u64::from((near as u32).wrapping_sub(low));
    near.checked_sub(missing).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_wrapped_are_widened() {
        for (low, near, wide) in [
            (0, 0, 0),
            (100, 100, 100),
            (90, 100, 90),
            (0x8454_fb00, 0x1_8454_fb00, 0x1_8454_fb00),
            (0xffff_fff0, 0x1_0000_0010, 0xffff_fff0),
            // More than was sent: the peer's own word.
            (200, 100, 200),
        ] {
            assert_eq!(widened(low, near), wide, "{low} near {near}");
        }
    }
}
