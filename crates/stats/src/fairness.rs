//! Jain's index of fairness.

/// Returns Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything. `None`
/// if the sum is 0 (Jain, Chiu, Hawe: A Quantitative Measure Of Fairness, 1984).
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let index = sum * sum / (shares.len() as f64 * squares);
    index.is_finite().then_some(index)
}

#[cfg(test)]
mod tests {
    use super::jain_index;

    #[test]
    fn the_index_has_known_values() {
        for (shares, index) in [
            (&[5.0][..], Some(1.0)),
            (&[2.0, 2.0, 2.0, 2.0], Some(1.0)),
            (&[1.0, 0.0, 0.0, 0.0], Some(0.25)),
            // (1+2+3)²/(3·14)
            (&[1.0, 2.0, 3.0], Some(36.0 / 42.0)),
            (&[0.0, 0.0], None),
            (&[], None),
        ] {
            let got = jain_index(shares);
            assert_eq!(got.is_some(), index.is_some(), "{shares:?}");
            if let (Some(got), Some(index)) = (got, index) {
                assert!((got - index).abs() < 1e-12, "{shares:?}: {got}");
            }
        }
    }
}
