//! The peer's report of a test, in one form for the messages of all tests.

use std::time::Duration;

use model::{BufferSizes, Counts, CpuMethod, CpuUse, Side, SocketFacts, Transport};
use units::Bytes;

use crate::protocol_conventions::{cpu_method_code, cpu_method_from_code};
use crate::wire::{
    Classic, Flags, Request, ServerTask, SysInfo, TestResponse, TestResults, finite,
};

/// The peer's response and results. Fields that classic messages lack have the value that the stock
/// client prints for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReport {
    /// The response, unchanged. A size of −1 is the echo of the request.
    pub response: TestResponse,
    /// The results, unchanged except for counts. Retransmissions: −1 without TCP, −2 not requested.
    pub results: TestResults,
    /// The peer's counts.
    pub counts: Counts,
    /// CPU figures, if measured.
    pub cpu: Option<CpuUse>,
    /// Duration that the peer measured; `None` if not reported.
    pub elapsed: Option<Duration>,
    /// The peer's operating system, if requested.
    pub system: Option<SysInfo>,
}

impl PeerReport {
    /// Returns the report of a test without a control connection, with the stock client's values.
    pub(crate) fn without_control() -> Self {
        let mut report = Self::without_omni_fields(&TestResponse::default());
        report.results.receive_buffer = -1;
        report.results.send_buffer = -1;
        report
    }

    /// Returns the report with the response to this request; results follow later.
    pub(crate) fn from_response(request: &Request, response: TestResponse) -> Self {
        let Request::Classic(test, _) = request else {
            return Self::without_results(response);
        };
        let receive_size = match test.task() {
            ServerTask::Receive | ServerTask::Send => response.receive_size,
            _ => -1,
        };
        let mut report = Self::without_omni_fields(&response);
        report.response.receive_size = receive_size;
        if !test.transport().has_ip() {
            // The stock client keeps its own rate for Unix domain and DLPI tests.
            report.response.cpu_rate = 0.0;
        }
        report
    }

    /// Returns the report of a classic response, with the stock client's values in the omni fields.
    fn without_omni_fields(response: &TestResponse) -> Self {
        Self::without_results(TestResponse {
            receive_size: -1,
            send_size: -1,
            priority: -1,
            type_of_service: -1,
            ..*response
        })
    }

    fn without_results(response: TestResponse) -> Self {
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
        self.response.flags.has_all(Flags::MEASURE_CPU)
    }

    /// Adds the results of the requested test. `sent` is the local count of sent bytes, which
    /// completes 32-bit counts of the peer.
    pub(crate) fn add_results(&mut self, request: &Request, results: TestResults, sent: u64) {
        self.results = match request {
            Request::Classic(test, _) => self.complete_classic_results(*test, &results),
            _ => results,
        };
        let results = &self.results;
        self.elapsed = Duration::try_from_secs_f32(results.elapsed)
            .ok()
            .filter(|elapsed| !elapsed.is_zero());
        // A linerate server reports a negative value if the time is unavailable.
        let utilisation = results.cpu_utilisation;
        let is_available = self.measures_cpu() && utilisation.is_finite() && utilisation >= 0.0;
        let cpu = is_available.then(|| cpu_use(results));
        self.cpu = cpu.filter(CpuUse::is_possible);
        self.counts = match request {
            Request::Classic(test, request) => {
                let sizes = [
                    request.receive_size,
                    request.request_size,
                    request.response_size,
                ];
                classic_counts(*test, sizes.map(|size| size.max(0) as u64), results, sent)
            }
            _ => Counts {
                received: Bytes(results.bytes_received),
                receive_calls: results.receive_calls.into(),
                sent: Bytes(results.bytes_sent),
                send_calls: results.send_calls.into(),
                transactions: results.transactions.into(),
                ..Counts::default()
            },
        };
    }

    /// Adds to classic results the fields that their messages lack.
    fn complete_classic_results(&self, test: Classic, results: &TestResults) -> TestResults {
        TestResults {
            receive_buffer: self.results.receive_buffer,
            send_buffer: self.results.send_buffer,
            retransmits: self.results.retransmits,
            peak_cpu: -1,
            // The results of connection tests lack the method; Linux has only one.
            cpu_method: match results.cpu_method {
                0 => cpu_method_code(CpuMethod::ProcStat),
                code => code,
            },
            // The peer of a Unix domain test is on this host. The stock server does not report its
            // number of CPUs.
            cpus: match test.transport() {
                Transport::UnixStream | Transport::UnixDatagram => sys::cpu::online_count(),
                _ => (results.cpus as i32).max(0) as u32,
            },
            ..*results
        }
    }

    /// Adds the report of another flow of the same test. Values that belong to the host or cannot
    /// be added stay those of the first flow.
    pub(crate) fn add_flow(&mut self, flow: &Self) {
        self.counts += flow.counts;
        self.elapsed = self.elapsed.max(flow.elapsed);
        let (sum, flow) = (&mut self.results.retransmits, flow.results.retransmits);
        *sum = if *sum < 0 || flow < 0 {
            flow.min(*sum)
        } else {
            sum.saturating_add(flow)
        };
    }

    /// Returns the peer's side, with the values that netperf's messages carry.
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
                no_delay: Some(response.flags.has_all(Flags::NO_DELAY)),
                priority: Some(response.priority).filter(|word| *word != -1),
                type_of_service: Some(response.type_of_service).filter(|word| *word != -1),
                ..SocketFacts::default()
            },
            buffers: BufferSizes {
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

/// Returns the counts of a classic test with these message, request and response sizes.
fn classic_counts(
    test: Classic,
    [message, request, response]: [u64; 3],
    results: &TestResults,
    sent: u64,
) -> Counts {
    let mut counts = Counts::default();
    match test.task() {
        ServerTask::Receive | ServerTask::Send => {
            counts.receive_calls = results.calls.into();
            // A NaN or a negative count becomes 0; a huge count saturates.
            counts.received = Bytes(if test.transport().has_ip() {
                results.bytes as u64
            } else {
                widen(results.bytes_low, sent)
            });
        }
        // A stock server's byte count lacks one byte for each call that its timer interrupts.
        ServerTask::Datagrams => {
            counts.receive_calls = results.calls.into();
            counts.received = Bytes(u64::from(results.calls) * message);
        }
        ServerTask::AcceptAndClose => counts.transactions = results.transactions.into(),
        ServerTask::Answer | ServerTask::AcceptAndAnswer => {
            counts.transactions = results.transactions.into();
            counts.received = Bytes(counts.transactions * request);
            counts.sent = Bytes(counts.transactions * response);
        }
    }
    counts
}

fn cpu_use(results: &TestResults) -> CpuUse {
    CpuUse {
        busy_percent: finite_percent(results.cpu_utilisation),
        user_percent: finite_percent(results.cpu_user),
        system_percent: finite_percent(results.cpu_system),
        iowait_percent: finite_percent(results.cpu_iowait),
        irq_percent: finite_percent(results.cpu_irq),
        softirq_percent: finite_percent(results.cpu_softirq),
        steal_percent: None,
        cpus: results.cpus,
        peak: u32::try_from(results.peak_cpu)
            .ok()
            .map(|cpu| (cpu, finite_percent(results.peak_cpu_utilisation))),
        method: cpu_method_from_code(results.cpu_method),
        busy_percent_per_cpu: Vec::new(),
    }
}

/// Returns the value, or 0 if it is not a finite number.
fn finite_percent(value: f32) -> f64 {
    finite(value).map_or(0.0, f64::from)
}

/// Returns the largest number up to `sent` with these low 32 bits, or `low` if there is none.
fn widen(low: u32, sent: u64) -> u64 {
    let missing = u64::from((sent as u32).wrapping_sub(low));
    sent.checked_sub(missing).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_that_is_no_percentage_is_unavailable() {
        let request = Request::Omni(crate::wire::TestRequest::default());
        for (cpu_utilisation, busy_percent) in [
            (12.5, Some(12.5)),
            (0.0, Some(0.0)),
            (-1.0, None),
            (f32::NAN, None),
            (f32::INFINITY, None),
            (1e30, None),
        ] {
            let response = TestResponse {
                flags: Flags::MEASURE_CPU,
                ..TestResponse::default()
            };
            let mut report = PeerReport::from_response(&request, response);
            let results = TestResults {
                cpu_utilisation,
                ..TestResults::default()
            };
            report.add_results(&request, results, 0);
            let found = report.cpu.map(|cpu| cpu.busy_percent);
            assert_eq!(found, busy_percent, "{cpu_utilisation}");
        }
    }

    #[test]
    fn counts_that_wrapped_are_widened() {
        for (low, sent, wide) in [
            (0, 0, 0),
            (100, 100, 100),
            (90, 100, 90),
            (0x8454_fb00, 0x1_8454_fb00, 0x1_8454_fb00),
            (0xffff_fff0, 0x1_0000_0010, 0xffff_fff0),
            // More than was sent: the peer's count stays.
            (200, 100, 200),
        ] {
            assert_eq!(widen(low, sent), wide, "{low} near {sent}");
        }
    }
}
