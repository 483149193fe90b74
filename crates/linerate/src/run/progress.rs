//! What a person at a terminal sees while a test runs; elsewhere nothing.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use engine::Cell;
use indicatif::{ProgressBar, ProgressStyle};
use units::{BitRate, Bytes};

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(200);

const TEMPLATE: &str = "{prefix:<20} {bar:40} {msg}";

/// One measured time, a test's or its warm-up's.
pub(super) struct Phase {
    bar: ProgressBar,
    transactional: bool,
}

impl Phase {
    /// A bar on stderr, which draws nothing when that is no terminal.
    pub(super) fn new(title: String, length: Duration, transactional: bool) -> Self {
        let bar = ProgressBar::new(length.as_millis() as u64).with_prefix(title);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, transactional }
    }

    /// Shows what the cells count, until the last of the flows hangs up.
    pub(super) fn follow(&self, cells: &[Arc<Cell>], ended: &Receiver<()>) {
        if self.bar.is_hidden() {
            let _ = ended.recv();
            return;
        }
        let started = Instant::now();
        let mut before = (started, 0);
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let now = (
                Instant::now(),
                cells.iter().map(|cell| self.amount(cell)).sum(),
            );
            self.bar
                .set_message(self.rate(now.1 - before.1, now.0 - before.0));
            self.bar.set_position(started.elapsed().as_millis() as u64);
            before = now;
        }
        self.bar.finish_and_clear();
    }

    fn amount(&self, cell: &Cell) -> u64 {
        let counts = cell.counts();
        if self.transactional {
            counts.transactions
        } else {
            (counts.sent + counts.received).0
        }
    }

    fn rate(&self, amount: u64, elapsed: Duration) -> String {
        if self.transactional {
            return format!("{:.0} tran/s", amount as f64 / elapsed.as_secs_f64());
        }
        Bytes(amount)
            .over(elapsed)
            .unwrap_or(BitRate(0.0))
            .to_string()
    }
}
