//! The rings of buffers of both ends: the test options `-m`, `-M`, `-r` and `-W`, and the sizes that result.

use getopt::{Apply, Quit, refuse};
use model::{Half, SizeRule, WidthRule};

use super::test::TestOptions;
use super::value::{count, number, set, set_first};
use super::{Direction, Test};

/// What no host will want to give the buffers of one direction, in bytes.
const TOO_MUCH: u64 = 2 << 30;

/// What the socket's buffer is counted as, which nobody knows yet: TCP's initial one.
const ASSUMED_SOCKET_BUFFER: u32 = 16 << 10;

/// `-m`.
pub(super) const SEND_SIZE: Apply<TestOptions> =
    |t, v| set_first([&mut t.here.send.size, &mut t.there.send.size], v, size);

/// `-M`.
pub(super) const RECEIVE_SIZE: Apply<TestOptions> = |t, v| {
    let sizes = [&mut t.there.receive.size, &mut t.here.receive.size];
    set_first(sizes, v, size)
};

/// `-r`.
pub(super) const SIZES: Apply<TestOptions> = |t, v| {
    let size = |half: &str| Ok(Some(number(half, 1..=i64::from(i32::MAX))?));
    set(t.sizes.each_mut(), v, size)
};

/// `-W`.
pub(super) const WIDTH: Apply<TestOptions> = |t, v| {
    t.width = count(v)?;
    Ok(())
};

/// Bytes of a call.
fn size(text: &str) -> Result<SizeRule, Quit> {
    number(text, 0..=i64::from(i32::MAX)).map(SizeRule::Bytes)
}

/// Settles size and width of each ring, and refuses what needs too much memory.
pub(super) fn settle(
    here: &mut Half,
    there: &mut Half,
    test: Test,
    direction: Direction,
    options: &TestOptions,
) -> Result<(), Quit> {
    // Test option `-W` outranks the global one. The client tells its own widths to the peer.
    if options.width > 0 {
        here.send.width = WidthRule::Buffers(options.width);
        there.send.width = here.send.width;
    }
    let [request, response] = messages(test, direction, options);
    for (ring, message, option) in [
        (&mut here.send, request, "-m or -r"),
        (&mut here.receive, response, "-M or -r"),
        (&mut there.send, response, "-m or -r"),
        (&mut there.receive, request, "-M or -r"),
    ] {
        if let Some(bytes) = message {
            ring.size = SizeRule::Bytes(bytes);
            if ring.width == WidthRule::CoverSocketBuffer {
                ring.width = WidthRule::Buffers(1);
            }
        } else if ring.size == SizeRule::Bytes(0) {
            ring.size = SizeRule::SocketBuffer;
        }

        let size = match ring.size {
            SizeRule::Bytes(bytes) => bytes,
            SizeRule::SocketBuffer => ASSUMED_SOCKET_BUFFER,
        };
        let width = match ring.width {
            WidthRule::Buffers(buffers) => buffers,
            WidthRule::CoverSocketBuffer => 2,
        };
        let (alignment, offset) = (ring.alignment, ring.offset);
        let buffer = u64::from(size) + u64::from(alignment) + u64::from(offset);
        if buffer * u64::from(width) > TOO_MUCH {
            return refuse(format!(
                "test option {option} ({size} bytes), with {width} buffers (-W) of alignment {alignment} \
                 and offset {offset}, needs more than 2 GiB"
            ));
        }
    }
    Ok(())
}

/// Returns the bytes of a request and of a response, where sizes are those. As in the stock tool, `-r`
/// outranks `-m` and `-M` on a stream, too, and TCP_CC carries the sizes though it moves no data.
fn messages(test: Test, direction: Direction, options: &TestOptions) -> [Option<u32>; 2] {
    if (direction.transmit && direction.receive) || test == Test::TcpCc {
        return options.sizes.map(|size| size.or(Some(1)));
    }
    match test {
        Test::TcpSendfile | Test::TcpMss => [None, None],
        _ => options.sizes,
    }
}
