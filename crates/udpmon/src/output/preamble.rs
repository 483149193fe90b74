//! The lines before the first result.

use std::fmt::Write;
use std::time::SystemTime;

use crate::VERSION;
use crate::options::CommonSettings;
use crate::result::{EndpointInfo, SocketBuffers};

/// The program that prints a preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `udpmon_bw_mon`.
    BwMon,
    /// `udpmon_req`.
    Req,
    /// `udpmon_send`.
    Send,
    /// `udpmon_recv`.
    Recv,
    /// `udpmon_resp`.
    Resp,
}

/// The cost of the clock, as stock prints it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockCost {
    /// The minimum time between two reads of the clock, in µs.
    pub read_us: f64,
    /// The minimum overrun of a busy wait, in µs.
    pub wait_us: f64,
}

/// Formats all lines before the titles.
pub fn preamble(
    program: Program,
    common: &CommonSettings,
    now: SystemTime,
    endpoint: &EndpointInfo,
    clock_cost: &ClockCost,
    printing_cpus: u64,
) -> String {
    let is_receiver = matches!(program, Program::Recv | Program::Resp);
    let cpus = match program {
        Program::BwMon | Program::Send => " CPUs",
        _ => " ",
    };
    let date = sys::clock::local_time(c"%a %b %e %H:%M:%S %Y", now);
    let mut text = format!(
        " {date} :  UDPmon Version {VERSION} {cpus} Command line:  {}\n",
        common.command_line
    );
    if program == Program::Recv {
        let main = common.cpus.unwrap_or(0);
        let _ = writeln!(
            text,
            " cpu_affinity_mask {main:x} stats cpu_affinity_mask {printing_cpus:x} "
        );
    }
    let _ = writeln!(
        text,
        "Default affinity: {:08x} Set affinity: {:08x}",
        endpoint.cpus.0, endpoint.cpus.1
    );
    if !is_receiver {
        text += &clock_lines(clock_cost);
    }
    let indent = if is_receiver { " " } else { "" };
    let _ = write!(
        text,
        "{indent}Defaults: {} \nSettings: {}  \n",
        format_buffers(&endpoint.default_buffers),
        format_buffers(&endpoint.set_buffers)
    );
    text + &destination_lines(program, common, endpoint)
}

/// Formats the lines of the clock cost. Stock calibrates the CPU's cycle counter here; linerate
/// does not use that counter.
fn clock_lines(clock_cost: &ClockCost) -> String {
    format!(
        " Initialising real-time clock.\nCPU speed = not calibrated: the clock is CLOCK_MONOTONIC\n\
         StopWatch_Stop calibrated: {:.4} us minimum  :  StopWatch_Delay calibrated: {:.4} us minimum\n",
        clock_cost.read_us, clock_cost.wait_us
    )
}

fn format_buffers(buffers: &SocketBuffers) -> String {
    let tos = buffers.type_of_service;
    format!(
        "RCVBUF {} SNDBUF {} IP_TOS {tos:#x} IP prec {} IP tos {}",
        buffers.receive,
        buffers.send,
        tos >> 5,
        (tos & 0x1e) >> 1
    )
}

/// Formats the lines of the destination, its port and the source port.
fn destination_lines(program: Program, common: &CommonSettings, endpoint: &EndpointInfo) -> String {
    let port = common.port;
    let destination = format!(
        " The destination IP name: {} IP address: {}\n The destination UDP port is ",
        endpoint.peer_name, endpoint.peer_address
    );
    let source = match endpoint.bound_port {
        Some(port) => format!("The source UDP port is {port} {port:x}  "),
        None => String::new(),
    };
    match program {
        Program::BwMon => format!("{destination}  {port} {port:x}  {source}\n"),
        Program::Send => format!("{destination} {port} {port:x}  {source}\n"),
        Program::Req => format!("{destination}  {port} {port:x}\n"),
        Program::Recv | Program::Resp => format!(" The UDP port is   {port} {port:#x}\n"),
    }
}
