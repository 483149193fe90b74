//! The values of the selectors, to the digit: in a run that ends by count, with sizes that were asked
//! for, stock says the same in all that is no time and no share of a CPU. And what is one follows from
//! what stands beside it, by the stock tool's own arithmetic, which holds of stock's output, too.

use std::collections::BTreeMap;

use testkit::{Implementation, key_values};

use super::exchange::{Pair, Setting, succeed};
use super::selections::FACTS;
use super::{Case, Outcome};

/// A command line, and what chance has a part in.
struct Run {
    name: &'static str,
    line: &'static str,
    /// Selectors, beside those that are measured, that differ from run to run.
    varying: &'static [&'static str],
}

/// How a receiver's calls cut a stream is chance, and whether a connection without data has seen the
/// peer's window grow, by which its segments are bound.
const RUNS: &[Run] = &[
    Run {
        name: "tcp_rr",
        line: "-t TCP_RR -l -3000 -c -C -B brand -a 16,32 -A 64,128 -o 1,2 -O 3,4 -W 5,6 -T 0,0 -y 1,2 \
               -Y 0x20,0x40 -- -r 100,300 -s 32K,48K -S 20K,24K -D -P 22424,22425 -L 127.0.0.2,4 \
               -H 127.0.0.1,4 -K reno,cubic",
        varying: &[],
    },
    Run {
        name: "udp_rr",
        line: "-t UDP_RR -l -3000 -f m -a 16,32 -A 64,128 -- -r 100,300 -s 32K,48K -S 64K,24K",
        varying: &[],
    },
    Run {
        name: "tcp_crr",
        line: "-t TCP_CRR -l -300 -- -r 100,300 -s 32K,48K -S 20K,24K -p 20000,20600",
        varying: &["TRANSPORT_MSS"],
    },
    Run {
        name: "connect_close",
        line: "-t OMNI -l -300 -- -c -p 20000,20600",
        varying: &["SIZE_END", "TRANSPORT_MSS"],
    },
    Run {
        name: "tcp_stream",
        line: "-t TCP_STREAM -l -20000000 -c -C -F /etc/passwd -a 16 -A ,32 -W 3,5 -- -m 1000 -M 2000 -s 64K,32K -S 32K,64K -G 1000",
        varying: &["REMOTE_RECV_CALLS", "REMOTE_BYTES_PER_RECV"],
    },
    Run {
        name: "tcp_maerts",
        line: "-t TCP_MAERTS -l -20000000 -c -C -- -m ,1000 -M ,2000 -s 64K,32K -S 32K,64K",
        varying: &["LOCAL_RECV_CALLS", "LOCAL_BYTES_PER_RECV"],
    },
    Run {
        name: "udp_stream",
        line: "-t UDP_STREAM -l -50000 -- -R 1 -m 1000 -s 64K -S 128K",
        varying: &[],
    },
    // By time: by count, the stock client can meet the server's end before its own.
    Run {
        name: "burst",
        line: "-t TCP_RR -l 1 -- -b 4 -r 100,300",
        varying: &["SIZE_END", "CALLS", "BYTES_", "TRANSPORT_MSS"],
    },
    Run {
        name: "confidence",
        line: "-t TCP_RR -l -1000 -c -C -I 99,9000 -i 5,3 -- -r 100,300",
        varying: &["SIZE_END", "TRANSPORT_MSS"],
    },
];

/// Times, rates and shares of a CPU: no two runs have the same. Of a name, each of these is a part.
const MEASURED: &[&str] = &[
    "THROUGHPUT",
    "ELAPSED_TIME",
    "TRANSACTION_RATE",
    "LATENCY",
    "CPU_UTIL",
    "CPU_PERCENT",
    "CPU_PEAK",
    "CPU_CONFID",
    "L_SD",
    "E_SD",
    // The kernel's own count, which interop/facts.rs compares with the kernel.
    "RETRANS",
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |run: &'static Run| {
        let name = format!("values::{}", run.name);
        // Fixed ports, and connections that leave TIME_WAIT behind.
        Case::against_stock(name, move || run.compare()).inside(true)
    };
    RUNS.iter().map(case).collect()
}

impl Run {
    fn compare(&self) -> Outcome {
        let control = self.values(Pair::CONTROL)?;
        let mut wrong = arithmetic(&control, Pair::CONTROL);
        for pair in Pair::TESTED {
            let ours = self.values(pair)?;
            wrong.extend(arithmetic(&ours, pair));
            for (key, control) in &control {
                let said = ours.get(key);
                if !self.varies(key) && !self.is_fact(key) && said != Some(control) {
                    let pair = pair.name();
                    wrong.push(format!("{pair}: {key}={said:?}, control {control}"));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("netperf {}\n{}", self.line, wrong.join("\n")))
    }

    fn values(&self, pair: Pair) -> Result<Values, String> {
        let mut args: Vec<&str> = self.line.split_ascii_whitespace().collect();
        args.extend(["-u", "name-of-my-own", "-k", "all"]);
        let text = succeed(pair, Setting::PLAIN.inside(true), &args)?;
        let values = key_values(&text).into_iter().map(|(key, value)| {
            let value = match key {
                "COMMAND_LINE" => without_port(value),
                _ => value.to_owned(),
            };
            (key.to_owned(), value)
        });
        Ok(Values(values.collect()))
    }

    fn varies(&self, key: &str) -> bool {
        let among = |parts: &[&str]| parts.iter().any(|part| key.contains(part));
        key != "THROUGHPUT_UNITS" && (among(MEASURED) || among(self.varying))
    }

    /// Facts have cases of their own. Of some stock tells what it was asked for.
    fn is_fact(&self, key: &str) -> bool {
        let (global, _) = self.line.split_once(" -- ").unwrap_or((self.line, ""));
        let asked = [
            ("CPU_COUNT", " -c "),
            ("SOCKET_PRIO", " -y "),
            ("SOCKET_TOS", " -Y "),
        ]
        .iter()
        .any(|(fact, option)| key.ends_with(fact) && global.contains(option));
        FACTS.iter().any(|part| key.contains(part)) && !asked
    }
}

/// Each server has a port of its own.
fn without_port(line: &str) -> String {
    let mut words = line.split(' ').peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word == "-p" && !kept.contains(&"--") {
            words.next();
        }
    }
    kept.join(" ")
}

/// By the names of their selectors.
struct Values(BTreeMap<String, String>);

impl Values {
    fn get(&self, key: &str) -> Option<&String> {
        self.0.get(key)
    }

    /// NaN, which is equal to nothing, where there is no number.
    fn number(&self, key: &str) -> f64 {
        let text = self.get(key).map_or("", String::as_str);
        text.parse().unwrap_or(f64::NAN)
    }
}

impl<'a> IntoIterator for &'a Values {
    type Item = (&'a String, &'a String);
    type IntoIter = std::collections::btree_map::Iter<'a, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Where a figure is not what it follows from.
fn arithmetic(values: &Values, pair: Pair) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is = |what: &str, said: f64, expected: f64, tolerance: f64| {
        // A figure that is none is wrong, too.
        let holds = (said - expected).abs() <= tolerance;
        if !holds {
            let pair = pair.name();
            wrong.push(format!(
                "{pair}: {what} is {said}, and follows as {expected}"
            ));
        }
    };
    let value = |key: &str| values.number(key);

    // What is printed to hundredths is off by half of one.
    let elapsed = value("ELAPSED_TIME");
    let repeated = value("CONFIDENCE_ITERATION") > 1.0;
    let of_time = 0.006 / elapsed;
    let rate = value("TRANSACTION_RATE");
    let transactional = value("RT_LATENCY") > 0.0;
    // The time of the last iteration, of which the rate has more digits.
    let transactions = value("LOCAL_SEND_CALLS");
    if transactional {
        // So many requests are under way at once.
        let round_trip = (1.0 + value("BURST_SIZE")) * 1e6 / rate;
        is(
            "RT_LATENCY",
            value("RT_LATENCY"),
            round_trip,
            1e-3 * round_trip,
        );
    } else {
        is("TRANSACTION_RATE", rate, 1.0, 0.0);
        is("RT_LATENCY", value("RT_LATENCY"), -1.0, 0.0);
    }
    if transactional && transactions > 0.0 && !repeated {
        is("ELAPSED_TIME", elapsed, transactions / rate, 0.006);
    }

    // Who asks for no confidence has none; here whatever comes is reached.
    let widest = value("CONFIDENCE_INTERVAL");
    for width in ["THROUGHPUT_CONFID", "LOCAL_CPU_CONFID", "REMOTE_CPU_CONFID"] {
        let least = if repeated { 0.0 } else { -1.0 };
        is(width, value(width), value(width).clamp(least, widest), 0.0);
    }

    for end in ["LOCAL", "REMOTE"] {
        let of = |name: &str| value(&format!("{end}_{name}"));
        let name = |name: &str| format!("{end}_{name}");
        let both = of("BYTES_SENT") + of("BYTES_RECVD");
        is(&name("BYTES_XFERD"), of("BYTES_XFERD"), both, 0.0);
        for (calls, bytes, each, throughput) in [
            (
                "SEND_CALLS",
                "BYTES_SENT",
                "BYTES_PER_SEND",
                "SEND_THROUGHPUT",
            ),
            (
                "RECV_CALLS",
                "BYTES_RECVD",
                "BYTES_PER_RECV",
                "RECV_THROUGHPUT",
            ),
        ] {
            if of(calls) > 0.0 {
                is(&name(each), of(each), of(bytes) / of(calls), 0.006);
            }
            if transactional && transactions > 0.0 {
                let expected = of(bytes) * 8.0 / 1e6 * rate / transactions;
                is(
                    &name(throughput),
                    of(throughput),
                    expected,
                    0.006 + 1e-3 * expected,
                );
            } else if elapsed > 0.1 {
                let expected = of(bytes) * 8.0 / 1e6 / elapsed;
                let tolerance = 0.006 + expected * of_time;
                is(&name(throughput), of(throughput), expected, tolerance);
            }
        }
        cpu(values, end, pair, &mut is);
    }

    let throughput = value("THROUGHPUT");
    let units = values.get("THROUGHPUT_UNITS").map_or("", String::as_str);
    let expected = match units {
        "Trans/s" => rate,
        // What the peer has moved; of a test that only receives what came here.
        _ if values.get("DIRECTION").is_some_and(|way| way == "Receive") => {
            value("LOCAL_RECV_THROUGHPUT")
        }
        _ => value("REMOTE_SEND_THROUGHPUT") + value("REMOTE_RECV_THROUGHPUT"),
    };
    if !repeated {
        is("THROUGHPUT", throughput, expected, 0.02 + 1e-3 * expected);
    }
    times(values, pair, transactional, &mut is);
    wrong
}

/// Shares of a CPU, and what a unit of work costs of them.
fn cpu(values: &Values, end: &str, pair: Pair, is: &mut impl FnMut(&str, f64, f64, f64)) {
    let of = |name: &str| values.number(&format!("{end}_{name}"));
    let name = |name: &str| format!("{end}_{name}");
    let busy = of("CPU_UTIL");
    if busy < 0.0 {
        is(&name("SD"), of("SD"), -1.0, 0.0);
        // What a stock client has not been told is what was there.
        if pair.client == Implementation::Stock {
            return;
        }
        is(&name("CPU_PEAK_ID"), of("CPU_PEAK_ID"), -1.0, 0.0);
        is(&name("CPU_PEAK_UTIL"), of("CPU_PEAK_UTIL"), -1.0, 0.0);
        return;
    }
    let shares = ["USER", "SYSTEM", "IOWAIT", "IRQ", "SWINTR"]
        .map(|of_what| of(&format!("CPU_PERCENT_{of_what}")));
    let within = |share: f64| share.clamp(0.0, 100.0);
    for share in shares {
        is(&name("CPU_PERCENT"), share, within(share), 0.0);
    }
    // Of several iterations the share is a mean, and all else is the last one's.
    if values.number("CONFIDENCE_ITERATION") > 1.0 {
        return;
    }
    // To stock waiting for a disk and stolen time are busy; nice and stolen time are in no share of it.
    let known = shares[0] + shares[1] + shares[3] + shares[4];
    is(&name("CPU_UTIL"), busy, busy.clamp(known - 0.1, 100.1), 0.0);
    let peak = of("CPU_PEAK_UTIL");
    is(
        &name("CPU_PEAK_UTIL"),
        peak,
        peak.clamp(busy - 0.1, 100.1),
        0.0,
    );
    let id = of("CPU_PEAK_ID");
    is(
        &name("CPU_PEAK_ID"),
        id,
        id.clamp(0.0, of("CPU_COUNT") - 1.0),
        0.0,
    );

    // A stock client takes the other end's share where one is 0.
    if busy == 0.0 && pair.client == Implementation::Stock {
        return;
    }
    let transactional = values
        .get("SD_UNITS")
        .is_some_and(|units| units == "usec/Tran");
    let work = if transactional {
        values.number("TRANSACTION_RATE")
    } else {
        let moved = values.number("LOCAL_BYTES_XFERD");
        moved / 1024.0 / values.number("ELAPSED_TIME")
    };
    let demand = busy * 10_000.0 * of("CPU_COUNT") / work;
    let of_rounding = 0.006 / busy.max(0.006) + 0.006 / values.number("ELAPSED_TIME");
    is(&name("SD"), of("SD"), demand, 0.001 + demand * of_rounding);
}

/// The statistics of times, in order. Stock's percentiles are where in a bucket of a tenth of a decade
/// they may be.
fn times(
    values: &Values,
    pair: Pair,
    transactional: bool,
    is: &mut impl FnMut(&str, f64, f64, f64),
) {
    let of = |name: &str| values.number(&format!("{name}_LATENCY"));
    let (least, most) = (of("MIN"), of("MAX"));
    let mean = of("MEAN");
    // Means have decimals, extremes have not.
    is("MEAN_LATENCY", mean, mean.clamp(least, most + 1.0), 0.0);
    let deviation = of("STDDEV");
    is(
        "STDDEV_LATENCY",
        deviation,
        deviation.clamp(0.0, most - least + 1.0),
        0.0,
    );
    let slack = if pair.client == Implementation::Stock {
        0.1
    } else {
        0.01
    };
    let mut reached = least;
    for percentile in ["P50", "P90", "P99"] {
        let time = of(percentile);
        // What stock's histogram has no bucket for.
        if pair.client == Implementation::Stock && time <= f64::from(i32::MIN) {
            continue;
        }
        let low = (reached * (1.0 - slack) - 1.0).min(most);
        let high = most * (1.0 + slack) + 1.0;
        is(percentile, time, time.clamp(low, high), 0.0);
        reached = time;
    }
    if transactional
        && values
            .get("DIRECTION")
            .is_some_and(|way| way == "Send|Recv")
        && values.number("CONFIDENCE_ITERATION") < 2.0
    {
        // The mean of the transactions is less than what the whole took of each.
        let round_trip = values.number("RT_LATENCY");
        is(
            "MEAN_LATENCY",
            mean,
            mean.clamp(0.5 * round_trip, 1.01 * round_trip),
            0.0,
        );
    }
}
