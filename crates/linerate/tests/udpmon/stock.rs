//! A scripted responder that answers as stock does, including its mistakes. It follows the
//! specification; `replays` compares it with recordings.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::ReceiveFrom;

use super::block::{self, command, offset, read_i64, read_u32, write_i64, write_u32};

/// Time until the lock expires after the last request that took it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Size of the buffer in bytes.
const BUFFER_SIZE: usize = 128_000;

/// Maximum size of the record memory in bytes, whatever the request asks for.
const MAX_RECORD_BYTES: usize = 1 << 24;

/// Numbers of bins of the histograms, and their titles.
const HISTOGRAMS: [(u32, &str); 5] = [
    (150, "Time between frames 0.1us"),
    (10, "Lost-frame sequence"),
    (10, "Out-of-order"),
    (150, "hwsystem Time between frames ns"),
    (150, "hwraw Time between frames ns"),
];

/// A running scripted responder on a free port of loopback. Dropping it stops it.
pub(crate) struct Responder {
    pub(crate) port: u16,
    datagrams: Arc<Mutex<Vec<Vec<u8>>>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    pub(crate) fn start() -> Self {
        Self::start_with(StockState::new())
    }

    /// Starts a responder with this state, which may contain recorded objects.
    pub(crate) fn start_with(mut stock: StockState) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = socket.local_addr().expect("the socket is bound").port();
        let poll_interval = Some(Duration::from_millis(20));
        socket.set_read_timeout(poll_interval).expect("not zero");
        let datagrams = Arc::new(Mutex::new(Vec::new()));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (stop, log) = (Arc::clone(&is_stopped), Arc::clone(&datagrams));
        let serve = move || {
            let mut buffer = vec![0; 1 << 16];
            while !stop.load(Relaxed) {
                let Ok((count, from)) = socket.receive_from(&mut buffer) else {
                    continue;
                };
                let now = Instant::now();
                let mut log = log.lock().expect("an unpoisoned lock");
                log.push(buffer[..count].to_vec());
                if let Some(reply) = stock.handle(&buffer[..count], from, now) {
                    // The kernel refuses datagrams that are too large for UDP.
                    let _ = socket.send_to(&reply, from);
                }
            }
        };
        Self {
            port,
            datagrams,
            is_stopped,
            thread: Some(std::thread::spawn(serve)),
        }
    }

    /// Returns all datagrams received up to now.
    pub(crate) fn datagrams(&self) -> Vec<Vec<u8>> {
        self.datagrams.lock().expect("an unpoisoned lock").clone()
    }

    /// Returns all commands received up to now, except data packets.
    pub(crate) fn commands(&self) -> Vec<u32> {
        let datagrams = self.datagrams();
        let commands = datagrams.iter().map(|bytes| command(bytes));
        commands.filter(|command| *command != block::DATA).collect()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.is_stopped.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of a stock responder between two datagrams.
pub(crate) struct StockState {
    /// Address of the client that holds the lock, and the time of its request.
    lock_holder: Option<(IpAddr, Instant)>,
    zero_time: Instant,
    /// Buffer for received requests and for the histogram that is being sent.
    buffer: Vec<u8>,
    last_reply_len: usize,
    received: u32,
    lost: u32,
    bad_order: u32,
    /// Highest packet number up to now.
    highest_number: i64,
    /// Arrival times of data packets since `zero_time`, in 0.1 µs.
    first_arrival: i64,
    last_arrival: i64,
    histograms: [Vec<u8>; 5],
    /// The record memory in 8-byte words.
    records: Vec<i64>,
    /// Index of the next record in `records`.
    next_record: usize,
    log_lost: bool,
    skip: i64,
    /// Arrival time and send time of the last packet in order.
    last_times: (i64, i64),
    pub(crate) counters: Vec<u8>,
    pub(crate) cpu: Vec<u8>,
    pub(crate) nic: Vec<u8>,
    /// Reply to GETSTATS instead of the counts.
    pub(crate) statistics: Option<Vec<u8>>,
    /// Contents of the histograms instead of `histograms`, by their numbers.
    pub(crate) histogram_images: Vec<Vec<u8>>,
    /// Contents of the record memory instead of `records`.
    pub(crate) record_memory: Option<Vec<u8>>,
}

impl StockState {
    pub(crate) fn new() -> Self {
        let mut counters = vec![0; block::COUNTERS_LEN];
        write_u32(&mut counters, block::COUNTERS_LEN - 4, 1);
        let mut cpu = vec![0; block::CPU_LEN];
        write_u32(&mut cpu, 88, 3);
        Self {
            lock_holder: None,
            zero_time: Instant::now(),
            buffer: vec![0xa5; BUFFER_SIZE],
            last_reply_len: block::LEN,
            received: 0,
            lost: 0,
            bad_order: 0,
            highest_number: -1,
            first_arrival: 0,
            last_arrival: 0,
            histograms: HISTOGRAMS.map(|_| vec![0; block::HISTOGRAM_LEN]),
            records: Vec::new(),
            next_record: 0,
            log_lost: false,
            skip: 0,
            last_times: (0, 0),
            counters,
            cpu,
            nic: vec![0; block::NIC_LEN],
            statistics: None,
            histogram_images: Vec::new(),
            record_memory: None,
        }
    }

    /// Handles a datagram. Returns the reply if there is one.
    pub(crate) fn handle(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
    ) -> Option<Vec<u8>> {
        // After a short datagram the buffer still contains fields of an earlier one.
        let length = datagram.len().min(BUFFER_SIZE);
        self.buffer[..length].copy_from_slice(&datagram[..length]);
        let request = self.buffer[..block::LEN].to_vec();
        let index = read_u32(&request, offset::INDEX) as usize;
        let requested_len = read_u32(&request, offset::RESPONSE_LEN) as usize;
        let reply = match command(&request) {
            block::ZEROSTATS => self.zero_statistics(&request, from.ip(), now),
            block::START => {
                self.reset(&request, from.ip(), now);
                reply_to(&request, block::OK, block::LEN)
            }
            block::DATA => {
                let time = tenths_of_microsecond(now - self.zero_time);
                self.count_packet(
                    read_i64(&request, offset::NUMBER),
                    read_i64(&request, offset::SEND_TIME),
                    time,
                );
                return None;
            }
            block::GETSTATS => self.statistics_reply(),
            block::REQ_RESP => {
                let mut reply = reply_to(&self.buffer, block::RESPONSE, self.buffer.len());
                let time = (now - self.zero_time).as_micros() as i64;
                write_i64(&mut reply, offset::RESPONSE_TIME, time);
                reply.truncate(requested_len);
                reply
            }
            block::GETHIST0 => {
                let number = read_u32(&request, offset::HISTOGRAM_NUMBER) as usize;
                if index == 0 {
                    let image = self.histogram_images.get(number);
                    let image = image.or(self.histograms.get(number))?;
                    self.buffer[..block::HISTOGRAM_LEN].copy_from_slice(image);
                }
                slice(&self.buffer, index, requested_len)
            }
            block::GETNETSNMP => slice(&self.counters, index, requested_len),
            block::GETCPULOAD => slice(&self.cpu, index, requested_len),
            block::GETNICSTATS => slice(&self.nic, index, requested_len),
            block::GETINFO1 => {
                let memory = self.record_memory();
                slice(&memory, index * 8, requested_len)
            }
            block::TESTEND => {
                self.lock_holder = None;
                reply_to(&request, block::OK, self.last_reply_len.min(block::LEN))
            }
            _ => return None,
        };
        self.last_reply_len = reply.len();
        Some(reply)
    }

    /// Handles ZEROSTATS. Like stock, it refuses the holder of the lock instead of other clients.
    fn zero_statistics(&mut self, request: &[u8], from: IpAddr, now: Instant) -> Vec<u8> {
        let is_holder =
            |(holder, since): (IpAddr, Instant)| holder == from && now - since < LOCK_TIMEOUT;
        if self.lock_holder.is_some_and(is_holder) {
            return reply_to(request, block::INUSE, block::LEN);
        }
        self.zero_time = now;
        self.reset(request, from, now);
        reply_to(request, block::OK, block::LEN)
    }

    fn reset(&mut self, request: &[u8], from: IpAddr, now: Instant) {
        self.lock_holder = Some((from, now));
        (self.received, self.lost, self.bad_order) = (0, 0, 0);
        self.highest_number = -1;
        let (low, width) = (
            read_u32(request, offset::LOW),
            read_u32(request, offset::WIDTH),
        );
        for (number, image) in self.histograms.iter_mut().enumerate() {
            let (bins, title) = HISTOGRAMS[number];
            let (low, width) = match number {
                0 => (low, width),
                1 | 2 => (0, 1),
                _ => (low.wrapping_mul(250), width.wrapping_mul(250)),
            };
            image.fill(0);
            for (offset, value) in [(0, number as u32), (4, low), (8, width), (12, bins)] {
                write_u32(image, offset, value);
            }
            image[8032..8032 + title.len()].copy_from_slice(title.as_bytes());
        }
        let bytes = (read_u32(request, offset::RESPONSE_LEN) as usize).min(MAX_RECORD_BYTES);
        self.records = vec![0; bytes / 8];
        self.next_record = 0;
        self.log_lost = read_u32(request, offset::LOG_LOST) > 0;
        self.skip = read_u32(request, offset::SKIP).into();
        self.last_times = (0, 0);
    }

    /// Counts a data packet with this number, send time and arrival time.
    pub(crate) fn count_packet(&mut self, number: i64, sent: i64, time: i64) {
        let gap = time - self.last_arrival;
        if self.received == 0 {
            self.first_arrival = time;
        }
        self.last_arrival = time;
        self.received += 1;
        count_value(&mut self.histograms[0], gap);
        let ahead = number - self.highest_number;
        if ahead > 1 {
            self.lost += (ahead - 1) as u32;
            count_value(&mut self.histograms[1], ahead - 1);
        } else if ahead < 1 {
            self.bad_order += 1;
            count_value(&mut self.histograms[2], -ahead);
        }
        if self.log_lost {
            self.record_losses(number);
        } else if number >= self.skip {
            self.record(ahead, sent, time);
        }
        if ahead > 0 {
            self.highest_number = number;
            self.last_times = (time, sent);
        }
    }

    /// Records a packet. Like stock, a late packet's record goes to its own slot but advances
    /// `next_record` by the two words of the stamps.
    fn record(&mut self, ahead: i64, sent: i64, time: i64) {
        if ahead < 1 {
            let distance = 4 * (1 - ahead) as usize;
            if let Some(slot) = self.next_record.checked_sub(distance) {
                self.write_record(slot, &[time, sent]);
            }
            self.next_record += 2;
            return;
        }
        self.next_record += 4 * (ahead - 1) as usize;
        self.write_record(self.next_record, &[time, sent, 0, 0]);
        self.next_record += 4;
    }

    fn record_losses(&mut self, number: i64) {
        for missing in self.highest_number + 1..number {
            let (time, sent) = self.last_times;
            self.write_record(self.next_record, &[time, sent, missing]);
            self.next_record += 3;
        }
    }

    fn write_record(&mut self, index: usize, words: &[i64]) {
        if let Some(record) = self.records.get_mut(index..index + words.len()) {
            record.copy_from_slice(words);
        }
    }

    /// Returns the reply to GETSTATS. Like stock's, only the counts are valid.
    fn statistics_reply(&self) -> Vec<u8> {
        if let Some(reply) = &self.statistics {
            return reply.clone();
        }
        let mut reply = vec![0x29; block::LEN];
        write_u32(&mut reply, offset::RECEIVED, self.received);
        write_u32(&mut reply, offset::LOST, self.lost);
        write_u32(&mut reply, offset::BAD_ORDER, self.bad_order);
        write_i64(
            &mut reply,
            offset::FIRST_TO_LAST,
            self.last_arrival - self.first_arrival,
        );
        reply
    }

    /// Returns the record memory.
    pub(crate) fn record_memory(&self) -> Vec<u8> {
        let bytes = || self.records.iter().flat_map(|word| word.to_le_bytes());
        self.record_memory
            .clone()
            .unwrap_or_else(|| bytes().collect())
    }

    /// Returns the contents of a histogram.
    pub(crate) fn histogram(&self, number: usize) -> &[u8] {
        &self.histograms[number]
    }
}

/// Converts a time to 0.1 µs.
fn tenths_of_microsecond(time: Duration) -> i64 {
    (time.as_nanos() / 100) as i64
}

/// Returns the request with the command and version of a reply.
fn reply_to(request: &[u8], command: u32, length: usize) -> Vec<u8> {
    let mut reply = request[..length].to_vec();
    write_u32(&mut reply, offset::COMMAND, command);
    write_u32(&mut reply, offset::VERSION, 7);
    reply
}

/// Returns a slice of an object. Like stock's, it may extend beyond the object.
fn slice(object: &[u8], offset: usize, length: usize) -> Vec<u8> {
    let mut reply = object.get(offset..).unwrap_or_default().to_vec();
    reply.resize(length.min(usize::from(u16::MAX)), 0);
    reply
}

/// Counts a value in a histogram: underflows in the first counter, overflows in the last.
fn count_value(image: &mut [u8], value: i64) {
    let low = i64::from(read_u32(image, 4) as i32);
    let width = i64::from(read_u32(image, 8) as i32).max(1);
    let bins = i64::from(read_u32(image, 12));
    let bin = match (value - low) / width + 1 {
        bin if bin < 0 => 0,
        bin if bin > bins => 999,
        bin => bin,
    };
    let counter = 32 + 8 * bin as usize;
    write_i64(image, counter, read_i64(image, counter) + 1);
    if (1..=bins).contains(&bin) {
        write_i64(image, 16, read_i64(image, 16) + value);
    }
}
