//! The byte order of a master, in which its slaves read and answer.

pub use codec::Order;
pub(super) use codec::{Field, Record, part, record};

/// The order in which these bytes are the probe word.
pub(super) fn order_of_probe(word: [u8; 4]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| u32::read(&word, 0, *order) == PROBE)
}

/// What a master writes so that a slave sees in which order it writes.
pub(super) const PROBE: u32 = 0xBADC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_shows_the_order() {
        for (word, order) in [
            ([0xDC, 0xBA, 0, 0], Some(Order::Little)),
            ([0, 0, 0xBA, 0xDC], Some(Order::Big)),
            ([0xBA, 0xDC, 0, 0], None),
            ([0; 4], None),
        ] {
            assert_eq!(order_of_probe(word), order, "{word:?}");
        }
    }
}
