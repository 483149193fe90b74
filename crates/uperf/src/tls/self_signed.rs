//! Self-signed certificate for an end without a certificate file.

use rcgen::{CertificateParams, DnType, KeyPair, RsaKeySize};
use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;

/// Creates a key of this type and a self-signed certificate.
pub(super) fn generate(key: SignatureAlgorithm) -> Result<CertifiedKey, String> {
    let key_pair = match key {
        SignatureAlgorithm::RSA => {
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)
        }
        _ => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
    };
    let signed = key_pair.and_then(|key| {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .distinguished_name
            .push(DnType::CommonName, "linerate");
        Ok((params.self_signed(&key)?, key))
    });
    let (certificate, key) = signed.map_err(|error| error.to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let key = default_provider().key_provider.load_private_key(key.into());
    let key = key.map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}
