//! Runs that fail, and what the master reports.

use std::time::Duration;

use testkit::{LOOPBACK_HOSTS, Server, TestCase, UperfMaster, free_port, linerate_with_args, run};

use super::requests;

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        a_page_that_cannot_be_written_is_no_surprise,
        a_slave_that_is_lost_is_named,
        without_a_slave_it_says_so,
        what_is_no_profile_is_said_with_its_place,
        what_cannot_be_opened_is_said,
        the_log_is_in_stocks_order,
    ]
}

/// Time for a run that fails, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Before anything runs: nobody listens at the port, and nothing is said of that.
fn a_page_that_cannot_be_written_is_no_surprise() {
    let port = free_port();
    for page in ["/proc", "/missing/page.html"] {
        let options = format!("--html {page}");
        let master = UperfMaster::start(port, &options, &LOOPBACK_HOSTS, &requests());
        let ended = master.finish_within(SOON);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stdout, "", "{ended:?}");
        assert!(ended.stderr.contains(page), "{ended:?}");
    }
}

fn a_slave_that_is_lost_is_named() {
    let slave = Server::start_slave("");
    let profile = requests().replace("iterations=\"500\"", "duration=\"30s\"");
    let mut master = UperfMaster::start(slave.port, "", &LOOPBACK_HOSTS, &profile);
    master.wait_for_stdout(|said| said.contains("Txn2"));
    assert!(master.is_running(), "{}", master.stdout());
    drop(slave);
    let ended = master.finish_within(SOON);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("[127.0.0.1] lost in Txn2"),
        "{ended:?}"
    );
}

fn without_a_slave_it_says_so() {
    let port = free_port();
    let ended = UperfMaster::start(port, "", &LOOPBACK_HOSTS, &requests()).finish_within(SOON);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let stdout = format!(
        "Error connecting to 127.0.0.1\n\n** TCP: Cannot connect to 127.0.0.1:{port} Connection refused\n"
    );
    assert_eq!(ended.stdout, stdout, "{ended:?}");
}

fn what_is_no_profile_is_said_with_its_place() {
    let profile = requests().replace("type=\"write\"", "type=\"wirte\"");
    let ended = Server::start_slave("").run_profile("", &profile);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(":8:"), "{ended:?}");
    assert!(ended.stderr.contains("Unknown flowop wirte"), "{ended:?}");
}

/// The words are stock's, and so is where they go.
fn what_cannot_be_opened_is_said() {
    let file =
        UperfMaster::start(1, "-X /no/such/file", &LOOPBACK_HOSTS, &requests()).finish_within(SOON);
    let profile = run(linerate_with_args("uperf -m /no/such/profile"), SOON).expect("it ends");
    for (ended, stdout, stderr) in [
        (
            profile,
            "Error parsing /no/such/profile\n",
            "Cannot stat file /no/such/profile: No such file or directory",
        ),
        (
            file,
            "Cannot open file\n",
            "cannot open /no/such/file: No such file or directory",
        ),
    ] {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!(ended.stdout, stdout, "{ended:?}");
        assert!(ended.stderr.contains(stderr), "{ended:?}");
    }
}

/// Each failure has one line; the master's come before those of its slaves.
fn the_log_is_in_stocks_order() {
    let slave = Server::start_slave("");
    let profile = requests().replace("tcp_nodelay", "tcp_nodelay wndsz=50k");
    let ended = slave.run_profile("", &profile);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let places: Vec<_> = ["\n** Warning: Send ", "\n** [127.0.0.1] Warning: "]
        .map(|line| ended.stdout.find(line))
        .into_iter()
        .flatten()
        .collect();
    assert!(places.len() == 2 && places.is_sorted(), "{ended:?}");

    let profile = requests()
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=64 count=4", "size=70000");
    let ended = slave.run_profile("", &profile);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lines = ended.stdout.lines().filter(|line| line.starts_with("** "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["** Error for flowop write  Message too long"]
    );
}
