//! Where a DLPI test's socket of this end is.

use model::{Plan, SizeRule};
use sys::{Address, Llc};

use super::ClientError;
use crate::interface::{LLC_HEADER_BYTES, find, shown};
use crate::options::Attachment;

/// The address of the interface; messages must fit into its frames, as nothing splits them.
pub(super) fn address(local: &Attachment, sap: u8, plan: &Plan) -> Result<Address, ClientError> {
    let device = local.device.as_deref().unwrap_or_default();
    let unusable = |why| ClientError::Interface {
        name: shown(device, local.ppa),
        why,
    };
    let interface = find(device, local.ppa).map_err(|error| unusable(error.to_string()))?;
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
