//! Cases for options, errors, structures of profiles, transfers and durations.

use testkit::Profile;

use super::case::{Case, CheckedFigures, ComparedText, SkippedPairing};

fn request_profile() -> String {
    Profile::requests().text()
}

/// Returns [`request_profile`] with `to` instead of `from`.
fn request_profile_with(from: &str, to: &str) -> String {
    request_profile().replace(from, to)
}

/// A profile that connects, repeats flowops and disconnects.
fn profile(strands: &str, connect: &str, repetition: &str, flowops: &[&str]) -> Profile {
    connected_profile(strands, connect, repetition, flowops).single_flowop("disconnect")
}

/// [`profile`] without the last transaction.
fn connected_profile(strands: &str, connect: &str, repetition: &str, flowops: &[&str]) -> Profile {
    Profile::new("case")
        .group(strands)
        .single_flowop(&format!("connect remotehost=$h {connect}"))
        .transaction(repetition, flowops)
}

pub(crate) fn cases() -> Vec<Case> {
    let all = [
        option_cases(),
        error_cases(),
        structure_cases(),
        transfer_cases(),
        timed_cases(),
    ];
    all.into_iter().flatten().collect()
}

/// Cases for options of the command line.
fn option_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "-i 100ms",
        "-i 100ms -a",
        "-i 100ms -v",
        "-i 100ms -v -a",
        "-i 100ms -R",
        "-i 100ms -R -a",
        "-i 100ms -t",
        "-i 100ms -T",
        "-i 100ms -f",
        "-i 100ms -g",
        "-i 100ms -k",
        "-i 100ms -p",
        "-i 100ms -X x",
        "-i 100ms -S tcp",
        "-v -a -R -i 100ms",
    ]
    .into_iter()
    .map(|options| Case::new(options, options, request_profile()))
    .collect();
    for case in &mut cases {
        case.is_for_all_versions = ["-i 100ms -a", "-v -a -R -i 100ms"].contains(&case.options);
    }
    for options in [
        "-i 100ms -n",
        "-i 100ms -n -k",
        "-i 100ms -n -R",
        "-i 100ms -n -v",
        "-i 100ms -a -n",
        "-i 100ms -R -n",
    ] {
        cases.push(
            Case::new(options, options, request_profile()).check_figures(CheckedFigures::Nothing),
        );
    }
    // With -n, stock counts nothing; linerate prints its counts.
    for options in [
        "-i 100ms -n -a",
        "-i 100ms -R -n -a",
        "-i 100ms -n -T",
        "-i 100ms -n -t",
        "-i 100ms -n -f",
        "-i 100ms -n -g",
    ] {
        let case = Case::new(options, options, request_profile());
        cases.push(
            case.check_figures(CheckedFigures::Nothing)
                .compare_only(ComparedText::WithoutFigures),
        );
    }
    // Stock lacks event counters on Linux.
    for options in ["-i 100ms -e", "-i 100ms -E task-clock"] {
        cases.push(
            Case::new(options, options, request_profile()).compare_only(ComparedText::Nothing),
        );
    }
    cases
}

/// Cases for invalid options and profiles, and for failing runs.
fn error_cases() -> Vec<Case> {
    let master_only =
        |name: &str, options, profile: String| Case::new(name, options, profile).without_slave();
    let failing = |name: &str, profile: String| {
        let case = Case::new(name, "-i 100ms", profile);
        case.check_figures(CheckedFigures::Nothing)
            .compare_only(ComparedText::Report)
    };
    vec![
        master_only("no slave", "", request_profile()),
        master_only(
            "unknown flowop",
            "",
            request_profile_with("\"write\"", "\"wirte\""),
        ),
        master_only(
            "unknown option",
            "",
            request_profile_with("count=4", "cuont=4"),
        ),
        master_only(
            "invalid size",
            "",
            request_profile_with("size=64", "size=x"),
        ),
        master_only(
            "unknown protocol",
            "",
            request_profile_with("protocol=tcp", "protocol=xyz"),
        ),
        master_only(
            "unset variable",
            "",
            request_profile_with("$h", "$nosuchvariable"),
        ),
        master_only(
            "invalid duration",
            "",
            request_profile_with("iterations=\"500\"", "duration=\"x\""),
        ),
        master_only("empty profile", "", String::new()),
        master_only("zero interval", "-i 0", request_profile()),
        master_only("invalid interval", "-i x", request_profile()),
        master_only("unknown control protocol", "-S xyz", request_profile()),
        master_only(
            "unwritable response file",
            "-X /no/such/file",
            request_profile(),
        ),
        failing(
            "unknown connection",
            request_profile_with("size=64 count=4", "size=64 conn=7"),
        )
        .skipping(&[
            (
                SkippedPairing::StockMaster,
                "the slave's message contains the flowop's name",
            ),
            (SkippedPairing::StockSlave, "either end may fail first"),
            (SkippedPairing::Ours, "either end may fail first"),
        ]),
        failing(
            "oversized datagrams",
            request_profile_with("protocol=tcp tcp_nodelay", "protocol=udp")
                .replace("size=64 count=4", "size=70000"),
        ),
        Case::new(
            "port in use",
            "-i 100ms",
            request_profile_with("tcp_nodelay", "tcp_nodelay port=30002"),
        )
        .with_port_in_use(),
        Case::new(
            "second disconnect",
            "-i 100ms",
            request_profile_with(
                "  </group>",
                "    <transaction iterations=\"1\">\n      <flowop type=\"disconnect\"/>\n    </transaction>\n  </group>",
            ),
        ),
    ]
}

fn structure_case(name: &str, profile: String) -> Case {
    Case::new(name, "-i 100ms -a", profile)
}

/// Cases for groups, strands, flowops and connections.
fn structure_cases() -> Vec<Case> {
    let group = request_profile();
    let group = group
        .split_once("<profile name=\"requests\">\n")
        .map_or("", |(_, group)| group);
    vec![
        structure_case(
            "listening master",
            request_profile_with("\"connect\"", "\"accept\""),
        )
        .for_all_versions(),
        structure_case("two groups", request_profile_with("</profile>\n", group))
            .compare_only(ComparedText::WithoutFigures),
        structure_case(
            "named group",
            request_profile_with("<group ", "<group name=\"abcdefghijklmnop\" "),
        ),
        structure_case(
            "long profile name",
            request_profile_with("\"requests\"", &format!("\"{}\"", "x".repeat(100))),
        ),
        structure_case("processes", request_profile_with("nthreads", "nprocs")).for_all_versions(),
        structure_case(
            "threads and processes",
            request_profile_with("nthreads=\"2\"", "nthreads=\"2\" nprocs=\"3\""),
        ),
        // Stock prints a time of about 10^10 s for the group.
        structure_case("zero iterations", request_profile_with("\"500\"", "\"0\""))
            .compare_only(ComparedText::WithoutFigures),
        structure_case("IPv6", request_profile_with("$h", "::1")),
        structure_case(
            "socket buffers",
            request_profile_with("nthreads=\"2\"", "nthreads=\"1\"")
                .replace("tcp_nodelay", "tcp_nodelay wndsz=50k"),
        ),
        structure_case(
            "think and nop",
            request_profile_with(
                "<flowop type=\"read\"",
                "<flowop type=\"think\" options=\"duration=10us idle\"/>\n      <flowop type=\"nop\"/>\n      <flowop type=\"read\"",
            ),
        ),
        structure_case(
            "send and recv",
            request_profile_with("\"write\"", "\"send\"").replace("\"read\"", "\"recv\""),
        ),
        structure_case(
            "single transaction",
            Profile::new("crr")
                .group("nthreads=2")
                .transaction(
                    "iterations=100",
                    &[
                        "connect remotehost=$h protocol=tcp",
                        "write size=90",
                        "read size=90",
                        "disconnect",
                    ],
                )
                .text(),
        )
        .for_all_versions(),
    ]
}

/// Cases for sizes, files, datagrams, TLS and ports.
fn transfer_cases() -> Vec<Case> {
    let stream = |connect: &str, flowops: &str| {
        profile("nthreads=2", connect, "iterations=50", &[flowops]).text()
    };
    vec![
        structure_case(
            "different sizes",
            stream("protocol=tcp", "write size=1k rsize=4k count=8"),
        ),
        // A stock slave reads all available data.
        structure_case(
            "random sizes",
            stream("protocol=tcp", "write size=rand(100,8000)"),
        )
        .check_figures(CheckedFigures::Nothing),
        structure_case(
            "large random sizes",
            stream("protocol=tcp", "write size=rand(100,16k)"),
        )
        .check_figures(CheckedFigures::Nothing)
        .without_control("more than 8192 bytes overrun a stock slave's buffer"),
        structure_case("files", stream("protocol=tcp", "sendfile dir=files")),
        structure_case(
            "several files",
            stream("protocol=tcp", "sendfilev dir=files nfiles=3"),
        )
        .without_control("sendfilev sends nothing on Linux")
        .skipping(&[(
            SkippedPairing::StockMaster,
            "sendfilev sends nothing on Linux",
        )]),
        structure_case(
            "datagrams",
            request_profile_with("protocol=tcp tcp_nodelay", "protocol=udp")
                .replace(" count=4", ""),
        )
        .for_all_versions(),
        structure_case(
            "missing datagrams",
            request_profile_with("protocol=tcp tcp_nodelay", "protocol=udp")
                .replace("\"500\"", "\"5\"")
                .replace("<flowop type=\"write\" options=\"size=64 count=4\"/>", "")
                .replace("size=200", "size=200 timeout=10ms canfail conn=0"),
        )
        .check_figures(CheckedFigures::Nothing)
        .compare_only(ComparedText::WithoutFigures),
        structure_case(
            "TLS",
            request_profile_with("nthreads=\"2\"", "nthreads=\"1\"")
                .replace("protocol=tcp", "protocol=ssl"),
        )
        .for_all_versions(),
        structure_case(
            "fixed port",
            request_profile_with("nthreads=\"2\"", "nthreads=\"1\"")
                .replace("tcp_nodelay", "tcp_nodelay port=30001"),
        )
        .for_all_versions(),
        structure_case(
            "fixed port of several strands",
            request_profile_with("tcp_nodelay", "tcp_nodelay port=30001"),
        )
        .without_control("a stock slave crashes")
        .for_all_versions(),
    ]
}

/// Cases for transactions with a duration, at the default interval.
fn timed_cases() -> Vec<Case> {
    const STREAM: &[&str] = &["write size=8k"];
    const REVERSE: &[&str] = &["read size=8k"];
    const EXCHANGE: &[&str] = &["write size=64", "read size=64"];
    const ONE_THREAD: &str = "nthreads=1";
    const ONE_SECOND: &str = "duration=1s";
    let timed = |name: &str, profile: Profile| {
        Case::new(name, "-a", profile.text()).check_figures(CheckedFigures::All)
    };
    let tcp = |name: &str, repetition: &str, flowops: &[&str]| {
        timed(
            name,
            profile(ONE_THREAD, "protocol=tcp", repetition, flowops),
        )
    };
    let without_disconnect = |name: &str, flowops: &[&str]| {
        timed(
            name,
            connected_profile(ONE_THREAD, "protocol=tcp", ONE_SECOND, flowops),
        )
    };
    let udp = |name: &str, flowop: &str| {
        timed(
            name,
            profile(ONE_THREAD, "protocol=udp", ONE_SECOND, &[flowop]),
        )
        .check_figures(CheckedFigures::Nothing)
    };
    let processes = |mut case: Case| {
        case.profile = case.profile.replace("nthreads=\"1\"", "nprocs=\"2\"");
        case.options = "-v -a -R -i 1";
        case
    };
    vec![
        tcp("stream", ONE_SECOND, STREAM).for_all_versions(),
        tcp("2 s stream", "duration=2s", STREAM),
        tcp("500 ms stream", "duration=500ms", STREAM),
        without_disconnect("stream without disconnect", STREAM)
            .without_control("a slave sometimes ends first, and its master reports an error"),
        tcp("reverse stream", ONE_SECOND, REVERSE).for_all_versions(),
        without_disconnect("reverse stream without disconnect", REVERSE)
            .check_figures(CheckedFigures::AllButUnread)
            .without_control("a slave sometimes logs a reset"),
        tcp("exchange", ONE_SECOND, EXCHANGE).for_all_versions(),
        processes(tcp(
            "exchange of processes, raw output",
            "duration=2",
            EXCHANGE,
        )),
        // Each end keeps the rate independently.
        tcp("paced exchange", "duration=1s rate=500", EXCHANGE)
            .check_figures(CheckedFigures::Counts),
        udp("datagrams sent", "write size=90"),
        udp("datagrams received", "read size=90").for_all_versions(),
    ]
}
