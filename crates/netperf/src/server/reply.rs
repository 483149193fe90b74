//! What the client is told, in the layout of the messages that it asked with.

use model::{Half, Side, Transport};
use sys::Address;

use super::omni;
use super::test::{Finished, Prepared};
use crate::conventions::{TICKS_A_SECOND, cpu_code};
use crate::wire::{
    CalibrateResponse, Classic, ClassicRequest, ClassicResponse, ClassicResults, Frame, Request,
    SwappedText, Task, Text, UNKNOWN_REQUEST, error_response,
};

/// The answer to CPU_CALIBRATE.
pub(super) fn calibration(rate: f32) -> CalibrateResponse {
    CalibrateResponse {
        rate,
        cpus: sys::cpu::online() as i32,
    }
}

/// The response: the test is ready.
pub(super) fn response(request: &Request, ready: &Prepared) -> Frame {
    match request {
        Request::Omni(asked) => omni::response(asked, ready).encode(),
        Request::Classic(test, asked) => {
            test.encode_response(&classic_response(*test, asked, ready))
        }
        _ => error_response(UNKNOWN_REQUEST),
    }
}

/// The results.
pub(super) fn results(
    request: &Request,
    transport: Transport,
    tells_congestion: bool,
    ran: &Finished,
) -> Frame {
    match request {
        Request::Classic(test, _) => test.encode_results(&classic_results(*test, &ran.side)),
        _ => omni::results(&ran.side, transport, tells_congestion).encode(),
    }
}

/// All that a response can have; its layout leaves out what the test has no use for.
fn classic_response(test: Classic, asked: &ClassicRequest, ready: &Prepared) -> ClassicResponse {
    let (facts, half) = (&ready.data.facts, &ready.assignment.half);
    let used = ready.buffers.used();
    let (receive_buffer, send_buffer) = match test.transport() {
        Transport::LlcStream => (facts.receive_window_frames, facts.send_window_frames),
        _ => (facts.receive_buffer_bytes, facts.send_buffer_bytes),
    };
    let mut station = [0; 8];
    let mut sap = 0;
    if let Ok(Address::Llc(bound)) = Address::of(&ready.data.socket) {
        station[..bound.mac.len()].copy_from_slice(&bound.mac);
        sap = i32::from(bound.sap);
    }
    ClassicResponse {
        receive_buffer: word(receive_buffer),
        send_buffer: word(send_buffer),
        receive_size: word(used.receive_bytes.or(used.send_bytes)),
        no_delay: facts.no_delay.unwrap_or(false),
        non_blocking: asked.non_blocking,
        measure_cpu: half.measure_cpu,
        test_length: asked.test_length,
        cpu_rate: rate_in_force(asked.cpu_rate, half),
        receive_copy_avoidance: asked.receive_copy_avoidance,
        send_copy_avoidance: asked.send_copy_avoidance,
        data_port: ready.port as i32,
        path: SwappedText(Text::new(ready.path().as_os_str().as_encoded_bytes())),
        sap,
        station_len: 6,
        station,
    }
}

/// All that results can have. A count of bytes in one word is modulo 2³²; a linerate client knows what is above it.
fn classic_results(test: Classic, side: &Side) -> ClassicResults {
    let counts = &side.counts;
    let (bytes, calls) = match test.task() {
        Task::Send => (counts.sent, counts.send_calls),
        Task::Receive | Task::Datagrams => (counts.received, counts.receive_calls),
        _ => (counts.sent + counts.received, counts.receive_calls),
    };
    let not_measured = if test.task() == Task::Datagrams {
        -1.0
    } else {
        0.0
    };
    let cpu = side.cpu.as_ref();
    ClassicResults {
        bytes: bytes.0 as f64,
        bytes_low: bytes.0 as u32,
        calls: calls as u32,
        transactions: counts.transactions as u32,
        elapsed: elapsed(side),
        cpu_utilisation: cpu.map_or(not_measured, |cpu| cpu.busy_percent as f32),
        cpu_method: cpu.map_or(0, |cpu| cpu_code(cpu.method) as i32),
        cpus: cpu.map_or(0, |cpu| cpu.cpus as i32),
    }
}

/// The calibration value that the client gave, or else the one that there is.
pub(super) fn rate_in_force(asked: f32, half: &Half) -> f32 {
    match half.idle_loop.and_then(|idle_loop| idle_loop.rate) {
        _ if !half.measure_cpu => 0.0,
        Some(rate) => rate as f32,
        None if asked > 0.0 => asked,
        None => TICKS_A_SECOND,
    }
}

/// Seconds; 0 where no clock ran.
pub(super) fn elapsed(side: &Side) -> f32 {
    side.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f32())
}

/// A figure that the kernel did not tell is 0 on the wire.
pub(super) fn word(value: Option<u32>) -> i32 {
    value.map_or(0, |value| value as i32)
}
