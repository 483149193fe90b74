//! How long a stock slave takes a flowop to be: its data version does not say.

use std::io;
use std::time::{Duration, Instant};

use crate::Kind;
use crate::wire::{Ack1, Ack2, Header, Layout, Order, Version, Work};
use control::ControlConnection;

/// How long an answer may take beyond the time of the way.
const ANSWER: Duration = Duration::from_millis(300);

/// How long phase 1 may take on a connection of this kind.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks on a connection of its own, which is of no use afterwards: a slave that has all of a workorder
/// that does nothing answers, and one that has not waits.
///
/// The two layouts of 928 bytes cannot be told apart so; it is the release that is assumed.
pub(super) fn layout(control: &ControlConnection) -> io::Result<Layout> {
    let asked = Instant::now();
    let hello = Header::of_phase_1(Version::V0_3_1, []);
    control.write(&hello.encode(Order::NATIVE), PATIENCE)?;
    let answer = control.read(asked + PATIENCE)?;
    if let Ack1::Refused(_) = Ack1::decode(&answer) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let patience = ANSWER + 4 * asked.elapsed();

    let mut bytes = Header::of_phase_2(Version::V0_3_1, 0).encode(Order::NATIVE);
    bytes.extend(Work::probe().encode(Layout::V1_0_8, Order::NATIVE));
    // The next longer layout has the flowop's number where this one ends with zeros.
    let number = bytes.len() - LONGER;
    bytes[number..number + 4].copy_from_slice(&(Kind::Nop as u32).to_ne_bytes());
    control.write(&bytes, PATIENCE)?;
    if answers(control, patience)? {
        return Ok(Layout::V1_0_8);
    }
    control.write(&[0; LONGER], PATIENCE)?;
    if answers(control, patience)? {
        return Ok(Layout::Repeat);
    }
    Ok(Layout::BatchSize)
}

/// Bytes from one layout's length to the next one's.
const LONGER: usize = 8;

fn answers(control: &ControlConnection, patience: Duration) -> io::Result<bool> {
    if !control.is_readable(Instant::now() + patience)? {
        return Ok(false);
    }
    let answer = control.read(Instant::now() + patience)?;
    Ok(matches!(
        Ack2::decode(&answer, Order::NATIVE),
        Ack2::Ok { .. }
    ))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use engine::Stop;
    use sys::Socket;

    use super::*;

    /// A slave that takes a flowop to be so long.
    fn slave(mut control: TcpStream, flowop: usize) {
        let mut header = [0; 352];
        control.read_exact(&mut header).unwrap();
        control.write_all(&Ack1::Ok.encode()).unwrap();
        let mut work = vec![0; 352 + 24 + 168 + flowop];
        if control.read_exact(&mut work).is_ok() {
            let number = work.len() - 16;
            assert_eq!(work[number..number + 4], (Kind::Nop as u32).to_ne_bytes());
            let ok = Ack2::Ok { slave_infos: 0 };
            control.write_all(&ok.encode(Order::NATIVE)).unwrap();
        }
    }

    #[test]
    fn each_length_is_found_out() {
        for expected in [Layout::V1_0_8, Layout::Repeat, Layout::BatchSize] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (there, _) = listener.accept().unwrap();
            let there = thread::spawn(move || slave(there, expected.record_len()));
            let control = ControlConnection::new(Socket::from(here), Stop::new()).unwrap();
            assert_eq!(layout(&control).unwrap(), expected);
            drop(control);
            there.join().unwrap();
        }
    }
}
