//! Runs a test on several SCTP associations.

use std::os::fd::AsFd;
use std::time::Instant;

use engine::{ConnectError, FlowSockets, MeasuredPhase, Stop, connect};
use sys::call::KernelAddress;
use sys::{Address, Socket};

use super::super::ClientError;
use super::super::interim::Progress;
use super::prepare::open_socket;
use super::{DRAIN_TIMEOUT, FlowRun, LocalEnd, connect_error};

impl LocalEnd<'_> {
    /// Runs one loop whose passes use this number of SCTP associations in turn. Each association
    /// has its own socket, because a socket has only one association with a peer address.
    pub(super) fn run_associations(
        &mut self,
        associations: u32,
        dest: &Address,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
    ) -> Result<FlowRun, ClientError> {
        let mut sockets = Vec::new();
        let mut bind = self.source.clone();
        for _ in 0..associations {
            let options = &self.plan.local.socket;
            let socket = open_socket(self.plan.transport, &bind, options)?.socket;
            if let Err(ConnectError::Failed(error)) = connect(&socket, dest, &phase.stop) {
                return Err(connect_error(dest, error));
            }
            // Closing then waits until the peer has received all data and the end of the stream.
            let _ = socket.set_linger(Some(DRAIN_TIMEOUT));
            sockets.push(socket);
            bind = bind.with_any_port();
        }
        progress.answer.record_answer();
        let to = KernelAddress::try_from(dest).map_err(|error| connect_error(dest, error))?;
        let round_robin = sockets
            .iter()
            .map(|socket| (socket.as_fd(), to.clone()))
            .collect();
        let result = self.run_loop(
            self.plan.limit,
            phase,
            progress,
            FlowSockets::RoundRobin(round_robin),
        );
        let run = self.finished_run(result);
        let (stop, _deadline) = phase.abort_stop.child_until(Instant::now() + DRAIN_TIMEOUT);
        close_all(sockets, &stop);
        if !self.plan.workload.receives() {
            phase.stop_clock();
        }
        Ok(run)
    }
}

/// Closes lingering sockets one after the other; the others continue to send meanwhile. After
/// `stop`, the kernel closes the remaining ones in the background.
fn close_all(sockets: Vec<Socket>, stop: &Stop) {
    let _registration = stop.register_thread();
    for socket in sockets {
        if stop.is_set() {
            let _ = socket.set_linger(None);
        }
        drop(socket);
    }
}
