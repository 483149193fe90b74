//! How two linerates prove the address of a client that asks for datagrams: the last bytes of its first datagram are a
//! mark and 16 zeros; the server answers with the mark and a nonce, which the client's next datagram has in their place.

/// What only the host at the address can have received.
pub type Nonce = [u8; 16];

const MARK: [u8; 16] = *b"linerate-nonce: ";

/// Bytes of both.
const LENGTH: usize = 32;

/// The server's answer.
pub fn challenge(nonce: Nonce) -> [u8; LENGTH] {
    let mut datagram = [0; LENGTH];
    write(&mut datagram, nonce);
    datagram
}

/// Writes a nonce at the end of a datagram; not into its first bytes, which have a header of this length.
pub fn put(datagram: &mut [u8], header: usize, nonce: Nonce) {
    if datagram.len() >= header + LENGTH {
        write(datagram, nonce);
    }
}

fn write(datagram: &mut [u8], nonce: Nonce) {
    let at = datagram.len() - LENGTH;
    datagram[at..at + 16].copy_from_slice(&MARK);
    datagram[at + 16..].copy_from_slice(&nonce);
}

/// Returns the nonce at the end of a datagram.
pub fn find(datagram: &[u8]) -> Option<Nonce> {
    let tail = datagram.last_chunk::<LENGTH>()?;
    let nonce = tail.strip_prefix(&MARK)?;
    nonce.try_into().ok()
}

/// Returns the nonce of a [`challenge`].
pub fn of_challenge(datagram: &[u8]) -> Option<Nonce> {
    find(datagram).filter(|_| datagram.len() == LENGTH)
}
