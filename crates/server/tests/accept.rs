//! A dialect's way to its clients: listening, and taking the data connection of one.

use std::fmt::Arguments;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use control::ControlConnection;
use engine::Stop;
use model::Transport;
use server::{Dialect, ServerConfig, ServerContext, Service, listen};
use sys::{Address, Socket};

/// More than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

struct Silent;

impl Dialect for Silent {
    const NAME: &'static str = "silent";

    fn serve(&self, _: &mut ControlConnection, _: ServerContext<'_>) -> io::Result<()> {
        Ok(())
    }

    fn log(&self, _: Arguments<'_>) {}
}

#[test]
fn a_client_is_awaited_as_long_as_it_is_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let listener = Socket::from(listener);
    let service = &Service::new(ServerConfig::default(), Stop::new());
    let server = ServerContext {
        service,
        dialect: Silent::NAME,
        stop: service.stop(),
        cut: service.cut(),
        before: 0,
    };
    let client = TcpStream::connect(at).unwrap();
    let (control, _) = listener.accept().unwrap();
    let control = ControlConnection::new(control, Stop::new()).unwrap();
    let accept = |patience| server.accept_data(&Silent, &control, &listener, patience);
    let late = accept(Duration::from_millis(1)).unwrap_err();
    assert!(control::is_late(&late), "{late}");
    let data = TcpStream::connect(at).unwrap();
    let accepted = Address::of_peer(&accept(PATIENCE).unwrap()).unwrap();
    assert_eq!(accepted, data.local_addr().unwrap().into());
    drop(client);
    let gone = accept(PATIENCE).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let any = Address::Inet(([127, 0, 0, 1], 0).into());
    let first = listen(Transport::Tcp, &[any], false).unwrap();
    let taken = Address::of(&first[0]).unwrap();
    let refused = listen(Transport::Tcp, std::slice::from_ref(&taken), false).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    let expected = format!("{taken}: Address already in use");
    assert_eq!(refused.to_string(), expected);
}
