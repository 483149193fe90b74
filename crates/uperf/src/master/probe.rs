//! Detects the flowop layout of a stock slave, which its data version does not determine.

use std::io;
use std::time::{Duration, Instant};

use crate::FlowopKind;
use crate::wire::{
    DataVersion, Endian, FlowopLayout, Header, Phase1Answer, Phase2Answer, WorkRecords,
};
use control::ControlConnection;

/// How long an answer may take in addition to four round trips.
const ANSWER_TIME: Duration = Duration::from_millis(300);

/// Timeout of phase 1 on the probe connection.
const PHASE_1_TIMEOUT: Duration = Duration::from_secs(2);

/// Detects the layout on a separate connection, which is unusable afterwards. The probe is an empty
/// workorder of growing length: a slave that has received all of it answers, and one that expects
/// more waits.
///
/// Two layouts have 928 bytes: that of release 1.0.8, and the later one with `bblog=`. The probe
/// cannot distinguish them and returns that of the release.
pub(super) fn probe_layout(control: &ControlConnection) -> io::Result<FlowopLayout> {
    let start = Instant::now();
    let hello = Header::for_phase_1(DataVersion::V0_3_1, []);
    control.write(&hello.encode(Endian::NATIVE), PHASE_1_TIMEOUT)?;
    let answer = control.read(start + PHASE_1_TIMEOUT)?;
    if let Phase1Answer::Refused(_) = Phase1Answer::decode(&answer) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let timeout = ANSWER_TIME + 4 * start.elapsed();

    let mut bytes = Header::for_phase_2(DataVersion::V0_3_1, 0).encode(Endian::NATIVE);
    bytes.extend(WorkRecords::minimal().encode(FlowopLayout::V1_0_8, Endian::NATIVE));
    // These 8 bytes are zero in this layout. The next longer one has the kind there.
    let kind_offset = bytes.len() - LAYOUT_STEP_BYTES;
    bytes[kind_offset..kind_offset + 4].copy_from_slice(&(FlowopKind::Nop as u32).to_ne_bytes());
    control.write(&bytes, PHASE_1_TIMEOUT)?;
    if accepts_work(control, timeout)? {
        return Ok(FlowopLayout::V1_0_8);
    }
    control.write(&[0; LAYOUT_STEP_BYTES], PHASE_1_TIMEOUT)?;
    if accepts_work(control, timeout)? {
        return Ok(FlowopLayout::WithRepeat);
    }
    Ok(FlowopLayout::WithBatchSize)
}

/// Difference between the lengths of two successive layouts, bytes.
const LAYOUT_STEP_BYTES: usize = 8;

fn accepts_work(control: &ControlConnection, timeout: Duration) -> io::Result<bool> {
    if !control.wait_readable(Instant::now() + timeout)? {
        return Ok(false);
    }
    let answer = control.read(Instant::now() + timeout)?;
    Ok(matches!(
        Phase2Answer::decode(&answer, Endian::NATIVE),
        Phase2Answer::Ok { .. }
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

    /// Simulates a slave whose flowop records have this length.
    fn slave(mut control: TcpStream, flowop_bytes: usize) {
        let mut header = [0; 352];
        control.read_exact(&mut header).unwrap();
        control.write_all(&Phase1Answer::Ok.encode()).unwrap();
        let mut work = vec![0; 352 + 24 + 168 + flowop_bytes];
        if control.read_exact(&mut work).is_ok() {
            let kind_offset = work.len() - 16;
            assert_eq!(
                work[kind_offset..kind_offset + 4],
                (FlowopKind::Nop as u32).to_ne_bytes()
            );
            let ok = Phase2Answer::Ok { slave_infos: 0 };
            control.write_all(&ok.encode(Endian::NATIVE)).unwrap();
        }
    }

    #[test]
    fn each_layout_is_detected() {
        for expected in [
            FlowopLayout::V1_0_8,
            FlowopLayout::WithRepeat,
            FlowopLayout::WithBatchSize,
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let master_socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (slave_socket, _) = listener.accept().unwrap();
            let slave = thread::spawn(move || slave(slave_socket, expected.record_len()));
            let control = ControlConnection::new(Socket::from(master_socket), Stop::new()).unwrap();
            assert_eq!(probe_layout(&control).unwrap(), expected);
            drop(control);
            slave.join().unwrap();
        }
    }
}
