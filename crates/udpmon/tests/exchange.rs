//! Both ends against each other.

use std::net::UdpSocket;
use std::time::Duration;

use engine::{Reason, Stop};
use server::{ServerConfig, Service};
use udpmon::client::{Requester, Sender};
use udpmon::options::{BwMon, Common, Load, RecordKind, RecordsWanted, Recv, Req, Resp, Send};
use udpmon::receiver::{self, Event};
use udpmon::result::{FateSource, RecordRows, StampSource};
use udpmon::wire::{Block, Command};

/// Serves on a free port while `test` runs with it.
fn with_responder(test: impl FnOnce(u16)) {
    with_limits(server::Limits::default(), |port, _| test(port));
}

fn with_limits(limits: server::Limits, test: impl FnOnce(u16, &Service)) {
    let common = Common {
        port: testkit::free_port(),
        ..Common::default()
    };
    let settings = Resp {
        common: common.clone(),
        ..Resp::default()
    };
    let stop = Stop::new();
    let config = ServerConfig {
        clients: 1,
        limits,
        ..ServerConfig::default()
    };
    let service = Service::new(config, stop.clone());
    let (listeners, _) = udpmon::server::listen(&common).unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            udpmon::server::serve(listeners, &settings, &service, &|line| eprintln!("{line}"));
        });
        let ran =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(common.port, &service)));
        stop.pull(Reason::Cancelled);
        served.join().unwrap();
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
    });
}

fn common(port: u16) -> Common {
    Common {
        port,
        ..Common::default()
    }
}

#[test]
fn two_linerates_know_all() {
    with_responder(|port| {
        let settings = BwMon {
            common: common(port),
            histograms: true,
            kernel_stamps: true,
            extended: true,
            records: Some(RecordsWanted {
                kind: RecordKind::All,
                skip: 2,
                count: 60,
            }),
            ..BwMon::default()
        };
        let mut load = Load {
            datagrams: 50,
            ..Load::default()
        };
        load = load.with(200, Duration::from_micros(100));
        let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
        for _ in 0..2 {
            let test = requester
                .throughput(&settings, &load, &Stop::new())
                .unwrap();
            assert_eq!(
                (test.sent, test.received.received, test.timeouts),
                (50, 50, 0)
            );
            let fate = test.fate.unwrap();
            assert_eq!(
                [
                    fate.received,
                    fate.lost,
                    fate.lost_at_end,
                    fate.late,
                    fate.repeated
                ],
                [50, 0, 0, 0, 0]
            );
            assert_eq!(
                (fate.source, test.arrivals),
                (FateSource::Responder, Some(StampSource::Kernel))
            );
            assert_eq!(test.histograms.len(), 5);
            let all = &test.histograms[0];
            assert_eq!(all.in_range() + all.underflow() + all.overflow(), 49);
            let Some(RecordRows::All(rows)) = test.records.map(|records| records.rows) else {
                panic!("no records");
            };
            assert_eq!(rows.iter().filter(|row| row.came > 0).count(), 48);
            assert!(rows[0].kernel_ns > 0 && rows[59].came == 0);
            assert_eq!(test.outcome.packets.len(), 48);
            let fit = test.outcome.clock_fit.unwrap();
            for packet in &test.outcome.packets {
                let delay_ns = packet.one_way_delay_ns.unwrap();
                assert!(delay_ns.unsigned_abs() < 50_000_000, "{delay_ns} {fit:?}");
            }
            let lo = test
                .there
                .counters
                .interfaces
                .iter()
                .find(|interface| interface.name == *"lo");
            assert!(lo.unwrap().values[0] >= 50 && !test.there.cpus.is_empty());
        }
    });
}

/// The nonce of a linerate proves its address; others get three times their bytes, also of what they send as data.
#[test]
fn unproven_addresses_get_little() {
    let limits = server::Limits {
        unproven: Some(Vec::new()),
        ..server::Limits::default()
    };
    with_limits(limits, |port, _| {
        let settings = BwMon {
            common: common(port),
            ..BwMon::default()
        };
        let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
        let test = requester
            .throughput(&settings, &Load::default(), &Stop::new())
            .unwrap();
        assert_eq!((test.received.received, test.timeouts), (2, 0));

        let stock = UdpSocket::bind("127.0.0.1:0").unwrap();
        stock.connect(("127.0.0.1", port)).unwrap();
        stock
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (mut sent, mut received) = (0, 0);
        let mut reply = [0; 4096];
        let mut put = |block: Block, bytes: usize| {
            let mut request = vec![0; bytes];
            block.write(&mut request);
            sent += stock.send(&request).unwrap();
            sent
        };
        put(Block::request(Command::ZeroStats), 208);
        received += stock.recv(&mut reply).unwrap();
        let slice = Block {
            length: 1400,
            ..Block::request(Command::GetHistogram)
        };
        // 208 bytes back for each of these, and a slice as soon as there is room for it.
        let mut slices = 0;
        for _ in 0..20 {
            put(slice, 208);
            let bytes = put(Block::request(Command::GetStats), 208);
            loop {
                let length = stock.recv(&mut reply).unwrap();
                received += length;
                assert!(received <= 3 * bytes, "{received} for {bytes}");
                if length == 208 {
                    break;
                }
                slices += 1;
            }
        }
        assert!((1..20).contains(&slices), "{slices}");
        put(Block::request(Command::Data), 1400);
        put(slice, 208);
        assert_eq!(stock.recv(&mut reply).unwrap(), 1400);
    });
}

/// The requester stops sending at once, and learns why.
#[test]
fn a_test_that_the_responder_ends_fails_with_the_reason() {
    with_limits(server::Limits::default(), |port, service| {
        let settings = BwMon {
            common: common(port),
            ..BwMon::default()
        };
        let mut load = Load {
            time: Some(Duration::from_secs(3600)),
            ..Load::default()
        };
        load = load.with(100, Duration::from_millis(1));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
                requester
                    .throughput(&settings, &load, &Stop::new())
                    .unwrap_err()
            });
            while !service
                .running()
                .records()
                .iter()
                .any(|test| test.received_bytes > 0)
            {
                std::thread::yield_now();
            }
            let mut other = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
            let test = other
                .throughput(&settings, &Load::default(), &Stop::new())
                .unwrap();
            assert_eq!(test.received.received, 2);
            let why = first.join().unwrap().to_string();
            assert!(
                why.ends_with("another test began from the same host"),
                "{why}"
            );
        });
    });
}

#[test]
fn responses_have_the_length_asked_for() {
    with_responder(|port| {
        let settings = Req {
            common: common(port),
            ..Req::default()
        };
        let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
        for bytes in [64, 128, 9000] {
            let found = requester.latency(&settings, bytes, &Stop::new()).unwrap();
            assert_eq!((found.requests, found.timeouts), (10, 0));
            assert_eq!(found.outcome.here.counts.received.0, 10 * u64::from(bytes));
        }
    });
}

/// A stock requester on another port of the holder's host gets the place; odd requests get no answer or a short one.
#[test]
fn stock_requests_are_answered_within_bounds() {
    with_responder(|port| {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            socket
        };
        let ask = |socket: &UdpSocket, block: Block| {
            socket.send(&block.encode()).unwrap();
            let mut reply = vec![0; 1 << 16];
            let length = socket.recv(&mut reply).unwrap();
            reply.truncate(length);
            reply
        };
        let (one, two) = (open(), open());
        // Without a test: no answer to the first, one to the second.
        one.send(&Block::request(Command::GetStats).encode())
            .unwrap();
        assert_eq!(ask(&one, Block::request(Command::TestEnd)).len(), 208);
        let begin = Block {
            length: u32::MAX,
            skip: u32::MAX,
            low: i32::MIN,
            width: -1,
            lost_only: 7,
            stamps: 9,
            ..Block::request(Command::ZeroStats)
        };
        for socket in [&one, &one, &two] {
            let reply = Block::read(&ask(socket, begin)).unwrap();
            assert_eq!((reply.command(), reply.version), (Some(Command::Ok), 7));
        }
        let slice = |command, low, offset, length| {
            let block = Block {
                low,
                offset,
                length,
                ..Block::request(command)
            };
            ask(&two, block)
        };
        assert_eq!(slice(Command::GetHistogram, 4, 8000, 1400).len(), 1400);
        assert_eq!(slice(Command::GetRecords, 0, u32::MAX, 1408), [0; 1408]);
        assert_eq!(slice(Command::GetCounters, 0, u32::MAX, 288), [0; 288]);
        assert_eq!(slice(Command::GetNic, 0, 0, 0), []);
        for (command, low, length) in [
            (Command::GetHistogram, 5, 100),
            (Command::GetHistogram, -1, 100),
            (Command::GetRecords, 0, u32::MAX),
            (Command::Fetch, 0, 100),
            (Command::InUse, 0, 0),
        ] {
            let block = Block {
                low,
                length,
                ..Block::request(command)
            };
            two.send(&block.encode()).unwrap();
        }
        let reply = Block::read(&ask(&two, Block::request(Command::GetStats))).unwrap();
        assert_eq!((reply.received, reply.first_to_last), (0, 0));
        let answer = slice(Command::Request, 0, 0, 70_000);
        assert_eq!(answer.len(), 65_507);
        assert_eq!(ask(&two, Block::request(Command::TestEnd)).len(), 208);
    });
}

#[test]
fn a_receiver_counts_what_a_sender_sends() {
    let common = common(testkit::free_port());
    let stop = &Stop::new();
    let wanted = RecordsWanted {
        kind: RecordKind::All,
        skip: 0,
        count: 12,
    };
    let settings = Recv {
        common: common.clone(),
        interval: Some(Duration::from_millis(300)),
        records: Some(wanted),
        ..Recv::default()
    };
    let (opened, is_open) = std::sync::mpsc::channel();
    let mut looks = Vec::new();
    std::thread::scope(|scope| {
        let looks = &mut looks;
        scope.spawn(move || {
            receiver::run(&settings, stop, &mut |event| match event {
                Event::Opened(_) => opened.send(()).unwrap(),
                Event::Snapshot(look) => looks.push(look),
            })
            .unwrap();
        });
        is_open.recv().unwrap();
        let settings = Send {
            common,
            host: "127.0.0.1".to_owned(),
            ..Send::default()
        };
        let load = Load {
            datagrams: 10,
            ..Load::default()
        };
        let load = load.with(200, Duration::from_millis(1));
        let sent = Sender::open(&settings)
            .unwrap()
            .send(&settings, &load, stop)
            .unwrap();
        assert_eq!((sent.sent, sent.outcome.here.counts.sent.0), (10, 2000));
        stop.pull(Reason::Cancelled);
    });
    let last = looks.last().unwrap();
    assert_eq!((last.total.received.received, last.total.bytes), (10, 2000));
    assert_eq!(looks.iter().map(|look| look.delta.bytes).sum::<u64>(), 2000);
    assert!(last.total.received.elapsed > Duration::ZERO);
    let Some(RecordRows::All(rows)) = last.records.as_ref().map(|records| &records.rows) else {
        panic!("no records");
    };
    assert_eq!((rows.len(), rows[0].came, rows[10].came), (12, 0, 0));
    let gaps = &last.histograms[0];
    assert!(rows[9].came > 0 && gaps.in_range() + gaps.overflow() == 9);
}
