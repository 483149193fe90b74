//! The lines before the first result.

use std::fmt::Write;
use std::time::SystemTime;

use crate::VERSION;
use crate::options::Common;
use crate::result::{Buffers, Opened};

/// The program of the preamble.
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

/// The cost of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The minimum time between two reads of the clock, in µs.
    pub read_us: f64,
    /// The minimum overrun of a busy wait, in µs.
    pub wait_us: f64,
}

/// All lines up to the titles.
pub fn preamble(
    program: Program,
    common: &Common,
    now: SystemTime,
    opened: &Opened,
    calibration: &Calibration,
    printing_cpus: u64,
) -> String {
    let receives = matches!(program, Program::Recv | Program::Resp);
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
        opened.cpus.0, opened.cpus.1
    );
    if !receives {
        text += &clock(calibration);
    }
    let indent = if receives { " " } else { "" };
    let _ = write!(
        text,
        "{indent}Defaults: {} \nSettings: {}  \n",
        buffers(&opened.default),
        buffers(&opened.set)
    );
    text + &destination(program, common, opened)
}

/// Stock calibrates the CPU's cycle counter here. This program does not use that counter.
fn clock(calibration: &Calibration) -> String {
    format!(
        " Initialising real-time clock.\nCPU speed = not calibrated: the clock is CLOCK_MONOTONIC\n\
         StopWatch_Stop calibrated: {:.4} us minimum  :  StopWatch_Delay calibrated: {:.4} us minimum\n",
        calibration.read_us, calibration.wait_us
    )
}

fn buffers(of: &Buffers) -> String {
    let tos = of.type_of_service;
    format!(
        "RCVBUF {} SNDBUF {} IP_TOS {tos:#x} IP prec {} IP tos {}",
        of.receive,
        of.send,
        tos >> 5,
        (tos & 0x1e) >> 1
    )
}

fn destination(program: Program, common: &Common, opened: &Opened) -> String {
    let port = common.port;
    let to = format!(
        " The destination IP name: {} IP address: {}\n The destination UDP port is ",
        opened.peer_name, opened.peer_address
    );
    let from = match opened.bound_port {
        Some(port) => format!("The source UDP port is {port} {port:x}  "),
        None => String::new(),
    };
    match program {
        Program::BwMon => format!("{to}  {port} {port:x}  {from}\n"),
        Program::Send => format!("{to} {port} {port:x}  {from}\n"),
        Program::Req => format!("{to}  {port} {port:x}\n"),
        Program::Recv | Program::Resp => format!(" The UDP port is   {port} {port:#x}\n"),
    }
}
