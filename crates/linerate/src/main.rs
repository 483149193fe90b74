//! The program `linerate`. As `linerate netperf …`, or through a link named `netperf`, it acts as
//! netperf, and likewise for the other dialects. Other arguments are linerate's own commands.

#![forbid(unsafe_code)]

#[cfg_attr(not(feature = "run"), path = "small.rs")]
mod command_line;
#[cfg(feature = "report")]
#[cfg_attr(
    not(all(feature = "iperf", feature = "uperf")),
    allow(
        dead_code,
        reason = "a build without some dialects leaves parts unused"
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
        abort_on_panic();
    }
    // A client with many flows, or a server with many clients, may need more than the soft limit.
    sys::process::raise_descriptor_limit();
    #[cfg(feature = "run")]
    if let Err(reason) = getopt::stock_version::check_environment() {
        sys::write_error_line(format_args!("linerate: {reason}"));
        return ExitCode::FAILURE;
    }
    let mut args = std::env::args_os();
    let program_path = args.next().unwrap_or_default();
    if let Some(program) = names::by_path(&program_path) {
        let code = (program.run)(&program_path.to_string_lossy(), &mut args);
        return with_output_error(code, program.name);
    }
    let args: Vec<_> = args.collect();
    match args.first().and_then(|word| names::by_name(word)) {
        // The dialect gets all further arguments, including -h and --.
        Some(program) => {
            let code = (program.run)(program.name, &mut args.into_iter().skip(1));
            with_output_error(code, program.name)
        }
        None => with_output_error(command_line::run(&args), "linerate"),
    }
}

/// Reports output that could not be written. The exit code is then not 0. A closed pipe is not an
/// error.
fn with_output_error(code: ExitCode, program: &str) -> ExitCode {
    let Some(error) = getopt::take_output_error() else {
        return code;
    };
    let reason = sys::describe(&error);
    sys::write_error_line(format_args!("{program}: cannot write the output: {reason}"));
    if code == ExitCode::SUCCESS {
        ExitCode::FAILURE
    } else {
        code
    }
}

/// Aborts the process on a panic of any thread, so that tests notice a panic in a server thread.
/// With `panic = "abort"` in the cargo profile, cargo would build all crates twice, because test
/// runners must unwind.
fn abort_on_panic() {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print_panic(panic);
        std::process::abort();
    }));
}
