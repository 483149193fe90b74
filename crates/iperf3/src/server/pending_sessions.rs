//! The sessions that wait for their data streams.
//!
//! Control and data connections arrive at one port. The cookie identifies the session of a data
//! connection.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::ControlConnection;
use sys::Socket;

use crate::wire::Cookie;

/// The sessions that wait for streams, by their cookies.
#[derive(Debug, Default)]
pub(super) struct PendingSessions(Mutex<HashMap<Cookie, Sender<(u64, Socket)>>>);

/// A session's registration; dropping it removes the session.
#[derive(Debug)]
pub(super) struct PendingSession<'a> {
    sessions: &'a PendingSessions,
    cookie: Cookie,
    /// The streams that arrived, each with its number in the order of acceptance.
    pub(super) streams: Receiver<(u64, Socket)>,
}

impl PendingSessions {
    /// Registers a session for streams with this cookie; `None` if the cookie is already in use.
    pub(super) fn register(&self, cookie: Cookie) -> Option<PendingSession<'_>> {
        let (sender, streams) = channel();
        let mut sessions = self.lock();
        if sessions.contains_key(&cookie) {
            return None;
        }
        sessions.insert(cookie, sender);
        Some(PendingSession {
            sessions: self,
            cookie,
            streams,
        })
    }

    /// Passes a connection to the session with this cookie. Returns whether there is one.
    pub(super) fn deliver_stream(
        &self,
        cookie: &Cookie,
        connection: &ControlConnection,
        number: u64,
    ) -> io::Result<bool> {
        let sessions = self.lock();
        let Some(sender) = sessions.get(cookie) else {
            return Ok(false);
        };
        // If the session has just ended, the connection is closed.
        let _ = sender.send((number, connection.to_data_socket()?));
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Cookie, Sender<(u64, Socket)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingSession<'_> {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.cookie);
    }
}
