//! Two programs of the field that start many netperfs and print what they did together, each with
//! its own grammar: `super_netperf N …` of the kernel's developers, `super-netperf N PORT …` of
//! k8s-netperf. Here all are flows of one test.

use std::ffi::OsString;

use getopt::{Exit, utf8};

use super::{Form, Selection, Settings, Test, netperf};

/// What k8s-netperf's driver looks for, in the order in which its script prints it.
const KEYS: &str = "RT_LATENCY,P99_LATENCY,THROUGHPUT,LOCAL_TRANSPORT_RETRANS,REMOTE_RECV_CALLS,\
    LOCAL_SEND_CALLS,THROUGHPUT_UNITS";

/// What `super_netperf N …` asks for: the sum of N netperfs, as one number, unless the test options
/// choose what is printed.
pub fn super_netperf(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    let usage = format!("Usage: {program} FLOWS [NETPERF-ARGS]...\n");
    let Some((flows, rest)) = words.split_first() else {
        return Err(Exit::stderr(usage, 1));
    };
    let mut settings = parsed(program, flows, rest, &usage)?;
    let unchosen = match settings.print.form {
        Form::Table => true,
        Form::Human(Selection::Default) => settings.test == Test::Omni,
        _ => false,
    };
    if unchosen {
        settings.print.form = Form::Total;
        settings.print.headers = false;
    }
    Ok(settings)
}

/// What `super-netperf N PORT …` asks for: the first line of a netperf, and the figures that
/// k8s-netperf reads. The first flow's data port is PORT; the others have the next ones.
pub fn super_netperf_on_ports(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Settings, Exit> {
    let words = utf8(program, args)?;
    let usage = format!("Usage: {program} FLOWS PORT [NETPERF-ARGS]...\n");
    let [flows, port, rest @ ..] = &words[..] else {
        return Err(Exit::stderr(usage, 1));
    };
    let mut rest = rest.to_vec();
    if !rest.iter().any(|word| word == "--") {
        rest.push("--".to_owned());
    }
    rest.extend(["-P", port, "-k", KEYS].map(str::to_owned));
    parsed(program, flows, &rest, &usage)
}

fn parsed(program: &str, flows: &str, rest: &[String], usage: &str) -> Result<Settings, Exit> {
    if !flows.bytes().all(|byte| byte.is_ascii_digit()) {
        let why = format!("{program}: '{flows}' is no number of flows\n{usage}");
        return Err(Exit::stderr(why, 1));
    }
    let words = ["--parallel", flows].map(str::to_owned);
    let words = words.iter().chain(rest).map(Into::into);
    let settings = netperf(program, words)?;
    if !settings.test.moves_data() {
        let name = settings.test.name();
        let why = format!("{program}: {name} has nothing to add up\n");
        return Err(Exit::stderr(why, 1));
    }
    if settings.print.interim.is_some() {
        let why = format!("{program}: -D: it prints what came of the whole test only\n");
        return Err(Exit::stderr(why, 1));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split_whitespace().map(Into::into)
    }

    #[rustfmt::skip]
    #[test]
    fn the_kernel_developers_grammar() {
        for (line, flows, test, form) in [
            ("3 -H h", 3, Test::TcpStream, Form::Total),
            ("1 -t TCP_RR -- -r 1,1", 1, Test::TcpRr, Form::Total),
            ("20 -t UDP_STREAM -H h -l10 -- -n -P,1000 -m 120", 20, Test::UdpStream, Form::Total),
            ("2 -t TCP_RR -- -k", 2, Test::TcpRr, Form::KeyVal(Selection::Default)),
        ] {
            let settings = super_netperf("super_netperf", words(line)).unwrap();
            assert_eq!(settings.flows, flows, "{line}");
            assert_eq!(settings.test, test, "{line}");
            assert_eq!(settings.print.form, form, "{line}");
        }
    }

    #[test]
    fn k8s_netperfs_grammar() {
        for line in [
            "4 42424 -H h -l 1 -t TCP_RR -- -k throughput -r 64,64 -b 4",
            "1 42424 -H h",
        ] {
            let settings = super_netperf_on_ports("super-netperf", words(line)).unwrap();
            let Form::KeyVal(Selection::Blocks(blocks)) = &settings.print.form else {
                panic!("{:?}", settings.print.form);
            };
            let names: Vec<_> = blocks
                .iter()
                .flatten()
                .map(crate::selector::Selector::name)
                .collect();
            assert_eq!(names.join(","), KEYS, "{line}");
            assert!(settings.print.latency && settings.print.headers, "{line}");
            assert_eq!(settings.data.port, "42424", "{line}");
            assert_eq!(settings.data.local_port, "42424", "{line}");
        }
    }

    #[test]
    fn what_is_no_number_of_flows_is_refused() {
        for line in [
            "",
            "x -H h",
            "-H h",
            "0",
            "-1",
            "600",
            "2 -D 1",
            "2 -t UUID",
        ] {
            let exit = super_netperf("super_netperf", words(line)).unwrap_err();
            assert_eq!(exit.code, 1, "{line}");
            assert!(exit.stderr.contains("super_netperf"), "{line}: {exit:?}");
        }
        for line in ["", "1", "x 42424", "2 70000", "2 nosuchport -t TCP_RR -l"] {
            let exit = super_netperf_on_ports("super-netperf", words(line)).unwrap_err();
            assert_eq!(exit.code, 1, "{line}");
            assert!(exit.stderr.contains("super-netperf"), "{line}: {exit:?}");
        }
    }
}
