//! TLS settings of this end, and the contexts of its connections. They are prepared before the
//! first connection opens.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Stop;
use engine::script::{Connection, StepFailure};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SignatureAlgorithm,
};

use super::cipher_suites::CipherSuites;
use super::error_text::describe;
use super::layer::TlsLayer;
use super::{TlsError, credentials, self_signed};
use crate::options::TlsFiles;
use crate::workorder::{DataProtocol, Endpoint, Flowop, FlowopKind, GroupSpec};

/// TLS settings of this end from its command line.
#[derive(Debug, Default)]
pub struct TlsSettings {
    /// Certificate and key of `--tls-cert` and `--tls-key`.
    configured_certificate: Option<Arc<CertifiedKey>>,
    /// Name of the file that is read without `--tls-cert`.
    stock_file: &'static str,
    /// Certificates that were read from the stock file (`None`) or created for a key type. All
    /// groups share them.
    cached_certificates: Mutex<Vec<(Option<SignatureAlgorithm>, Arc<CertifiedKey>)>>,
    pass_phrase: Option<Vec<u8>>,
    /// Authorities for the peer's certificate. Without them, the certificate is not verified.
    authorities: Option<Arc<RootCertStore>>,
    verbose: bool,
}

/// TLS contexts of one group.
#[derive(Debug, Default)]
pub(crate) struct TlsContexts(Vec<TlsContext>);

/// Maximum number of different settings per group.
const MAX_CONTEXTS: usize = 64;

#[derive(Debug)]
struct TlsContext {
    kind: FlowopKind,
    method: String,
    cipher: String,
    suites: CipherSuites,
    config: TlsConfig,
}

#[derive(Clone, Debug)]
enum TlsConfig {
    Client {
        config: Arc<ClientConfig>,
        /// The peer's certificate must have the name or address of the host.
        verifies_name: bool,
    },
    Server(Arc<ServerConfig>),
}

impl TlsSettings {
    /// Returns the settings of a master. With `verbose`, linerate reports on stderr that it creates
    /// a certificate.
    pub fn for_master(settings: &TlsFiles, verbose: bool) -> Result<Self, TlsError> {
        Self::new(settings, "server.pem", verbose)
    }

    /// Returns the settings of a slave.
    pub fn for_slave(settings: &TlsFiles, verbose: bool) -> Result<Self, TlsError> {
        Self::new(settings, "client.pem", verbose)
    }

    fn new(settings: &TlsFiles, stock_file: &'static str, verbose: bool) -> Result<Self, TlsError> {
        let pass_phrase = settings.pass_phrase.as_deref();
        let pass_phrase = pass_phrase.map(credentials::read_pass_phrase).transpose()?;
        let authorities = settings.authorities.as_deref();
        let authorities = authorities.map(credentials::read_authorities).transpose()?;
        let mut this = Self {
            configured_certificate: None,
            stock_file,
            cached_certificates: Mutex::default(),
            pass_phrase,
            authorities: authorities.map(Arc::new),
            verbose,
        };
        if let Some(certificate) = &settings.certificate {
            let key = settings.key.as_ref().unwrap_or(certificate);
            this.configured_certificate = Some(Arc::new(this.read(certificate, key)?));
        }
        Ok(this)
    }

    fn read(&self, certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
        let pass_phrase = self.pass_phrase.as_deref();
        let pass_phrase = pass_phrase.unwrap_or(credentials::STOCK_PASS_PHRASE);
        credentials::read_certified_key(certificate, key, pass_phrase)
    }

    /// Returns the contexts for a group's TLS connections; empty if it has none.
    pub(crate) fn prepare(&self, group: &GroupSpec) -> Result<TlsContexts, TlsError> {
        let mut contexts = TlsContexts::default();
        for flowop in group.flowops().filter(|flowop| opens_tls(flowop)) {
            if contexts.find_config(flowop).is_some() {
                continue;
            }
            if contexts.0.len() == MAX_CONTEXTS {
                let reason =
                    format!("more than {MAX_CONTEXTS} different settings of method= and cipher=");
                return Err(TlsError::Unsupported(reason));
            }
            let Endpoint { method, cipher, .. } = &flowop.endpoint;
            let suites = CipherSuites::from_options(method, cipher)
                .map_err(|(_, reason)| TlsError::Unsupported(reason))?;
            // Different texts can have the same meaning.
            let is_equal =
                |context: &&TlsContext| context.kind == flowop.kind && context.suites == suites;
            let known = contexts.0.iter().find(is_equal);
            let config = match (known, flowop.kind) {
                (Some(known), _) => known.config.clone(),
                (None, FlowopKind::Accept) => self.server_config(&suites, cipher)?,
                (None, _) => self.client_config(&suites)?,
            };
            contexts.0.push(TlsContext {
                kind: flowop.kind,
                method: method.clone(),
                cipher: cipher.clone(),
                suites,
                config,
            });
        }
        Ok(contexts)
    }

    fn client_config(&self, suites: &CipherSuites) -> Result<TlsConfig, TlsError> {
        let provider = crypto_provider(suites);
        let authorities = self.authorities.as_ref();
        let verifier = super::trust::server_verifier(authorities, &provider)
            .map_err(|error| TlsError::Unsupported(error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&suites.versions())
            .map_err(|error| TlsError::Unsupported(describe(&error)))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        // An accepting end with --tls-verify requires a certificate.
        let mut config = match self.configured_or_stock_certificate()? {
            Some(certified) => {
                let resolver = SingleCertAndKey::from(certified);
                config.with_client_cert_resolver(Arc::new(resolver))
            }
            None => config.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(TlsConfig::Client {
            config: Arc::new(config),
            verifies_name: authorities.is_some(),
        })
    }

    fn server_config(&self, suites: &CipherSuites, cipher: &str) -> Result<TlsConfig, TlsError> {
        let certified = self.server_certificate(suites)?;
        let key = certified.key.algorithm();
        if !suites.allows_key(key) {
            let reason = format!("cipher={cipher} does not support the certificate's {key:?} key");
            return Err(TlsError::Unsupported(reason));
        }
        let resolver = SingleCertAndKey::from(certified);
        let provider = crypto_provider(suites);
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&suites.versions())
            .map_err(|error| TlsError::Unsupported(describe(&error)))?;
        let config = match &self.authorities {
            Some(authorities) => {
                let verifier = super::trust::client_verifier(authorities, &provider)
                    .map_err(|error| TlsError::Unsupported(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::new(resolver));
        // No client resumes a session, and an unread ticket turns a close into a reset.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(TlsConfig::Server(Arc::new(config)))
    }

    /// Returns the certificate of `--tls-cert`, else that of uperf's file in this directory or its
    /// parent, else `None`.
    fn configured_or_stock_certificate(&self) -> Result<Option<Arc<CertifiedKey>>, TlsError> {
        if let Some(named) = &self.configured_certificate {
            return Ok(Some(Arc::clone(named)));
        }
        let mut cached = self
            .cached_certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((None, certified)) = cached.first() {
            return Ok(Some(Arc::clone(certified)));
        }
        let candidates = ["", ".."].map(|directory| PathBuf::from(directory).join(self.stock_file));
        let Some(file) = candidates.iter().find(|file| file.is_file()) else {
            return Ok(None);
        };
        let certified = Arc::new(self.read(file, file)?);
        *cached = vec![(None, Arc::clone(&certified))];
        Ok(Some(certified))
    }

    /// Returns the certificate of a file, else a self-signed one.
    fn server_certificate(&self, suites: &CipherSuites) -> Result<Arc<CertifiedKey>, TlsError> {
        if let Some(certified) = self.configured_or_stock_certificate()? {
            return Ok(certified);
        }
        let key = if suites.allows_key(SignatureAlgorithm::ECDSA) {
            SignatureAlgorithm::ECDSA
        } else {
            SignatureAlgorithm::RSA
        };
        let mut cached = self
            .cached_certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = cached.iter().find(|(known_key, _)| *known_key == Some(key)) {
            return Ok(Arc::clone(known));
        }
        if self.pass_phrase.is_some() {
            let reason = format!("--tls-pass-file: no --tls-cert, and no {}", self.stock_file);
            return Err(TlsError::Unsupported(reason));
        }
        let certified = Arc::new(self.self_sign_certificate(key)?);
        cached.push((Some(key), Arc::clone(&certified)));
        Ok(certified)
    }

    fn self_sign_certificate(&self, key: SignatureAlgorithm) -> Result<CertifiedKey, TlsError> {
        if self.verbose {
            sys::write_error_line(format_args!(
                "uperf: no --tls-cert, and no {} in this directory or its parent; \
                 using a self-signed certificate",
                self.stock_file
            ));
        }
        self_signed::generate(key).map_err(TlsError::SelfSigning)
    }
}

impl TlsContexts {
    /// Whether the group has no TLS connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the connection for this flowop. If the flowop uses TLS, this function completes the
    /// handshake. The connecting end is the TLS client.
    pub(crate) fn establish(
        &self,
        connection: Connection,
        flowop: &Flowop,
        stop: &Stop,
    ) -> Result<Connection, StepFailure> {
        if !opens_tls(flowop) {
            return Ok(connection);
        }
        let (Connection::Socket(socket), Some(config)) = (connection, self.find_config(flowop))
        else {
            return Err(StepFailure::from_text(
                "ssl: no TLS settings for this flowop",
            ));
        };
        let connection = match config {
            TlsConfig::Server(config) => ServerConnection::new(Arc::clone(config)).map(Into::into),
            TlsConfig::Client {
                config,
                verifies_name,
            } => {
                let name = server_name(&flowop.endpoint.remote_host, *verifies_name)?;
                ClientConnection::new(Arc::clone(config), name).map(Into::into)
            }
        };
        let connection = connection
            .map_err(|error| StepFailure::from_text(format!("ssl: {}", describe(&error))))?;
        TlsLayer::handshake(connection, socket, stop)
    }

    /// Returns the TLS client without a socket.
    #[cfg(test)]
    pub(super) fn client(&self, flowop: &Flowop) -> ClientConnection {
        let Some(TlsConfig::Client { config, .. }) = self.find_config(flowop) else {
            panic!("{flowop:?} is not a client");
        };
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::clone(config), name).expect("a client")
    }

    fn find_config(&self, flowop: &Flowop) -> Option<&TlsConfig> {
        let Endpoint { method, cipher, .. } = &flowop.endpoint;
        let is_same = |context: &&TlsContext| {
            context.kind == flowop.kind && context.method == *method && context.cipher == *cipher
        };
        let context = self.0.iter().find(is_same)?;
        Some(&context.config)
    }
}

fn opens_tls(flowop: &Flowop) -> bool {
    flowop.kind.opens() && flowop.endpoint.protocol == Some(DataProtocol::Ssl)
}

/// Returns the name that the peer's certificate must have. The client sends it to the peer unless
/// it is an address.
fn server_name(host: &str, verifies_name: bool) -> Result<ServerName<'static>, StepFailure> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(ServerName::from(address.to_canonical()));
    }
    match ServerName::try_from(host.to_owned()) {
        Ok(name) => Ok(name),
        // The name is not verified.
        Err(_) if !verifies_name => Ok(ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED))),
        Err(_) => {
            let message = format!("ssl: {host} is not a valid certificate name");
            Err(StepFailure::from_text(message))
        }
    }
}

/// Returns the crypto provider with only these suites.
fn crypto_provider(suites: &CipherSuites) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: suites.as_slice().to_vec(),
        ..aws_lc_rs::default_provider()
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::tls::tests::{
        certificate_file, establish, prepare_contexts, settings_with_files, ssl_flowop, tcp_pair,
    };

    /// Returns the number of the suite that the ends of these flowops negotiate.
    fn negotiated_suite(connect: &Flowop, accept: &Flowop) -> u16 {
        let settings = TlsSettings::default();
        let client_contexts = prepare_contexts(&settings, connect).expect("contexts");
        let server_contexts = prepare_contexts(&settings, accept).expect("contexts");
        let Some(TlsConfig::Server(config)) = server_contexts.find_config(accept) else {
            panic!("{server_contexts:?}");
        };
        let (client_stream, mut server_stream) = tcp_pair();
        let mut server = ServerConnection::new(Arc::clone(config)).expect("a server");
        thread::scope(|scope| {
            scope.spawn(|| {
                establish(client_stream, &client_contexts, connect, &Stop::new()).map(drop)
            });
            while server.is_handshaking() {
                server.complete_io(&mut server_stream).expect("a handshake");
            }
        });
        let suite = server.negotiated_cipher_suite().expect("a suite");
        suite.suite().into()
    }

    #[test]
    fn either_end_can_restrict_the_suites() {
        let any = |kind| ssl_flowop(kind, "", "");
        assert_eq!(
            negotiated_suite(&any(FlowopKind::Connect), &any(FlowopKind::Accept)),
            0x1302
        );
        for (method, cipher, number) in [
            ("TLSv1_3", "", 0x1302),
            ("TLSv1_2", "", 0xC02C),
            ("", "TLS_CHACHA20_POLY1305_SHA256", 0x1303),
            ("", "ECDHE-ECDSA-AES128-GCM-SHA256", 0xC02B),
        ] {
            let connect = ssl_flowop(FlowopKind::Connect, method, cipher);
            let accept = ssl_flowop(FlowopKind::Accept, method, cipher);
            let by_connect = negotiated_suite(&connect, &any(FlowopKind::Accept));
            let by_accept = negotiated_suite(&any(FlowopKind::Connect), &accept);
            assert_eq!([by_connect, by_accept], [number; 2], "{method} {cipher}");
        }
        // The certificate is made for the cipher.
        let accept = ssl_flowop(FlowopKind::Accept, "", "ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!(negotiated_suite(&any(FlowopKind::Connect), &accept), 0xC030);
    }

    #[test]
    fn a_certificate_is_created_once() {
        let settings = TlsSettings::default();
        for cipher in ["", "TLS_AES_128_GCM_SHA256", "tls_aes_128_gcm_sha256"] {
            let accept = ssl_flowop(FlowopKind::Accept, "", cipher);
            assert!(prepare_contexts(&settings, &accept).is_ok(), "{cipher}");
        }
        assert_eq!(
            settings.cached_certificates.lock().expect("no panic").len(),
            1
        );
        let rsa = ssl_flowop(FlowopKind::Accept, "", "ECDHE-RSA-AES256-GCM-SHA384");
        assert!(prepare_contexts(&settings, &rsa).is_ok());
        assert_eq!(
            settings.cached_certificates.lock().expect("no panic").len(),
            2
        );
    }

    #[test]
    fn unsupported_settings_are_refused() {
        let settings = settings_with_files(Some("server.pem"), None);
        let refusal = |kind, method, cipher| {
            let refused = prepare_contexts(&settings, &ssl_flowop(kind, method, cipher));
            refused.expect_err("a refusal").to_string()
        };
        let ecdsa = "ECDHE-ECDSA-AES128-GCM-SHA256";
        assert_eq!(
            refusal(FlowopKind::Accept, "", ecdsa),
            format!("cipher={ecdsa} does not support the certificate's RSA key")
        );
        assert!(prepare_contexts(&settings, &ssl_flowop(FlowopKind::Connect, "", ecdsa)).is_ok());
        let tls = TlsFiles {
            pass_phrase: Some(certificate_file("README.md")),
            ..TlsFiles::default()
        };
        let without_certificate = TlsSettings::for_slave(&tls, false).expect("a readable file");
        let accept = ssl_flowop(FlowopKind::Accept, "", "");
        let refused = prepare_contexts(&without_certificate, &accept);
        let words = "--tls-pass-file: no --tls-cert, and no client.pem";
        assert_eq!(refused.expect_err("a refusal").to_string(), words);
        assert!(refusal(FlowopKind::Connect, "TLSv1", "").starts_with("method=TLSv1 is obsolete"));
        assert!(refusal(FlowopKind::Accept, "", "RC4").starts_with("cipher=RC4 is unsupported"));
    }

    /// Connects these ends. Returns the result of the connecting or of the accepting end.
    fn connect_ends(
        connecting: &TlsSettings,
        host: &str,
        accepting: &TlsSettings,
        reporting_end: FlowopKind,
    ) -> Result<(), StepFailure> {
        let mut connect = ssl_flowop(FlowopKind::Connect, "", "");
        let accept = ssl_flowop(FlowopKind::Accept, "", "");
        host.clone_into(&mut connect.endpoint.remote_host);
        let client_contexts = prepare_contexts(connecting, &connect).expect("contexts");
        let server_contexts = prepare_contexts(accepting, &accept).expect("contexts");
        let (client_stream, server_stream) = tcp_pair();
        thread::scope(|scope| {
            let connect_thread = scope.spawn(|| {
                establish(client_stream, &client_contexts, &connect, &Stop::new()).map(drop)
            });
            let accept_result =
                establish(server_stream, &server_contexts, &accept, &Stop::new()).map(drop);
            let connect_result = connect_thread.join().expect("no panic");
            if reporting_end == FlowopKind::Connect {
                connect_result
            } else {
                accept_result
            }
        })
    }

    /// Both ends verify each other, with certificates of the same authority.
    #[test]
    fn the_accepting_end_verifies_the_certificate() {
        let authority = Some("authority.pem");
        let accepting = settings_with_files(Some("server.pem"), authority);
        let connect_with = |connecting: &TlsSettings| {
            connect_ends(connecting, "127.0.0.1", &accepting, FlowopKind::Accept)
        };
        assert_eq!(
            connect_with(&settings_with_files(Some("server.pem"), authority)),
            Ok(())
        );
        let unsupported = "invalid peer certificate: unsupported certificate version";
        for (certificate, authorities, expected) in [
            (None, authority, "peer sent no certificates"),
            (Some("version-1.pem"), None, unsupported),
        ] {
            let failure =
                connect_with(&settings_with_files(certificate, authorities)).expect_err(expected);
            assert!(failure.action.ends_with(expected), "{failure:?}");
        }
    }

    #[test]
    fn the_connecting_end_verifies_the_certificate() {
        let verifying = settings_with_files(None, Some("authority.pem"));
        let signed = settings_with_files(Some("server.pem"), None);
        let connect_to =
            |accepting, host| connect_ends(&verifying, host, accepting, FlowopKind::Connect);
        for host in ["127.0.0.1", "::ffff:127.0.0.1", "localhost"] {
            assert_eq!(connect_to(&signed, host), Ok(()), "{host}");
        }
        let wrong_name = "it is for 127.0.0.1, localhost, not for 192.0.2.1";
        for (accepting, host, expected) in [
            (&signed, "192.0.2.1", wrong_name),
            (&TlsSettings::default(), "127.0.0.1", "unknown issuer"),
            (&signed, "no name", "is not a valid certificate name"),
        ] {
            let failure = connect_to(accepting, host).expect_err(expected);
            assert!(failure.action.ends_with(expected), "{failure:?}");
        }
    }
}
