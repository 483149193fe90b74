//! Where sessions wait for their streams: control and data come to one port, and the cookie says whose a connection is.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::ControlConnection;
use sys::Socket;

use crate::wire::Cookie;

/// The sessions that wait for streams.
#[derive(Debug, Default)]
pub(super) struct Lobby(Mutex<HashMap<Cookie, Sender<(u64, Socket)>>>);

/// A session's place, as long as it is held.
#[derive(Debug)]
pub(super) struct Place<'a> {
    lobby: &'a Lobby,
    cookie: Cookie,
    /// The streams that have come, each with its number in the order in which they were accepted.
    pub(super) streams: Receiver<(u64, Socket)>,
}

impl Lobby {
    /// Waits for streams with this cookie; `None` if another session does.
    pub(super) fn enter(&self, cookie: Cookie) -> Option<Place<'_>> {
        let (sender, streams) = channel();
        let mut waiting = self.waiting();
        if waiting.contains_key(&cookie) {
            return None;
        }
        waiting.insert(cookie, sender);
        Some(Place {
            lobby: self,
            cookie,
            streams,
        })
    }

    /// Hands a connection to the session that waits for it; whether one does.
    pub(super) fn deliver(
        &self,
        cookie: &Cookie,
        connection: &ControlConnection,
        number: u64,
    ) -> io::Result<bool> {
        let waiting = self.waiting();
        let Some(sender) = waiting.get(cookie) else {
            return Ok(false);
        };
        // A session that has just left closes it.
        let _ = sender.send((number, connection.as_data()?));
        Ok(true)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Cookie, Sender<(u64, Socket)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lobby.waiting().remove(&self.cookie);
    }
}
