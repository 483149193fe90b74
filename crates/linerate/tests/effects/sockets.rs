//! What the kernel has been told of the data sockets: -S, -y, -Y, and -s by the time of the calls.

use std::process::Command;
use std::time::Duration;

use testkit::{Requirement, Server, TestCase, test_case, wait_until};

use super::trace::{STRACE, both};
use super::{finish, start, values};

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

/// One buffer in a long while: a data connection that stands idle, to be looked at.
const IDLE: &str = "-t TCP_STREAM -l 30 -b 1 -w 1000s";

fn keep_alive() {
    for (options, expected) in [("", false), ("-S", true)] {
        for end in ends(options) {
            assert_eq!(
                end.contains("timer:(keepalive,"),
                expected,
                "{options}: {end}"
            );
        }
    }
}

fn priority_and_type_of_service() {
    for (options, priorities, tos) in [
        ("-y 3,4", ["0x3", "0x4"], ["0", "0"]),
        ("-Y 0x10,0x20", ["", ""], ["0x10", "0x20"]),
        ("-Y ef", ["", ""], ["0xb8", "0xb8"]),
        // The type of service has a priority of its own, which is not to take the one asked for away.
        ("-y 5 -Y CS1,AF41", ["0x5", "0x5"], ["0x20", "0x88"]),
    ] {
        let ends = ends(options);
        for ((end, priority), tos) in ends.iter().zip(priorities).zip(tos) {
            let words: Vec<_> = end.split_whitespace().collect();
            assert!(words.contains(&&*format!("tos:{tos}")), "{options}: {end}");
            assert!(
                priority.is_empty() || words.contains(&&*format!("class_id:{priority}")),
                "{options}: {end}"
            );
        }
    }
}

/// What ss says of the client's and the server's data socket while a test stands idle.
fn ends(options: &str) -> [String; 2] {
    let server = Server::start("");
    let mut client = start(&server, &format!("{IDLE} {options}"));
    let sockets = [client.pid(), server.pid()].map(|pid| {
        let mut found = None;
        wait_until(Duration::from_secs(10), || {
            found = data_socket(pid, server.port);
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("{pid} has no data socket: {}", client.stderr()))
    });
    assert!(client.is_running());
    sockets
}

/// The line of the connected socket of a process that is not its control connection.
fn data_socket(pid: u32, control: u16) -> Option<String> {
    let output = Command::new("ss")
        .args(["-tnopH", "--tos", "state", "established"])
        .output()
        .expect("ss can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (owner, control) = (format!("pid={pid},"), format!(":{control}"));
    text.lines()
        .find(|line| {
            let mut words = line.split_whitespace().skip(2);
            let addresses = [words.next(), words.next()];
            line.contains(&owner)
                && addresses
                    .iter()
                    .flatten()
                    .all(|address| !address.ends_with(&control))
        })
        .map(str::to_owned)
}

/// Every name of RFC 2474, 2597 and 3246, and RFC 1349's three, read back from both ends' sockets.
fn types_of_service_by_name() {
    let server = Server::start("");
    let names = "af11 28 af12 30 af13 38 af21 48 af22 50 af23 58 af31 68 af32 70 af33 78 af41 88 af42 90 \
                 af43 98 cs1 20 cs2 40 cs3 60 cs4 80 cs5 a0 cs6 c0 cs7 e0 ef b8 lowdelay 10 throughput 08 \
                 reliability 04";
    let words: Vec<_> = names.split_whitespace().collect();
    let pairs: Vec<_> = words.chunks_exact(2).collect();
    // Two at a time, one an end.
    for (here, there) in pairs.iter().zip(pairs.iter().rev()) {
        let options = format!(
            "-t UDP_RR -l -1 -Y {},{} -- -k LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS",
            here[0], there[0]
        );
        let said = finish(&server, &options);
        let values = values(&said, ["LOCAL_SOCKET_TOS", "REMOTE_SOCKET_TOS"]);
        assert_eq!(
            values,
            [here, there].map(|pair| format!("0x{}", pair[1])),
            "{options}"
        );
    }
}

/// The data begins so many seconds after the response, and not before.
fn wait_before_the_data() {
    for (options, least) in [("", 0.0), ("-s 1", 1.0)] {
        let calls = both(
            "-e trace=recvfrom,connect",
            "",
            &format!("-t TCP_RR -l -10 {options}"),
        );
        let response = calls.client.iter().find(|call| call.name == "recvfrom");
        let connect = calls.client.iter().rfind(|call| call.name == "connect");
        let (response, connect) = (response.unwrap(), connect.unwrap());
        let pause = connect.at - response.at;
        assert!(
            pause >= least && pause < least + 10.0,
            "{options}: {pause} s"
        );
    }
}
