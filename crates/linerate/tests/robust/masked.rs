//! Programs in a container whose /proc and /sys are masked: the files are missing, empty, frozen, or
//! have other contents.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::Requirement::{Namespaces, Program};
use testkit::{
    ProcessOutput, Profile, Server, TestCase, TestProcess, key_values, linerate_path, test_case,
    wait_until, with_prefix,
};

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let needs = &[Program("unshare"), Namespaces];
    with_prefix(
        "masked",
        vec![
            test_case("netperf_reports_no_facts", needs, netperf_reports_no_facts),
            test_case("uperf_reports_interfaces", needs, uperf_reports_interfaces),
            test_case(
                "udpmon_reports_no_counters",
                needs,
                udpmon_reports_no_counters,
            ),
            test_case(
                "udpmon_receiver_reports_no_counters",
                needs,
                udpmon_receiver_reports_no_counters,
            ),
        ],
    )
    .collect()
}

/// Files with counters of this host.
const COUNTERS: [&str; 8] = [
    "proc/stat",
    "proc/net/dev",
    "proc/net/snmp",
    "proc/net/snmp6",
    "proc/thread-self/net/dev",
    "proc/thread-self/net/snmp",
    "proc/thread-self/net/snmp6",
    "sys/class/net/lo/statistics/rx_packets",
];

/// Files with facts about this host.
const FACTS: [&str; 14] = [
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/thread-self/net/protocols",
    "proc/sys/kernel/random/boot_id",
    "proc/sys/kernel/threads-max",
    "proc/sys/kernel/pid_max",
    "proc/sys/net/ipv4/tcp_congestion_control",
    "proc/sys/net/ipv4/ip_unprivileged_port_start",
    "proc/sys/vm/max_map_count",
    "sys/kernel/security/lsm",
    "sys/module/apparmor/parameters/enabled",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
];

/// Files whose masked text could be a valid name, but not their zeros.
const NAMES: [&str; 1] = ["sys/class/dmi/id/product_name"];

/// What the files contain.
#[derive(Clone, Copy, Debug)]
enum Mask {
    Missing,
    Empty,
    Zeros,
    Text,
    /// The counters do not move. The other files are missing.
    Frozen,
}

const MASKS: [Mask; 5] = [
    Mask::Missing,
    Mask::Empty,
    Mask::Zeros,
    Mask::Text,
    Mask::Frozen,
];

/// Contents of /proc and /sys for a container.
struct MaskedFiles {
    directory: tempfile::TempDir,
}

impl MaskedFiles {
    fn new(mask: Mask) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["proc", "sys"] {
            fs::create_dir(directory.path().join(name)).expect("the directory is writable");
        }
        let files = Self { directory };
        for path in COUNTERS {
            let real = || fs::read_to_string(Path::new("/").join(path)).unwrap_or_default();
            match mask {
                Mask::Zeros => {
                    files.write(
                        path,
                        &real().replace(|char: char| char.is_ascii_digit(), "0"),
                    );
                }
                Mask::Frozen => files.write(path, &real()),
                other => files.write_masked(path, other),
            }
        }
        for path in FACTS {
            files.write_masked(path, mask);
        }
        for path in NAMES.iter().filter(|_| !matches!(mask, Mask::Text)) {
            files.write_masked(path, mask);
        }
        files
    }

    fn write_masked(&self, path: &str, mask: Mask) {
        match mask {
            Mask::Missing | Mask::Frozen => {}
            Mask::Empty => self.write(path, ""),
            Mask::Zeros => self.write(path, "0\n"),
            Mask::Text => self.write(path, "not available in this container\n"),
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        let parent = path.parent().expect("the path has a directory");
        fs::create_dir_all(parent).expect("the directory is writable");
        fs::write(path, text).expect("the directory is writable");
    }

    /// Returns a command that runs linerate with these files only.
    fn command(&self, arguments: &str) -> Command {
        let script = format!(
            "mount -t tmpfs none /sys && mount -t tmpfs none /proc && cd {} && \
             cp -R sys/. /sys && cp -R proc/. /proc && exec {} {arguments}",
            self.directory.path().display(),
            linerate_path().display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]);
        command
    }

    fn start_server(&self, arguments: impl Fn(u16) -> String) -> Server {
        let server = Server::try_start_with(|port| self.command(&arguments(port)));
        server.unwrap_or_else(|error| panic!("{error}"))
    }

    fn run(&self, arguments: &str) -> ProcessOutput {
        let output = TestProcess::start(&mut self.command(arguments)).finish(TIMEOUT);
        output.assert_success();
        output
    }
}

/// Facts that only the files contain are unknown. Interfaces are known by netlink, and the number of
/// CPUs by the C library. The limits of the server do not come from zeros.
fn netperf_reports_no_facts() {
    const UNKNOWN: [(&str, &str); 4] = [
        ("CPU_MODEL", "Unknown"),
        ("CPU_FREQUENCY", "0"),
        ("SYSTEM_MODEL", "Unknown"),
        ("SECURITY_TYPE", "Unknown"),
    ];
    const KNOWN: [&str; 2] = ["INTERFACE_NAME", "INTERFACE_TX_PACKETS"];
    let facts = UNKNOWN.iter().map(|(fact, _)| fact).chain(&KNOWN);
    let names: Vec<String> = facts
        .flat_map(|fact| [format!("LOCAL_{fact}"), format!("REMOTE_{fact}")])
        .collect();
    for mask in MASKS {
        let files = MaskedFiles::new(mask);
        let server = files.start_server(|port| format!("netserver -D -p {port}"));
        let target = format!("-H 127.0.0.1 -p {} -t TCP_RR -l -100 -P 0", server.port);
        let output = files.run(&format!("netperf {target} -- -k {}", names.join(",")));
        let values = key_values(&output.stdout);
        let value = |name: &str| {
            let pair = values.iter().find(|(key, _)| *key == name);
            pair.unwrap_or_else(|| panic!("{mask:?} {name}: {output:#?}"))
                .1
        };
        for end in ["LOCAL", "REMOTE"] {
            for (fact, expected) in UNKNOWN {
                let found = value(&format!("{end}_{fact}"));
                assert_eq!(found, expected, "{mask:?} {end}_{fact}");
            }
            assert_eq!(value(&format!("{end}_INTERFACE_NAME")), "lo", "{mask:?}");
            let packets: u64 = value(&format!("{end}_INTERFACE_TX_PACKETS"))
                .parse()
                .unwrap_or_default();
            assert!(packets >= 200, "{mask:?}: {output:#?}");
        }

        let output = files.run(&format!("netperf {target} --json"));
        let document: Value = serde_json::from_str(&output.stdout).expect("a JSON document");
        for fact in [
            "cpu_model",
            "cpu_mhz",
            "system_model",
            "security",
            "congestion_control",
            "virtual_guest",
            "boot_id",
        ] {
            for end in ["local", "remote"] {
                let value = document.pointer(&format!("/hosts/{end}/{fact}"));
                assert_eq!(value, Some(&Value::Null), "{mask:?} {end} {fact}");
            }
        }
    }
}

/// The counters of the interfaces are also known by netlink, unless the file has frozen ones.
fn uperf_reports_interfaces() {
    for mask in MASKS {
        let files = MaskedFiles::new(mask);
        let slave = files.start_server(|port| format!("uperf -s -P {port}"));
        let profile = files.directory.path().join("profile.xml");
        let text = Profile::requests().text().replace("$h", "127.0.0.1");
        fs::write(&profile, text).expect("the directory is writable");
        let line = format!("uperf -m {} -P {} -k", profile.display(), slave.port);
        let output = files.run(&line);
        let (_, section) = (output.stdout)
            .split_once("Netstat statistics for this run\n")
            .unwrap_or_else(|| panic!("{mask:?}: {output:#?}"));
        let name = if matches!(mask, Mask::Frozen) {
            "- "
        } else {
            "lo "
        };
        let row = section.lines().find_map(|line| line.strip_prefix(name));
        let sent = row.and_then(|row| row.split_whitespace().next());
        if matches!(mask, Mask::Frozen) {
            assert_eq!(sent, Some("-"), "{output:#?}");
            let warning = "not counted: traffic of the interfaces (/proc/net/dev is masked or did not change)";
            assert!(output.stderr.contains(warning), "{output:#?}");
            continue;
        }
        let rate: f64 = sent.and_then(|rate| rate.parse().ok()).unwrap_or_default();
        assert!(rate > 0.0, "{mask:?}: {output:#?}");
    }
}

/// The columns of IP and UDP, and the loss that is computed from them, are dashes.
fn udpmon_reports_no_counters() {
    for mask in MASKS {
        let files = MaskedFiles::new(mask);
        let responder = files.start_server(|port| format!("udpmon_resp -u {port}"));
        let load = format!("-d 127.0.0.1 -u {} -p 200 -l 20 -w 10", responder.port);
        let output = files.run(&format!("udpmon_bw_mon {load} -x"));
        let mut lines = output.stdout.lines();
        let titles = lines
            .find(|line| line.contains("pkt len;"))
            .unwrap_or_else(|| panic!("{mask:?}: {output:#?}"));
        let result = lines.next().expect("a result follows the titles");
        for title in ["num_lost_innet", "%lost_innet"] {
            let column = titles.split(';').position(|column| column.trim() == title);
            let value = result.split(';').nth(column.expect(title));
            assert_eq!(
                value.map(str::trim),
                Some("-"),
                "{mask:?} {title}: {result}"
            );
        }
        for host in ['L', 'R'] {
            assert_counters(result, host, mask);
        }
        for (label, host) in [("L ;", "this host"), ("R ;", "the responder's host")] {
            let mut figures = result.split(label).skip(1);
            let is_unavailable = figures.all(|figure| figure.starts_with(" -;"));
            assert!(is_unavailable, "{mask:?}: CPU time in {result}");
            assert_warning(&output.stdout, host, mask);
        }

        let output = files.run(&format!("udpmon_send {load}"));
        let result = output.stdout.lines().find(|line| line.starts_with(" 200;"));
        let result = result.unwrap_or_else(|| panic!("{mask:?}: {output:#?}"));
        assert_counters(result, 'L', mask);
        assert_warning(&output.stdout, "this host", mask);
    }
}

/// Checks the line about the facts that a host lacks.
#[track_caller]
fn assert_warning(stdout: &str, host: &str, mask: Mask) {
    let interfaces = if matches!(mask, Mask::Frozen) {
        "traffic of the interfaces, "
    } else {
        ""
    };
    let warning =
        format!("# unavailable at {host}: CPU time, {interfaces}counters of IP and UDP (");
    assert!(stdout.contains(&warning), "{mask:?}: {stdout}");
}

/// Checks the blocks of a host: the loopback interface has sent or received packets, and the counters
/// of the protocols are dashes. Those of the interfaces are known by netlink, unless the file has
/// frozen ones.
#[track_caller]
fn assert_counters(line: &str, host: char, mask: Mask) {
    let fail = || -> ! { panic!("{mask:?}: {line}") };
    let block = line.split_once(&format!("{host} if;"));
    let (_, block) = block.unwrap_or_else(|| fail());
    let blocks = block.split_once(&format!("{host} snmp;"));
    let (interfaces, protocols) = blocks.unwrap_or_else(|| fail());
    let name = if matches!(mask, Mask::Frozen) {
        " -: ;"
    } else {
        "lo: ;"
    };
    let (_, row) = interfaces.split_once(name).unwrap_or_else(|| fail());
    let packets = row.split(';').next().unwrap_or_default().trim();
    let is_expected = match mask {
        Mask::Frozen => packets == "-",
        _ => packets.parse::<u64>().is_ok_and(|count| count > 0),
    };
    assert!(is_expected, "{mask:?}: {line}");
    let values: Vec<_> = protocols.split(';').take(7).map(str::trim).collect();
    assert_eq!(values, ["-"; 7], "{mask:?}: {line}");
}

/// The receiver prints a line at an interrupt.
fn udpmon_receiver_reports_no_counters() {
    for mask in MASKS {
        let files = MaskedFiles::new(mask);
        let receiver = files.start_server(|port| format!("udpmon_recv -u {port}"));
        let line = format!(
            "udpmon_send -d 127.0.0.1 -u {} -p 200 -l 20 -w 10",
            receiver.port
        );
        files.run(&line);
        receiver.signal(Signal::INT);
        let has_line = || receiver.stdout().contains("L snmp; -;");
        assert!(
            wait_until(TIMEOUT, has_line),
            "{mask:?}: {}",
            receiver.log()
        );
        let stdout = receiver.stdout();
        let result = stdout.lines().find(|line| line.contains("L snmp; -;"));
        assert_counters(result.unwrap_or_default(), 'L', mask);
        let loss = stdout
            .lines()
            .find(|line| line.starts_with("Frames lost in net"));
        let loss: Vec<_> = loss.unwrap_or_default().split(';').map(str::trim).collect();
        assert_eq!(loss[1..3], ["-", "-"], "{mask:?}: {stdout}");
        assert_warning(&stdout, "this host", mask);
    }
}
