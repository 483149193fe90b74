//! Parameters that an iperf3 server accepts, but that must not change its host.

use std::io::Read;

use iperf3::wire::{ControlState, add_length_prefix};
use testkit::{Server, TestCase, test_cases};

use super::iperf3_script::{Client, RESULTS};

pub(crate) fn test_cases() -> Vec<TestCase> {
    test_cases![
        server_bounds_unusable_parameters,
        server_loads_no_protocol_module,
    ]
}

/// The server runs the tests, refuses an unusable CPU, and escapes the client's texts.
fn server_bounds_unusable_parameters() {
    let server = Server::start_with(|port| format!("iperf3 -s -V -p {port}"));
    for parameters in [
        r#""congestion":"no_such_one""#,
        r#""congestion":"../../etc""#,
        r#""title":"\u001b[2J","extra_data":"\u0007","client_version":"\u009b","get_server_output":1"#,
        r#""bandwidth":9007199254740991,"burst":1000,"pacing_timer":4294967295"#,
        r#""num":9007199254740991,"blockcount":9007199254740991"#,
        r#""skip_rx_copy":1,"zerocopy":1,"repeating_payload":1,"gso":1,"gro":1,"udp_counters_64bit":1"#,
    ] {
        let mut client = Client::connect(server.port);
        client.send_cookie();
        client.send_parameters(&format!(
            r#"{{"tcp":true,"reverse":true,"len":1000,"time":1,{parameters}}}"#
        ));
        let mut stream = client.open_tcp_stream();
        client.await_running();
        stream.read_exact(&mut [0; 1000]).expect("the server sends");
        client.control.send_state(ControlState::TestEnd);
        std::io::copy(&mut stream, &mut std::io::sink()).expect("the server closes the stream");
        client.control.await_state(ControlState::ExchangeResults);
        client.control.send(&add_length_prefix(RESULTS));
        client.control.read_json();
        client.control.await_state(ControlState::DisplayResults);
        client.control.send_state(ControlState::IperfDone);
    }
    let mut client = Client::connect(server.port);
    client.send_cookie();
    let parameters = add_length_prefix(r#"{"server_affinity":60000}"#);
    client.control.send(&parameters);
    client.control.await_state(ControlState::ServerError);
    let has_control = |text: &str| {
        let mut chars = text.chars();
        chars.any(|c| c.is_control() && c != '\n' && c != '\t')
    };
    for text in [server.stdout(), server.stderr()] {
        assert!(!has_control(&text), "{text:?}");
    }
    server.terminate();
}

/// Skips SCTP on a host that has already loaded it.
fn server_loads_no_protocol_module() {
    let has_sctp = || {
        let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
        protocols.lines().any(|line| line.starts_with("SCTP "))
    };
    if has_sctp() {
        return;
    }
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut client = Client::connect(server.port);
    client.send_cookie();
    client.control.send(&add_length_prefix(r#"{"sctp":true}"#));
    client.control.await_state(ControlState::ServerError);
    assert!(!has_sctp());
    server.terminate();
}
