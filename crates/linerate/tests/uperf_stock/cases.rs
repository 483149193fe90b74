//! Options, errors, shapes of profiles, and durations.

use testkit::Profile;

use super::case::{Case, Hold, Left, Like};

fn requests() -> String {
    Profile::requests().text()
}

/// The same with something else in place of `from`.
fn with(from: &str, to: &str) -> String {
    requests().replace(from, to)
}

/// Connects, repeats these flowops as often or as long as it is said, and disconnects.
fn profile(strands: &str, connect: &str, repetition: &str, flowops: &[&str]) -> Profile {
    connected(strands, connect, repetition, flowops).single_flowop("disconnect")
}

/// The same without the last transaction.
fn connected(strands: &str, connect: &str, repetition: &str, flowops: &[&str]) -> Profile {
    Profile::new("case")
        .group(strands)
        .single_flowop(&format!("connect remotehost=$h {connect}"))
        .transaction(repetition, flowops)
}

pub(crate) fn cases() -> Vec<Case> {
    let all = [flags(), errors(), shapes(), transfers(), timed()];
    all.into_iter().flatten().collect()
}

/// Options of the command line.
fn flags() -> Vec<Case> {
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
    .map(|options| Case::new(options, options, requests()))
    .collect();
    for case in &mut cases {
        case.is_for_all = ["-i 100ms -a", "-v -a -R -i 100ms"].contains(&case.options);
    }
    for options in [
        "-i 100ms -n",
        "-i 100ms -n -k",
        "-i 100ms -n -R",
        "-i 100ms -n -v",
        "-i 100ms -a -n",
        "-i 100ms -R -n",
    ] {
        cases.push(Case::new(options, options, requests()).hold(Hold::Nothing));
    }
    // Stock counts nothing after -n; ours shows what there was.
    for options in [
        "-i 100ms -n -a",
        "-i 100ms -R -n -a",
        "-i 100ms -n -T",
        "-i 100ms -n -t",
        "-i 100ms -n -f",
        "-i 100ms -n -g",
    ] {
        let case = Case::new(options, options, requests());
        cases.push(case.hold(Hold::Nothing).like(Like::Titles));
    }
    // Stock has no counters on Linux.
    for options in ["-i 100ms -e", "-i 100ms -E task-clock"] {
        cases.push(Case::new(options, options, requests()).like(Like::Nothing));
    }
    cases
}

/// What cannot be, or fails.
fn errors() -> Vec<Case> {
    let without_slave =
        |name: &str, options, profile: String| Case::new(name, options, profile).alone();
    let failing = |name: &str, profile: String| {
        let case = Case::new(name, "-i 100ms", profile);
        case.hold(Hold::Nothing).like(Like::Report)
    };
    vec![
        without_slave("nobody listens", "", requests()),
        without_slave("unknown flowop", "", with("\"write\"", "\"wirte\"")),
        without_slave("unknown option", "", with("count=4", "cuont=4")),
        without_slave("no size", "", with("size=64", "size=x")),
        without_slave("unknown protocol", "", with("protocol=tcp", "protocol=xyz")),
        without_slave("unset variable", "", with("$h", "$nosuchvariable")),
        without_slave(
            "no duration",
            "",
            with("iterations=\"500\"", "duration=\"x\""),
        ),
        without_slave("empty profile", "", String::new()),
        without_slave("no interval", "-i 0", requests()),
        without_slave("unknown interval", "-i x", requests()),
        without_slave("unknown control protocol", "-S xyz", requests()),
        without_slave("no response file", "-X /no/such/file", requests()),
        failing(
            "unknown connection",
            with("size=64 count=4", "size=64 conn=7"),
        )
        .leaving_out(&[
            (
                Left::StockMaster,
                "the slave's message has the flowop's name",
            ),
            (Left::StockSlave, "either end may fail first"),
            (Left::Ours, "either end may fail first"),
        ]),
        failing(
            "datagrams that are too long",
            with("protocol=tcp tcp_nodelay", "protocol=udp")
                .replace("size=64 count=4", "size=70000"),
        ),
        Case::new(
            "a port that is taken",
            "-i 100ms",
            with("tcp_nodelay", "tcp_nodelay port=30002"),
        )
        .with_taken_port(),
        Case::new(
            "closed twice",
            "-i 100ms",
            with(
                "  </group>",
                "    <transaction iterations=\"1\">\n      <flowop type=\"disconnect\"/>\n    </transaction>\n  </group>",
            ),
        ),
    ]
}

fn shape(name: &str, profile: String) -> Case {
    Case::new(name, "-i 100ms -a", profile)
}

/// Groups, strands, flowops and connections of all kinds.
fn shapes() -> Vec<Case> {
    let group = requests();
    let group = group
        .split_once("<profile name=\"requests\">\n")
        .map_or("", |(_, group)| group);
    vec![
        shape("the master listens", with("\"connect\"", "\"accept\"")).for_all(),
        shape("two groups", with("</profile>\n", group)).like(Like::Titles),
        shape(
            "a named group",
            with("<group ", "<group name=\"abcdefghijklmnop\" "),
        ),
        shape(
            "a long name",
            with("\"requests\"", &format!("\"{}\"", "x".repeat(100))),
        ),
        shape("processes", with("nthreads", "nprocs")).for_all(),
        shape(
            "both kinds of strands",
            with("nthreads=\"2\"", "nthreads=\"2\" nprocs=\"3\""),
        ),
        // Its group has a time of some 10^10 s in stock.
        shape("no iterations", with("\"500\"", "\"0\"")).like(Like::Titles),
        shape("IPv6", with("$h", "::1")),
        shape(
            "buffers",
            with("nthreads=\"2\"", "nthreads=\"1\"")
                .replace("tcp_nodelay", "tcp_nodelay wndsz=50k"),
        ),
        shape(
            "thinking",
            with(
                "<flowop type=\"read\"",
                "<flowop type=\"think\" options=\"duration=10us idle\"/>\n      <flowop type=\"nop\"/>\n      <flowop type=\"read\"",
            ),
        ),
        shape(
            "send and recv",
            with("\"write\"", "\"send\"").replace("\"read\"", "\"recv\""),
        ),
        shape(
            "one transaction",
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
        .for_all(),
    ]
}

/// Sizes, files, datagrams, ports.
fn transfers() -> Vec<Case> {
    let once = |connect: &str, flowops: &str| {
        profile("nthreads=2", connect, "iterations=50", &[flowops]).text()
    };
    vec![
        shape(
            "different sizes",
            once("protocol=tcp", "write size=1k rsize=4k count=8"),
        ),
        // Stock's slaves read as much as there is.
        shape(
            "random sizes",
            once("protocol=tcp", "write size=rand(100,8000)"),
        )
        .hold(Hold::Nothing),
        shape(
            "large random sizes",
            once("protocol=tcp", "write size=rand(100,16k)"),
        )
        .hold(Hold::Nothing)
        .without_control("more than 8192 bytes overrun a stock slave's buffer"),
        shape("files", once("protocol=tcp", "sendfile dir=files")),
        shape(
            "several files",
            once("protocol=tcp", "sendfilev dir=files nfiles=3"),
        )
        .without_control("sendfilev sends nothing on Linux")
        .leaving_out(&[(Left::StockMaster, "sendfilev sends nothing on Linux")]),
        shape(
            "datagrams",
            with("protocol=tcp tcp_nodelay", "protocol=udp").replace(" count=4", ""),
        )
        .for_all(),
        shape(
            "datagrams that do not come",
            with("protocol=tcp tcp_nodelay", "protocol=udp")
                .replace("\"500\"", "\"5\"")
                .replace("<flowop type=\"write\" options=\"size=64 count=4\"/>", "")
                .replace("size=200", "size=200 timeout=10ms canfail conn=0"),
        )
        .hold(Hold::Nothing)
        .like(Like::Titles),
        shape(
            "TLS",
            with("nthreads=\"2\"", "nthreads=\"1\"").replace("protocol=tcp", "protocol=ssl"),
        )
        .for_all(),
        shape(
            "a port",
            with("nthreads=\"2\"", "nthreads=\"1\"")
                .replace("tcp_nodelay", "tcp_nodelay port=30001"),
        )
        .for_all(),
        shape(
            "a port of several strands",
            with("tcp_nodelay", "tcp_nodelay port=30001"),
        )
        .without_control("a stock slave crashes")
        .for_all(),
    ]
}

/// Transactions with a duration, by the interval that is usual.
fn timed() -> Vec<Case> {
    const STREAM: &[&str] = &["write size=8k"];
    const REVERSE: &[&str] = &["read size=8k"];
    const EXCHANGE: &[&str] = &["write size=64", "read size=64"];
    const ONE: &str = "nthreads=1";
    const SECOND: &str = "duration=1s";
    let timed =
        |name: &str, profile: Profile| Case::new(name, "-a", profile.text()).hold(Hold::All);
    let tcp = |name: &str, repetition: &str, flowops: &[&str]| {
        timed(name, profile(ONE, "protocol=tcp", repetition, flowops))
    };
    let last =
        |name: &str, flowops: &[&str]| timed(name, connected(ONE, "protocol=tcp", SECOND, flowops));
    let udp = |name: &str, flowop: &str| {
        timed(name, profile(ONE, "protocol=udp", SECOND, &[flowop])).hold(Hold::Nothing)
    };
    let processes = |mut case: Case| {
        case.profile = case.profile.replace("nthreads=\"1\"", "nprocs=\"2\"");
        case.options = "-v -a -R -i 1";
        case
    };
    vec![
        tcp("a stream", SECOND, STREAM).for_all(),
        tcp("a stream of 2 s", "duration=2s", STREAM),
        tcp("a stream of half a second", "duration=500ms", STREAM),
        last("a stream that ends the run", STREAM).without_control(
            "a slave ends first now and then, which its master takes for an error",
        ),
        tcp("a reverse stream", SECOND, REVERSE).for_all(),
        last("a reverse stream that ends the run", REVERSE)
            .hold(Hold::AllRead)
            .without_control("a slave logs a reset now and then"),
        tcp("an exchange", SECOND, EXCHANGE).for_all(),
        processes(tcp("an exchange of processes, raw", "duration=2", EXCHANGE)),
        // Each end keeps the rate by itself.
        tcp("an exchange at a rate", "duration=1s rate=500", EXCHANGE).hold(Hold::Counts),
        udp("datagrams sent", "write size=90"),
        udp("datagrams received", "read size=90").for_all(),
    ]
}
