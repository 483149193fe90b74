//! What a server's clients share: bytes of memory, sessions, threads, descriptors.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::Address;

/// One address gets at most all but this part of a budget, so that it cannot lock others out.
const KEPT_FOR_OTHERS: u64 = 16;

/// Bits of an IPv6 address that name a network. A host there has as many addresses as it likes
/// (RFC 4291 §2.5.4), so that the network counts as one address.
const NETWORK_BITS: u32 = 64;

/// An amount that many may use at a time, with a bound for each address.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: u64,
    per_holder: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    sum: u64,
    holders: HashMap<Holder, u64>,
}

/// The address on whose account a part of a [`Budget`] is, however many clients are behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An IPv4 address, or the first 64 bits of an IPv6 address.
    Ip(IpAddr),
    /// A virtual machine, by its VSOCK context.
    Machine(u32),
    /// This process, and what has no address.
    Local,
}

/// A part of a [`Budget`]. It is given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    holder: Holder,
    amount: u64,
}

/// A bound that leaves less than what was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The bound of all together.
    #[error("{asked} requested, {left} left")]
    Total {
        /// What was requested.
        asked: u64,
        /// What is left.
        left: u64,
    },
    /// The bound of one part.
    #[error("{asked} requested, {most} allowed")]
    Part {
        /// What was requested.
        asked: u64,
        /// What is allowed.
        most: u64,
    },
    /// The bound of one address.
    #[error("{asked} requested, {left} left for one address")]
    Holder {
        /// What was requested.
        asked: u64,
        /// What is left.
        left: u64,
    },
}

impl Holder {
    /// The holder that an address belongs to.
    pub fn of(address: &Address) -> Self {
        match address {
            Address::Inet(inet) => Self::Ip(match inet.ip().to_canonical() {
                IpAddr::V6(ip) => network(ip).into(),
                v4 @ IpAddr::V4(_) => v4,
            }),
            Address::Vsock { context, .. } => Self::Machine(*context),
            Address::Unix(_) | Address::Llc(_) => Self::Local,
        }
    }
}

impl Budget {
    /// A budget of `total`, of which one address gets at most 15/16.
    pub fn new(total: u64) -> Self {
        Self::with_bounds(total, total - total / KEPT_FOR_OTHERS)
    }

    /// A budget of `total`, of which one address gets at most `per_holder`.
    pub fn with_bounds(total: u64, per_holder: u64) -> Self {
        Self(Arc::new(Inner {
            total,
            per_holder,
            used: Mutex::default(),
        }))
    }

    /// Takes a part; fails if a bound leaves less.
    pub fn take(&self, holder: Holder, amount: u64) -> Result<Share, Exceeded> {
        let mut share = Share {
            budget: self.clone(),
            holder,
            amount: 0,
        };
        share.grow(amount)?;
        Ok(share)
    }

    /// What is in use.
    pub fn used(&self) -> u64 {
        self.lock().sum
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // Sums are whole after any panic.
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes more for the same holder; fails if a bound leaves less, and then takes nothing.
    pub fn grow(&mut self, amount: u64) -> Result<(), Exceeded> {
        let bounds = &self.budget.0;
        let mut used = self.budget.lock();
        let left = bounds.total.saturating_sub(used.sum);
        if amount > left {
            return Err(Exceeded::Total {
                asked: amount,
                left,
            });
        }
        let own = used.holders.get(&self.holder).copied().unwrap_or(0);
        let left = bounds.per_holder.saturating_sub(own);
        if amount > left {
            return Err(Exceeded::Holder {
                asked: amount,
                left,
            });
        }
        if amount > 0 {
            used.holders.insert(self.holder, own + amount);
        }
        used.sum += amount;
        drop(used);
        self.amount += amount;
        Ok(())
    }

    /// Gives some of it back.
    pub fn shrink(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        self.give_back(amount);
    }

    fn give_back(&self, amount: u64) {
        let mut used = self.budget.lock();
        used.sum -= amount;
        if let Some(own) = used.holders.get_mut(&self.holder) {
            *own -= amount;
            if *own == 0 {
                used.holders.remove(&self.holder);
            }
        }
    }

    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

fn network(address: Ipv6Addr) -> Ipv6Addr {
    let host_bits = Ipv6Addr::BITS - NETWORK_BITS;
    Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(address: &str) -> Holder {
        Holder::of(&Address::Inet(address.parse().unwrap()))
    }

    #[test]
    fn one_address_leaves_a_sixteenth_to_others() {
        let sessions = Budget::new(1024);
        let (one, other) = (holder("192.0.2.1:1"), holder("192.0.2.2:1"));
        let all: Vec<_> = (0..960)
            .map(|_| sessions.take(one, 1).expect("within its bound"))
            .collect();
        let refused = sessions.take(one, 1).unwrap_err();
        assert_eq!(refused, Exceeded::Holder { asked: 1, left: 0 });
        let rest = sessions.take(other, 64).unwrap();
        let refused = sessions.take(other, 1).unwrap_err();
        assert_eq!(refused, Exceeded::Total { asked: 1, left: 0 });
        drop((all, rest));
        assert_eq!(sessions.used(), 0);
        assert!(sessions.take(one, 960).is_ok());
    }

    #[test]
    fn a_small_budget_may_be_of_one_address() {
        let one = Budget::new(1);
        let share = one.take(Holder::Local, 1).unwrap();
        assert!(one.take(Holder::Local, 1).is_err());
        assert_eq!(share.amount(), 1);
    }

    #[test]
    fn a_share_grows_within_its_bounds() {
        let memory = Budget::with_bounds(10, 6);
        let mut share = memory.take(Holder::Machine(3), 0).unwrap();
        share.grow(6).unwrap();
        assert_eq!(
            share.grow(1),
            Err(Exceeded::Holder { asked: 1, left: 0 }),
            "nothing is taken by a refusal"
        );
        assert_eq!((share.amount(), memory.used()), (6, 6));
        assert!(memory.take(Holder::Machine(4), 5).is_err());
        share.shrink(4);
        assert_eq!((share.amount(), memory.used()), (2, 2));
        share.shrink(u64::MAX);
        assert!(share.grow(6).is_ok());
        drop(share);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_holder() {
        for (one, other, same) in [
            ("192.0.2.1:1", "192.0.2.1:2", true),
            ("192.0.2.1:1", "[::ffff:192.0.2.1]:2", true),
            ("192.0.2.1:1", "192.0.2.2:1", false),
            ("[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true),
            ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
        ] {
            assert_eq!(holder(one) == holder(other), same, "{one} {other}");
        }
    }
}
