//! TLS of a scripted peer, with rustls alone. Only the client verifies, with the tests' authority.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

/// A connection, before or after its handshake.
pub(crate) enum Tls {
    Client(StreamOwned<ClientConnection, TcpStream>),
    Server(StreamOwned<ServerConnection, TcpStream>),
}

impl Tls {
    /// Returns the connecting side, which trusts the tests' authority.
    pub(crate) fn client(stream: TcpStream) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(certificate_path("authority.pem"));
        let authority = authority.expect("the file has a certificate");
        roots
            .add(authority)
            .expect("the certificate is an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").expect("the name is an address");
        let connection =
            ClientConnection::new(Arc::new(config), name).expect("the configuration is valid");
        Self::Client(StreamOwned::new(connection, stream))
    }

    /// Returns the accepting side, with an X.509 version 1 certificate.
    pub(crate) fn server(stream: TcpStream) -> Self {
        let pem = certificate_path("version-1.pem");
        let certificate = CertificateDer::from_pem_file(&pem).expect("the file has a certificate");
        let key = PrivateKeyDer::from_pem_file(&pem).expect("the file has a key");
        let provider = default_provider();
        let key = provider
            .key_provider
            .load_private_key(key)
            .expect("the file has a key");
        let resolver = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        let connection =
            ServerConnection::new(Arc::new(config)).expect("the configuration is valid");
        Self::Server(StreamOwned::new(connection, stream))
    }

    /// Continues the handshake until it is complete.
    pub(crate) fn complete_handshake(&mut self) -> io::Result<()> {
        match self {
            Self::Client(tls) => {
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
            }
            Self::Server(tls) => {
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
            }
        }
        Ok(())
    }
}

impl Read for Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Client(tls) => tls.read(buffer),
            Self::Server(tls) => tls.read(buffer),
        }
    }
}

impl Write for Tls {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Client(tls) => tls.write(data),
            Self::Server(tls) => tls.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Client(tls) => tls.flush(),
            Self::Server(tls) => tls.flush(),
        }
    }
}

/// Returns the path of a file with test certificates.
pub(crate) fn certificate_path(name: &str) -> std::path::PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
    std::path::Path::new(directory).join(name)
}
