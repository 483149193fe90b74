//! Tests command lines of existing harnesses, and the text, stream and exit code of wrong ones.

use std::path::PathBuf;
use std::time::Duration;

use server::PeerPolicy;
use uperf::DataProtocol;
use uperf::options::{
    CpuCounter, Exit, MasterSettings, PrintOptions, Role, Settings, SlaveLimits, TlsFiles, uperf,
};

/// Command lines of k8s-netperf, benchmark-operator, snafu, pbench, crucible, LKP and avocado in
/// 2025.
#[test]
fn accepts_command_lines_of_harnesses() {
    for line in [
        "-v -a -R -i 1 -m /tmp/uperf-stream-tcp-1024-1 -P 30000",
        "-v -a -R -i 1 -m /tmp/uperf-rr-udp-64-8 -P 30000 -H stdout",
        "-v -m test.xml -R -a -i 1 -X response-times.txt -P 20010",
        "-v -m test.xml -R -a -i 1 -S vsock -P 20010",
        "-R -m test.xml -P 30002",
        "-R -m test.xml -P 30002 -tTfa",
        "-m uperf_web.xml",
        "-m manual/throughput.xml -a",
        "-m netperf.xml -a -e -p",
    ] {
        assert!(matches!(parse(line).role, Role::Master(_)), "{line}");
    }
    for line in [
        "-s -v -P 30000",
        "-v -s -P 20010",
        "-v -s -P 20010 -S vsock",
        "-s",
    ] {
        let settings = parse(line);
        assert_eq!(settings.role, Role::Slave(SlaveLimits::default()), "{line}");
        assert_eq!(settings.notices, [""; 0], "{line}");
    }
}

#[test]
fn parses_every_master_option() {
    let master_with = |change: fn(&mut Settings, &mut MasterSettings)| {
        let mut settings = default_settings(Role::Slave(SlaveLimits::default()));
        let mut master = default_master();
        change(&mut settings, &mut master);
        settings.role = Role::Master(master);
        settings
    };
    for (line, expected) in [
        ("-m p", master_with(|_, _| ())),
        ("-m a -m p", master_with(|_, _| ())),
        (
            "-S sctp -m p",
            master_with(|s, _| s.control = DataProtocol::Sctp),
        ),
        (
            "-S VSOCK -m p",
            master_with(|s, _| s.control = DataProtocol::Vsock),
        ),
        ("-P 20k -m p", master_with(|s, _| s.port = 20_480)),
        (
            "-P 100000 -S vsock -m p",
            master_with(|s, _| (s.port, s.control) = (100_000, DataProtocol::Vsock)),
        ),
        ("-vm p", master_with(|s, _| s.verbose = true)),
        ("-g -m p", master_with(|_, m| m.print.groups = true)),
        ("-T -m p", master_with(|_, m| m.print.strands = true)),
        ("-t -m p", master_with(|_, m| m.print.transactions = true)),
        ("-f -m p", master_with(|_, m| m.print.flowops = true)),
        ("-k -m p", master_with(|_, _| ())),
        ("-R -m p", master_with(|_, m| m.print.raw = true)),
        (
            "-p -m p",
            master_with(|_, m| (m.flowop_cpu, m.print.flowops) = (true, true)),
        ),
        (
            "-e -m p",
            master_with(|_, m| (m.counters, m.print.flowops) = (CpuCounter::defaults(), true)),
        ),
        (
            "-E cs,cycles,cpu-cycles -m p",
            master_with(|_, m| {
                m.counters = CpuCounter::from_names(["cs", "cycles"]).unwrap();
                m.print.flowops = true;
            }),
        ),
        (
            "-a -m p",
            master_with(|_, m| {
                let print = &mut m.print;
                (print.groups, print.strands) = (true, true);
                (print.transactions, print.flowops) = (true, true);
            }),
        ),
        (
            "-X a -X b -m p",
            master_with(|_, m| m.response_times = Some("b".into())),
        ),
        (
            "-i 500ms -m p",
            master_with(|_, m| m.interval = Duration::from_millis(500)),
        ),
        (
            "-i 2 -m p",
            master_with(|_, m| m.interval = Duration::from_secs(2)),
        ),
        ("-H stdout -m p", master_with(|_, m| m.latencies = true)),
        (
            "--html=a.html -m p",
            master_with(|_, m| m.html = Some("a.html".into())),
        ),
        ("--json -m p", master_with(|_, m| m.json = true)),
        (
            "--tls-cert c --tls-key k -m p",
            master_with(|s, _| {
                (s.tls.certificate, s.tls.key) = (Some("c".into()), Some("k".into()));
            }),
        ),
        (
            "--strict-peers -m p",
            master_with(|s, _| s.policy.is_strict = true),
        ),
        (
            "--allow-third-party -m p",
            master_with(|s, _| s.policy.third_parties.allows_all = true),
        ),
    ] {
        assert_eq!(parse(line), expected, "{line}");
    }
}

#[test]
fn parses_every_slave_option() {
    for (line, expected) in [
        ("-s", SlaveLimits::default()),
        (
            "-s --allow-dir /a --allow-dir /b --max-masters 2 --max-connections 9 --max-strands 1k \
             --max-memory 2m --max-length 60 --control-idle 5 --drain-on-exit 7 \
             --allow-modules --allow-privileged-ports",
            SlaveLimits {
                directories: vec!["/a".into(), "/b".into()],
                permissions: server::Permissions {
                    allows_modules: true,
                    allows_privileged_ports: true,
                },
                server: server::ServerConfig {
                    max_clients: 2,
                    drain_time: Duration::from_secs(7),
                    ..server::ServerConfig::default()
                },
                connections: 9,
                work: uperf::WorkLimits {
                    strands: 1024,
                    memory: 2 << 20,
                    duration: Duration::from_secs(60),
                    ..uperf::WorkLimits::default()
                },
                control_idle: Duration::from_secs(5),
                ..SlaveLimits::default()
            },
        ),
        (
            "-s --user nobody",
            SlaveLimits {
                user: Some("nobody".to_owned()),
                ..SlaveLimits::default()
            },
        ),
    ] {
        assert_eq!(
            parse(line),
            default_settings(Role::Slave(expected)),
            "{line}"
        );
    }
    let Role::Slave(limits) = parse("-s --allow-peers 10.0.0.0/8 --allow-peers ::1").role else {
        panic!("not a slave");
    };
    let peers: Vec<_> = limits
        .server
        .networks
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(peers, ["10.0.0.0/8", "::1/128"]);
}

#[test]
fn parses_check_option() {
    let expected = default_settings(Role::Check(PathBuf::from("p")));
    assert_eq!(parse("--check p"), expected);
    assert_eq!(parse("--check=p"), expected);
}

/// `-n` resets the options before it, as in stock uperf.
#[test]
fn no_statistics_resets_earlier_options() {
    let none = PrintOptions {
        progress: false,
        statistics: false,
        interfaces: false,
        ..PrintOptions::default_sections()
    };
    for (line, expected) in [
        ("-n -m p", none),
        ("-aRk -X f -e -p -H stdout -n -m p", none),
        ("-n -R -m p", PrintOptions { raw: true, ..none }),
        (
            "-n -a -m p",
            PrintOptions {
                progress: false,
                groups: true,
                strands: true,
                transactions: true,
                flowops: true,
                ..PrintOptions::default_sections()
            },
        ),
        (
            "-a -n -t -m p",
            PrintOptions {
                transactions: true,
                ..none
            },
        ),
        (
            "-n -k -m p",
            PrintOptions {
                interfaces: true,
                ..none
            },
        ),
    ] {
        let Role::Master(master) = parse(line).role else {
            panic!("not a master: {line}");
        };
        assert_eq!(master.print, expected, "{line}");
        assert_eq!(master.response_times, None, "{line}");
        assert!(master.counters.is_empty() && !master.flowop_cpu && !master.latencies);
    }
}

/// Stock accepts these options silently.
#[test]
fn warns_about_options_without_effect() {
    let settings = parse("-s -a -i 1 -a -n");
    assert_eq!(settings.role, Role::Slave(SlaveLimits::default()));
    assert_eq!(
        settings.notices,
        [
            "uperf: -a has no effect on a slave",
            "uperf: -i has no effect on a slave",
            "uperf: -n has no effect on a slave",
        ]
    );
    let settings = parse("-v -a --check p");
    assert_eq!(
        settings.notices,
        [
            "uperf: -v has no effect on --check",
            "uperf: -a has no effect on --check",
        ]
    );
}

#[test]
fn names_wrong_value_in_one_line() {
    for (line, stderr) in [
        (
            "-m p -S udp",
            "uperf: -S udp: the control connection goes over tcp, sctp or vsock\n",
        ),
        (
            "-m p -P 65536",
            "uperf: -P 65536: not a port from 0 to 65535\n",
        ),
        (
            "-m p -P http",
            "uperf: -P http: not a port from 0 to 65535\n",
        ),
        (
            "-m p -P 0",
            "uperf: -P 0: a master needs the slaves' port\n",
        ),
        (
            "-m p -E cycles,foo",
            "uperf: -E cycles,foo: unknown counter 'foo'; available: cycles, instructions, \
             cache-references, cache-misses, branches, branch-misses, ref-cycles, task-clock, \
             context-switches, cpu-migrations, page-faults\n",
        ),
        (
            "-m p -H file",
            "uperf: -H file: latencies can only go to stdout\n",
        ),
        (
            "-m p -x",
            "uperf: -x: there is no output for Fenxi; --html FILE writes a page with plots\n",
        ),
        (
            "-m p --allow-dir /",
            "uperf: --allow-dir is not for a master\n",
        ),
        ("-s --json", "uperf: --json is not for a slave\n"),
        ("--check p --json", "uperf: --json is not for --check\n"),
        (
            "--check p --tls-cert c",
            "uperf: --tls-cert is not for --check\n",
        ),
        (
            "-m p --check p",
            "uperf: --check cannot be combined with -m or -s\n",
        ),
        (
            "-s --check p",
            "uperf: --check cannot be combined with -m or -s\n",
        ),
        ("-m p --tls-key k", "uperf: --tls-key requires --tls-cert\n"),
        (
            "-m p --json -R",
            "uperf: --json cannot be combined with -R or -n\n",
        ),
        (
            "-m p -n --html f",
            "uperf: --html cannot be combined with -n\n",
        ),
        (
            "-s --allow-peers 10/8",
            "uperf: --allow-peers 10/8: not an address or a network (10.0.0.0/8, fd00::/8)\n",
        ),
        (
            "-s --max-strands 0",
            "uperf: --max-strands 0: 0 is not from 1 to 1048576\n",
        ),
        (
            "-s --max-memory x",
            "uperf: --max-memory x: 'x' is not a number\n",
        ),
        (
            "-a p.xml",
            "uperf: 'p.xml' belongs to no option; name the profile with -m\n",
        ),
        (
            "-m p -- -a",
            "uperf: '-a' belongs to no option; name the profile with -m\n",
        ),
    ] {
        let expected = Exit {
            stderr: stderr.to_owned(),
            code: 1,
            ..Exit::default()
        };
        assert_eq!(parse_failure(line), expected, "{line}");
    }
}

#[test]
fn prints_stock_errors_to_stdout() {
    for (line, stdout) in [
        ("-m p -S foo", "Protocol foo not supported\n"),
        ("-m p -i 0", "Incorrect interval: 0\n"),
        ("-m p -i x", "Incorrect interval: x\n"),
        ("-m p -i 1h", "Incorrect interval: 1h\n"),
        (
            "-m p -i 5u",
            "Incorrect interval: 5u (1 ms is the shortest)\n",
        ),
    ] {
        let expected = Exit {
            stdout: stdout.to_owned(),
            code: 1,
            ..Exit::default()
        };
        assert_eq!(parse_failure(line), expected, "{line}");
    }
}

#[test]
fn prints_usage_where_stock_does() {
    let usage = include_str!("options-usage/uperf.txt");
    for (line, before, stderr, code) in [
        ("", "", "", 1),
        ("-h", "", "", 0),
        ("-m p -h", "", "", 0),
        ("-v", "Please specify server or client.\n", "", 1),
        (
            "-s -m p",
            "Can only be server or client. Not both!\n",
            "",
            1,
        ),
        ("-q", "", "uperf: invalid option -- 'q'\n", 1),
        ("--foo", "", "uperf: invalid option -- '-'\n", 1),
        ("-m", "", "uperf: option requires an argument -- 'm'\n", 1),
    ] {
        let expected = Exit {
            stdout: before.to_owned() + usage,
            stderr: stderr.to_owned(),
            code,
        };
        assert_eq!(parse_failure(line), expected, "{line}");
    }
}

#[test]
fn version_names_both_programs() {
    let Exit { stdout, code, .. } = parse_failure("-V");
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines[0].starts_with("Uperf Version 1.0.8, linerate "),
        "{stdout}"
    );
    assert!(lines[3].starts_with("Supported protocols: TCP, UDP, SSL, SCTP, VSOCK"));
    assert_eq!((lines.len(), lines[5], code), (7, "", 0), "{stdout}");
}

fn parse(line: &str) -> Settings {
    uperf("uperf", line.split_whitespace().map(Into::into)).expect(line)
}

fn parse_failure(line: &str) -> Exit {
    uperf("uperf", line.split_whitespace().map(Into::into)).expect_err(line)
}

fn default_settings(role: Role) -> Settings {
    Settings {
        role,
        control: DataProtocol::Tcp,
        port: 20_000,
        verbose: false,
        tls: TlsFiles::default(),
        policy: PeerPolicy::default(),
        notices: Vec::new(),
    }
}

fn default_master() -> MasterSettings {
    MasterSettings {
        profile: PathBuf::from("p"),
        interval: Duration::from_secs(1),
        print: PrintOptions::default_sections(),
        flowop_cpu: false,
        counters: Vec::new(),
        response_times: None,
        latencies: false,
        html: None,
        json: false,
    }
}
