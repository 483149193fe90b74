//! The first datagram of a flow, in which a client describes its test.

use engine::DataSocket;
use model::Transport;
use sys::Address;

use super::client::MIN_HELLO_DATAGRAM_BYTES;
use crate::connection;
use crate::event::{ConnectionInfo, FlowId};
use crate::version::Layout;
use crate::wire::flags::{self, upper};
use crate::wire::{DatagramHeader, Hello, HelloTransport, read_word, version_name};

/// Whether a flow can begin with this datagram. A late datagram of an earlier flow cannot.
pub(super) fn can_begin_flow(datagram: &[u8]) -> bool {
    let header = DatagramHeader::read(datagram, false);
    // The first datagram of clients of all versions carries its send time.
    header.is_some_and(|header| header.number >= 0 && header.sent.micros < 1_000_000)
}

/// Parses the first datagram of a flow. Returns its header, and whether its numbers have 64 bits.
pub(super) fn parse_first_datagram(datagram: &[u8]) -> (Hello, bool) {
    // The flags follow the number. Older clients do not send the high word of the number.
    let flags_word = read_word(datagram, DatagramHeader::WIDE_LEN);
    let is_small =
        flags_word == flags::SMALL_TRIP_TIMES && datagram.len() < MIN_HELLO_DATAGRAM_BYTES;
    // Servers and clients with -C send no flags: digits fill the datagram after the number.
    let has_digits = flags_word == u32::from_be_bytes(*b"6789");
    let has_wide_numbers = (flags_word & flags::WIDE_NUMBERS != 0 || is_small || has_digits)
        && read_word(datagram, DatagramHeader::NARROW_LEN) == 0;
    if has_digits && has_wide_numbers {
        return (Hello::default(), has_wide_numbers);
    }
    if is_small && has_wide_numbers {
        let flags = flags::SMALL_TRIP_TIMES;
        return (
            Hello {
                flags,
                ..Hello::default()
            },
            has_wide_numbers,
        );
    }
    let header_len = if has_wide_numbers {
        DatagramHeader::WIDE_LEN
    } else {
        DatagramHeader::NARROW_LEN
    };
    let hello = datagram
        .get(header_len..)
        .map(|bytes| Hello::decode(bytes, HelloTransport::Datagram));
    (
        hello.and_then(Result::ok).unwrap_or_default(),
        has_wide_numbers,
    )
}

/// Returns the description of a flow's connection, from the header in its first datagram.
pub(super) fn connection(
    data: &DataSocket,
    id: FlowId,
    from: &Address,
    hello: &Hello,
    layout: &Layout,
) -> ConnectionInfo {
    let (is_reverse, is_full_duplex) = (
        hello.has_any_flag(upper::REVERSE),
        hello.has_any_flag(upper::FULL_DUPLEX),
    );
    let mut connection = connection::from_socket(id, data, from.clone(), Transport::Udp);
    connection.is_reverse = is_reverse;
    connection.is_full_duplex = is_full_duplex;
    connection.has_trip_times =
        hello.has_any_flag(upper::TRIP_TIMES) || hello.flags & flags::SMALL_TRIP_TIMES != 0;
    connection.no_udp_fin = is_reverse || hello.has_any_flag(upper::NO_FIN);
    connection.type_of_service = hello.extension.map(|extension| extension.type_of_service);
    connection.upper_flags = hello.extension.map_or(0, |extension| extension.upper);
    connection.peer_version = hello
        .extension
        .and_then(|extension| version_name(extension.version));
    if is_reverse || (is_full_duplex && !layout.dates_full_duplex) {
        connection.started = None;
    }
    connection
}
