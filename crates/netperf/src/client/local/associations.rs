//! A test on several SCTP associations.

use std::os::fd::AsFd;
use std::time::Instant;

use engine::{ConnectError, Flow, MeasuredPhase, Stop, connect};
use sys::call::Peer;
use sys::{Address, Socket};

use super::super::ClientError;
use super::super::interim::Progress;
use super::prepare::open_socket;
use super::{DRAIN_PATIENCE, LocalEnd, Moved, unreachable};

impl LocalEnd<'_> {
    /// Runs on so many SCTP associations in turn, each with a socket of its own: the peer is one
    /// address, with which a socket has one association.
    pub(super) fn run_associations(
        &mut self,
        associations: u32,
        dest: &Address,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
    ) -> Result<Moved, ClientError> {
        let mut sockets = Vec::new();
        let mut bind = self.source.clone();
        for _ in 0..associations {
            let options = &self.plan.here.socket;
            let socket = open_socket(self.plan.transport, &bind, options)?.socket;
            if let Err(ConnectError::Failed(error)) = connect(&socket, dest, &phase.stop) {
                return Err(unreachable(dest, error));
            }
            // Closing then waits until the peer has all that was sent, and knows of the end.
            let _ = socket.set_linger(Some(DRAIN_PATIENCE));
            sockets.push(socket);
            bind = bind.with_any_port();
        }
        progress.answer.came();
        let to = Peer::try_from(dest).map_err(|error| unreachable(dest, error))?;
        let in_turn = sockets
            .iter()
            .map(|socket| (socket.as_fd(), to.clone()))
            .collect();
        let ran = self.run_loop(self.plan.limit, phase, progress, Flow::InTurn(in_turn));
        let moved = self.moved(ran);
        let (patience, _deadline) = phase.cut.follower_until(Instant::now() + DRAIN_PATIENCE);
        close_all(sockets, &patience);
        if !self.plan.workload.receives() {
            phase.stop_clock();
        }
        Ok(moved)
    }
}

/// Closes sockets that linger, one after the other, while what the others hold flows on. From `stop` on
/// it waits for none, which leaves the rest to the kernel.
fn close_all(sockets: Vec<Socket>, stop: &Stop) {
    let _attending = stop.attend();
    for socket in sockets {
        if stop.is_set() {
            let _ = socket.set_linger(None);
        }
        drop(socket);
    }
}
