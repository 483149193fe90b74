//! What the client is told, in the layout of the messages that it asked with.

use model::{Half, Side, Transport};

use super::test::{Finished, Prepared};
use super::{family, omni};
use crate::conventions::{TICKS_A_SECOND, cpu_code};
use crate::wire::{
    CalibrateResponse, DatagramRequest, DatagramResponse, DatagramResults, Frame, Request,
    StreamRequest, StreamResponse, StreamResults, TransactionRequest, TransactionResponse,
    TransactionResults, UNKNOWN_REQUEST, error_response,
};

/// The answer to CPU_CALIBRATE.
pub(super) fn calibration(rate: f32) -> CalibrateResponse {
    CalibrateResponse {
        rate,
        cpus: sys::cpu::online() as i32,
    }
}

/// The response: the test is ready.
pub(super) fn response(request: &Request, test: &Prepared) -> Frame {
    let ready = Ready::of(request, test);
    match request {
        Request::Omni(asked) => omni::response(asked, test).encode(),
        Request::TcpStream(asked) | Request::TcpMaerts(asked) => {
            ready.stream(asked).encode(request.kind())
        }
        Request::TcpRr(asked)
        | Request::TcpCrr(asked)
        | Request::TcpCc(asked)
        | Request::UdpRr(asked) => ready.transaction(asked).encode(request.kind()),
        Request::UdpStream(asked) => ready.datagrams(asked).encode(),
        request => family::response(request, test, &ready)
            .unwrap_or_else(|| error_response(UNKNOWN_REQUEST)),
    }
}

/// The results.
pub(super) fn results(
    request: &Request,
    transport: Transport,
    tells_congestion: bool,
    ran: &Finished,
) -> Frame {
    let figures = Figures::of(&ran.side);
    match request {
        Request::TcpStream(_) => figures.received().encode(request.kind()),
        Request::TcpMaerts(_) => figures.sent().encode(request.kind()),
        Request::TcpRr(_) | Request::TcpCrr(_) | Request::TcpCc(_) | Request::UdpRr(_) => {
            figures.transactions().encode(request.kind())
        }
        Request::UdpStream(_) => figures.datagrams().encode(),
        request => family::results(request, &figures)
            .unwrap_or_else(|| omni::results(&ran.side, transport, tells_congestion).encode()),
    }
}

/// What the responses of all classic tests have.
pub(super) struct Ready {
    pub(super) receive_buffer: i32,
    pub(super) send_buffer: i32,
    /// Bytes a receive call, or a send call if the server only sends.
    pub(super) size: i32,
    pub(super) measure_cpu: bool,
    pub(super) cpu_rate: f32,
    no_delay: bool,
    data_port: i32,
}

impl Ready {
    fn of(request: &Request, test: &Prepared) -> Self {
        let facts = &test.data.facts;
        let half = &test.assignment.half;
        let used = test.buffers.used();
        Self {
            receive_buffer: word(facts.receive_buffer_bytes),
            send_buffer: word(facts.send_buffer_bytes),
            size: word(used.receive_bytes.or(used.send_bytes)),
            measure_cpu: half.measure_cpu,
            cpu_rate: rate_in_force(request.cpu_rate(), half),
            no_delay: facts.no_delay.unwrap_or(false),
            data_port: test.port as i32,
        }
    }

    pub(super) fn stream(&self, asked: &StreamRequest) -> StreamResponse {
        StreamResponse {
            receive_buffer: self.receive_buffer,
            size: self.size,
            no_delay: self.no_delay,
            measure_cpu: self.measure_cpu,
            send_buffer: self.send_buffer,
            data_port: self.data_port,
            cpu_rate: self.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
    }

    pub(super) fn transaction(&self, asked: &TransactionRequest) -> TransactionResponse {
        TransactionResponse {
            receive_buffer: self.receive_buffer,
            no_delay: self.no_delay,
            measure_cpu: self.measure_cpu,
            test_length: asked.test_length,
            send_buffer: self.send_buffer,
            data_port: self.data_port,
            cpu_rate: self.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
    }

    fn datagrams(&self, asked: &DatagramRequest) -> DatagramResponse {
        DatagramResponse {
            receive_buffer: self.receive_buffer,
            send_buffer: self.send_buffer,
            measure_cpu: self.measure_cpu,
            test_length: asked.test_length,
            data_port: self.data_port,
            cpu_rate: self.cpu_rate,
            receive_copy_avoidance: asked.receive_copy_avoidance,
            send_copy_avoidance: asked.send_copy_avoidance,
        }
    }
}

/// What the results of all classic tests have. A count of bytes in one word is modulo 2³²; a linerate
/// client knows what is above it.
pub(super) struct Figures<'a> {
    side: &'a Side,
    /// Bytes received.
    pub(super) received_word: u32,
    /// Bytes in both directions.
    pub(super) both_word: u32,
    pub(super) receive_calls: u32,
    pub(super) transactions: u32,
    /// Seconds.
    pub(super) elapsed: f32,
    /// CPU busy, percent.
    pub(super) busy: f32,
    /// The same, −1 when it was not measured.
    pub(super) busy_or_none: f32,
    pub(super) method: i32,
    pub(super) cpus: i32,
}

impl<'a> Figures<'a> {
    fn of(side: &'a Side) -> Self {
        let counts = &side.counts;
        let cpu = side.cpu.as_ref();
        let busy = cpu.map(|cpu| cpu.busy_percent as f32);
        Self {
            side,
            received_word: counts.received.0 as u32,
            both_word: (counts.sent + counts.received).0 as u32,
            receive_calls: counts.receive_calls as u32,
            transactions: counts.transactions as u32,
            elapsed: elapsed(side),
            busy: busy.unwrap_or(0.0),
            busy_or_none: busy.unwrap_or(-1.0),
            method: cpu.map_or(0, |cpu| cpu_code(cpu.method) as i32),
            cpus: cpu.map_or(0, |cpu| cpu.cpus as i32),
        }
    }

    /// Of a stream that the server received.
    pub(super) fn received(&self) -> StreamResults {
        let counts = &self.side.counts;
        self.stream(counts.received.0, counts.receive_calls)
    }

    fn sent(&self) -> StreamResults {
        let counts = &self.side.counts;
        self.stream(counts.sent.0, counts.send_calls)
    }

    fn stream(&self, bytes: u64, calls: u64) -> StreamResults {
        StreamResults {
            bytes: bytes as f64,
            calls: calls as u32,
            elapsed: self.elapsed,
            cpu_utilisation: self.busy,
            cpu_method: self.method,
            cpus: self.cpus,
        }
    }

    pub(super) fn transactions(&self) -> TransactionResults {
        TransactionResults {
            bytes: self.both_word,
            transactions: self.transactions,
            elapsed: self.elapsed,
            cpu_utilisation: self.busy,
            cpu_method: self.method,
            cpus: self.cpus,
        }
    }

    fn datagrams(&self) -> DatagramResults {
        DatagramResults {
            messages: self.receive_calls,
            bytes: self.received_word,
            elapsed: self.elapsed,
            cpu_utilisation: self.busy_or_none,
            cpu_method: self.method,
            cpus: self.cpus,
        }
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
