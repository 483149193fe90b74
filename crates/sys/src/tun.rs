//! TUN devices. This program reads the packets that leave through the interface. The packets that
//! it writes arrive through the interface. <https://docs.kernel.org/networking/tuntap.html>

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Creates the interface `name` in the calling thread's network namespace, for IP packets without
/// an extra header. It vanishes when the descriptor is closed. Reads and writes do not block. Needs
/// CAP_NET_ADMIN.
pub fn open(name: &str) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: an ifreq consists of integers, arrays and pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call; the descriptor is
    // open.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}
