//! Lines of the `-X` file: response time of each pass of each flowop.

/// Formats one pass as a line, with its line end.
///
/// Columns: process, thread (0 if the strand is a process), kind of the time (always 0), wall-clock
/// time of the end, duration.
pub(crate) fn response_line(process: u32, thread: u64, ended_ns: u64, took_ns: u64) -> String {
    format!(
        "{process:6} {thread:6} {:2} {ended_ns:15} {took_ns:15}\n",
        0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_stock() {
        let of_thread = response_line(
            17_424,
            139_972_942_354_112,
            1_795_210_069_424_847_274,
            283_703,
        );
        let expected = " 17424 139972942354112  0 1795210069424847274          283703\n";
        assert_eq!(of_thread, expected);
        let of_process = response_line(19_920, 0, 1_795_210_453_389_152_118, 486_175);
        let expected = " 19920      0  0 1795210453389152118          486175\n";
        assert_eq!(of_process, expected);
    }
}
