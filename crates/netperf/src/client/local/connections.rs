//! A test whose every transaction has a connection of its own.

use engine::{Connector, MeasuredPhase, Path, PortRange};
use model::SocketOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::Address;

use super::super::ClientError;
use super::super::interim::Progress;
use super::{LocalEnd, Moved, doubts, unreachable};
use crate::options::ConnectionPorts;

impl LocalEnd<'_> {
    pub(super) fn run_connections(
        &mut self,
        dest: &Address,
        ports: ConnectionPorts,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
    ) -> Result<Moved, ClientError> {
        let mut connector = self.connector(dest, ports, self.plan.here.socket.clone())?;
        let ran = self.run_loop(
            self.plan.limit,
            phase,
            progress,
            Path::Connector(&mut connector),
        );
        let mut socket = self.data.facts.clone();
        socket.retransmits = ran.retransmits;
        if let Some(first) = connector.first_facts() {
            socket.send_buffer_end_bytes = first.send_buffer_end_bytes;
            socket.receive_buffer_end_bytes = first.receive_buffer_end_bytes;
            socket.max_segment_bytes = first.max_segment_bytes;
            socket.data_in_syn = first.data_in_syn;
            socket.multipath = first.multipath;
        }
        let connections = progress.counters.counts().transactions;
        let reused = doubts::ports_reused(connections, range_of(ports), phase.passed.elapsed);
        self.doubts.extend(reused);
        Ok(Moved {
            ran,
            socket,
            tcp_info: None,
        })
    }

    /// Returns what opens connections from these ports, the first from any of them.
    pub(super) fn connector(
        &self,
        dest: &Address,
        ports: ConnectionPorts,
        options: SocketOptions,
    ) -> Result<Connector, ClientError> {
        Connector::new(
            self.plan.transport,
            dest.clone(),
            self.source.clone(),
            range_of(ports),
            SmallRng::from_os_rng().random(),
            options,
            ports.retry_all,
        )
        .map_err(|error| unreachable(dest, error))
    }
}

fn range_of(ports: ConnectionPorts) -> PortRange {
    PortRange {
        min: ports.min,
        max: ports.max,
    }
}
