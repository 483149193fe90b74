//! Prepares the local socket and buffers, before the request.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use engine::{BufferError, BufferMemory, Buffers, DataSocket, Role, SocketError};
use model::{FlowPlan, SizeRule, SocketOptions, Transport, Warning};
use sys::{Address, LlcAddress};

use super::super::ClientError;
use super::{LocalEnd, bind_thread};
use crate::FILL_PATTERN;
use crate::dlpi_interface::LLC_HEADER_BYTES;
use crate::options::{DlpiInterface, FamilySettings, Settings, Test};
use crate::result::Endpoints;
use crate::socket_directory::{self, SocketDirectory};

/// Maximum memory of a test's local buffers, in bytes. It protects the host from typing errors.
const MAX_BUFFER_BYTES: u64 = 4 << 30;

impl<'a> LocalEnd<'a> {
    pub(in super::super) fn prepare(
        settings: &'a Settings,
        endpoints: &Endpoints,
    ) -> Result<Self, ClientError> {
        let plan = &settings.flow;
        let mut warnings: Vec<_> = bind_thread(plan).into_iter().collect();
        check_vsock_loopback(&endpoints.dest)?;
        let directory = new_socket_directory(settings)?;
        let requested = match (&settings.family_settings, &directory) {
            (FamilySettings::Unix { .. }, Some(directory)) => {
                &Address::Unix(directory.socket_path())
            }
            (FamilySettings::Unix { .. }, None) => &Address::Unix(PathBuf::new()),
            (FamilySettings::Dlpi { local, sap, .. }, _) => &dlpi_address(local, *sap, plan)?,
            _ => &endpoints.source,
        };
        let source = if is_peer_port(requested, &endpoints.dest) {
            warnings.push(Warning::PortReplaced {
                port: requested.port() as u16,
            });
            requested.with_any_port()
        } else {
            requested.clone()
        };
        let endpoint = &plan.local;
        let bind = if plan.workload.connects() || plan.transport == Transport::SctpMany {
            source.with_any_port()
        } else {
            source.clone()
        };
        let data = match open_socket(plan.transport, &bind, &endpoint.socket) {
            // Both ends of a DLPI test use the same access point and may use the same interface.
            Err(ClientError::DataSocket { address, error })
                if matches!(bind, Address::Llc(_))
                    && error.error().kind() == io::ErrorKind::AddrInUse =>
            {
                open_socket(plan.transport, &address.with_any_port(), &endpoint.socket)?
            }
            other => other?,
        };
        if let Some(directory) = &directory {
            directory
                .allow_all_users()
                .map_err(|error| socket_directory_error(&directory.socket_path(), error))?;
        }
        let memory = BufferMemory::new(MAX_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let fill = endpoint.fill.as_deref().map(open_fill).transpose()?;
        let buffers = Buffers::new(
            endpoint,
            &plan.workload,
            plan.transport,
            &data.facts,
            fill,
            FILL_PATTERN,
            &memory,
        )?;
        Ok(Self {
            plan,
            source,
            _socket_directory: directory,
            data,
            buffers,
            nonce: None,
            warnings,
        })
    }
}

/// Creates the directory of a Unix domain socket that needs a name, for responses or because of
/// test option `-p`. Returns `None` for other sockets.
fn new_socket_directory(settings: &Settings) -> Result<Option<SocketDirectory>, ClientError> {
    let FamilySettings::Unix { directory } = &settings.family_settings else {
        return Ok(None);
    };
    if directory.is_none() && settings.test != Test::DgRr {
        return Ok(None);
    }
    let parent = directory.as_deref().unwrap_or(Path::new("/tmp"));
    socket_directory::remove_stale(parent);
    let directory =
        SocketDirectory::new(parent).map_err(|error| socket_directory_error(parent, error))?;
    Ok(Some(directory))
}

fn open_fill(path: &Path) -> Result<File, BufferError> {
    sys::input_file::open(path).map_err(|error| BufferError::File {
        path: path.to_owned(),
        error,
    })
}

fn socket_directory_error(path: &Path, error: io::Error) -> ClientError {
    ClientError::UnixSocket {
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

/// Checks that the kernel can connect to this machine's own VSOCK context. Otherwise the kernel
/// would not refuse the connection, but let it time out.
fn check_vsock_loopback(dest: &Address) -> Result<(), ClientError> {
    let own_context = Address::Vsock {
        context: Address::LOCAL_CONTEXT,
        port: 0,
    };
    if !dest.shares_host_with(&own_context) {
        return Ok(());
    }
    match open_socket(Transport::Vsock, &own_context, &SocketOptions::default()) {
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

/// Whether the requested local port is the peer's port on this host. The socket would connect to
/// itself.
fn is_peer_port(source: &Address, dest: &Address) -> bool {
    source.port() != 0
        && source.port() == dest.port()
        && dest.ip().is_some_and(sys::facts::is_local_address)
}

/// Returns the address of the local interface of a DLPI test. Each message must fit into one frame,
/// because nothing fragments it.
fn dlpi_address(local: &DlpiInterface, sap: u8, plan: &FlowPlan) -> Result<Address, ClientError> {
    let interface_error = |reason| ClientError::Interface {
        name: local.display_name(),
        reason,
    };
    let interface = local
        .find()
        .map_err(|error| interface_error(sys::describe(&error)))?;
    let max_bytes = interface.mtu_bytes.saturating_sub(LLC_HEADER_BYTES);
    for buffer in [&plan.local.send, &plan.remote.send] {
        if let SizeRule::Bytes(bytes) = buffer.size
            && bytes > max_bytes
        {
            let reason =
                format!("a frame has room for {max_bytes} bytes, but a message has {bytes}");
            return Err(interface_error(reason));
        }
    }
    let Some(mac) = interface.mac else {
        return Err(interface_error(
            "it is not an Ethernet interface".to_owned(),
        ));
    };
    Ok(Address::Llc(LlcAddress { mac, sap }))
}
