//! Whether it is believed who the other end is.

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

/// Who believes what these authorities have signed, or without them everything.
pub(super) fn verifier(
    roots: Option<&Arc<RootCertStore>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
    let Some(roots) = roots else {
        let algorithms = provider.signature_verification_algorithms;
        return Ok(Arc::new(Anybody(algorithms)));
    };
    let roots = Arc::clone(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    verifier
        .build()
        .map(|verifier| -> Arc<dyn ServerCertVerifier> { verifier })
}

/// Verifies the ends that connect: each must show a certificate that these authorities have signed. It need not be for
/// a name: the end that accepts knows none.
pub(super) fn of_clients(
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
    WebPkiClientVerifier::builder_with_provider(roots, provider).build()
}

/// Takes any certificate. That the other end has its key is seen to all the same: it is part of what a
/// handshake costs, and OpenSSL does it.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
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
        if is_unreadable(certificate) {
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
        if is_unreadable(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// A certificate of X.509's first version, as those of tests often are, has no key that rustls reads.
fn is_unreadable(certificate: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_err()
}
