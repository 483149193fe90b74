//! Returns freed memory to the system while the server runs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Builder;
use std::time::Duration;

use engine::BudgetHolder;

/// The time between two releases. A release takes the locks of the allocator.
const RELEASE_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a thread waits for the next release.
static IS_PENDING: AtomicBool = AtomicBool::new(false);

/// Returns freed memory to the system soon, at most once per second. Without it, the
/// allocator keeps the memory freed by many clients.
pub fn release_freed_memory_soon() {
    if IS_PENDING.swap(true, Relaxed) {
        return;
    }
    let release = || {
        std::thread::sleep(RELEASE_INTERVAL);
        IS_PENDING.store(false, Relaxed);
        sys::process::release_freed_memory();
    };
    let builder = Builder::new().name("freed memory".to_owned());
    if engine::spawn(builder, BudgetHolder::Local, release).is_err() {
        IS_PENDING.store(false, Relaxed);
    }
}
