//! Converts a [`Plan`] that another command has built into the client's [`Settings`].

use getopt::EarlyExit;
use model::{FlowPlan, Plan, Transport, Workload};

use super::families::DEFAULT_ASSOCIATIONS;
use super::{
    ControlOptions, DataOptions, Family, FamilySettings, Settings, Test, TestDirection, refusals,
};

/// Returns the client's settings for `plan`, run against the server of `control`.
///
/// The plan has one group of flows per direction. An error is one line.
pub fn settings_for_plan(plan: &Plan, control: &ControlOptions) -> Result<Settings, String> {
    let directions = plan.groups.iter().enumerate().map(|(index, group)| {
        let flow = group.flow().cloned();
        let flow = flow.ok_or("netperf's protocol cannot carry a list of steps")?;
        // The other direction needs an omni request: only an omni request states the direction.
        let test = if index == 0 {
            test_for_flow(&flow)
        } else {
            Test::Omni
        };
        Ok(Settings {
            flows: group.workers.count,
            wait: plan.phases.wait,
            ..settings_for_flow(plan.name.clone(), test, flow, control)
        })
    });
    let mut directions = directions.collect::<Result<Vec<_>, String>>()?.into_iter();
    let mut first = directions.next().ok_or("the plan has no group")?;
    first.reverse = directions.next().map(Box::new);
    let is_two_way = first.reverse.is_some();
    let direction_allowed = if is_two_way {
        refusals::check_bidirectional(first.direction)
    } else {
        Ok(())
    };
    let allowed = direction_allowed
        .and_then(|()| refusals::check_flow_count(first.test, is_two_way, &first))
        .and_then(|()| refusals::check_io(first.test, &first.flow));
    match allowed {
        Ok(()) => Ok(first),
        Err(EarlyExit::Refused(reason)) => Err(reason),
        Err(_) => Err("netperf's protocol cannot request this test".to_owned()),
    }
}

fn settings_for_flow(
    name: String,
    test: Test,
    flow: FlowPlan,
    control: &ControlOptions,
) -> Settings {
    let direction = TestDirection {
        transmit: flow.workload.sends(),
        receive: flow.workload.receives(),
        connection: flow.workload.connects(),
    };
    let family = match flow.transport {
        Transport::Vsock => Family::Vsock,
        _ => control.family,
    };
    Settings {
        test,
        direction,
        name,
        family_settings: match flow.transport {
            Transport::SctpMany => FamilySettings::Sctp {
                associations: DEFAULT_ASSOCIATIONS,
            },
            Transport::UnixStream | Transport::UnixDatagram => {
                FamilySettings::Unix { directory: None }
            }
            _ => FamilySettings::Inet,
        },
        flow,
        control: control.clone(),
        data: DataOptions {
            family,
            local_family: family,
            ..DataOptions::default()
        },
        ..Settings::default()
    }
}

/// Returns the test whose messages request such a flow.
fn test_for_flow(flow: &FlowPlan) -> Test {
    let is = |workload: Workload| flow.workload == workload;
    match flow.transport {
        Transport::Tcp if flow.local.send_from_file => Test::TcpSendfile,
        Transport::Tcp if is(Workload::send()) => Test::TcpStream,
        Transport::Tcp if is(Workload::receive()) => Test::TcpMaerts,
        Transport::Tcp if is(Workload::request()) => Test::TcpRr,
        Transport::Tcp if is(Workload::connect_and_request()) => Test::TcpCrr,
        Transport::Tcp if is(Workload::connect_and_close()) => Test::TcpCc,
        Transport::Udp if is(Workload::send()) => Test::UdpStream,
        Transport::Udp if is(Workload::request()) => Test::UdpRr,
        Transport::UnixStream if is(Workload::send()) => Test::StreamStream,
        Transport::UnixStream => Test::StreamRr,
        Transport::UnixDatagram if is(Workload::send()) => Test::DgStream,
        Transport::UnixDatagram => Test::DgRr,
        Transport::SctpMany if is(Workload::send()) => Test::SctpStreamMany,
        Transport::SctpMany => Test::SctpRrMany,
        _ => Test::Omni,
    }
}
