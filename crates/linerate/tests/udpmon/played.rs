//! Recorded runs of stock UDPmon, played to ours in both roles.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use testkit::{TestCase, Transcript, test_cases};

use super::block::{self, at, command, long, word};
use super::recordings::{self, Objects};
use super::stock::{Responder, Stock};
use super::{LIMIT, bw_mon, column, counts, responder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        the_scripted_responder_counts_as_stock,
        recorded_requesters_are_answered,
        hand_made_requests_are_answered,
        recorded_replies_are_read,
    ];
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// The runs of `udpmon_bw_mon`.
fn throughput_runs() -> impl Iterator<Item = &'static Transcript> {
    recordings::all()
        .iter()
        .filter(|run| run.name.starts_with("bw-"))
}

/// The scripted responder is fed with what the stock one received.
fn the_scripted_responder_counts_as_stock() {
    for run in throughput_runs() {
        let name = &run.name;
        let mut stock = Stock::new();
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let start = Instant::now();
        let mut statistics = None;
        for packet in run.packets.iter().filter(|packet| packet.is_request) {
            let now = start + Duration::from_micros(packet.micros);
            let reply = stock.take(&packet.bytes, from, now);
            if command(&packet.bytes) == block::GETSTATS {
                statistics = reply;
            }
        }
        let statistics = statistics.expect(name);
        let recorded = recordings::statistics(run);
        for field in [at::RECEIVED, at::LOST, at::BAD_ORDER] {
            assert_eq!(word(&statistics, field), word(recorded, field), "{name}");
        }
        let objects = recordings::objects(run);
        for number in [1, 2] {
            if let Some(image) = objects.get(&(block::GETHIST0, number)) {
                assert_eq!(stock.histogram(number as usize), image, "{name}");
            }
        }
        // Send times and lost numbers show where each record went.
        let places: &[usize] = if name.contains("-L-") { &[1, 2] } else { &[1] };
        let size = if name.contains("-L-") { 24 } else { 32 };
        let Some(memory) = objects.get(&(block::GETINFO1, 0)) else {
            continue;
        };
        let own = stock.memory();
        assert_eq!(own.len(), memory.len(), "{name}");
        // The kernel's stamps are not played.
        if name == "bw-N-tstamps" {
            continue;
        }
        for record in (0..memory.len()).step_by(size) {
            for place in places {
                let at = record + 8 * place;
                assert_eq!(long(&own, at), long(memory, at), "{name}, {record}");
            }
        }
    }
}

/// Requests and data of the stock requesters, byte by byte.
fn recorded_requesters_are_answered() {
    let server = responder("");
    for run in recordings::all() {
        if run.name != "edge-cases" && run.name != "send-recv" {
            Played::of(run, server.port).is_right();
        }
    }
    assert!(!server.has_panicked(), "{}", server.stderr());
    server.terminate().assert_success();
}

/// A run whose requests were sent again, to ours.
struct Played {
    run: &'static Transcript,
    /// Each request that the recording has a reply to, and our reply.
    exchanges: Vec<(Vec<u8>, Vec<u8>)>,
    elapsed: Duration,
}

impl Played {
    fn of(run: &'static Transcript, port: u16) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket
            .connect((Ipv4Addr::LOCALHOST, port))
            .expect("loopback");
        socket.set_read_timeout(Some(LIMIT)).expect("not zero");
        let start = Instant::now();
        let mut exchanges = Vec::new();
        let mut packets = run.packets.iter().peekable();
        while let Some(packet) = packets.next() {
            if !packet.is_request {
                continue;
            }
            socket.send(&packet.bytes).expect("loopback");
            let is_answered = packets.peek().is_some_and(|next| !next.is_request);
            // The recording of `req` ends before the reply to TESTEND.
            if is_answered || command(&packet.bytes) == block::TESTEND {
                let mut reply = vec![0; 1 << 16];
                let count = socket.recv(&mut reply);
                let at = || format!("{}, {:#x}", run.name, command(&packet.bytes));
                reply.truncate(count.unwrap_or_else(|error| panic!("{}: {error}", at())));
                exchanges.push((packet.bytes.clone(), reply));
            }
        }
        Self {
            run,
            exchanges,
            elapsed: start.elapsed(),
        }
    }

    fn is_right(&self) {
        let mut objects = Objects::new();
        for (request, reply) in &self.exchanges {
            self.fits(request, reply);
            recordings::join(&mut objects, request, reply);
        }
        if self.run.name.starts_with("bw-") {
            self.histograms_are_right(&objects);
            self.records_are_right(&objects);
            let counters = &objects[&(block::GETNETSNMP, 0)];
            assert_eq!(counters.len(), block::COUNTERS_LEN);
            assert_eq!(word(counters, 26_880), 0);
            assert_eq!(word(counters, 26_884), 1, "IPv4");
        }
        if let Some(cpu) = objects.get(&(block::GETCPULOAD, 0)) {
            let cpus = std::thread::available_parallelism().expect("it is known");
            assert!(word(cpu, 88) as usize > cpus.get(), "{}", word(cpu, 88));
        }
    }

    fn fits(&self, request: &[u8], reply: &[u8]) {
        let at = format!("{}, {:#x}", self.run.name, command(request));
        let wanted = word(request, at::RESPONSE_LEN) as usize;
        match command(request) {
            block::ZEROSTATS | block::START | block::TESTEND => {
                assert!(reply.len() >= 8, "{at}: {}", reply.len());
                assert_eq!(command(reply), block::OK, "{at}");
                assert_eq!(word(reply, at::VERSION), 7, "{at}");
            }
            block::GETSTATS => {
                let recorded = recordings::statistics(self.run);
                assert_eq!(reply.len(), recorded.len(), "{at}");
                for field in [at::RECEIVED, at::LOST, at::BAD_ORDER] {
                    assert_eq!(word(reply, field), word(recorded, field), "{at}, {field}");
                }
                let time = long(reply, at::FIRST_TO_LAST);
                let elapsed = self.elapsed.as_nanos() as i64 / 100;
                assert!((1..elapsed).contains(&time), "{at}: {time} of {elapsed}");
            }
            block::REQ_RESP => {
                assert_eq!(reply.len(), wanted, "{at}");
                assert_eq!(command(reply), block::RESPONSE, "{at}");
                assert_eq!(word(reply, at::VERSION), 7, "{at}");
                for field in [at::NUMBER, at::SEND_TIME] {
                    assert_eq!(long(reply, field), long(request, field), "{at}, {field}");
                }
                let time = long(reply, at::RESPONSE_TIME);
                let elapsed = self.elapsed.as_micros() as i64;
                assert!((0..=elapsed).contains(&time), "{at}: {time} of {elapsed}");
            }
            _ => assert_eq!(reply.len(), wanted, "{at}"),
        }
    }

    fn histograms_are_right(&self, objects: &Objects) {
        let recorded = recordings::objects(self.run);
        let received = word(recordings::statistics(self.run), at::RECEIVED);
        for ((_, number), image) in objects.range((block::GETHIST0, 0)..=(block::GETHIST0, 4)) {
            let stocks = &recorded[&(block::GETHIST0, *number)];
            let at = format!("{}, histogram {number}", self.run.name);
            assert_eq!(image.len(), block::HISTOGRAM_LEN, "{at}");
            assert_eq!(image[..16], stocks[..16], "{at}");
            assert_eq!(image[8032..], stocks[8032..], "{at}");
            match number {
                // Stock counts the time since the test before, too.
                0 => {
                    let counters = (32..8032).step_by(8).map(|at| long(image, at));
                    let gaps = counters.sum::<i64>() as u32;
                    assert!(gaps == received || gaps + 1 == received, "{at}: {gaps}");
                }
                1 | 2 => assert_eq!(image[16..], stocks[16..], "{at}"),
                _ => {}
            }
        }
    }

    /// Each record is in its own place, which is not where stock's are after a late packet.
    fn records_are_right(&self, objects: &Objects) {
        let Some(memory) = objects.get(&(block::GETINFO1, 0)) else {
            return;
        };
        let name = &self.run.name;
        if name.contains("-L-") {
            let recorded = &recordings::objects(self.run)[&(block::GETINFO1, 0)];
            for at in (8..memory.len()).step_by(8).filter(|at| at % 24 != 0) {
                assert_eq!(long(memory, at), long(recorded, at), "{name}, {at}");
            }
            return;
        }
        let skipped = self.exchanges.iter().find_map(|(request, _)| {
            let starts = command(request) == block::START;
            starts.then(|| i64::from(word(request, at::SKIP)))
        });
        let skipped = skipped.expect("a test with records has a clock fit");
        for (record, number) in (0..memory.len()).step_by(32).zip(skipped..) {
            let mut data = recordings::data(self.run);
            let packet = data.find(|packet| long(&packet.bytes, at::NUMBER) == number);
            let sent = packet.map_or(0, |packet| long(&packet.bytes, at::SEND_TIME));
            assert_eq!(long(memory, record + 8), sent, "{name}, {number}");
            let has_come = long(memory, record) > 0;
            assert_eq!(has_come, packet.is_some(), "{name}, {number}");
        }
    }
}

/// The lock is for other hosts, unknown commands have no answer, and lengths are bounded.
fn hand_made_requests_are_answered() {
    let server = responder("");
    let from = |address: [u8; 4]| {
        let socket = UdpSocket::bind((Ipv4Addr::from(address), 0)).expect("loopback");
        socket
            .connect((Ipv4Addr::LOCALHOST, server.port))
            .expect("loopback");
        socket
    };
    let ask = |socket: &UdpSocket, request: &[u8], limit: Duration| {
        socket.set_read_timeout(Some(limit)).expect("not zero");
        socket.send(request).expect("loopback");
        let mut reply = vec![0; 1 << 16];
        let count = socket.recv(&mut reply).ok()?;
        reply.truncate(count);
        Some(reply)
    };
    let one = from([127, 0, 0, 1]);
    let other = from([127, 0, 0, 2]);
    let third = from([127, 0, 0, 1]);
    let zero = block::request(block::ZEROSTATS, &[(at::WIDTH, 1)]);
    let answer = |socket: &UdpSocket, request: &[u8]| {
        let reply = ask(socket, request, LIMIT).unwrap_or_else(|| panic!("{request:?}"));
        command(&reply)
    };
    assert_eq!(answer(&one, &zero), block::OK);
    assert_eq!(answer(&one, &zero), block::OK, "the holder asks again");
    assert_eq!(answer(&other, &zero), block::INUSE, "another host");
    assert_eq!(
        answer(&third, &zero),
        block::OK,
        "the holder, from another port"
    );

    // Stock drops them silently. A request behind them shows that no answer was on its way.
    for unknown in [0x11, 0x12, 0x13, 0x41, 0x42, 0x81, 0x82, 0x83, 0x7777] {
        let request = block::request(unknown, &[(at::RESPONSE_LEN, 100)]);
        third.send(&request).expect("loopback");
    }
    assert_eq!(
        ask(&third, &statistics(), LIMIT).map(|reply| reply.len()),
        Some(208)
    );

    // What is behind an object is zeros; what is far behind it has no answer or zeros, and no other memory.
    for (name, length) in [
        (block::GETHIST0, block::HISTOGRAM_LEN),
        (block::GETNETSNMP, block::COUNTERS_LEN),
        (block::GETCPULOAD, block::CPU_LEN),
        (block::GETNICSTATS, block::NIC_LEN),
        (block::GETINFO1, 0),
    ] {
        for index in [length as u32, 1 << 20, u32::MAX - 8, 1 << 31] {
            let request = block::request(name, &[(at::INDEX, index), (at::RESPONSE_LEN, 1400)]);
            third.send(&request).expect("loopback");
            // Whatever comes before the counts is the answer.
            let mut reply = ask(&third, &statistics(), LIMIT).expect("it is alive");
            if reply.len() != 208 {
                assert!(reply.iter().all(|byte| *byte == 0), "{name:#x}, {index}");
                let count = third.recv(&mut reply).expect("the counts");
                assert_eq!(count, 208);
            }
        }
    }
    let end = block::request(block::TESTEND, &[]);
    assert_eq!(answer(&third, &end), block::OK);
    assert_eq!(answer(&one, &end), block::OK);
    assert_eq!(answer(&other, &zero), block::OK, "the lock is free");
    assert_eq!(answer(&other, &end), block::OK);
    assert!(!server.has_panicked(), "{}", server.stderr());
    server.terminate().assert_success();
}

fn statistics() -> Vec<u8> {
    block::request(block::GETSTATS, &[])
}

/// A responder whose objects are the recorded ones.
fn recorded_replies_are_read() {
    let counters = &recordings::objects(recordings::named("bw-basic"))[&(block::GETNETSNMP, 0)];
    for run in throughput_runs() {
        let name = &run.name;
        let objects = recordings::objects(run);
        let mut stock = Stock::new();
        let statistics = recordings::statistics(run);
        stock.statistics = Some(statistics.to_vec());
        stock.images = (0..5)
            .map_while(|number| objects.get(&(block::GETHIST0, number)).cloned())
            .collect();
        stock.memory = objects.get(&(block::GETINFO1, 0)).cloned();
        stock.counters.clone_from(counters);
        if let Some(cpu) = objects.get(&(block::GETCPULOAD, 0)) {
            stock.cpu.clone_from(cpu);
        }
        let responder = Responder::with(stock);
        // The recorded command's own options.
        let options = run.command.split_whitespace().skip(1);
        let options: Vec<&str> = options
            .take_while(|word| {
                word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit())
            })
            .collect();
        let line = format!("-d 127.0.0.1 -u {} {}", responder.port, options.join(" "));
        let client = testkit::run(bw_mon(&line), LIMIT).expect("it ends");
        client.assert_success();
        assert_eq!(responder.commands().last(), Some(&block::TESTEND), "{name}");
        let expected = [at::RECEIVED, at::LOST, at::BAD_ORDER].map(|at| word(statistics, at));
        assert_eq!(counts(&client.stdout), expected.map(u64::from), "{name}");
        let [bytes] = column(&client.stdout, "pkt len")[..] else {
            panic!("{client:#?}");
        };
        let time = long(statistics, at::FIRST_TO_LAST) as f64 / 10.0;
        let rate = bytes * 8.0 * f64::from(expected[0]) / time;
        let shown = column(&client.stdout, "recv_user_data_rate Mbit")[0];
        assert!((shown / rate - 1.0).abs() < 1e-5, "{name}: {client:#?}");
    }
}
