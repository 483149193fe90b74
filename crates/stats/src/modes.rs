//! Whether samples fall into two groups rather than around one value.

/// Two groups of samples with next to nothing between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    /// The mean of the lower group …
    pub low: f64,
    /// … and how many samples it has.
    pub low_samples: usize,
    /// The mean of the upper group …
    pub high: f64,
    /// … and how many samples it has.
    pub high_samples: usize,
}

/// Fewer samples than this fall into two groups by chance too often to say anything.
const FEWEST: usize = 6;

/// A group has at least so many: a single one is an outlier.
const FEWEST_OF_A_GROUP: usize = 2;

/// The two groups that the samples fall into; `None` when one explains them as well.
///
/// Of all ways to part the sorted samples in two, the best leaves the least variance inside the groups.
/// The share that lies between the groups is then at most 0.64 for many normal samples, 0.75 for
/// uniform ones, and 0.9 for two equal groups whose means are six of their standard deviations apart.
/// Few samples give larger shares by chance: `0.81 + 1/n` is passed by about 1 % of normal sample sets
/// from n = 6 to 10 and by fewer of larger ones (`tests/confidence.rs`).
pub fn modes(samples: &[f64]) -> Option<Modes> {
    if samples.len() < FEWEST {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let total: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
    let splits = FEWEST_OF_A_GROUP..=sorted.len() - FEWEST_OF_A_GROUP;
    let (between, best) = splits
        .map(|split| {
            let modes = Modes::split(&sorted, split);
            let weight = modes.low_samples as f64 * modes.high_samples as f64 / n;
            (weight * (modes.high - modes.low).powi(2), modes)
        })
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (between > (0.81 + 1.0 / n) * total).then_some(best)
}

impl Modes {
    fn split(sorted: &[f64], at: usize) -> Self {
        let (low, high) = sorted.split_at(at);
        let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
        Self {
            low: mean(low),
            low_samples: low.len(),
            high: mean(high),
            high_samples: high.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_two_groups_an_outlier() {
        for (samples, expected) in [
            (&[1.0, 1.1, 9.0, 9.1, 9.05][..], None),
            (&[9.0, 1.0, 9.2, 9.1, 1.2, 9.1], Some((1.1, 2, 9.1, 4))),
            (&[1.0, 9.0, 9.2, 9.1, 9.1, 9.0, 9.2], None),
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], None),
            (&[5.0; 8], None),
            (&[], None),
            (&[f64::NAN; 8], None),
        ] {
            let found = modes(samples).map(|m| (m.low, m.low_samples, m.high, m.high_samples));
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    assert!(
                        (found.0 - expected.0).abs() < 1e-9,
                        "{samples:?}: {found:?}"
                    );
                    assert!(
                        (found.2 - expected.2).abs() < 1e-9,
                        "{samples:?}: {found:?}"
                    );
                    assert_eq!((found.1, found.3), (expected.1, expected.3));
                }
                other => panic!("{samples:?}: {other:?}"),
            }
        }
    }
}
