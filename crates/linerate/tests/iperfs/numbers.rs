//! Numbers in options: a client of linerate requests the same test as a stock client, also if text
//! follows a number.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use iperf3::wire::{ControlState, Cookie};
use serde_json::Value;
use testkit::{Receive, StockPeer, TestCase, TestProcess, test_case_unless, wait_until};

use super::iperf3_script::Control;
use super::{missing_iperf2_reason, our_iperf2, our_iperf3, stock_iperf2};
use crate::iperf3::STOCK_VERSIONS;

/// Timeout for the request of a client.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let iperf2 = test_case_unless(
        missing_iperf2_reason(),
        "iperf::numbers_mean_what_they_mean_to_stock",
        || {
            IPERF2
                .iter()
                .try_for_each(|line| compare(line, &our_iperf2, &stock_iperf2, iperf2_request))
        },
    );
    let iperf3 = STOCK_VERSIONS.map(|stock| {
        let version = stock.version.replace('.', "_");
        let name = format!("iperf3::numbers_mean_what_they_mean_to_stock::{version}");
        let compare = |stock: StockPeer| {
            let ours =
                |line: &str| our_iperf3(&format!("--stock-version {} {line}", stock.version));
            let stock = |line: &str| stock.with_args(line);
            IPERF3
                .iter()
                .try_for_each(|line| compare(line, &ours, &stock, iperf3_request))
        };
        stock.test_case(name, compare)
    });
    let test_cases = std::iter::once(iperf2).chain(iperf3);
    test_cases.map(TestCase::allow_many_at_once).collect()
}

/// Options of iperf 2 with numbers that stock reads.
const IPERF2: &[&str] = &[
    "-t 1.5",
    "-t +2",
    "-t 0x10",
    "-t 1e1",
    "-P 2x",
    "-l 8KB",
    "-l 8kB",
    "-l 8KiB",
    "-l 1.5K",
    "-l 100x",
    "-l 0x100",
    "-l 1e3",
    "-n 1MB",
    "-n 1mb",
    "-n 1.5MB",
    "-n 1e6",
    "-l 1000 -b 1mbit",
    "-l 1000 -b 1mbit/s",
    "-l 1000 -b 1Mbit",
    "-u -b 100pps",
    "-u -b 1kpps",
    "-u -b 100PPS",
    "-u -b 200000x",
    "-u -b 1e6",
    "--fq-rate 1mbps",
    "--fq-rate 1Mbps",
    "--fq-rate 1K",
    "--fq-rate 8000B",
];

/// Options of iperf3 with numbers that stock reads.
const IPERF3: &[&str] = &[
    "-t 1s",
    "-t +3",
    "-O 0s",
    "-O 1s",
    "-i 0.5s",
    "-i 1e-1",
    "-P 2x",
    "-l 8KB",
    "-l 8kiB",
    "-l .5K",
    "-l 8x",
    "-l 0x2000",
    "-l 1e3",
    "-n 1MB",
    "-n 1.7",
    "-n 0x100000",
    "-k 20x",
    "-k 1KB",
    "-w 64KB",
    "-b 1Mbps",
    "-b 1mbit",
    "-b 1.5Mbps",
    "-b 1Mbps/10x",
    "-u -b 0x10K",
    "-M 1000B",
    "-M +500",
    "--cport 0029100x",
    "--pacing-timer 100us",
    "--pacing-timer 1KB",
    "--fq-rate 1Mbps",
    "-S 32x",
    "-S 0x20x",
    "-S 040",
    "--dscp +46",
    "-A 0x",
    "-A 0,0x",
    "--connect-timeout 5000ms",
    "--snd-timeout 500ms",
    "-R --rcv-timeout 500ms",
];

/// A program whose arguments are the words of a line.
type Program<'a> = &'a dyn Fn(&str) -> Command;

/// Compares the requests of two programs, as `request` reads them. Both may refuse the options.
fn compare<T: std::fmt::Debug + PartialEq>(
    line: &str,
    ours: Program<'_>,
    stock: Program<'_>,
    request: fn(Program<'_>, &str) -> io::Result<T>,
) -> Result<(), String> {
    let [ours, stock] = [ours, stock].map(|program| request(program, line));
    let is_same = match (&ours, &stock) {
        (Ok(ours), Ok(stock)) => ours == stock,
        (ours, stock) => ours.is_err() && stock.is_err(),
    };
    is_same
        .then_some(())
        .ok_or_else(|| format!("{line}:\nours {ours:?}\nstock {stock:?}"))
}

/// Returns the parameters that a client of iperf3 sends.
fn iperf3_request(program: Program<'_>, options: &str) -> io::Result<Value> {
    let (listener, port) = listen()?;
    let mut client = start_client(program, port, options);
    let mut control = Control::new(accept(&listener, &mut client)?);
    control.0.read_exact(&mut [0; Cookie::LEN])?;
    control.send_state(ControlState::ParamExchange);
    let mut parameters: Value = serde_json::from_str(&control.read_json())?;
    let keys = parameters
        .as_object_mut()
        .expect("parameters are an object");
    // Only linerate's clients offer it.
    keys.remove("udp_cookie");
    // Only later versions send these keys, to which every server has the same defaults.
    keys.retain(|key, _| !key.starts_with("gso") && !key.starts_with("gro"));
    Ok(parameters)
}

/// Returns the numbers in the header of a client of iperf 2: flags, flows, length, amount, rate, and
/// the rate of `--fq-rate` if the header has one.
fn iperf2_request(program: Program<'_>, options: &str) -> io::Result<Vec<u32>> {
    /// The longest header with these numbers.
    const HEADER_BYTES: usize = 80;
    let mut header = [0; HEADER_BYTES];
    if options.contains("-u") {
        /// The bytes before the header.
        const DATAGRAM_HEADER_BYTES: usize = 16;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let _client = start_client(program, socket.local_addr()?.port(), options);
        let mut datagram = [0; DATAGRAM_HEADER_BYTES + HEADER_BYTES];
        socket.receive(&mut datagram)?;
        header.copy_from_slice(&datagram[DATAGRAM_HEADER_BYTES..]);
    } else {
        let (listener, port) = listen()?;
        let mut client = start_client(program, port, options);
        let mut connection = accept(&listener, &mut client)?;
        connection.read_exact(&mut header)?;
    }
    let word = |index: usize| {
        let bytes = header[index * 4..]
            .first_chunk()
            .expect("within the header");
        u32::from_be_bytes(*bytes)
    };
    let header_bytes = (word(0) >> 1) & 0xff;
    let pacing: &[usize] = if header_bytes >= 80 { &[18, 19] } else { &[] };
    let words = [0, 1, 3, 5, 12, 13]
        .into_iter()
        .chain(pacing.iter().copied());
    Ok(words.map(word).collect())
}

fn start_client(program: Program<'_>, port: u16, options: &str) -> TestProcess {
    TestProcess::start(&mut program(&format!("-c 127.0.0.1 -p {port} {options}")))
}

fn listen() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Accepts the first connection of a client. Fails if the client ends without one.
fn accept(listener: &TcpListener, client: &mut TestProcess) -> io::Result<TcpStream> {
    let mut accepted: Option<(TcpStream, SocketAddr)> = None;
    wait_until(TIMEOUT, || {
        let is_running = client.is_running();
        accepted = listener.accept().ok();
        accepted.is_some() || !is_running
    });
    let (stream, _) = accepted.ok_or_else(|| io::Error::other(client.stderr()))?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}
