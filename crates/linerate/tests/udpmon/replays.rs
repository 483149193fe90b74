//! Replays of recorded runs of stock UDPmon to linerate in both roles.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use testkit::{Receive, TestCase, Transcript, test_cases};

use super::block::{self, command, offset, read_i64, read_u32};
use super::recordings::{self, Objects};
use super::stock::{Responder, StockState};
use super::{TIMEOUT, bw_mon, column, packet_counts, start_responder};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        scripted_responder_counts_as_stock,
        answers_recorded_requesters,
        answers_handmade_requests,
        reads_recorded_replies,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Returns the runs of `udpmon_bw_mon`.
fn throughput_runs() -> impl Iterator<Item = &'static Transcript> {
    recordings::transcripts()
        .iter()
        .filter(|run| run.name.starts_with("bw-"))
}

/// The scripted responder handles the recorded requests and counts as the stock responder did.
fn scripted_responder_counts_as_stock() {
    for run in throughput_runs() {
        let name = &run.name;
        let mut stock = StockState::new();
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let start = Instant::now();
        let mut statistics = None;
        for packet in run.packets.iter().filter(|packet| packet.is_request) {
            let now = start + Duration::from_micros(packet.micros);
            let reply = stock.handle(&packet.bytes, client, now);
            if command(&packet.bytes) == block::GETSTATS {
                statistics = reply;
            }
        }
        let statistics = statistics.expect(name);
        let recorded = recordings::statistics(run);
        for field in [offset::RECEIVED, offset::LOST, offset::BAD_ORDER] {
            assert_eq!(
                read_u32(&statistics, field),
                read_u32(recorded, field),
                "{name}"
            );
        }
        let objects = recordings::objects(run);
        for number in [1, 2] {
            if let Some(image) = objects.get(&(block::GETHIST0, number)) {
                assert_eq!(stock.histogram(number as usize), image, "{name}");
            }
        }
        // Send times and lost numbers identify the packet of each record.
        let compared_words: &[usize] = if name.contains("-L-") { &[1, 2] } else { &[1] };
        let record_len = if name.contains("-L-") { 24 } else { 32 };
        let Some(memory) = objects.get(&(block::GETINFO1, 0)) else {
            continue;
        };
        let scripted = stock.record_memory();
        assert_eq!(scripted.len(), memory.len(), "{name}");
        // The scripted responder has no timestamps of the kernel.
        if name == "bw-N-tstamps" {
            continue;
        }
        for record in (0..memory.len()).step_by(record_len) {
            for index in compared_words {
                let offset = record + 8 * index;
                let (scripted, recorded) = (read_i64(&scripted, offset), read_i64(memory, offset));
                assert_eq!(scripted, recorded, "{name}, {record}");
            }
        }
    }
}

/// linerate's responder receives exactly the recorded requests and data packets.
fn answers_recorded_requesters() {
    let server = start_responder("");
    for run in recordings::transcripts() {
        if run.name != "edge-cases" && run.name != "send-recv" {
            Replay::start(run, server.port).assert_valid();
        }
    }
    assert!(!server.has_panicked(), "{}", server.stderr());
    server.terminate().assert_success();
}

/// A recorded run whose requests were sent to linerate's responder.
struct Replay {
    run: &'static Transcript,
    /// Requests with a recorded reply, and linerate's replies.
    exchanges: Vec<(Vec<u8>, Vec<u8>)>,
    elapsed: Duration,
}

impl Replay {
    fn start(run: &'static Transcript, port: u16) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket
            .connect((Ipv4Addr::LOCALHOST, port))
            .expect("loopback");
        socket.set_read_timeout(Some(TIMEOUT)).expect("not zero");
        let start = Instant::now();
        let mut exchanges = Vec::new();
        let mut packets = run.packets.iter().peekable();
        while let Some(packet) = packets.next() {
            if !packet.is_request {
                continue;
            }
            socket.send(&packet.bytes).expect("loopback");
            let has_reply = packets.peek().is_some_and(|next| !next.is_request);
            // The recording of `req` ends before the reply to TESTEND.
            if has_reply || command(&packet.bytes) == block::TESTEND {
                let mut reply = vec![0; 1 << 16];
                let count = socket.receive(&mut reply);
                let context = || format!("{}, {:#x}", run.name, command(&packet.bytes));
                reply.truncate(count.unwrap_or_else(|error| panic!("{}: {error}", context())));
                exchanges.push((packet.bytes.clone(), reply));
            }
        }
        Self {
            run,
            exchanges,
            elapsed: start.elapsed(),
        }
    }

    fn assert_valid(&self) {
        let mut objects = Objects::new();
        for (request, reply) in &self.exchanges {
            self.assert_valid_reply(request, reply);
            recordings::add_slice(&mut objects, request, reply);
        }
        if self.run.name.starts_with("bw-") {
            self.assert_valid_histograms(&objects);
            self.assert_valid_records(&objects);
            let counters = &objects[&(block::GETNETSNMP, 0)];
            assert_eq!(counters.len(), block::COUNTERS_LEN);
            assert_eq!(read_u32(counters, 26_880), 0);
            assert_eq!(read_u32(counters, 26_884), 1, "IPv4");
        }
        if let Some(cpu) = objects.get(&(block::GETCPULOAD, 0)) {
            let cpus = std::thread::available_parallelism().expect("the number of CPUs");
            assert!(
                read_u32(cpu, 88) as usize > cpus.get(),
                "{}",
                read_u32(cpu, 88)
            );
        }
    }

    fn assert_valid_reply(&self, request: &[u8], reply: &[u8]) {
        let context = format!("{}, {:#x}", self.run.name, command(request));
        let requested_len = read_u32(request, offset::RESPONSE_LEN) as usize;
        match command(request) {
            block::ZEROSTATS | block::START | block::TESTEND => {
                assert!(reply.len() >= 8, "{context}: {}", reply.len());
                assert_eq!(command(reply), block::OK, "{context}");
                assert_eq!(read_u32(reply, offset::VERSION), 7, "{context}");
            }
            block::GETSTATS => {
                let recorded = recordings::statistics(self.run);
                assert_eq!(reply.len(), recorded.len(), "{context}");
                for field in [offset::RECEIVED, offset::LOST, offset::BAD_ORDER] {
                    assert_eq!(
                        read_u32(reply, field),
                        read_u32(recorded, field),
                        "{context}, {field}"
                    );
                }
                let time = read_i64(reply, offset::FIRST_TO_LAST);
                let elapsed = self.elapsed.as_nanos() as i64 / 100;
                assert!(
                    (1..elapsed).contains(&time),
                    "{context}: {time} of {elapsed}"
                );
            }
            block::REQ_RESP => {
                assert_eq!(reply.len(), requested_len, "{context}");
                assert_eq!(command(reply), block::RESPONSE, "{context}");
                assert_eq!(read_u32(reply, offset::VERSION), 7, "{context}");
                for field in [offset::NUMBER, offset::SEND_TIME] {
                    assert_eq!(
                        read_i64(reply, field),
                        read_i64(request, field),
                        "{context}, {field}"
                    );
                }
                let time = read_i64(reply, offset::RESPONSE_TIME);
                let elapsed = self.elapsed.as_micros() as i64;
                assert!(
                    (0..=elapsed).contains(&time),
                    "{context}: {time} of {elapsed}"
                );
            }
            _ => assert_eq!(reply.len(), requested_len, "{context}"),
        }
    }

    fn assert_valid_histograms(&self, objects: &Objects) {
        let recorded = recordings::objects(self.run);
        let received = read_u32(recordings::statistics(self.run), offset::RECEIVED);
        for ((_, number), image) in objects.range((block::GETHIST0, 0)..=(block::GETHIST0, 4)) {
            let stock_image = &recorded[&(block::GETHIST0, *number)];
            let context = format!("{}, histogram {number}", self.run.name);
            assert_eq!(image.len(), block::HISTOGRAM_LEN, "{context}");
            assert_eq!(image[..16], stock_image[..16], "{context}");
            assert_eq!(image[8032..], stock_image[8032..], "{context}");
            match number {
                // Stock also counts the time since the previous test.
                0 => {
                    let counters = (32..8032).step_by(8).map(|offset| read_i64(image, offset));
                    let gaps = counters.sum::<i64>() as u32;
                    assert!(
                        gaps == received || gaps + 1 == received,
                        "{context}: {gaps}"
                    );
                }
                1 | 2 => assert_eq!(image[16..], stock_image[16..], "{context}"),
                _ => {}
            }
        }
    }

    /// Checks that each packet has its own record. Stock's positions are wrong after a late packet.
    fn assert_valid_records(&self, objects: &Objects) {
        let Some(memory) = objects.get(&(block::GETINFO1, 0)) else {
            return;
        };
        let name = &self.run.name;
        if name.contains("-L-") {
            let recorded = &recordings::objects(self.run)[&(block::GETINFO1, 0)];
            for offset in (8..memory.len())
                .step_by(8)
                .filter(|offset| offset % 24 != 0)
            {
                let (ours, stock) = (read_i64(memory, offset), read_i64(recorded, offset));
                assert_eq!(ours, stock, "{name}, {offset}");
            }
            return;
        }
        let skipped = self.exchanges.iter().find_map(|(request, _)| {
            let is_start = command(request) == block::START;
            is_start.then(|| i64::from(read_u32(request, offset::SKIP)))
        });
        let skipped = skipped.expect("a START request of the test with records");
        for (record, number) in (0..memory.len()).step_by(32).zip(skipped..) {
            let mut packets = recordings::data_packets(self.run);
            let packet = packets.find(|packet| read_i64(&packet.bytes, offset::NUMBER) == number);
            let sent = packet.map_or(0, |packet| read_i64(&packet.bytes, offset::SEND_TIME));
            assert_eq!(read_i64(memory, record + 8), sent, "{name}, {number}");
            let has_arrived = read_i64(memory, record) > 0;
            assert_eq!(has_arrived, packet.is_some(), "{name}, {number}");
        }
    }
}

/// The lock excludes other hosts, unknown commands have no reply, and lengths are bounded.
fn answers_handmade_requests() {
    let server = start_responder("");
    let client_at = |address: [u8; 4]| {
        let socket = UdpSocket::bind((Ipv4Addr::from(address), 0)).expect("loopback");
        socket
            .connect((Ipv4Addr::LOCALHOST, server.port))
            .expect("loopback");
        socket
    };
    let receive_reply = |socket: &UdpSocket, request: &[u8]| {
        socket.set_read_timeout(Some(TIMEOUT)).expect("not zero");
        socket.send(request).expect("loopback");
        let mut reply = vec![0; 1 << 16];
        let count = socket.receive(&mut reply).ok()?;
        reply.truncate(count);
        Some(reply)
    };
    let holder = client_at([127, 0, 0, 1]);
    let other_host = client_at([127, 0, 0, 2]);
    let other_port = client_at([127, 0, 0, 1]);
    let zero_statistics = block::request(block::ZEROSTATS, &[(offset::WIDTH, 1)]);
    let reply_command = |socket: &UdpSocket, request: &[u8]| {
        let reply = receive_reply(socket, request).unwrap_or_else(|| panic!("{request:?}"));
        command(&reply)
    };
    for (socket, expected, name) in [
        (&holder, block::OK, "the first client"),
        (&holder, block::OK, "the holder again"),
        (&other_host, block::INUSE, "another host"),
        (&other_port, block::OK, "the holder's host, another port"),
    ] {
        assert_eq!(reply_command(socket, &zero_statistics), expected, "{name}");
    }

    // Stock ignores these commands. The reply to a later request shows that they have no reply.
    for unknown in [0x11, 0x12, 0x13, 0x41, 0x42, 0x81, 0x82, 0x83, 0x7777] {
        let request = block::request(unknown, &[(offset::RESPONSE_LEN, 100)]);
        other_port.send(&request).expect("loopback");
    }
    assert_eq!(
        receive_reply(&other_port, &statistics_request()).map(|reply| reply.len()),
        Some(208)
    );

    // A slice beyond the end of an object contains zeros. One far beyond it may have no reply.
    for (object, length) in [
        (block::GETHIST0, block::HISTOGRAM_LEN),
        (block::GETNETSNMP, block::COUNTERS_LEN),
        (block::GETCPULOAD, block::CPU_LEN),
        (block::GETNICSTATS, block::NIC_LEN),
        (block::GETINFO1, 0),
    ] {
        for index in [length as u32, 1 << 20, u32::MAX - 8, 1 << 31] {
            let request = block::request(
                object,
                &[(offset::INDEX, index), (offset::RESPONSE_LEN, 1400)],
            );
            other_port.send(&request).expect("loopback");
            // A datagram before the counts is the reply to this request.
            let reply = receive_reply(&other_port, &statistics_request());
            let mut reply = reply.expect("a running server");
            if reply.len() != 208 {
                assert!(reply.iter().all(|byte| *byte == 0), "{object:#x}, {index}");
                let count = other_port.receive(&mut reply).expect("the counts");
                assert_eq!(count, 208);
            }
        }
    }
    let end = block::request(block::TESTEND, &[]);
    assert_eq!(reply_command(&other_port, &end), block::OK);
    assert_eq!(reply_command(&holder, &end), block::OK);
    let reply = reply_command(&other_host, &zero_statistics);
    assert_eq!(reply, block::OK, "the lock is free");
    assert_eq!(reply_command(&other_host, &end), block::OK);
    assert!(!server.has_panicked(), "{}", server.stderr());
    server.terminate().assert_success();
}

fn statistics_request() -> Vec<u8> {
    block::request(block::GETSTATS, &[])
}

/// The scripted responder sends the recorded objects, and `udpmon_bw_mon` prints their figures.
fn reads_recorded_replies() {
    let counters =
        &recordings::objects(recordings::transcript("bw-basic"))[&(block::GETNETSNMP, 0)];
    for run in throughput_runs() {
        let name = &run.name;
        let objects = recordings::objects(run);
        let mut stock = StockState::new();
        let statistics = recordings::statistics(run);
        stock.statistics = Some(statistics.to_vec());
        stock.histogram_images = (0..5)
            .map_while(|number| objects.get(&(block::GETHIST0, number)).cloned())
            .collect();
        stock.record_memory = objects.get(&(block::GETINFO1, 0)).cloned();
        stock.counters.clone_from(counters);
        if let Some(cpu) = objects.get(&(block::GETCPULOAD, 0)) {
            stock.cpu.clone_from(cpu);
        }
        let responder = Responder::start_with(stock);
        // The options of the recorded command.
        let options = run.command.split_whitespace().skip(1);
        let options: Vec<&str> = options
            .take_while(|word| {
                word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit())
            })
            .collect();
        let line = format!("-d 127.0.0.1 -u {} {}", responder.port, options.join(" "));
        let client = testkit::run(bw_mon(&line), TIMEOUT).expect("the client ends");
        client.assert_success();
        assert_eq!(responder.commands().last(), Some(&block::TESTEND), "{name}");
        let expected = [offset::RECEIVED, offset::LOST, offset::BAD_ORDER]
            .map(|offset| read_u32(statistics, offset));
        assert_eq!(
            packet_counts(&client.stdout),
            expected.map(u64::from),
            "{name}"
        );
        let [packet_bytes] = column(&client.stdout, "pkt len")[..] else {
            panic!("{client:#?}");
        };
        let time = read_i64(statistics, offset::FIRST_TO_LAST) as f64 / 10.0;
        let rate = packet_bytes * 8.0 * f64::from(expected[0]) / time;
        let printed = column(&client.stdout, "recv_user_data_rate Mbit")[0];
        assert!((printed / rate - 1.0).abs() < 1e-5, "{name}: {client:#?}");
    }
}
