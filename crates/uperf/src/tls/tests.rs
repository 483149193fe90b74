//! TLS with OpenSSL at the other end.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use engine::Stop;
use engine::script::{Connection, Layer};
use testkit::{Process, eventually, required};

use super::{Contexts, Security};
use crate::options::Tls;
use crate::workorder::{Flowop, Group, Kind, Protocol};

/// A file of the tests' certificates.
pub(super) fn file(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
    PathBuf::from(directory).join(name)
}

/// A flowop that opens an SSL connection.
pub(super) fn flowop(kind: Kind, method: &str, cipher: &str) -> Flowop {
    let mut flowop = Flowop::opening(kind, Protocol::Ssl);
    let endpoint = &mut flowop.endpoint;
    "127.0.0.1".clone_into(&mut endpoint.remote_host);
    method.clone_into(&mut endpoint.method);
    cipher.clone_into(&mut endpoint.cipher);
    flowop
}

/// What it is opened with.
pub(super) fn contexts(security: &Security, flowop: &Flowop) -> Result<Contexts, super::Trouble> {
    security.prepare(&Group::of([flowop.clone()]))
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
    assert!(is_here || !required(), "no openssl, and peers are required");
    if !is_here {
        eprintln!("SKIPPED: no openssl (Debian: openssl)");
    }
    is_here
}

/// OpenSSL's program, which ends with its test, and its standard input.
fn openssl(words: &str) -> (Process, UnixStream) {
    let (input, its) = UnixStream::pair().expect("two sockets");
    let mut command = Command::new("openssl");
    let command = command.args(words.split(' '));
    let process = Process::start_with_input(command, OwnedFd::from(its).into());
    (process, input)
}

const PATIENCE: Duration = Duration::from_secs(20);

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
        let (client, mut input) = openssl(&format!(
            "s_client -brief -verify_return_error -CAfile {} -connect 127.0.0.1:{port}",
            authority.display()
        ));
        let flowop = flowop(Kind::Accept, method, "");
        let contexts = contexts(&security(Some("server.pem"), None), &flowop).expect("contexts");
        let (stream, _) = listener.accept().expect("a client");
        let connection = over(stream, &contexts, &flowop, &Stop::new()).expect(method);
        input.write_all(b"question\n").expect("it reads");
        let mut question = [0; 64];
        let length = layer(&connection)
            .receive(&mut question)
            .expect("a question");
        assert_eq!(&question[..length], b"question\n");
        assert_eq!(layer(&connection).send(b"answer\n"), Ok(7));
        // It hangs up.
        drop(input);
        assert_eq!(layer(&connection).receive(&mut question), Ok(0));
        drop(connection);
        let said = client.finish(PATIENCE);
        let expected = format!("Protocol version: {version}");
        assert!(said.stderr.contains(&expected), "{said:?}");
        assert_eq!(said.stdout, "answer\n", "{said:?}");
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
        let (server, _input) = openssl(&format!(
            "s_server -rev -naccept 1 -cert {} -key {} -pass pass:password -accept 127.0.0.1:0",
            alone.path().display(),
            file("server.pem").display()
        ));
        let mut place = None;
        eventually(PATIENCE, || {
            let stdout = server.stdout();
            let mut lines = stdout.split_inclusive('\n');
            place = lines.find_map(|line| Some(line.strip_prefix("ACCEPT ")?.to_owned()));
            place.as_ref().is_some_and(|place| place.ends_with('\n'))
        });
        let place = place.expect("where it listens");
        let flowop = flowop(Kind::Connect, method, "");
        let asking = security(None, Some("authority.pem"));
        let contexts = contexts(&asking, &flowop).expect("contexts");
        let stream = TcpStream::connect(place.trim_end()).expect("it listens");
        let connection = over(stream, &contexts, &flowop, &Stop::new()).expect(method);
        assert_eq!(layer(&connection).send(b"abc\n"), Ok(4));
        let mut answer = [0; 64];
        let length = layer(&connection).receive(&mut answer).expect("an answer");
        assert_eq!(&answer[..length], b"cba\n");
        drop(connection);
        let stderr = server.finish(PATIENCE).stderr;
        let expected = format!("Protocol version: {version}");
        assert!(stderr.contains(&expected), "{stderr}");
        assert!(stderr.contains("CONNECTION CLOSED"), "{stderr}");
    }
}
