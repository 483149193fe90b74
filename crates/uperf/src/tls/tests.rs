//! TLS with OpenSSL at the other end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use engine::Stop;
use engine::script::{Connection, Layer};

use super::{Contexts, Security};
use crate::options::Tls;
use crate::workorder::{Flowop, Group, Kind, Protocol, Transaction};

/// A file of the tests' certificates.
pub(super) fn file(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
    PathBuf::from(directory).join(name)
}

/// A flowop that opens an SSL connection.
pub(super) fn flowop(kind: Kind, method: &str, cipher: &str) -> Flowop {
    let mut flowop = Flowop::new(kind);
    let endpoint = &mut flowop.endpoint;
    endpoint.protocol = Some(Protocol::Ssl);
    "127.0.0.1".clone_into(&mut endpoint.remote_host);
    method.clone_into(&mut endpoint.method);
    cipher.clone_into(&mut endpoint.cipher);
    flowop
}

/// What it is opened with.
pub(super) fn contexts(security: &Security, flowop: &Flowop) -> Result<Contexts, super::Trouble> {
    let flowops = vec![flowop.clone()];
    security.prepare(&Group {
        transactions: vec![Transaction {
            flowops,
            ..Transaction::default()
        }],
        ..Group::default()
    })
}

/// Two ends of a TCP connection.
pub(super) fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let one = TcpStream::connect(address).expect("it listens");
    (one, listener.accept().expect("it was connected").0)
}

/// The handshake over a connected socket.
pub(super) fn over(
    socket: impl Into<OwnedFd>,
    contexts: &Contexts,
    flowop: &Flowop,
    stop: &Stop,
) -> Result<Connection, engine::script::Failure> {
    contexts.over(Connection::Socket(socket.into()), flowop, stop)
}

/// The layer of a connection.
pub(super) fn layer(connection: &Connection) -> std::cell::RefMut<'_, Box<dyn Layer>> {
    match connection {
        Connection::Layered(layer, _) => layer.borrow_mut(),
        other => panic!("no TLS: {other:?}"),
    }
}

/// An end with the certificate of one file, and the authorities of another.
pub(super) fn security(certificate: Option<&str>, authorities: Option<&str>) -> Security {
    let tls = Tls {
        certificate: certificate.map(file),
        authorities: authorities.map(file),
        ..Tls::default()
    };
    Security::of_slave(&tls, false).expect("good files")
}

/// Whether OpenSSL's program is here; where it must be, it is.
fn has_openssl() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let is_here = version.is_ok_and(|version| version.status.success());
    let required = std::env::var_os("LINERATE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(is_here || !required, "no openssl, and peers are required");
    if !is_here {
        eprintln!("SKIPPED: no openssl (Debian: openssl)");
    }
    is_here
}

/// OpenSSL's program, which ends with its test.
struct Openssl(Child);

impl Openssl {
    fn start(words: &str) -> Self {
        let child = Command::new("openssl")
            .args(words.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.expect("it is here"))
    }

    /// What it has said on stdout since, and on stderr, to its end.
    fn finish(mut self) -> [String; 2] {
        let mut said = [String::new(), String::new()];
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut said[0]).expect("text");
        }
        let mut stderr = self.0.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said[1]).expect("text");
        said
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const VERSIONS: [(&str, &str); 2] = [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")];

#[test]
fn openssl_connects() {
    if !has_openssl() {
        return;
    }
    for (method, version) in VERSIONS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let authority = file("authority.pem");
        let mut client = Openssl::start(&format!(
            "s_client -brief -verify_return_error -CAfile {} -connect 127.0.0.1:{port}",
            authority.display()
        ));
        let flowop = flowop(Kind::Accept, method, "");
        let contexts = contexts(&security(Some("server.pem"), None), &flowop).expect("contexts");
        let (stream, _) = listener.accept().expect("a client");
        let connection = over(stream, &contexts, &flowop, &Stop::new()).expect(method);
        let mut stdin = client.0.stdin.take().expect("a pipe");
        stdin.write_all(b"question\n").expect("it reads");
        let mut question = [0; 64];
        let length = layer(&connection)
            .receive(&mut question)
            .expect("a question");
        assert_eq!(&question[..length], b"question\n");
        assert_eq!(layer(&connection).send(b"answer\n"), Ok(7));
        // It hangs up.
        drop(stdin);
        assert_eq!(layer(&connection).receive(&mut question), Ok(0));
        drop(connection);
        let [stdout, stderr] = client.finish();
        let expected = format!("Protocol version: {version}");
        assert!(stderr.contains(&expected), "{stderr}");
        assert_eq!(stdout, "answer\n", "{stderr}");
    }
}

#[test]
fn openssl_accepts() {
    if !has_openssl() {
        return;
    }
    // Of a file with an encrypted key it would ask for the pass phrase twice, at the terminal.
    let sections = std::fs::read(file("server.pem")).expect("ours");
    let certificate = pem::parse(sections).expect("a certificate");
    let alone = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(alone.path(), pem::encode(&certificate)).expect("it is ours");
    for (method, version) in VERSIONS {
        // It answers each line, turned round.
        let mut server = Openssl::start(&format!(
            "s_server -rev -naccept 1 -cert {} -key {} -pass pass:password -accept 127.0.0.1:0",
            alone.path().display(),
            file("server.pem").display()
        ));
        let stdout = BufReader::new(server.0.stdout.take().expect("a pipe"));
        let place = stdout
            .lines()
            .find_map(|line| Some(line.ok()?.strip_prefix("ACCEPT ")?.to_owned()))
            .expect("where it listens");
        let flowop = flowop(Kind::Connect, method, "");
        let asking = security(None, Some("authority.pem"));
        let contexts = contexts(&asking, &flowop).expect("contexts");
        let stream = TcpStream::connect(place).expect("it listens");
        let connection = over(stream, &contexts, &flowop, &Stop::new()).expect(method);
        assert_eq!(layer(&connection).send(b"abc\n"), Ok(4));
        let mut answer = [0; 64];
        let length = layer(&connection).receive(&mut answer).expect("an answer");
        assert_eq!(&answer[..length], b"cba\n");
        drop(connection);
        let [_, stderr] = server.finish();
        let expected = format!("Protocol version: {version}");
        assert!(stderr.contains(&expected), "{stderr}");
        assert!(stderr.contains("CONNECTION CLOSED"), "{stderr}");
    }
}
