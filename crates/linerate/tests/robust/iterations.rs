//! Servers that stop responding between two iterations of a client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use netperf::wire::{Capability, Frame, MESSAGE_BYTES, OMNI, Request, TestResponse, TestResults};
use rustix::process::Signal;
use testkit::{Receive, TestCase, TestProcess, linerate_with_args, wait_until, with_prefix};

/// Timeout of the client's actions. The client itself waits one second for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![ignores_late_details, keeps_results_after_interrupt,];
    with_prefix("iterations", test_cases).collect()
}

/// The server does not send the details in time. The next iteration must not read them, so it uses
/// another connection.
fn ignores_late_details() {
    let (server, client) = FakeServer::start();
    let mut first = server.accept();
    server.serve(&mut first, Capability::of_this_process());
    assert_eq!(request_kind(&receive(&mut first)), Request::Details.kind());
    let mut second = server.accept();
    assert_eq!(first.receive(&mut [0; 1]).expect("the client closes it"), 0);
    drop(first);
    server.serve(&mut second, Capability::default());
    server.serve(&mut second, Capability::default());
    drop(second);
    client.finish(TIMEOUT).assert_success();
}

/// If the user interrupts an iteration, the client still prints the results of the previous ones.
fn keeps_results_after_interrupt() {
    let (server, client) = FakeServer::start();
    let mut control = server.accept();
    server.serve(&mut control, Capability::default());
    receive(&mut control);
    client.signal(Signal::INT);
    let output = client.finish(TIMEOUT);
    assert_eq!(output.figures().len(), 5, "{output:#?}");
}

/// A server that runs step by step.
struct FakeServer {
    control: TcpListener,
    data: TcpListener,
}

impl FakeServer {
    /// Starts the server and its client.
    fn start() -> (Self, TestProcess) {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let (control, data) = (listen(), listen());
        control
            .set_nonblocking(true)
            .expect("the socket becomes non-blocking");
        let port = control.local_addr().expect("the socket is bound").port();
        let options = format!("netperf -H 127.0.0.1 -p {port} -t TCP_STREAM -l -65536 -P 0 -i 3,3");
        let client = TestProcess::start(&mut linerate_with_args(&options));
        (Self { control, data }, client)
    }

    fn accept(&self) -> TcpStream {
        let mut control = None;
        wait_until(TIMEOUT, || {
            control = self.control.accept().ok();
            control.is_some()
        });
        let (control, _) = control.expect("the client connects");
        control
            .set_read_timeout(Some(TIMEOUT))
            .expect("the timeout is not zero");
        control
    }

    /// Serves one iteration up to its results.
    fn serve(&self, control: &mut TcpStream, capability: Capability) {
        receive(control);
        let port = self.data.local_addr().expect("the socket is bound").port();
        let response = TestResponse {
            receive_size: 65_536,
            data_port: port.into(),
            ..TestResponse::default()
        };
        let mut frame = OMNI.encode_response(&response);
        capability.write_into(&mut frame);
        control.write_all(&frame).expect("the client reads");
        let (data, _) = self.data.accept().expect("the client sends");
        let mut discarded = vec![0; 65_536];
        while data.receive(&mut discarded).is_ok_and(|length| length > 0) {}
        drop(data);
        let results = TestResults {
            bytes_received: 65_536,
            elapsed: 0.01,
            ..TestResults::default()
        };
        control
            .write_all(&OMNI.encode_results(&results))
            .expect("the client reads");
    }
}

fn receive(control: &mut TcpStream) -> Frame {
    let mut frame = [0; MESSAGE_BYTES];
    control
        .read_exact(&mut frame)
        .expect("the client sends a request");
    frame
}

fn request_kind(frame: &Frame) -> i32 {
    Request::decode(frame).request.kind()
}
