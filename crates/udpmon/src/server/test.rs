//! One test: from the request that begins it to the one that ends it, with every request between its packets.

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

/// How often a session looks whether its requester has gone.
const LOOK: Duration = Duration::from_secs(1);

/// How long a session lasts that nothing came for after the request that began it. A requester repeats a request after 3 s.
const UNCONFIRMED: Duration = Duration::from_secs(4);

/// The longest datagram that is read whole, and how many are received per call.
const LONGEST: u32 = 2048;
const WIDTH: u32 = 32;

/// Memory beside the records: the batch, and the records of repeated packets.
const BESIDE: u64 = 1 << 20;

/// The most bytes of an image in one reply.
const MOST_SLICE: usize = 9_000;

/// How often a test may clear its counts. A requester does so twice.
const MOST_STARTS: u32 = 64;

/// How a test ended.
pub(super) enum TestEnd {
    /// The requester ended it by this request, which is to be answered when its place is free.
    Asked {
        /// The request.
        request: Vec<u8>,
        /// The requester had what it wanted.
        is_complete: bool,
    },
    /// The requester began the next one, with this request.
    Next(Vec<u8>, u64),
    /// This end ended it.
    Failed(EndReason, String),
}

/// What one request makes of a test.
enum Next {
    Go,
    /// Clear the counts, begin again, and agree to this request.
    Again(Block, Vec<u8>),
    End(TestEnd),
}

pub(super) struct Test<'s, 'a> {
    session: &'s mut Session<'a>,
    running: &'s Running,
    settings: Block,
    /// The responder's time zero, by the monotonic clock.
    zero_ns: u64,
    /// What the host did until the statistics were asked for.
    host: Option<HostUse>,
    responses: u64,
    /// Bytes of requests and responses.
    exchanged: Arc<Counters>,
    has_statistics: bool,
    last_ns: u64,
}

/// What is counted from one START to the next.
struct Phase<'p> {
    counters: &'p Counters,
    receiver: PacketReceiver<'p>,
    /// The room for records.
    record_bytes: u32,
    tally: Tally,
    meter: HostMeter,
}

impl<'s, 'a> Test<'s, 'a> {
    /// A test that this request asks for.
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
            // Only now, as packets may follow at once.
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

    /// What counts packets from now on. Records that there is no memory for are left out.
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

    /// The records that a requester asked for, as far as they may be kept, and their bytes. A stock latency client has noise
    /// in the flags.
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

    /// Answers one request. Unknown ones are dropped, as by stock.
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

    /// A repeated request, or the next test of a requester whose TESTEND was lost.
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

    /// Answers with the time of the middle between the request's arrival and now, in the length that was asked for.
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
        // A test without records is not preceded by exchanges that fit the clocks.
        if self.settings.length == 0 {
            self.exchanged.count_received(received, 1);
            self.exchanged.count_sent(length, 1);
            if self.responses == 1 {
                self.running.rename("requests");
            }
        }
    }

    /// Tells the counts by stock's rule, and closes the counters of the host.
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

    /// Sends a part of the records, whose offset counts words.
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

    /// The length of all records of packets, and the bytes of some; arrival times in units of so many ns.
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

    /// The same of the numbers that were passed over.
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

/// The length of an image of records, and the bytes of a part of it: only the records of the part are written.
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
