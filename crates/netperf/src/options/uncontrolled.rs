//! `-N`: what stands for what a server would be asked for.

use getopt::{Exit, Quit, refuse};
use model::{FlowPlan, Half, Workload};

use super::{Direction, Test};

/// The service that does what a test's server would do, by its name: RFC 862, 863, 864. The stock tool
/// has none for two of its classic tests.
pub(super) fn service(test: Test, direction: Direction) -> Result<String, Quit> {
    if matches!(test, Test::TcpCc | Test::TcpMss) {
        let name = test.name();
        let why = format!("No default port known for the {name} test, please set one yourself\n");
        return Err(Quit::Exit(Exit::stdout(why, 255)));
    }
    let name = match direction {
        Direction {
            transmit: true,
            receive: false,
            ..
        } => "discard",
        Direction {
            transmit: false,
            receive: true,
            ..
        } => "chargen",
        _ => "echo",
    };
    Ok(name.to_owned())
}

/// The plan with nobody to ask for anything: the other end is what it is.
pub(super) fn plan(test: Test, mut plan: FlowPlan) -> Result<FlowPlan, Quit> {
    if test == Test::RemCpu {
        return refuse("-N contradicts REM_CPU: without a control connection nobody can be asked");
    }
    plan.there = Half::default();
    if plan.workload == Workload::ask() || plan.workload == Workload::connect_and_ask() {
        // What is echoed is what was sent.
        plan.here.receive.size = plan.here.send.size;
    }
    // A service waits for its client's end of stream.
    plan.workload = plan.workload.closing_first();
    Ok(plan)
}
