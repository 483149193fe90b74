//! `linerate man DIR`: writes the manual pages. They are generated from the same option tables as
//! the parsers and the usage texts.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use getopt::manual::Chapter;
use netperf::options::Test;
use netperf::options::manual;
use netperf::selector::Selector;
use roff::{Inline, Roff, bold, italic, roman};
use sys::OutputFile;

/// Writes the pages into `directory` and prints their paths. Creates the directory if it is
/// missing.
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
        if let Err(error) = page.and_then(|text| OutputFile::begin(&path)?.write(&text)) {
            sys::write_error_line(format_args!(
                "linerate man: {}: {}",
                path.display(),
                sys::describe(&error)
            ));
            return ExitCode::FAILURE;
        }
        // `main` reports an error.
        let _ = writeln!(getopt::stdout(), "{}", path.display());
    }
    ExitCode::SUCCESS
}

fn pages(command_line: &clap::Command) -> Vec<(&'static str, io::Result<Vec<u8>>)> {
    #[cfg_attr(
        not(feature = "udpmon"),
        expect(unused_mut, reason = "UDPmon adds its pages")
    )]
    let mut pages = vec![
        ("netperf.1", render(&netperf_page())),
        ("netserver.1", render(&netserver_page())),
        ("super_netperf.1", render(&super_netperf_page())),
        ("super-netperf.1", render(&super_netperf_on_ports_page())),
        #[cfg(feature = "iperf")]
        ("iperf.1", render(&iperf_page())),
        #[cfg(feature = "iperf3")]
        ("iperf3.1", render(&iperf3_page())),
        #[cfg(feature = "uperf")]
        ("uperf.1", render(&uperf_page())),
        ("linerate.1", render_linerate_page(command_line)),
    ];
    #[cfg(feature = "udpmon")]
    pages.extend(udpmon_pages());
    pages
}

fn render(page: &Roff) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    Ok(text)
}

fn render_linerate_page(command_line: &clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command_line.clone());
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let mut commands = Roff::new();
    for command in command_line.get_subcommands() {
        add_subcommand(&mut commands, command);
    }
    add_see_also(
        &mut commands,
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
    commands.to_writer(&mut text)?;
    Ok(text)
}

/// Adds a section for one command. The options of a dialect are on a separate page.
fn add_subcommand(page: &mut Roff, command: &clap::Command) {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    add_section(page, &format!("linerate {}", command.get_name()), &about);
    let is_dialect = crate::names::by_name(command.get_name().as_ref()).is_some();
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    for argument in arguments.filter(|_| !is_dialect) {
        let short = argument
            .get_short()
            .filter(|_| argument.get_long().is_some());
        let short = short.map(|letter| format!("-{letter}, "));
        // The synopsis is one text: the value name of a list ends in dots, which roff would
        // interpret at the start of a line.
        let synopsis = short.unwrap_or_default() + &argument.to_string();
        add_entry(page, &synopsis, "", &argument_help(argument));
    }
    if let Some(after_help) = command.get_after_help() {
        for line in after_help.to_string().lines() {
            page.control("br", []);
            page.text([roman(line)]);
        }
    }
}

/// Returns the help of an argument with its default value, in the format of clap's help.
fn argument_help(argument: &clap::Arg) -> String {
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

fn netperf_page() -> Roff {
    let mut page = page_header(
        "netperf",
        "network performance benchmark, client",
        &[
            bold("netperf"),
            roman(" [global options] "),
            bold("--"),
            roman(" [test options]"),
        ],
        "netperf measures throughput, request/response rates, connection rates and their CPU cost \
         between this host and a host with a netserver. The netserver may be linerate's or the \
         stock one. netperf has the options and the output of netperf 2.7.1. Most options take two \
         values: for the local and the remote end, or for sending and receiving. \"a,b\" sets \
         both, \"a,\" the first, \",b\" the second. \"a\" sets both or only the first; see the \
         text of each option.",
    );
    add_chapters(&mut page, &manual::client());
    add_section(
        &mut page,
        "TESTS",
        "The test names for -t, in upper or lower case.",
    );
    let names: Vec<_> = Test::ALL.iter().map(|(_, name)| *name).collect();
    page.text([roman(names.join(", ") + ".")]);
    add_section(
        &mut page,
        "OUTPUT SELECTION",
        "The test options -k, -o and -O select the output. Their value is a list of names \
         separated by commas, with blocks separated by semicolons. It may also be \"all\" for all \
         selectors of the stock tool, \"?\" for a list of names, or a file with one block per \
         line. linerate adds these selectors:",
    );
    for selector in Selector::list().filter(|selector| !matches!(selector, Selector::Stock(_))) {
        add_entry(&mut page, selector.name(), "", &selector.one_line_header());
    }
    add_section(&mut page, "ENVIRONMENT", "");
    add_entry(
        &mut page,
        "DUMP_TCP_INFO",
        "",
        "If set, netperf prints the kernel's TCP statistics of the data connection on standard \
         error after each test.",
    );
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a result, even if the confidence interval was not reached; 1 for a wrong command \
         line or a failed test; 3 with --strict if there is a warning; 255 where the stock tool \
         exits with 255, such as for an unreachable server.",
    );
    add_see_also(&mut page, &["netserver", "linerate"]);
    page
}

fn netserver_page() -> Roff {
    let mut page = page_header(
        "netserver",
        "network performance benchmark, server",
        &[bold("netserver"), roman(" [options]")],
        "netserver serves netperf clients: linerate's and the stock one. It goes to the background \
         unless -D is given. If standard input is a socket and none of -D, -f, -L and -p is given, \
         netserver serves only that client. inetd(8) and systemd.socket(5) start it this way. \
         Options limit the resources per client.",
    );
    add_chapters(&mut page, &manual::server());
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 if netserver went to the background or a signal ended it, 1 if it could not start.",
    );
    add_see_also(&mut page, &["netperf", "linerate"]);
    page
}

fn super_netperf_page() -> Roff {
    let mut page = page_header(
        "super_netperf",
        "parallel netperf tests, and their sum",
        &[
            bold("super_netperf"),
            roman(" "),
            italic("flows"),
            roman(" [netperf options]"),
        ],
        "super_netperf runs a netperf test on this number of flows in parallel, and prints the sum \
         of their throughput as one number. The script super_netperf of the Linux kernel's \
         developers starts one netperf process per flow. Here all flows belong to one process and \
         start together. The options are those of netperf(1). With the test options -k, -o and -O, \
         the selected figures replace the number.",
    );
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a result; 1 for a wrong command line or a failed test, with one line on standard \
         error.",
    );
    add_see_also(&mut page, &["netperf", "super-netperf", "linerate"]);
    page
}

fn super_netperf_on_ports_page() -> Roff {
    let mut page = page_header(
        "super-netperf",
        "parallel netperf tests on fixed ports",
        &[
            bold("super-netperf"),
            roman(" "),
            italic("flows port"),
            roman(" [netperf options]"),
        ],
        "super-netperf runs a netperf test on this number of flows in parallel, as the script of \
         k8s-netperf does, and prints the figures that k8s-netperf reads. The first flow connects \
         to the given port, and each further flow to the next port. The options are those of \
         netperf(1).",
    );
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a result; 1 for a wrong command line or a failed test, with one line on standard \
         error.",
    );
    add_see_also(&mut page, &["netperf", "super_netperf", "linerate"]);
    page
}

#[cfg(feature = "iperf")]
fn iperf_page() -> Roff {
    let mut page = page_header(
        "iperf",
        "network throughput, client and server",
        &[
            bold("iperf -s"),
            roman(" [options] | "),
            bold("iperf -c"),
            roman(" host [options]"),
        ],
        "iperf sends data from a client to a server, or in the opposite direction, and reports the \
         throughput. It has the options, the protocol and the output of iperf 2.2.1, and works \
         with its clients and servers.",
    );
    add_chapters(&mut page, &iperf::options::manual::chapters());
    add_section(&mut page, "ENVIRONMENT", "");
    add_entry(
        &mut page,
        "IPERF_NAME",
        "",
        "Sets the option with this long name, in capitals: for example IPERF_BANDWIDTH, IPERF_PORT \
         or IPERF_UDP. The command line overrides it.",
    );
    add_entry(&mut page, "TCP_WINDOW_SIZE", "", "As -w.");
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a result, even if interrupted; 1 for a wrong command line, an unreachable server or \
         a failed flow; 3 with --strict if there is a warning.",
    );
    add_see_also(&mut page, &["netperf", "uperf", "linerate"]);
    page
}

/// Returns the pages of UDPmon's programs, and an overview page.
#[cfg(feature = "udpmon")]
fn udpmon_pages() -> Vec<(&'static str, io::Result<Vec<u8>>)> {
    const ABOUT: [(&str, &str, &str); 5] = [
        (
            "udpmon_bw_mon.1",
            "network throughput, loss and delay by paced datagrams, requester",
            "udpmon_bw_mon sends datagrams at regular intervals to udpmon_resp, and prints how \
             many arrived, their rate and their timing. It can repeat the test over intervals and \
             sizes, or search for the highest rate without loss.",
        ),
        (
            "udpmon_req.1",
            "round-trip times by datagrams, requester",
            "udpmon_req sends requests to udpmon_resp, and prints the response times.",
        ),
        (
            "udpmon_resp.1",
            "responder of udpmon_bw_mon and udpmon_req",
            "udpmon_resp counts and times the datagrams of udpmon_bw_mon, and answers udpmon_req, \
             at UDP port 14233. Options limit the resources per requester.",
        ),
        (
            "udpmon_send.1",
            "sender of paced datagrams",
            "udpmon_send sends datagrams as udpmon_bw_mon does, but without a control exchange: to \
             udpmon_recv, for example.",
        ),
        (
            "udpmon_recv.1",
            "receiver of paced datagrams",
            "udpmon_recv counts and times all datagrams that arrive at a port, such as those of \
             udpmon_send. On SIGINT or SIGTERM it prints a table of the received datagrams and \
             ends.",
        ),
    ];
    const NAMES: [&str; 5] = [
        "udpmon_bw_mon",
        "udpmon_req",
        "udpmon_resp",
        "udpmon_send",
        "udpmon_recv",
    ];
    let see_also = |page_name: &str| -> Vec<&str> {
        let other_pages = NAMES.into_iter().filter(|name| *name != page_name);
        other_pages.chain(["linerate"]).collect()
    };
    let programs = ABOUT.into_iter().zip(udpmon::options::manual::chapters());
    let mut pages: Vec<_> = programs
        .map(|((file, about, text), (name, chapter))| {
            let synopsis = [bold(name), roman(" [options]")];
            let text =
                format!("{text} It has the options, the protocol and the output of UDPmon 1.5.2.");
            let mut page = page_header(name, about, &synopsis, &text);
            add_chapters(&mut page, &[chapter]);
            add_section(
                &mut page,
                "EXIT STATUS",
                "0 for a result, even if interrupted; 1 for a wrong command line or a failed test; \
                 3 with --strict if there is a warning.",
            );
            add_see_also(&mut page, &see_also(name));
            (file, render(&page))
        })
        .collect();
    let mut page = page_header(
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
    add_see_also(&mut page, &see_also(""));
    pages.push(("udpmon.1", render(&page)));
    pages
}

#[cfg(feature = "uperf")]
fn uperf_page() -> Roff {
    let mut page = page_header(
        "uperf",
        "network performance by profiles, master and slave",
        &[
            bold("uperf -m"),
            roman(" profile [options] | "),
            bold("uperf -s"),
            roman(" [options]"),
        ],
        "uperf runs a profile. A profile defines groups of strands, which open connections, write, \
         read, wait and close them. The slaves on the hosts in the profile do the opposite \
         operations. uperf has the options, the profiles and the output of uperf 1.0.8, and works \
         with its masters and slaves.",
    );
    add_chapters(&mut page, &uperf::options::manual::chapters());
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a complete run; 1 for a wrong command line or profile, an unreachable slave or a \
         failed strand; 2 if interrupted; 255 if a slave was lost at the end of the handshake.",
    );
    add_see_also(&mut page, &["netperf", "linerate"]);
    page
}

#[cfg(feature = "iperf3")]
fn iperf3_page() -> Roff {
    let mut page = page_header(
        "iperf3",
        "network throughput, client and server",
        &[
            bold("iperf3 -s"),
            roman(" [options] | "),
            bold("iperf3 -c"),
            roman(" host [options]"),
        ],
        "iperf3 measures the throughput of TCP, UDP and SCTP between two hosts. It has the options \
         and the output of iperf3 3.22, and works with its clients and servers. A server runs any \
         number of tests in parallel.",
    );
    add_chapters(&mut page, &iperf3::options::manual::chapters());
    add_section(&mut page, "ENVIRONMENT", "");
    add_entry(
        &mut page,
        "IPERF3_PASSWORD",
        "",
        "The password of --username.",
    );
    add_section(
        &mut page,
        "EXIT STATUS",
        "0 for a complete test, or if a signal ended it; 1 for a wrong command line or a failed \
         test; 3 with --strict if there is a warning.",
    );
    add_see_also(&mut page, &["netperf", "linerate"]);
    page
}

fn page_header(name: &str, about: &str, synopsis: &[Inline], description: &str) -> Roff {
    let mut page = Roff::new();
    let source = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name, "1", "", source]);
    add_section(&mut page, "NAME", "");
    page.text([roman(format!("{name} - {about}"))]);
    add_section(&mut page, "SYNOPSIS", "");
    page.text(synopsis.to_vec());
    add_section(&mut page, "DESCRIPTION", description);
    page
}

fn add_chapters(page: &mut Roff, chapters: &[Chapter]) {
    for chapter in chapters {
        add_section(page, chapter.title, "");
        for option in &chapter.options {
            let synopsis = &option.synopsis;
            let (name, argument) = synopsis.split_once(' ').unwrap_or((synopsis, ""));
            page.control("TP", []);
            page.text([bold(name), roman(" "), italic(argument)]);
            page.text([roman(&*option.text)]);
        }
    }
}

fn add_entry(page: &mut Roff, name: &str, argument: &str, text: &str) {
    page.control("TP", []);
    if argument.is_empty() {
        page.text([bold(name)]);
    } else {
        page.text([bold(name), roman(" "), italic(argument)]);
    }
    page.text([roman(text)]);
}

fn add_section(page: &mut Roff, title: &str, text: &str) {
    page.control("SH", [title]);
    if !text.is_empty() {
        page.text([roman(text)]);
    }
}

fn add_see_also(page: &mut Roff, names: &[&str]) {
    let names: Vec<_> = names.iter().map(|name| format!("{name}(1)")).collect();
    add_section(page, "SEE ALSO", &names.join(", "));
}
