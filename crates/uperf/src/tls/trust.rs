//! Verification of the peer's certificate.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Returns the verifier for the accepting end's certificate. Without authorities, it accepts any
/// certificate.
pub(super) fn server_verifier(
    roots: Option<&Arc<RootCertStore>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let Some(roots) = roots else {
        let algorithms = provider.signature_verification_algorithms;
        return Ok(Arc::new(AnyCertificateVerifier(algorithms)));
    };
    let roots = Arc::clone(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    verifier
        .build()
        .map(|verifier| -> Arc<dyn ServerCertVerifier> { verifier })
}

/// Returns the verifier for the connecting end's certificate. One of the authorities must have
/// signed it. Its name is not checked, because the accepting end knows no expected name.
pub(super) fn client_verifier(
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
    WebPkiClientVerifier::builder_with_provider(roots, provider).build()
}

/// Verifier that accepts any certificate. It still verifies that the peer has the certificate's
/// key, as OpenSSL does: this work belongs to the measured handshake.
#[derive(Debug)]
struct AnyCertificateVerifier(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if is_unsupported(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if is_unsupported(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Whether rustls cannot read the certificate's key. It cannot for certificates of X.509 version 1,
/// which are frequent in tests.
fn is_unsupported(certificate: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_err()
}
