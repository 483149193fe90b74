//! A Plan that another command made → [`Settings`] of the client that asks for it.

use getopt::Quit;
use model::{FlowPlan, Plan, Transport, Workload};

use super::families::DEFAULT_ASSOCIATIONS;
use super::{Control, Data, Direction, Family, Settings, Special, Test, refusals};

/// The client of a plan whose groups are flows of one direction, or of two, at this server. A refusal is
/// one line.
pub fn of_plan(plan: &Plan, control: &Control) -> Result<Settings, String> {
    let ways = plan.groups.iter().enumerate().map(|(number, group)| {
        let flow = group.flow().cloned();
        let flow = flow.ok_or("netperf's protocol has no lists of steps")?;
        // The other direction's is asked for by the one message that says which way data goes.
        let test = if number == 0 { test(&flow) } else { Test::Omni };
        Ok(Settings {
            flows: group.workers.count,
            wait: plan.phases.wait,
            ..of_flow(plan.name.clone(), test, flow, control)
        })
    });
    let mut ways = ways.collect::<Result<Vec<_>, String>>()?.into_iter();
    let mut first = ways.next().ok_or("the plan has no group")?;
    first.reverse = ways.next().map(Box::new);
    let is_two_way = first.reverse.is_some();
    let allowed = refusals::of_two_ways(is_two_way, first.direction)
        .and_then(|()| refusals::several_flows(first.test, is_two_way, &first))
        .and_then(|()| refusals::of_io(first.test, &first.flow));
    match allowed {
        Ok(()) => Ok(first),
        Err(Quit::Refused(why)) => Err(why),
        Err(_) => Err("the test cannot be asked for".to_owned()),
    }
}

fn of_flow(name: String, test: Test, flow: FlowPlan, control: &Control) -> Settings {
    let direction = Direction {
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
        special: match flow.transport {
            Transport::SctpMany => Special::Sctp {
                associations: DEFAULT_ASSOCIATIONS,
            },
            Transport::UnixStream | Transport::UnixDatagram => Special::Unix { directory: None },
            _ => Special::Inet,
        },
        flow,
        control: control.clone(),
        data: Data {
            family,
            local_family: family,
            ..Data::default()
        },
        ..Settings::default()
    }
}

/// The test whose messages ask for such a flow.
fn test(flow: &FlowPlan) -> Test {
    let is = |workload: Workload| flow.workload == workload;
    match flow.transport {
        Transport::Tcp if flow.here.send_from_file => Test::TcpSendfile,
        Transport::Tcp if is(Workload::send()) => Test::TcpStream,
        Transport::Tcp if is(Workload::receive()) => Test::TcpMaerts,
        Transport::Tcp if is(Workload::ask()) => Test::TcpRr,
        Transport::Tcp if is(Workload::connect_and_ask()) => Test::TcpCrr,
        Transport::Tcp if is(Workload::connect_and_close()) => Test::TcpCc,
        Transport::Udp if is(Workload::send()) => Test::UdpStream,
        Transport::Udp if is(Workload::ask()) => Test::UdpRr,
        Transport::UnixStream if is(Workload::send()) => Test::StreamStream,
        Transport::UnixStream => Test::StreamRr,
        Transport::UnixDatagram if is(Workload::send()) => Test::DgStream,
        Transport::UnixDatagram => Test::DgRr,
        Transport::SctpMany if is(Workload::send()) => Test::SctpStreamMany,
        Transport::SctpMany => Test::SctpRrMany,
        _ => Test::Omni,
    }
}
