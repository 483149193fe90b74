//! Options, one or a few at a time: the output matches the stock pair's, except for figures.

use testkit::{Implementation, LinkAddress, ProcessOutput, Release, compare_masked};

use super::exchange::{Family, Pair, RELEASES, Setting, missing_reason, run_pair};
use super::{Case, CaseResult};

/// The topic whose options 2.7.0 lacks.
const SINCE_2_7_1: &str = "since_2_7_1";

/// Command lines by topic. Nearly all end by count, within milliseconds.
const VARIANTS: &[(&str, &[&str])] = &[
    (
        "verbosity",
        &[
            "-t TCP_STREAM -l -2M -v 0",
            "-t TCP_STREAM -l -2M -v 2",
            "-t TCP_MAERTS -l -2M -v 0",
            "-t TCP_MAERTS -l -2M -v 2",
            "-t TCP_SENDFILE -l -2M -v 0",
            "-t TCP_SENDFILE -l -2M -v 2",
            "-t UDP_STREAM -l -2M -v 0 -- -R 1",
            "-t UDP_STREAM -l -2M -v 2 -- -R 1",
            "-t TCP_RR -l -200 -v 0",
            "-t TCP_RR -l -200 -v 2",
            "-t UDP_RR -l -200 -v 0",
            "-t UDP_RR -l -200 -v 2",
            "-t TCP_STREAM -l -2M -v 3",
            "-t TCP_RR -l -200 -v 3",
            "-t TCP_MSS -v 0",
            "-t TCP_MSS -v 2",
        ],
    ),
    (
        "no_headers",
        &[
            "-t TCP_STREAM -l -2M -P 0",
            "-t TCP_MAERTS -l -2M -P 0",
            "-t TCP_SENDFILE -l -2M -P 0",
            "-t UDP_STREAM -l -2M -P 0 -- -R 1",
            "-t TCP_RR -l -200 -P 0",
            "-t UDP_RR -l -200 -P 0",
            "-t OMNI -l -2M -P 0 -- -d send",
            "-t OMNI -l -2M -P 0 -- -d send -o",
            "-t OMNI -l -2M -P 0 -- -d send -k",
            "-t TCP_STREAM -l -2M -P 0 -v 0",
            "-t TCP_RR -l -200 -P 0 -v 2",
        ],
    ),
    (
        "stream_units",
        &[
            "-l -2M -f g",
            "-l -2M -f m",
            "-l -2M -f k",
            "-l -2M -f b",
            "-l -2M -f x",
            "-l -2M -f G",
            "-l -2M -f M",
            "-l -2M -f K",
            "-l -2M -f B",
            "-l -2M -f u",
            "-l -2M -f q",
            "-l -2M -f mega",
            "-l -2M -f m -c -C",
            "-t UDP_STREAM -l -2M -f k -- -R 1",
            "-l -2M -f x -- -O throughput,throughput_units",
        ],
    ),
    (
        "transaction_units",
        &[
            "-t TCP_RR -l -200 -f g",
            "-t TCP_RR -l -200 -f m",
            "-t TCP_RR -l -200 -f k",
            "-t TCP_RR -l -200 -f b",
            "-t TCP_RR -l -200 -f x",
            "-t TCP_RR -l -200 -f G",
            "-t TCP_RR -l -200 -f M",
            "-t TCP_RR -l -200 -f K",
            "-t TCP_RR -l -200 -f B",
            "-t TCP_RR -l -200 -f u",
            "-t UDP_RR -l -200 -f m",
            "-t TCP_RR -l -200 -f m -c -C",
            "-t TCP_RR -l -200 -f m -v 2",
        ],
    ),
    (
        "cpu",
        &[
            "-t TCP_STREAM -l -20M -c -C",
            "-t TCP_STREAM -l -20M -c",
            "-t TCP_STREAM -l -20M -C",
            "-t TCP_STREAM -l -20M -c -C -v 0",
            "-t TCP_STREAM -l -20M -C -v 0",
            "-t TCP_MAERTS -l -20M -c -C",
            "-t TCP_SENDFILE -l -20M -c -C",
            "-t UDP_STREAM -l -20M -c -C -- -R 1",
            "-t UDP_STREAM -l -20M -c -C -v 0 -- -R 1",
            "-t TCP_RR -l -2000 -c -C",
            "-t TCP_RR -l -2000 -c -C -v 0",
            "-t TCP_RR -l -2000 -c",
            "-t UDP_RR -l -2000 -c -C",
            "-t UDP_RR -l -2000 -C",
            "-t OMNI -l -20M -c -C -- -d send",
            "-t OMNI -l -20M -c -C -- -d send -k",
        ],
    ),
    (
        "brand",
        &[
            "-l -2M -B brand",
            "-l -2M -B brand -P 0",
            "-l -2M -B brand -P 0 -v 0",
            "-t TCP_MAERTS -l -2M -B brand -P 0",
            "-t TCP_SENDFILE -l -2M -B brand -P 0",
            "-t TCP_RR -l -200 -B brand -P 0",
            "-t UDP_RR -l -200 -B brand -P 0",
            "-t UDP_STREAM -l -2M -B brand -P 0 -- -R 1",
            "-t TCP_MSS -B brand -P 0",
            "-l -2M -B brand -- -k RESULT_BRAND,THROUGHPUT",
            "-l -2M -B brand -- -o RESULT_BRAND,THROUGHPUT",
            "-l -2M -- -o RESULT_BRAND,THROUGHPUT",
        ],
    ),
    (
        "selections",
        &[
            "-l -2M -- -o",
            "-l -2M -- -O",
            "-l -2M -- -k",
            "-t TCP_RR -l -200 -- -o",
            "-t TCP_RR -l -200 -- -O",
            "-t TCP_MAERTS -l -2M -- -O",
            "-t UDP_STREAM -l -2M -- -R 1 -O",
            "-l -2M -- -k THROUGHPUT,THROUGHPUT_UNITS,elapsed_time",
            "-l -2M -- -k throughput",
            "-l -2M -- -o throughput,elapsed_time,lss_size_req",
            "-l -2M -- -O throughput,elapsed_time;lss_size_req,lsr_size_req;protocol",
            "-l -2M -- -o throughput;elapsed_time",
            "-l -2M -- -k throughput;elapsed_time;protocol;direction;socket_type",
            "-t TCP_RR -l -200 -- -O min_latency,mean_latency,max_latency,p99_latency,stddev_latency",
            "-t TCP_RR -l -200 -j -- -k MIN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY",
            "-l -2M -- -k LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,LOCAL_TRANSPORT_RETRANS",
            "-l -2M -- -o THROUGHPUT -k ELAPSED_TIME",
            "-l -2M -- -k ELAPSED_TIME -o THROUGHPUT",
            "-l -2M -- -k OUTPUT_NONE,THROUGHPUT",
            "-l -2M -- -k THROUGHPUT,OUTPUT_END",
            "-l -2M -- -u name-of-my-own -k UUID",
        ],
    ),
    (
        "sizes",
        &[
            "-l -2M -- -s 64K -S 64K",
            "-l -2M -- -s 64K,32K -S 16K,128K",
            "-l -2M -- -s 1 -S 1",
            "-l -2M -- -m 1000",
            "-l -2M -- -m 32K -M 8K",
            "-l -2M -- -m 32k -M 8k",
            "-t TCP_MAERTS -l -2M -- -m ,8K -M ,4K",
            "-t TCP_MAERTS -l -2M -- -M 4K -m 8K",
            "-t TCP_SENDFILE -l -2M -- -m 4096 -s 64K -S 64K",
            "-t UDP_STREAM -l -2M -- -R 1 -m 1472 -s 256K -S 256K",
            "-t UDP_STREAM -l -2M -- -R 1 -m 1K -M 1K -s 16k -S 16k",
            "-t TCP_RR -l -200 -- -r 100",
            "-t TCP_RR -l -200 -- -r 100,200",
            "-t TCP_RR -l -200 -- -r 1,",
            "-t TCP_RR -l -200 -- -r ,64",
            "-t TCP_RR -l -200 -- -r 64,64 -m 1K -M 1K -R 1",
            "-t UDP_RR -l -200 -- -r 1K,512",
            "-t TCP_RR -l -50 -- -r 32K,32K",
            "-t TCP_RR -l -200 -- -s 64K -S 64K",
            "-t OMNI -l -200 -- -r 5,6",
            "-t OMNI -l -2M -- -m 1000",
            "-t OMNI -l -2M -- -M ,1000",
            "-t OMNI -l -2M -- -d 2",
            "-t OMNI -l -2M -- -d 4",
            "-t OMNI -l -200 -- -d 6 -r 1",
            "-t OMNI -l -200 -- -d send|recv -r 1",
        ],
    ),
    (
        "socket_options",
        &[
            "-l -2M -- -D",
            "-t TCP_RR -l -200 -- -D",
            "-t TCP_RR -l -200 -- -DL,R",
            "-l -2M -- -C",
            "-t TCP_RR -l -2 -- -C",
            "-l -2M -S",
            "-l -2M -Y 0x20",
            "-l -2M -Y af11,cs1 -- -k LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS",
            "-l -2M -Y 0x20,0x20 -- -k LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS",
            "-l -2M -y 3,4 -- -k LOCAL_SOCKET_PRIO,REMOTE_SOCKET_PRIO",
            "-l -2M -y 3",
            "-l -2M -- -G 1000 -k TRANSPORT_MSS",
            "-l -2M -- -K reno -k LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL",
            "-l -2M -- -I",
            "-l -2M -- -a",
            "-l -2M -- -g",
            "-l -2M -- -V",
            "-t TCP_SENDFILE -l -2M -- -V",
            "-t UDP_RR -l -200 -- -n",
            "-t UDP_STREAM -l -2M -- -R 1 -n",
            "-t UDP_STREAM -l -2M -- -R 1 -B",
            "-t UDP_RR -l -200 -- -l 4",
            "-t UDP_RR -l -200 -- -e 5",
            "-t UDP_RR -l -200 -- -T udp -t dgram",
            "-t TCP_RR -l -200 -- -T tcp -t stream",
        ],
    ),
    (
        "burst",
        &[
            // Timed: by count, the stock server can end before the client.
            "-t TCP_RR -l 1 -- -b 4",
            "-t TCP_RR -l 1 -v 2 -- -b 16 -D",
            "-t UDP_RR -l 1 -- -b 4",
        ],
    ),
    (
        "rings",
        &[
            "-l -2M -W 8,4",
            "-l -2M -W 1",
            "-l -2M -- -W 8",
            "-l -2M -a 4096,4096 -A 64,64 -v 2",
            "-l -2M -o 16,16 -O 4,4 -v 2",
            "-t TCP_RR -l -200 -a 16 -o 3 -v 2",
            "-t TCP_MAERTS -l -2M -a 4096,1024 -A 64,32 -o 1,2 -O 3,4 -v 2",
        ],
    ),
    (
        "addresses",
        &[
            "-l -2M -L 127.0.0.1",
            "-l -2M -L 127.0.0.1,4",
            "-l -2M -L 127.0.0.2",
            "-l -2M -H 127.0.0.1,inet",
            "-l -2M -H localhost,4",
            "-l -2M -- -H 127.0.0.2",
            "-l -2M -- -H 127.0.0.2,4 -L 127.0.0.3,4",
            "-l -2M -- -L 127.0.0.9",
            "-t TCP_RR -l -200 -- -H 127.0.0.2",
            "-t UDP_RR -l -200 -- -H 127.0.0.2 -L 127.0.0.3",
            "-t TCP_SENDFILE -l -2M -- -H 127.0.0.2 -L 127.0.0.3",
            "-l -2M -4",
            "-l -2M -- -4",
        ],
    ),
    (
        "ipv6",
        &[
            "-l -2M -6",
            "-l -2M -- -6",
            "-l -2M -6 -H localhost",
            "-t TCP_RR -l -200 -- -6",
            "-t UDP_RR -l -200 -- -6",
            "-t TCP_SENDFILE -l -2M -- -6",
        ],
    ),
    (
        "classic_options",
        &[
            "-t TCP_SENDFILE -l -2M -- -M 2000",
            "-t TCP_SENDFILE -l -2M -- -4 -C -D -N -W 3",
            "-t TCP_SENDFILE -l -2M -- -n -b 5 -r 7,8 -R 1",
            "-t TCP_CC -l -200 -- -4 -C -D -N -n -b 5",
            "-t TCP_CC -l -200 -- -H 127.0.0.2 -L 127.0.0.3 -s 64K -S 32K",
        ],
    ),
    (
        "ports",
        &[
            "-l -2M -- -P 22424,22425",
            "-t TCP_MAERTS -l -2M -- -P ,22424",
            "-t TCP_RR -l -200 -- -P 22424,",
            "-t UDP_RR -l -200 -- -P 22424,22425",
            "-t UDP_STREAM -l -2M -- -R 1 -P 22424,22425",
            "-t TCP_SENDFILE -l -2M -- -P 22424,22425",
            "-t TCP_CRR -l -200 -- -p 20000,20400",
            "-t TCP_CRR -l -200 -- -P ,22424",
            "-t TCP_CC -l -200 -- -p 20000,20400",
        ],
    ),
    (
        "connections",
        &[
            "-t TCP_CRR -l -200 -v 0",
            "-t TCP_CRR -l -200 -v 2",
            "-t TCP_CRR -l -200 -P 0",
            "-t TCP_CRR -l -200 -f m",
            "-t TCP_CRR -l -200 -c -C",
            "-t TCP_CRR -l -200 -- -r 100,200",
            "-t TCP_CRR -l -200 -- -O",
            "-t TCP_CC -l -200 -v 0",
            "-t TCP_CC -l -200 -v 2",
            "-t TCP_CC -l -200 -P 0 -f m",
            "-t TCP_CC -l -200 -c -C",
            "-t TCP_CC -l -200 -- -r 7,8 -m 100",
            "-t OMNI -l -200 -- -c -d rr -r 100,200 -k",
        ],
    ),
    (
        "processors",
        &[
            "-l -2M -T 0,0",
            "-l -2M -T 0",
            "-l -2M -T ,0",
            "-t TCP_RR -l -200 -T 0,0",
            "-l -2M -T 0,0 -- -k LOCAL_CPU_BIND,REMOTE_CPU_BIND",
            "-l -2M -n 4",
        ],
    ),
    ("start", &["-l -2M -s 1", "-t TCP_RR -l -200 -s 1"]),
    (
        SINCE_2_7_1,
        &[
            "-l -2M -- -f",
            "-t TCP_MAERTS -l -2M -- -f",
            "-t TCP_RR -l -200 -- -f",
            "-t UDP_RR -l -200 -- -f",
            "-t UDP_STREAM -l -2M -- -R 1 -f -m 1000",
        ],
    ),
    (
        "leniency",
        &[
            "stray -l -2M words",
            "-l -2M -- stray words",
            "-l -2M -- 22424",
            "-t tcp_stream -l -2M",
            "-t TCP_RR -t TCP_STREAM -l -2M",
            "-l -2M -- -w 5 -N -j 2 -U",
            "-l -2M -- -i 3",
            "-l -2M -- -d recv",
            "-l2M -l-2M -P1",
            "-t TCP_SENDFILE -l -2M -- -T udp -w 3 -z",
            "-t TCP_CC -l -200 -- -T udp -w 3 -z",
            "-l -2M -H 127.0.0.1,foo",
        ],
    ),
];

pub(crate) fn cases() -> Vec<Case> {
    let releases = RELEASES.into_iter();
    let cases = releases.flat_map(|(release, suffix)| cases_with(release, suffix));
    cases.chain([too_long_datagrams()]).collect()
}

/// Between two hosts, `-f` refuses datagrams that exceed the link's MTU of 1500 bytes.
fn too_long_datagrams() -> Case {
    let setting = Setting {
        release: Release::Debian13,
        link_address: Some(LinkAddress {
            link: 0,
            index: 0,
            is_v6: false,
        }),
        ..Setting::PLAIN
    };
    let case = Case::new("variants::since_2_7_1::too_long_datagrams", move || {
        same_as_stock(setting, "-t UDP_STREAM -l 1 -- -R 1 -f -m 4000")?;
        same_as_stock(setting, "-t UDP_RR -l 1 -- -f -r 4000,1")?;
        same_as_stock(setting, "-t UDP_RR -l 1 -- -f -r 1,4000")
    });
    let case = case.in_namespace(true);
    case.unless(missing_reason(setting.release))
}

fn cases_with(release: Release, suffix: &str) -> Vec<Case> {
    let missing = missing_reason(release);
    let mut cases = Vec::new();
    for &(topic, lines) in VARIANTS {
        if topic == SINCE_2_7_1 && release == Release::Debian12 {
            continue;
        }
        for &line in lines {
            let name = format!("variants::{topic}::{}{suffix}", line.replace(' ', "_"));
            // Fixed ports, and a connection per transaction, leave sockets in TIME_WAIT.
            let namespace = matches!(topic, "ports" | "connections" | "classic_options");
            let mut setting = Setting::PLAIN.in_namespace(namespace);
            setting.release = release;
            if topic == "ipv6" {
                setting.family = Family::V6;
            }
            let case = Case::new(name, move || same_as_stock(setting, line));
            let case = case.in_namespace(namespace).unless(missing.clone());
            // A stock server waits after connection tests, the resolver waits, and -s waits.
            let waits = topic == "connections"
                || topic == "start"
                || ["TCP_CRR", "TCP_CC", "localhost"]
                    .iter()
                    .any(|word| line.contains(word));
            cases.push(if waits {
                case.allow_many_at_once()
            } else {
                case
            });
        }
    }
    cases
}

/// Runs a command line with every pair and compares the output with the stock pair's.
pub(crate) fn same_as_stock(setting: Setting, line: &str) -> CaseResult {
    let args: Vec<&str> = line.split_ascii_whitespace().collect();
    let stock = run_pair(Pair::STOCK, setting, &args)?;
    let mut errors = Vec::new();
    for pair in Pair::TESTED {
        let result = run_pair(pair, setting, &args).and_then(|ours| {
            let ours = match pair.client {
                Implementation::Ours => without_histograms(ours, &stock),
                Implementation::Stock => ours,
            };
            compare_output(&ours, &stock)
        });
        if let Err(error) = result {
            errors.push(format!("{}: {error}", pair.name()));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("netperf {line}\n{}", errors.join("\n")))
}

/// Compares the output, except figures, and the exit codes of two runs.
pub(crate) fn compare_output(ours: &ProcessOutput, stock: &ProcessOutput) -> CaseResult {
    // Below stock's usage text, ours prints its additional options.
    let own_usage = "\nlinerate's own options:";
    let our_stderr = ours.stderr.split(own_usage).next().unwrap_or_default();
    for (stream, ours, stock) in [
        ("stdout", ours.stdout.as_str(), &stock.stdout),
        ("stderr", our_stderr, &stock.stderr),
    ] {
        compare_masked(ours, stock).map_err(|difference| {
            format!("{stream}, {difference}\n--- ours\n{ours}--- stock\n{stock}---")
        })?;
    }
    if ours.code != stock.code {
        return Err(format!("exit code {:?}, stock {:?}", ours.code, stock.code));
    }
    Ok(())
}

/// Removes the histogram block that ours prints below stock's text at `-v 2`.
fn without_histograms(mut ours: ProcessOutput, stock: &ProcessOutput) -> ProcessOutput {
    let lines = stock.stdout.matches('\n').count();
    let Some((end, _)) = ours.stdout.match_indices('\n').nth(lines.saturating_sub(1)) else {
        return ours;
    };
    if ours.stdout[end + 1..]
        .trim_start()
        .starts_with("Histogram of ")
    {
        ours.stdout.truncate(end + 1);
    }
    ours
}
