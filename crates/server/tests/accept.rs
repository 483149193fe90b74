//! Tests of listening and of accepting a client's data connection.

use std::fmt::Arguments;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use control::ControlConnection;
use engine::Stop;
use model::Transport;
use server::{Dialect, ServerConfig, ServerContext, Service, listen};
use sys::{Address, Socket};

/// Timeout that a busy machine does not reach.
const TIMEOUT: Duration = Duration::from_secs(20);

struct Silent;

impl Dialect for Silent {
    const NAME: &'static str = "silent";

    fn serve(&self, _: &mut ControlConnection, _: ServerContext<'_>) -> io::Result<()> {
        Ok(())
    }

    fn log(&self, _: Arguments<'_>) {}
}

#[test]
fn the_wait_ends_when_the_client_disconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Socket::from(listener);
    let service = &Service::new(ServerConfig::default(), Stop::new());
    let server = ServerContext {
        service,
        dialect: Silent::NAME,
        stop: service.stop(),
        cancel_stop: service.cancel_stop(),
        client_number: 0,
    };
    let client = TcpStream::connect(address).unwrap();
    let (control, _) = listener.accept().unwrap();
    let control = ControlConnection::new(control, Stop::new()).unwrap();
    let accept = |timeout| server.accept_data(&Silent, &control, &listener, timeout);
    let error = accept(Duration::from_millis(1)).unwrap_err();
    assert!(control::is_timeout(&error), "{error}");
    let data = TcpStream::connect(address).unwrap();
    let accepted = Address::peer(&accept(TIMEOUT).unwrap()).unwrap();
    assert_eq!(accepted, data.local_addr().unwrap().into());
    drop(client);
    let error = accept(TIMEOUT).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_address_in_use_is_reported() {
    let address = Address::Inet(([127, 0, 0, 1], 0).into());
    let first = listen(Transport::Tcp, &[address], false).unwrap();
    let address = Address::local(&first[0]).unwrap();
    let error = listen(Transport::Tcp, std::slice::from_ref(&address), false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let expected = format!("{address}: Address already in use");
    assert_eq!(error.to_string(), expected);
}
