//! One test at the responder: from the request that starts it to the request that ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{
    BudgetHolder, BufferMemory, Counters, PacketReceiver, PacketReceiverSettings, PacketTimes,
    ReceiveEvent, Recording, StopReason,
};
use server::RunningTest;
use sys::clock::monotonic_ns;

use super::SILENCE_TIME;
use super::arrivals::{ArrivalObserver, lost_record, packet_record};
use super::session::Session;
use crate::host::HostMeter;
use crate::options::DATAGRAM_FORMAT;
use crate::result::HostActivity;
use crate::wire::{
    ArrivalRecord, Binning, Command, CountersObject, CpuLoad, EndReason, HostCounters,
    LinearHistogram, LinerateExtension, LostRecord, MAX_IMAGE_BYTES_PER_REQUEST, MessageBlock,
    PartHeader, ResponderDetails, ResultObject, VERSION, padded_slice,
};

/// The interval at which a session checks for a timeout.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The timeout of a session without a datagram after the request that started the test. A stock
/// requester repeats a request after 3 s.
const UNCONFIRMED_TIMEOUT: Duration = Duration::from_secs(4);

/// The maximum number of bytes read per datagram.
const MAX_READ_BYTES: u32 = 2048;

/// The maximum number of datagrams per receive call.
const BATCH_SIZE: u32 = 32;

/// Memory in addition to the records, in bytes: for the receive batch and for the detection of
/// repeated packets.
const EXTRA_MEMORY_BYTES: u64 = 1 << 20;

/// The maximum number of object bytes in one reply.
const MAX_SLICE_BYTES: usize = 9_000;

/// The maximum number of times that a test may clear its counts. A requester clears them twice.
const MAX_STARTS: u32 = 64;

/// The end of a test.
pub(super) enum TestEnd {
    /// The requester ended it with TESTEND. The answer follows when the next test may start.
    RequestedByPeer {
        /// The request.
        request: Vec<u8>,
        /// Whether the requester fetched statistics or received a response.
        is_complete: bool,
    },
    /// The requester started the next test with this request, which arrived at this time of the
    /// monotonic clock.
    NextTest(Vec<u8>, u64),
    /// The responder ended it for this reason, with a description.
    Failed(EndReason, String),
}

/// The effect of one request on a test.
enum RequestEffect {
    Continue,
    /// Clear the counts, apply these settings, and confirm this request.
    Restart(MessageBlock, Vec<u8>),
    End(TestEnd),
}

/// A running test.
pub(super) struct ServedTest<'s, 'a> {
    session: &'s mut Session<'a>,
    running_test: &'s RunningTest,
    /// The block of the request that started the test.
    settings: MessageBlock,
    /// The origin of the responder's times, in ns of the monotonic clock.
    zero_ns: u64,
    /// The activity of the host until the request for the statistics; `None` before it.
    host: Option<HostActivity>,
    /// The number of responses to [`Command::Request`].
    responses: u64,
    /// Bytes of requests and responses.
    exchange_counters: Arc<Counters>,
    /// Whether the requester has fetched the statistics.
    has_statistics: bool,
    /// The time of the last request, in ns of the monotonic clock.
    last_request_ns: u64,
}

/// The counts from one START to the next.
struct Phase<'p> {
    counters: &'p Counters,
    receiver: PacketReceiver<'p>,
    /// The memory for records, in bytes.
    record_bytes: u32,
    observer: ArrivalObserver,
    meter: HostMeter,
}

impl<'s, 'a> ServedTest<'s, 'a> {
    /// Creates the test that this request starts.
    pub(super) fn new(
        session: &'s mut Session<'a>,
        request: &[u8],
        arrival_ns: u64,
        running_test: &'s RunningTest,
    ) -> Self {
        let exchange_counters = Arc::new(Counters::default());
        running_test.add_counters(&exchange_counters);
        session.reply_counters = Arc::default();
        running_test.add_message_counters(&session.reply_counters);
        Self {
            session,
            running_test,
            exchange_counters,
            settings: MessageBlock::read(request).unwrap_or_default(),
            zero_ns: arrival_ns,
            host: None,
            responses: 0,
            has_statistics: false,
            last_request_ns: monotonic_ns(),
        }
    }

    pub(super) fn run(mut self, mut request: Vec<u8>) -> TestEnd {
        let data_bytes_before = self.session.data_bytes;
        for _ in 0..MAX_STARTS {
            let counters = Arc::new(Counters::default());
            self.running_test.add_counters(&counters);
            let mut phase = match self.new_phase(&counters) {
                Ok(phase) => phase,
                Err(reason) => {
                    self.session.answer(&mut request, Command::InUse);
                    return TestEnd::Failed(EndReason::Stopped, reason);
                }
            };
            // Answer only now, because packets may follow immediately.
            self.session.answer(&mut request, Command::Ok);
            (self.settings, request) = match self.serve(&mut phase, data_bytes_before) {
                RequestEffect::Restart(settings, request) => (settings, request),
                RequestEffect::End(end) => return end,
                RequestEffect::Continue => (self.settings, request),
            };
        }
        let reason = format!("the requester restarted the test {MAX_STARTS} times");
        TestEnd::Failed(EndReason::Stopped, reason)
    }

    /// Creates the receiver and the counters of the following packets. Omits the records if there
    /// is no memory for them.
    fn new_phase<'p>(&self, counters: &'p Counters) -> Result<Phase<'p>, String>
    where
        'a: 'p,
    {
        let (server, entry) = (self.session.server, self.session.entry);
        let max_bytes = server.settings.limits.record_bytes;
        let new_receiver = |recording, memory: &BufferMemory| {
            let settings = PacketReceiverSettings {
                format: DATAGRAM_FORMAT,
                max_bytes: MAX_READ_BYTES,
                batch_size: BATCH_SIZE,
                enables_stamps: server.settings.arrival_by_kernel || self.has_stamps(),
                recording,
                timeout: IDLE_CHECK_INTERVAL,
            };
            PacketReceiver::new(self.session.socket, &settings, counters, memory)
        };
        let (recording, mut record_bytes) = self.requested_recording(max_bytes);
        let memory = BufferMemory::from_budget(
            &server.memory,
            BudgetHolder::for_address(&entry.peer),
            max_bytes + EXTRA_MEMORY_BYTES,
        );
        let receiver = if record_bytes == 0 {
            new_receiver(
                Recording::None,
                &BufferMemory::new(EXTRA_MEMORY_BYTES, EXTRA_MEMORY_BYTES),
            )
        } else {
            new_receiver(recording, &memory).or_else(|error| {
                record_bytes = 0;
                let (peer, reason) = (&entry.peer, sys::describe(&error));
                (server.warn)(format_args!(
                    "udpmon: {peer}: no memory for records: {reason}"
                ));
                new_receiver(
                    Recording::None,
                    &BufferMemory::new(EXTRA_MEMORY_BYTES, EXTRA_MEMORY_BYTES),
                )
            })
        };
        let binning = Binning {
            low: self.settings.low,
            width: self.settings.width,
        };
        let interface = server.settings.interface.as_deref();
        Ok(Phase {
            counters,
            receiver: receiver.map_err(|error| sys::describe(&error))?,
            record_bytes,
            observer: ArrivalObserver::new(binning, self.has_stamps(), false),
            meter: HostMeter::start(interface, entry.peer.is_ipv6()),
        })
    }

    /// Returns the requested recording within the limits, and its memory in bytes. Only the value 1
    /// sets a flag, because a stock latency client sends arbitrary flags.
    fn requested_recording(&self, max_bytes: u64) -> (Recording, u32) {
        let is_lost_only = self.settings.lost_only == 1;
        let skip = self.settings.skip;
        let skip = if skip < 1 << 30 { skip.into() } else { 0 };
        let record_bytes = if is_lost_only {
            LostRecord::LEN
        } else {
            ArrivalRecord::LEN
        } as u64;
        let limit =
            (u64::from(self.settings.length) / record_bytes).min(max_bytes / (2 * record_bytes));
        let recording = if is_lost_only {
            Recording::Lost { skip, limit }
        } else {
            Recording::All { skip, limit }
        };
        (recording, (limit * record_bytes) as u32)
    }

    fn has_stamps(&self) -> bool {
        self.settings.stamps == 1
    }

    /// Receives packets and answers requests until the test ends or restarts.
    fn serve(&mut self, phase: &mut Phase<'_>, data_bytes_before: u64) -> RequestEffect {
        let mut request = Vec::with_capacity(MAX_READ_BYTES as usize);
        loop {
            let times = match phase
                .receiver
                .receive(&self.session.entry.stop, &mut phase.observer)
            {
                Ok(ReceiveEvent::NotOfFlow { datagram, times }) => {
                    request.clear();
                    request.extend_from_slice(datagram);
                    times
                }
                Ok(ReceiveEvent::Timeout) => match self.check_idle(phase) {
                    Some(end) => return RequestEffect::End(end),
                    None => continue,
                },
                Ok(ReceiveEvent::Stopped(reason)) => {
                    return RequestEffect::End(end_for_stop(reason));
                }
                Err(error) => {
                    let reason = sys::describe(&error);
                    return RequestEffect::End(TestEnd::Failed(EndReason::Stopped, reason));
                }
            };
            self.last_request_ns = monotonic_ns();
            self.session.entry.is_confirmed.store(true, Relaxed);
            self.session.entry.is_silent.store(false, Relaxed);
            self.session.count_received(&request);
            self.session.data_bytes = data_bytes_before + phase.counters.counts().received.0;
            match self.answer(phase, &mut request, times) {
                RequestEffect::Continue => {}
                effect => return effect,
            }
        }
    }

    /// Returns the end of the test if no datagram arrived before the timeout.
    fn check_idle(&self, phase: &Phase<'_>) -> Option<TestEnd> {
        let idle = self.session.server.settings.limits.idle;
        let last_packet_ns = phase
            .receiver
            .first_and_last_ns()
            .map(|(_, last_ns)| last_ns);
        let is_confirmed =
            last_packet_ns.is_some() || self.session.entry.is_confirmed.load(Relaxed);
        let timeout = if is_confirmed {
            idle
        } else {
            UNCONFIRMED_TIMEOUT.min(idle)
        };
        let last_ns = self.last_request_ns.max(last_packet_ns.unwrap_or(0));
        let silence = Duration::from_nanos(monotonic_ns().saturating_sub(last_ns));
        let is_silent = silence >= SILENCE_TIME;
        self.session.entry.is_silent.store(is_silent, Relaxed);
        (silence >= timeout).then(|| {
            let reason = format!("no datagram arrived for {} s", timeout.as_secs());
            TestEnd::Failed(EndReason::Timeout, reason)
        })
    }

    /// Answers one request. Ignores unknown requests, as stock does.
    fn answer(
        &mut self,
        phase: &Phase<'_>,
        request: &mut Vec<u8>,
        times: PacketTimes,
    ) -> RequestEffect {
        let Some(block) = MessageBlock::read(request) else {
            return RequestEffect::Continue;
        };
        let Some(command) = block.command() else {
            return RequestEffect::Continue;
        };
        if self.session.server.settings.common.verbose {
            let (peer, length) = (&self.session.entry.peer, request.len());
            (self.session.server.warn)(format_args!("udpmon: {peer}: {length} bytes {command}"));
        }
        match command {
            Command::ZeroStats => {
                return self.handle_zero_stats(phase, block, std::mem::take(request), times);
            }
            Command::Start => return RequestEffect::Restart(block, std::mem::take(request)),
            Command::TestEnd => {
                let request = std::mem::take(request);
                let is_complete = self.has_statistics || self.responses > 0;
                return RequestEffect::End(TestEnd::RequestedByPeer {
                    request,
                    is_complete,
                });
            }
            Command::Request => self.respond(request, block, times),
            Command::GetStats => self.send_statistics(phase, request),
            Command::GetHistogram if (0..LinearHistogram::COUNT as i32).contains(&block.low) => {
                self.send_part(phase, ResultObject::Histogram(block.low as u32), &block);
            }
            Command::GetCounters => self.send_part(phase, ResultObject::Counters, &block),
            Command::GetCpuLoad => self.send_part(phase, ResultObject::CpuLoad, &block),
            Command::GetNic => self.send_part(phase, ResultObject::Nic, &block),
            Command::GetRecords => self.send_stock_records(phase, &block),
            Command::Fetch => self.send_numbered_part(phase, request, &block),
            _ => {}
        }
        RequestEffect::Continue
    }

    /// Handles ZEROSTATS during a test: a repeated request, or the next test after a lost TESTEND.
    fn handle_zero_stats(
        &mut self,
        phase: &Phase<'_>,
        block: MessageBlock,
        request: Vec<u8>,
        times: PacketTimes,
    ) -> RequestEffect {
        let has_begun = self.responses > 0 || phase.receiver.first_and_last_ns().is_some();
        if has_begun {
            return RequestEffect::End(TestEnd::NextTest(request, times.arrival_ns));
        }
        self.zero_ns = times.arrival_ns;
        RequestEffect::Restart(block, request)
    }

    /// Sends a response of the requested length. Its time is the midpoint between the request's
    /// arrival and now.
    fn respond(&mut self, request: &mut Vec<u8>, block: MessageBlock, times: PacketTimes) {
        self.responses += 1;
        let received = request.len();
        let max_bytes = self.session.server.settings.limits.response_bytes;
        let length = block.length.min(max_bytes) as usize;
        let is_linerate = self.session.is_linerate;
        request.resize(length, 0);
        let middle_ns = times.arrival_ns + monotonic_ns().saturating_sub(times.arrival_ns) / 2;
        let since_ns = middle_ns.saturating_sub(self.zero_ns);
        let answer = MessageBlock {
            command: Command::Response as u32,
            version: VERSION,
            responded: (since_ns / 1_000) as i64,
            low: if is_linerate {
                (since_ns % 1_000) as i32
            } else {
                block.low
            },
            ..block
        };
        answer.write(request);
        // Only a test with records starts with clock exchanges. Without records, the requests are a
        // latency test.
        if self.settings.length != 0 {
            self.session.reply(request);
            return;
        }
        self.exchange_counters.count_received(received, 1);
        self.session.send(request, &self.exchange_counters);
        if self.responses == 1 {
            self.running_test.rename("requests");
        }
    }

    /// Sends the counts by stock's rule, and ends the measurement of the host's activity.
    fn send_statistics(&mut self, phase: &Phase<'_>, request: &mut [u8]) {
        // The request itself is a datagram.
        self.host = Some(phase.meter.since_start(true));
        self.has_statistics = true;
        let counts = phase.receiver.counts();
        let to_u32 = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let elapsed_ns = match phase.receiver.first_and_last_ns() {
            Some((first_ns, last_ns)) => last_ns.saturating_sub(first_ns),
            None => 0,
        };
        let received = phase.counters.counts().receive_calls;
        // A fast link delivers some datagrams within one unit. The requester divides by this time.
        let least = i64::from((2..=8).contains(&received));
        let reply = MessageBlock {
            received: to_u32(received),
            lost: to_u32(counts.highest_number_counts.skipped),
            bad_order: to_u32(counts.highest_number_counts.out_of_order),
            first_to_last: (elapsed_ns / 100).cast_signed().max(least),
            ..MessageBlock::with_command(Command::Ok)
        };
        let mut bytes = reply.encode();
        if let Some(extension) = LinerateExtension::find(request) {
            extension.write_into(&mut bytes);
            self.session.write_nonce(&mut bytes);
        }
        self.session.reply(&bytes);
    }

    /// Sends a part of an object without a header, as stock does.
    fn send_part(&mut self, phase: &Phase<'_>, object: ResultObject, block: &MessageBlock) {
        let length = block.length as usize;
        if length <= MAX_SLICE_BYTES {
            let encoded = self.encode_object(phase, object);
            self.session
                .reply(&padded_slice(&encoded, block.offset as usize, length));
        }
    }

    /// Sends a part of the records without a header. The offset is in words of 8 bytes.
    fn send_stock_records(&mut self, phase: &Phase<'_>, block: &MessageBlock) {
        let length = block.length as usize;
        if length > MAX_SLICE_BYTES {
            return;
        }
        let offset = block.offset as usize * 8;
        let (_, bytes) = match self.settings.lost_only {
            1 => self.encode_lost_records(phase, offset, length),
            _ => self.encode_records(phase, offset, length, 100),
        };
        self.session.reply(&padded_slice(&bytes, 0, length));
    }

    /// Sends a part of an object with a header, to a linerate requester.
    fn send_numbered_part(&mut self, phase: &Phase<'_>, request: &[u8], block: &MessageBlock) {
        let (Some(object), Some(extension)) = (
            ResultObject::from_number(block.low),
            LinerateExtension::find(request),
        ) else {
            return;
        };
        let max_bytes = (block.length.min(MAX_IMAGE_BYTES_PER_REQUEST) as usize)
            .saturating_sub(PartHeader::LEN);
        let offset = block.offset as usize;
        let (total, bytes) = match object {
            ResultObject::ExactRecords => self.encode_records(phase, offset, max_bytes, 1),
            ResultObject::LostRecords => self.encode_lost_records(phase, offset, max_bytes),
            object => {
                let encoded = self.encode_object(phase, object);
                let tail = encoded.get(offset..).unwrap_or_default();
                (encoded.len(), tail[..tail.len().min(max_bytes)].to_vec())
            }
        };
        let part = PartHeader::encode(extension.request, object, block.offset, total, &bytes);
        self.session.reply(&part);
    }

    /// Encodes a whole object, except for records.
    fn encode_object(&self, phase: &Phase<'_>, object: ResultObject) -> Vec<u8> {
        let host = self.host.as_ref();
        match object {
            ResultObject::Histogram(id) => phase.observer.histograms()[id as usize].encode(),
            ResultObject::Counters => {
                let counters = host.map(|host| host.counters.clone());
                CountersObject::encode(&counters.unwrap_or_else(HostCounters::unavailable))
            }
            ResultObject::Nic => host
                .map(|host| host.nic)
                .unwrap_or_default()
                .encode()
                .to_vec(),
            ResultObject::CpuLoad => CpuLoad::encode_all(host.map_or(&[], |host| &host.cpus)),
            ResultObject::Details => self.details(phase).encode().to_vec(),
            ResultObject::ExactRecords | ResultObject::LostRecords => Vec::new(),
        }
    }

    /// Returns the length of all packet records in bytes, and a part of their bytes. Arrival times
    /// are in units of `unit_ns`.
    fn encode_records(
        &self,
        phase: &Phase<'_>,
        offset: usize,
        length: usize,
        unit_ns: i64,
    ) -> (usize, Vec<u8>) {
        let packets = phase.receiver.records().packets();
        encode_slice::<_, { ArrivalRecord::LEN }>(packets, offset, length, |packet, bytes| {
            packet_record(packet, self.zero_ns, unit_ns, self.has_stamps()).write(bytes);
        })
    }

    /// Returns the length of all records of skipped numbers in bytes, and a part of their bytes.
    fn encode_lost_records(
        &self,
        phase: &Phase<'_>,
        offset: usize,
        length: usize,
    ) -> (usize, Vec<u8>) {
        let lost = phase.receiver.records().lost();
        encode_slice::<_, { LostRecord::LEN }>(lost, offset, length, |lost, bytes| {
            lost_record(lost, self.zero_ns).write(bytes);
        })
    }

    /// Returns a time relative to the responder's time zero, in ns.
    fn since_zero_ns(&self, time_ns: u64) -> i64 {
        time_ns.wrapping_sub(self.zero_ns) as i64
    }

    fn details(&self, phase: &Phase<'_>) -> ResponderDetails {
        let receiver = &phase.receiver;
        let (counts, traffic, gaps) = (receiver.counts(), phase.counters.counts(), receiver.gaps());
        let (first_ns, last_ns) = receiver
            .first_and_last_ns()
            .unwrap_or((self.zero_ns, self.zero_ns));
        let stamp_counts = receiver.stamp_counts();
        ResponderDetails {
            received: counts.received,
            lost: counts.lost,
            late: counts.reordered,
            repeated: counts.duplicated,
            end: counts.highest_number_counts.highest,
            bytes: traffic.received.0,
            socket_drops: (receiver.socket_drops()).unwrap_or(ResponderDetails::UNKNOWN_DROPS),
            first_ns: self.since_zero_ns(first_ns) as u64,
            last_ns: self.since_zero_ns(last_ns) as u64,
            clock: u32::from(stamp_counts.kernel > stamp_counts.program),
            record_bytes: phase.record_bytes,
            gaps: gaps.len(),
            gap_sum_ns: gaps.total().as_nanos() as u64,
            gap_percentiles_ns: ResponderDetails::PERCENTILES.map(|percent| {
                let gap = gaps.percentile(percent).unwrap_or_default();
                gap.as_nanos() as u64
            }),
            overlapping_tests: self.running_test.overlapping_tests(),
            clock_step_us: (receiver.clock_step_ns() / 1_000)
                .clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            invalid: phase.observer.invalid,
            unstamped: stamp_counts.program,
        }
    }
}

/// Returns the end of a test for a stop with this reason.
fn end_for_stop(reason: StopReason) -> TestEnd {
    let (reason, description) = match reason {
        StopReason::PeerClosed => (
            EndReason::Replaced,
            "another test from the same host started",
        ),
        _ => (EndReason::Stopped, "the server was stopped"),
    };
    TestEnd::Failed(reason, description.to_owned())
}

/// Returns the length of the encoded records in bytes, and a part of these bytes. Encodes only the
/// records of the part.
fn encode_slice<T, const LEN: usize>(
    records: &[T],
    offset: usize,
    length: usize,
    write: impl Fn(&T, &mut [u8]),
) -> (usize, Vec<u8>) {
    let (first, end) = (offset / LEN, (offset + length).div_ceil(LEN));
    let records_of_part = records
        .get(first..end.min(records.len()))
        .unwrap_or_default();
    let mut bytes = vec![0; records_of_part.len() * LEN];
    for (record, slot) in records_of_part.iter().zip(bytes.chunks_exact_mut(LEN)) {
        write(record, slot);
    }
    bytes.drain(..(offset - first * LEN).min(bytes.len()));
    bytes.truncate(length);
    (records.len() * LEN, bytes)
}
