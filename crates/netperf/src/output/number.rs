//! Numbers in the formats of printf(3) and awk(1).

/// Formats a number like printf's `%g` with this number of significant digits. It drops trailing
/// zeros after the point. Numbers below 0.0001, or with more digits before the point, have an
/// exponent.
pub(super) fn format_general(value: f64, significant: usize) -> String {
    let scientific = format!("{value:.0$e}", significant - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..significant as i32).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{}e{sign}{:02}",
            trim_trailing_zeros(mantissa),
            exponent.abs()
        );
    }
    let decimals = (significant as i32 - 1 - exponent) as usize;
    trim_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Formats a number with six significant digits like awk(1) (`%.6g`), but without an exponent: a
/// large number has all its digits.
pub(super) fn format_six_digits(value: f64) -> String {
    let integer_digits = value.abs().max(1.0).log10() as usize + 1;
    trim_trailing_zeros(&format!(
        "{value:.0$}",
        6_usize.saturating_sub(integer_digits)
    ))
    .to_owned()
}

fn trim_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_equals_printf() {
        for (value, digits, text) in [
            (100.0, 6, "100"),
            (0.0, 6, "0"),
            (0.5, 6, "0.5"),
            (123_456.0, 6, "123456"),
            (1_234_567.0, 6, "1.23457e+06"),
            (1e9, 6, "1e+09"),
            (0.000_012_3, 6, "1.23e-05"),
            (1234.5678, 6, "1234.57"),
            (0.0, 4, "0"),
            (9_999.0, 4, "9999"),
            (10_000.0, 4, "1e+04"),
            (1_500_000.0, 4, "1.5e+06"),
            (881_750_656.0, 4, "8.818e+08"),
            (999_960_000.0, 4, "1e+09"),
            (1.25e12, 4, "1.25e+12"),
        ] {
            assert_eq!(format_general(value, digits), text);
        }
    }

    #[test]
    fn six_digits_equal_awk() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (9.123_456_7, "9.12346"),
            (97_379.84, "97379.8"),
            (97_379.99, "97380"),
            (99_999.96, "100000"),
            (123_456.7, "123457"),
            (1_234_567.8, "1234568"),
            (20_000.0, "20000"),
        ] {
            assert_eq!(format_six_digits(value), text);
        }
    }
}
