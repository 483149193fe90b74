//! The way to a slave: its control connection, and the handshake.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{ControlConnection, Unreached, why};
use engine::Stop;
use model::Transport;
use sys::Address;
use sys::call::Error;
use sys::resolve::{Wanted, resolve};

use super::{Trouble, probe};
use crate::mirror;
use crate::strand::{Listeners, PeerHost, obstacle, whole_ticks};
use crate::wire::{
    Ack1, Ack2, Command, END, Goodbye, Header, Layout, Order, SlaveInfo, Version, Work,
};
use crate::{Flowop, Group, Protocol};

/// How long a slave may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a slave may take to answer at first, before it is taken to be of the oldest.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// How long slaves may take to end their strands and tell what they did; uperf's.
pub(super) const GOODBYE: Duration = Duration::from_secs(15);

/// The same after a failure.
pub(super) const GOODBYE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// One slave of one group.
#[derive(Debug)]
pub(super) struct Slave {
    /// As the profile names it.
    pub(super) host: String,
    /// Index of the group.
    pub(super) group: usize,
    pub(super) control: ControlConnection,
    /// It is a linerate, which needs no time to come to its barriers.
    pub(super) is_ours: bool,
    /// Number of the transaction that its strands are parked after, if they must not end.
    pub(super) parks_at: Option<u32>,
    /// Ends of strands that its figures count as operations.
    pub(super) counted_ends: u32,
    /// What it said at the end, or how it was lost.
    pub(super) last_word: Option<io::Result<Goodbye>>,
    /// The form that it knows flowops in.
    pub(super) layout: Layout,
    over: Protocol,
    stop: Stop,
}

impl Slave {
    /// Connects to the slave on a host.
    pub(super) fn connect(
        host: &str,
        group: usize,
        over: Protocol,
        port: u32,
        stop: &Stop,
    ) -> Result<Self, Trouble> {
        let lost = |why: String| Trouble::Connecting {
            host: host.to_owned(),
            why,
        };
        let addresses = addresses(host, over, port).map_err(lost)?;
        let control = ControlConnection::reach(transport(over), &addresses, stop)
            .map_err(|unreached| lost(last_attempt(unreached, over)))?;
        Ok(Self {
            host: host.to_owned(),
            group,
            is_ours: false,
            parks_at: None,
            counted_ends: 0,
            last_word: None,
            layout: Layout::BatchSize,
            control,
            over,
            stop: stop.clone(),
        })
    }

    /// Phase 1: whether the slave speaks as we do, and has the protocols.
    pub(super) fn greet(&mut self, group: &Group) -> Result<(), Trouble> {
        if let Some(why) = self.obstacle(group) {
            return Err(Trouble::Unsendable {
                host: self.host.clone(),
                why,
            });
        }
        let answer = match self.say_hello(Version::V0_3_1, group, FIRST_ANSWER) {
            // The oldest wait for more than that.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.layout = Layout::V1_0_7;
                self.reopen()
                    .and_then(|control| {
                        self.control = control;
                        self.say_hello(Version::V0_3, group, PATIENCE)
                    })
                    .map_err(|error| self.lost("phase 1", &error))?
            }
            other => other.map_err(|error| self.lost("phase 1", &error))?,
        };
        match Ack1::decode(&answer) {
            Ack1::Ok => {
                self.is_ours = Ack1::is_of_linerate(&answer);
                Ok(())
            }
            Ack1::Refused(said) => Err(Trouble::Refused {
                host: self.host.clone(),
                phase: 1,
                said: explained(&said.to_string(), group),
            }),
        }
    }

    /// Why what the group opens with this slave cannot be.
    fn obstacle(&self, group: &Group) -> Option<String> {
        let host = |flowop: &&Flowop| {
            let host = &flowop.endpoint.remote_host;
            host.eq_ignore_ascii_case(&self.host)
        };
        let mut protocols = group
            .openings()
            .filter(host)
            .filter_map(|flowop| flowop.endpoint.protocol);
        protocols.find_map(|protocol| obstacle(protocol, &self.control))
    }

    /// Finds out in which form a stock slave knows flowops; one that does not say is taken to be of today.
    pub(super) fn probe(&mut self) {
        if self.is_ours || self.layout != Layout::BatchSize {
            return;
        }
        let found = self.reopen().and_then(|control| probe::layout(&control));
        self.layout = found.unwrap_or(Layout::BatchSize);
    }

    fn say_hello(
        &self,
        version: Version,
        group: &Group,
        patience: Duration,
    ) -> io::Result<[u8; Ack1::LEN]> {
        let header = Header::of_phase_1(version, mirror::protocols(group));
        self.control
            .write(&header.encode(Order::NATIVE), PATIENCE)?;
        self.control.read(Instant::now() + patience)
    }

    fn reopen(&self) -> io::Result<ControlConnection> {
        let (over, to) = (transport(self.over), self.control.peer());
        ControlConnection::connect(over, &to.anywhere().with_any_port(), to, &self.stop)
    }

    /// Phase 2: the workorder, and the ports of both ends.
    pub(super) fn assign(
        &mut self,
        group: &Group,
        listeners: &[Listeners],
    ) -> Result<PeerHost, Trouble> {
        let mut work = mirror::work(group, &self.host).map_err(|error| self.unsendable(&error))?;
        if !self.is_ours {
            self.suit_stock(&mut work, group);
        }
        work.check_layout(self.layout)
            .map_err(|error| self.unsendable(&error))?;
        let mut infos = Vec::new();
        if mirror::listens(group) {
            let here = self.control.here();
            infos.extend(listeners.iter().map(|one| one.ports(here.as_ref())));
        }
        let answer = self
            .send_work(&work, &infos)
            .map_err(|error| self.lost("phase 2", &error))?;
        let count = match answer {
            Ack2::Ok { slave_infos } => slave_infos,
            Ack2::Refused(said) => {
                return Err(Trouble::Refused {
                    host: self.host.clone(),
                    phase: 2,
                    said: said.to_string(),
                });
            }
        };
        if count != 0 && count != group.strands.count {
            let error = io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{count} listeners for {} strands", group.strands.count),
            );
            return Err(self.lost("phase 2", &error));
        }
        let ports = self
            .ports(count)
            .map_err(|error| self.lost("phase 2", &error))?;
        let mut peer = PeerHost::new(&self.host, &self.control, ports);
        peer.answers_from_anywhere = !self.is_ours;
        Ok(peer)
    }

    /// Changes what a stock slave would end too early by, or crash of.
    fn suit_stock(&mut self, work: &mut Work, group: &Group) {
        for transaction in &mut work.transactions {
            let nanoseconds = &mut transaction.record.duration_ns;
            let duration = whole_ticks(Duration::from_nanos(*nanoseconds));
            *nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(*nanoseconds);
        }
        if mirror::shares_listener(group, &self.host) {
            self.parks_at = Some(work.transactions.len() as u32);
            mirror::park(work);
        }
    }

    /// The end of the handshake: the slave's strands are there.
    pub(super) fn agree(&self) -> Result<(), Trouble> {
        let echo = self.control.write(&END, PATIENCE).and_then(|()| {
            self.control
                .read::<{ END.len() }>(Instant::now() + PATIENCE)
        });
        echo.map(drop).map_err(|error| Trouble::Phase3 {
            host: self.host.clone(),
            why: why(&error),
        })
    }

    /// Command that lets a transaction begin, if the slave is to have it.
    pub(super) fn next(&self, stage: u32) -> Option<Command> {
        let has_it = self.parks_at.is_none_or(|end| stage < end);
        has_it.then_some(Command::NextTransaction(stage))
    }

    /// Commands after which it reports the figures of so many strands.
    pub(super) fn end_of_run(&mut self, strands: u32) -> Vec<Command> {
        match self.parks_at {
            None => {
                self.counted_ends = strands;
                vec![Command::SendStatistics]
            }
            Some(end) => vec![Command::NextTransaction(end), Command::Abort],
        }
    }

    /// Sends a command; a slave that is lost is told by what it does not answer.
    pub(super) fn tell(&self, command: Command) {
        let _ = self.control.write(&command.encode(Order::NATIVE), PATIENCE);
    }

    /// Whether it has something to say, or is gone.
    pub(super) fn speaks(&self) -> bool {
        let now = Instant::now();
        self.last_word.is_none() && self.control.is_readable(now).unwrap_or(true)
    }

    /// Waits until then for its last word, if it has not said it.
    pub(super) fn hear(&mut self, until: Instant) {
        if self.last_word.is_none() {
            self.last_word = Some(self.goodbye(until));
        }
    }

    fn goodbye(&self, until: Instant) -> io::Result<Goodbye> {
        let bytes = self.control.read(until)?;
        Goodbye::decode(&bytes, Order::NATIVE).map_err(|magic| {
            let words = format!("Wrong goodbye magic: {}", magic.0);
            io::Error::new(io::ErrorKind::InvalidData, words)
        })
    }

    fn send_work(&self, work: &Work, infos: &[SlaveInfo]) -> io::Result<Ack2> {
        let header = Header::of_phase_2(self.layout.version(), infos.len() as u32);
        let mut bytes = header.encode(Order::NATIVE);
        bytes.extend(work.encode(self.layout, Order::NATIVE));
        for info in infos {
            bytes.extend(info.encode(Order::NATIVE));
        }
        self.control.write(&bytes, PATIENCE)?;
        let answer = self.control.read(Instant::now() + PATIENCE)?;
        Ok(Ack2::decode(&answer, Order::NATIVE))
    }

    fn ports(&self, count: u32) -> io::Result<Arc<[SlaveInfo]>> {
        let until = Instant::now() + PATIENCE;
        let infos = (0..count).map(|_| {
            let bytes = self.control.read(until)?;
            Ok(SlaveInfo::decode(&bytes, Order::NATIVE))
        });
        infos.collect()
    }

    fn lost(&self, stage: &'static str, error: &io::Error) -> Trouble {
        Trouble::Lost {
            host: self.host.clone(),
            stage: stage.to_owned(),
            why: why(error),
        }
    }

    fn unsendable(&self, error: &impl fmt::Display) -> Trouble {
        Trouble::Unsendable {
            host: self.host.clone(),
            why: error.to_string(),
        }
    }
}

/// What a slave says, and what it means where that is not plain: linerate's own protocols are announced
/// as one that no uperf has.
fn explained(said: &str, group: &Group) -> String {
    let own = [Protocol::Unix, Protocol::Mptcp];
    let mut protocols = mirror::protocols(group).into_iter();
    match protocols.find(|protocol| own.contains(protocol)) {
        Some(protocol) if said.ends_with("uDAPL") => {
            format!("{said} (it is a stock uperf; {protocol} is linerate's own)")
        }
        _ => said.to_owned(),
    }
}

fn addresses(host: &str, over: Protocol, port: u32) -> Result<Vec<Address>, String> {
    if over == Protocol::Vsock {
        let context = host
            .parse()
            .map_err(|_| format!("{host} is no number of a VSOCK context"))?;
        return Ok(vec![Address::Vsock { context, port }]);
    }
    let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
    let found = resolve(host, Wanted::Any);
    let found = found.map_err(|error| format!("name_to_addr({host}): {}", error.text))?;
    Ok(found.at(port))
}

fn transport(over: Protocol) -> Transport {
    match over {
        Protocol::Vsock => Transport::Vsock,
        Protocol::Sctp => Transport::Sctp,
        _ => Transport::Tcp,
    }
}

/// Why there is no connection, as stock reports the last attempt.
fn last_attempt(Unreached(mut attempts): Unreached, over: Protocol) -> String {
    let Some((address, error)) = attempts.pop() else {
        return "no address".to_owned();
    };
    let protocol = over.name().to_ascii_uppercase();
    // Only socket(2) fails so.
    let what = match Error::from_io_error(&error) {
        Some(Error::PROTONOSUPPORT) => "create socket".to_owned(),
        _ => format!("connect to {address}"),
    };
    format!("{protocol}: Cannot {what} {}", why(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_stock_slave_is_not_blamed_for_what_is_ours() {
        for (protocol, expected) in [
            (
                Protocol::Mptcp,
                "Unsupported protocol:uDAPL (it is a stock uperf; mptcp is linerate's own)",
            ),
            (Protocol::Tcp, "Unsupported protocol:uDAPL"),
        ] {
            let group = Group::of([Flowop::opening(Kind::Connect, protocol)]);
            assert_eq!(explained("Unsupported protocol:uDAPL", &group), expected);
        }
    }
}
