//! Converts the rows of `super::table` to the chapters of `iperf3.1`.

use getopt::manual::{Chapter, chapter};

use super::table::SECTION;

/// Returns the chapters of `iperf3.1`.
pub fn chapters() -> Vec<Chapter> {
    vec![chapter(&SECTION)]
}

#[cfg(test)]
mod tests {
    use getopt::manual::find_gaps;

    use super::*;

    #[test]
    fn every_option_has_its_paragraph() {
        assert_eq!(find_gaps(&SECTION), [""; 0]);
    }
}
