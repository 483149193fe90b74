//! No control connection (`-N`): plain services at the other end, stock's text, and the tests that the
//! manual promises and stock cannot do.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use testkit::{Implementation, ProcessOutput, Role, compare_masked, figures};

use super::exchange::{peers, run};
use super::{Case, Outcome};

type Service = fn(TcpStream) -> io::Result<()>;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::against_stock("nocontrol::like_stock", like_stock),
        Case::against_stock("nocontrol::what_only_the_manual_promises", promised).alone(),
        Case::against_stock("nocontrol::what_is_unknown", what_is_unknown).alone(),
        Case::against_stock("nocontrol::refused", refused),
        Case::against_stock("nocontrol::reset", reset),
    ]
}

/// RFC 863.
fn discard(mut client: TcpStream) -> io::Result<()> {
    io::copy(&mut client, &mut io::sink()).map(drop)
}

/// RFC 862.
fn echo(mut client: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    loop {
        let taken = client.read(&mut buffer)?;
        if taken == 0 {
            return Ok(());
        }
        client.write_all(&buffer[..taken])?;
    }
}

/// RFC 864, in short.
fn chargen(mut client: TcpStream) -> io::Result<()> {
    loop {
        client.write_all(&[b'#'; 16_384])?;
    }
}

/// Serves until the program ends; the port.
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

/// Echoes datagrams until the program ends; the port.
fn serve_datagrams() -> io::Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    thread::spawn(move || {
        let mut buffer = [0; 16_384];
        while let Ok((taken, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..taken], from);
        }
    });
    Ok(port)
}

fn netperf(
    make: Implementation,
    port: u16,
    global: &[&str],
    test: &[&str],
) -> Result<ProcessOutput, String> {
    let mut client = peers().command(make, Role::Client);
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

fn like_stock() -> Outcome {
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
        let mine = ours(port, global, test)?;
        let stock = netperf(Implementation::Stock, port, global, test)?.stdout;
        // How many interim results there are is the clock's affair.
        let settled = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with("Interim"))
                .map(|line| line.to_owned() + "\n")
                .collect::<String>()
        };
        compare_masked(&settled(&mine), &settled(&stock))
            .map_err(|why| format!("{global:?} {test:?}: {why}"))?;
        if global.contains(&"-D") && !mine.contains("Interim result: ") {
            return Err(format!("no interim result: {mine}"));
        }
    }
    Ok(())
}

/// Sendfile and connection tests.
fn promised() -> Outcome {
    let port = serve(discard).map_err(|error| error.to_string())?;
    for test in ["TCP_SENDFILE", "TCP_CC", "TCP_MSS"] {
        let text = ours(port, &["-t", test], &[])?;
        if !text.contains(" : no control : demo\n") {
            return Err(text);
        }
        // The row, and of TCP_CC the one above what is not known of the peer.
        let row = text.lines().rev().map(figures).find(|row| row.len() != 2);
        let rate = row.and_then(|row| row.last().copied()).unwrap_or_default();
        if rate <= 0.0 {
            return Err(format!("{test}: {text}"));
        }
    }
    Ok(())
}

fn what_is_unknown() -> Outcome {
    let port = serve(echo).map_err(|error| error.to_string())?;
    let keys = "REMOTE_BYTES_XFERD,RSS_SIZE_END,RSR_SIZE_END,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,\
        REMOTE_CPU_UTIL,REMOTE_SD,REMOTE_SEND_ALIGN,REMOTE_RECV_OFFSET,REMOTE_NODELAY,\
        REMOTE_SOCKET_PRIO,REMOTE_CPU_BIND";
    // What is asked of the peer reaches nobody.
    let global = ["-t", "TCP_RR", "-C", "-A", "16", "-O", "3", "-T", ",0"];
    let text = ours(port, &global, &["-S", "64K", "-r", "10,500", "-k", keys])?;
    for key in keys.split(',') {
        let unknown = text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .any(|value| ["-1", "-1.00", "-1.000"].contains(&value));
        if !unknown {
            return Err(format!("{key}: {text}"));
        }
    }
    Ok(())
}

/// A service that resets its connection at the end of the client's stream.
fn abort(mut client: TcpStream) -> io::Result<()> {
    io::copy(&mut client, &mut io::sink())?;
    Socket::from(client).set_linger(Some(Duration::ZERO))
}

fn reset() -> Outcome {
    let port = serve(abort).map_err(|error| error.to_string())?;
    for (limit, code) in [("1", 1), ("-2000", 0)] {
        let test = &["-t", "TCP_STREAM", "-l", limit];
        let mine = netperf(Implementation::Ours, port, test, &[])?;
        let told = mine.stderr.contains("Connection reset by peer");
        if mine.code != Some(code) || told != (code == 1) {
            return Err(format!("{test:?}: {mine:?}"));
        }
        let stock = netperf(Implementation::Stock, port, test, &[])?;
        if stock.code != Some(0) {
            return Err(format!("{test:?}: stock {stock:?}"));
        }
    }
    Ok(())
}

fn refused() -> Outcome {
    // Bound, but not listening: a client could else get this port for itself, and connect to itself.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|error| error.to_string())?;
    let bound = taken.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into());
    let address = bound.and_then(|()| taken.local_addr());
    let address = address.map_err(|error| error.to_string())?.as_socket();
    let port = address.ok_or("no port")?.port();
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR"] {
        let [mine, stock] = [Implementation::Ours, Implementation::Stock]
            .map(|make| netperf(make, port, &["-t", test], &[]));
        let (mine, stock) = (mine?, stock?);
        let as_stock = (&mine.stdout, &mine.stderr) == (&stock.stdout, &stock.stderr);
        if !as_stock || [mine.code, stock.code] != [Some(1); 2] {
            return Err(format!("{test}: {mine:?}, stock {stock:?}"));
        }
    }
    for (test, code) in [("TCP_CC", 255), ("TCP_MSS", 255), ("REM_CPU", 1)] {
        let said = |make| {
            let mut client = peers().command(make, Role::Client);
            client.args(["-N", "-t", test]);
            run(client)
        };
        let (mine, stock) = (said(Implementation::Ours)?, said(Implementation::Stock)?);
        let one_line = mine.stderr.lines().count() + mine.stdout.lines().count() == 1;
        if mine.code != Some(code) || mine.stdout != stock.stdout || !one_line {
            return Err(format!("{test}: {mine:?}, stock {stock:?}"));
        }
    }
    // These need nobody.
    for test in ["LOC_CPU", "UUID"] {
        let mut client = peers().command(Implementation::Ours, Role::Client);
        client.args(["-N", "-t", test]);
        let mine = run(client)?;
        if mine.code != Some(0) || mine.stdout.is_empty() {
            return Err(format!("{test}: {mine:?}"));
        }
    }
    Ok(())
}
