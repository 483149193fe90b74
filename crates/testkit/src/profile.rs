//! Builder of uperf profiles.

use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

/// Builder of a profile.
///
/// Callers write attributes without quotes, as in `nthreads=2`, and a flowop as its type and its
/// options, as in `write size=64 count=4`. The text has the indentation of uperf's own profiles, so
/// the first flowop is in line 5.
#[derive(Clone, Debug)]
pub struct Profile {
    text: String,
    has_group: bool,
}

impl Profile {
    /// Starts a profile with this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            text: format!("<?xml version=\"1.0\"?>\n<profile name=\"{name}\">\n"),
            has_group: false,
        }
    }

    /// Returns a profile of two strands. Each strand connects, repeats a transaction of four writes
    /// and one read 500 times, and disconnects.
    #[must_use]
    pub fn requests() -> Self {
        Self::new("requests")
            .group("nthreads=2")
            .single_flowop("connect remotehost=$h protocol=tcp tcp_nodelay")
            .transaction(
                "iterations=500",
                &["write size=64 count=4", "read size=200"],
            )
            .single_flowop("disconnect")
    }

    /// Starts the next group.
    #[must_use]
    pub fn group(mut self, attributes: &str) -> Self {
        let end = self.group_end();
        let attributes = quote_attributes(attributes);
        self.append(format_args!("{end}  <group{attributes}>\n"));
        self.has_group = true;
        self
    }

    /// Adds a transaction to the group.
    #[must_use]
    pub fn transaction(mut self, attributes: &str, flowops: &[&str]) -> Self {
        let attributes = quote_attributes(attributes);
        self.append(format_args!("    <transaction{attributes}>\n"));
        for flowop in flowops {
            match flowop.split_once(' ') {
                Some((kind, options)) => self.append(format_args!(
                    "      <flowop type=\"{kind}\" options=\"{options}\"/>\n"
                )),
                None => self.append(format_args!("      <flowop type=\"{flowop}\"/>\n")),
            }
        }
        self.append(format_args!("    </transaction>\n"));
        self
    }

    /// Adds a transaction of one flowop, which runs once.
    #[must_use]
    pub fn single_flowop(self, flowop: &str) -> Self {
        self.transaction("iterations=1", &[flowop])
    }

    /// Returns the text of the profile.
    #[must_use]
    pub fn text(mut self) -> String {
        let end = self.group_end();
        self.append(format_args!("{end}</profile>\n"));
        self.text
    }

    fn group_end(&self) -> &'static str {
        if self.has_group { "  </group>\n" } else { "" }
    }

    fn append(&mut self, text: fmt::Arguments<'_>) {
        self.text
            .write_fmt(text)
            .expect("writing to a String cannot fail");
    }
}

/// Returns the names and texts of the profiles in a directory of the checkout, sorted by name.
pub fn read_profiles(directory: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(directory);
    let entries = fs::read_dir(directory).expect("the directory is readable");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the entry is readable").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    let profiles = paths.iter().map(|path| {
        let name = path
            .file_stem()
            .expect("the file has a name")
            .to_string_lossy();
        (
            name.into_owned(),
            fs::read_to_string(path).expect("the profile is readable"),
        )
    });
    profiles.collect()
}

/// Returns the attributes with quotes, each after a blank.
fn quote_attributes(attributes: &str) -> String {
    let pairs = attributes.split_whitespace();
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    let parts = pairs.flat_map(|(name, value)| [" ", name, "=\"", value, "\""]);
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_indented() {
        let text = Profile::new("two")
            .group("nthreads=2 name=first")
            .transaction("duration=1s rate=5", &["write size=8k", "nop"])
            .group("nprocs=1")
            .single_flowop("disconnect")
            .text();
        let expected = r#"<?xml version="1.0"?>
<profile name="two">
  <group nthreads="2" name="first">
    <transaction duration="1s" rate="5">
      <flowop type="write" options="size=8k"/>
      <flowop type="nop"/>
    </transaction>
  </group>
  <group nprocs="1">
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>
"#;
        assert_eq!(text, expected);
    }
}
