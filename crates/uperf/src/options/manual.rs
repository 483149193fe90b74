//! Chapters of the manual page `uperf.1`, made from the rows of `super::table`.

use getopt::manual::{Chapter, chapter};

use super::table::SECTION;

/// Returns the chapters of `uperf.1`.
pub fn chapters() -> Vec<Chapter> {
    vec![chapter(&SECTION)]
}

#[cfg(test)]
mod tests {
    use getopt::manual::find_gaps;

    use super::*;
    use crate::options::table::GivenOptions;

    #[test]
    fn every_option_has_its_paragraph() {
        assert_eq!(find_gaps(&SECTION), [""; 0]);
    }

    /// Checks that giving a documented default changes nothing.
    #[test]
    fn defaults_are_those_in_force() {
        let mut checked = 0;
        for flag in SECTION.options {
            let Some(default) = flag.stated_default() else {
                continue;
            };
            let (mut given, untouched) = (GivenOptions::default(), GivenOptions::default());
            (flag.apply)(&mut given, &default).unwrap();
            let name = flag.name;
            assert_eq!(given.limits, untouched.limits, "{name} {default}");
            assert_eq!(given.master, untouched.master, "{name} {default}");
            let (port, control) = (untouched.port, untouched.control);
            assert_eq!((given.port, given.control), (port, control), "{name}");
            checked += 1;
        }
        assert_eq!(checked, 10);
    }
}
