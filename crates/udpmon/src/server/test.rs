//! One test, from the request that starts it to the request that ends it, including all requests in between.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{
    Arrived, Counters, Holder, Memory, PacketReceiver, PacketReceiverSettings, PacketTimes, Reason,
    Recording,
};
use server::Running;
use sys::clock::monotonic_ns;

use super::session::Session;
use super::tally::{Tally, lost_record, packet_record};
use crate::host::HostMeter;
use crate::options::FORMAT;
use crate::result::HostUse;
use crate::wire::{
    Binning, Block, Capability, Command, CounterImage, CpuLoad, Details, EndReason, Histogram,
    LostRecord, Object, PacketRecord, Part, SLICE, VERSION, slice,
};

/// The interval at which a session checks whether its requester has gone.
const LOOK: Duration = Duration::from_secs(1);

/// The lifetime of a session without any datagram after the request that started the test. A requester repeats a
/// request after 3 s.
const UNCONFIRMED: Duration = Duration::from_secs(4);

/// The maximum number of bytes read of a datagram, and the datagrams per receive call.
const LONGEST: u32 = 2048;
const WIDTH: u32 = 32;

/// Memory in addition to the records: the batch, and the records of repeated packets.
const BESIDE: u64 = 1 << 20;

/// The maximum number of image bytes in one reply.
const MOST_SLICE: usize = 9_000;

/// The maximum number of times that a test may clear its counts. A requester clears them twice.
const MOST_STARTS: u32 = 64;

/// The end of a test.
pub(super) enum TestEnd {
    /// The requester ended it by this request. The answer follows when the place is free.
    Asked {
        /// The request.
        request: Vec<u8>,
        /// Whether the requester received the requested data.
        is_complete: bool,
    },
    /// The requester started the next test with this request.
    Next(Vec<u8>, u64),
    /// The responder ended it.
    Failed(EndReason, String),
}

/// The effect of one request on a test.
enum Next {
    Go,
    /// Clear the counts, start again, and accept this request.
    Again(Block, Vec<u8>),
    End(TestEnd),
}

pub(super) struct Test<'s, 'a> {
    session: &'s mut Session<'a>,
    running: &'s Running,
    settings: Block,
    /// The responder's time zero, by the monotonic clock.
    zero_ns: u64,
    /// The activity of the host until the request for the statistics.
    host: Option<HostUse>,
    responses: u64,
    /// Bytes of requests and responses.
    exchanged: Arc<Counters>,
    has_statistics: bool,
    last_ns: u64,
}

/// The counts from one START to the next.
struct Phase<'p> {
    counters: &'p Counters,
    receiver: PacketReceiver<'p>,
    /// The memory for records.
    record_bytes: u32,
    tally: Tally,
    meter: HostMeter,
}

impl<'s, 'a> Test<'s, 'a> {
    /// Creates the test that this request asks for.
    pub(super) fn new(
        session: &'s mut Session<'a>,
        request: &[u8],
        came_ns: u64,
        running: &'s Running,
    ) -> Self {
        let exchanged = Arc::new(Counters::default());
        running.count(&exchanged);
        Self {
            session,
            running,
            exchanged,
            settings: Block::read(request).unwrap_or_default(),
            zero_ns: came_ns,
            host: None,
            responses: 0,
            has_statistics: false,
            last_ns: monotonic_ns(),
        }
    }

    pub(super) fn run(mut self, mut request: Vec<u8>) -> TestEnd {
        let data_before = self.session.data;
        for _ in 0..MOST_STARTS {
            let counters = Arc::new(Counters::default());
            self.running.count(&counters);
            let mut phase = match self.phase(&counters) {
                Ok(phase) => phase,
                Err(why) => {
                    self.session.answer(&mut request, Command::InUse);
                    return TestEnd::Failed(EndReason::Stopped, why);
                }
            };
            // Answer only now, because packets may follow at once.
            self.session.answer(&mut request, Command::Ok);
            (self.settings, request) = match self.serve(&mut phase, data_before) {
                Next::Again(settings, request) => (settings, request),
                Next::End(end) => return end,
                Next::Go => (self.settings, request),
            };
        }
        let why = format!("it was begun {MOST_STARTS} times");
        TestEnd::Failed(EndReason::Stopped, why)
    }

    /// Creates the counter of the following packets. Omits records for which no memory is left.
    fn phase<'p>(&self, counters: &'p Counters) -> Result<Phase<'p>, String>
    where
        'a: 'p,
    {
        let (server, entry) = (self.session.server, self.session.entry);
        let most_bytes = server.settings.limits.record_bytes;
        let receiver = |recording, memory: &Memory| {
            let settings = PacketReceiverSettings {
                format: FORMAT,
                longest: LONGEST,
                width: WIDTH,
                stamps: server.settings.arrival_by_kernel || self.keeps_stamps(),
                recording,
                silence: LOOK,
            };
            PacketReceiver::new(self.session.socket, &settings, counters, memory)
        };
        let (recording, mut record_bytes) = self.recording(most_bytes);
        let memory = Memory::within(&server.memory, Holder::of(&entry.peer), most_bytes + BESIDE);
        let receiver = if record_bytes == 0 {
            receiver(Recording::None, &Memory::new(BESIDE, BESIDE))
        } else {
            receiver(recording, &memory).or_else(|error| {
                record_bytes = 0;
                let (peer, why) = (&entry.peer, sys::describe(&error));
                (server.warn)(format_args!("udpmon: {peer}: no memory for records: {why}"));
                receiver(Recording::None, &Memory::new(BESIDE, BESIDE))
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
            tally: Tally::new(binning, self.keeps_stamps(), false),
            meter: HostMeter::start(interface, entry.peer.is_ipv6()),
        })
    }

    /// Returns the requested records, within the limits, and their bytes. A stock latency client sends random flags.
    fn recording(&self, most_bytes: u64) -> (Recording, u32) {
        let is_lost_only = self.settings.lost_only == 1;
        let skip = self.settings.skip;
        let skip = if skip < 1 << 30 { skip.into() } else { 0 };
        let record = if is_lost_only {
            LostRecord::LEN
        } else {
            PacketRecord::LEN
        } as u64;
        let limit = (u64::from(self.settings.length) / record).min(most_bytes / (2 * record));
        let recording = if is_lost_only {
            Recording::Lost { skip, limit }
        } else {
            Recording::All { skip, limit }
        };
        (recording, (limit * record) as u32)
    }

    fn keeps_stamps(&self) -> bool {
        self.settings.stamps == 1
    }

    /// Receives packets and answers requests.
    fn serve(&mut self, phase: &mut Phase<'_>, data_before: u64) -> Next {
        let mut request = Vec::with_capacity(LONGEST as usize);
        loop {
            let times = match phase
                .receiver
                .receive(&self.session.entry.stop, &mut phase.tally)
            {
                Ok(Arrived::Other { datagram, times }) => {
                    request.clear();
                    request.extend_from_slice(datagram);
                    times
                }
                Ok(Arrived::Silence) => match self.silence(phase) {
                    Some(end) => return Next::End(end),
                    None => continue,
                },
                Ok(Arrived::Stopped(reason)) => return Next::End(stopped(reason)),
                Err(error) => {
                    let why = sys::describe(&error);
                    return Next::End(TestEnd::Failed(EndReason::Stopped, why));
                }
            };
            self.last_ns = monotonic_ns();
            self.session.entry.is_confirmed.store(true, Relaxed);
            self.session.count_received(&request);
            self.session.data = data_before + phase.counters.counts().received.0;
            match self.answer(phase, &mut request, times) {
                Next::Go => {}
                next => return next,
            }
        }
    }

    /// Ends a test whose requester has gone.
    fn silence(&self, phase: &Phase<'_>) -> Option<TestEnd> {
        let idle = self.session.server.settings.limits.idle;
        let last_packet_ns = phase
            .receiver
            .first_and_last_ns()
            .map(|(_, last_ns)| last_ns);
        let is_confirmed =
            last_packet_ns.is_some() || self.session.entry.is_confirmed.load(Relaxed);
        let most = if is_confirmed {
            idle
        } else {
            UNCONFIRMED.min(idle)
        };
        let last_ns = self.last_ns.max(last_packet_ns.unwrap_or(0));
        let is_over = Duration::from_nanos(monotonic_ns().saturating_sub(last_ns)) >= most;
        is_over.then(|| {
            let why = format!("nothing came for {} s", most.as_secs());
            TestEnd::Failed(EndReason::Silence, why)
        })
    }

    /// Answers one request. Drops unknown ones, as stock does.
    fn answer(&mut self, phase: &Phase<'_>, request: &mut Vec<u8>, times: PacketTimes) -> Next {
        let Some(block) = Block::read(request) else {
            return Next::Go;
        };
        let Some(command) = block.command() else {
            return Next::Go;
        };
        if self.session.server.settings.common.verbose {
            let (peer, length) = (&self.session.entry.peer, request.len());
            (self.session.server.warn)(format_args!("udpmon: {peer}: {length} bytes {command:?}"));
        }
        match command {
            Command::ZeroStats => {
                return self.begin_again(phase, block, std::mem::take(request), times);
            }
            Command::Start => return Next::Again(block, std::mem::take(request)),
            Command::TestEnd => {
                let request = std::mem::take(request);
                let is_complete = self.has_statistics || self.responses > 0;
                return Next::End(TestEnd::Asked {
                    request,
                    is_complete,
                });
            }
            Command::Request => self.respond(request, block, times),
            Command::GetStats => self.statistics(phase, request),
            Command::GetHistogram if (0..Histogram::COUNT as i32).contains(&block.low) => {
                self.part(phase, Object::Histogram(block.low as u32), &block);
            }
            Command::GetCounters => self.part(phase, Object::Counters, &block),
            Command::GetCpuLoad => self.part(phase, Object::CpuLoad, &block),
            Command::GetNic => self.part(phase, Object::Nic, &block),
            Command::GetRecords => self.stock_records(phase, &block),
            Command::Fetch => self.fetched(phase, request, &block),
            _ => {}
        }
        Next::Go
    }

    /// Handles a repeated request, or the next test of a requester after a lost TESTEND.
    fn begin_again(
        &mut self,
        phase: &Phase<'_>,
        block: Block,
        request: Vec<u8>,
        times: PacketTimes,
    ) -> Next {
        let has_begun = self.responses > 0 || phase.receiver.first_and_last_ns().is_some();
        if has_begun {
            return Next::End(TestEnd::Next(request, times.came_ns));
        }
        self.zero_ns = times.came_ns;
        Next::Again(block, request)
    }

    /// Answers with the midpoint between the request's arrival and now, in the requested length.
    fn respond(&mut self, request: &mut Vec<u8>, block: Block, times: PacketTimes) {
        self.responses += 1;
        let received = request.len();
        let most = self.session.server.settings.limits.response_bytes;
        let length = block.length.min(most) as usize;
        let is_ours = self.session.is_ours;
        request.resize(length, 0);
        let middle_ns = times.came_ns + monotonic_ns().saturating_sub(times.came_ns) / 2;
        let since_ns = middle_ns.saturating_sub(self.zero_ns);
        let answer = Block {
            command: Command::Response as u32,
            version: VERSION,
            responded: (since_ns / 1_000) as i64,
            low: if is_ours {
                (since_ns % 1_000) as i32
            } else {
                block.low
            },
            ..block
        };
        answer.write(request);
        self.session.reply(request);
        // A test without records does not start with exchanges that fit the clocks.
        if self.settings.length == 0 {
            self.exchanged.count_received(received, 1);
            self.exchanged.count_sent(length, 1);
            if self.responses == 1 {
                self.running.rename("requests");
            }
        }
    }

    /// Sends the counts by stock's rule, and closes the counters of the host.
    fn statistics(&mut self, phase: &Phase<'_>, request: &mut [u8]) {
        self.host = Some(phase.meter.since_start());
        self.has_statistics = true;
        let counts = phase.receiver.counts();
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let elapsed_ns = match phase.receiver.first_and_last_ns() {
            Some((first_ns, last_ns)) => last_ns.saturating_sub(first_ns),
            None => 0,
        };
        let reply = Block {
            received: count(phase.counters.counts().receive_calls),
            lost: count(counts.by_order.passed_over),
            bad_order: count(counts.by_order.out_of_order),
            first_to_last: (elapsed_ns / 100) as i64,
            ..Block::request(Command::Ok)
        };
        let mut bytes = reply.encode();
        if let Some(ours) = Capability::find(request) {
            ours.put(&mut bytes);
            self.session.sign(&mut bytes);
        }
        self.session.reply(&bytes);
    }

    /// Sends a part of an image without a header, as stock does.
    fn part(&mut self, phase: &Phase<'_>, object: Object, block: &Block) {
        let length = block.length as usize;
        if length <= MOST_SLICE {
            let image = self.image(phase, object);
            self.session
                .reply(&slice(&image, block.offset as usize, length));
        }
    }

    /// Sends a part of the records. The offset is in words.
    fn stock_records(&mut self, phase: &Phase<'_>, block: &Block) {
        let length = block.length as usize;
        if length > MOST_SLICE {
            return;
        }
        let offset = block.offset as usize * 8;
        let (_, bytes) = match self.settings.lost_only {
            1 => self.lost(phase, offset, length),
            _ => self.records(phase, offset, length, 100),
        };
        self.session.reply(&slice(&bytes, 0, length));
    }

    /// Sends a numbered part of an object.
    fn fetched(&mut self, phase: &Phase<'_>, request: &[u8], block: &Block) {
        let (Some(object), Some(ours)) = (Object::of_number(block.low), Capability::find(request))
        else {
            return;
        };
        let most = (block.length.min(SLICE) as usize).saturating_sub(Part::LEN);
        let offset = block.offset as usize;
        let (total, bytes) = match object {
            Object::ExactRecords => self.records(phase, offset, most, 1),
            Object::LostRecords => self.lost(phase, offset, most),
            other => {
                let image = self.image(phase, other);
                let rest = image.get(offset..).unwrap_or_default();
                (image.len(), rest[..rest.len().min(most)].to_vec())
            }
        };
        let part = Part::encode(ours.request, object, block.offset, total, &bytes);
        self.session.reply(&part);
    }

    fn image(&self, phase: &Phase<'_>, object: Object) -> Vec<u8> {
        let host = self.host.as_ref();
        match object {
            Object::Histogram(id) => phase.tally.histograms()[id as usize].encode(),
            Object::Counters => {
                CounterImage::encode(&host.map(|host| host.counters.clone()).unwrap_or_default())
            }
            Object::Nic => host
                .map(|host| host.nic)
                .unwrap_or_default()
                .encode()
                .to_vec(),
            Object::CpuLoad => CpuLoad::encode_all(host.map_or(&[], |host| &host.cpus)),
            Object::Details => self.details(phase).encode().to_vec(),
            Object::ExactRecords | Object::LostRecords => Vec::new(),
        }
    }

    /// Returns the length of all packet records, and a part of their bytes. Arrival times are in units of `unit_ns`.
    fn records(
        &self,
        phase: &Phase<'_>,
        offset: usize,
        length: usize,
        unit_ns: i64,
    ) -> (usize, Vec<u8>) {
        let packets = phase.receiver.records().packets();
        cut::<_, { PacketRecord::LEN }>(packets, offset, length, |packet, place| {
            packet_record(packet, self.zero_ns, unit_ns, self.keeps_stamps()).write(place);
        })
    }

    /// Returns the same for the skipped numbers.
    fn lost(&self, phase: &Phase<'_>, offset: usize, length: usize) -> (usize, Vec<u8>) {
        let lost = phase.receiver.records().lost();
        cut::<_, { LostRecord::LEN }>(lost, offset, length, |lost, place| {
            lost_record(lost, self.zero_ns).write(place);
        })
    }

    fn since_zero_ns(&self, at_ns: u64) -> i64 {
        at_ns.wrapping_sub(self.zero_ns) as i64
    }

    fn details(&self, phase: &Phase<'_>) -> Details {
        let receiver = &phase.receiver;
        let (counts, moved, gaps) = (receiver.counts(), phase.counters.counts(), receiver.gaps());
        let (first_ns, last_ns) = receiver
            .first_and_last_ns()
            .unwrap_or((self.zero_ns, self.zero_ns));
        let stamped = receiver.stamped();
        Details {
            received: counts.received,
            lost: counts.lost,
            late: counts.reordered,
            repeated: counts.duplicated,
            end: counts.by_order.highest,
            bytes: moved.received.0,
            socket_drops: receiver.socket_drops().unwrap_or(0),
            first_ns: self.since_zero_ns(first_ns) as u64,
            last_ns: self.since_zero_ns(last_ns) as u64,
            clock: u32::from(stamped.kernel > stamped.user),
            record_bytes: phase.record_bytes,
            gaps: gaps.len(),
            gap_sum_ns: gaps.total().as_nanos() as u64,
            gap_points_ns: Details::PERCENTILES.map(|percent| {
                let point = gaps.percentile(percent).unwrap_or_default();
                point.as_nanos() as u64
            }),
            others: self.running.others(),
            clock_step_us: (receiver.clock_step_ns() / 1_000)
                .clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            strange: phase.tally.strange,
            unstamped: stamped.user,
        }
    }
}

fn stopped(reason: Reason) -> TestEnd {
    let (reason, why) = match reason {
        Reason::PeerClosed => (EndReason::Replaced, "another test began from the same host"),
        _ => (EndReason::Stopped, "the server was stopped"),
    };
    TestEnd::Failed(reason, why.to_owned())
}

/// Returns the length of an image of records, and a part of its bytes. Encodes only the records of the part.
fn cut<T, const LEN: usize>(
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
    for (record, place) in records_of_part.iter().zip(bytes.chunks_exact_mut(LEN)) {
        write(record, place);
    }
    bytes.drain(..(offset - first * LEN).min(bytes.len()));
    bytes.truncate(length);
    (records.len() * LEN, bytes)
}
