//! No control connection (`-N`): tests against standard services, whose output matches stock's, and
//! tests that the manual documents but stock cannot run.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use testkit::{Implementation, ProcessOutput, Receive, ReceiveFrom, Role, compare_masked, figures};

use super::exchange::{programs, run};
use super::{Case, CaseResult};

type Service = fn(TcpStream) -> io::Result<()>;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("nocontrol::matches_stock", matches_stock),
        Case::new(
            "nocontrol::runs_tests_that_stock_cannot",
            runs_tests_that_stock_cannot,
        )
        .without_stock(),
        Case::new("nocontrol::unknown_values", unknown_values).without_stock(),
        Case::new("nocontrol::refused_connection", refused_connection),
        Case::new("nocontrol::reset_connection", reset_connection),
    ]
}

/// The discard service, RFC 863.
fn discard(mut client: TcpStream) -> io::Result<()> {
    io::copy(&mut client, &mut io::sink()).map(drop)
}

/// The echo service, RFC 862.
fn echo(mut client: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    loop {
        let length = client.receive(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        client.write_all(&buffer[..length])?;
    }
}

/// A simple chargen service, RFC 864.
fn chargen(mut client: TcpStream) -> io::Result<()> {
    loop {
        client.write_all(&[b'#'; 16_384])?;
    }
}

/// Starts a service until the process ends. Returns its port.
fn serve(service: Service) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || service(client));
        }
    });
    Ok(port)
}

/// Starts an echo service for datagrams until the process ends. Returns its port.
fn serve_datagrams() -> io::Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    thread::spawn(move || {
        let mut buffer = [0; 16_384];
        while let Ok((length, from)) = socket.receive_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    Ok(port)
}

fn netperf(
    implementation: Implementation,
    port: u16,
    global: &[&str],
    test: &[&str],
) -> Result<ProcessOutput, String> {
    let mut client = programs().command(implementation, Role::Client);
    client
        .args(["-N", "-H", "127.0.0.1", "-l", "-2000"])
        .args(global)
        .args(["--", "-P", &format!(",{port}")])
        .args(test);
    run(client)
}

fn ours(port: u16, global: &[&str], test: &[&str]) -> Result<String, String> {
    let finished = netperf(Implementation::Ours, port, global, test)?;
    if finished.code == Some(0) {
        return Ok(finished.stdout);
    }
    Err(format!("{global:?} {test:?}: {finished:?}"))
}

fn matches_stock() -> CaseResult {
    let start = |service| serve(service).map_err(|error| error.to_string());
    let (discard, echo, chargen) = (start(discard)?, start(echo)?, start(chargen)?);
    let datagrams = serve_datagrams().map_err(|error| error.to_string())?;
    for (port, global, test) in [
        (discard, &["-t", "TCP_STREAM"][..], &[][..]),
        (discard, &["-t", "TCP_STREAM"], &["-o"]),
        (chargen, &["-t", "TCP_MAERTS"], &[]),
        (echo, &["-t", "TCP_RR"], &[]),
        (echo, &["-t", "TCP_RR", "-f", "m"], &["-r", "100,5"]),
        (
            echo,
            &["-t", "TCP_RR", "-l", "1", "-D", "0.4"],
            &["-b", "4"],
        ),
        (echo, &["-t", "TCP_CRR"], &[]),
        (datagrams, &["-t", "UDP_STREAM"], &["-m", "1000"]),
        (datagrams, &["-t", "UDP_RR"], &[]),
        (discard, &["-t", "OMNI"], &["-d", "send"]),
        (discard, &["-t", "OMNI"], &["-c"]),
    ] {
        let ours = ours(port, global, test)?;
        let stock = netperf(Implementation::Stock, port, global, test)?.stdout;
        // The number of interim results depends on the clock.
        let without_interim = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with("Interim"))
                .map(|line| line.to_owned() + "\n")
                .collect::<String>()
        };
        compare_masked(&without_interim(&ours), &without_interim(&stock))
            .map_err(|difference| format!("{global:?} {test:?}: {difference}"))?;
        if global.contains(&"-D") && !ours.contains("Interim result: ") {
            return Err(format!("no interim result: {ours}"));
        }
    }
    Ok(())
}

/// Sendfile and connection tests.
fn runs_tests_that_stock_cannot() -> CaseResult {
    let port = serve(discard).map_err(|error| error.to_string())?;
    for test in ["TCP_SENDFILE", "TCP_CC", "TCP_MSS"] {
        let text = ours(port, &["-t", test], &[])?;
        if !text.contains(" : no control : demo\n") {
            return Err(text);
        }
        // TCP_CC prints a row of two unknown values of the peer below the result.
        let row = text.lines().rev().map(figures).find(|row| row.len() != 2);
        let rate = row.and_then(|row| row.last().copied()).unwrap_or_default();
        if rate <= 0.0 {
            return Err(format!("{test}: {text}"));
        }
    }
    Ok(())
}

fn unknown_values() -> CaseResult {
    let port = serve(echo).map_err(|error| error.to_string())?;
    let keys = "REMOTE_BYTES_XFERD,RSS_SIZE_END,RSR_SIZE_END,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,\
        REMOTE_CPU_UTIL,REMOTE_SD,REMOTE_SEND_ALIGN,REMOTE_RECV_OFFSET,REMOTE_NODELAY,\
        REMOTE_SOCKET_PRIO,REMOTE_CPU_BIND";
    // Some of these options are for the peer. Without a control connection, it does not get them.
    let global = ["-t", "TCP_RR", "-C", "-A", "16", "-O", "3", "-T", ",0"];
    let text = ours(port, &global, &["-S", "64K", "-r", "10,500", "-k", keys])?;
    for key in keys.split(',') {
        let is_unknown = text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .any(|value| ["-1", "-1.00", "-1.000"].contains(&value));
        if !is_unknown {
            return Err(format!("{key}: {text}"));
        }
    }
    Ok(())
}

/// A service that resets the connection at the end of the client's stream.
fn reset_at_end(mut client: TcpStream) -> io::Result<()> {
    io::copy(&mut client, &mut io::sink())?;
    Socket::from(client).set_linger(Some(Duration::ZERO))
}

fn reset_connection() -> CaseResult {
    let port = serve(reset_at_end).map_err(|error| error.to_string())?;
    for (length, code) in [("1", 1), ("-2000", 0)] {
        let test = &["-t", "TCP_STREAM", "-l", length];
        let ours = netperf(Implementation::Ours, port, test, &[])?;
        let reports_reset = ours.stderr.contains("Connection reset by peer");
        if ours.code != Some(code) || reports_reset != (code == 1) {
            return Err(format!("{test:?}: {ours:?}"));
        }
        let stock = netperf(Implementation::Stock, port, test, &[])?;
        if stock.code != Some(0) {
            return Err(format!("{test:?}: stock {stock:?}"));
        }
    }
    Ok(())
}

fn refused_connection() -> CaseResult {
    // Bound but not listening. Otherwise a client could bind this port and connect to itself.
    let socket =
        Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|error| error.to_string())?;
    let bound = socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
    let address = bound.and_then(|()| socket.local_addr());
    let address = address.map_err(|error| error.to_string())?.as_socket();
    let port = address.ok_or("no port")?.port();
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR"] {
        let [ours, stock] = [Implementation::Ours, Implementation::Stock]
            .map(|implementation| netperf(implementation, port, &["-t", test], &[]));
        let (ours, stock) = (ours?, stock?);
        let matches_stock = (&ours.stdout, &ours.stderr) == (&stock.stdout, &stock.stderr);
        if !matches_stock || [ours.code, stock.code] != [Some(1); 2] {
            return Err(format!("{test}: {ours:?}, stock {stock:?}"));
        }
    }
    for (test, code) in [("TCP_CC", 255), ("TCP_MSS", 255), ("REM_CPU", 1)] {
        let output = |implementation| {
            let mut client = programs().command(implementation, Role::Client);
            client.args(["-N", "-t", test]);
            run(client)
        };
        let (ours, stock) = (
            output(Implementation::Ours)?,
            output(Implementation::Stock)?,
        );
        let has_one_line = ours.stderr.lines().count() + ours.stdout.lines().count() == 1;
        if ours.code != Some(code) || ours.stdout != stock.stdout || !has_one_line {
            return Err(format!("{test}: {ours:?}, stock {stock:?}"));
        }
    }
    // These tests need no peer.
    for test in ["LOC_CPU", "UUID"] {
        let mut client = programs().command(Implementation::Ours, Role::Client);
        client.args(["-N", "-t", test]);
        let ours = run(client)?;
        if ours.code != Some(0) || ours.stdout.is_empty() {
            return Err(format!("{test}: {ours:?}"));
        }
    }
    Ok(())
}
