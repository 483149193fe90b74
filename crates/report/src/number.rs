//! Figures as people read them.

/// Three significant digits, and thousands apart.
pub(crate) fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => return thousands(value),
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A whole number, a comma after each three digits.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value <= -0.5 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
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
    fn figures() {
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
            assert_eq!(significant(value), text, "{value}");
        }
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(-1234.0), "-1,234");
    }
}
