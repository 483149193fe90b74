//! Options of data sockets, read back from the kernel: -S, -y, -Y. Also -s, by the time of the
//! calls.

use std::process::Command;
use std::time::Duration;

use testkit::{Requirement, Server, TestCase, test_case, wait_until};

use super::trace::{STRACE, trace_netperf};
use super::{run_client, selector_values, start_client};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("keep_alive", SS, keep_alive),
        test_case(
            "priority_and_type_of_service",
            SS,
            priority_and_type_of_service,
        ),
        test_case("types_of_service_by_name", &[], types_of_service_by_name),
        test_case("wait_before_the_data", &[STRACE], wait_before_the_data),
    ]
}

const SS: &[Requirement] = &[Requirement::Program("ss")];

/// Sends one buffer per 1000 s, so that the data connection is idle and can be inspected.
const IDLE: &str = "-t TCP_STREAM -l 30 -b 1 -w 1000s";

fn keep_alive() {
    for (options, expected) in [("", false), ("-S", true)] {
        for socket in data_sockets(options) {
            assert_eq!(
                socket.contains("timer:(keepalive,"),
                expected,
                "{options}: {socket}"
            );
        }
    }
}

fn priority_and_type_of_service() {
    for (options, priorities, tos) in [
        ("-y 3,4", ["0x3", "0x4"], ["0", "0"]),
        ("-Y 0x10,0x20", ["", ""], ["0x10", "0x20"]),
        ("-Y ef", ["", ""], ["0xb8", "0xb8"]),
        // IP_TOS also sets a priority. It must not override the requested one.
        ("-y 5 -Y CS1,AF41", ["0x5", "0x5"], ["0x20", "0x88"]),
    ] {
        let sockets = data_sockets(options);
        for ((socket, priority), tos) in sockets.iter().zip(priorities).zip(tos) {
            let fields: Vec<_> = socket.split_whitespace().collect();
            assert!(
                fields.contains(&&*format!("tos:{tos}")),
                "{options}: {socket}"
            );
            assert!(
                priority.is_empty() || fields.contains(&&*format!("class_id:{priority}")),
                "{options}: {socket}"
            );
        }
    }
}

/// Returns the lines of ss about the client's and the server's data socket during an idle test.
fn data_sockets(options: &str) -> [String; 2] {
    let server = Server::start("");
    let mut client = start_client(&server, &format!("{IDLE} {options}"));
    let sockets = [client.pid(), server.pid()].map(|pid| {
        let mut socket = None;
        wait_until(Duration::from_secs(10), || {
            socket = data_socket(pid, server.port);
            socket.is_some()
        });
        socket.unwrap_or_else(|| panic!("process {pid} has no data socket: {}", client.stderr()))
    });
    assert!(client.is_running());
    sockets
}

/// Returns the line of ss about a process's connected socket that is not its control connection.
fn data_socket(pid: u32, control_port: u16) -> Option<String> {
    let output = Command::new("ss")
        .args(["-tnopH", "--tos", "state", "established"])
        .output()
        .expect("ss is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (owner, control) = (format!("pid={pid},"), format!(":{control_port}"));
    text.lines()
        .find(|line| {
            let mut fields = line.split_whitespace().skip(2);
            let addresses = [fields.next(), fields.next()];
            line.contains(&owner)
                && addresses
                    .iter()
                    .flatten()
                    .all(|address| !address.ends_with(&control))
        })
        .map(str::to_owned)
}

/// Both ends' sockets have the value of each name of RFC 1349, 2474, 2597 and 3246.
fn types_of_service_by_name() {
    let server = Server::start("");
    let names = "af11 28 af12 30 af13 38 af21 48 af22 50 af23 58 af31 68 af32 70 af33 78 af41 88 af42 90 \
                 af43 98 cs1 20 cs2 40 cs3 60 cs4 80 cs5 a0 cs6 c0 cs7 e0 ef b8 lowdelay 10 throughput 08 \
                 reliability 04";
    let fields: Vec<_> = names.split_whitespace().collect();
    let pairs: Vec<_> = fields.chunks_exact(2).collect();
    // Each test checks two names, one per end.
    for (client_pair, server_pair) in pairs.iter().zip(pairs.iter().rev()) {
        let options = format!(
            "-t UDP_RR -l -1 -Y {},{} -- -k LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS",
            client_pair[0], server_pair[0]
        );
        let output = run_client(&server, &options);
        let values = selector_values(&output, ["LOCAL_SOCKET_TOS", "REMOTE_SOCKET_TOS"]);
        assert_eq!(
            values,
            [client_pair, server_pair].map(|pair| format!("0x{}", pair[1])),
            "{options}"
        );
    }
}

/// With -s N, the data connection starts at least N seconds after the response.
fn wait_before_the_data() {
    for (options, min_pause) in [("", 0.0), ("-s 1", 1.0)] {
        let calls = trace_netperf(
            "-e trace=recvfrom,connect",
            "",
            &format!("-t TCP_RR -l -10 {options}"),
        );
        let response = calls.client.iter().find(|call| call.name == "recvfrom");
        let connect = calls.client.iter().rfind(|call| call.name == "connect");
        let (response, connect) = (response.unwrap(), connect.unwrap());
        let pause = connect.time - response.time;
        assert!(
            pause >= min_pause && pause < min_pause + 10.0,
            "{options}: {pause} s"
        );
    }
}
