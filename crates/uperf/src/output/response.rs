//! `-X`: the time of each pass of each flowop.

/// One pass as a line of the file, with its end: when it ended, by the wall clock, and how long it took. The thread is 0
/// in a strand that is a process; the third column, the kind of the time, is 0 (spec section 6.5).
pub(crate) fn response(process: u32, thread: u64, ended_ns: u64, took_ns: u64) -> String {
    format!(
        "{process:6} {thread:6} {:2} {ended_ns:15} {took_ns:15}\n",
        0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_stock_has_it() {
        let of_thread = response(
            17_424,
            139_972_942_354_112,
            1_795_210_069_424_847_274,
            283_703,
        );
        let expected = " 17424 139972942354112  0 1795210069424847274          283703\n";
        assert_eq!(of_thread, expected);
        let of_process = response(19_920, 0, 1_795_210_453_389_152_118, 486_175);
        let expected = " 19920      0  0 1795210453389152118          486175\n";
        assert_eq!(of_process, expected);
    }
}
