//! Socket and buffers of this end, settled before the peer is asked.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use engine::{Buffers, DataSocket, Memory, RingError, Role, SocketError};
use model::{FlowPlan, SizeRule, SocketOptions, Transport, Warning};
use sys::{Address, Llc};

use super::super::ClientError;
use super::{LocalEnd, bind_thread};
use crate::PATTERN;
use crate::attachment::LLC_HEADER_BYTES;
use crate::options::{Attachment, Settings, Special, Test};
use crate::place::{self, Place};
use crate::result::Endpoints;

/// All memory that one test's buffers may have at this end, in bytes: a slip of the keyboard should
/// not take the machine.
const MAX_BUFFER_BYTES: u64 = 4 << 30;

impl<'a> LocalEnd<'a> {
    pub(in super::super) fn prepare(
        settings: &'a Settings,
        endpoints: &Endpoints,
    ) -> Result<Self, ClientError> {
        let plan = &settings.flow;
        let mut doubts: Vec<_> = bind_thread(plan).into_iter().collect();
        reaches_itself(&endpoints.dest)?;
        let place = place(settings)?;
        let asked = match (&settings.special, &place) {
            (Special::Unix { .. }, Some(place)) => &Address::Unix(place.socket()),
            (Special::Unix { .. }, None) => &Address::Unix(PathBuf::new()),
            (Special::Dlpi { local, sap, .. }, _) => &attached(local, *sap, plan)?,
            _ => &endpoints.source,
        };
        let source = if is_the_peers(asked, &endpoints.dest) {
            doubts.push(Warning::PortReplaced {
                port: asked.port() as u16,
            });
            asked.with_any_port()
        } else {
            asked.clone()
        };
        let half = &plan.here;
        let bind = if plan.workload.connects() || plan.transport == Transport::SctpMany {
            source.with_any_port()
        } else {
            source.clone()
        };
        let data = match open_socket(plan.transport, &bind, &half.socket) {
            // Both ends of a DLPI test have the same access point, and may have the same interface.
            Err(ClientError::DataSocket { address, error })
                if matches!(bind, Address::Llc(_))
                    && error.error().kind() == io::ErrorKind::AddrInUse =>
            {
                open_socket(plan.transport, &address.with_any_port(), &half.socket)?
            }
            other => other?,
        };
        if let Some(place) = &place {
            place
                .open_to_all()
                .map_err(|error| no_place(&place.socket(), error))?;
        }
        let memory = Memory::new(MAX_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let fill = half.fill.as_deref().map(open_fill).transpose()?;
        let buffers = Buffers::new(
            half,
            &plan.workload,
            plan.transport,
            &data.facts,
            fill,
            PATTERN,
            &memory,
        )?;
        Ok(Self {
            plan,
            source,
            _place: place,
            data,
            buffers,
            nonce: None,
            doubts,
        })
    }
}

/// A name for a Unix domain socket that must have one, so that it can be answered, or shall.
fn place(settings: &Settings) -> Result<Option<Place>, ClientError> {
    let Special::Unix { directory } = &settings.special else {
        return Ok(None);
    };
    if directory.is_none() && settings.test != Test::DgRr {
        return Ok(None);
    }
    let parent = directory.as_deref().unwrap_or(Path::new("/tmp"));
    place::clean(parent);
    let place = Place::new(parent).map_err(|error| no_place(parent, error))?;
    Ok(Some(place))
}

fn open_fill(path: &Path) -> Result<File, RingError> {
    File::open(path).map_err(|error| RingError::File {
        path: path.to_owned(),
        error,
    })
}

fn no_place(path: &Path, error: io::Error) -> ClientError {
    ClientError::NoPlace {
        path: path.to_owned(),
        error,
    }
}

pub(super) fn open_socket(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
) -> Result<DataSocket, ClientError> {
    DataSocket::open(transport, bind, options, Role::Initiator).map_err(|error: SocketError| {
        ClientError::DataSocket {
            address: bind.clone(),
            error,
        }
    })
}

/// Refuses this machine's own context where the kernel has no way there: it does not refuse the connection,
/// but lets it time out.
fn reaches_itself(dest: &Address) -> Result<(), ClientError> {
    let own = Address::Vsock {
        context: Address::OWN_CONTEXT,
        port: 0,
    };
    if !dest.shares_host_with(&own) {
        return Ok(());
    }
    match open_socket(Transport::Vsock, &own, &SocketOptions::default()) {
        Err(ClientError::DataSocket {
            address,
            error: SocketError::Refused { error, .. },
        }) => Err(ClientError::DataSocket {
            address,
            error: SocketError::Missing {
                transport: Transport::Vsock,
                error,
            },
        }),
        other => other.map(drop),
    }
}

/// Whether the local port that was asked for is the peer's own, on this host: the two would talk to
/// themselves.
fn is_the_peers(source: &Address, dest: &Address) -> bool {
    source.port() != 0 && source.port() == dest.port() && dest.ip().is_some_and(sys::facts::is_own)
}

/// The address of the interface of a DLPI test's socket; messages must fit into its frames, as nothing
/// splits them.
fn attached(local: &Attachment, sap: u8, plan: &FlowPlan) -> Result<Address, ClientError> {
    let unusable = |why| ClientError::Interface {
        name: local.shown(),
        why,
    };
    let interface = local
        .find()
        .map_err(|error| unusable(sys::describe(&error)))?;
    let room = interface.mtu_bytes.saturating_sub(LLC_HEADER_BYTES);
    for buffer in [&plan.here.send, &plan.there.send] {
        if let SizeRule::Bytes(bytes) = buffer.size
            && bytes > room
        {
            let why =
                format!("a frame has room for {room} bytes, and {bytes} are to be sent at once");
            return Err(unusable(why));
        }
    }
    let Some(mac) = interface.mac else {
        return Err(unusable("it is no Ethernet interface".to_owned()));
    };
    Ok(Address::Llc(Llc { mac, sap }))
}
