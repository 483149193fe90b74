//! Detection of samples that form two groups instead of one.

/// Two groups of samples with almost nothing between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    /// Mean of the lower group.
    pub low: f64,
    /// Number of samples in this group.
    pub low_samples: usize,
    /// Mean of the upper group.
    pub high: f64,
    /// Number of samples in this group.
    pub high_samples: usize,
}

/// Minimum number of samples; fewer form two groups by chance too often.
const MIN_SAMPLES: usize = 6;

/// Minimum number of samples in a group; a single sample is an outlier.
const MIN_GROUP_SAMPLES: usize = 2;

/// Finds the two groups of the samples; `None` if one group explains them as well.
///
/// Of all splits of the sorted samples into two groups, the best has the least variance inside the
/// groups. The share of the total variance that lies between the groups is at most 0.64 for many
/// normal samples and 0.75 for many uniform samples. It is 0.9 for two equal groups whose means are
/// six of their standard deviations apart. Few samples have larger shares by chance. About 1 % of
/// normal sample sets exceed `0.81 + 1/n` from n = 6 to 10, and fewer of larger sets
/// (`tests/confidence.rs`).
pub fn find_modes(samples: &[f64]) -> Option<Modes> {
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let total_variance: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
    let splits = MIN_GROUP_SAMPLES..=sorted.len() - MIN_GROUP_SAMPLES;
    let (between_variance, best) = splits
        .map(|split| {
            let modes = Modes::split(&sorted, split);
            let weight = modes.low_samples as f64 * modes.high_samples as f64 / n;
            (weight * (modes.high - modes.low).powi(2), modes)
        })
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (between_variance > (0.81 + 1.0 / n) * total_variance).then_some(best)
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
    fn two_groups_are_found_and_outliers_ignored() {
        for (samples, expected) in [
            (&[1.0, 1.1, 9.0, 9.1, 9.05][..], None),
            (&[9.0, 1.0, 9.2, 9.1, 1.2, 9.1], Some((1.1, 2, 9.1, 4))),
            (&[1.0, 9.0, 9.2, 9.1, 9.1, 9.0, 9.2], None),
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], None),
            (&[5.0; 8], None),
            (&[], None),
            (&[f64::NAN; 8], None),
        ] {
            let found = find_modes(samples).map(|m| (m.low, m.low_samples, m.high, m.high_samples));
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
