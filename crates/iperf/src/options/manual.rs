//! The options chapter of the manual page `iperf.1`, generated from `super::table`.

use getopt::manual::{Chapter, chapter};

use super::table::SECTION;

/// Returns the chapters of `iperf.1`.
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
