//! argv of `iperf3` → [`Settings`], in the stock tool's getopt grammar.
//!
//! One table ([`table`]) drives the parser, the usage text and the manual ([`manual`]).

pub mod manual;
mod settings;
mod table;
mod value;

use std::ffi::OsString;
use std::path::Path;

use getopt::usage::{Layout, own, stock};
use getopt::{Endings, Quit, scan_long, utf8};
use model::MAX_UDP_PAYLOAD;

pub use getopt::Exit;
pub use settings::{Client, Common, Role, Server, Settings, Wanted};
use table::{BLOCK_TOO_LARGE, SECTION, Typed};

use crate::VERSION;
use crate::wire::parameters::{LARGEST_BLOCK, SHORTEST_DATAGRAM};
use crate::wire::{Direction, Parameters, Protocol};

/// The rate of a UDP stream if none is asked for, in bits per second.
const UDP_RATE: u64 = 1 << 20;

/// What the command line asks for. `program` is argv\[0\], `args` the words after it.
pub fn iperf3(program: &str, args: impl IntoIterator<Item = OsString>) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    let mut typed = Typed::default();
    let rest = scan_long("iperf3", &SECTION, &words, &mut typed).map_err(ended)?;
    if let Some(word) = rest.first().filter(|_| typed.is_client) {
        let notice = format!("warning: '{word}' belongs to no option, and is ignored");
        typed.notices.push(notice);
    }
    settings(typed).map_err(ended)
}

fn ended(quit: Quit) -> Exit {
    quit.exit(Endings {
        help: Exit::stdout(usage(), 0),
        version: version(),
        complaint: Exit::stderr(usage(), 1),
    })
}

/// An error in stock's words, after its usage text.
fn parameter_error(what: &str) -> Quit {
    Quit::Exit(Exit {
        stdout: usage(),
        stderr: format!("iperf3: parameter error - {what}\n\n"),
        code: 1,
    })
}

/// What several options decide together.
fn settings(mut typed: Typed) -> Result<Settings, Quit> {
    let refuse = |what| Err(parameter_error(what));
    match (typed.is_server, typed.is_client) {
        (true, true) => return refuse("cannot be both server and client"),
        (false, false) => return refuse("must either be a client (-c) or server (-s)"),
        (true, _) if typed.of_client => {
            return refuse("some option you are trying to set is client only");
        }
        (_, true) if typed.of_server => {
            return refuse("some option you are trying to set is server only");
        }
        _ => {}
    }
    let role = if typed.is_server {
        if typed.server.private_key.is_some() != typed.server.users.is_some() {
            return refuse(
                "you must specify a path to a valid RSA private key and a user credential file",
            );
        }
        if typed.common.file.is_some() {
            // Two tests would write one file.
            typed.server.tests = 1;
        }
        Role::Server(Box::new(typed.server))
    } else {
        client(&mut typed)?;
        Role::Client(Box::new(typed.client))
    };
    Ok(Settings {
        common: typed.common,
        role,
        notices: typed.notices,
    })
}

fn client(typed: &mut Typed) -> Result<(), Quit> {
    let refuse = |what| Err(parameter_error(what));
    if typed.reverse && typed.both {
        return refuse("cannot be both reverse and bidirectional");
    }
    typed.ends.dedup();
    if typed.ends.len() > 1 {
        return refuse("only one test end condition (-t, -n, -k) may be specified");
    }
    let Client {
        parameters,
        user,
        public_key,
        links,
        association_streams,
        sends_whole_file,
        ..
    } = &mut typed.client;
    if let Some(why) = no_file(parameters).filter(|_| typed.common.file.is_some()) {
        return refuse(why);
    }
    let is_forward = parameters.direction == Direction::Forward;
    *sends_whole_file = typed.common.file.is_some() && typed.ends.is_empty() && is_forward;
    let is_sctp = parameters.protocol == Protocol::Sctp;
    let has_sctp_options = association_streams.is_some() || !links.is_empty();
    if has_sctp_options && !is_sctp {
        return refuse("-X and --nstreams are for --sctp only");
    }
    if parameters.multipath && parameters.protocol != Protocol::Tcp {
        return refuse("Multipath TCP is TCP, and goes without -u and --sctp");
    }
    if matches!(typed.ends[..], ["-n" | "-k"]) {
        parameters.time = 0;
    }
    if let Some(bytes) = parameters.block_bytes {
        let udp = SHORTEST_DATAGRAM..=MAX_UDP_PAYLOAD;
        match parameters.protocol {
            Protocol::Udp if !udp.contains(&bytes) => {
                return refuse("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)");
            }
            Protocol::Tcp | Protocol::Sctp if bytes > LARGEST_BLOCK => {
                return refuse(BLOCK_TOO_LARGE);
            }
            _ => {}
        }
    }
    if typed.has_receive_timeout && parameters.direction == Direction::Forward {
        return refuse("client receive timeout is valid only in receiving mode: ");
    }
    let common = &typed.common;
    let is_on_stdout = common.report.as_deref() == Some(Path::new("-"));
    if is_on_stdout && (common.json || common.json_stream) && common.log_file.is_none() {
        return refuse("--linerate-json - contradicts -J and --json-stream");
    }
    if user.is_some() != public_key.is_some() {
        return refuse("you must specify a username, password, and path to a valid RSA public key");
    }
    if parameters.protocol == Protocol::Udp && !typed.has_rate {
        parameters.rate = UDP_RATE;
    }
    parameters.client_version = Some(VERSION.to_owned());
    Ok(())
}

/// Why a test of these parameters goes without `-F`.
pub(crate) fn no_file(parameters: &Parameters) -> Option<&'static str> {
    match (parameters.protocol, parameters.direction) {
        (Protocol::Udp, _) => Some("-F is for TCP and SCTP only: datagrams are lost"),
        (_, Direction::Both) => Some("-F is for one direction: it would be read and written"),
        _ => parameters
            .skip_copy
            .then_some("-F needs the data that --skip-rx-copy leaves out"),
    }
}

/// `iperf3 -h`: the stock text, and below it the options that stock lacks.
fn usage() -> String {
    const OWN: Layout = Layout {
        indent: "  ",
        width: 25,
        argument: |name| format!("<{name}>"),
    };
    format!(
        "Usage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help] [-v|--version]\n\n{}\n\
         [KMG] indicates options that support a K/M/G suffix for kilo-, mega-, or giga-\n\n\
         linerate's own options, and those of later versions:\n{}",
        stock(&SECTION, ""),
        own(&SECTION, &OWN)
    )
}

/// `iperf3 -v`.
fn version() -> String {
    format!(
        "iperf {VERSION} (linerate {})\n{}\n\
         Optional features available: CPU affinity setting, SCTP, TCP congestion algorithm setting, \
         sendfile / zerocopy, socket pacing, {}bind to device, support IPv4 don't fragment\n",
        env!("CARGO_PKG_VERSION"),
        crate::system_info(),
        if cfg!(feature = "rsa") {
            "authentication, "
        } else {
            ""
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, Exit> {
        iperf3("iperf3", line.split_whitespace().map(OsString::from))
    }

    fn client_of(line: &str) -> Client {
        match parse(line).unwrap().role {
            Role::Client(client) => *client,
            Role::Server(_) => panic!("{line}"),
        }
    }

    #[test]
    fn wrong_words_have_stocks_answers() {
        for (line, text) in [
            ("", "must either be a client (-c) or server (-s)"),
            ("-s -c h", "cannot be both server and client"),
            (
                "-c h -t 86401",
                "test duration too long (maximum = 86400 seconds)",
            ),
            (
                "-c h -P 129",
                "number of parallel streams too large (maximum = 128)",
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
            ("-c h -M 9999", "TCP MSS too large (maximum = 9216 bytes)"),
            ("-c h -O -1", "bogus value for --omit"),
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
            assert_eq!(
                exit.stderr,
                format!("iperf3: parameter error - {text}\n\n"),
                "{line}"
            );
            assert!(exit.stdout.starts_with("Usage: iperf3") && exit.code == 1);
        }
        for (line, text) in [
            (
                "--nosuch",
                "iperf3: unrecognized option '--nosuch'\nUsage: iperf3 [-s|-c host]",
            ),
            ("-c", "iperf3: option requires an argument -- 'c'\nUsage"),
            ("-c h -t x", "iperf3: -t, --time x: 'x' is not a number\n"),
        ] {
            let exit = parse(line).unwrap_err();
            assert!(exit.stderr.starts_with(text), "{line}: {}", exit.stderr);
            assert_eq!(exit.code, 1);
        }
        assert_eq!(parse("-h").unwrap_err().code, 0);
        assert!(parse("-v").unwrap_err().stdout.starts_with("iperf 3.12 ("));
    }

    #[test]
    fn options_become_parameters() {
        let client = client_of("-c h -u -P 2 -R");
        assert_eq!(client.parameters.rate, UDP_RATE);
        assert_eq!(client.parameters.streams(), (0, 2));
        assert_eq!(client_of("-c h -u -b 0").parameters.rate, 0);
        assert_eq!(client_of("-c h -b 1.5M/10").parameters.burst, Some(10));
        assert_eq!(client_of("-c h -n 1M").parameters.time, 0);
        assert_eq!(client_of("-c h -t 0").parameters.time, 0);
        assert_eq!(
            client_of("-c h --dscp ef").parameters.type_of_service,
            Some(0xb8)
        );
        assert_eq!(client_of("-c h -A 1,2").parameters.server_affinity, Some(2));
        let settings = parse("-s stray -J -i 60").unwrap();
        assert!(settings.common.json && settings.notices.is_empty());
    }

    #[test]
    fn the_usage_text_begins_as_stocks() {
        let lines: Vec<_> = stock(&SECTION, "").lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "Server or Client:");
        assert!(lines.contains(&"Server specific:".to_owned()));
        assert_eq!(lines.len(), 88);
    }
}
