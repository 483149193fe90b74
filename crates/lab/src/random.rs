//! Random numbers that depend only on a seed and a position.
//!
//! There is no state, so a number does not depend on which numbers were drawn before. The algorithm
//! is part of this crate, so that the meaning of a seed does not change with a library version.

/// Returns a uniformly distributed 64-bit number: output N of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn splitmix64(seed: u64, position: u64) -> u64 {
    let mut word = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Returns a uniformly distributed number, at least 0 and less than 1.
pub(crate) fn uniform(seed: u64, position: u64) -> f64 {
    (splitmix64(seed, position) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a normally distributed number with mean 0 and standard deviation 1 (Box and Muller
/// 1958).
pub(crate) fn normal(seed: u64, position: u64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(seed, position)).ln()).sqrt();
    // The inverted seed selects an independent sequence.
    radius * (std::f64::consts::TAU * uniform(!seed, position)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_has_known_outputs() {
        // The first outputs of Vigna's splitmix64.c with the seed 1234567.
        let outputs = [0, 1, 2, 3, 4].map(|position| splitmix64(1_234_567, position));
        assert_eq!(
            outputs,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn distributions_have_expected_moments() {
        let draw_count = 100_000;
        let moment = |draw: fn(u64, u64) -> f64, power: i32| {
            let draws = (0..draw_count).map(|position| draw(42, position).powi(power));
            draws.sum::<f64>() / draw_count as f64
        };
        // The bounds are five standard errors of each mean.
        assert!((moment(uniform, 1) - 0.5).abs() < 0.005);
        assert!((moment(uniform, 2) - 1.0 / 3.0).abs() < 0.005);
        assert!(moment(normal, 1).abs() < 0.016);
        assert!((moment(normal, 2) - 1.0).abs() < 0.023);
    }
}
