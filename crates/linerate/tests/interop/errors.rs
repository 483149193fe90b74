//! Errors: the same text, stream and exit code as stock's. Where stock continues, aborts or hangs,
//! ours reports its own error.

use std::net::TcpListener;

use testkit::{Implementation, NetperfPrograms, ProcessOutput, Release, Role, figures, key_values};

use super::exchange::{Pair, RELEASES, Setting, missing_reason, run, run_pair, stdout_of};
use super::variants::{compare_output, same_as_stock};
use super::{Case, CaseResult};

/// Command lines that fail with stock's error while a server runs.
const STOCK_ERRORS: &[&str] = &[
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

/// Command lines at which stock continues, aborts or hangs, with a part of our error. Ours fails
/// before any test.
const OUR_ERRORS: &[(&str, &str)] = &[
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
    let stock_errors = RELEASES.into_iter().flat_map(|(release, suffix)| {
        let missing = missing_reason(release);
        let setting = Setting {
            release,
            ..Setting::PLAIN
        };
        STOCK_ERRORS.iter().map(move |line| {
            let name = format!("errors::stock::{}{suffix}", line.replace(' ', "_"));
            let case = Case::new(name, move || same_as_stock(setting, line));
            let case = case.unless(missing.clone());
            // The resolver waits before it fails.
            if line.contains(".invalid") {
                case.allow_many_at_once()
            } else {
                case
            }
        })
    });
    let our_errors = OUR_ERRORS.iter().map(|(line, expected)| {
        let name = format!("errors::ours::{}", line.replace(' ', "_"));
        Case::new(name, || check_error(line, expected)).without_stock()
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
    let without_server = RELEASES.into_iter().flat_map(|(release, suffix)| {
        let missing = missing_reason(release);
        without_server.map(|(name, args)| {
            let name = format!("errors::stock::{name}{suffix}");
            Case::new(name, move || compare_clients(release, args)).unless(missing.clone())
        })
    });
    let others = [
        Case::new("errors::passphrase", passphrases),
        Case::new("errors::port_in_use", port_in_use),
        Case::new("errors::netserver", || netserver_options(Release::Debian12)),
        Case::new("errors::netserver::2_7_1", || {
            netserver_options(Release::Debian13)
        })
        .unless(missing_reason(Release::Debian13)),
        Case::new("durations::accepts_go_syntax", accepts_go_syntax).without_stock(),
        Case::new("burst::exceeds_socket_buffers", exceeds_socket_buffers).without_stock(),
        Case::new("ports::same_at_both_ends", same_port_at_both_ends).in_namespace(true),
    ];
    stock_errors
        .chain(our_errors)
        .chain(without_server)
        .chain(others)
        .collect()
}

/// Checks that ours fails with an error that contains `expected`, and prints no result.
fn check_error(line: &str, expected: &str) -> CaseResult {
    let args: Vec<&str> = line.split_ascii_whitespace().collect();
    let ours = run_pair(Pair::OURS, Setting::PLAIN, &args)?;
    let no_result = figures(&ours.stdout).len() <= 2;
    if ours.code == Some(0) || ours.code.is_none() || !ours.stderr.contains(expected) || !no_result
    {
        return Err(format!("netperf {line}: {ours:?}"));
    }
    Ok(())
}

/// Compares both clients with the same arguments and without a server.
fn compare_clients(release: Release, args: &[&str]) -> CaseResult {
    let port = unused_port()?.to_string();
    let output = |implementation: Implementation| -> Result<ProcessOutput, String> {
        let mut command =
            NetperfPrograms::of_release(release).command(implementation, Role::Client);
        command.args(args).args(["-p", &port]);
        run(command)
    };
    let (mut ours, stock) = (
        output(Implementation::Ours)?,
        output(Implementation::Stock)?,
    );
    // Below stock's line, ours prints its own version.
    if args.contains(&"-V") {
        ours.stdout = first_line(&ours.stdout);
    }
    compare_output(&ours, &stock)
}

fn first_line(text: &str) -> String {
    text.split_inclusive('\n')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Passphrases: correct, not required, wrong, and missing.
fn passphrases() -> CaseResult {
    let protected = Setting {
        server_args: &["-Z", "sesame"],
        ..Setting::PLAIN
    };
    same_as_stock(protected, "-l -2M -Z sesame")?;
    same_as_stock(Setting::PLAIN, "-l -2M -Z sesame")?;
    for line in ["-l -2M -Z sesam", "-l -2M -Z sesameopen", "-l -2M"] {
        let args: Vec<&str> = line.split_ascii_whitespace().collect();
        for pair in [Pair::STOCK].into_iter().chain(Pair::TESTED) {
            let finished = run_pair(pair, protected, &args)?;
            // The connection ends or is reset, depending on a race between the two ends.
            if finished.code != Some(1) || !finished.stderr.contains("recv_response: ") {
                return Err(format!("{}: netperf {line}: {finished:?}", pair.name()));
            }
        }
    }
    Ok(())
}

/// The server's port is in use.
fn port_in_use() -> CaseResult {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    compare_servers(
        Release::Debian12,
        &["-D", "-4", "-L", "127.0.0.1", "-p", &port.to_string()],
    )
}

fn netserver_options(release: Release) -> CaseResult {
    compare_servers(release, &["-h"])?;
    compare_servers(release, &["-V"])?;
    compare_servers(release, &["-q"])?;
    compare_servers(release, &["-D", "-n", "300"])
}

/// Compares both servers with arguments at which they exit immediately.
fn compare_servers(release: Release, args: &[&str]) -> CaseResult {
    let output = |implementation: Implementation| {
        let mut command =
            NetperfPrograms::of_release(release).command(implementation, Role::Server);
        command.args(args);
        run(command)
    };
    let (mut ours, stock) = (
        output(Implementation::Ours)?,
        output(Implementation::Stock)?,
    );
    // Below stock's line, ours prints its own version.
    if args.contains(&"-V") {
        ours.stdout = first_line(&ours.stdout);
    }
    compare_output(&ours, &stock).map_err(|error| format!("netserver {}: {error}", args.join(" ")))
}

/// Durations in the syntax of Go are durations, not numbers of seconds.
fn accepts_go_syntax() -> CaseResult {
    for length in ["1s", "0m1s", "0h0m1s", "1000ms"] {
        let args = ["-t", "TCP_RR", "-l", length, "--", "-k", "ELAPSED_TIME"];
        let text = stdout_of(Pair::OURS, Setting::PLAIN, &args)?;
        let elapsed = key_values(&text)
            .first()
            .and_then(|(_, value)| value.parse().ok());
        if !elapsed.is_some_and(|elapsed: f64| (0.9..2.0).contains(&elapsed)) {
            return Err(format!("-l {length}: {text}"));
        }
    }
    Ok(())
}

/// Requests in flight that exceed the socket buffers do not block both ends forever.
fn exceeds_socket_buffers() -> CaseResult {
    let args = ["-t", "TCP_RR", "-l", "1", "-P", "0", "-v", "0", "--"];
    let args = [&args[..], &["-b", "6", "-r", "32K,32K"]].concat();
    let text = stdout_of(Pair::OURS, Setting::PLAIN, &args)?;
    if figures(&text).first().is_some_and(|rate| *rate > 100.0) {
        return Ok(());
    }
    Err(text)
}

/// With `-P N` for both ends on one host, a socket does not connect to itself.
fn same_port_at_both_ends() -> CaseResult {
    for pair in Pair::TESTED {
        if pair.client == Implementation::Stock {
            continue;
        }
        let args = [
            "-t", "TCP_RR", "-l", "1", "-P", "0", "-v", "0", "--", "-P", "22424",
        ];
        let finished = run_pair(pair, Setting::PLAIN.in_namespace(true), &args)?;
        let rate = figures(&finished.stdout).first().copied();
        let has_rate = finished.code == Some(0) && rate.is_some_and(|rate| rate > 500.0);
        if !has_rate {
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
