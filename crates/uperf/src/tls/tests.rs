//! Helpers for TLS tests, and tests with OpenSSL as the peer.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use engine::Stop;
use engine::script::{Connection, Layer};
use testkit::{TestProcess, requirements_are_mandatory, wait_until};

use super::{TlsContexts, TlsSettings};
use crate::options::TlsFiles;
use crate::workorder::{DataProtocol, Flowop, FlowopKind, GroupSpec};

/// Returns the path of a test certificate.
pub(super) fn certificate_file(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
    PathBuf::from(directory).join(name)
}

/// Returns a flowop that opens an SSL connection.
pub(super) fn ssl_flowop(kind: FlowopKind, method: &str, cipher: &str) -> Flowop {
    let mut flowop = Flowop::with_protocol(kind, DataProtocol::Ssl);
    let endpoint = &mut flowop.endpoint;
    "127.0.0.1".clone_into(&mut endpoint.remote_host);
    method.clone_into(&mut endpoint.method);
    cipher.clone_into(&mut endpoint.cipher);
    flowop
}

/// Returns the contexts for a flowop.
pub(super) fn prepare_contexts(
    settings: &TlsSettings,
    flowop: &Flowop,
) -> Result<TlsContexts, super::TlsError> {
    settings.prepare(&GroupSpec::with_flowops([flowop.clone()]))
}

/// Returns both ends of a TCP connection.
pub(super) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    (client, listener.accept().expect("it was connected").0)
}

/// Completes the handshake over a connected socket.
pub(super) fn establish(
    socket: impl Into<OwnedFd>,
    contexts: &TlsContexts,
    flowop: &Flowop,
    stop: &Stop,
) -> Result<Connection, engine::script::StepFailure> {
    contexts.establish(Connection::Socket(socket.into()), flowop, stop)
}

/// Returns the TLS layer of a connection.
pub(super) fn tls_layer(connection: &Connection) -> std::cell::RefMut<'_, Box<dyn Layer>> {
    match connection {
        Connection::Layered(layer, _) => layer.borrow_mut(),
        other => panic!("no TLS: {other:?}"),
    }
}

/// Returns settings with the certificate of one file and the authorities of another.
pub(super) fn settings_with_files(
    certificate: Option<&str>,
    authorities: Option<&str>,
) -> TlsSettings {
    let tls = TlsFiles {
        certificate: certificate.map(certificate_file),
        authorities: authorities.map(certificate_file),
        ..TlsFiles::default()
    };
    TlsSettings::for_slave(&tls, false).expect("good files")
}

/// Whether the program openssl is installed. Fails if it is missing and peers are required.
fn has_openssl() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let is_installed = version.is_ok_and(|version| version.status.success());
    assert!(
        is_installed || !requirements_are_mandatory(),
        "no openssl, and peers are required"
    );
    if !is_installed {
        eprintln!("SKIPPED: no openssl (Debian: openssl)");
    }
    is_installed
}

/// Starts openssl, which ends with its test. Returns it with its standard input.
fn start_openssl(words: &str) -> (TestProcess, UnixStream) {
    let (input, child_input) = UnixStream::pair().expect("two sockets");
    let mut command = Command::new("openssl");
    let command = command.args(words.split(' '));
    let process = TestProcess::start_with_input(command, OwnedFd::from(child_input).into());
    (process, input)
}

const TIMEOUT: Duration = Duration::from_secs(20);

const VERSIONS: [(&str, &str); 2] = [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")];

#[test]
fn openssl_connects() {
    if !has_openssl() {
        return;
    }
    for (method, version) in VERSIONS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let authority = certificate_file("authority.pem");
        let (client, mut input) = start_openssl(&format!(
            "s_client -brief -verify_return_error -CAfile {} -connect 127.0.0.1:{port}",
            authority.display()
        ));
        let flowop = ssl_flowop(FlowopKind::Accept, method, "");
        let settings = settings_with_files(Some("server.pem"), None);
        let contexts = prepare_contexts(&settings, &flowop).expect("contexts");
        let (stream, _) = listener.accept().expect("a client");
        let connection = establish(stream, &contexts, &flowop, &Stop::new()).expect(method);
        input.write_all(b"question\n").expect("it reads");
        let mut question = [0; 64];
        let length = tls_layer(&connection)
            .receive(&mut question)
            .expect("a question");
        assert_eq!(&question[..length], b"question\n");
        assert_eq!(tls_layer(&connection).send(b"answer\n"), Ok(7));
        // openssl closes the connection.
        drop(input);
        assert_eq!(tls_layer(&connection).receive(&mut question), Ok(0));
        drop(connection);
        let output = client.finish(TIMEOUT);
        let expected = format!("Protocol version: {version}");
        assert!(output.stderr.contains(&expected), "{output:?}");
        assert_eq!(output.stdout, "answer\n", "{output:?}");
    }
}

#[test]
fn openssl_accepts() {
    if !has_openssl() {
        return;
    }
    // For a file that also has an encrypted key, openssl prompts for the pass phrase a second time.
    let sections = std::fs::read(certificate_file("server.pem")).expect("ours");
    let certificate = pem::parse(sections).expect("a certificate");
    let certificate_only = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(certificate_only.path(), pem::encode(&certificate)).expect("it is ours");
    for (method, version) in VERSIONS {
        // openssl returns each line reversed.
        let (server, _input) = start_openssl(&format!(
            "s_server -rev -naccept 1 -cert {} -key {} -pass pass:password -accept 127.0.0.1:0",
            certificate_only.path().display(),
            certificate_file("server.pem").display()
        ));
        let mut address = None;
        wait_until(TIMEOUT, || {
            let stdout = server.stdout();
            let mut lines = stdout.split_inclusive('\n');
            address = lines.find_map(|line| Some(line.strip_prefix("ACCEPT ")?.to_owned()));
            address
                .as_ref()
                .is_some_and(|address| address.ends_with('\n'))
        });
        let address = address.expect("where it listens");
        let flowop = ssl_flowop(FlowopKind::Connect, method, "");
        let verifying = settings_with_files(None, Some("authority.pem"));
        let contexts = prepare_contexts(&verifying, &flowop).expect("contexts");
        let stream = TcpStream::connect(address.trim_end()).expect("it listens");
        let connection = establish(stream, &contexts, &flowop, &Stop::new()).expect(method);
        assert_eq!(tls_layer(&connection).send(b"abc\n"), Ok(4));
        let mut answer = [0; 64];
        let length = tls_layer(&connection)
            .receive(&mut answer)
            .expect("an answer");
        assert_eq!(&answer[..length], b"cba\n");
        drop(connection);
        let stderr = server.finish(TIMEOUT).stderr;
        let expected = format!("Protocol version: {version}");
        assert!(stderr.contains(&expected), "{stderr}");
        assert!(stderr.contains("CONNECTION CLOSED"), "{stderr}");
    }
}
