//! Tests between requesters, senders, receivers and responders of linerate.

use std::net::UdpSocket;
use std::time::Duration;

use engine::{Stop, StopReason};
use server::{ServerConfig, Service};
use udpmon::client::{LoadSender, Requester};
use udpmon::options::{
    BwMonSettings, CommonSettings, RecordKind, RecordRequest, RecvSettings, ReqSettings,
    RespSettings, SendSettings, TestLoad,
};
use udpmon::receiver::{self, ReceiverEvent};
use udpmon::result::{DeliverySource, RecordRows, StampSource};
use udpmon::wire::{Command, MessageBlock};

/// Runs a responder on a free port, and calls `test` with that port.
fn with_responder(test: impl FnOnce(u16)) {
    with_limits(server::AddressLimits::default(), |port, _| test(port));
}

fn with_limits(limits: server::AddressLimits, test: impl FnOnce(u16, &Service)) {
    let config = ServerConfig {
        max_clients: 1,
        limits,
        ..ServerConfig::default()
    };
    with_config(config, RespSettings::default(), test);
}

fn with_config(config: ServerConfig, settings: RespSettings, test: impl FnOnce(u16, &Service)) {
    let common = CommonSettings {
        port: testkit::free_port(),
        ..CommonSettings::default()
    };
    let settings = RespSettings {
        common: common.clone(),
        ..settings
    };
    let stop = Stop::new();
    let service = Service::new(config, stop.clone());
    let (listeners, _) = udpmon::server::listen(&common).unwrap();
    std::thread::scope(|scope| {
        let server_thread = scope.spawn(|| {
            udpmon::server::serve(listeners, &settings, &service, &|line| eprintln!("{line}"));
        });
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(common.port, &service)));
        stop.set(StopReason::Cancelled);
        server_thread.join().unwrap();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn common(port: u16) -> CommonSettings {
    CommonSettings {
        port,
        ..CommonSettings::default()
    }
}

#[test]
fn linerate_ends_exchange_exact_figures() {
    with_responder(|port| {
        let settings = BwMonSettings {
            common: common(port),
            histograms: true,
            records_kernel_and_nic_stamps: true,
            extended: true,
            records: Some(RecordRequest {
                kind: RecordKind::All,
                skip: 2,
                count: 60,
            }),
            ..BwMonSettings::default()
        };
        let mut load = TestLoad {
            datagrams: 50,
            ..TestLoad::default()
        };
        load = load.with_size_and_gap(200, Duration::from_micros(100));
        let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
        for _ in 0..2 {
            let test = requester
                .run_throughput_test(&settings, &load, &Stop::new())
                .unwrap();
            assert_eq!(
                (test.sent, test.receiver_counts.received, test.timeouts),
                (50, 50, 0)
            );
            let delivery = test.delivery.unwrap();
            assert_eq!(
                [
                    delivery.received,
                    delivery.lost,
                    delivery.lost_at_end,
                    delivery.late,
                    delivery.repeated
                ],
                [50, 0, 0, 0, 0]
            );
            assert_eq!(
                (delivery.source, test.arrival_clock),
                (DeliverySource::Responder, Some(StampSource::Kernel))
            );
            assert_eq!(test.histograms.len(), 5);
            let gaps = &test.histograms[0];
            assert_eq!(gaps.binned_count() + gaps.underflow() + gaps.overflow(), 49);
            let Some(RecordRows::All(rows)) = test.records.map(|records| records.rows) else {
                panic!("no records");
            };
            assert_eq!(rows.iter().filter(|row| row.arrival > 0).count(), 48);
            assert!(rows[0].kernel_ns > 0 && rows[59].arrival == 0);
            assert_eq!(test.outcome.packets.len(), 48);
            let fit = test.outcome.clock_fit.unwrap();
            for packet in &test.outcome.packets {
                let delay_ns = packet.one_way_delay_ns.unwrap();
                assert!(delay_ns.unsigned_abs() < 50_000_000, "{delay_ns} {fit:?}");
            }
            let lo = test
                .remote_host
                .counters
                .interfaces
                .iter()
                .find(|interface| interface.name == *"lo");
            assert!(lo.unwrap().values[0] >= 50 && !test.remote_host.cpus.is_empty());
        }
    });
}

/// The requester stops sending immediately, and its error contains the responder's reason.
#[test]
fn reports_why_the_responder_ended_a_test() {
    with_limits(server::AddressLimits::default(), |port, service| {
        let settings = BwMonSettings {
            common: common(port),
            ..BwMonSettings::default()
        };
        let mut load = TestLoad {
            time: Some(Duration::from_secs(3600)),
            ..TestLoad::default()
        };
        load = load.with_size_and_gap(100, Duration::from_millis(1));
        std::thread::scope(|scope| {
            let first_test = scope.spawn(|| {
                let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
                requester
                    .run_throughput_test(&settings, &load, &Stop::new())
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
            let mut second_requester =
                Requester::open(&settings.common, "127.0.0.1", None).unwrap();
            let test = second_requester
                .run_throughput_test(&settings, &TestLoad::default(), &Stop::new())
                .unwrap();
            assert_eq!(test.receiver_counts.received, 2);
            let error = first_test.join().unwrap().to_string();
            assert!(
                error.ends_with("another test from the same host started"),
                "{error}"
            );
        });
    });
}

/// Another requester of the host, or a forged request, comes before the requester has proved its
/// address.
#[test]
fn another_request_of_the_host_does_not_disturb_the_begin() {
    with_responder(|port| {
        let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
        let settings = common(relay.local_addr().unwrap().port());
        let run_relay = || {
            let (inner, other) = (stock_socket(port), stock_socket(port));
            let mut requester = None;
            for number in 0.. {
                let mut datagram = [0; 2048];
                let (length, from) = relay.recv_from(&mut datagram).unwrap();
                if length == 1 {
                    return;
                }
                requester = requester.or(Some(from));
                inner.send(&datagram[..length]).unwrap();
                let command = MessageBlock::read(&datagram).and_then(|block| block.command());
                let mut forward = || {
                    let length = inner.recv(&mut datagram).unwrap();
                    relay.send_to(&datagram[..length], from).unwrap();
                };
                match command {
                    Some(Command::ZeroStats) if number == 0 => {
                        forward();
                        // It may have a forged source. The first request has no session to end.
                        let reply = request(&other, MessageBlock::with_command(Command::ZeroStats));
                        let answer = MessageBlock::read(&reply).and_then(|block| block.command());
                        assert_eq!(answer, Some(Command::Ok));
                    }
                    Some(Command::Data) | None => {}
                    _ => forward(),
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(run_relay);
            let mut requester = Requester::open(&settings, "127.0.0.1", None).unwrap();
            let test = requester.run_latency_test(&ReqSettings::default(), 100, &Stop::new());
            let stop_relay = UdpSocket::bind("127.0.0.1:0").unwrap();
            stop_relay
                .send_to(b"x", relay.local_addr().unwrap())
                .unwrap();
            test.unwrap();
        });
    });
}

#[test]
fn responses_have_the_requested_length() {
    with_responder(|port| {
        let settings = ReqSettings {
            common: common(port),
            ..ReqSettings::default()
        };
        let mut requester = Requester::open(&settings.common, "127.0.0.1", None).unwrap();
        for bytes in [64, 128, 9000] {
            let result = requester
                .run_latency_test(&settings, bytes, &Stop::new())
                .unwrap();
            assert_eq!((result.requests, result.timeouts), (10, 0));
            assert_eq!(
                result.outcome.local.counts.received.0,
                10 * u64::from(bytes)
            );
        }
    });
}

/// A stock requester on another port of the same host replaces the first one. Invalid requests get
/// no answer or a short one.
/// Returns the socket of a stock requester.
fn stock_socket(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

/// Sends a request and returns the reply.
fn request(socket: &UdpSocket, block: MessageBlock) -> Vec<u8> {
    socket.send(&block.encode()).unwrap();
    let mut reply = vec![0; 1 << 16];
    let length = socket.recv(&mut reply).unwrap();
    reply.truncate(length);
    reply
}

/// 1 MiB is sufficient for four sessions.
#[test]
fn sessions_are_charged_to_the_memory() {
    let mut settings = RespSettings::default();
    settings.limits.memory_bytes = 1 << 20;
    let config = ServerConfig {
        max_clients: 16,
        ..ServerConfig::default()
    };
    with_config(config, settings, |port, _| {
        let sockets: Vec<UdpSocket> = (0..5).map(|_| stock_socket(port)).collect();
        let answer = |socket| {
            let reply = request(socket, MessageBlock::with_command(Command::ZeroStats));
            MessageBlock::read(&reply).unwrap().command()
        };
        let answers: Vec<_> = sockets.iter().map(answer).collect();
        let (admitted, refused) = (Some(Command::Ok), Some(Command::InUse));
        assert_eq!(answers, [admitted, admitted, admitted, admitted, refused]);
    });
}

#[test]
fn stock_requests_are_answered_within_bounds() {
    with_responder(|port| {
        let (first, second) = (stock_socket(port), stock_socket(port));
        // Without a test, the responder ignores GETSTATS and answers TESTEND.
        first
            .send(&MessageBlock::with_command(Command::GetStats).encode())
            .unwrap();
        assert_eq!(
            request(&first, MessageBlock::with_command(Command::TestEnd)).len(),
            208
        );
        let zero_stats = MessageBlock {
            length: u32::MAX,
            skip: u32::MAX,
            low: i32::MIN,
            width: -1,
            lost_only: 7,
            stamps: 9,
            ..MessageBlock::with_command(Command::ZeroStats)
        };
        for socket in [&first, &first, &second] {
            let reply = MessageBlock::read(&request(socket, zero_stats)).unwrap();
            assert_eq!((reply.command(), reply.version), (Some(Command::Ok), 7));
        }
        let slice = |command, low, offset, length| {
            let block = MessageBlock {
                low,
                offset,
                length,
                ..MessageBlock::with_command(command)
            };
            request(&second, block)
        };
        assert_eq!(slice(Command::GetHistogram, 4, 8000, 1400).len(), 1400);
        assert_eq!(slice(Command::GetRecords, 0, u32::MAX, 1408), [0; 1408]);
        assert_eq!(slice(Command::GetCounters, 0, u32::MAX, 288), [0; 288]);
        assert_eq!(slice(Command::GetNic, 0, 0, 0), [0; 0]);
        for (command, low, length) in [
            (Command::GetHistogram, 5, 100),
            (Command::GetHistogram, -1, 100),
            (Command::GetRecords, 0, u32::MAX),
            (Command::Fetch, 0, 100),
            (Command::InUse, 0, 0),
        ] {
            let block = MessageBlock {
                low,
                length,
                ..MessageBlock::with_command(command)
            };
            second.send(&block.encode()).unwrap();
        }
        let reply = MessageBlock::read(&request(
            &second,
            MessageBlock::with_command(Command::GetStats),
        ))
        .unwrap();
        assert_eq!((reply.received, reply.first_to_last), (0, 0));
        let answer = slice(Command::Request, 0, 0, 70_000);
        assert_eq!(answer.len(), 65_507);
        assert_eq!(
            request(&second, MessageBlock::with_command(Command::TestEnd)).len(),
            208
        );
    });
}

#[test]
fn a_receiver_counts_sent_datagrams() {
    let common = common(testkit::free_port());
    let stop = &Stop::new();
    let record_request = RecordRequest {
        kind: RecordKind::All,
        skip: 0,
        count: 12,
    };
    let settings = RecvSettings {
        common: common.clone(),
        interval: Some(Duration::from_millis(300)),
        records: Some(record_request),
        ..RecvSettings::default()
    };
    let (ready_sender, ready_receiver) = std::sync::mpsc::channel();
    let mut snapshots = Vec::new();
    std::thread::scope(|scope| {
        let snapshots = &mut snapshots;
        scope.spawn(move || {
            receiver::run(&settings, stop, &mut |event| match event {
                ReceiverEvent::Opened(_) => ready_sender.send(()).unwrap(),
                ReceiverEvent::Snapshot(snapshot) => snapshots.push(snapshot),
            })
            .unwrap();
        });
        ready_receiver.recv().unwrap();
        let settings = SendSettings {
            common,
            host: "127.0.0.1".to_owned(),
            ..SendSettings::default()
        };
        let load = TestLoad {
            datagrams: 10,
            ..TestLoad::default()
        };
        let load = load.with_size_and_gap(200, Duration::from_millis(1));
        let sent = LoadSender::open(&settings)
            .unwrap()
            .send(&settings, &load, stop)
            .unwrap();
        assert_eq!((sent.sent, sent.outcome.local.counts.sent.0), (10, 2000));
        stop.set(StopReason::Cancelled);
    });
    let last = snapshots.last().unwrap();
    assert_eq!((last.total.received.received, last.total.bytes), (10, 2000));
    assert_eq!(
        snapshots
            .iter()
            .map(|snapshot| snapshot.delta.bytes)
            .sum::<u64>(),
        2000
    );
    assert!(last.total.received.elapsed > Duration::ZERO);
    let Some(RecordRows::All(rows)) = last.records.as_ref().map(|records| &records.rows) else {
        panic!("no records");
    };
    assert_eq!((rows.len(), rows[0].arrival, rows[10].arrival), (12, 0, 0));
    let gaps = &last.histograms[0];
    assert!(rows[9].arrival > 0 && gaps.binned_count() + gaps.overflow() == 9);
}
