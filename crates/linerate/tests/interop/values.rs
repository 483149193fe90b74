//! Exact values of the selectors. In a run that ends by count with requested sizes, all values
//! equal stock's, except times and CPU utilisations. Those match the other values by the stock
//! tool's arithmetic, which is also checked on stock's output.

use std::collections::BTreeMap;

use testkit::{Implementation, key_values};

use super::exchange::{Pair, Setting, stdout_of};
use super::selections::FACTS;
use super::{Case, CaseResult};

/// A command line, and the selectors whose values vary.
struct Run {
    name: &'static str,
    line: &'static str,
    /// Parts of the names of selectors that vary between runs, besides [`MEASURED`].
    varying: &'static [&'static str],
}

/// The bytes per receive call of a stream vary. The segment size of a connection without data
/// varies with the peer's window.
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
    // Timed: by count, the stock server can end before the client.
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

/// Parts of the names of selectors for times, rates and CPU utilisations, which vary between runs.
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
    // interop/facts.rs compares this count with the kernel's.
    "RETRANS",
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |run: &'static Run| {
        let name = format!("values::{}", run.name);
        // Fixed ports, and connections that leave sockets in TIME_WAIT.
        Case::new(name, move || run.compare()).in_namespace(true)
    };
    RUNS.iter().map(case).collect()
}

impl Run {
    fn compare(&self) -> CaseResult {
        let stock = self.values(Pair::STOCK)?;
        let mut errors = check_arithmetic(&stock, Pair::STOCK);
        for pair in Pair::TESTED {
            let ours = self.values(pair)?;
            errors.extend(check_arithmetic(&ours, pair));
            for (key, stock) in &stock {
                let value = ours.get(key);
                if !self.varies(key) && !self.is_fact(key) && value != Some(stock) {
                    let pair = pair.name();
                    errors.push(format!("{pair}: {key}={value:?}, stock {stock}"));
                }
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(format!("netperf {}\n{}", self.line, errors.join("\n")))
    }

    fn values(&self, pair: Pair) -> Result<Values, String> {
        let mut args: Vec<&str> = self.line.split_ascii_whitespace().collect();
        args.extend(["-u", "name-of-my-own", "-k", "all"]);
        let text = stdout_of(pair, Setting::PLAIN.in_namespace(true), &args)?;
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
        let contains_any = |parts: &[&str]| parts.iter().any(|part| key.contains(part));
        key != "THROUGHPUT_UNITS" && (contains_any(MEASURED) || contains_any(self.varying))
    }

    /// Returns whether a selector is a fact that interop/facts.rs checks. Stock reports some facts
    /// only on request; those are compared here.
    fn is_fact(&self, key: &str) -> bool {
        let (global, _) = self.line.split_once(" -- ").unwrap_or((self.line, ""));
        let is_requested = [
            ("CPU_COUNT", " -c "),
            ("SOCKET_PRIO", " -y "),
            ("SOCKET_TOS", " -Y "),
        ]
        .iter()
        .any(|(fact, option)| key.ends_with(fact) && global.contains(option));
        FACTS.iter().any(|part| key.contains(part)) && !is_requested
    }
}

/// Removes the server's port from a command line.
fn without_port(line: &str) -> String {
    let mut words = line.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word == "-p" && !kept.contains(&"--") {
            words.next();
        }
    }
    kept.join(" ")
}

/// Values by selector name.
struct Values(BTreeMap<String, String>);

impl Values {
    fn get(&self, key: &str) -> Option<&String> {
        self.0.get(key)
    }

    /// Returns NaN, which equals nothing, if there is no number.
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

/// Returns an error for each figure that contradicts the others.
fn check_arithmetic(values: &Values, pair: Pair) -> Vec<String> {
    let mut errors = Vec::new();
    let mut expect = |name: &str, figure: f64, expected: f64, tolerance: f64| {
        // NaN is an error, too.
        let is_within = (figure - expected).abs() <= tolerance;
        if !is_within {
            let pair = pair.name();
            errors.push(format!("{pair}: {name} is {figure}, expected {expected}"));
        }
    };
    let value = |key: &str| values.number(key);

    // Figures are rounded to hundredths.
    let elapsed = value("ELAPSED_TIME");
    let is_repeated = value("CONFIDENCE_ITERATION") > 1.0;
    let time_error = 0.006 / elapsed;
    let rate = value("TRANSACTION_RATE");
    let has_transactions = value("RT_LATENCY") > 0.0;
    // The rate has more digits than the elapsed time of the last iteration.
    let transactions = value("LOCAL_SEND_CALLS");
    if has_transactions {
        // 1 + BURST_SIZE requests are in flight.
        let round_trip = (1.0 + value("BURST_SIZE")) * 1e6 / rate;
        expect(
            "RT_LATENCY",
            value("RT_LATENCY"),
            round_trip,
            1e-3 * round_trip,
        );
    } else {
        expect("TRANSACTION_RATE", rate, 1.0, 0.0);
        expect("RT_LATENCY", value("RT_LATENCY"), -1.0, 0.0);
    }
    if has_transactions && transactions > 0.0 && !is_repeated {
        expect("ELAPSED_TIME", elapsed, transactions / rate, 0.006);
    }

    // A width is -1 without -I. The requested width is never exceeded here.
    let max_width = value("CONFIDENCE_INTERVAL");
    for width in ["THROUGHPUT_CONFID", "LOCAL_CPU_CONFID", "REMOTE_CPU_CONFID"] {
        let min_width = if is_repeated { 0.0 } else { -1.0 };
        expect(
            width,
            value(width),
            value(width).clamp(min_width, max_width),
            0.0,
        );
    }

    for end in ["LOCAL", "REMOTE"] {
        let of_end = |name: &str| value(&format!("{end}_{name}"));
        let key = |name: &str| format!("{end}_{name}");
        let total = of_end("BYTES_SENT") + of_end("BYTES_RECVD");
        expect(&key("BYTES_XFERD"), of_end("BYTES_XFERD"), total, 0.0);
        for (calls, bytes, per_call, throughput) in [
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
            if of_end(calls) > 0.0 {
                let expected = of_end(bytes) / of_end(calls);
                expect(&key(per_call), of_end(per_call), expected, 0.006);
            }
            if has_transactions && transactions > 0.0 {
                let expected = of_end(bytes) * 8.0 / 1e6 * rate / transactions;
                expect(
                    &key(throughput),
                    of_end(throughput),
                    expected,
                    0.006 + 1e-3 * expected,
                );
            } else if elapsed > 0.1 {
                let expected = of_end(bytes) * 8.0 / 1e6 / elapsed;
                let tolerance = 0.006 + expected * time_error;
                expect(&key(throughput), of_end(throughput), expected, tolerance);
            }
        }
        check_cpu(values, end, pair, &mut expect);
    }

    let throughput = value("THROUGHPUT");
    let units = values.get("THROUGHPUT_UNITS").map_or("", String::as_str);
    let expected = match units {
        "Trans/s" => rate,
        // The peer's throughput; in a receive test, the local one.
        _ if values
            .get("DIRECTION")
            .is_some_and(|direction| direction == "Receive") =>
        {
            value("LOCAL_RECV_THROUGHPUT")
        }
        _ => value("REMOTE_SEND_THROUGHPUT") + value("REMOTE_RECV_THROUGHPUT"),
    };
    if !is_repeated {
        expect("THROUGHPUT", throughput, expected, 0.02 + 1e-3 * expected);
    }
    check_latencies(values, pair, has_transactions, &mut expect);
    errors
}

/// Checks the CPU utilisation and the service demand of an end.
fn check_cpu(values: &Values, end: &str, pair: Pair, expect: &mut impl FnMut(&str, f64, f64, f64)) {
    let of_end = |name: &str| values.number(&format!("{end}_{name}"));
    let key = |name: &str| format!("{end}_{name}");
    let utilisation = of_end("CPU_UTIL");
    if utilisation < 0.0 {
        expect(&key("SD"), of_end("SD"), -1.0, 0.0);
        // A stock client prints undefined values where it received none.
        if pair.client == Implementation::Stock {
            return;
        }
        expect(&key("CPU_PEAK_ID"), of_end("CPU_PEAK_ID"), -1.0, 0.0);
        expect(&key("CPU_PEAK_UTIL"), of_end("CPU_PEAK_UTIL"), -1.0, 0.0);
        return;
    }
    let shares = ["USER", "SYSTEM", "IOWAIT", "IRQ", "SWINTR"]
        .map(|kind| of_end(&format!("CPU_PERCENT_{kind}")));
    for share in shares {
        expect(&key("CPU_PERCENT"), share, share.clamp(0.0, 100.0), 0.0);
    }
    // With several iterations, the utilisation is a mean and the other values are the last
    // iteration's.
    if values.number("CONFIDENCE_ITERATION") > 1.0 {
        return;
    }
    // Stock counts iowait and stolen time as busy. No share includes nice and stolen time.
    let min = shares[0] + shares[1] + shares[3] + shares[4];
    expect(
        &key("CPU_UTIL"),
        utilisation,
        utilisation.clamp(min - 0.1, 100.1),
        0.0,
    );
    let peak = of_end("CPU_PEAK_UTIL");
    expect(
        &key("CPU_PEAK_UTIL"),
        peak,
        peak.clamp(utilisation - 0.1, 100.1),
        0.0,
    );
    let id = of_end("CPU_PEAK_ID");
    expect(
        &key("CPU_PEAK_ID"),
        id,
        id.clamp(0.0, of_end("CPU_COUNT") - 1.0),
        0.0,
    );

    // A stock client uses the other end's utilisation if one is 0.
    if utilisation == 0.0 && pair.client == Implementation::Stock {
        return;
    }
    let has_transactions = values
        .get("SD_UNITS")
        .is_some_and(|units| units == "usec/Tran");
    let work = if has_transactions {
        values.number("TRANSACTION_RATE")
    } else {
        let bytes = values.number("LOCAL_BYTES_XFERD");
        bytes / 1024.0 / values.number("ELAPSED_TIME")
    };
    let demand = utilisation * 10_000.0 * of_end("CPU_COUNT") / work;
    let rounding_error = 0.006 / utilisation.max(0.006) + 0.006 / values.number("ELAPSED_TIME");
    expect(
        &key("SD"),
        of_end("SD"),
        demand,
        0.001 + demand * rounding_error,
    );
}

/// Checks the order of the latency statistics. Stock's percentiles are exact to a histogram bucket,
/// a tenth of a decade.
fn check_latencies(
    values: &Values,
    pair: Pair,
    has_transactions: bool,
    expect: &mut impl FnMut(&str, f64, f64, f64),
) {
    let latency = |name: &str| values.number(&format!("{name}_LATENCY"));
    let (min, max) = (latency("MIN"), latency("MAX"));
    let mean = latency("MEAN");
    // The mean has decimals; the minimum and maximum are integers.
    expect("MEAN_LATENCY", mean, mean.clamp(min, max + 1.0), 0.0);
    let deviation = latency("STDDEV");
    expect(
        "STDDEV_LATENCY",
        deviation,
        deviation.clamp(0.0, max - min + 1.0),
        0.0,
    );
    let tolerance = if pair.client == Implementation::Stock {
        0.1
    } else {
        0.01
    };
    let mut previous = min;
    for percentile in ["P50", "P90", "P99"] {
        let time = latency(percentile);
        // Stock's histogram has no bucket for this time.
        if pair.client == Implementation::Stock && time <= f64::from(i32::MIN) {
            continue;
        }
        let low = (previous * (1.0 - tolerance) - 1.0).min(max);
        let high = max * (1.0 + tolerance) + 1.0;
        expect(percentile, time, time.clamp(low, high), 0.0);
        previous = time;
    }
    if has_transactions
        && values
            .get("DIRECTION")
            .is_some_and(|direction| direction == "Send|Recv")
        && values.number("CONFIDENCE_ITERATION") < 2.0
    {
        // The mean of the latencies is less than the elapsed time per transaction.
        let round_trip = values.number("RT_LATENCY");
        expect(
            "MEAN_LATENCY",
            mean,
            mean.clamp(0.5 * round_trip, 1.01 * round_trip),
            0.0,
        );
    }
}
