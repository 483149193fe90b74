//! What cannot be done: stock's words, stream and exit code where it has them, ours where stock
//! goes on, aborts or hangs.

use std::net::TcpListener;

use testkit::{Implementation, ProcessOutput, Role, figures, key_values};

use super::exchange::{Pair, Setting, exchange, peers, run, succeed};
use super::variants::{same, same_as_stock};
use super::{Case, Outcome};

/// Command lines that fail in stock's words, in front of a server that works.
const AS_STOCK: &[&str] = &[
    "-t NO_SUCH_TEST",
    "-t TCP_TRR",
    "-t DLPI_CO_STREAM",
    "-q",
    "-e 1",
    "-h",
    "-t",
    "-l",
    "-H",
    "-l -2M -- -h",
    "-t TCP_RR -- -h",
    "-t OMNI -- -h",
    "-t TCP_SENDFILE -- -h",
    "-t TCP_CC -- -h",
    "-t TCP_MSS -- -h",
    "-t UDP_STREAM -l -2M -- -R 1 -m 70000",
    "-t UDP_RR -l -2 -- -r 70000,1",
    "-l -2M -H no.such.host.invalid",
    "-l -2M -- -o /no/such/selection",
];

/// Command lines that stock runs on with, aborts or hangs at: ours fails before any test, with one
/// line on stderr that has this in it.
const AS_OURS: &[(&str, &str)] = &[
    ("-l -2M -- -x", "invalid option -- 'x'"),
    ("-l -2M -F /no/such/file", "/no/such/file"),
    ("-t TCP_RR -l -2 -- -x", "invalid option -- 'x'"),
    ("-t TCP_SENDFILE -l -2M -- -x", "invalid option -- 'x'"),
    ("-t TCP_CC -l -2 -- -E 3", "invalid option -- 'E'"),
    (
        "-l -2M -- -k NO_SUCH_SELECTOR,THROUGHPUT",
        "NO_SUCH_SELECTOR",
    ),
    (
        "-l -2M -- -o THROUGHPUT,NO_SUCH_SELECTOR",
        "NO_SUCH_SELECTOR",
    ),
    (
        "-l -2M -- -O no_such_selector;THROUGHPUT",
        "no_such_selector",
    ),
    ("-l 100ms", "100ms"),
    ("-l 2M -- -t dgram", "dgram"),
    ("-l 1 -I 95,x", "-I"),
    ("-l 1 -i x", "-i"),
    ("-l 1 -D x", "-D"),
];

pub(crate) fn cases() -> Vec<Case> {
    let as_stock = AS_STOCK.iter().map(|line| {
        let name = format!("errors::stock::{}", line.replace(' ', "_"));
        let case = Case::against_stock(name, || same_as_stock(Setting::PLAIN, line));
        // The resolver takes its time to know nothing.
        if line.contains(".invalid") {
            case.waiting()
        } else {
            case
        }
    });
    let as_ours = AS_OURS.iter().map(|(line, words)| {
        let name = format!("errors::ours::{}", line.replace(' ', "_"));
        Case::against_stock(name, || refused(line, words)).alone()
    });
    let without_server: [(&str, &[&str]); 4] = [
        ("version", &["-V"]),
        ("no_server", &["-H", "127.0.0.1"]),
        ("no_server_ipv6", &["-H", "::1"]),
        (
            "no_server_by_name",
            &["-4", "-H", "localhost", "-L", "127.0.0.1"],
        ),
    ];
    let without_server = without_server.map(|(name, args)| {
        Case::against_stock(format!("errors::stock::{name}"), || clients_alone(args))
    });
    let others = [
        Case::against_stock("errors::passphrase", passphrases),
        Case::against_stock("errors::port_in_use", port_in_use),
        Case::against_stock("errors::netserver", netserver_options),
        Case::against_stock("durations::go", go_durations).alone(),
        Case::against_stock("burst::of_32k", large_burst).alone(),
        Case::against_stock("ports::one_for_both_ends", one_port_for_both_ends).inside(true),
    ];
    as_stock
        .chain(as_ours)
        .chain(without_server)
        .chain(others)
        .collect()
}

/// Ours ends with an error that has `words` in it and prints no result.
fn refused(line: &str, words: &str) -> Outcome {
    let args: Vec<&str> = line.split_ascii_whitespace().collect();
    let ours = exchange(Pair::OURS, Setting::PLAIN, &args)?;
    let quiet = figures(&ours.stdout).len() <= 2;
    if ours.code == Some(0) || ours.code.is_none() || !ours.stderr.contains(words) || !quiet {
        return Err(format!("netperf {line}: {ours:?}"));
    }
    Ok(())
}

/// Both clients with the same arguments and nobody to talk to.
fn clients_alone(args: &[&str]) -> Outcome {
    let port = unused_port()?.to_string();
    let finished = |make: Implementation| -> Result<ProcessOutput, String> {
        let mut command = peers().command(make, Role::Client);
        command.args(args).args(["-p", &port]);
        run(command)
    };
    let (mut ours, control) = (
        finished(Implementation::Ours)?,
        finished(Implementation::Stock)?,
    );
    // Below stock's line, ours says its own version.
    if args.contains(&"-V") {
        ours.stdout = first_line(&ours.stdout);
    }
    same(&ours, &control)
}

fn first_line(text: &str) -> String {
    text.split_inclusive('\n')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The right one, a wrong one, none, and one that nobody asked for.
fn passphrases() -> Outcome {
    let asked = Setting {
        server_args: &["-Z", "sesame"],
        ..Setting::PLAIN
    };
    same_as_stock(asked, "-l -2M -Z sesame")?;
    same_as_stock(Setting::PLAIN, "-l -2M -Z sesame")?;
    for line in ["-l -2M -Z sesam", "-l -2M -Z sesameopen", "-l -2M"] {
        let args: Vec<&str> = line.split_ascii_whitespace().collect();
        for pair in [Pair::CONTROL].into_iter().chain(Pair::TESTED) {
            let finished = exchange(pair, asked, &args)?;
            // How the end of the connection shows, short or reset, is up to the race of two ends.
            if finished.code != Some(1) || !finished.stderr.contains("recv_response: ") {
                return Err(format!("{}: netperf {line}: {finished:?}", pair.name()));
            }
        }
    }
    Ok(())
}

/// A server whose port is taken.
fn port_in_use() -> Outcome {
    let taken = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = taken
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    servers_alone(&["-D", "-4", "-L", "127.0.0.1", "-p", &port.to_string()])
}

fn netserver_options() -> Outcome {
    servers_alone(&["-h"])?;
    servers_alone(&["-V"])?;
    servers_alone(&["-q"])?;
    servers_alone(&["-D", "-n", "300"])
}

/// Both servers with the same arguments, which end them at once.
fn servers_alone(args: &[&str]) -> Outcome {
    let finished = |make: Implementation| {
        let mut command = peers().command(make, Role::Server);
        command.args(args);
        run(command)
    };
    let (mut ours, control) = (
        finished(Implementation::Ours)?,
        finished(Implementation::Stock)?,
    );
    // Below stock's line, ours says its own version.
    if args.contains(&"-V") {
        ours.stdout = first_line(&ours.stdout);
    }
    same(&ours, &control).map_err(|error| format!("netserver {}: {error}", args.join(" ")))
}

/// A Go program's durations are durations, not millions of seconds.
fn go_durations() -> Outcome {
    for length in ["1s", "0m1s", "0h0m1s", "1000ms"] {
        let args = ["-t", "TCP_RR", "-l", length, "--", "-k", "ELAPSED_TIME"];
        let text = succeed(Pair::OURS, Setting::PLAIN, &args)?;
        let elapsed = key_values(&text)
            .first()
            .and_then(|(_, value)| value.parse().ok());
        if !elapsed.is_some_and(|elapsed: f64| (0.9..2.0).contains(&elapsed)) {
            return Err(format!("-l {length}: {text}"));
        }
    }
    Ok(())
}

/// More requests under way than the socket buffers hold must not block both ends for good.
fn large_burst() -> Outcome {
    let args = ["-t", "TCP_RR", "-l", "1", "-P", "0", "-v", "0", "--"];
    let args = [&args[..], &["-b", "6", "-r", "32K,32K"]].concat();
    let text = succeed(Pair::OURS, Setting::PLAIN, &args)?;
    if figures(&text).first().is_some_and(|rate| *rate > 100.0) {
        return Ok(());
    }
    Err(text)
}

/// `-P N` for both ends on one host: never a connection of a socket with itself.
fn one_port_for_both_ends() -> Outcome {
    for pair in Pair::TESTED {
        if pair.client == Implementation::Stock {
            continue;
        }
        let args = [
            "-t", "TCP_RR", "-l", "1", "-P", "0", "-v", "0", "--", "-P", "22424",
        ];
        let finished = exchange(pair, Setting::PLAIN.inside(true), &args)?;
        let rate = figures(&finished.stdout).first().copied();
        let measured = finished.code == Some(0) && rate.is_some_and(|rate| rate > 500.0);
        if !measured {
            return Err(format!("{}: {finished:?}", pair.name()));
        }
    }
    Ok(())
}

fn unused_port() -> Result<u16, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| error.to_string())
}
