//! The chapters of `iperf3.1`, which the rows of [`super::table`] are made into.

use getopt::manual::{Chapter, chapter};

use super::table::SECTION;

/// The chapters of `iperf3.1`.
pub fn chapters() -> Vec<Chapter> {
    vec![chapter(&SECTION)]
}

#[cfg(test)]
mod tests {
    use getopt::manual::gaps;

    use super::*;

    #[test]
    fn every_option_has_its_paragraph() {
        assert_eq!(gaps(&SECTION), [""; 0]);
    }
}
