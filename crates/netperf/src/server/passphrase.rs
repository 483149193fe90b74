//! The server's passphrase.

use std::hint::black_box;

use engine::{BudgetHolder, Stop};
use server::{Attempt, LoginAttempts};

/// The passphrase.
#[derive(Debug)]
pub(super) struct Passphrase {
    text: String,
    attempts: LoginAttempts,
}

impl Passphrase {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            attempts: LoginAttempts::default(),
        }
    }

    /// Checks an attempt, after a delay if earlier attempts from this address failed.
    /// `attempted` is `None` if the client sent another message.
    pub(super) fn check(
        &self,
        from: BudgetHolder,
        attempted: Option<&[u8]>,
        stop: &Stop,
    ) -> Attempt {
        self.attempts.check(from, stop, || {
            attempted.is_some_and(|offered| equals_in_constant_time(offered, self.text.as_bytes()))
        })
    }
}

/// Compares in a time that depends only on the longer text's length.
fn equals_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let byte = |text: &[u8], index: usize| text.get(index).copied().unwrap_or(0);
    let differences = (0..left.len().max(right.len())).fold(0, |differences, index| {
        black_box(differences | (byte(left, index) ^ byte(right, index)))
    });
    differences == 0 && left.len() == right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_requires_the_same_bytes_and_length() {
        for (left, right, same) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a\0", false),
            ("", "a", false),
            ("secret", "secre", false),
        ] {
            assert_eq!(
                equals_in_constant_time(left.as_bytes(), right.as_bytes()),
                same,
                "{left:?} {right:?}"
            );
        }
    }
}
