//! Parses argv of `iperf3` to [`Settings`], with the stock tool's getopt grammar.
//!
//! One table (`table`) drives the parser, the usage text and the manual ([`manual`]).

pub mod manual;
mod settings;
mod table;
mod value;

use std::ffi::OsString;
use std::path::Path;

use getopt::stock_version::{self, StockVersion};
use getopt::usage::{UsageLayout, linerate_lines, stock_lines};
use getopt::{EarlyExit, ExitTexts, scan_long, utf8_words};
use model::MAX_UDP_PAYLOAD;

pub use getopt::Exit;
pub use settings::{AddressFamily, ClientSettings, CommonSettings, Role, ServerSettings, Settings};
use table::{BLOCK_TOO_LARGE, GivenOptions, SECTION};

use crate::Version;
use crate::wire::parameters::{MAX_BLOCK_BYTES, MIN_DATAGRAM_BYTES};
use crate::wire::{Direction, Parameters, Protocol};

/// The default rate of a UDP stream, in bits per second.
const UDP_RATE: u64 = 1 << 20;

/// Parses a command line. `program` is argv\[0\], `args` are the words after it. `versions` is the
/// value of the environment variable that selects stock versions.
pub fn parse_iperf3(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
    versions: Option<&str>,
) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    let mut options = GivenOptions::default();
    options.common.version = Version::from_variable(versions).map_err(|reason| {
        Exit::stderr(
            format!("iperf3: {}: {reason}\n", stock_version::VARIABLE),
            1,
        )
    })?;
    let scanned = scan_long("iperf3", &SECTION, &words, &mut options);
    let version = options.common.version;
    let into_exit = |early_exit| into_exit(early_exit, version);
    let remaining = scanned.map_err(into_exit)?;
    if let Some(word) = remaining.first().filter(|_| options.is_client) {
        let notice = format!("warning: '{word}' is not an option and is ignored");
        options.notices.push(notice);
    }
    check_settings(options).map_err(into_exit)
}

const SHORT_USAGE: &str =
    "Usage: iperf3 [-s|-c host] [options]\nTry `iperf3 --help' for more information.\n";

fn into_exit(early_exit: EarlyExit, version: Version) -> Exit {
    // Of this kind are parameter errors only.
    if let EarlyExit::Exit(exit) = early_exit {
        let reason = version.text(&exit.stderr);
        let line = format!("iperf3: parameter error - {reason}\n\n");
        return if version.layout().prints_usage_with_errors {
            Exit {
                stdout: usage(),
                ..Exit::stderr(line, 1)
            }
        } else {
            Exit::stderr(line + SHORT_USAGE, 1)
        };
    }
    early_exit.into_exit(ExitTexts {
        help: Exit::stdout(usage(), 0),
        version: version_text(version),
        syntax_error: if version.layout().prints_usage_with_errors {
            Exit::stderr(usage(), 1)
        } else {
            Exit::stderr(SHORT_USAGE, 1)
        },
    })
}

/// Returns a parameter error with the newest version's reason, which [`into_exit`] completes.
fn parameter_error(reason: &str) -> EarlyExit {
    EarlyExit::Exit(Exit::stderr(reason, 1))
}

/// Checks options that depend on each other, and returns the settings.
fn check_settings(mut options: GivenOptions) -> Result<Settings, EarlyExit> {
    let refuse = |what| Err(parameter_error(what));
    match (options.is_server, options.is_client) {
        (true, true) => return refuse("cannot be both server and client"),
        (false, false) => return refuse("must either be a client (-c) or server (-s)"),
        (true, _) if options.has_client_option => {
            return refuse("some option you are trying to set is client only");
        }
        (_, true) if options.has_server_option => {
            return refuse("some option you are trying to set is server only");
        }
        _ => {}
    }
    if options.common.json && options.common.format.is_some() {
        let notice = "warning: Report format (-f) flag ignored with JSON output (-J)";
        options.notices.push(notice.to_owned());
    }
    let role = if options.is_server {
        if options.server.private_key.is_some() != options.server.users_file.is_some() {
            return refuse(
                "you must specify a path to a valid RSA private key and a user credential file",
            );
        }
        if options.common.file.is_some() {
            // Concurrent tests would write to the same file.
            options.server.max_tests = 1;
        }
        Role::Server(Box::new(options.server))
    } else {
        check_client(&mut options)?;
        Role::Client(Box::new(options.client))
    };
    Ok(Settings {
        common: options.common,
        role,
        notices: options.notices,
    })
}

fn check_client(options: &mut GivenOptions) -> Result<(), EarlyExit> {
    let refuse = |what| Err(parameter_error(what));
    if options.reverse && options.bidirectional {
        return refuse("cannot be both reverse and bidirectional");
    }
    // As in stock, a number of 0 is no end condition.
    let parameters = &options.client.parameters;
    let has_size = parameters.bytes > 0 || parameters.blocks > 0;
    let conditions = [
        options.has_time,
        parameters.bytes > 0,
        parameters.blocks > 0,
    ];
    if conditions.into_iter().filter(|is_given| *is_given).count() > 1 {
        return refuse("only one test end condition (-t, -n, -k) may be specified");
    }
    let ClientSettings {
        parameters,
        user,
        public_key,
        extra_local_addresses,
        association_streams,
        sends_whole_file,
        ..
    } = &mut options.client;
    if let Some(reason) = file_conflict(parameters).filter(|_| options.common.file.is_some()) {
        return refuse(reason);
    }
    let is_forward = parameters.direction == Direction::Forward;
    *sends_whole_file =
        options.common.file.is_some() && !options.has_time && !has_size && is_forward;
    let is_sctp = parameters.protocol == Protocol::Sctp;
    let has_sctp_options = association_streams.is_some() || !extra_local_addresses.is_empty();
    if has_sctp_options && !is_sctp {
        return refuse("-X and --nstreams require --sctp");
    }
    if parameters.multipath && parameters.protocol != Protocol::Tcp {
        return refuse("Multipath TCP cannot be combined with -u or --sctp");
    }
    if has_size {
        parameters.time = 0;
    }
    if let Some(bytes) = parameters.block_bytes {
        let datagram_bytes = MIN_DATAGRAM_BYTES..=MAX_UDP_PAYLOAD;
        match parameters.protocol {
            Protocol::Udp if !datagram_bytes.contains(&bytes) => {
                return refuse("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)");
            }
            Protocol::Tcp | Protocol::Sctp if bytes > MAX_BLOCK_BYTES => {
                return refuse(BLOCK_TOO_LARGE);
            }
            _ => {}
        }
    }
    if options.has_receive_timeout && parameters.direction == Direction::Forward {
        return refuse("client receive timeout is valid only in receiving mode: ");
    }
    let common = &options.common;
    let has_document_on_stdout = common.linerate_json.as_deref() == Some(Path::new("-"));
    if has_document_on_stdout && common.prints_json() && common.log_file.is_none() {
        return refuse(
            "--linerate-json with the file '-' cannot be combined with -J or --json-stream, except with --logfile",
        );
    }
    if user.is_some() != public_key.is_some() {
        return refuse("you must specify a username, password, and path to a valid RSA public key");
    }
    if parameters.protocol == Protocol::Udp && !options.has_rate {
        parameters.rate = UDP_RATE;
    }
    parameters.client_version = Some(options.common.version.name().to_owned());
    Ok(())
}

/// Returns why `-F` cannot be combined with these parameters, if so.
pub(crate) fn file_conflict(parameters: &Parameters) -> Option<&'static str> {
    match (parameters.protocol, parameters.direction) {
        (Protocol::Udp, _) => Some("-F requires TCP or SCTP, because UDP may lose datagrams"),
        (_, Direction::Both) => {
            Some("-F requires one direction, because the file would be both read and written")
        }
        _ => parameters
            .skip_copy
            .then_some("-F requires the received data, which --skip-rx-copy discards"),
    }
}

/// Returns the text of `iperf3 -h`: the stock text, then the options that stock lacks.
fn usage() -> String {
    const LINERATE_LAYOUT: UsageLayout = UsageLayout {
        indent: "  ",
        width: 25,
        format_argument: |name| format!("<{name}>"),
    };
    format!(
        "Usage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help] [-v|--version]\n\n{}\n\
         [KMG] indicates options that support a K/M/G suffix for kilo-, mega-, or giga-\n\n\
         Options of linerate:\n{}",
        stock_lines(&SECTION, ""),
        linerate_lines(&SECTION, &LINERATE_LAYOUT)
    )
}

/// Returns the text of `iperf3 -v`.
fn version_text(version: Version) -> String {
    format!(
        "iperf {} (linerate {})\n{}\n\
         Optional features available: CPU affinity setting, IPv6 flow label, SCTP, TCP congestion \
         algorithm setting, sendfile / zerocopy, socket pacing, {}bind to device, support IPv4 don't \
         fragment{}\n",
        version.name(),
        env!("CARGO_PKG_VERSION"),
        crate::system_info(),
        if cfg!(feature = "rsa") {
            "authentication, "
        } else {
            ""
        },
        version.layout().features,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(line: &str) -> Result<Settings, Exit> {
        parse_iperf3("iperf3", line.split_whitespace().map(OsString::from), None)
    }

    fn parse_client(line: &str) -> ClientSettings {
        match parse(line).unwrap().role {
            Role::Client(client) => *client,
            Role::Server(_) => panic!("{line}"),
        }
    }

    #[test]
    fn wrong_options_have_stocks_errors() {
        for (line, text) in [
            ("", "must either be a client (-c) or server (-s)"),
            ("-s -c h", "cannot be both server and client"),
            (
                "-c h -t 86401",
                "test duration valid values are 0 to 86400 seconds",
            ),
            (
                "-c h -P 129",
                "invalid number of parallel streams (min = 1, max = 128)",
            ),
            ("-c h -l 2M", BLOCK_TOO_LARGE),
            (
                "-c h -u -l 15",
                "block size invalid (minimum = 16 bytes, maximum = 65507 bytes)",
            ),
            (
                "-c h -w 1G",
                "socket buffer size too large (maximum = 536870912 bytes)",
            ),
            (
                "-c h -i 0.01",
                "invalid report interval (min = 0.1, max = 60 seconds)",
            ),
            ("-c h -M 32768", "TCP MSS too large (maximum = 32767 bytes)"),
            (
                "-c h -O -1",
                "bogus value for --omit (maximum = 600 seconds)",
            ),
            (
                "-c h -R --bidir",
                "cannot be both reverse and bidirectional",
            ),
            (
                "-c h -n 1 -t 1",
                "only one test end condition (-t, -n, -k) may be specified",
            ),
            (
                "-c h -S 256",
                "bad TOS value (must be between 0 and 255 inclusive)",
            ),
            (
                "-s -t 5",
                "some option you are trying to set is client only",
            ),
            (
                "-c h -D",
                "some option you are trying to set is server only",
            ),
            ("-c h -b 1M/0", "invalid burst count (maximum = 1000)"),
            (
                "-c h -p 70000",
                "port number must be between 1 and 65535 inclusive",
            ),
            (
                "-c h -f x",
                "bad format specifier (valid formats are in the set [kmgtKMGT])",
            ),
            ("-c h -L 0", "unable to set IPv6 flow label"),
            (
                "-c h --rcv-timeout 200",
                "client receive timeout is valid only in receiving mode: ",
            ),
            (
                "-s --idle-timeout 0",
                "idle timeout parameter is not positive or larger than allowed limit",
            ),
            (
                "-c h --username a",
                "you must specify a username, password, and path to a valid RSA public key",
            ),
        ] {
            let exit = parse(line).unwrap_err();
            let expected = format!("iperf3: parameter error - {text}\n\n{SHORT_USAGE}");
            assert_eq!(exit.stderr, expected, "{line}");
            assert!(exit.stdout.is_empty() && exit.code == 1);
        }
        for (line, text) in [
            (
                "--nosuch",
                "iperf3: unrecognized option '--nosuch'\nUsage: iperf3 [-s|-c host]",
            ),
            ("-c", "iperf3: option requires an argument -- 'c'\nUsage"),
            (
                "-c h -t x",
                "iperf3: -t, --time x: 'x' is not a whole number of seconds\n",
            ),
        ] {
            let exit = parse(line).unwrap_err();
            assert!(exit.stderr.starts_with(text), "{line}: {}", exit.stderr);
            assert_eq!(exit.code, 1);
        }
        assert_eq!(parse("-h").unwrap_err().code, 0);
        assert!(parse("-v").unwrap_err().stdout.starts_with("iperf 3.22 ("));
    }

    #[test]
    fn options_become_parameters() {
        let client = parse_client("-c h -u -P 2 -R");
        assert_eq!(client.parameters.rate, UDP_RATE);
        assert_eq!(client.parameters.stream_counts(), (0, 2));
        assert_eq!(parse_client("-c h -u -b 0").parameters.rate, 0);
        assert_eq!(parse_client("-c h -b 1.5M/10").parameters.burst, Some(10));
        assert_eq!(parse_client("-c h -n 1M").parameters.time, 0);
        assert_eq!(parse_client("-c h -t 0").parameters.time, 0);
        assert_eq!(parse_client("-c h -n 0 -k 0").parameters.time, 10);
        assert_eq!(parse_client("-c h -t 2 -n 0").parameters.time, 2);
        assert_eq!(parse_client("-c h -n 0 -k 5").parameters.time, 0);
        assert_eq!(
            parse_client("-c h --dscp ef").parameters.type_of_service,
            Some(0xb8)
        );
        assert_eq!(
            parse_client("-c h -A 1,2").parameters.server_affinity,
            Some(2)
        );
        let settings = parse("-s stray -J -i 60 -m").unwrap();
        assert!(settings.common.json && settings.notices.is_empty());
    }

    /// The expected members are those that iperf3 3.12 sends for these options.
    #[test]
    fn numbers_are_those_of_stock() {
        for (options, member) in [
            ("-t 1s", r#""time":1"#),
            ("-t +3", r#""time":3"#),
            ("-t 010", r#""time":10"#),
            ("-O 1s", r#""omit":1"#),
            ("-P 2x", r#""parallel":2"#),
            ("-P 128x", r#""parallel":128"#),
            ("-l 8KB", r#""len":8192"#),
            ("-l 8kiB", r#""len":8192"#),
            ("-l 1.5K", r#""len":1536"#),
            ("-l .5K", r#""len":512"#),
            ("-l 8x", r#""len":8"#),
            ("-l 0x10", r#""len":16"#),
            ("-l 1e3", r#""len":1000"#),
            ("-n 1MB", r#""num":1048576"#),
            ("-n 1mb", r#""num":1048576"#),
            ("-n 1.7", r#""num":1"#),
            ("-k 20x", r#""blockcount":20"#),
            ("-k 1K", r#""blockcount":1024"#),
            ("-w 64KB", r#""window":65536"#),
            ("-b 1Mbps", r#""bandwidth":1000000"#),
            ("-b 1mbit", r#""bandwidth":1000000"#),
            ("-b 1.5Mbps", r#""bandwidth":1500000"#),
            ("-b 0x10K", r#""bandwidth":16000"#),
            (
                "-b 1Mbps/10x",
                r#""bandwidth":1000000,"pacing_timer":1000,"burst":10"#,
            ),
            ("-M 1000B", r#""MSS":1000"#),
            ("--pacing-timer 100us", r#""pacing_timer":100"#),
            ("--pacing-timer 1KB", r#""pacing_timer":1024"#),
            ("--fq-rate 1Mbps", r#""fqrate":1000000"#),
            ("-S 32x", r#""TOS":32"#),
            ("-S 0x20x", r#""TOS":32"#),
            ("-S 040", r#""TOS":32"#),
            ("--dscp +46", r#""TOS":184"#),
            ("-L 5x", r#""flowlabel":5"#),
            ("-L 010", r#""flowlabel":8"#),
            ("-A 0,0x", r#""server_affinity":0"#),
        ] {
            let text = parse_client(&format!("--stock-version 3.12 -c h {options}"))
                .parameters
                .encode();
            let is_member = text.contains(&format!("{member},"));
            assert!(is_member, "{options}: {text}");
        }
        for (options, interval) in [("0.5s", 500), ("1s", 1000), (".5", 500), ("1e-1", 100)] {
            let common = parse(&format!("-c h -i {options}")).unwrap().common;
            assert_eq!(common.interval, Some(Duration::from_millis(interval)));
        }
        let client = parse_client("-c h --cport 5300x --connect-timeout 500ms");
        assert_eq!(client.local_port, Some(5300));
        assert_eq!(client.connect_timeout, Some(Duration::from_millis(500)));
        let server = "--stock-version 3.12 -s -p 5301x --idle-timeout 30s --server-bitrate-limit 5Mbps/2s --debug=5";
        let settings = parse(&format!("{server} --rcv-timeout 500ms")).unwrap();
        assert_eq!(settings.common.port, 5301);
        assert_eq!(settings.common.receive_timeout.as_millis(), 500);
        match settings.role {
            Role::Server(server) => {
                assert_eq!(server.idle_timeout, Some(Duration::from_secs(30)));
                let limit = (5_000_000, Duration::from_secs(2));
                assert_eq!(server.rate_limit, Some(limit));
            }
            Role::Client(_) => panic!("{server}"),
        }
    }

    /// Stock runs other tests than these command lines request.
    #[test]
    fn misleading_numbers_are_refused() {
        for options in [
            "-t 10m",
            "-t 1m0s",
            "-t 500ms",
            "-t 1.9",
            "-t 0x10",
            "-t abc",
            "-O 1m",
            "-i 1m",
            "-i nan",
            "-P 2K",
            "-P 1.5",
            "-M 1K",
            "-n 1P",
            "-n abc",
            "-k 10s",
            "-l inf",
            "-w K",
            "-b 100pps",
            "-b /5",
            "--pacing-timer 1ms",
            "--connect-timeout 1s",
            "--cport 53K",
        ] {
            let exit = parse(&format!("--stock-version 3.12 -c h {options}")).unwrap_err();
            let is_line = exit.stderr.lines().count() == 1 && exit.stdout.is_empty();
            let value = options.split(' ').next_back().unwrap();
            assert!(
                is_line && exit.stderr.contains(value),
                "{options}: {exit:?}"
            );
        }
    }

    #[test]
    fn usage_text_starts_like_stocks() {
        let lines: Vec<_> = stock_lines(&SECTION, "")
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(lines[0], "Server or Client:");
        assert!(lines.contains(&"Server specific:".to_owned()));
        assert_eq!(lines.len(), 101);
    }
}
