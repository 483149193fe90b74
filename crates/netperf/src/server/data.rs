//! The data connection of a test, which must be the client's.

use std::time::Instant;

use engine::Stop;
use server::{Accepted, DataPeer, Nonce, PREFERENCE, Policy};
use sys::Address;

use super::assignment::Refusal;
use super::log;
use super::test::Prepared;
use crate::options::Limits;

/// A number that nobody else can know, and where it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub(super) nonce: Nonce,
    /// On a connection of its own before the data, whose host is then the data's; else at the beginning of the
    /// data connection.
    pub(super) is_apart: bool,
}

impl Prepared {
    /// The data connection, or the first one of a connection test.
    pub(super) fn connection(
        &self,
        peer: &DataPeer<'_>,
        stop: &Stop,
        limits: &Limits,
    ) -> Result<Accepted, Refusal> {
        let accept = |peer: &DataPeer<'_>, nonce: Option<&Nonce>| {
            let until = Instant::now() + limits.data_wait;
            let refused = |from: &Address| {
                log(format_args!(
                    "{}: refused a data connection from {from}",
                    peer.control
                ));
            };
            server::accept(&self.data.socket, peer, nonce, until, stop, &refused)
        };
        match &self.proof {
            Some(proof) if proof.is_apart => {
                let proved = accept(peer, Some(&proof.nonce))?.from;
                let its_host = DataPeer {
                    control: &proved,
                    named: None,
                    policy: Policy {
                        strict: true,
                        ..peer.policy
                    },
                };
                Ok(accept(&its_host, None)?)
            }
            Some(proof) => Ok(accept(peer, Some(&proof.nonce))?),
            None => {
                let accepted = accept(peer, None)?;
                if accepted.is_stranger {
                    log(format_args!(
                        "{}: the data connection comes from another address, {}; {} s of the test were \
                         spent waiting for one from the client's",
                        peer.control,
                        accepted.from,
                        PREFERENCE.as_secs()
                    ));
                }
                Ok(accepted)
            }
        }
    }
}
