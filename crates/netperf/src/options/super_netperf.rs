//! Two wrapper scripts that start N netperfs and print their sum, each with its own grammar.
//!
//! `super_netperf N …` is the script of the kernel developers, `super-netperf N PORT …` that of
//! k8s-netperf. linerate runs N flows of one test instead of N processes.

use std::ffi::OsString;

use getopt::{Exit, utf8_words};

use super::{OutputForm, Selection, Settings, Test, parse_netperf};

/// The selectors that k8s-netperf's driver reads, in the order in which its script prints them.
const K8S_SELECTORS: &str = "RT_LATENCY,P99_LATENCY,THROUGHPUT,LOCAL_TRANSPORT_RETRANS,\
    REMOTE_RECV_CALLS,LOCAL_SEND_CALLS,THROUGHPUT_UNITS";

/// Parses `super_netperf N …`: N flows whose throughput is printed as one number.
///
/// Test options that select the output take precedence.
pub fn parse_super_netperf(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    let usage = format!("Usage: {program} FLOWS [NETPERF-ARGS]...\n");
    let Some((flows, args)) = words.split_first() else {
        return Err(Exit::stderr(usage, 1));
    };
    let mut settings = parse_flows(program, flows, args, &usage)?;
    let has_default_form = match settings.print.form {
        OutputForm::Table => true,
        OutputForm::Human(Selection::Default) => settings.test == Test::Omni,
        _ => false,
    };
    if has_default_form {
        settings.print.form = OutputForm::Total;
        settings.print.headers = false;
    }
    Ok(settings)
}

/// Parses `super-netperf N PORT …`: N flows; prints netperf's first line and `K8S_SELECTORS`.
///
/// The first flow uses data port PORT, the others the ports after it.
pub fn parse_super_netperf_on_ports(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Settings, Exit> {
    let words = utf8_words(program, args)?;
    let usage = format!("Usage: {program} FLOWS PORT [NETPERF-ARGS]...\n");
    let [flows, port, args @ ..] = &words[..] else {
        return Err(Exit::stderr(usage, 1));
    };
    let mut args = args.to_vec();
    if !args.iter().any(|word| word == "--") {
        args.push("--".to_owned());
    }
    args.extend(["-P", port, "-k", K8S_SELECTORS].map(str::to_owned));
    parse_flows(program, flows, &args, &usage)
}

fn parse_flows(program: &str, flows: &str, args: &[String], usage: &str) -> Result<Settings, Exit> {
    if !flows.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("{program}: invalid number of flows: '{flows}'\n{usage}");
        return Err(Exit::stderr(message, 1));
    }
    let words = ["--parallel", flows].map(str::to_owned);
    let words = words.iter().chain(args).map(Into::into);
    let settings = parse_netperf(program, words)?;
    if !settings.test.moves_data() {
        let name = settings.test.name();
        let message = format!("{program}: {name} has no throughput to add up\n");
        return Err(Exit::stderr(message, 1));
    }
    if settings.print.interim.is_some() {
        let message = format!("{program}: -D: interim results are not available\n");
        return Err(Exit::stderr(message, 1));
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
    fn the_script_of_the_kernel_developers_sets_flows_and_form() {
        for (line, flows, test, form) in [
            ("3 -H h", 3, Test::TcpStream, OutputForm::Total),
            ("1 -t TCP_RR -- -r 1,1", 1, Test::TcpRr, OutputForm::Total),
            ("20 -t UDP_STREAM -H h -l10 -- -n -P,1000 -m 120", 20, Test::UdpStream, OutputForm::Total),
            ("2 -t TCP_RR -- -k", 2, Test::TcpRr, OutputForm::KeyVal(Selection::Default)),
        ] {
            let settings = parse_super_netperf("super_netperf", words(line)).unwrap();
            assert_eq!(settings.flows, flows, "{line}");
            assert_eq!(settings.test, test, "{line}");
            assert_eq!(settings.print.form, form, "{line}");
        }
    }

    #[test]
    fn the_script_of_k8s_netperf_sets_ports_and_selectors() {
        for line in [
            "4 42424 -H h -l 1 -t TCP_RR -- -k throughput -r 64,64 -b 4",
            "1 42424 -H h",
        ] {
            let settings = parse_super_netperf_on_ports("super-netperf", words(line)).unwrap();
            let OutputForm::KeyVal(Selection::Blocks(blocks)) = &settings.print.form else {
                panic!("{:?}", settings.print.form);
            };
            let names: Vec<_> = blocks
                .iter()
                .flatten()
                .map(crate::selector::Selector::name)
                .collect();
            assert_eq!(names.join(","), K8S_SELECTORS, "{line}");
            assert!(settings.print.latency && settings.print.headers, "{line}");
            assert_eq!(settings.data.port, "42424", "{line}");
            assert_eq!(settings.data.local_port, "42424", "{line}");
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
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
            let exit = parse_super_netperf("super_netperf", words(line)).unwrap_err();
            assert_eq!(exit.code, 1, "{line}");
            assert!(exit.stderr.contains("super_netperf"), "{line}: {exit:?}");
        }
        for line in ["", "1", "x 42424", "2 70000", "2 nosuchport -t TCP_RR -l"] {
            let exit = parse_super_netperf_on_ports("super-netperf", words(line)).unwrap_err();
            assert_eq!(exit.code, 1, "{line}");
            assert!(exit.stderr.contains("super-netperf"), "{line}: {exit:?}");
        }
    }
}
