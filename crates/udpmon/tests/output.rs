//! Compares the output of hand-built results with the recorded output of the stock programs.
//! `data/stdout.txt` has the recorded output without the lines of empty bins.

use std::time::{Duration, SystemTime};

use codec::Text;
use model::{EndCause, Outcome, Plan, Side, Spacing};
use stats::ClockFit;
use udpmon::options::{CommonSettings, TestLoad};
use udpmon::output::{self, ClockCost, Program, csv, remarks};
use udpmon::result::{
    DeliveryCounts, EndpointInfo, HostActivity, IntervalCounts, LatencyResult, RecordRows, Records,
    SendResult, Snapshot, SocketBuffers, StockCounts, ThroughputResult,
};
use udpmon::sequence::{PathEvidence, SearchEnd, SearchResult};
use udpmon::wire::{
    ArrivalRecord, Binning, CpuLoad, HostCounters, InterfaceCounters, LinearHistogram, LostRecord,
    NicCounters, ProtocolCounters,
};

const RECORDED: &str = include_str!("data/stdout.txt");

/// Returns the recorded output of a run.
fn run_output(name: &str) -> &'static str {
    let (_, after) = RECORDED.split_once(&format!("==== {name}\n")).expect(name);
    after.split("==== ").next().unwrap()
}

/// Returns the first line with this prefix in the output of a run.
fn stock_line(name: &str, prefix: &str) -> String {
    let found = run_output(name)
        .lines()
        .find(|line| line.starts_with(prefix));
    found
        .unwrap_or_else(|| panic!("{name}: {prefix}"))
        .to_owned()
        + "\n"
}

/// Returns the text without the lines of empty bins.
fn without_empty_bins(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.ends_with(" ; 0"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn tenths(tenths_of_us: u64) -> Duration {
    Duration::from_nanos(tenths_of_us * 100)
}

/// The figures of a test: payload, gap, (sent datagrams, send time), and \[received, lost, bad
/// order, elapsed\]. Times are in 0.1 µs.
type TestFigures = (u32, u64, (u64, u64), [u64; 4]);

fn throughput_result((bytes, gap, (sent, send_time), counts): TestFigures) -> ThroughputResult {
    let [received, lost, bad_order, elapsed] = counts;
    ThroughputResult {
        load: TestLoad {
            bytes,
            spacing: Spacing {
                gap: tenths(gap),
                ..TestLoad::default().spacing
            },
            ..TestLoad::default()
        },
        outcome: outcome(),
        sent,
        send_time: tenths(send_time),
        timeouts: 0,
        receiver_counts: StockCounts {
            received,
            lost,
            bad_order,
            elapsed: tenths(elapsed),
        },
        delivery: None,
        histograms: Vec::new(),
        local_host: HostActivity::default(),
        remote_host: HostActivity::default(),
        records: None,
        arrival_clock: None,
        details: None,
    }
}

fn outcome() -> Outcome {
    let side = Side::default();
    Outcome::for_flow(
        Plan::default(),
        SystemTime::UNIX_EPOCH,
        side,
        None,
        EndCause::Count,
    )
}

#[test]
fn result_lines() {
    for (name, prefix, figures) in [
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
        let found = output::bw_mon_line(&throughput_result(figures), false);
        assert_eq!(found, stock_line(name, prefix), "{name}");
        assert!(
            run_output(name).contains(&output::bw_mon_titles(None)),
            "{name}"
        );
    }
}

/// Stock counts zero received datagrams as one. It prints a loss of 80 % for 5 lost datagrams of 5;
/// linerate prints 100 %.
#[test]
fn a_test_without_arrivals_prints_zeros() {
    let line = output::bw_mon_line(&throughput_result((64, 1000, (5, 5000), [0; 4])), false);
    assert_eq!(
        line,
        " 64; 5;  100;  5.12; 0; 0; 0; 1e+02; 0; 0;  0;  0;  \n"
    );
}

#[test]
fn quiet_lines() {
    let endpoint = EndpointInfo {
        peer_name: "127.0.0.1".to_owned(),
        peer_address: "127.0.0.1".to_owned(),
        local_address: "127.0.0.1".to_owned(),
        node: "hostname".to_owned(),
        ..EndpointInfo::default()
    };
    for (second, figures) in [
        (13, (1400, 0, (200, 18_840), [200, 0, 0, 18_360])),
        (14, (1400, 100, (200, 23_450), [195, 0, 0, 24_151])),
        (15, (1400, 200, (200, 41_640), [104, 0, 0, 42_476])),
        (16, (1400, 300, (200, 60_990), [200, 0, 0, 61_675])),
    ] {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_000 + second);
        let prefix = output::quiet_prefix(started, &endpoint);
        let found = prefix.clone() + &output::bw_mon_line(&throughput_result(figures), false);
        assert_eq!(found, stock_line("bw-q-quiet-scan", &prefix));
    }
}

/// Returns the activity of a host with one interface. It received and sent `packets` with `bytes`.
fn host(cpus: &[[u64; 7]], packets: i64, bytes: i64) -> HostActivity {
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
        name: Text::truncated("lo"),
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
    HostActivity {
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
/// No ticks.
const NONE: [u64; 7] = [0; 7];

/// Replaces the zeros that stock prints for a CPU without ticks.
fn with_dashes(stock: &str) -> String {
    stock.replace(" ; 0; 0; 0; 0; 0; 0; 0; ;", " ; -; -; -; -; -; -; -; ;")
}

#[test]
fn long_lines() {
    let mut ipv4_test = throughput_result((1400, 500, (20, 10_000), [20, 0, 0, 213]));
    (ipv4_test.local_host, ipv4_test.remote_host) =
        (host(&[NONE; 3], 20, 28_560), host(&[IDLE; 3], 22, 29_032));
    let mut arrivals = LinearHistogram::all_for_responder(Binning::default()).swap_remove(0);
    for value in [6, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 11, 11, 22, 40] {
        arrivals.record(value);
    }
    ipv4_test.histograms = vec![arrivals];
    assert_eq!(
        output::bw_mon_line(&ipv4_test, true),
        with_dashes(&stock_line("bw-x", " 1400;"))
    );
    let titles = output::bw_mon_titles(Some((&ipv4_test.local_host, &ipv4_test.remote_host)));
    assert_eq!(titles, stock_line("bw-x", "  pkt len"));

    let remote_cpus = [
        [10, 0, 56, 34, 0, 0, 1],
        [7, 0, 51, 41, 0, 0, 2],
        [11, 0, 60, 27, 0, 0, 0],
    ];
    let mut ipv6_test = throughput_result((200, 1000, (10, 10_010), [10, 0, 0, 9059]));
    ipv6_test.local_host = host(&[BUSY, NONE, BUSY], 10, 2480);
    ipv6_test.remote_host = host(&remote_cpus, 12, 2992);
    for host in [&mut ipv6_test.local_host, &mut ipv6_test.remote_host] {
        host.counters.is_v6 = true;
    }
    ipv6_test.histograms = LinearHistogram::all_for_responder(Binning::default())[..1].to_vec();
    // Stock computes the wire rate with the headers of IPv4. It prints the counters in another
    // order than their titles.
    let stock = with_dashes(&stock_line("bw-ipv6-x", " 200;"))
        .replace("23.4905", "25.2567")
        .replace("snmp6; 10; 0; 10; 0; 10;", "snmp6; 0; 10; 0; 10; 10;")
        .replace("snmp6; 12; 0; 12; 0; 12;", "snmp6; 0; 12; 0; 12; 12;");
    assert_eq!(output::bw_mon_line(&ipv6_test, true), stock);
    let titles = output::bw_mon_titles(Some((&ipv6_test.local_host, &ipv6_test.remote_host)));
    assert_eq!(titles, stock_line("bw-ipv6-x", "  pkt len"));
}

#[test]
fn counters_of_an_interface() {
    let mut test = throughput_result((200, 0, (1, 10), [1, 9, 0, 10]));
    test.remote_host.nic = NicCounters {
        values: [1, 2, 3, 4, 5, 6, 7, -1, 2, 0, 0, 0],
        name: Text::truncated("eth0"),
        count: 9,
    };
    test.remote_host.counters.protocols.udp_in_errors = 3;
    let line = output::bw_mon_line(&test, true);
    let suffix = " R NIC; eth0; 1; 2; 3; 4; 5; 6; 7; -; 2;  \n";
    assert!(line.ends_with(suffix), "{line}");
    // A responder that listens on IPv6 may serve a requester of IPv4.
    test.remote_host.counters.is_v6 = true;
    let ipv4_line = output::bw_mon_line(&test, false);
    assert!(
        ipv4_line.ends_with("; 4; 4e+02;  1600;  2128;  \n"),
        "{ipv4_line}"
    );
    assert!(line.contains("; 1; 9; 0; 0; 4; 4e+02; "), "{line}");
}

#[test]
fn unavailable_counters_are_dashes() {
    let mut test = throughput_result((200, 0, (10, 10), [5, 5, 0, 10]));
    test.remote_host.counters = HostCounters::unavailable();
    test.remote_host.cpus = vec![CpuLoad::default()];
    let line = output::bw_mon_line(&test, true);
    for block in [
        "R ; -; -; -; -; -; -; -; ;",
        "R if;     -: ; -; -; -; -; -; -; -; -;R snmp; -; -; -; -; -; -; -; ",
    ] {
        assert!(line.contains(block), "{line}");
    }
    // The responder's drops are unknown, so the loss on the path is, too.
    assert!(line.contains("; 5; 5; 0; 50; -; -; "), "{line}");
}

#[test]
fn histograms() {
    let stock = |name: &str| {
        let (_, after) = run_output(name).split_once("Hist        0").unwrap();
        let end = after.find("recv_time ipg").or(after.find(" num packets"));
        format!("Hist        0{}", &after[..end.unwrap()])
    };
    let mut all = LinearHistogram::all_for_responder(Binning::default());
    let print =
        |all: &[LinearHistogram]| -> String { all.iter().map(output::format_histogram).collect() };
    let empty = print(&all[..1]);
    assert_eq!(empty.lines().count(), 152);
    assert!(empty.ends_with("148 ; 0\n149 ; 0\n"));
    for value in [7, 8, 23].into_iter().chain([150; 8]) {
        all[0].record(value);
    }
    (1..=2).for_each(|value| all[1].record(value));
    (0..=1).for_each(|value| all[2].record(value));
    assert_eq!(
        without_empty_bins(&print(&all[..3])),
        stock("bw-G-loss-reorder-dup")
    );

    let mut all = LinearHistogram::all_for_responder(Binning::default());
    (0..10).for_each(|_| all[0].record(1000));
    assert_eq!(without_empty_bins(&print(&all)), stock("bw-N-tstamps"));
    assert!(print(&all[3..4]).ends_with("\n37000 ; 0\n37250 ; 0\n"));
}

/// Returns these columns of the records that a run printed.
fn printed_rows(name: &str, columns: [usize; 4]) -> Vec<[i64; 4]> {
    let (_, after) = run_output(name).split_once("num packets skipped").unwrap();
    let rows = after.split('\n').skip(2).flat_map(|line| line.split("/n"));
    rows.filter(|row| row.contains(';'))
        .map(|row| {
            let fields: Vec<&str> = row.split(';').map(str::trim).collect();
            columns.map(|column| {
                fields
                    .get(column)
                    .and_then(|field| field.parse().ok())
                    .unwrap_or(0)
            })
        })
        .collect()
}

/// Returns the fit for stock's equation `local = slope × remote + offset`, in µs.
fn clock_fit(slope: f64, offset_us: f64) -> ClockFit {
    let skew = 1.0 - slope;
    let whole_us = if skew == 0.0 { 0.0 } else { offset_us.trunc() };
    // `offset_ns` gets the whole microseconds of the offset. At `at_ns`, the skew has cancelled the
    // fraction, so that the clocks differ by `offset_ns`.
    let fraction_ns = (offset_us - whole_us) * 1e3;
    ClockFit {
        at_ns: if skew == 0.0 {
            0
        } else {
            (fraction_ns / skew) as i64
        },
        offset_ns: if skew == 0.0 {
            -fraction_ns as i64
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

fn printed_records(name: &str) -> &'static str {
    let text = run_output(name);
    &text[text.find(" num packets skipped").unwrap()..]
}

#[test]
fn records_of_all_packets() {
    for (name, skip, slope, offset_us) in [
        ("bw-G-hist", 2, 1.000_214_671, -804.036_72),
        ("bw-G-loss-reorder-dup", 0, 1.000_027_392_665, -807.743_81),
        ("bw-N-tstamps", 0, 0.999_882_056_75, -786.568_765),
    ] {
        let mut packets: Vec<ArrivalRecord> = printed_rows(name, [1, 2, 10, 11])
            .into_iter()
            .map(|[arrival, sent, kernel, hardware]| ArrivalRecord {
                arrival,
                sent,
                kernel_ns: kernel as u64,
                hardware_ns: hardware as u64,
            })
            .collect();
        if name == "bw-N-tstamps" {
            // The first line does not contain the kernel's time stamp.
            packets[0].kernel_ns = packets[1].kernel_ns - 96_768;
        }
        let found = output::arrival_records(&Records {
            skip,
            rows: RecordRows::All(packets),
            clock: Some(clock_fit(slope, offset_us)),
        });
        assert_eq!(found, printed_records(name), "{name}");
    }
}

#[test]
fn records_of_lost_packets() {
    let rows = printed_rows("bw-L-lost-log", [1, 2, 5, 0]).into_iter();
    let lost = rows.map(|[arrival, sent, number, _]| LostRecord {
        arrival,
        sent,
        number,
    });
    let found = output::arrival_records(&Records {
        skip: 0,
        rows: RecordRows::Lost(lost.collect()),
        clock: Some(clock_fit(1.0, -1072.92)),
    });
    assert_eq!(found, printed_records("bw-L-lost-log"));
}

/// Stock ends these lines with the characters `/n`. It prints differences in 0.1 µs under a title
/// with µs.
#[test]
fn records_of_a_receiver() {
    let packets = printed_rows("recv-G-H", [1, 2, 0, 0]).into_iter();
    let packets = packets.map(|[arrival, sent, number, _]| match number {
        11 | 12 => ArrivalRecord::default(),
        // Stock's times are relative to the first packet.
        _ => ArrivalRecord {
            arrival: arrival + 5,
            sent: sent + 7,
            ..ArrivalRecord::default()
        },
    });
    let mut packets: Vec<_> = packets.collect();
    packets.truncate(12);
    for unused in &mut packets[10..] {
        *unused = ArrivalRecord::default();
    }
    let found = output::recv_records(&Records {
        skip: 0,
        rows: RecordRows::All(packets),
        clock: None,
    });
    let text = run_output("recv-G-H");
    let stock = text[text.find("recv_time ipg").unwrap()..].replace("/n", "\n");
    let divide_by_ten = |field: &str| match field.trim().parse::<f64>() {
        Ok(tenths) => field.replace(field.trim(), &(tenths / 10.0).to_string()),
        Err(_) => field.to_owned(),
    };
    let stock: String = stock
        .lines()
        .enumerate()
        .map(|(index, row)| {
            let fields = row
                .split(';')
                .enumerate()
                .map(|(column, field)| match column {
                    5 | 6 if index > 2 => divide_by_ten(field),
                    _ => field.to_owned(),
                });
            fields.collect::<Vec<_>>().join(";") + "\n"
        })
        .collect();
    assert_eq!(found, stock);
}

#[test]
fn latencies() {
    let text = run_output("req-scan-hist");
    let stock = &text[text.find("response len").unwrap()..];
    let mut found = output::req_titles().to_owned();
    for (response_bytes, elapsed, times_ns) in [
        (64, 2380, [16_530, 27_000, 27_500, 58_358, 107_382]),
        (128, 1310, [17_980, 18_235, 27_300, 27_700, 38_470]),
    ] {
        let mut outcome = outcome();
        let mut latency = stats::Histogram::default();
        let mut times = LinearHistogram::new(0, "Time per req-resp us", 0, 1, 150);
        for ns in times_ns {
            latency.record(ns);
            times.record((ns / 1000) as i64);
        }
        outcome.local.latency = Some(latency);
        let result = LatencyResult {
            request_bytes: 64,
            response_bytes,
            outcome,
            requests: 5,
            timeouts: 0,
            elapsed: tenths(elapsed),
            times,
        };
        found += &output::req_line(&result);
        found += &without_empty_bins(&output::format_latency_histogram(&result.times));
    }
    assert_eq!(found, stock);
}

#[test]
fn lines_of_a_sender() {
    let found = SendResult {
        load: throughput_result((200, 1000, (0, 0), [0; 4])).load,
        outcome: outcome(),
        sent: 10,
        send_time: tenths(11_750),
        local_host: host(&[NONE; 3], 10, 2280),
    };
    let stock = with_dashes(&stock_line("send", " 200; 10"));
    assert_eq!(output::send_line(&found), stock);
    assert_eq!(
        output::send_titles(3, false),
        stock_line("send", "  pkt len")
    );
}

#[test]
fn lines_of_a_receiver() {
    let snapshot = |second: u64, received, bytes, elapsed: f64, host| {
        let delta = IntervalCounts {
            received: StockCounts {
                received,
                elapsed: Duration::from_secs_f64(elapsed * 1e-6),
                ..StockCounts::default()
            },
            bytes,
            host,
            ..IntervalCounts::default()
        };
        Snapshot {
            taken_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_228 + second),
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
    let check = |number, snapshot: &Snapshot| {
        let since = Duration::from_secs(2 * number);
        let found = output::recv_line(number, since, snapshot);
        assert_eq!(
            found,
            stock_line("recv-T-snapshots", &format!(" {number}; 17"))
        );
    };
    check(0, &snapshot(0, 0, 0, 0.0, host(&idle, 0, 0)));
    let busy = host(&busy, 1496, 2_136_288);
    check(1, &snapshot(2, 1496, 2_094_400, 1_492_167.0, busy));
    let titles = output::recv_titles(3, false);
    assert_eq!(titles, stock_line("recv-T-snapshots", "num;"));
    let table = output::recv_table(&snapshot(0, 10, 2000, 738.631, HostActivity::default()));
    assert_eq!(table.lines().count(), 13);
    assert!(
        table.contains("User data rate Mbit/s ;        21.6617;        21.6617;\n"),
        "{table}"
    );
    let unavailable = HostActivity {
        counters: HostCounters::unavailable(),
        ..HostActivity::default()
    };
    let table = output::recv_table(&snapshot(0, 10, 2000, 738.631, unavailable));
    let line = "Frames lost in net    ;              -;              -;\n";
    assert!(table.contains(line), "{table}");
}

#[rustfmt::skip]
#[test]
fn preambles() {
    let buffers = |bytes| SocketBuffers {
        receive: bytes,
        send: bytes,
        type_of_service: 0,
    };
    let endpoint = EndpointInfo {
        cpus: (3, 3),
        default_buffers: buffers(212_992),
        set_buffers: buffers(65_535),
        peer_name: "127.0.0.1".to_owned(),
        peer_address: "127.0.0.1".to_owned(),
        ..EndpointInfo::default()
    };
    for (name, program, command_line, wait_us) in [
        ("bw-basic", Program::BwMon, "./udpmon_bw_mon -d 127.0.0.1 -p 200 -l 10 -w 100 ", 0.0222),
        ("req-scan-hist", Program::Req, "./udpmon_req -d 127.0.0.1 -p 64 -r 64 -e 128 -i 64 -l 5 -H ", 0.0233),
        ("send", Program::Send, "./udpmon_send -d 127.0.0.1 -p 200 -l 10 -w 100 ", 0.0204),
        ("recv-T-snapshots", Program::Recv, "./udpmon_recv -t 9 -T 2 ", 0.0),
    ] {
        let clock_cost = ClockCost {
            read_us: 0.0004,
            wait_us,
        };
        let common = CommonSettings {
            command_line: command_line.to_owned(),
            ..CommonSettings::default()
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_211_000);
        let found = output::preamble(program, &common, now, &endpoint, &clock_cost, 0);
        // linerate does not measure the speed and the clock ticks of the CPU.
        let is_comparable = |line: &&str| !line.starts_with("CPU speed") && !line.starts_with("clock ticks");
        let stock = run_output(name).lines().filter(is_comparable);
        for (index, (found, stock)) in found.lines().filter(is_comparable).zip(stock).enumerate() {
            // The date depends on the time zone.
            let start = if index == 0 { 26 } else { 0 };
            assert_eq!(found[start..], stock[start..], "{name}");
        }
        assert!(found.lines().count() >= 6, "{found}");
    }
}

#[test]
fn remarks_correct_stock_counts() {
    let mut result = throughput_result((200, 2000, (12, 24_000), [11, 3, 2, 20_000]));
    let text = remarks::test_remarks(&result, None);
    assert!(
        text.starts_with("# corrected: tail 0; 2 late or repeated"),
        "{text}"
    );
    result.delivery = Some(DeliveryCounts {
        received: 10,
        lost: 2,
        late: 1,
        repeated: 1,
        ..DeliveryCounts::default()
    });
    let text = remarks::test_remarks(&result, None);
    let expected = "# corrected: received 10; lost 2; tail 0; late 1; repeated 1 (by the responder)\n# rates: sent ";
    assert!(text.starts_with(expected), "{text}");
    // Without late and repeated datagrams, stock's counts are sufficient.
    let text = remarks::test_remarks(
        &throughput_result((64, 0, (100, 1000), [95, 0, 0, 1000])),
        None,
    );
    assert!(
        text.contains("received 95; lost 0; tail 5; late 0; repeated 0 (from stock's counts)"),
        "{text}"
    );

    let [carried, failed] = [(0, 0), (8, 1)].map(|(lost, dropped)| PathEvidence {
        bytes: 1000,
        sent: 101,
        lost,
        dropped,
        departure_span: Duration::from_millis(10),
        arrival_span: Duration::from_millis(10),
    });
    let step = remarks::search_step_line(2, Some(8e7), &failed, false);
    let expected = "# search 2: requested 80 Mbit/s; sent 80 Mbit/s; delivered 73.6 Mbit/s; lost 8 of 101, and the \
                    responder's socket dropped 1; arrivals took +0.00 % longer: not carried\n";
    assert_eq!(step, expected);
    let mut result = SearchResult {
        rate: Some(8e7),
        carried_test: Some(carried),
        failed_test: Some(failed),
        end: SearchEnd::Precise,
        test_count: 5,
    };
    let text = remarks::search_result_line(&result, 1000, false);
    let prefix = "# highest loss-free rate: 80 Mbit/s of payload, 82.24 Mbit/s of IP, 85.28 Mbit/s on the wire; lost 0 of 101";
    assert!(
        text.starts_with(prefix) && text.contains("not the path"),
        "{text}"
    );
    result.rate = None;
    assert!(remarks::search_result_line(&result, 1000, false).contains("none"));
}

/// Checks that each line has one value per name.
#[test]
fn comma_separated_values() {
    let mut outcome = outcome();
    outcome.packets = vec![model::PacketRecord {
        number: 7,
        bytes: 200,
        sent: Some(Duration::from_micros(1)),
        ..model::PacketRecord::default()
    }];
    assert_eq!(csv::packet_rows(1, &outcome), "1,7,200,1000,,\n");
    assert_eq!(csv::PACKET_TITLE_LINE.matches(',').count(), 5);
    let row = csv::throughput_row(&throughput_result((
        200,
        1000,
        (10, 10_000),
        [10, 0, 0, 9000],
    )));
    let (names, values) = (csv::title_line(&row), csv::value_line(&row));
    assert_eq!(names.split(',').count(), values.split(',').count());
    assert!(
        values.contains(",200,0.000100000,10,0.001000000,10,0,0,0.000900000,10,0,0,0,0,"),
        "{values}"
    );
}

/// A peer may send any values.
#[test]
fn prints_extreme_values() {
    let extremes = [0, 1, -1, i64::MAX, i64::MIN, 5, i64::MIN];
    let packets = extremes.iter().zip(extremes.iter().rev());
    let packets = packets.map(|(arrival, sent)| ArrivalRecord {
        arrival: *arrival,
        sent: *sent,
        kernel_ns: *arrival as u64,
        hardware_ns: *sent as u64,
    });
    let records_with = |rows| Records {
        skip: u32::MAX,
        rows,
        clock: Some(clock_fit(0.5, 1e9)),
    };
    let packets = records_with(RecordRows::All(packets.collect()));
    let lost = extremes.map(|number| LostRecord {
        arrival: number,
        sent: -1,
        number,
    });
    let lost = records_with(RecordRows::Lost(lost.to_vec()));
    for records in [packets, lost] {
        assert!(output::arrival_records(&records).lines().count() > 7);
        assert!(output::recv_records(&records).lines().count() > 7);
    }
    let mut histogram = LinearHistogram::new(9, "absurd", i32::MIN, i32::MAX, 998);
    (histogram.counts, histogram.sum) = ([u64::MAX; 1000], i64::MIN);
    assert!(output::format_latency_histogram(&histogram).contains("Hist        9 absurd"));
    let mut test = throughput_result((16, 0, (u64::MAX, 0), [u64::from(u32::MAX); 4]));
    test.histograms = vec![histogram];
    test.local_host = host(&[[u64::MAX; 7]], i64::MIN, i64::MAX);
    test.remote_host = host(&[], i64::MAX, -1);
    assert!(output::bw_mon_line(&test, true).ends_with(";  \n"));
    assert!(remarks::test_remarks(&test, None).starts_with("# corrected"));
}
