//! Texts for TLS errors. The texts of the rustls library contain names of its Rust types.

use rustls::{CertificateError, Error};

/// Describes an error. The result may quote the peer's certificate, so the caller must escape it.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => {
            format!(
                "invalid peer certificate: {}",
                describe_certificate_error(error)
            )
        }
        Error::General(text) => text.clone(),
        other => split_words(&other.to_string()),
    }
}

/// Describes what is wrong with a certificate.
pub(super) fn describe_certificate_error(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<_> = presented
                .iter()
                .filter_map(|name| presented_name(name))
                .collect();
            let names = match names.len() {
                0 => "no name".to_owned(),
                _ => names.join(", "),
            };
            format!("it is for {names}, not for {}", expected.to_str())
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "unsupported signature algorithm".to_owned()
        }
        CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYetContext { .. }
        | CertificateError::InvalidPurposeContext { .. } => error.to_string(),
        CertificateError::Other(other) => {
            split_words(&other.to_string()).replace("cert ", "certificate ")
        }
        other => split_words(&format!("{other:?}")),
    }
}

/// Returns the name or address in `DnsName("peer")`.
fn presented_name(presented: &str) -> Option<&str> {
    let (kind, rest) = presented.split_once('(')?;
    let name = rest.strip_suffix(')')?.trim_matches('"');
    matches!(kind, "DnsName" | "IpAddress" | "UniformResourceIdentifier").then_some(name)
}

/// Converts `BadCertificate` to `bad certificate`, and `MissingData("Random")` to
/// `missing data: random`.
fn split_words(text: &str) -> String {
    let mut words = String::new();
    let mut last = ' ';
    for (at, character) in text.char_indices() {
        let next = text[at..].chars().nth(1);
        match character {
            '(' if last.is_alphanumeric() => words += ": ",
            '(' | ')' | '"' => {}
            // Acronyms keep their capitals, like "CA" in "UnknownCA".
            _ if character.is_uppercase() => {
                if last.is_lowercase() {
                    words.push(' ');
                }
                if next.is_some_and(char::is_lowercase) {
                    words.extend(character.to_lowercase());
                } else {
                    words.push(character);
                }
            }
            _ => words.push(character),
        }
        last = character;
    }
    words
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{AlertDescription, InvalidMessage, PeerIncompatible};

    use super::*;

    #[test]
    fn errors_have_readable_texts() {
        let name_error = |presented: &[&str]| {
            Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("192.0.2.1").expect("an address"),
                presented: presented.iter().map(|&name| name.to_owned()).collect(),
            })
        };
        let errors = [
            Error::InvalidCertificate(CertificateError::UnknownIssuer),
            name_error(&[r#"DnsName("myPeer.example")"#, "IpAddress(127.0.0.1)"]),
            name_error(&["DirectoryName", "Unsupported(0x01)"]),
            Error::AlertReceived(AlertDescription::UnknownCA),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            Error::InvalidMessage(InvalidMessage::MissingData("ServerName")),
            Error::NoCertificatesPresented,
            Error::General("No kx group".to_owned()),
        ];
        let expected = [
            "invalid peer certificate: unknown issuer",
            "invalid peer certificate: it is for myPeer.example, 127.0.0.1, not for 192.0.2.1",
            "invalid peer certificate: it is for no name, not for 192.0.2.1",
            "received fatal alert: unknown CA",
            "peer is incompatible: no cipher suites in common",
            "received corrupt message of type missing data: server name",
            "peer sent no certificates",
            "No kx group",
        ];
        assert_eq!(errors.map(|error| describe(&error)), expected);
    }
}
