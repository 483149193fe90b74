//! `-N`, a test without a control connection: the service to use and the changed plan.

use getopt::{EarlyExit, Exit, refuse};
use model::{EndpointPlan, FlowPlan, Workload};

use super::{Test, TestDirection};

/// Returns the name of the service (RFC 862, 863, 864) that replaces the test's server.
///
/// As in stock, TCP_CC and TCP_MSS have no such service; they need test option `-P ,port`.
pub(super) fn service_name(test: Test, direction: TestDirection) -> Result<String, EarlyExit> {
    if matches!(test, Test::TcpCc | Test::TcpMss) {
        let name = test.name();
        let message =
            format!("No default port known for the {name} test, please set one yourself\n");
        return Err(EarlyExit::Exit(Exit::stdout(message, 255)));
    }
    let name = match direction {
        TestDirection {
            transmit: true,
            receive: false,
            ..
        } => "discard",
        TestDirection {
            transmit: false,
            receive: true,
            ..
        } => "chargen",
        _ => "echo",
    };
    Ok(name.to_owned())
}

/// Returns the plan with default settings for the remote end, because an ordinary service accepts
/// no settings.
pub(super) fn plan_without_control(test: Test, mut plan: FlowPlan) -> Result<FlowPlan, EarlyExit> {
    if test == Test::RemCpu {
        return refuse("-N contradicts REM_CPU: it needs a control connection to the server");
    }
    plan.remote = EndpointPlan::default();
    if plan.workload == Workload::request() || plan.workload == Workload::connect_and_request() {
        // An echo is as long as the request.
        plan.local.receive.size = plan.local.send.size;
    }
    // A service ends only after its client's end of stream.
    plan.workload = plan.workload.with_half_close();
    Ok(plan)
}
