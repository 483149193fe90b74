//! Clients that die, in each phase, while another one's test runs.

use std::io::Write;
use std::time::Duration;

use netperf::wire::Request;
use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, STOCK_NETPERF, Server, TestCase, TestProcess, add_link, connection_count,
    linerate_with_args, stock_with_args, test_case, wait_until,
};

use super::raw::{Kind, Raw, data_connection};

/// How long a server may take to see the end of a connection: it needs no deadline for that.
const AT_ONCE: Duration = Duration::from_secs(3);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "death::of_clients_in_each_phase",
            &[STOCK_NETPERF, Namespaces],
            of_clients_in_each_phase,
        ),
        test_case(
            "death::of_clients_without_a_word",
            &[STOCK_NETPERF, Namespaces],
            of_clients_without_a_word,
        ),
    ]
}

fn of_clients_in_each_phase() {
    Namespace::new().enter(|| {
        // No deadline of the server helps here: it must see the ends of the connections.
        let mut server = Server::start("");
        server.idle_usage();
        let at = format!("netperf -H 127.0.0.1 -p {}", server.port);
        let options = "-t TCP_RR -l 1000 -b 1 -w 10 -P 0";
        let mut bystander = TestProcess::start(&mut linerate_with_args(&format!("{at} {options}")));
        let pid = bystander.pid();
        assert!(wait_until(AT_ONCE, || connection_count(pid) == 2));
        let rest = server.usage();

        // The kernel ends the connections of a killed process as it ends these.
        drop(Raw::connect(server.port));
        server.assert_usage_returns_to(rest, AT_ONCE, "a death after the connection");
        let mut raw = Raw::connect(server.port);
        raw.control.write_all(&[0; 300]).expect("the server reads");
        drop(raw);
        server.assert_usage_returns_to(rest, AT_ONCE, "a death within a message");
        for kind in Kind::ALL {
            let mut raw = Raw::connect(server.port);
            raw.send(&Request::Omni(kind.request(10)));
            drop(raw);
            server.assert_usage_returns_to(
                rest,
                AT_ONCE,
                &format!("a death before the response, {}", kind.name()),
            );
        }
        for kind in Kind::ALL {
            let what = format!("a death before the data, {}", kind.name());
            // The stock client sleeps for so long between the response and the data.
            let client = start_client(&server, kind, "-s 20 -l 10");
            let asked = wait_until(AT_ONCE, || {
                server.usage().descriptors >= rest.descriptors + 2
            });
            assert!(asked, "{what}: no request came");
            client.signal(Signal::KILL);
            server.assert_usage_returns_to(rest, AT_ONCE, &what);
        }
        for kind in Kind::ALL {
            let mut client = start_client(&server, kind, "-l 20");
            client.wait_for_data_phase();
            client.signal(Signal::KILL);
            server.assert_usage_returns_to(
                rest,
                AT_ONCE,
                &format!("a death in the data, {}", kind.name()),
            );
        }
        let mut raw = Raw::connect(server.port);
        let port = raw.ask(&Kind::TcpStream.request(10));
        let mut data = data_connection(port);
        data.write_all(&[0; 1000]).expect("the test receives");
        drop((data, raw));
        server.assert_usage_returns_to(rest, AT_ONCE, "a death before the results");

        assert!(bystander.is_running(), "{}", bystander.stderr());
        bystander.signal(Signal::INT);
        let bystander = bystander.finish(AT_ONCE);
        bystander.assert_success();
        // It is paced to a hundred transactions a second.
        assert!(
            bystander.figures().iter().any(|rate| *rate > 20.0),
            "{bystander:#?}"
        );
        assert!(server.is_running());
    });
}

/// The link goes away, and with it every sign of life.
fn of_clients_without_a_word() {
    let (here, there) = (Namespace::new(), Namespace::new());
    add_link(
        (&here, "near", "198.51.100.1/24"),
        (&there, "far", "198.51.100.2/24"),
    );
    let server =
        here.enter(|| Server::start("--control-idle 2 --data-wait 2 --data-idle 2 --drain 2"));
    let rest = here.enter(|| server.idle_usage());
    let clients: Vec<TestProcess> = there.enter(|| {
        let mut silent = Raw::connect_to(([198, 51, 100, 1], server.port).into());
        silent
            .control
            .write_all(&[0; 300])
            .expect("the server reads");
        let options = |kind: Kind| {
            format!(
                "-H 198.51.100.1 -p {} -t {} -l 4 -P 0",
                server.port,
                kind.name()
            )
        };
        let start = |kind| TestProcess::start(&mut stock_with_args("netperf", &options(kind)));
        let mut clients: Vec<_> = Kind::ALL.into_iter().map(start).collect();
        clients
            .iter_mut()
            .for_each(TestProcess::wait_for_data_phase);
        here.ip("link del near");
        clients
    });
    // The test's length, the data's deadline (or the drain's) and the control connection's one after the other.
    server.assert_usage_returns_to(rest, Duration::from_secs(4 + 2 + 2 + 3), "the link's end");
    drop(clients);
    here.enter(|| server.assert_serves());
}

fn start_client(server: &Server, kind: Kind, options: &str) -> TestProcess {
    let options = format!(
        "-H 127.0.0.1 -p {} -t {} -P 0 {options}",
        server.port,
        kind.name()
    );
    TestProcess::start(&mut stock_with_args("netperf", &options))
}
