//! A responder that answers as the stock one does, mistakes included: by the text of the specification, and held
//! against the recordings in `played`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::block::{self, at, command, long, put_long, put_word, word};

/// How long the lock outlives the last request that took it.
const LOCK: Duration = Duration::from_secs(60);

/// Bytes of its buffers.
const BUFFER: usize = 128_000;

/// The most that the scripted one keeps of what a requester asks it to keep.
const MOST_RECORDS: usize = 1 << 24;

/// Bins of the histograms, and their titles.
const BOOKED: [(u32, &str); 5] = [
    (150, "Time between frames 0.1us"),
    (10, "Lost-frame sequence"),
    (10, "Out-of-order"),
    (150, "hwsystem Time between frames ns"),
    (150, "hwraw Time between frames ns"),
];

/// A scripted responder on a free port of loopback, as long as this lives.
pub(crate) struct Responder {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    pub(crate) fn start() -> Self {
        Self::with(Stock::new())
    }

    /// One with objects of its own, such as recorded ones.
    pub(crate) fn with(mut stock: Stock) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        let limit = Some(Duration::from_millis(20));
        socket.set_read_timeout(limit).expect("not zero");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (is_over, log) = (Arc::clone(&ended), Arc::clone(&seen));
        let serve = move || {
            let mut buffer = vec![0; 1 << 16];
            while !is_over.load(Relaxed) {
                let Ok((count, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let now = Instant::now();
                let mut log = log.lock().expect("nothing panics with it");
                log.push(buffer[..count].to_vec());
                if let Some(reply) = stock.take(&buffer[..count], from, now) {
                    // The kernel refuses what is too large for UDP.
                    let _ = socket.send_to(&reply, from);
                }
            }
        };
        Self {
            port,
            seen,
            ended,
            thread: Some(std::thread::spawn(serve)),
        }
    }

    /// All that has come so far.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().expect("nothing panics with it").clone()
    }

    /// The commands that have come so far, data left out.
    pub(crate) fn commands(&self) -> Vec<u32> {
        let seen = self.seen();
        let commands = seen.iter().map(|bytes| command(bytes));
        commands.filter(|command| *command != block::DATA).collect()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the stock responder keeps between two datagrams.
pub(crate) struct Stock {
    /// Whose test it is, and since when.
    holder: Option<(IpAddr, Instant)>,
    zero: Instant,
    /// Requests are received into it, and slices of histograms are cut from it.
    buffer: Vec<u8>,
    last_reply: usize,
    received: u32,
    lost: u32,
    bad_order: u32,
    /// The highest number so far.
    newest: i64,
    /// Arrivals of data, 0.1 µs since `zero`.
    first: i64,
    last: i64,
    histograms: [Vec<u8>; 5],
    /// Records, in 8-byte words.
    records: Vec<i64>,
    /// Where the next one goes.
    next_record: usize,
    log_lost: bool,
    skip: i64,
    /// Time and send time of the newest packet in order.
    before: (i64, i64),
    pub(crate) counters: Vec<u8>,
    pub(crate) cpu: Vec<u8>,
    pub(crate) nic: Vec<u8>,
    /// What answers GETSTATS in the place of the counts.
    pub(crate) statistics: Option<Vec<u8>>,
    /// What answers for histograms, by their numbers.
    pub(crate) images: Vec<Vec<u8>>,
    /// What answers for records.
    pub(crate) memory: Option<Vec<u8>>,
}

impl Stock {
    pub(crate) fn new() -> Self {
        let mut counters = vec![0; block::COUNTERS_LEN];
        put_word(&mut counters, block::COUNTERS_LEN - 4, 1);
        let mut cpu = vec![0; block::CPU_LEN];
        put_word(&mut cpu, 88, 3);
        Self {
            holder: None,
            zero: Instant::now(),
            buffer: vec![0xa5; BUFFER],
            last_reply: block::LEN,
            received: 0,
            lost: 0,
            bad_order: 0,
            newest: -1,
            first: 0,
            last: 0,
            histograms: BOOKED.map(|_| vec![0; block::HISTOGRAM_LEN]),
            records: Vec::new(),
            next_record: 0,
            log_lost: false,
            skip: 0,
            before: (0, 0),
            counters,
            cpu,
            nic: vec![0; block::NIC_LEN],
            statistics: None,
            images: Vec::new(),
            memory: None,
        }
    }

    /// Takes a datagram; the reply, if there is one.
    pub(crate) fn take(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
    ) -> Option<Vec<u8>> {
        // What is shorter than the fields leaves those of an earlier datagram.
        let length = datagram.len().min(BUFFER);
        self.buffer[..length].copy_from_slice(&datagram[..length]);
        let request = self.buffer[..block::LEN].to_vec();
        let index = word(&request, at::INDEX) as usize;
        let wanted = word(&request, at::RESPONSE_LEN) as usize;
        let reply = match command(&request) {
            block::ZEROSTATS => self.zero_statistics(&request, from.ip(), now),
            block::START => {
                self.clear(&request, from.ip(), now);
                answer(&request, block::OK, block::LEN)
            }
            block::DATA => {
                let time = tenths(now - self.zero);
                self.count(
                    long(&request, at::NUMBER),
                    long(&request, at::SEND_TIME),
                    time,
                );
                return None;
            }
            block::GETSTATS => self.statistics(),
            block::REQ_RESP => {
                let mut reply = answer(&self.buffer, block::RESPONSE, self.buffer.len());
                let time = (now - self.zero).as_micros() as i64;
                put_long(&mut reply, at::RESPONSE_TIME, time);
                reply.truncate(wanted);
                reply
            }
            block::GETHIST0 => {
                let number = word(&request, at::LOW) as usize;
                if index == 0 {
                    let image = self.images.get(number);
                    let image = image.or(self.histograms.get(number))?;
                    self.buffer[..block::HISTOGRAM_LEN].copy_from_slice(image);
                }
                slice(&self.buffer, index, wanted)
            }
            block::GETNETSNMP => slice(&self.counters, index, wanted),
            block::GETCPULOAD => slice(&self.cpu, index, wanted),
            block::GETNICSTATS => slice(&self.nic, index, wanted),
            block::GETINFO1 => {
                let memory = self.memory();
                slice(&memory, index * 8, wanted)
            }
            block::TESTEND => {
                self.holder = None;
                answer(&request, block::OK, self.last_reply.min(block::LEN))
            }
            _ => return None,
        };
        self.last_reply = reply.len();
        Some(reply)
    }

    /// The lock's comparison is the wrong way round.
    fn zero_statistics(&mut self, request: &[u8], from: IpAddr, now: Instant) -> Vec<u8> {
        let holds = |(holder, since): (IpAddr, Instant)| holder == from && now - since < LOCK;
        if self.holder.is_some_and(holds) {
            return answer(request, block::INUSE, block::LEN);
        }
        self.zero = now;
        self.clear(request, from, now);
        answer(request, block::OK, block::LEN)
    }

    fn clear(&mut self, request: &[u8], from: IpAddr, now: Instant) {
        self.holder = Some((from, now));
        (self.received, self.lost, self.bad_order) = (0, 0, 0);
        self.newest = -1;
        let (low, width) = (word(request, at::LOW), word(request, at::WIDTH));
        for (number, image) in self.histograms.iter_mut().enumerate() {
            let (bins, title) = BOOKED[number];
            let (low, width) = match number {
                0 => (low, width),
                1 | 2 => (0, 1),
                _ => (low.wrapping_mul(250), width.wrapping_mul(250)),
            };
            image.fill(0);
            for (at, value) in [(0, number as u32), (4, low), (8, width), (12, bins)] {
                put_word(image, at, value);
            }
            image[8032..8032 + title.len()].copy_from_slice(title.as_bytes());
        }
        let bytes = (word(request, at::RESPONSE_LEN) as usize).min(MOST_RECORDS);
        self.records = vec![0; bytes / 8];
        self.next_record = 0;
        self.log_lost = word(request, at::LOG_LOST) > 0;
        self.skip = word(request, at::SKIP).into();
        self.before = (0, 0);
    }

    /// A packet of data by its fields, and when it came.
    pub(crate) fn count(&mut self, number: i64, sent: i64, time: i64) {
        let between = time - self.last;
        if self.received == 0 {
            self.first = time;
        }
        self.last = time;
        self.received += 1;
        fill(&mut self.histograms[0], between);
        let ahead = number - self.newest;
        if ahead > 1 {
            self.lost += (ahead - 1) as u32;
            fill(&mut self.histograms[1], ahead - 1);
        } else if ahead < 1 {
            self.bad_order += 1;
            fill(&mut self.histograms[2], -ahead);
        }
        if self.log_lost {
            self.record_losses(number);
        } else if number >= self.skip {
            self.record(ahead, sent, time);
        }
        if ahead > 0 {
            self.newest = number;
            self.before = (time, sent);
        }
    }

    /// A late packet's record goes to its own slot, but the stamps' words and the place of the next record move on.
    fn record(&mut self, ahead: i64, sent: i64, time: i64) {
        if ahead < 1 {
            let back = 4 * (1 - ahead) as usize;
            if let Some(slot) = self.next_record.checked_sub(back) {
                self.write(slot, &[time, sent]);
            }
            self.next_record += 2;
            return;
        }
        self.next_record += 4 * (ahead - 1) as usize;
        self.write(self.next_record, &[time, sent, 0, 0]);
        self.next_record += 4;
    }

    fn record_losses(&mut self, number: i64) {
        for missing in self.newest + 1..number {
            self.write(self.next_record, &[self.before.0, self.before.1, missing]);
            self.next_record += 3;
        }
    }

    fn write(&mut self, at: usize, words: &[i64]) {
        if let Some(place) = self.records.get_mut(at..at + words.len()) {
            place.copy_from_slice(words);
        }
    }

    /// The command and all that is not counts is left from other uses of the buffer.
    fn statistics(&self) -> Vec<u8> {
        if let Some(reply) = &self.statistics {
            return reply.clone();
        }
        let mut reply = vec![0x29; block::LEN];
        put_word(&mut reply, at::RECEIVED, self.received);
        put_word(&mut reply, at::LOST, self.lost);
        put_word(&mut reply, at::BAD_ORDER, self.bad_order);
        put_long(&mut reply, at::FIRST_TO_LAST, self.last - self.first);
        reply
    }

    /// The record memory.
    pub(crate) fn memory(&self) -> Vec<u8> {
        let written = || self.records.iter().flat_map(|word| word.to_le_bytes());
        self.memory.clone().unwrap_or_else(|| written().collect())
    }

    /// A histogram's image.
    pub(crate) fn histogram(&self, number: usize) -> &[u8] {
        &self.histograms[number]
    }
}

/// 0.1 µs.
fn tenths(time: Duration) -> i64 {
    (time.as_nanos() / 100) as i64
}

/// The request with a reply's command and version.
fn answer(request: &[u8], command: u32, length: usize) -> Vec<u8> {
    let mut reply = request[..length].to_vec();
    put_word(&mut reply, at::COMMAND, command);
    put_word(&mut reply, at::VERSION, 7);
    reply
}

/// Stock reads what is behind an object, too.
fn slice(object: &[u8], at: usize, length: usize) -> Vec<u8> {
    let mut reply = object.get(at..).unwrap_or_default().to_vec();
    reply.resize(length.min(usize::from(u16::MAX)), 0);
    reply
}

/// Counts a value in an image: underflows in the first counter, overflows in the last one.
fn fill(image: &mut [u8], value: i64) {
    let low = i64::from(word(image, 4) as i32);
    let width = i64::from(word(image, 8) as i32).max(1);
    let bins = i64::from(word(image, 12));
    let bin = match (value - low) / width + 1 {
        bin if bin < 0 => 0,
        bin if bin > bins => 999,
        bin => bin,
    };
    let counter = 32 + 8 * bin as usize;
    put_long(image, counter, long(image, counter) + 1);
    if (1..=bins).contains(&bin) {
        put_long(image, 16, long(image, 16) + value);
    }
}
