//! Runs a test with one connection per transaction.

use engine::{Connector, JobSockets, MeasuredPhase, PortRange};
use model::SocketOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::Address;

use super::super::ClientError;
use super::super::interim::Progress;
use super::{FlowRun, LocalEnd, connect_error, run_checks};
use crate::options::ConnectionPorts;

impl LocalEnd<'_> {
    pub(super) fn run_connections(
        &mut self,
        dest: &Address,
        ports: ConnectionPorts,
        phase: &mut MeasuredPhase<'_>,
        progress: Progress<'_>,
    ) -> Result<FlowRun, ClientError> {
        let mut connector = self.connector(dest, ports, self.plan.local.socket.clone())?;
        let result = self.run_loop(
            self.plan.limit,
            phase,
            progress,
            JobSockets::Connector(&mut connector),
        );
        let mut socket = self.data.facts.clone();
        socket.retransmits = result.retransmits;
        if let Some(first) = connector.first_facts() {
            socket.send_buffer_end_bytes = first.send_buffer_end_bytes;
            socket.receive_buffer_end_bytes = first.receive_buffer_end_bytes;
            socket.max_segment_bytes = first.max_segment_bytes;
            socket.data_in_syn = first.data_in_syn;
            socket.multipath = first.multipath;
        }
        let connections = progress.counters.counts().transactions;
        let warning =
            run_checks::reused_ports_warning(connections, port_range(ports), phase.times.elapsed);
        self.warnings.extend(warning);
        Ok(FlowRun {
            result,
            socket,
            tcp_info: None,
        })
    }

    /// Returns a connector with this range of source ports; it starts at a random one.
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
            port_range(ports),
            SmallRng::from_os_rng().random(),
            options,
            ports.retry_after_any_error,
        )
        .map_err(|error| connect_error(dest, error))
    }
}

fn port_range(ports: ConnectionPorts) -> PortRange {
    PortRange {
        first: ports.first,
        end: ports.end,
    }
}
