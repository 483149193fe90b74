//! A limit of bytes that several flows share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that several senders send together, in whole blocks.
///
/// A sender takes a share, sends it, and takes the next one. Shares become smaller towards the end,
/// so that no sender keeps the others waiting for long. At the end they are single blocks.
#[derive(Debug)]
pub struct SharedLimit {
    bytes: u64,
    block: u64,
    senders: u64,
    /// All bytes that the senders have taken, including those before the limit began.
    taken: AtomicU64,
    /// The number of taken bytes at which the limit is reached; `u64::MAX` before the limit begins.
    end: AtomicU64,
}

impl SharedLimit {
    /// The maximum bytes of a share, unless a block is larger.
    const MAX_SHARE: u64 = 256 << 10;

    /// Creates a limit of `bytes`, rounded up to whole blocks, which has not begun: the senders send
    /// without a limit until [`Self::begin`].
    pub fn new(bytes: u64, block: u32, senders: usize) -> Self {
        let block = u64::from(block.max(1));
        Self {
            bytes: bytes.div_ceil(block).saturating_mul(block),
            block,
            senders: senders.max(1) as u64,
            taken: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
        }
    }

    /// Begins the limit after the `sent` bytes that the senders have already sent.
    pub fn begin(&self, sent: u64) {
        let blocks = sent.div_ceil(self.block);
        let end = blocks.saturating_mul(self.block).saturating_add(self.bytes);
        self.end.store(end, Relaxed);
    }

    /// Takes the next share of at most `max` bytes. Returns 0 if the limit is reached.
    pub(crate) fn take(&self, max: u64) -> u64 {
        let mut share = 0;
        let add_share = |taken: u64| {
            let left = self.end.load(Relaxed).saturating_sub(taken);
            let blocks =
                (left.min(self.bytes) / self.senders / 4).min(Self::MAX_SHARE) / self.block;
            share = (blocks.max(1) * self.block).min(left).min(max);
            taken.checked_add(share)
        };
        match self.taken.fetch_update(Relaxed, Relaxed, add_share) {
            Ok(_) => share,
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_whole_blocks() {
        for (bytes, block, senders, expected) in [
            (1_000_000, 131_072, 3, 8 * 131_072),
            (1, 1000, 3, 1000),
            (10_000, 100, 3, 10_000),
            (10_001, 100, 1, 10_100),
            (100 << 20, 1460, 4, 104_858_660),
        ] {
            let limit = SharedLimit::new(bytes, block, senders);
            limit.begin(0);
            let taken = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..senders {
                    scope.spawn(|| {
                        loop {
                            match limit.take(u64::MAX) {
                                0 => break,
                                share => {
                                    assert_eq!(share % u64::from(block), 0);
                                    taken.fetch_add(share, Relaxed);
                                }
                            }
                        }
                    });
                }
            });
            assert_eq!(taken.into_inner(), expected, "{bytes} {block} {senders}");
        }
    }

    #[test]
    fn shares_are_bounded_and_become_smaller() {
        let limit = SharedLimit::new(10 << 20, 1000, 2);
        limit.begin(0);
        let mut shares = Vec::new();
        loop {
            match limit.take(u64::MAX) {
                0 => break,
                share => shares.push(share),
            }
        }
        assert_eq!(shares[0], 262_000);
        assert!(shares.is_sorted_by(|earlier, later| earlier >= later));
        assert_eq!(shares.last(), Some(&1000));
        // A share has at least one block, and at most the bytes that its sender can still send.
        let limit = SharedLimit::new(10 << 20, 1 << 20, 2);
        limit.begin(0);
        assert_eq!((limit.take(u64::MAX), limit.take(5)), (1 << 20, 5));
    }

    #[test]
    fn a_limit_begins_after_sent_bytes() {
        let limit = SharedLimit::new(2000, 1000, 1);
        let before: u64 = (0..100).map(|_| limit.take(u64::MAX)).sum();
        assert_eq!(before, 100_000);
        // The last share is partly sent.
        limit.begin(99_500);
        assert_eq!([(); 3].map(|()| limit.take(u64::MAX)), [1000, 1000, 0]);
        assert_eq!(SharedLimit::new(u64::MAX, 1000, 1).take(u64::MAX), 262_000);
    }
}
