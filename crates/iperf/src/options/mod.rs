//! Parser of the `iperf` command line, in the grammar of `getopt_long`.
//!
//! The parser applies environment variables before the command line.
//!
//! One table (`table.rs`) drives the parser and the manual page. The parser fills
//! `GivenOptions`; `to_settings.rs` turns them into [`Settings`].

pub mod manual;
mod send_mode;
mod settings;
mod table;
mod to_settings;
mod usage;
mod value;

use std::ffi::OsString;

use getopt::stock_version::{self, StockVersion};
use getopt::{
    EarlyExit, ExitTexts, Grammar, apply_environment, mask_secrets, scan_long, utf8_words,
};

use crate::version::Version;
pub use getopt::Exit;
pub use send_mode::{Input, PeriodicBursts, SendMode};
pub use settings::{
    Bounceback, ClientSettings, ConnectOnly, ConnectRetry, Direction, ExcludedReports, Format,
    Increments, OutputSettings, PacingSteps, PermitKey, Role, ServerSettings, Settings, StartTime,
};
use table::GivenOptions;
pub use value::RateSetting;

/// Returns the settings that a command line requests.
///
/// `program` is argv\[0\], `args` the words after it. `variable` looks up an environment variable.
pub fn parse_iperf(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    let versions = variable(stock_version::VARIABLE);
    let version = Version::from_variable(versions.as_deref()).map_err(|reason| {
        Exit::stderr(
            format!("{program}: {}: {reason}\n", stock_version::VARIABLE),
            1,
        )
    })?;
    let mut given = GivenOptions {
        version,
        ..GivenOptions::default()
    };
    let section = &table::SECTION;
    let requested = |version: Version, text: String| {
        if version.layout().help_is_success {
            Exit::stdout(text, 0)
        } else {
            Exit::stderr(text, 1)
        }
    };
    let exit_texts = |version| ExitTexts {
        help: requested(version, usage::text(version)),
        version: String::new(),
        syntax_error: Exit::stderr(usage::SHORT, 1),
    };
    let exit = |quit, version: Version| match quit {
        EarlyExit::Version => requested(version, version.layout().version_text.to_owned()),
        EarlyExit::SyntaxError(line) => {
            EarlyExit::SyntaxError(format_as_old_getopt(&line)).into_exit(exit_texts(version))
        }
        other => other.into_exit(exit_texts(version)),
    };
    let applied = apply_environment(program, section, variable, &mut given);
    applied.map_err(|quit| exit(quit, version))?;
    let scanned = scan_long(program, section, &words, &mut given);
    let extra_words = scanned.map_err(|quit| exit(quit, given.version))?;
    if let Some(word) = extra_words.first() {
        let notice = format!("{program}: ignoring extra argument -- {word}");
        given.notices.push(notice);
    }
    to_settings::settings(given)
}

/// Returns the words of a valid command line for display: without secrets.
pub fn displayed_words(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    mask_secrets(Grammar::GetoptLong, &table::SECTION, args)
}

/// Returns an error line of getopt in the words of the older getopt that iperf 2 contains.
fn format_as_old_getopt(line: &str) -> String {
    for (new, old, end) in [
        ("unrecognized option '", "unrecognized option `", "'\n"),
        ("invalid option -- '", "invalid option -- ", "\n"),
        (
            "option requires an argument -- '",
            "option requires an argument -- ",
            "\n",
        ),
    ] {
        if let Some((before, option)) = line.split_once(new) {
            let name = option.trim_end().trim_end_matches('\'');
            return format!("{before}{old}{name}{end}");
        }
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Limit;

    use super::*;

    fn parse(line: &str, variables: &[(&str, &str)]) -> Result<Settings, Exit> {
        let words = line.split_whitespace().map(OsString::from);
        let variable = |name: &str| {
            let given = variables.iter().find(|(given, _)| *given == name);
            given.map(|(_, value)| (*value).to_owned())
        };
        parse_iperf("iperf", words, variable)
    }

    fn client(line: &str) -> ClientSettings {
        match parse(line, &[]).unwrap().role {
            Role::Client(client) => *client,
            Role::Server(_) => panic!("{line}: a server"),
        }
    }

    #[test]
    fn client_options_make_a_plan() {
        let client = client("-c peer -t 2 -b 8m -l 10000 -P 3 --full-d");
        let plan = &client.plan;
        assert_eq!((plan.groups.len(), plan.flows()), (2, 3));
        let flow = plan.flow().unwrap();
        assert_eq!(flow.limit, Limit::Time(Duration::from_secs(2)));
        let pacing = flow.local.pacing.unwrap();
        assert_eq!(pacing.interval, Duration::from_millis(10));
    }

    #[test]
    fn the_last_of_time_and_bytes_limits_the_test() {
        for (line, limit) in [
            ("-c h", Limit::Time(Duration::from_secs(10))),
            ("-c h -t 0", Limit::Unlimited),
            ("-c h -t 1 -n 5K", Limit::Bytes(5120)),
            ("-c h -n 5K -t 1", Limit::Time(Duration::from_secs(1))),
        ] {
            assert_eq!(client(line).plan.flow().unwrap().limit, limit, "{line}");
        }
    }

    /// Covers the variables that stock was observed to read.
    #[test]
    fn variables_of_stock_are_read() {
        for (name, value) in [
            ("BANDWIDTH", "8m"),
            ("BIND", "127.0.0.1"),
            ("FORMAT", "k"),
            ("INTERVAL", "1"),
            ("IPV6_DOMAIN", ""),
            ("LEN", "700"),
            ("MSS", "900"),
            ("PORT", "6000"),
            ("PRINT_MSS", ""),
            ("REPORTEXCLUDE", "C"),
            ("REPORTSTYLE", "C"),
            ("TIME", "3"),
            ("TOS", "af11"),
            ("UDP", ""),
        ] {
            let plain = format!("{:?}", parse("-c ::1", &[]).unwrap());
            let variable = format!("IPERF_{name}");
            let settings = parse("-c ::1", &[(&variable, value)]).unwrap();
            assert_ne!(format!("{settings:?}"), plain, "{name}");
        }
        for name in ["SERVER", "DAEMON", "SINGLECLIENT", "SINGLE_UDP"] {
            let plain = format!("{:?}", parse("-s", &[]).unwrap());
            let variable = format!("IPERF_{name}");
            let words = if name == "SERVER" { "" } else { "-s" };
            let settings = parse(words, &[(&variable, "")]).unwrap();
            let is_server = matches!(settings.role, Role::Server(_));
            assert!(is_server, "{name}");
            assert!(
                name == "SERVER" || format!("{settings:?}") != plain,
                "{name}"
            );
        }
        let settings = parse("-c h", &[("TCP_WINDOW_SIZE", "64K")]).unwrap();
        assert_eq!(settings.socket.send_buffer_bytes, Some(65_536));
        let client = parse("", &[("IPERF_CLIENT", "h")]).unwrap();
        assert!(matches!(client.role, Role::Client(_)));
    }

    #[test]
    fn variables_set_options() {
        let settings = parse("-c h", &[("IPERF_PORT", "6000"), ("IPERF_UDP", "")]).unwrap();
        assert_eq!(settings.ports, (6000, 6000));
        assert!(settings.is_udp());
    }

    #[test]
    fn invalid_command_lines_fail_with_a_message() {
        for (line, message) in [
            (
                "--foo",
                "iperf: unrecognized option `--foo'\nUsage: iperf [-s|-c host] [options]\nTry `iperf --help' for more information.\n",
            ),
            (
                "-k",
                "iperf: invalid option -- k\nUsage: iperf [-s|-c host] [options]\nTry `iperf --help' for more information.\n",
            ),
            ("-c h -t abc", "ERROR: -t value of 'abc' not recognized\n"),
            ("-c h -n 0", "Invalid value for -n amount of '0'\n"),
            (
                "",
                "Usage: iperf [-s|-c host] [options]\nTry `iperf --help' for more information.\n",
            ),
            (
                "--stock-version 2.1.8 -v",
                "iperf version 2.1.8 (12 August 2022) pthreads\n",
            ),
            (
                "-c h -R -d",
                "ERROR: options of --full-duplex, --reverse, -d and -r are mutually exclusive\n",
            ),
            (
                "-c h -b 100pps",
                "ERROR: units of pps not supported with TCP\n",
            ),
            (
                "-c h -b 8k",
                "ERROR: option -b and -l of 131072 are incompatible, consider setting -l to 1000 or lower\n",
            ),
            (
                "-c h -u -X",
                "ERROR: option of -X or --peer-detect not supported with -u UDP\n",
            ),
            (
                "-c h --permit-key",
                "ERROR: option of --permit-key requires a value on the client\n",
            ),
            (
                "-c h --permit-key=abc",
                "ERROR: value for --permit-key must have at least 4 characters\n",
            ),
            (
                "-c h -u -R --ipg 5",
                "iperf: --ipg: with -R this end sends nothing\n",
            ),
            (
                "-c h --txdelay-time abc",
                "Invalid value of 'abc' for --txdelay-time time\n",
            ),
            (
                "-c h --incr-srcip",
                "ERROR: option of --incr-srcip requires -B bind option to be set\n",
            ),
            (
                "-c h -u --connect-only",
                "ERROR: option of --connect-only not supported with -u UDP\n",
            ),
            ("-s -d", ""),
            (
                "-s --bounceback",
                "ERROR: setting of option --bounce-back is not supported on the server\n",
            ),
            (
                "-c h --isochronous -b 8m",
                "ERROR: options of --b and --isochronous cannot be applied together\n",
            ),
            (
                "-c h --isochronous=60:0",
                "ERROR: Invalid --isochronous mean value, must be greater than zero\n",
            ),
            (
                "-c h --burst-size 20K",
                "ERROR: option of --burst-size 20480 must be equal or larger to write length (-l) 131072\n",
            ),
            (
                "-c h --near-congestion -b 80m",
                "ERROR: option of --near-congestion and -b rate limited are mutually exclusive\n",
            ),
        ] {
            match parse(line, &[]) {
                Err(exit) => assert_eq!((exit.stderr.as_str(), exit.code), (message, 1), "{line}"),
                Ok(settings) => {
                    assert_eq!(message, "", "{line}");
                    let notices = ["WARNING: option -d is not valid for server mode"];
                    assert_eq!(settings.notices, notices, "{line}");
                }
            }
        }
    }

    #[test]
    fn invalid_values_of_options_of_2_2_1_fail_with_a_message() {
        for (line, message) in [
            (
                "-c h --connect-retry-timer 0",
                "Invalid value of '0' for --connect-retry-timer\n",
            ),
            (
                "-c h -r --sync-transfer-id",
                "iperf: --sync-transfer-id: over TCP, its header is that of -r\n",
            ),
            (
                "-c h --tcp-tx-delay 3000",
                "ERROR: Invalid value of '3000' for --tcp-tx-delay\n",
            ),
            (
                "-c h --dscp 64",
                "iperf: --dscp 64: not a number from 0 to 63\n",
            ),
            (
                "-c h --working-load=sideways",
                "Unrecoginized value of sideways for --working-load, use 'up', 'down' or 'bidir'\n",
            ),
        ] {
            let exit = parse(line, &[]).unwrap_err();
            assert_eq!((exit.stderr.as_str(), exit.code), (message, 1), "{line}");
        }
    }
}
