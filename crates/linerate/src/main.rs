//! One binary, many names: `linerate netperf …`, or a link named `netperf`, is netperf. Under its own
//! name it is a command line of its own.

#![forbid(unsafe_code)]

#[cfg_attr(not(feature = "run"), path = "small.rs")]
mod command_line;
#[cfg(feature = "report")]
#[cfg_attr(
    not(all(feature = "iperf", feature = "uperf")),
    allow(
        dead_code,
        reason = "a build with some of the dialects uses some of it"
    )
)]
mod document;
#[cfg(feature = "run")]
mod histogram;
#[cfg(feature = "iperf")]
mod iperf;
#[cfg(feature = "iperf3")]
mod iperf3;
mod links;
#[cfg(feature = "run")]
mod manual;
mod names;
#[cfg(feature = "netperf")]
mod netperf;
#[cfg(feature = "run")]
mod run;
#[cfg(feature = "run")]
mod serve;
#[cfg(any(
    feature = "iperf",
    feature = "iperf3",
    feature = "netperf",
    feature = "udpmon",
    feature = "uperf"
))]
mod signals;
#[cfg(feature = "udpmon")]
mod udpmon;
#[cfg(feature = "uperf")]
mod uperf;

use std::process::ExitCode;

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        abort_at_panics();
    }
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    if let Some(program) = names::of_path(&called) {
        return (program.run)(&called.to_string_lossy(), &mut words);
    }
    let words: Vec<_> = words.collect();
    match words.first().and_then(|word| names::by_name(word)) {
        // All that follows is the dialect's, -h, -- and all.
        Some(program) => (program.run)(program.name, &mut words.into_iter().skip(1)),
        None => command_line::run(&words),
    }
}

/// Makes a panic of any thread the end of the process, so that no test misses the panic of a server's thread. The
/// profile cannot set this: cargo would build all crates a second time, because its test runners have to unwind.
fn abort_at_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}
