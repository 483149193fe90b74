//! `linerate man DIR`: the manual pages, made from the tables that the parsers and usage texts are made
//! of.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use getopt::manual::Chapter;
use netperf::options::Test;
use netperf::options::manual;
use netperf::selector::Selector;
use roff::{Inline, Roff, bold, italic, roman};
use sys::WholeFile;

/// Writes the pages into `directory`, which it makes if it is missing, and prints their names.
pub(crate) fn run(directory: &Path, command_line: &clap::Command) -> ExitCode {
    if let Err(error) = std::fs::create_dir_all(directory) {
        sys::write_error_line(format_args!(
            "linerate man: {}: {}",
            directory.display(),
            sys::describe(&error)
        ));
        return ExitCode::FAILURE;
    }
    for (file, page) in pages(command_line) {
        let path = directory.join(file);
        if let Err(error) = page.and_then(|text| WholeFile::begin(&path)?.write(&text)) {
            sys::write_error_line(format_args!(
                "linerate man: {}: {}",
                path.display(),
                sys::describe(&error)
            ));
            return ExitCode::FAILURE;
        }
        // A reader that has had enough is no failure.
        let _ = writeln!(io::stdout(), "{}", path.display());
    }
    ExitCode::SUCCESS
}

fn pages(command_line: &clap::Command) -> Vec<(&'static str, io::Result<Vec<u8>>)> {
    #[cfg_attr(
        not(feature = "udpmon"),
        expect(unused_mut, reason = "UDPmon adds its pages")
    )]
    let mut pages = vec![
        ("netperf.1", rendered(&client())),
        ("netserver.1", rendered(&server())),
        ("super_netperf.1", rendered(&super_netperf())),
        ("super-netperf.1", rendered(&super_netperf_on_ports())),
        #[cfg(feature = "iperf")]
        ("iperf.1", rendered(&iperf())),
        #[cfg(feature = "iperf3")]
        ("iperf3.1", rendered(&iperf3())),
        #[cfg(feature = "uperf")]
        ("uperf.1", rendered(&uperf())),
        ("linerate.1", of_clap(command_line)),
    ];
    #[cfg(feature = "udpmon")]
    pages.extend(udpmon_pages());
    pages
}

fn rendered(page: &Roff) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    Ok(text)
}

fn of_clap(command_line: &clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command_line.clone());
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let mut rest = Roff::new();
    for command in command_line.get_subcommands() {
        subcommand(&mut rest, command);
    }
    see_also(
        &mut rest,
        &[
            "netperf",
            "netserver",
            "super_netperf",
            "iperf",
            "iperf3",
            "udpmon",
            "uperf",
        ],
    );
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// One of linerate's commands. A dialect's options are in a page of its own.
fn subcommand(page: &mut Roff, command: &clap::Command) {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    section(page, &format!("linerate {}", command.get_name()), &about);
    let is_dialect = crate::names::by_name(command.get_name().as_ref()).is_some();
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    for argument in arguments.filter(|_| !is_dialect) {
        let short = argument
            .get_short()
            .filter(|_| argument.get_long().is_some());
        let short = short.map(|letter| format!("-{letter}, "));
        // A list's place ends in dots, for which roff has a meaning of its own at a line's start.
        let typed = short.unwrap_or_default() + &argument.to_string();
        entry(page, &typed, "", &described(argument));
    }
    if let Some(after) = command.get_after_help() {
        for line in after.to_string().lines() {
            page.control("br", []);
            page.text([roman(line)]);
        }
    }
}

/// An argument's help with its default, as clap's own help has it.
fn described(argument: &clap::Arg) -> String {
    let help = argument.get_help().map(ToString::to_string);
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    let takes_value = argument.get_action().takes_values();
    let default = if takes_value && !defaults.is_empty() {
        format!(" [default: {}]", defaults.join(", "))
    } else {
        String::new()
    };
    help.unwrap_or_default() + &default
}

fn client() -> Roff {
    let mut page = head(
        "netperf",
        "network performance benchmark, client",
        &[
            bold("netperf"),
            roman(" [global options] "),
            bold("--"),
            roman(" [test options]"),
        ],
        "netperf measures throughput, request/response and connection rates, and what they cost in CPU \
         time, between this host and one on which a netserver runs, this program's or the stock one. It has \
         the options and the output of netperf 2.7.0. Most options take two values, for this end and the other \
         one or for sending and receiving: \"a,b\" sets both, \"a,\" the first, \",b\" the second, and \"a\" both or \
         the first, as the option's text says.",
    );
    chapters(&mut page, &manual::client());
    section(&mut page, "TESTS", "The names that -t knows, in any case.");
    let names: Vec<_> = Test::ALL.iter().map(|(_, name)| *name).collect();
    page.text([roman(names.join(", ") + ".")]);
    section(
        &mut page,
        "OUTPUT SELECTION",
        "The test options -k, -o and -O print selectors: names separated by commas, blocks of them separated by \
         semicolons, \"all\" for all of the stock tool's, \"?\" for a list of names, or a file with a block a line. \
         Beside the stock tool's there are:",
    );
    for selector in Selector::listed().filter(|selector| !matches!(selector, Selector::Stock(_))) {
        entry(&mut page, selector.name(), "", &selector.one_line_header());
    }
    section(&mut page, "ENVIRONMENT", "");
    entry(
        &mut page,
        "DUMP_TCP_INFO",
        "",
        "If it is set, TCP's own statistics of the data connection are printed on standard error after each test.",
    );
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a result, also one whose confidence interval was not reached; 1 for a wrong command line or a failed \
         test; 3 with --strict for a doubtful result; 255 where the stock tool has that, as for a server that cannot \
         be reached.",
    );
    see_also(&mut page, &["netserver", "linerate"]);
    page
}

fn server() -> Roff {
    let mut page = head(
        "netserver",
        "network performance benchmark, server",
        &[bold("netserver"), roman(" [options]")],
        "netserver answers netperf clients, this program's and the stock one. It goes to the background unless -D is \
         given. With none of -D, -f, -L and -p, and a socket as its standard input, it serves that one client, as \
         inetd(8) and systemd.socket(5) start it. What it does for a client has limits, which options set.",
    );
    chapters(&mut page, &manual::server());
    section(
        &mut page,
        "EXIT STATUS",
        "0 when it went to the background or was ended by a signal, 1 when it could not start.",
    );
    see_also(&mut page, &["netperf", "linerate"]);
    page
}

fn super_netperf() -> Roff {
    let mut page = head(
        "super_netperf",
        "many netperf tests at once, and their sum",
        &[
            bold("super_netperf"),
            roman(" "),
            italic("flows"),
            roman(" [netperf options]"),
        ],
        "super_netperf runs netperf's test on so many flows at once, as the script of the Linux kernel's developers \
         does with as many netperf processes, and prints the sum of their throughput as one number. Here all are \
         flows of one test, which start together. The options are those of netperf(1); with its test options -k, -o \
         and -O the selected figures are printed in place of the number.",
    );
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a result; 1 for a wrong command line or a failed test, with one line on standard error.",
    );
    see_also(&mut page, &["netperf", "super-netperf", "linerate"]);
    page
}

fn super_netperf_on_ports() -> Roff {
    let mut page = head(
        "super-netperf",
        "many netperf tests at once on known ports",
        &[
            bold("super-netperf"),
            roman(" "),
            italic("flows port"),
            roman(" [netperf options]"),
        ],
        "super-netperf runs netperf's test on so many flows at once, as the script of k8s-netperf does, and prints \
         the figures that k8s-netperf reads. The first flow's data connection is to port, the next one's to the port \
         after it, and so on. The options are those of netperf(1).",
    );
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a result; 1 for a wrong command line or a failed test, with one line on standard error.",
    );
    see_also(&mut page, &["netperf", "super_netperf", "linerate"]);
    page
}

#[cfg(feature = "iperf")]
fn iperf() -> Roff {
    let mut page = head(
        "iperf",
        "network throughput, client and server",
        &[
            bold("iperf -s"),
            roman(" [options] | "),
            bold("iperf -c"),
            roman(" host [options]"),
        ],
        "iperf sends data from a client to a server, or back, and reports how fast that goes. It has the options, the \
         protocol and the output of iperf 2.1.8, and works with its clients and servers.",
    );
    chapters(&mut page, &iperf::options::manual::chapters());
    section(&mut page, "ENVIRONMENT", "");
    entry(
        &mut page,
        "IPERF_NAME",
        "",
        "An option by its long name in capitals, such as IPERF_BANDWIDTH, IPERF_PORT or IPERF_UDP. The command line comes \
         after it.",
    );
    entry(&mut page, "TCP_WINDOW_SIZE", "", "As -w.");
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a result, also when it was interrupted; 1 for a wrong command line, a server that cannot be reached, or \
         a failed flow; 3 with --strict for a doubtful result.",
    );
    see_also(&mut page, &["netperf", "uperf", "linerate"]);
    page
}

/// The pages of UDPmon's programs, and one that leads to them.
#[cfg(feature = "udpmon")]
fn udpmon_pages() -> Vec<(&'static str, io::Result<Vec<u8>>)> {
    const ABOUT: [(&str, &str, &str); 5] = [
        (
            "udpmon_bw_mon.1",
            "network throughput, loss and delay by paced datagrams, requester",
            "udpmon_bw_mon sends datagrams of one size with one gap to an udpmon_resp, and prints how many arrived, how fast \
             and when. It repeats that over gaps and sizes, or searches for the highest rate without loss.",
        ),
        (
            "udpmon_req.1",
            "round-trip times by datagrams, requester",
            "udpmon_req sends requests to an udpmon_resp, and prints how long the responses took.",
        ),
        (
            "udpmon_resp.1",
            "responder of udpmon_bw_mon and udpmon_req",
            "udpmon_resp counts and times the datagrams of udpmon_bw_mon, and answers udpmon_req, at UDP port 14233. What it \
             does for a requester has limits, which options set.",
        ),
        (
            "udpmon_send.1",
            "sender of paced datagrams",
            "udpmon_send sends datagrams as udpmon_bw_mon does, without a control exchange: to an udpmon_recv, for example.",
        ),
        (
            "udpmon_recv.1",
            "receiver of paced datagrams",
            "udpmon_recv counts and times all datagrams that arrive at a port, such as those of udpmon_send. SIGINT and \
             SIGTERM end it with a table of all that arrived.",
        ),
    ];
    const NAMES: [&str; 5] = [
        "udpmon_bw_mon",
        "udpmon_req",
        "udpmon_resp",
        "udpmon_send",
        "udpmon_recv",
    ];
    let others = |name: &str| -> Vec<&str> {
        let others = NAMES.into_iter().filter(|other| *other != name);
        others.chain(["linerate"]).collect()
    };
    let described = ABOUT.into_iter().zip(udpmon::options::manual::chapters());
    let mut pages: Vec<_> = described
        .map(|((file, about, text), (name, chapter))| {
            let synopsis = [bold(name), roman(" [options]")];
            let text = format!("{text} It has the options, the protocol and the output of UDPmon 1.5.2.");
            let mut page = head(name, about, &synopsis, &text);
            chapters(&mut page, &[chapter]);
            section(
                &mut page,
                "EXIT STATUS",
                "0 for a result, also when it was interrupted; 1 for a wrong command line or a failed test; 3 with --strict \
                 for a doubtful result.",
            );
            see_also(&mut page, &others(name));
            (file, rendered(&page))
        })
        .collect();
    let mut page = head(
        "udpmon",
        "UDPmon's programs by their short names",
        &[
            bold("udpmon"),
            roman(" "),
            italic("program"),
            roman(" [options]"),
        ],
        "udpmon bw_mon is udpmon_bw_mon(1), udpmon req is udpmon_req(1), and so on.",
    );
    see_also(&mut page, &others(""));
    pages.push(("udpmon.1", rendered(&page)));
    pages
}

#[cfg(feature = "uperf")]
fn uperf() -> Roff {
    let mut page = head(
        "uperf",
        "network performance by profiles, master and slave",
        &[
            bold("uperf -m"),
            roman(" profile [options] | "),
            bold("uperf -s"),
            roman(" [options]"),
        ],
        "uperf runs a profile: groups of strands that open connections, write, read, think and close as the profile \
         says, while the slaves on the hosts that it names do the other half. It has the options, the profiles and \
         the output of uperf 1.0.8, and works with its masters and slaves.",
    );
    chapters(&mut page, &uperf::options::manual::chapters());
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a run that came to its end, 1 for a wrong command line or profile, a slave that cannot be reached or \
         a failed strand, 2 when it was interrupted, 255 when a slave was lost at the end of the handshake.",
    );
    see_also(&mut page, &["netperf", "linerate"]);
    page
}

#[cfg(feature = "iperf3")]
fn iperf3() -> Roff {
    let mut page = head(
        "iperf3",
        "network throughput, client and server",
        &[
            bold("iperf3 -s"),
            roman(" [options] | "),
            bold("iperf3 -c"),
            roman(" host [options]"),
        ],
        "iperf3 measures the throughput of TCP, UDP and SCTP between two hosts. It has the options and the output of iperf3 3.12, \
         and works with its clients and servers. A server runs any number of tests at a time.",
    );
    chapters(&mut page, &iperf3::options::manual::chapters());
    section(&mut page, "ENVIRONMENT", "");
    entry(
        &mut page,
        "IPERF3_PASSWORD",
        "",
        "The password of --username.",
    );
    section(
        &mut page,
        "EXIT STATUS",
        "0 for a test that came to its end or was ended by a signal, 1 for a wrong command line or a failed test, 3 with \
         --strict for a doubtful result.",
    );
    see_also(&mut page, &["netperf", "linerate"]);
    page
}

fn head(name: &str, about: &str, synopsis: &[Inline], description: &str) -> Roff {
    let mut page = Roff::new();
    let source = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name, "1", "", source]);
    section(&mut page, "NAME", "");
    page.text([roman(format!("{name} - {about}"))]);
    section(&mut page, "SYNOPSIS", "");
    page.text(synopsis.to_vec());
    section(&mut page, "DESCRIPTION", description);
    page
}

fn chapters(page: &mut Roff, chapters: &[Chapter]) {
    for chapter in chapters {
        section(page, chapter.title, "");
        for option in &chapter.options {
            let synopsis = &option.synopsis;
            let (name, argument) = synopsis.split_once(' ').unwrap_or((synopsis, ""));
            page.control("TP", []);
            page.text([bold(name), roman(" "), italic(argument)]);
            page.text([roman(&*option.text)]);
        }
    }
}

fn entry(page: &mut Roff, name: &str, argument: &str, text: &str) {
    page.control("TP", []);
    if argument.is_empty() {
        page.text([bold(name)]);
    } else {
        page.text([bold(name), roman(" "), italic(argument)]);
    }
    page.text([roman(text)]);
}

fn section(page: &mut Roff, title: &str, text: &str) {
    page.control("SH", [title]);
    if !text.is_empty() {
        page.text([roman(text)]);
    }
}

fn see_also(page: &mut Roff, names: &[&str]) {
    let names: Vec<_> = names.iter().map(|name| format!("{name}(1)")).collect();
    section(page, "SEE ALSO", &names.join(", "));
}
