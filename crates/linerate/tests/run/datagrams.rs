//! One-way datagrams: where they are lost.

use std::time::Duration;

use testkit::{Server, keyvals, linerate, run};

const LIMIT: Duration = Duration::from_secs(60);

/// On loopback nothing but the receiver's socket loses any: its buffer has room for a few.
#[test]
fn what_the_socket_drops_is_told_from_what_the_path_loses() {
    let server = Server::start("");
    let at = format!("-H 127.0.0.1 -p {} -P 0 -l 1", server.port);
    let own = "-R 1 -m 1000 -S 1,1 -k LOST_DATAGRAMS,DROPPED_DATAGRAMS";
    let ended = run(
        linerate(&format!("netperf {at} -t UDP_STREAM -- {own}")),
        LIMIT,
    )
    .unwrap();
    let figures = keyvals(&ended.stdout);
    let [("LOST_DATAGRAMS", lost), ("DROPPED_DATAGRAMS", dropped)] = figures[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(lost, dropped, "{ended:?}");
    assert!(dropped.parse::<u64>().unwrap() > 0, "{ended:?}");
}
