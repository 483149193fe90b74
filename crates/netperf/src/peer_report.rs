//! What the peer reports of a test, brought from the messages of any test into one form.

use std::time::Duration;

use model::{BuffersUsed, Counts, CpuMethod, CpuUse, Side, SocketFacts, Transport};
use units::Bytes;

use crate::conventions::{cpu_code, cpu_method};
use crate::wire::{Classic, Flags, Request, SysInfo, Task, TestResponse, TestResults, finite};

/// What the peer reports in its response and its results. What classic messages lack has the value that the stock client
/// prints for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReport {
    /// Its response, word for word; a size of −1 is the echo of what was asked.
    pub response: TestResponse,
    /// Its results, likewise, but for counts. Retransmissions: −1 not TCP, −2 never asked.
    pub results: TestResults,
    /// What it counted.
    pub counts: Counts,
    /// CPU figures, when measured.
    pub cpu: Option<CpuUse>,
    /// Seconds that the peer measured; `None` when it did not say.
    pub elapsed: Option<Duration>,
    /// The peer's operating system, if it was asked.
    pub system: Option<SysInfo>,
}

impl PeerReport {
    /// What is known where nobody can be asked, in the stock client's words for it.
    pub(crate) fn nothing() -> Self {
        let mut report = Self::silent(&TestResponse::default());
        report.results.receive_buffer = -1;
        report.results.send_buffer = -1;
        report
    }

    /// The figures that a response to this request reports.
    pub(crate) fn of(asked: &Request, said: TestResponse) -> Self {
        let Request::Classic(test, _) = asked else {
            return Self::before_results(said);
        };
        let receive_size = match test.task() {
            Task::Receive | Task::Send => said.receive_size,
            _ => -1,
        };
        let mut report = Self::silent(&said);
        report.response.receive_size = receive_size;
        if !test.transport().has_ip() {
            // What a Unix domain or DLPI client gave stays what it was.
            report.response.cpu_rate = 0.0;
        }
        report
    }

    /// With what no classic message has a word for.
    fn silent(said: &TestResponse) -> Self {
        Self::before_results(TestResponse {
            receive_size: -1,
            send_size: -1,
            priority: -1,
            type_of_service: -1,
            ..*said
        })
    }

    fn before_results(response: TestResponse) -> Self {
        Self {
            results: TestResults {
                receive_buffer: response.receive_buffer,
                send_buffer: response.send_buffer,
                retransmits: -2,
                ..TestResults::default()
            },
            response,
            ..Self::default()
        }
    }

    /// Whether the peer measures CPU.
    pub(crate) fn measures_cpu(&self) -> bool {
        self.response.flags.has(Flags::MEASURE_CPU)
    }

    /// Adds the results of the test that was asked for. This end's count of sent bytes widens a word that has lost what
    /// was above it.
    pub(crate) fn add_results(&mut self, asked: &Request, said: TestResults, sent: u64) {
        self.results = match asked {
            Request::Classic(test, _) => self.of_classic(*test, &said),
            _ => said,
        };
        let said = &self.results;
        self.elapsed = Duration::try_from_secs_f32(said.elapsed)
            .ok()
            .filter(|elapsed| !elapsed.is_zero());
        self.cpu = self.measures_cpu().then(|| cpu(said));
        self.counts = match asked {
            Request::Classic(test, asked) => {
                let sizes = [asked.receive_size, asked.request_size, asked.response_size];
                classic_counts(*test, sizes.map(|size| size.max(0) as u64), said, sent)
            }
            _ => Counts {
                received: Bytes(said.bytes_received),
                receive_calls: said.receive_calls.into(),
                sent: Bytes(said.bytes_sent),
                send_calls: said.send_calls.into(),
                transactions: said.transactions.into(),
                ..Counts::default()
            },
        };
    }

    /// Classic results, with what they have no word for.
    fn of_classic(&self, test: Classic, said: &TestResults) -> TestResults {
        TestResults {
            receive_buffer: self.results.receive_buffer,
            send_buffer: self.results.send_buffer,
            retransmits: self.results.retransmits,
            peak_cpu: -1,
            // The connection tests' results have no word for the method; there is only one on Linux.
            cpu_method: match said.cpu_method {
                0 => cpu_code(CpuMethod::ProcStat),
                code => code,
            },
            // The peer of a Unix domain test is on this host, and the stock server does not say how many CPUs that has.
            cpus: match test.transport() {
                Transport::UnixStream | Transport::UnixDatagram => sys::cpu::online() as u32,
                _ => (said.cpus as i32).max(0) as u32,
            },
            ..*said
        }
    }

    /// Adds the report of another flow of the same test. What belongs to the host or cannot be added
    /// stays the first flow's.
    pub(crate) fn add(&mut self, flow: &Self) {
        self.counts += flow.counts;
        self.elapsed = self.elapsed.max(flow.elapsed);
        let (sum, flow) = (&mut self.results.retransmits, flow.results.retransmits);
        *sum = if *sum < 0 || flow < 0 {
            flow.min(*sum)
        } else {
            sum.saturating_add(flow)
        };
    }

    /// The peer's side as far as netperf's words go.
    pub(crate) fn side(&self) -> Side {
        let size = |word: i32| u32::try_from(word).ok().filter(|bytes| *bytes > 0);
        let (response, results) = (&self.response, &self.results);
        let congestion_control = Some(results.congestion_control.to_string());
        Side {
            counts: self.counts,
            elapsed: self.elapsed,
            socket: SocketFacts {
                send_buffer_bytes: size(response.send_buffer),
                send_buffer_end_bytes: size(results.send_buffer),
                receive_buffer_bytes: size(response.receive_buffer),
                receive_buffer_end_bytes: size(results.receive_buffer),
                retransmits: u32::try_from(results.retransmits).ok(),
                congestion_control: congestion_control.filter(|name| !name.is_empty()),
                no_delay: Some(response.flags.has(Flags::NO_DELAY)),
                priority: Some(response.priority).filter(|told| *told != -1),
                type_of_service: Some(response.type_of_service).filter(|told| *told != -1),
                ..SocketFacts::default()
            },
            buffers: BuffersUsed {
                send_bytes: size(response.send_size),
                send_width: size(response.send_width),
                receive_bytes: size(response.receive_size),
                receive_width: size(response.receive_width),
            },
            cpu: self.cpu.clone(),
            ..Side::default()
        }
    }
}

/// The counts of a classic test, whose messages, requests and responses have these sizes.
fn classic_counts(
    test: Classic,
    [message, request, response]: [u64; 3],
    said: &TestResults,
    sent: u64,
) -> Counts {
    let mut counts = Counts::default();
    match test.task() {
        Task::Receive | Task::Send => {
            counts.receive_calls = said.calls.into();
            // A hostile NaN or a negative count is no bytes; a huge one saturates.
            counts.received = Bytes(if test.transport().has_ip() {
                said.bytes as u64
            } else {
                widened(said.bytes_low, sent)
            });
        }
        // A stock server's own count of bytes is one short for each call that its timer interrupts.
        Task::Datagrams => {
            counts.receive_calls = said.calls.into();
            counts.received = Bytes(u64::from(said.calls) * message);
        }
        Task::AcceptAndClose => counts.transactions = said.transactions.into(),
        Task::Answer | Task::AcceptAndAnswer => {
            counts.transactions = said.transactions.into();
            counts.received = Bytes(counts.transactions * request);
            counts.sent = Bytes(counts.transactions * response);
        }
    }
    counts
}

fn cpu(said: &TestResults) -> CpuUse {
    CpuUse {
        busy_percent: percent(said.cpu_utilisation),
        user_percent: percent(said.cpu_user),
        system_percent: percent(said.cpu_system),
        iowait_percent: percent(said.cpu_iowait),
        irq_percent: percent(said.cpu_irq),
        softirq_percent: percent(said.cpu_softirq),
        steal_percent: None,
        cpus: said.cpus,
        peak: u32::try_from(said.peak_cpu)
            .ok()
            .map(|cpu| (cpu, percent(said.peak_cpu_utilisation))),
        method: cpu_method(said.cpu_method),
        each: Vec::new(),
    }
}

/// A leftover that is no number is 0.
fn percent(value: f32) -> f64 {
    finite(value).map_or(0.0, f64::from)
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
