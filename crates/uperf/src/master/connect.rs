//! A slave as seen by the master: its control connection and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{ConnectFailures, ControlConnection, describe_error};
use engine::Stop;
use model::Transport;
use sys::Address;
use sys::call::Error;
use sys::resolve::{AddressFamily, resolve};

use super::{MasterError, probe};
use crate::peer_workorder;
use crate::strand::{Listeners, PeerHost, unreachable_reason, whole_ticks};
use crate::wire::{
    DataVersion, Endian, FlowopLayout, Goodbye, HANDSHAKE_END, Header, MasterCommand, Phase1Answer,
    Phase2Answer, SlaveInfo, WorkRecords,
};
use crate::{DataProtocol, Flowop, GroupSpec};

/// How long a slave may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a slave may take to answer phase 1, before the master assumes the oldest protocol
/// version.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// How long slaves may take to end their strands and report their results, as in uperf.
pub(super) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(15);

/// [`GOODBYE_TIMEOUT`] after a failure.
pub(super) const FAILED_GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// One slave of one group.
#[derive(Debug)]
pub(super) struct Slave {
    /// Its name in the profile.
    pub(super) host: String,
    /// Index of the group.
    pub(super) group: usize,
    pub(super) control: ControlConnection,
    /// The slave is a linerate. It needs no additional time to reach its barriers.
    pub(super) is_linerate: bool,
    /// Index of the first idle transaction that the master adds for it, if its strands must not
    /// end.
    pub(super) idle_transaction: Option<u32>,
    /// Number of operations to subtract from its statistics: it counts the end of each strand as
    /// one.
    pub(super) extra_operations: u32,
    /// Its goodbye message, or the error of its lost connection; `None` before either.
    pub(super) goodbye: Option<io::Result<Goodbye>>,
    /// Layout of flowops on the wire.
    pub(super) layout: FlowopLayout,
    control_protocol: DataProtocol,
    stop: Stop,
}

impl Slave {
    /// Connects to the slave on a host.
    pub(super) fn connect(
        host: &str,
        group: usize,
        control_protocol: DataProtocol,
        port: u32,
        stop: &Stop,
    ) -> Result<Self, MasterError> {
        let connect_error = |reason: String| MasterError::Connecting {
            host: host.to_owned(),
            reason,
        };
        let addresses = addresses(host, control_protocol, port).map_err(connect_error)?;
        let control = ControlConnection::connect_any(transport(control_protocol), &addresses, stop)
            .map_err(|failures| connect_error(describe_last_attempt(failures, control_protocol)))?;
        Ok(Self {
            host: host.to_owned(),
            group,
            is_linerate: false,
            idle_transaction: None,
            extra_operations: 0,
            goodbye: None,
            layout: FlowopLayout::WithBatchSize,
            control,
            control_protocol,
            stop: stop.clone(),
        })
    }

    /// Phase 1: negotiates the protocol version and checks that the slave supports the protocols of
    /// the group.
    pub(super) fn negotiate(&mut self, group: &GroupSpec) -> Result<(), MasterError> {
        if let Some(reason) = self.unreachable_reason(group) {
            return Err(MasterError::Unsendable {
                host: self.host.clone(),
                reason,
            });
        }
        let answer = match self.exchange_headers(DataVersion::V0_3_1, group, FIRST_ANSWER_TIMEOUT) {
            // The oldest slaves expect a longer header.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.layout = FlowopLayout::V1_0_7;
                self.open_second_connection()
                    .and_then(|control| {
                        self.control = control;
                        self.exchange_headers(DataVersion::V0_3, group, ANSWER_TIMEOUT)
                    })
                    .map_err(|error| self.lost_error("phase 1", &error))?
            }
            other => other.map_err(|error| self.lost_error("phase 1", &error))?,
        };
        match Phase1Answer::decode(&answer) {
            Phase1Answer::Ok => {
                self.is_linerate = Phase1Answer::is_linerate(&answer);
                Ok(())
            }
            Phase1Answer::Refused(reason) => Err(MasterError::Refused {
                host: self.host.clone(),
                phase: 1,
                reason: explain_refusal(&reason.to_string(), group),
            }),
        }
    }

    /// Returns the reason if a data connection of the group to this slave is impossible.
    fn unreachable_reason(&self, group: &GroupSpec) -> Option<String> {
        let is_of_slave = |flowop: &&Flowop| {
            let host = &flowop.endpoint.remote_host;
            host.eq_ignore_ascii_case(&self.host)
        };
        let mut protocols = group
            .opening_flowops()
            .filter(is_of_slave)
            .filter_map(|flowop| flowop.endpoint.protocol);
        protocols.find_map(|protocol| unreachable_reason(protocol, &self.control))
    }

    /// Detects the flowop layout of a stock slave. If this fails, assumes the newest layout.
    pub(super) fn probe_layout(&mut self) {
        if self.is_linerate || self.layout != FlowopLayout::WithBatchSize {
            return;
        }
        let detected = self
            .open_second_connection()
            .and_then(|control| probe::probe_layout(&control));
        self.layout = detected.unwrap_or(FlowopLayout::WithBatchSize);
    }

    fn exchange_headers(
        &self,
        version: DataVersion,
        group: &GroupSpec,
        timeout: Duration,
    ) -> io::Result<[u8; Phase1Answer::LEN]> {
        let header = Header::for_phase_1(version, peer_workorder::protocols(group));
        self.control
            .write(&header.encode(Endian::NATIVE), ANSWER_TIMEOUT)?;
        self.control.read(Instant::now() + timeout)
    }

    fn open_second_connection(&self) -> io::Result<ControlConnection> {
        let (transport, to) = (transport(self.control_protocol), self.control.peer());
        ControlConnection::connect(
            transport,
            &to.with_any_host().with_any_port(),
            to,
            &self.stop,
        )
    }

    /// Phase 2: sends the workorder and the local ports. Returns the slave with its ports.
    pub(super) fn assign(
        &mut self,
        group: &GroupSpec,
        listeners: &[Listeners],
    ) -> Result<PeerHost, MasterError> {
        let mut work = peer_workorder::records_for_host(group, &self.host)
            .map_err(|error| self.unsendable_error(&error))?;
        if !self.is_linerate {
            self.adapt_to_stock(&mut work, group);
        }
        work.check_layout(self.layout)
            .map_err(|error| self.unsendable_error(&error))?;
        let mut strand_ports = Vec::new();
        if peer_workorder::accepts_connections(group) {
            let local_address = self.control.local_address();
            strand_ports.extend(
                listeners
                    .iter()
                    .map(|strand| strand.ports(local_address.as_ref())),
            );
        }
        let answer = self
            .send_work(&work, &strand_ports)
            .map_err(|error| self.lost_error("phase 2", &error))?;
        let count = match answer {
            Phase2Answer::Ok { slave_infos } => slave_infos,
            Phase2Answer::Refused(reason) => {
                return Err(MasterError::Refused {
                    host: self.host.clone(),
                    phase: 2,
                    reason: reason.to_string(),
                });
            }
        };
        if count != 0 && count != group.strands.count {
            let error = io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{count} listeners for {} strands", group.strands.count),
            );
            return Err(self.lost_error("phase 2", &error));
        }
        let ports = self
            .read_ports(count)
            .map_err(|error| self.lost_error("phase 2", &error))?;
        let mut peer = PeerHost::new(&self.host, &self.control, ports);
        peer.replies_from_any_address = !self.is_linerate;
        Ok(peer)
    }

    /// Changes work that a stock slave would end too early or that would crash it.
    fn adapt_to_stock(&mut self, work: &mut WorkRecords, group: &GroupSpec) {
        for transaction in &mut work.transactions {
            let nanoseconds = &mut transaction.record.duration_ns;
            let duration = whole_ticks(Duration::from_nanos(*nanoseconds));
            *nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(*nanoseconds);
        }
        if peer_workorder::shares_listener(group, &self.host) {
            self.idle_transaction = Some(work.transactions.len() as u32);
            peer_workorder::park_strands(work);
        }
    }

    /// Ends the handshake. The slave's strands are ready afterwards.
    pub(super) fn finish_handshake(&self) -> Result<(), MasterError> {
        let echo = self
            .control
            .write(&HANDSHAKE_END, ANSWER_TIMEOUT)
            .and_then(|()| {
                self.control
                    .read::<{ HANDSHAKE_END.len() }>(Instant::now() + ANSWER_TIMEOUT)
            });
        echo.map(drop).map_err(|error| MasterError::HandshakeEnd {
            host: self.host.clone(),
            reason: describe_error(&error),
        })
    }

    /// Returns the command that starts a transaction; `None` if the slave does not run it.
    pub(super) fn next_command(&self, stage: u32) -> Option<MasterCommand> {
        let has_transaction = self.idle_transaction.is_none_or(|idle| stage < idle);
        has_transaction.then_some(MasterCommand::NextTransaction(stage))
    }

    /// Returns the commands that make the slave report the statistics of its strands.
    pub(super) fn final_commands(&mut self, strands: u32) -> Vec<MasterCommand> {
        match self.idle_transaction {
            None => {
                self.extra_operations = strands;
                vec![MasterCommand::SendStatistics]
            }
            Some(idle) => vec![MasterCommand::NextTransaction(idle), MasterCommand::Abort],
        }
    }

    /// Sends a command. Errors are ignored: a lost slave is detected by its missing answer.
    pub(super) fn send_command(&self, command: MasterCommand) {
        let _ = self
            .control
            .write(&command.encode(Endian::NATIVE), ANSWER_TIMEOUT);
    }

    /// Whether a message from the slave is readable, or its connection is closed.
    pub(super) fn has_message(&self) -> bool {
        let now = Instant::now();
        self.goodbye.is_none() && self.control.wait_readable(now).unwrap_or(true)
    }

    /// Waits for the goodbye message, if it has not arrived yet.
    pub(super) fn await_goodbye(&mut self, deadline: Instant) {
        if self.goodbye.is_none() {
            self.goodbye = Some(self.read_goodbye(deadline));
        }
    }

    fn read_goodbye(&self, deadline: Instant) -> io::Result<Goodbye> {
        let bytes = self.control.read(deadline)?;
        Goodbye::decode(&bytes, Endian::NATIVE).map_err(|magic| {
            let text = format!("Wrong goodbye magic: {}", magic.0);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn send_work(&self, work: &WorkRecords, infos: &[SlaveInfo]) -> io::Result<Phase2Answer> {
        let header = Header::for_phase_2(self.layout.version(), infos.len() as u32);
        let mut bytes = header.encode(Endian::NATIVE);
        bytes.extend(work.encode(self.layout, Endian::NATIVE));
        for info in infos {
            bytes.extend(info.encode(Endian::NATIVE));
        }
        self.control.write(&bytes, ANSWER_TIMEOUT)?;
        let answer = self.control.read(Instant::now() + ANSWER_TIMEOUT)?;
        Ok(Phase2Answer::decode(&answer, Endian::NATIVE))
    }

    fn read_ports(&self, count: u32) -> io::Result<Arc<[SlaveInfo]>> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let infos = (0..count).map(|_| {
            let bytes = self.control.read(deadline)?;
            Ok(SlaveInfo::decode(&bytes, Endian::NATIVE))
        });
        infos.collect()
    }

    fn lost_error(&self, stage: &'static str, error: &io::Error) -> MasterError {
        MasterError::Lost {
            host: self.host.clone(),
            stage: stage.to_owned(),
            reason: describe_error(error),
        }
    }

    fn unsendable_error(&self, error: &impl fmt::Display) -> MasterError {
        MasterError::Unsendable {
            host: self.host.clone(),
            reason: error.to_string(),
        }
    }
}

/// Explains a refusal that is misleading. The protocols that only linerate supports have numbers
/// that a stock uperf reports as uDAPL.
fn explain_refusal(reason: &str, group: &GroupSpec) -> String {
    let linerate_protocols = [DataProtocol::Unix, DataProtocol::Mptcp];
    let mut protocols = peer_workorder::protocols(group).into_iter();
    match protocols.find(|protocol| linerate_protocols.contains(protocol)) {
        Some(protocol) if reason.ends_with("uDAPL") => {
            format!("{reason} (the slave is a stock uperf; only linerate supports {protocol})")
        }
        _ => reason.to_owned(),
    }
}

fn addresses(
    host: &str,
    control_protocol: DataProtocol,
    port: u32,
) -> Result<Vec<Address>, String> {
    if control_protocol == DataProtocol::Vsock {
        let context = host
            .parse()
            .map_err(|_| format!("invalid VSOCK context: {host}"))?;
        return Ok(vec![Address::Vsock { context, port }]);
    }
    let port = u16::try_from(port).map_err(|_| format!("invalid port: {port}"))?;
    let found = resolve(host, AddressFamily::Any);
    let found = found.map_err(|error| format!("name_to_addr({host}): {}", error.text))?;
    Ok(found.with_port(port))
}

fn transport(control_protocol: DataProtocol) -> Transport {
    match control_protocol {
        DataProtocol::Vsock => Transport::Vsock,
        DataProtocol::Sctp => Transport::Sctp,
        _ => Transport::Tcp,
    }
}

/// Describes the last connection attempt in the words of stock uperf.
fn describe_last_attempt(
    ConnectFailures(mut attempts): ConnectFailures,
    control_protocol: DataProtocol,
) -> String {
    let Some((address, error)) = attempts.pop() else {
        return "no address".to_owned();
    };
    let protocol = control_protocol.name().to_ascii_uppercase();
    // Only socket(2) returns this error.
    let action = match Error::from_io_error(&error) {
        Some(Error::PROTONOSUPPORT) => "create socket".to_owned(),
        _ => format!("connect to {address}"),
    };
    format!("{protocol}: Cannot {action} {}", describe_error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowopKind;

    #[test]
    fn refusals_of_linerate_protocols_are_explained() {
        for (protocol, expected) in [
            (
                DataProtocol::Mptcp,
                "Unsupported protocol:uDAPL \
                 (the slave is a stock uperf; only linerate supports mptcp)",
            ),
            (DataProtocol::Tcp, "Unsupported protocol:uDAPL"),
        ] {
            let group =
                GroupSpec::with_flowops([Flowop::with_protocol(FlowopKind::Connect, protocol)]);
            assert_eq!(
                explain_refusal("Unsupported protocol:uDAPL", &group),
                expected
            );
        }
    }
}
