//! The sizes and widths of the buffer rings: test options `-m`, `-M`, `-r` and `-W`.

use getopt::{ApplyOption, EarlyExit, refuse};
use model::{EndpointPlan, SizeRule, WidthRule};

use super::test::TestOptions;
use super::value::{count, number, set_both, set_pair};
use super::{Test, TestDirection};

/// The maximum size of one direction's buffers in bytes, more than a host can spare for a test.
const MAX_RING_BYTES: u64 = 2 << 30;

/// The assumed size of a socket buffer that does not exist yet, in bytes: TCP's initial size.
const ASSUMED_SOCKET_BUFFER_BYTES: u32 = 16 << 10;

/// Applies `-m`: the send sizes, local and remote.
pub(super) const SEND_SIZE: ApplyOption<TestOptions> = |t, v| {
    set_pair(
        [&mut t.local.send.size, &mut t.remote.send.size],
        v,
        parse_size,
    )
};

/// Applies `-M`: the receive sizes, remote and local.
pub(super) const RECEIVE_SIZE: ApplyOption<TestOptions> = |t, v| {
    let sizes = [&mut t.remote.receive.size, &mut t.local.receive.size];
    set_pair(sizes, v, parse_size)
};

/// Applies `-r`: the sizes of a request and of a response.
pub(super) const MESSAGE_SIZES: ApplyOption<TestOptions> = |t, v| {
    let size = |word: &str| Ok(Some(number(word, 1..=i64::from(i32::MAX))?));
    set_both(t.message_sizes.each_mut(), v, size)
};

/// Applies `-W`: the number of buffers in the send ring.
pub(super) const SEND_WIDTH: ApplyOption<TestOptions> = |t, v| {
    t.send_width = count(v)?;
    Ok(())
};

/// Parses the bytes per call; 0 is the default.
fn parse_size(text: &str) -> Result<SizeRule, EarlyExit> {
    number(text, 0..=i64::from(i32::MAX)).map(SizeRule::Bytes)
}

/// Sets size and width of each ring. Refuses rings above [`MAX_RING_BYTES`].
pub(super) fn set_sizes_and_widths(
    local: &mut EndpointPlan,
    remote: &mut EndpointPlan,
    test: Test,
    direction: TestDirection,
    options: &TestOptions,
) -> Result<(), EarlyExit> {
    // Test option `-W` overrides the global one. The request carries the client's width to the
    // peer.
    if options.send_width > 0 {
        local.send.width = WidthRule::Buffers(options.send_width);
        remote.send.width = local.send.width;
    }
    let [request, response] = message_sizes(test, direction, options);
    for (ring, message_size, option) in [
        (&mut local.send, request, "-m or -r"),
        (&mut local.receive, response, "-M or -r"),
        (&mut remote.send, response, "-m or -r"),
        (&mut remote.receive, request, "-M or -r"),
    ] {
        if let Some(bytes) = message_size {
            ring.size = SizeRule::Bytes(bytes);
            if ring.width == WidthRule::CoverSocketBuffer {
                ring.width = WidthRule::Buffers(1);
            }
        } else if ring.size == SizeRule::Bytes(0) {
            ring.size = SizeRule::SocketBuffer;
        }

        let size = match ring.size {
            SizeRule::Bytes(bytes) => bytes,
            SizeRule::SocketBuffer => ASSUMED_SOCKET_BUFFER_BYTES,
        };
        let width = match ring.width {
            WidthRule::Buffers(buffers) => buffers,
            WidthRule::CoverSocketBuffer => 2,
        };
        let (alignment, offset) = (ring.alignment, ring.offset);
        let buffer_bytes = u64::from(size) + u64::from(alignment) + u64::from(offset);
        if buffer_bytes * u64::from(width) > MAX_RING_BYTES {
            return refuse(format!(
                "test option {option} ({size} bytes), with {width} buffers (-W) of alignment {alignment} \
                 and offset {offset}, needs more than 2 GiB"
            ));
        }
    }
    Ok(())
}

/// Returns the bytes of a request and of a response, for tests that use them.
///
/// As in the stock tool, `-r` overrides `-m` and `-M` in stream tests, too, and a TCP_CC request
/// carries the sizes although the test moves no data.
fn message_sizes(test: Test, direction: TestDirection, options: &TestOptions) -> [Option<u32>; 2] {
    if (direction.transmit && direction.receive) || test == Test::TcpCc {
        return options.message_sizes.map(|size| size.or(Some(1)));
    }
    match test {
        Test::TcpSendfile | Test::TcpMss => [None, None],
        _ => options.message_sizes,
    }
}
