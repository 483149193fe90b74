//! Budgets that the clients of a server share: bytes of memory, sessions, threads, descriptors.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::Address;

/// A single address gets the whole budget except 1/16 of it, so that it cannot lock others out.
const RESERVED_DIVISOR: u64 = 16;

/// Bits of the network in an IPv6 address. A host has any number of addresses in its network (RFC
/// 4291 §2.5.4), so the network counts as one address.
const NETWORK_BITS: u32 = 64;

/// A shared amount, limited in total and per address.
#[derive(Clone, Debug)]
pub struct SharedBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: u64,
    per_holder: u64,
    /// The budget that this one is a part of.
    parent: Option<SharedBudget>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    sum: u64,
    holders: HashMap<BudgetHolder, u64>,
}

/// The address that a share of a [`SharedBudget`] is charged to, for all clients behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetHolder {
    /// An IPv4 address, or the first 64 bits of an IPv6 address.
    Ip(IpAddr),
    /// A virtual machine, by its VSOCK context.
    Machine(u32),
    /// All clients whose address may be forged. They get half of what one address leaves to others,
    /// so that both together leave the other half.
    Unproven,
    /// This process, and peers without an address.
    Local,
}

/// A reserved share of a [`SharedBudget`]. Dropping it releases the share.
#[derive(Debug)]
pub struct BudgetShare {
    budget: SharedBudget,
    holder: BudgetHolder,
    amount: u64,
}

/// A limit that leaves less than the requested amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The limit of all shares.
    #[error("{requested} requested, {left} left")]
    Total {
        /// Requested amount.
        requested: u64,
        /// Remaining amount.
        left: u64,
    },
    /// The limit of one share.
    #[error("{requested} requested, {max} allowed")]
    Share {
        /// Requested amount.
        requested: u64,
        /// Allowed amount.
        max: u64,
    },
    /// The limit of one address.
    #[error("{requested} requested, {left} left for one address")]
    Holder {
        /// Requested amount.
        requested: u64,
        /// Remaining amount.
        left: u64,
    },
}

impl BudgetHolder {
    /// Returns the holder that an address belongs to.
    pub fn for_address(address: &Address) -> Self {
        match address {
            Address::Inet(inet) => Self::Ip(match inet.ip().to_canonical() {
                IpAddr::V6(ip) => network(ip).into(),
                v4 @ IpAddr::V4(_) => v4,
            }),
            Address::Vsock { context, .. } => Self::Machine(*context),
            Address::Unix(_) | Address::Llc(_) => Self::Local,
        }
    }

    /// Returns the holder for the network of an address that may be forged: the first 24 bits of an
    /// IPv4 address, or the first 64 bits of an IPv6 address.
    #[must_use]
    pub fn network(self) -> Self {
        match self {
            Self::Ip(IpAddr::V4(ip)) => Self::Ip(Ipv4Addr::from_bits(ip.to_bits() & !0xff).into()),
            other => other,
        }
    }
}

impl SharedBudget {
    /// Creates a budget of `total`, of which one address gets at most 15/16.
    pub fn new(total: u64) -> Self {
        Self::with_bounds(total, total - total / RESERVED_DIVISOR)
    }

    /// Creates a budget of `total`, of which one address gets at most `per_holder`.
    pub fn with_bounds(total: u64, per_holder: u64) -> Self {
        Self::with_parent(total, per_holder, None)
    }

    /// Creates a part of `parent`, like [`Self::new`]. Each share counts in both budgets.
    pub fn within(parent: &Self, total: u64) -> Self {
        let per_holder = total - total / RESERVED_DIVISOR;
        Self::with_parent(total, per_holder, Some(parent.clone()))
    }

    /// Creates a part of `parent`. It leaves 1/`divisor` of the whole, and of each address's maximum.
    pub fn leaving(parent: &Self, divisor: u64) -> Self {
        let [total, per_holder] =
            [parent.0.total, parent.0.per_holder].map(|amount| amount - amount / divisor);
        Self::with_parent(total, per_holder, Some(parent.clone()))
    }

    pub(crate) fn with_parent(total: u64, per_holder: u64, parent: Option<Self>) -> Self {
        Self(Arc::new(Inner {
            total,
            per_holder,
            parent,
            used: Mutex::default(),
        }))
    }

    /// Reserves a share. Fails if a limit leaves less than `amount`.
    pub fn reserve(
        &self,
        holder: BudgetHolder,
        amount: u64,
    ) -> Result<BudgetShare, BudgetExceeded> {
        let mut share = BudgetShare {
            budget: self.clone(),
            holder,
            amount: 0,
        };
        share.grow(amount)?;
        Ok(share)
    }

    /// Returns the amount that all shares together may have.
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Returns the amount in use.
    pub fn used(&self) -> u64 {
        self.lock().sum
    }

    /// Returns the amount in use by a holder.
    pub fn used_by(&self, holder: BudgetHolder) -> u64 {
        self.lock().holders.get(&holder).copied().unwrap_or(0)
    }

    /// Returns the amount that a holder may have.
    pub fn maximum(&self, holder: BudgetHolder) -> u64 {
        let Inner {
            total, per_holder, ..
        } = *self.0;
        match holder {
            // This process need not leave anything to other addresses.
            BudgetHolder::Local => total,
            BudgetHolder::Unproven => ((total - per_holder) / 2).max(1),
            _ => per_holder,
        }
    }

    fn charge(&self, holder: BudgetHolder, amount: u64) -> Result<(), BudgetExceeded> {
        let bounds = &self.0;
        let mut used = self.lock();
        let left = bounds.total.saturating_sub(used.sum);
        if amount > left {
            return Err(BudgetExceeded::Total {
                requested: amount,
                left,
            });
        }
        let held = used.holders.get(&holder).copied().unwrap_or(0);
        let left = self.maximum(holder).saturating_sub(held);
        if amount > left {
            return Err(BudgetExceeded::Holder {
                requested: amount,
                left,
            });
        }
        // Locks are taken from the part to the whole.
        if let Some(parent) = &bounds.parent {
            parent.charge(holder, amount)?;
        }
        if amount > 0 {
            used.holders.insert(holder, held + amount);
        }
        used.sum += amount;
        Ok(())
    }

    fn release(&self, holder: BudgetHolder, amount: u64) {
        let mut used = self.lock();
        used.sum -= amount;
        if let Some(held) = used.holders.get_mut(&holder) {
            *held -= amount;
            if *held == 0 {
                used.holders.remove(&holder);
            }
        }
        drop(used);
        if let Some(parent) = &self.0.parent {
            parent.release(holder, amount);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // The sums remain valid after a panic.
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetShare {
    /// Reserves more for the same holder. If a limit leaves less than `amount`, fails and reserves
    /// nothing.
    pub fn grow(&mut self, amount: u64) -> Result<(), BudgetExceeded> {
        self.budget.charge(self.holder, amount)?;
        self.amount += amount;
        Ok(())
    }

    /// Releases part of the share.
    pub fn shrink(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        self.budget.release(self.holder, amount);
    }

    /// Returns the amount of the share.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.release(self.holder, self.amount);
    }
}

fn network(address: Ipv6Addr) -> Ipv6Addr {
    let host_bits = Ipv6Addr::BITS - NETWORK_BITS;
    Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(address: &str) -> BudgetHolder {
        BudgetHolder::for_address(&Address::Inet(address.parse().unwrap()))
    }

    #[test]
    fn one_address_leaves_a_sixteenth_to_others() {
        let sessions = SharedBudget::new(1024);
        let (client, other_client) = (holder("192.0.2.1:1"), holder("192.0.2.2:1"));
        let shares: Vec<_> = (0..960)
            .map(|_| sessions.reserve(client, 1).expect("within its bound"))
            .collect();
        let refused = sessions.reserve(client, 1).unwrap_err();
        assert_eq!(
            refused,
            BudgetExceeded::Holder {
                requested: 1,
                left: 0
            }
        );
        let other_share = sessions.reserve(other_client, 64).unwrap();
        let refused = sessions.reserve(other_client, 1).unwrap_err();
        assert_eq!(
            refused,
            BudgetExceeded::Total {
                requested: 1,
                left: 0
            }
        );
        drop((shares, other_share));
        assert_eq!(sessions.used(), 0);
        assert!(sessions.reserve(client, 960).is_ok());
    }

    #[test]
    fn unproven_clients_and_one_address_leave_a_part_to_others() {
        let threads = SharedBudget::new(320);
        let _attacker = threads.reserve(holder("192.0.2.1:1"), 300).unwrap();
        let _forged = threads.reserve(BudgetHolder::Unproven, 10).unwrap();
        assert!(threads.reserve(BudgetHolder::Unproven, 1).is_err());
        assert!(threads.reserve(holder("192.0.2.2:1"), 10).is_ok());
    }

    #[test]
    fn one_address_may_use_all_of_a_small_budget() {
        let budget = SharedBudget::new(1);
        let share = budget.reserve(BudgetHolder::Local, 1).unwrap();
        assert!(budget.reserve(BudgetHolder::Local, 1).is_err());
        assert_eq!(share.amount(), 1);
    }

    #[test]
    fn a_share_grows_within_its_bounds() {
        let memory = SharedBudget::with_bounds(10, 6);
        let mut share = memory.reserve(BudgetHolder::Machine(3), 0).unwrap();
        share.grow(6).unwrap();
        assert_eq!(
            share.grow(1),
            Err(BudgetExceeded::Holder {
                requested: 1,
                left: 0
            }),
            "a refused request reserves nothing"
        );
        assert_eq!((share.amount(), memory.used()), (6, 6));
        assert!(memory.reserve(BudgetHolder::Machine(4), 5).is_err());
        share.shrink(4);
        assert_eq!((share.amount(), memory.used()), (2, 2));
        share.shrink(u64::MAX);
        assert!(share.grow(6).is_ok());
        drop(share);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn an_ipv4_address_or_an_ipv6_network_is_one_holder() {
        for (first, second, is_same_holder) in [
            ("192.0.2.1:1", "192.0.2.1:2", true),
            ("192.0.2.1:1", "[::ffff:192.0.2.1]:2", true),
            ("192.0.2.1:1", "192.0.2.2:1", false),
            ("[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true),
            ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
        ] {
            assert_eq!(
                holder(first) == holder(second),
                is_same_holder,
                "{first} {second}"
            );
        }
    }

    #[test]
    fn a_part_is_charged_to_the_whole() {
        let whole = SharedBudget::with_bounds(10, 10);
        let parts = [8, 8].map(|total| SharedBudget::within(&whole, total));
        let holder = BudgetHolder::Local;
        let mut first = parts[0].reserve(holder, 6).unwrap();
        assert!(parts[0].reserve(holder, 3).is_err());
        assert!(parts[1].reserve(holder, 5).is_err());
        assert_eq!((parts[1].used(), whole.used()), (0, 6));
        first.shrink(2);
        let second = parts[1].reserve(holder, 5).unwrap();
        assert_eq!(whole.used_by(holder), 9);
        drop((first, second));
        assert_eq!(whole.used(), 0);
    }
}
