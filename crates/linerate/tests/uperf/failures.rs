//! Failed runs, and the reports of the master.

use std::time::Duration;

use testkit::{LOOPBACK_HOSTS, Server, TestCase, UperfMaster, free_port, linerate_with_args, run};

use super::request_profile;

pub(crate) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        checks_html_path_before_run,
        reports_lost_slave,
        reports_missing_slave,
        reports_profile_error_with_line,
        reports_unopenable_files,
        prints_log_in_stock_order,
    ]
}

/// Timeout of a failing run on a busy machine.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The master checks the path before it connects, so it does not report the missing slave.
fn checks_html_path_before_run() {
    let port = free_port();
    for page in ["/proc", "/missing/page.html"] {
        let options = format!("--html {page}");
        let master = UperfMaster::start(port, &options, &LOOPBACK_HOSTS, &request_profile());
        let output = master.finish_within(SHORT_TIMEOUT);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_eq!(output.stdout, "", "{output:?}");
        assert!(output.stderr.contains(page), "{output:?}");
    }
}

fn reports_lost_slave() {
    let slave = Server::start_slave("");
    let profile = request_profile().replace("iterations=\"500\"", "duration=\"30s\"");
    let mut master = UperfMaster::start(slave.port, "", &LOOPBACK_HOSTS, &profile);
    master.wait_for_stdout(|stdout| stdout.contains("Txn2"));
    assert!(master.is_running(), "{}", master.stdout());
    drop(slave);
    let output = master.finish_within(SHORT_TIMEOUT);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.contains("[127.0.0.1] lost in Txn2"),
        "{output:?}"
    );
}

fn reports_missing_slave() {
    let port = free_port();
    let output = UperfMaster::start(port, "", &LOOPBACK_HOSTS, &request_profile())
        .finish_within(SHORT_TIMEOUT);
    assert_eq!(output.code, Some(1), "{output:?}");
    let stdout = format!(
        "Error connecting to 127.0.0.1\n\n** TCP: Cannot connect to 127.0.0.1:{port} Connection refused\n"
    );
    assert_eq!(output.stdout, stdout, "{output:?}");
}

fn reports_profile_error_with_line() {
    let profile = request_profile().replace("type=\"write\"", "type=\"wirte\"");
    let output = Server::start_slave("").run_profile("", &profile);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(":8:"), "{output:?}");
    assert!(output.stderr.contains("Unknown flowop wirte"), "{output:?}");
}

/// The messages and their streams match stock.
fn reports_unopenable_files() {
    let response_file =
        UperfMaster::start(1, "-X /no/such/file", &LOOPBACK_HOSTS, &request_profile())
            .finish_within(SHORT_TIMEOUT);
    let profile = run(
        linerate_with_args("uperf -m /no/such/profile"),
        SHORT_TIMEOUT,
    )
    .expect("the program ends");
    for (output, stdout, stderr) in [
        (
            profile,
            "Error parsing /no/such/profile\n",
            "Cannot stat file /no/such/profile: No such file or directory",
        ),
        (
            response_file,
            "Cannot open file\n",
            "cannot open /no/such/file: No such file or directory",
        ),
    ] {
        assert_eq!(output.code, Some(1), "{output:?}");
        assert_eq!(output.stdout, stdout, "{output:?}");
        assert!(output.stderr.contains(stderr), "{output:?}");
    }
}

/// Each failure has one line. The lines of the master precede those of its slaves.
fn prints_log_in_stock_order() {
    let slave = Server::start_slave("");
    let profile = request_profile().replace("tcp_nodelay", "tcp_nodelay wndsz=50k");
    let output = slave.run_profile("", &profile);
    assert_eq!(output.code, Some(0), "{output:?}");
    let positions: Vec<_> = ["\n** Warning: Send ", "\n** [127.0.0.1] Warning: "]
        .map(|line| output.stdout.find(line))
        .into_iter()
        .flatten()
        .collect();
    assert!(positions.len() == 2 && positions.is_sorted(), "{output:?}");

    let profile = request_profile()
        .replace("protocol=tcp tcp_nodelay", "protocol=udp")
        .replace("size=64 count=4", "size=70000");
    let output = slave.run_profile("", &profile);
    assert_eq!(output.code, Some(1), "{output:?}");
    let lines = output.stdout.lines().filter(|line| line.starts_with("** "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["** Error for flowop write  Message too long"]
    );
}
