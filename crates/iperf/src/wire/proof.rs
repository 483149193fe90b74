//! Proof of a client's address, between two linerates, for a client that requests datagrams.
//!
//! The client's first datagram ends with a marker and 16 zeros. The server answers with the marker
//! and a nonce. The client's next datagram ends with the same marker and nonce.

/// A nonce that only the host at the client's address can receive.
pub type AddressNonce = [u8; 16];

const MARKER: [u8; 16] = *b"linerate-nonce: ";

/// The length in bytes of marker and nonce.
const PROOF_LEN: usize = 32;

/// Returns the server's answer: the marker and the nonce.
pub fn challenge(nonce: AddressNonce) -> [u8; PROOF_LEN] {
    let mut datagram = [0; PROOF_LEN];
    write_tail(&mut datagram, nonce);
    datagram
}

/// Writes the marker and a nonce at the end of a datagram.
///
/// The datagram stays unchanged if they would overwrite its first `header_len` bytes.
pub fn write_nonce(datagram: &mut [u8], header_len: usize, nonce: AddressNonce) {
    if datagram.len() >= header_len + PROOF_LEN {
        write_tail(datagram, nonce);
    }
}

fn write_tail(datagram: &mut [u8], nonce: AddressNonce) {
    let at = datagram.len() - PROOF_LEN;
    datagram[at..at + 16].copy_from_slice(&MARKER);
    datagram[at + 16..].copy_from_slice(&nonce);
}

/// Returns the nonce at the end of a datagram; `None` without a marker.
pub fn find_nonce(datagram: &[u8]) -> Option<AddressNonce> {
    let tail = datagram.last_chunk::<PROOF_LEN>()?;
    let nonce = tail.strip_prefix(&MARKER)?;
    nonce.try_into().ok()
}

/// Returns the nonce of a server's [`challenge`]; `None` for other datagrams.
pub fn challenge_nonce(datagram: &[u8]) -> Option<AddressNonce> {
    find_nonce(datagram).filter(|_| datagram.len() == PROOF_LEN)
}
