//! The order in which threads of different addresses wait for a CPU.

use std::time::Duration;

use engine::{BudgetHolder, ResourceBudget};

/// The number of threads of an address above which they wait behind others. Usual tests have fewer.
const MAX_USUAL_THREADS: u64 = 256;

/// The time slice of the threads of such an address. The usual slice is 0.7 to 3 ms.
const LONG_SLICE: Duration = Duration::from_millis(20);

/// Lets the calling thread, and threads that it starts, wait for a CPU behind those of other
/// addresses if this one has many threads. Each thread keeps its share of the CPUs.
///
/// If thousands of threads wake at once, the others would wait for seconds for their next turn.
pub fn order_thread(holder: BudgetHolder) {
    // This process's own threads are not those of a client.
    let has_many = holder != BudgetHolder::Local
        && ResourceBudget::process().threads.used_by(holder) > MAX_USUAL_THREADS;
    sys::cpu::set_time_slice(has_many.then_some(LONG_SLICE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_many_threads_has_long_slices() {
        let default = sys::cpu::time_slice();
        // Before Linux 6.12, there are no slices.
        let long = if default.is_zero() {
            default
        } else {
            LONG_SLICE
        };
        for (holder, expected) in [
            (BudgetHolder::Machine(1), long),
            (BudgetHolder::Local, default),
        ] {
            order_thread(holder);
            assert_eq!(sys::cpu::time_slice(), default);
            let threads = (ResourceBudget::process().threads)
                .reserve(holder, MAX_USUAL_THREADS + 1)
                .unwrap();
            order_thread(holder);
            assert_eq!(sys::cpu::time_slice(), expected, "{holder:?}");
            drop(threads);
            order_thread(holder);
            assert_eq!(sys::cpu::time_slice(), default);
        }
    }
}
