//! Generation of a test's UUID if `-u` is not given.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Returns a UUID of version 1 (RFC 9562 §5.1) with a random clock sequence and a random node.
///
/// The node has the multicast bit set, which marks it as random and not a hardware address.
pub(super) fn generate() -> String {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let ticks = (since_1970.as_nanos() / 100) as u64;
    let mut random = SmallRng::from_os_rng();
    format_uuid(ticks + TICKS_1582_TO_1970, random.random(), random.random())
}

/// Formats a UUID. `ticks` counts 100 ns since 1582-10-15, the start of the Gregorian calendar.
fn format_uuid(ticks: u64, sequence: u16, node: u64) -> String {
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        ticks & 0xffff_ffff,
        (ticks >> 32) & 0xffff,
        (ticks >> 48) & 0x0fff | 0x1000,
        sequence & 0x3fff | 0x8000,
        node & 0xffff_ffff_ffff | 0x0100_0000_0000,
    )
}

const TICKS_1582_TO_1970: u64 = 0x01b2_1dd2_1381_4000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9562, appendix A.1. Its node has the multicast bit set.
    #[test]
    fn the_example_of_the_rfc_is_reproduced() {
        assert_eq!(
            format_uuid(0x1ec_9414_c232_ab00, 0x33c8, 0x9f6b_dece_d846),
            "c232ab00-9414-11ec-b3c8-9f6bdeced846"
        );
    }
}
