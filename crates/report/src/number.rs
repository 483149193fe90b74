//! Number formats for people.

/// Formats a value with three significant digits, but at most three decimals. From 100 on, it is an
/// integer with thousands separators.
pub(crate) fn format_significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => return format_thousands(value),
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Formats a value as an integer, with a comma between groups of three digits.
pub(crate) fn format_thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value <= -0.5 { "-" } else { "" });
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits_or_are_integers() {
        for (value, text) in [
            (0.0, "0.000"),
            (0.12345, "0.123"),
            (0.9999, "1.00"),
            (1.2345, "1.23"),
            (9.999, "10.0"),
            (12.345, "12.3"),
            (99.96, "100"),
            (123.45, "123"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(format_significant(value), text, "{value}");
        }
        assert_eq!(format_thousands(0.0), "0");
        assert_eq!(format_thousands(-1234.0), "-1,234");
    }
}
