//! Command lines of the five programs, and the settings or errors that result.

use std::ffi::OsString;
use std::time::Duration;

use model::{Bursts, Lateness, Limit, Spacing, SpacingMethod};
use udpmon::options::{
    self, BwMonSettings, CommonSettings, RespSettings, SearchSettings, Sweep, TestLoad,
    TestSequence, bw_mon, recv, req, resp, send,
};

fn arguments(line: &str) -> impl Iterator<Item = OsString> {
    line.split_whitespace().map(OsString::from)
}

fn parse_bw_mon(line: &str) -> BwMonSettings {
    bw_mon("./udpmon_bw_mon", arguments(line)).unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
}

fn parse_sweep(line: &str) -> Sweep {
    match parse_bw_mon(line).sequence {
        TestSequence::Sweep(sweep) => sweep,
        TestSequence::Search(_) => panic!("{line}"),
    }
}

#[test]
fn options_set_their_fields() {
    let line = "-d h -u 15000 -U 9 -p 1400 -l 50 -w 20 -g 1000 -n 3 -G 2:10 -H -B 5 -M 10 -N -A 0 -S 0 -P 5 -T 8 \
                -a 3 -x -q -v --lateness skip";
    let found = parse_bw_mon(line);
    assert_eq!(
        found.common.command_line.split_once(' ').unwrap().0,
        "./udpmon_bw_mon"
    );
    let common = CommonSettings {
        port: 15000,
        buffer_bytes: None,
        sets_buffer_bytes: true,
        type_of_service: Some(0xb0),
        cpus: Some(3),
        quiet: true,
        verbose: true,
        ..found.common.clone()
    };
    let load = TestLoad {
        bytes: 1400,
        datagrams: 50,
        time: None,
        spacing: Spacing {
            gap: Duration::from_micros(20),
            bursts: Some(Bursts {
                datagrams: 50,
                count: 3,
                pause: Duration::from_millis(1),
            }),
            lateness: Lateness::Skip,
            method: SpacingMethod::Spin,
        },
    };
    assert_eq!((&found.common, found.load), (&common, load));
    assert_eq!(load.total_datagrams(), Some(150));
    let plan = found.plan(&load.with_size_and_gap(100, Duration::ZERO));
    let flow = plan.flow().unwrap();
    assert_eq!(flow.limit, Limit::Messages(150));
    assert_eq!(flow.local.spacing.unwrap().gap, Duration::ZERO);
    assert_eq!(flow.local.socket.type_of_service, Some(0xb0));
    assert_eq!((found.bins.low, found.bins.width), (10, 5));
    assert!(found.histograms && found.records_kernel_and_nic_stamps && found.extended);
    assert_eq!(found.local_port, Some(9));
    let records = found.records.unwrap();
    assert_eq!((records.skip, records.count), (2, 10));
    assert_eq!(
        parse_bw_mon("-d h -Q b8").common.type_of_service,
        Some(0xb8)
    );
    assert!(parse_bw_mon("-d ::1").common.is_v6 && !parse_bw_mon("-d h").common.is_v6);
}

#[test]
fn parses_lists_of_gaps() {
    for (line, expected_ns) in [
        ("-d h", &[0][..]),
        ("-d h -w 100", &[100_000]),
        // With a last gap below the first, the sweep has one test.
        ("-d h -w 100 -e 50", &[100_000]),
        ("-d h -e 2", &[0, 800, 1_600]),
        ("-d h -w 0 -e 30 -i 10", &[0, 10_000, 20_000, 30_000]),
        ("-d h --gaps 5,1:2:0.5", &[5_000, 1_000, 1_500, 2_000]),
        ("-d h -p 1400 -r 300", &[37_333]),
    ] {
        let gaps = parse_sweep(line).gaps;
        let found: Vec<_> = gaps.iter().map(Duration::as_nanos).collect();
        assert_eq!(found, expected_ns, "{line}");
    }
    let throughput = parse_sweep("-d h --sweep throughput");
    assert_eq!((throughput.sizes.len(), throughput.gaps.len()), (10, 41));
    let delay = parse_bw_mon("-d h --sweep delay -l 5");
    assert_eq!((delay.load.datagrams, delay.records.unwrap().count), (5, 5));
    assert_eq!(delay.load.bytes, 1472);
    assert!(parse_bw_mon("-d h --sweep jitter").histograms);
}

#[test]
fn parses_the_bounds_of_a_search() {
    let found = parse_bw_mon("-d h --search 10:1000 --precision 1 -p 1400");
    let expected = SearchSettings {
        low: Some(1e7),
        high: Some(1e9),
        precision: 0.01,
        tolerated_loss: 0.0,
    };
    assert_eq!(found.sequence, TestSequence::Search(expected));
    assert_eq!(found.load.time, Some(Duration::from_secs(1)));
    assert_eq!(
        parse_bw_mon("-d h --search : -l 9").load.total_datagrams(),
        Some(9)
    );
}

#[test]
fn each_program_parses_its_options() {
    let req = req(
        "udpmon_req",
        arguments("-d h -p 1 -r 64 -e 128 -i 64 -l 5 -w 3 -b 2 -m 9 -H"),
    )
    .unwrap();
    assert_eq!((req.request_bytes, req.requests), (64, 5));
    assert_eq!(req.response_bytes, [64, 128]);
    assert_eq!((req.bins.low, req.bins.width), (9, 2));
    assert_eq!(req.pause, Duration::from_micros(3));
    let recv = recv("udpmon_recv", arguments("-t 9 -T 2 -a 1:2 -L 4 -I eth0")).unwrap();
    assert_eq!(
        (recv.time, recv.interval),
        (Some(Duration::from_secs(9)), Some(Duration::from_secs(2)))
    );
    assert_eq!((recv.common.cpus, recv.printing_cpus), (Some(1), Some(2)));
    assert_eq!(
        options::recv("udpmon_recv", arguments("-t 0"))
            .unwrap()
            .time,
        None
    );
    let send = send("udpmon_send", arguments("-d h -w 5 -e 6 -i 1 -x")).unwrap();
    assert_eq!(send.sweep.gaps.len(), 2);
    let resp = resp(
        "udpmon_resp",
        arguments("-D --max-tests 4 --max-records 1M --stamps program"),
    )
    .unwrap();
    assert!(resp.daemon && !resp.arrival_by_kernel);
    assert_eq!(
        (resp.limits.server.max_clients, resp.limits.record_bytes),
        (4, 1 << 20)
    );
    assert_eq!(
        options::resp("udpmon_resp", arguments("")).unwrap(),
        RespSettings {
            common: CommonSettings {
                command_line: "udpmon_resp ".to_owned(),
                ..CommonSettings::default()
            },
            ..RespSettings::default()
        }
    );
}

#[rustfmt::skip]
#[test]
fn errors_name_the_wrong_option() {
    for (line, reason) in [
        ("-x", "-d is missing: the destination"),
        ("-d h stray", "unexpected argument 'stray'"),
        ("-d h -l 0", "-l 0: 0 is not from 1 to 4294967295"),
        ("-d h -p 15", "-p 15: 15 is not from 16 to 65507"),
        ("-d h -p x", "-p x: 'x' is not a number"),
        ("-d h -u 0x3799", "-u 0x3799: '0x3799' is not a number"),
        ("-d h -w -1", "-w -1: not a non-negative number"),
        ("-d h -A 1", "-A 1: responders do not send acknowledgements"),
        ("-d h -e 30 -i 0", "-i: a step of 0 never reaches the end"),
        ("-d h -n 3", "-n sets the number of bursts and needs -g"),
        ("-d h -g 1 -t 1", "-g contradicts -t: the number of bursts ends the test"),
        ("-d h -w 1 -r 1", "-w contradicts -r: both set the gap"),
        ("-d h -w 1 --gaps 1,2", "-w contradicts --gaps and --sweep"),
        ("-d h -p 64 --sizes 64", "-p contradicts --sizes and --sweep"),
        ("-d h -Q 100", "-Q 100: not a hexadecimal number up to ff"),
        ("-d h -a 0", "-a 0: the mask has no CPU"),
        ("-d h -p 20 -G 5", "-G and -L need datagrams of 24 bytes: shorter ones carry no send time"),
        ("-d h --search 1:2 -w 5", "-w contradicts --search, which picks the gaps"),
        ("-d h --precision 1", "--precision needs --search"),
        ("-d h --pacing kernel", "--pacing txtime and kernel need a gap: -w, -r or --gaps"),
        ("-d h --pacing fast", "--pacing fast: not one of spin, txtime, kernel"),
        ("-d h --early-stop 2", "--early-stop needs several gaps: -e or --gaps"),
        ("-d h --json --csv", "--json contradicts --csv: both write to standard output"),
        ("-d h --packets x -L 5", "--packets needs -G"),
        ("-d h --plot x.png", "--plot x.png: the name must end in .svg or .html"),
        ("-d h --plot x.svg", "--plot needs a sweep, such as --gaps or -e, or records of all packets (-G)"),
        ("-d h --plot x.svg -L 5", "--plot needs a sweep, such as --gaps or -e, or records of all packets (-G)"),
        ("-d", "option requires an argument -- 'd'"),
        ("-d h -Z", "invalid option -- 'Z'"),
    ] {
        let exit = bw_mon("x", arguments(line)).unwrap_err();
        assert_eq!(exit.stderr, format!("udpmon_bw_mon: {reason}\n"), "{line}");
        assert_eq!((exit.code, &*exit.stdout), (1, ""), "{line}");
    }
    for line in ["-G 5", "-w 1 -e 9", "--sizes 64,128", "--search 1:2", "--sweep delay"] {
        bw_mon("x", arguments(&format!("-d h --plot x.svg {line}"))).unwrap();
    }
    assert!(options::req("x", arguments("-d h --plot x.svg")).is_err());
    assert!(options::send("x", arguments("-d h --plot x.svg")).is_err());
    assert!(recv("x", arguments("--plot x.svg")).is_err());
    let exit = bw_mon("x", arguments("")).unwrap_err();
    assert!(exit.stderr.starts_with("Usage: udpmon_bw_mon") && exit.code == 1);
    let exit = recv("x", arguments("-d 10.0.0.1")).unwrap_err();
    assert_eq!(
        exit.stderr,
        "udpmon_recv: -d 10.0.0.1: not supported; -v prints the datagrams of all senders\n"
    );
    for line in ["-h", "-V"] {
        let exit = resp("x", arguments(line)).unwrap_err();
        assert!(!exit.stdout.is_empty() && exit.code == 0);
    }
}
