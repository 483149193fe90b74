//! What this end's TLS connections are made with, settled before the first is opened.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Stop;
use engine::script::{Connection, Failure};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    SignatureAlgorithm,
};

use super::choice::Choice;
use super::encrypted::Encrypted;
use super::reason::describe;
use super::{Trouble, credentials, made};
use crate::options::Tls;
use crate::workorder::{Endpoint, Flowop, Group, Kind, Protocol};

/// What this end has for TLS, as its command line says.
#[derive(Debug, Default)]
pub struct Security {
    /// The certificate and key that were named.
    named: Option<Arc<CertifiedKey>>,
    /// The file that is looked for where none was named.
    stock: &'static str,
    /// What was read in its place (`None`) or made for such a key; once, however many groups ask for it.
    found: Mutex<Vec<(Option<SignatureAlgorithm>, Arc<CertifiedKey>)>>,
    pass_phrase: Option<Vec<u8>>,
    /// The authorities, one of which must have signed the other end's certificate; without them it is not verified.
    authorities: Option<Arc<RootCertStore>>,
    verbose: bool,
}

/// What the TLS connections of one group are made with.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Vec<Context>);

/// Settings that a group may have.
const MOST: usize = 64;

#[derive(Debug)]
struct Context {
    kind: Kind,
    method: String,
    cipher: String,
    choice: Choice,
    config: Config,
}

#[derive(Clone, Debug)]
enum Config {
    Connects {
        config: Arc<ClientConfig>,
        /// The other end must be whom its certificate names.
        asks: bool,
    },
    Accepts(Arc<ServerConfig>),
}

impl Security {
    /// A master's; `verbose` says on stderr when a certificate is made.
    pub fn of_master(settings: &Tls, verbose: bool) -> Result<Self, Trouble> {
        Self::new(settings, "server.pem", verbose)
    }

    /// A slave's.
    pub fn of_slave(settings: &Tls, verbose: bool) -> Result<Self, Trouble> {
        Self::new(settings, "client.pem", verbose)
    }

    fn new(settings: &Tls, stock: &'static str, verbose: bool) -> Result<Self, Trouble> {
        let pass_phrase = settings.pass_phrase.as_deref();
        let pass_phrase = pass_phrase.map(credentials::pass_phrase).transpose()?;
        let authorities = settings.authorities.as_deref();
        let authorities = authorities.map(credentials::authorities).transpose()?;
        let mut security = Self {
            named: None,
            stock,
            found: Mutex::default(),
            pass_phrase,
            authorities: authorities.map(Arc::new),
            verbose,
        };
        if let Some(certificate) = &settings.certificate {
            let key = settings.key.as_ref().unwrap_or(certificate);
            security.named = Some(Arc::new(security.read(certificate, key)?));
        }
        Ok(security)
    }

    fn read(&self, certificate: &Path, key: &Path) -> Result<CertifiedKey, Trouble> {
        let pass_phrase = self.pass_phrase.as_deref();
        let pass_phrase = pass_phrase.unwrap_or(credentials::STOCK_PASS_PHRASE);
        credentials::read(certificate, key, pass_phrase)
    }

    /// What a group's TLS connections need; nothing where it has none.
    pub(crate) fn prepare(&self, group: &Group) -> Result<Contexts, Trouble> {
        let mut contexts = Contexts::default();
        for flowop in group.flowops().filter(|flowop| is_ssl(flowop)) {
            if contexts.of(flowop).is_some() {
                continue;
            }
            if contexts.0.len() == MOST {
                let why = format!("more than {MOST} different settings of method= and cipher=");
                return Err(Trouble::Asked(why));
            }
            let Endpoint { method, cipher, .. } = &flowop.endpoint;
            let choice = Choice::of(method, cipher).map_err(|(_, why)| Trouble::Asked(why))?;
            // The same may be said in many ways.
            let is_like =
                |context: &&Context| context.kind == flowop.kind && context.choice == choice;
            let known = contexts.0.iter().find(is_like);
            let config = match (known, flowop.kind) {
                (Some(known), _) => known.config.clone(),
                (None, Kind::Accept) => self.accepting(&choice, cipher)?,
                (None, _) => self.connecting(&choice)?,
            };
            contexts.0.push(Context {
                kind: flowop.kind,
                method: method.clone(),
                cipher: cipher.clone(),
                choice,
                config,
            });
        }
        Ok(contexts)
    }

    fn connecting(&self, choice: &Choice) -> Result<Config, Trouble> {
        let provider = provider(choice);
        let authorities = self.authorities.as_ref();
        let verifier = super::trust::verifier(authorities, &provider)
            .map_err(|error| Trouble::Asked(error.to_string()))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&choice.versions())
            .map_err(|error| Trouble::Asked(describe(&error)))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        // An end that accepts with --tls-verify asks for it.
        let mut config = match self.certificate_of_file()? {
            Some(certified) => {
                let resolver = SingleCertAndKey::from(certified);
                config.with_client_cert_resolver(Arc::new(resolver))
            }
            None => config.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Config::Connects {
            config: Arc::new(config),
            asks: authorities.is_some(),
        })
    }

    fn accepting(&self, choice: &Choice, cipher: &str) -> Result<Config, Trouble> {
        let certified = self.certificate(choice)?;
        let key = certified.key.algorithm();
        if !choice.takes(key) {
            let why = format!("cipher={cipher} is not for a certificate of an {key:?} key");
            return Err(Trouble::Asked(why));
        }
        let resolver = SingleCertAndKey::from(certified);
        let provider = provider(choice);
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&choice.versions())
            .map_err(|error| Trouble::Asked(describe(&error)))?;
        let config = match &self.authorities {
            Some(authorities) => {
                let verifier = super::trust::of_clients(authorities, &provider)
                    .map_err(|error| Trouble::Asked(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::new(resolver));
        // Nobody comes back with a ticket, and one that is not read makes of a close a reset.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Config::Accepts(Arc::new(config)))
    }

    /// The one that was named; else that of uperf's file.
    fn certificate_of_file(&self) -> Result<Option<Arc<CertifiedKey>>, Trouble> {
        if let Some(named) = &self.named {
            return Ok(Some(Arc::clone(named)));
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((None, certified)) = found.first() {
            return Ok(Some(Arc::clone(certified)));
        }
        let places = ["", ".."].map(|place| PathBuf::from(place).join(self.stock));
        let Some(file) = places.iter().find(|file| file.is_file()) else {
            return Ok(None);
        };
        let certified = Arc::new(self.read(file, file)?);
        *found = vec![(None, Arc::clone(&certified))];
        Ok(Some(certified))
    }

    /// That of a file; else one that is made.
    fn certificate(&self, choice: &Choice) -> Result<Arc<CertifiedKey>, Trouble> {
        if let Some(certified) = self.certificate_of_file()? {
            return Ok(certified);
        }
        let key = if choice.takes(SignatureAlgorithm::ECDSA) {
            SignatureAlgorithm::ECDSA
        } else {
            SignatureAlgorithm::RSA
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = found.iter().find(|(of, _)| *of == Some(key)) {
            return Ok(Arc::clone(known));
        }
        if self.pass_phrase.is_some() {
            let why = format!("--tls-pass-file: no --tls-cert, and no {}", self.stock);
            return Err(Trouble::Asked(why));
        }
        let certified = Arc::new(self.make(key)?);
        found.push((Some(key), Arc::clone(&certified)));
        Ok(certified)
    }

    fn make(&self, key: SignatureAlgorithm) -> Result<CertifiedKey, Trouble> {
        if self.verbose {
            sys::write_error_line(format_args!(
                "uperf: no {} here or above, and no --tls-cert: a certificate is made",
                self.stock
            ));
        }
        made::make(key).map_err(Trouble::Making)
    }
}

impl Contexts {
    /// Whether the group has no TLS connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The connection for this flowop, with the handshake done where it
    /// asks for TLS: the side that connects is the client.
    pub(crate) fn over(
        &self,
        connection: Connection,
        flowop: &Flowop,
        stop: &Stop,
    ) -> Result<Connection, Failure> {
        if !is_ssl(flowop) {
            return Ok(connection);
        }
        let (Connection::Socket(socket), Some(config)) = (connection, self.of(flowop)) else {
            return Err(Failure::of_sense("ssl: nothing to make a connection with"));
        };
        let connection = match config {
            Config::Accepts(config) => ServerConnection::new(Arc::clone(config)).map(Into::into),
            Config::Connects { config, asks } => {
                let name = name(&flowop.endpoint.remote_host, *asks)?;
                ClientConnection::new(Arc::clone(config), name).map(Into::into)
            }
        };
        let connection =
            connection.map_err(|error| Failure::of_sense(format!("ssl: {}", describe(&error))))?;
        Encrypted::begin(connection, socket, stop)
    }

    /// The client's side by itself.
    #[cfg(test)]
    pub(super) fn client(&self, flowop: &Flowop) -> ClientConnection {
        let Some(Config::Connects { config, .. }) = self.of(flowop) else {
            panic!("{flowop:?} is no client's");
        };
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::clone(config), name).expect("a client")
    }

    fn of(&self, flowop: &Flowop) -> Option<&Config> {
        let Endpoint { method, cipher, .. } = &flowop.endpoint;
        let same = |context: &&Context| {
            context.kind == flowop.kind && context.method == *method && context.cipher == *cipher
        };
        let context = self.0.iter().find(same)?;
        Some(&context.config)
    }
}

fn is_ssl(flowop: &Flowop) -> bool {
    flowop.kind.opens() && flowop.endpoint.protocol == Some(Protocol::Ssl)
}

/// The name that the other end's certificate has to have. An address is not told to it.
fn name(host: &str, asks: bool) -> Result<ServerName<'static>, Failure> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(ServerName::from(address.to_canonical()));
    }
    match ServerName::try_from(host.to_owned()) {
        Ok(name) => Ok(name),
        // Nobody looks at it.
        Err(_) if !asks => Ok(ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED))),
        Err(_) => {
            let what = format!("ssl: {host} is no name that a certificate could have");
            Err(Failure::of_sense(what))
        }
    }
}

/// With the suites that were chosen, the most wanted first.
fn provider(choice: &Choice) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: choice.suites().to_vec(),
        ..aws_lc_rs::default_provider()
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::tls::tests::{connected, contexts, file, flowop, over, security};

    /// The suite that a connection came to between these flowops' ends, by its number.
    fn spoken(connect: &Flowop, accept: &Flowop) -> u16 {
        let security = Security::default();
        let here = contexts(&security, connect).expect("contexts");
        let there = contexts(&security, accept).expect("contexts");
        let Some(Config::Accepts(config)) = there.of(accept) else {
            panic!("{there:?}");
        };
        let (one, mut other) = connected();
        let mut server = ServerConnection::new(Arc::clone(config)).expect("a server");
        thread::scope(|scope| {
            scope.spawn(|| over(one, &here, connect, &Stop::new()).map(drop));
            while server.is_handshaking() {
                server.complete_io(&mut other).expect("a handshake");
            }
        });
        let suite = server.negotiated_cipher_suite().expect("a suite");
        suite.suite().into()
    }

    #[test]
    fn what_either_end_asks_for_is_what_is_spoken() {
        let any = |kind| flowop(kind, "", "");
        assert_eq!(spoken(&any(Kind::Connect), &any(Kind::Accept)), 0x1302);
        for (method, cipher, number) in [
            ("TLSv1_3", "", 0x1302),
            ("TLSv1_2", "", 0xC02C),
            ("", "TLS_CHACHA20_POLY1305_SHA256", 0x1303),
            ("", "ECDHE-ECDSA-AES128-GCM-SHA256", 0xC02B),
        ] {
            let connect = flowop(Kind::Connect, method, cipher);
            let accept = flowop(Kind::Accept, method, cipher);
            let by_connect = spoken(&connect, &any(Kind::Accept));
            let by_accept = spoken(&any(Kind::Connect), &accept);
            assert_eq!([by_connect, by_accept], [number; 2], "{method} {cipher}");
        }
        // The certificate is made for the cipher.
        let accept = flowop(Kind::Accept, "", "ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!(spoken(&any(Kind::Connect), &accept), 0xC030);
    }

    #[test]
    fn a_certificate_is_made_once() {
        let security = Security::default();
        for cipher in ["", "TLS_AES_128_GCM_SHA256", "tls_aes_128_gcm_sha256"] {
            let accept = flowop(Kind::Accept, "", cipher);
            assert!(contexts(&security, &accept).is_ok(), "{cipher}");
        }
        assert_eq!(security.found.lock().expect("no panic").len(), 1);
        let rsa = flowop(Kind::Accept, "", "ECDHE-RSA-AES256-GCM-SHA384");
        assert!(contexts(&security, &rsa).is_ok());
        assert_eq!(security.found.lock().expect("no panic").len(), 2);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let security = security(Some("server.pem"), None);
        let why = |kind, method, cipher| {
            let refused = contexts(&security, &flowop(kind, method, cipher));
            refused.expect_err("a refusal").to_string()
        };
        let ecdsa = "ECDHE-ECDSA-AES128-GCM-SHA256";
        assert_eq!(
            why(Kind::Accept, "", ecdsa),
            format!("cipher={ecdsa} is not for a certificate of an RSA key")
        );
        assert!(contexts(&security, &flowop(Kind::Connect, "", ecdsa)).is_ok());
        let tls = Tls {
            pass_phrase: Some(file("README.md")),
            ..Tls::default()
        };
        let useless = Security::of_slave(&tls, false).expect("a line");
        let refused = contexts(&useless, &flowop(Kind::Accept, "", ""));
        let words = "--tls-pass-file: no --tls-cert, and no client.pem";
        assert_eq!(refused.expect_err("a refusal").to_string(), words);
        assert!(why(Kind::Connect, "TLSv1", "").starts_with("method=TLSv1 is given up"));
        assert!(why(Kind::Accept, "", "RC4").starts_with("cipher=RC4: "));
    }

    /// A connection of these ends, as the end sees it that connects or the one that accepts.
    fn met(
        connecting: &Security,
        host: &str,
        accepting: &Security,
        sees: Kind,
    ) -> Result<(), Failure> {
        let (mut connect, accept) = (flowop(Kind::Connect, "", ""), flowop(Kind::Accept, "", ""));
        host.clone_into(&mut connect.endpoint.remote_host);
        let here = contexts(connecting, &connect).expect("contexts");
        let there = contexts(accepting, &accept).expect("contexts");
        let (one, other) = connected();
        thread::scope(|scope| {
            let one = scope.spawn(|| over(one, &here, &connect, &Stop::new()).map(drop));
            let other = over(other, &there, &accept, &Stop::new()).map(drop);
            let one = one.join().expect("no panic");
            if sees == Kind::Connect { one } else { other }
        })
    }

    /// Both ends verify the other, each with a certificate of the authority.
    #[test]
    fn the_end_that_accepts_verifies_as_well() {
        let authority = Some("authority.pem");
        let accepting = security(Some("server.pem"), authority);
        let met = |connecting: &Security| met(connecting, "127.0.0.1", &accepting, Kind::Accept);
        assert_eq!(met(&security(Some("server.pem"), authority)), Ok(()));
        let unsupported = "invalid peer certificate: unsupported certificate version";
        for (certificate, authorities, why) in [
            (None, authority, "peer sent no certificates"),
            (Some("version-1.pem"), None, unsupported),
        ] {
            let failure = met(&security(certificate, authorities)).expect_err(why);
            assert!(failure.what.ends_with(why), "{failure:?}");
        }
    }

    #[test]
    fn who_asks_is_told() {
        let asking = security(None, Some("authority.pem"));
        let signed = security(Some("server.pem"), None);
        let met = |accepting, host| met(&asking, host, accepting, Kind::Connect);
        for host in ["127.0.0.1", "::ffff:127.0.0.1", "localhost"] {
            assert_eq!(met(&signed, host), Ok(()), "{host}");
        }
        let another = "it is for 127.0.0.1, localhost, not for 192.0.2.1";
        for (accepting, host, why) in [
            (&signed, "192.0.2.1", another),
            (&Security::default(), "127.0.0.1", "unknown issuer"),
            (&signed, "no name", "no name that a certificate could have"),
        ] {
            let failure = met(accepting, host).expect_err(why);
            assert!(failure.what.ends_with(why), "{failure:?}");
        }
    }
}
