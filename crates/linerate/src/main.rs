//! One binary, many names: `linerate netperf …`, or a link named `netperf`, is netperf.

#![forbid(unsafe_code)]

#[cfg(feature = "netperf")]
mod netperf;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let _ = args.next();
    let name = args.next().unwrap();
    match name.to_str().unwrap() {
        "netserver" => netperf::server("netserver", args),
        _ => netperf::client("netperf", args),
    }
}
