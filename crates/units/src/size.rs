/// A number as netperf reads one: an integer, then a suffix anywhere in the text.
///
/// `K`, `M`, `G` are 2¹⁰, 2²⁰, 2³⁰ and `k`, `m`, `g` are 10³, 10⁶, 10⁹; several suffixes multiply.
/// The stock tool computes in 32 bits and wraps silently and takes text without a number as 0; here
/// a value that does not fit and text that is no number are `None`, so that the caller can name it.
pub fn netperf_size(text: &str) -> Option<i64> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (number, suffixes) = unsigned.split_at(digits);
    let mut value: i64 = number.parse().ok()?;
    for suffix in suffixes.chars() {
        let factor = match suffix {
            'K' => 1 << 10,
            'M' => 1 << 20,
            'G' => 1 << 30,
            'k' => 1_000,
            'm' => 1_000_000,
            'g' => 1_000_000_000,
            // Any other letter is passed over, as in "10s" or "64KB".
            c if c.is_ascii_alphabetic() => 1,
            _ => return None,
        };
        value = value.checked_mul(factor)?;
    }
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_netperfs() {
        for (text, value) in [
            ("10", Some(10)),
            ("32K", Some(32_768)),
            ("32k", Some(32_000)),
            ("1M", Some(1 << 20)),
            ("1m", Some(1_000_000)),
            ("2G", Some(2 << 30)),
            ("2g", Some(2_000_000_000)),
            ("1Kk", Some(1_024_000)),
            ("64KB", Some(65_536)),
            ("10s", Some(10)),
            ("-5", Some(-5)),
            ("-1K", Some(-1024)),
            ("+7", Some(7)),
            ("", None),
            ("K", None),
            ("1.5", None),
            ("0x10", None),
            ("99999999999999999999", None),
            ("9999999999999G", None),
        ] {
            assert_eq!(netperf_size(text), value, "{text}");
        }
    }
}
