//! The files in `packaging/`: each starts a server that serves a client.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Server, TestCase, linerate_path, linerate_with_args, run};

/// Path of the program in all files.
const INSTALLED: &str = "/usr/local/bin/netserver";

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("systemd_units", &["systemd-analyze"], systemd_units),
        test_case("systemd_socket", &["systemd-socket-activate"], || {
            serve_two_clients(|files, port| {
                let mut command = Command::new("systemd-socket-activate");
                command
                    .args(["-l", &port.to_string()])
                    .arg(&files.netserver)
                    .arg("-D");
                command
            })
        }),
        test_case(
            "systemd_socket_per_client",
            &["systemd-socket-activate"],
            || {
                serve_two_clients(|files, port| {
                    let mut command = Command::new("systemd-socket-activate");
                    command.args(["-a", "--inetd", "-l", &port.to_string()]);
                    command.arg(&files.netserver);
                    command
                })
            },
        ),
        test_case(
            "systemd_socket_of_serve",
            &["systemd-socket-activate"],
            || {
                serve_two_clients(|files, port| {
                    let status = files.directory.path().join("status");
                    let mut command = Command::new("systemd-socket-activate");
                    command.args(["-l", &port.to_string(), "--fdname=netperf"]);
                    command.arg(linerate_path()).args(["serve", "--status"]);
                    command.arg(status);
                    command
                })
            },
        ),
        test_case("inetd", &["inetd"], || {
            serve_two_clients(|files, port| {
                let line = files.text("inetd.conf", port).replace("nobody", "root");
                let conf = files.write("inetd.conf", &line);
                let mut command =
                    Command::new(find_program("inetd").expect("the test requires it"));
                command.arg("-i").arg(conf);
                command
            })
        }),
        test_case("xinetd", &["xinetd"], || {
            serve_two_clients(|files, port| {
                let text = files.text("xinetd", port).replace("nobody", "root");
                let conf = files.write("xinetd.conf", &format!("defaults\n{{\n}}\n{text}"));
                let mut command =
                    Command::new(find_program("xinetd").expect("the test requires it"));
                command.args(["-dontfork", "-f"]).arg(conf);
                command
            })
        }),
        test_case("services", &["unshare"], services),
        test_case("openwrt", &["sh"], || {
            serve_two_clients(|files, port| {
                let init = files
                    .text("openwrt/netserver.init", port)
                    .replace("/usr/bin/netserver", &files.netserver());
                let init = files.write("netserver.init", &init);
                let rc = files.write("rc.common", &format!("PORT={port}\n{RC_COMMON}"));
                let mut command = Command::new("sh");
                command.arg(rc).arg(init);
                command
            })
        }),
    ]
}

/// The functions of OpenWrt's /etc/rc.common and procd that the script uses. They collect the
/// command and run it.
const RC_COMMON: &str = r#"
config_load() { [ "$1" = netserver ]; }
config_get() { if [ "$3" = port ]; then eval "$1=$PORT"; else eval "$1=\${4-}"; fi; }
config_get_bool() { eval "$1=$4"; }
procd_open_instance() { line=; }
procd_set_param() { [ "$1" != command ] || { shift; line=$*; }; }
procd_append_param() { [ "$1" != command ] || { shift; line="$line $*"; }; }
procd_add_reload_trigger() { :; }
procd_close_instance() { exec $line; }
. "$1"
[ "$USE_PROCD" = 1 ] && start_service
"#;

type Outcome = Result<(), String>;

fn test_case(name: &str, programs: &[&'static str], check: fn() -> Outcome) -> TestCase {
    let missing = programs
        .iter()
        .find(|program| find_program(program).is_none());
    let reason = missing.map(|program| format!("{program} is not installed"));
    testkit::test_case_unless(reason, name, check)
}

/// Searches a program in the PATH, in /usr/sbin, and in its package unpacked below `target`.
fn find_program(program: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/superservers/usr/sbin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), unpacked])
        .map(|directory| directory.join(program))
        .find(|path| path.exists())
}

/// A directory with a link `netserver` to the program, and with adapted files of `packaging/`.
struct Files {
    directory: tempfile::TempDir,
    netserver: PathBuf,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
        let netserver = directory.path().join("netserver");
        symlink(linerate_path(), &netserver).expect("the directory is new and writable");
        Self {
            directory,
            netserver,
        }
    }

    fn netserver(&self) -> String {
        self.netserver.to_string_lossy().into_owned()
    }

    /// Returns a file of `packaging/`, adapted to this program and port.
    fn text(&self, name: &str, port: u16) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packaging")
            .join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let linerate = linerate_path().to_string_lossy().into_owned();
        text.replace(INSTALLED, &self.netserver())
            .replace("/usr/local/bin/linerate", &linerate)
            .replace("12865", &port.to_string())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("the directory is new and writable");
        path
    }
}

/// Starts the server of `command` and runs two clients, one after the other.
fn serve_two_clients(command: impl Fn(&Files, u16) -> Command) -> Outcome {
    let files = Files::new();
    let server =
        Server::try_start_with(|port| command(&files, port)).map_err(|error| error.to_string())?;
    for _ in 0..2 {
        let client = linerate_with_args(&format!(
            "netperf -H 127.0.0.1 -p {} -t TCP_RR -l -10 -P 0 -v 0",
            server.port
        ));
        let output = run(client, Duration::from_secs(20)).map_err(|error| error.to_string())?;
        let has_rate = output
            .stdout
            .trim()
            .parse::<f64>()
            .is_ok_and(|rate| rate > 0.0);
        if output.code != Some(0) || !has_rate {
            return Err(format!("{output:?}"));
        }
    }
    Ok(())
}

/// The line in /etc/services names the port. A mount namespace protects the host's own file.
fn services() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Err("a mount namespace needs root".to_owned());
    }
    let files = Files::new();
    let netserver = |port: u16| {
        let mut command = Command::new(&files.netserver);
        command.args(["-D", "-p", &port.to_string()]);
        command
    };
    let server = Server::try_start_with(netserver).map_err(|error| error.to_string())?;
    let lines = files.write("services", &files.text("services", server.port));
    let mut client = Command::new("unshare");
    client.args([
        "-m",
        "sh",
        "-c",
        "mount --bind \"$1\" /etc/services && exec \"$0\" netperf -p netperf -l -1000 -P 0",
    ]);
    client.arg(linerate_path()).arg(lines);
    let output = run(client, Duration::from_secs(20)).map_err(|error| error.to_string())?;
    if output.code == Some(0) {
        Ok(())
    } else {
        Err(format!("{output:?}"))
    }
}

/// systemd reports nothing about the units.
fn systemd_units() -> Outcome {
    let files = Files::new();
    let units = [
        "linerate-netserver.service",
        "linerate-netserver.socket",
        "linerate-netserver-inetd@.service",
        "linerate-netserver-inetd.socket",
        "linerate-serve.service",
        "linerate-serve.socket",
    ];
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    for unit in units {
        command.arg(files.write(unit, &files.text(unit, 12865)));
    }
    let output = run(command, Duration::from_secs(30)).map_err(|error| error.to_string())?;
    if output.code == Some(0) && !output.stderr.contains("linerate-") {
        Ok(())
    } else {
        Err(format!("{output:?}"))
    }
}
