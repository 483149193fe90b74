//! What the stock programs printed, printed again from results that were made by hand. `data/stdout.txt` has it all, but
//! for lines of empty bins.

use std::time::{Duration, SystemTime};

use codec::Text;
use model::{Ended, Outcome, Plan, Side, Spacing};
use stats::ClockFit;
use udpmon::options::{Common, Load};
use udpmon::output::{self, Calibration, Program, csv, remarks};
use udpmon::result::{
    Buffers, ByOrder, Fate, HostUse, Interval, Latency, Opened, RecordRows, Records, Sending,
    Snapshot, Throughput,
};
use udpmon::steps::{Evidence, Found, Why};
use udpmon::wire::{
    Binning, CpuLoad, Histogram, HostCounters, InterfaceCounters, LostRecord, NicCounters,
    PacketRecord, ProtocolCounters,
};

const PRINTED: &str = include_str!("data/stdout.txt");

/// What one run printed.
fn run(name: &str) -> &'static str {
    let (_, rest) = PRINTED.split_once(&format!("==== {name}\n")).expect(name);
    rest.split("==== ").next().unwrap()
}

/// A line of it that begins so.
fn line(name: &str, begin: &str) -> String {
    let found = run(name).lines().find(|line| line.starts_with(begin));
    found
        .unwrap_or_else(|| panic!("{name}: {begin}"))
        .to_owned()
        + "\n"
}

/// A text without its lines of empty bins.
fn packed(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.ends_with(" ; 0"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn tenths(tenths_of_us: u64) -> Duration {
    Duration::from_nanos(tenths_of_us * 100)
}

/// A test whose times are in 0.1 µs.
type Times = (u32, u64, (u64, u64), [u64; 4]);

fn test((bytes, gap, (sent, send_time), received): Times) -> Throughput {
    let [received, lost, bad_order, elapsed] = received;
    Throughput {
        load: Load {
            bytes,
            spacing: Spacing {
                gap: tenths(gap),
                ..Load::default().spacing
            },
            ..Load::default()
        },
        outcome: outcome(),
        sent,
        send_time: tenths(send_time),
        timeouts: 0,
        received: ByOrder {
            received,
            lost,
            bad_order,
            elapsed: tenths(elapsed),
        },
        fate: None,
        histograms: Vec::new(),
        here: HostUse::default(),
        there: HostUse::default(),
        records: None,
        arrivals: None,
        details: None,
    }
}

fn outcome() -> Outcome {
    let side = Side::default();
    Outcome::of_flow(
        Plan::default(),
        SystemTime::UNIX_EPOCH,
        side,
        None,
        Ended::Count,
    )
}

#[test]
fn result_lines() {
    for (name, begin, times) in [
        (
            "bw-basic",
            " 200; 10;",
            (200, 1000, (10, 10_000), [10, 0, 0, 89]),
        ),
        (
            "bw-t-time",
            " 1400; ",
            (1400, 1000, (9902, 9_995_260), [9902, 0, 0, 9_994_410]),
        ),
        (
            "bw-r-rate",
            " 1400; ",
            (1400, 373, (200, 75_100), [200, 0, 0, 74_463]),
        ),
        (
            "bw-g-burst",
            " 1400; ",
            (1400, 200, (150, 10_110), [150, 0, 0, 43_196]),
        ),
        (
            "bw-G-loss-reorder-dup",
            " 200; ",
            (200, 2000, (12, 24_000), [11, 3, 2, 2720]),
        ),
        (
            "bw-L-lost-log",
            " 200; ",
            (200, 2000, (12, 24_000), [9, 4, 1, 55]),
        ),
    ] {
        let found = output::bw_mon_line(&test(times), false);
        assert_eq!(found, line(name, begin), "{name}");
        assert!(run(name).contains(&output::bw_mon_titles(None)), "{name}");
    }
}

/// Stock takes nothing for one datagram, which makes a loss of all one of 80 per cent.
#[test]
fn nothing_that_came_is_nothing() {
    let line = output::bw_mon_line(&test((64, 1000, (5, 5000), [0; 4])), false);
    assert_eq!(
        line,
        " 64; 5;  100;  5.12; 0; 0; 0; 1e+02; 0; 0;  0;  0;  \n"
    );
}

#[test]
fn quiet_lines() {
    let opened = Opened {
        peer_name: "127.0.0.1".to_owned(),
        peer_address: "127.0.0.1".to_owned(),
        local_address: "127.0.0.1".to_owned(),
        node: "hostname".to_owned(),
        ..Opened::default()
    };
    for (second, times) in [
        (13, (1400, 0, (200, 18_840), [200, 0, 0, 18_360])),
        (14, (1400, 100, (200, 23_450), [195, 0, 0, 24_151])),
        (15, (1400, 200, (200, 41_640), [104, 0, 0, 42_476])),
        (16, (1400, 300, (200, 60_990), [200, 0, 0, 61_675])),
    ] {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_000 + second);
        let prefix = output::quiet_prefix(started, &opened);
        let found = prefix.clone() + &output::bw_mon_line(&test(times), false);
        assert_eq!(found, line("bw-q-quiet-scan", &prefix));
    }
}

/// A host with one interface that moved as many packets each way, with so many bytes.
fn host(cpus: &[[u64; 7]], packets: i64, bytes: i64) -> HostUse {
    let load = |[user, nice, system, idle, iowait, irq, softirq]: &[u64; 7]| CpuLoad {
        user: *user,
        nice: *nice,
        system: *system,
        idle: *idle,
        iowait: *iowait,
        irq: *irq,
        softirq: *softirq,
        ..CpuLoad::default()
    };
    let interface = InterfaceCounters {
        name: Text::cut("lo"),
        values: [packets, bytes, 0, 0, packets, bytes, 0, 0],
    };
    let protocols = ProtocolCounters {
        ip_in_receives: packets,
        ip_out_requests: packets,
        udp_in_datagrams: packets,
        udp_out_datagrams: packets,
        ip6_in_receives: packets,
        ip6_out_requests: packets,
        udp6_in_datagrams: packets,
        udp6_out_datagrams: packets,
        ..ProtocolCounters::default()
    };
    HostUse {
        cpus: cpus.iter().map(load).collect(),
        counters: HostCounters {
            interfaces: vec![interface],
            protocols,
            is_v6: false,
        },
        nic: NicCounters::default(),
    }
}

const BUSY: [u64; 7] = [0, 0, 100, 0, 0, 0, 100];
const IDLE: [u64; 7] = [0, 0, 0, 100, 0, 0, 0];
const NONE: [u64; 7] = [0; 7];

#[test]
fn long_lines() {
    let mut of_v4 = test((1400, 500, (20, 10_000), [20, 0, 0, 213]));
    (of_v4.here, of_v4.there) = (host(&[NONE; 3], 20, 28_560), host(&[IDLE; 3], 22, 29_032));
    let mut arrivals = Histogram::of_responder(Binning::default()).swap_remove(0);
    for value in [6, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 11, 11, 22, 40] {
        arrivals.record(value);
    }
    of_v4.histograms = vec![arrivals];
    assert_eq!(output::bw_mon_line(&of_v4, true), line("bw-x", " 1400;"));
    let titles = output::bw_mon_titles(Some((&of_v4.here, &of_v4.there)));
    assert_eq!(titles, line("bw-x", "  pkt len"));

    let there = [
        [10, 0, 56, 34, 0, 0, 1],
        [7, 0, 51, 41, 0, 0, 2],
        [11, 0, 60, 27, 0, 0, 0],
    ];
    let mut of_v6 = test((200, 1000, (10, 10_010), [10, 0, 0, 9059]));
    of_v6.here = host(&[BUSY, NONE, BUSY], 10, 2480);
    of_v6.there = host(&there, 12, 2992);
    for host in [&mut of_v6.here, &mut of_v6.there] {
        host.counters.is_v6 = true;
    }
    of_v6.histograms = Histogram::of_responder(Binning::default())[..1].to_vec();
    // Stock takes the headers of IPv4, and prints the values in another order than their titles.
    let stock = line("bw-ipv6-x", " 200;")
        .replace("23.4905", "25.2567")
        .replace("snmp6; 10; 0; 10; 0; 10;", "snmp6; 0; 10; 0; 10; 10;")
        .replace("snmp6; 12; 0; 12; 0; 12;", "snmp6; 0; 12; 0; 12; 12;");
    assert_eq!(output::bw_mon_line(&of_v6, true), stock);
    let titles = output::bw_mon_titles(Some((&of_v6.here, &of_v6.there)));
    assert_eq!(titles, line("bw-ipv6-x", "  pkt len"));
}

#[test]
fn counters_of_an_interface() {
    let mut test = test((200, 0, (1, 10), [1, 9, 0, 10]));
    test.there.nic = NicCounters {
        values: [1, 2, 3, 4, 5, 6, 7, -1, 2, 0, 0, 0],
        name: Text::cut("eth0"),
        count: 9,
    };
    test.there.counters.protocols.udp_in_errors = 3;
    let line = output::bw_mon_line(&test, true);
    let end = " R NIC; eth0; 1; 2; 3; 4; 5; 6; 7; -; 2;  \n";
    assert!(line.ends_with(end), "{line}");
    // A responder that listens on IPv6 may serve a requester of IPv4.
    test.there.counters.is_v6 = true;
    let of_v4 = output::bw_mon_line(&test, false);
    assert!(of_v4.ends_with("; 4; 4e+02;  1600;  2128;  \n"), "{of_v4}");
    assert!(line.contains("; 1; 9; 0; 0; 4; 4e+02; "), "{line}");
}

#[test]
fn histograms() {
    let stock = |name: &str| {
        let (_, rest) = run(name).split_once("Hist        0").unwrap();
        let end = rest.find("recv_time ipg").or(rest.find(" num packets"));
        format!("Hist        0{}", &rest[..end.unwrap()])
    };
    let mut all = Histogram::of_responder(Binning::default());
    let print = |all: &[Histogram]| -> String { all.iter().map(output::histogram).collect() };
    let empty = print(&all[..1]);
    assert_eq!(empty.lines().count(), 152);
    assert!(empty.ends_with("148 ; 0\n149 ; 0\n"));
    for value in [7, 8, 23].into_iter().chain([150; 8]) {
        all[0].record(value);
    }
    (1..=2).for_each(|value| all[1].record(value));
    (0..=1).for_each(|value| all[2].record(value));
    assert_eq!(packed(&print(&all[..3])), stock("bw-G-loss-reorder-dup"));

    let mut all = Histogram::of_responder(Binning::default());
    (0..10).for_each(|_| all[0].record(1000));
    assert_eq!(packed(&print(&all)), stock("bw-N-tstamps"));
    assert!(print(&all[3..4]).ends_with("\n37000 ; 0\n37250 ; 0\n"));
}

/// The rows that a run printed: arrival, departure and the stamps, or the missing number.
fn rows(name: &str, columns: [usize; 4]) -> Vec<[i64; 4]> {
    let (_, rest) = run(name).split_once("num packets skipped").unwrap();
    let rows = rest.split('\n').skip(2).flat_map(|line| line.split("/n"));
    rows.filter(|row| row.contains(';'))
        .map(|row| {
            let fields: Vec<&str> = row.split(';').map(str::trim).collect();
            columns.map(|at| {
                fields
                    .get(at)
                    .and_then(|field| field.parse().ok())
                    .unwrap_or(0)
            })
        })
        .collect()
}

/// Stock's line `own = slope × there + offset`, in µs.
fn clock(slope: f64, offset_us: f64) -> ClockFit {
    let skew = 1.0 - slope;
    let whole_us = if skew == 0.0 { 0.0 } else { offset_us.trunc() };
    // What is no whole number of microseconds is in the time from which the skew counts.
    let rest_ns = (offset_us - whole_us) * 1e3;
    ClockFit {
        at_ns: if skew == 0.0 {
            0
        } else {
            (rest_ns / skew) as i64
        },
        offset_ns: if skew == 0.0 {
            -rest_ns as i64
        } else {
            -(whole_us * 1e3) as i64
        },
        offset_error_ns: 0,
        skew_ppm: Some(skew * 1e6),
        skew_error_ppm: 0.0,
        least_rtt_ns: 0,
        exchanges: 200,
    }
}

fn records(name: &str) -> &'static str {
    let text = run(name);
    &text[text.find(" num packets skipped").unwrap()..]
}

#[test]
fn records_of_all_packets() {
    for (name, skip, slope, offset_us) in [
        ("bw-G-hist", 2, 1.000_214_671, -804.036_72),
        ("bw-G-loss-reorder-dup", 0, 1.000_027_392_665, -807.743_81),
        ("bw-N-tstamps", 0, 0.999_882_056_75, -786.568_765),
    ] {
        let mut packets: Vec<PacketRecord> = rows(name, [1, 2, 10, 11])
            .into_iter()
            .map(|[came, sent, kernel, hardware]| PacketRecord {
                came,
                sent,
                kernel_ns: kernel as u64,
                hardware_ns: hardware as u64,
            })
            .collect();
        if name == "bw-N-tstamps" {
            // The first line does not show it.
            packets[0].kernel_ns = packets[1].kernel_ns - 96_768;
        }
        let found = output::arrival_records(&Records {
            skip,
            rows: RecordRows::All(packets),
            clock: Some(clock(slope, offset_us)),
        });
        assert_eq!(found, records(name), "{name}");
    }
}

#[test]
fn records_of_lost_packets() {
    let rows = rows("bw-L-lost-log", [1, 2, 5, 0]).into_iter();
    let lost = rows.map(|[came, sent, number, _]| LostRecord { came, sent, number });
    let found = output::arrival_records(&Records {
        skip: 0,
        rows: RecordRows::Lost(lost.collect()),
        clock: Some(clock(1.0, -1072.92)),
    });
    assert_eq!(found, records("bw-L-lost-log"));
}

/// Stock ends these lines with the characters `/n`, and prints differences in 0.1 µs under a title that says µs.
#[test]
fn records_of_a_receiver() {
    let packets = rows("recv-G-H", [1, 2, 0, 0]).into_iter();
    let packets = packets.map(|[came, sent, number, _]| match number {
        11 | 12 => PacketRecord::default(),
        // Stock's time zero is the first packet's.
        _ => PacketRecord {
            came: came + 5,
            sent: sent + 7,
            ..PacketRecord::default()
        },
    });
    let mut packets: Vec<_> = packets.collect();
    packets.truncate(12);
    for unused in &mut packets[10..] {
        *unused = PacketRecord::default();
    }
    let found = output::recv_records(&Records {
        skip: 0,
        rows: RecordRows::All(packets),
        clock: None,
    });
    let text = run("recv-G-H");
    let stock = text[text.find("recv_time ipg").unwrap()..].replace("/n", "\n");
    let tenth = |field: &str| match field.trim().parse::<f64>() {
        Ok(tenths) => field.replace(field.trim(), &(tenths / 10.0).to_string()),
        Err(_) => field.to_owned(),
    };
    let stock: String = stock
        .lines()
        .enumerate()
        .map(|(at, row)| {
            let fields = row
                .split(';')
                .enumerate()
                .map(|(column, field)| match column {
                    5 | 6 if at > 2 => tenth(field),
                    _ => field.to_owned(),
                });
            fields.collect::<Vec<_>>().join(";") + "\n"
        })
        .collect();
    assert_eq!(found, stock);
}

#[test]
fn latencies() {
    let text = run("req-scan-hist");
    let stock = &text[text.find("response len").unwrap()..];
    let mut found = output::req_titles().to_owned();
    for (response_bytes, elapsed, times_ns) in [
        (64, 2380, [16_530, 27_000, 27_500, 58_358, 107_382]),
        (128, 1310, [17_980, 18_235, 27_300, 27_700, 38_470]),
    ] {
        let mut outcome = outcome();
        let mut latency = stats::Histogram::default();
        let mut times = Histogram::new(0, "Time per req-resp us", 0, 1, 150);
        for ns in times_ns {
            latency.record(ns);
            times.record((ns / 1000) as i64);
        }
        outcome.here.latency = Some(latency);
        let of_length = Latency {
            request_bytes: 64,
            response_bytes,
            outcome,
            requests: 5,
            timeouts: 0,
            elapsed: tenths(elapsed),
            times,
        };
        found += &output::req_line(&of_length);
        found += &packed(&output::latency_histogram(&of_length.times));
    }
    assert_eq!(found, stock);
}

#[test]
fn lines_of_a_sender() {
    let found = Sending {
        load: test((200, 1000, (0, 0), [0; 4])).load,
        outcome: outcome(),
        sent: 10,
        send_time: tenths(11_750),
        here: host(&[NONE; 3], 10, 2280),
    };
    assert_eq!(output::send_line(&found), line("send", " 200; 10"));
    assert_eq!(output::send_titles(3, false), line("send", "  pkt len"));
}

#[test]
fn lines_of_a_receiver() {
    let look = |second: u64, received, bytes, elapsed: f64, host| {
        let delta = Interval {
            received: ByOrder {
                received,
                elapsed: Duration::from_secs_f64(elapsed * 1e-6),
                ..ByOrder::default()
            },
            bytes,
            host,
            ..Interval::default()
        };
        Snapshot {
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_228 + second),
            total: delta.clone(),
            delta,
            histograms: Vec::new(),
            records: None,
        }
    };
    let [idle, busy] = [
        [[4, 0, 0, 95, 0, 0, 0], [9, 0, 0, 90, 0, 0, 0], IDLE],
        [
            [38, 0, 0, 61, 0, 0, 0],
            [0, 0, 0, 98, 0, 0, 0],
            [75, 0, 0, 24, 0, 0, 0],
        ],
    ];
    let check = |number, look: &Snapshot| {
        let since = Duration::from_secs(2 * number);
        let found = output::recv_line(number, since, look);
        assert_eq!(found, line("recv-T-snapshots", &format!(" {number}; 17")));
    };
    check(0, &look(0, 0, 0, 0.0, host(&idle, 0, 0)));
    let busy = host(&busy, 1496, 2_136_288);
    check(1, &look(2, 1496, 2_094_400, 1_492_167.0, busy));
    let titles = output::recv_titles(3, false);
    assert_eq!(titles, line("recv-T-snapshots", "num;"));
    let table = output::recv_table(&look(0, 10, 2000, 738.631, HostUse::default()));
    assert_eq!(table.lines().count(), 13);
    assert!(
        table.contains("User data rate Mbit/s ;        21.6617;        21.6617;\n"),
        "{table}"
    );
}

#[rustfmt::skip]
#[test]
fn preambles() {
    let buffers = |bytes| Buffers {
        receive: bytes,
        send: bytes,
        type_of_service: 0,
    };
    let opened = Opened {
        cpus: (3, 3),
        default: buffers(212_992),
        set: buffers(65_535),
        peer_name: "127.0.0.1".to_owned(),
        peer_address: "127.0.0.1".to_owned(),
        ..Opened::default()
    };
    for (name, program, words, wait_us) in [
        ("bw-basic", Program::BwMon, "./udpmon_bw_mon -d 127.0.0.1 -p 200 -l 10 -w 100 ", 0.0222),
        ("req-scan-hist", Program::Req, "./udpmon_req -d 127.0.0.1 -p 64 -r 64 -e 128 -i 64 -l 5 -H ", 0.0233),
        ("send", Program::Send, "./udpmon_send -d 127.0.0.1 -p 200 -l 10 -w 100 ", 0.0204),
        ("recv-T-snapshots", Program::Recv, "./udpmon_recv -t 9 -T 2 ", 0.0),
    ] {
        let calibration = Calibration {
            read_us: 0.0004,
            wait_us,
        };
        let common = Common {
            command_line: words.to_owned(),
            ..Common::default()
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_000);
        let found = output::preamble(program, &common, now, &opened, &calibration, 0);
        // The speed of the CPU and its clock's ticks are not measured.
        let measured = |line: &&str| !line.starts_with("CPU speed") && !line.starts_with("clock ticks");
        let stock = run(name).lines().filter(measured);
        for (at, (found, stock)) in found.lines().filter(measured).zip(stock).enumerate() {
            // The date depends on the time zone.
            let from = if at == 0 { 26 } else { 0 };
            assert_eq!(found[from..], stock[from..], "{name}");
        }
        assert!(found.lines().count() >= 6, "{found}");
    }
}

#[test]
fn remarks_have_what_stock_does_not_know() {
    let mut of = test((200, 2000, (12, 24_000), [11, 3, 2, 20_000]));
    let text = remarks::of_test(&of, None);
    assert!(
        text.starts_with("# corrected: tail 0; 2 came late or again"),
        "{text}"
    );
    of.fate = Some(Fate {
        received: 10,
        lost: 2,
        late: 1,
        repeated: 1,
        ..Fate::default()
    });
    let text = remarks::of_test(&of, None);
    let expected = "# corrected: received 10; lost 2; tail 0; late 1; repeated 1 (by the responder)\n# rates: sent ";
    assert!(text.starts_with(expected), "{text}");
    // In order, stock's own sums show it all.
    let text = remarks::of_test(&test((64, 0, (100, 1000), [95, 0, 0, 1000])), None);
    assert!(
        text.contains("received 95; lost 0; tail 5; late 0; repeated 0 (by the sums)"),
        "{text}"
    );

    let [carried, refused] = [(0, 0), (8, 1)].map(|(lost, dropped)| Evidence {
        bytes: 1000,
        sent: 101,
        lost,
        dropped,
        departures: Duration::from_millis(10),
        arrivals: Duration::from_millis(10),
    });
    let step = remarks::step(2, Some(8e7), &refused, false);
    let expected = "# search 2: asked 80 Mbit/s; sent 80 Mbit/s; delivered 73.6 Mbit/s; lost 8 of 101, and the \
                    responder's socket dropped 1; arrivals +0.00 %: not carried\n";
    assert_eq!(step, expected);
    let mut found = Found {
        rate: Some(8e7),
        carried: Some(carried),
        refused: Some(refused),
        why: Why::Precise,
        tests: 5,
    };
    let text = remarks::found(&found, 1000, false);
    let begin = "# highest loss-free rate: 80 Mbit/s of payload, 82.24 Mbit/s of IP, 85.28 Mbit/s on the wire; lost 0 of 101";
    assert!(
        text.starts_with(begin) && text.contains("not of the path"),
        "{text}"
    );
    found.rate = None;
    assert!(remarks::found(&found, 1000, false).contains("none"));
}

/// Each line has as many values as there are names.
#[test]
fn comma_separated_values() {
    let mut of = outcome();
    of.packets = vec![model::PacketRecord {
        number: 7,
        bytes: 200,
        sent: Some(Duration::from_micros(1)),
        ..model::PacketRecord::default()
    }];
    assert_eq!(csv::packets(1, &of), "1,7,200,1000,,\n");
    assert_eq!(csv::PACKETS.matches(',').count(), 5);
    let row = csv::throughput(&test((200, 1000, (10, 10_000), [10, 0, 0, 9000])));
    let (names, values) = (csv::titles(&row), csv::values(&row));
    assert_eq!(names.split(',').count(), values.split(',').count());
    assert!(
        values.contains(",200,0.000100000,10,0.001000000,10,0,0,0.000900000,10,0,0,0,0,"),
        "{values}"
    );
}

/// A peer may send anything.
#[test]
fn absurd_numbers_are_printed() {
    let odd = [0, 1, -1, i64::MAX, i64::MIN, 5, i64::MIN];
    let packets = odd.iter().zip(odd.iter().rev());
    let packets = packets.map(|(came, sent)| PacketRecord {
        came: *came,
        sent: *sent,
        kernel_ns: *came as u64,
        hardware_ns: *sent as u64,
    });
    let of = |rows| Records {
        skip: u32::MAX,
        rows,
        clock: Some(clock(0.5, 1e9)),
    };
    let packets = of(RecordRows::All(packets.collect()));
    let lost = odd.map(|number| LostRecord {
        came: number,
        sent: -1,
        number,
    });
    let lost = of(RecordRows::Lost(lost.to_vec()));
    for records in [packets, lost] {
        assert!(output::arrival_records(&records).lines().count() > 7);
        assert!(output::recv_records(&records).lines().count() > 7);
    }
    let mut all = Histogram::new(9, "absurd", i32::MIN, i32::MAX, 998);
    (all.counts, all.sum) = ([u64::MAX; 1000], i64::MIN);
    assert!(output::latency_histogram(&all).contains("Hist        9 absurd"));
    let mut of = test((16, 0, (u64::MAX, 0), [u64::from(u32::MAX); 4]));
    of.histograms = vec![all];
    of.here = host(&[[u64::MAX; 7]], i64::MIN, i64::MAX);
    of.there = host(&[], i64::MAX, -1);
    assert!(output::bw_mon_line(&of, true).ends_with(";  \n"));
    assert!(remarks::of_test(&of, None).starts_with("# corrected"));
}
