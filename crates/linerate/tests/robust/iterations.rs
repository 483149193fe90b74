//! Servers that leave a client alone between two iterations.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use netperf::wire::{Capability, Frame, MESSAGE_BYTES, OMNI, Request, TestResponse, TestResults};
use rustix::process::Signal;
use testkit::{TestCase, TestProcess, linerate_with_args, test_case, wait_until};

/// The client's own patience is a second.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("iterations::late_details", &[], late_details),
        test_case("iterations::interrupted", &[], interrupted),
    ]
}

/// What would be added to the results does not come in time: the next iteration must not read it.
fn late_details() {
    let (one, client) = Fake::start();
    let mut first = one.accept();
    one.serve(&mut first, Capability::of_this_process());
    assert_eq!(kind(&receive(&mut first)), Request::Details.kind());
    let mut second = one.accept();
    // The end of the other, by the client.
    assert_eq!(first.read(&mut [0; 1]).expect("it is closed"), 0);
    drop(first);
    one.serve(&mut second, Capability::default());
    one.serve(&mut second, Capability::default());
    drop(second);
    client.finish(PATIENCE).assert_success();
}

/// An iteration that the user ends before it has a result does not take the others' with it.
fn interrupted() {
    let (one, client) = Fake::start();
    let mut control = one.accept();
    one.serve(&mut control, Capability::default());
    receive(&mut control);
    client.signal(Signal::INT);
    let ended = client.finish(PATIENCE);
    assert_eq!(ended.figures().len(), 5, "{ended:#?}");
}

/// A server made by hand.
struct Fake {
    control: TcpListener,
    data: TcpListener,
}

impl Fake {
    /// It and its client.
    fn start() -> (Self, TestProcess) {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let (control, data) = (listen(), listen());
        control
            .set_nonblocking(true)
            .expect("a socket can be made non-blocking");
        let port = control.local_addr().expect("it is bound").port();
        let options = format!("netperf -H 127.0.0.1 -p {port} -t TCP_STREAM -l -65536 -P 0 -i 3,3");
        let client = TestProcess::start(&mut linerate_with_args(&options));
        (Self { control, data }, client)
    }

    fn accept(&self) -> TcpStream {
        let mut control = None;
        wait_until(PATIENCE, || {
            control = self.control.accept().ok();
            control.is_some()
        });
        let (control, _) = control.expect("the client connects");
        control
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout that is not zero");
        control
    }

    /// Serves one iteration, to its results.
    fn serve(&self, control: &mut TcpStream, capability: Capability) {
        receive(control);
        let port = self.data.local_addr().expect("it is bound").port();
        let response = TestResponse {
            receive_size: 65_536,
            data_port: port.into(),
            ..TestResponse::default()
        };
        let mut frame = OMNI.encode_response(&response);
        capability.write_into(&mut frame);
        control.write_all(&frame).expect("the client reads");
        let (mut data, _) = self.data.accept().expect("the client sends");
        let mut scrap = vec![0; 65_536];
        while data.read(&mut scrap).is_ok_and(|taken| taken > 0) {}
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
    control.read_exact(&mut frame).expect("the client asks");
    frame
}

fn kind(frame: &Frame) -> i32 {
    Request::decode(frame).request.kind()
}
