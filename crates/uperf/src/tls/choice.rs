//! `method=` and `cipher=`: which TLS a connection may speak, in OpenSSL's words.

use std::fmt;

/// The cipher suites that a connection may come to, the most wanted first; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice(Vec<&'static Suite>);

/// A cipher suite that both OpenSSL and rustls have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// Its number in TLS.
    pub(super) number: u16,
    /// OpenSSL's name.
    name: &'static str,
    /// The name that TLS has for it.
    standard: &'static str,
    pub(super) version: Version,
    /// The key that the certificate must have; any, if it is not said.
    pub(super) key: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Tls12,
    Tls13,
}

/// What a certificate's key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Rsa,
    Ecdsa,
}

/// Which option cannot be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// `method` or `cipher`.
    pub(super) option: &'static str,
    pub(super) why: String,
}

/// Why these options of a profile cannot be: which of them, and the reason.
pub(crate) fn objection(method: &str, cipher: &str) -> Option<(&'static str, String)> {
    let wrong = Choice::of(method, cipher).err()?;
    Some((wrong.option, wrong.why))
}

impl Choice {
    /// What these options leave; empty ones leave everything.
    pub(super) fn of(method: &str, cipher: &str) -> Result<Self, Wrong> {
        let versions = versions(method).map_err(|why| Wrong {
            option: "method",
            why,
        })?;
        let wrong = |why| Wrong {
            option: "cipher",
            why,
        };
        let mut suites = suites(cipher).map_err(wrong)?;
        suites.retain(|suite| versions.contains(&suite.version));
        if suites.is_empty() {
            let why = format!("cipher={cipher} is of another version than method={method}");
            return Err(wrong(why));
        }
        Ok(Self(suites))
    }

    /// The suites.
    pub(super) fn suites(&self) -> &[&'static Suite] {
        &self.0
    }

    /// Whether a version is among them.
    pub(super) fn has(&self, version: Version) -> bool {
        self.0.iter().any(|suite| suite.version == version)
    }

    /// Whether a certificate with this key will do.
    pub(super) fn takes(&self, key: Key) -> bool {
        let mut suites = self.0.iter();
        suites.any(|suite| suite.key.is_none_or(|needed| needed == key))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa => "RSA",
            Self::Ecdsa => "ECDSA",
        })
    }
}

/// In rustls's order.
const SUITES: [Suite; 9] = [
    tls13(0x1302, "TLS_AES_256_GCM_SHA384"),
    tls13(0x1301, "TLS_AES_128_GCM_SHA256"),
    tls13(0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    tls12(
        0xC02C,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        Key::Ecdsa,
    ),
    tls12(
        0xC02B,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        Key::Ecdsa,
    ),
    tls12(
        0xCCA9,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        Key::Ecdsa,
    ),
    tls12(
        0xC030,
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        Key::Rsa,
    ),
    tls12(
        0xC02F,
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        Key::Rsa,
    ),
    tls12(
        0xCCA8,
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        Key::Rsa,
    ),
];

const fn tls13(number: u16, name: &'static str) -> Suite {
    Suite {
        number,
        name,
        standard: name,
        version: Version::Tls13,
        key: None,
    }
}

const fn tls12(number: u16, name: &'static str, standard: &'static str, key: Key) -> Suite {
    Suite {
        number,
        name,
        standard,
        version: Version::Tls12,
        key: Some(key),
    }
}

/// A name as OpenSSL's functions have it, in any case and with or without their `_method`. A master's
/// message has room for four characters of it, which is every version; the other end, which is the
/// master's, settles it.
fn versions(method: &str) -> Result<&'static [Version], String> {
    let name = method.to_ascii_lowercase().replace('.', "_");
    match name.strip_suffix("_method").unwrap_or(&name) {
        "" | "tls" | "tlsv" | "sslv" | "sslv23" => Ok(&[Version::Tls13, Version::Tls12]),
        "tlsv1_2" => Ok(&[Version::Tls12]),
        "tlsv1_3" => Ok(&[Version::Tls13]),
        "sslv2" | "sslv3" | "tlsv1" | "tlsv1_0" | "tlsv1_1" => Err(format!(
            "method={method} is given up (RFC 8996), and linerate has it not; there are {METHODS}"
        )),
        _ => Err(format!(
            "method={method} is no version of TLS; there are {METHODS}"
        )),
    }
}

const METHODS: &str = "TLSv1_2, TLSv1_3, and TLS or SSLv23 for whichever both ends have";

/// Names with colons between them, in any case.
fn suites(list: &str) -> Result<Vec<&'static Suite>, String> {
    if list.is_empty() {
        return Ok(SUITES.iter().collect());
    }
    let suite = |name: &str| {
        let is_it = |suite: &&Suite| {
            name.eq_ignore_ascii_case(suite.name) || name.eq_ignore_ascii_case(suite.standard)
        };
        SUITES.iter().find(is_it).ok_or_else(|| {
            let known = SUITES.map(|suite| suite.name).join(", ");
            format!("cipher={name}: linerate has no cipher of this name; there are {known}")
        })
    };
    list.split(':').map(suite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_versions() {
        for (method, tls12, tls13) in [
            ("", true, true),
            ("TLS", true, true),
            ("SSLv23", true, true),
            ("TLS_method", true, true),
            // What a message leaves of a name.
            ("TLSv", true, true),
            ("TLSv1_2", true, false),
            ("tlsv1.2", true, false),
            ("tlsv1_3", false, true),
        ] {
            let choice = Choice::of(method, "").expect(method);
            let has = (choice.has(Version::Tls12), choice.has(Version::Tls13));
            assert_eq!(has, (tls12, tls13), "{method}");
        }
        for (method, why) in [
            ("SSLv3", "is given up"),
            ("TLSv1", "is given up"),
            ("tlsv1_1", "is given up"),
            ("DTLS", "is no version of TLS"),
            ("x", "is no version of TLS"),
        ] {
            let wrong = Choice::of(method, "").expect_err(method);
            assert_eq!(wrong.option, "method");
            let begins = format!("method={method} {why}");
            assert!(wrong.why.starts_with(&begins), "{}", wrong.why);
        }
    }

    #[test]
    fn ciphers_are_suites_in_their_order() {
        let numbers = |cipher| {
            let choice = Choice::of("", cipher).expect(cipher);
            let numbers = choice.suites().iter().map(|suite| suite.number);
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(numbers("").len(), SUITES.len());
        assert_eq!(numbers("tls_aes_128_gcm_sha256"), [0x1301]);
        assert_eq!(
            numbers("ECDHE-RSA-CHACHA20-POLY1305:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            [0xCCA8, 0xC02F]
        );
        for cipher in ["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256:", "HIGH", "!x"] {
            let wrong = Choice::of("", cipher).expect_err(cipher);
            assert_eq!(wrong.option, "cipher");
        }
        let why = Choice::of("", "AES128-SHA").expect_err("unknown").why;
        assert!(why.starts_with("cipher=AES128-SHA: "), "{why}");
    }

    #[test]
    fn both_together_leave_something() {
        let wrong = Choice::of("TLSv1_3", "ECDHE-RSA-AES128-GCM-SHA256").expect_err("nothing");
        assert_eq!(wrong.option, "cipher");
        let choice = Choice::of("TLSv1_2", "ECDHE-RSA-AES128-GCM-SHA256").expect("one");
        assert!(choice.takes(Key::Rsa) && !choice.takes(Key::Ecdsa));
        let any = Choice::of("", "").expect("all");
        assert!(any.takes(Key::Rsa) && any.takes(Key::Ecdsa));
    }
}
