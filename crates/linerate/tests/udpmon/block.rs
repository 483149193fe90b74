//! The common block of UDPmon's datagrams, independent of the decoder of the `udpmon` crate.

pub(crate) const LEN: usize = 208;

pub(crate) const ZEROSTATS: u32 = 0x01;
pub(crate) const GETSTATS: u32 = 0x02;
pub(crate) const DATA: u32 = 0x04;
pub(crate) const REQ_RESP: u32 = 0x08;
pub(crate) const RESPONSE: u32 = 0x09;
pub(crate) const GETHIST0: u32 = 0x10;
pub(crate) const OK: u32 = 0x20;
pub(crate) const INUSE: u32 = 0x21;
pub(crate) const TESTEND: u32 = 0x22;
pub(crate) const GETINFO1: u32 = 0x40;
pub(crate) const GETNETSNMP: u32 = 0x43;
pub(crate) const GETCPULOAD: u32 = 0x44;
pub(crate) const GETNICSTATS: u32 = 0x45;
pub(crate) const START: u32 = 0x80;

pub(crate) const HISTOGRAM_LEN: usize = 8064;
pub(crate) const COUNTERS_LEN: usize = 26_888;
pub(crate) const CPU_LEN: usize = 12_384;
pub(crate) const NIC_LEN: usize = 136;

/// Offsets of the fields in bytes.
pub(crate) mod offset {
    pub(crate) const COMMAND: usize = 0;
    pub(crate) const VERSION: usize = 4;
    pub(crate) const NUMBER: usize = 8;
    pub(crate) const SEND_TIME: usize = 16;
    pub(crate) const RESPONSE_TIME: usize = 24;
    pub(crate) const RESPONSE_LEN: usize = 32;
    pub(crate) const LOW: usize = 40;
    /// In GETHIST0, in place of [`LOW`].
    pub(crate) const HISTOGRAM_NUMBER: usize = LOW;
    pub(crate) const WIDTH: usize = 44;
    pub(crate) const INDEX: usize = 48;
    pub(crate) const LOG_LOST: usize = 52;
    pub(crate) const SKIP: usize = 56;
    pub(crate) const RECEIVED: usize = 60;
    pub(crate) const LOST: usize = 64;
    pub(crate) const BAD_ORDER: usize = 68;
    pub(crate) const FIRST_TO_LAST: usize = 72;
}

/// Reads a 4-byte field; 0 if the datagram is shorter.
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes.get(offset..offset + 4);
    let field = field.and_then(|field| field.try_into().ok());
    field.map_or(0, u32::from_le_bytes)
}

/// Reads an 8-byte field; 0 if the datagram is shorter.
pub(crate) fn read_i64(bytes: &[u8], offset: usize) -> i64 {
    let field = bytes.get(offset..offset + 8);
    let field = field.and_then(|field| field.try_into().ok());
    field.map_or(0, i64::from_le_bytes)
}

pub(crate) fn write_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn write_i64(bytes: &mut [u8], offset: usize, value: i64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn command(bytes: &[u8]) -> u32 {
    read_u32(bytes, offset::COMMAND)
}

/// Returns a request with these 4-byte fields by their offsets. All other fields are zero.
pub(crate) fn request(command: u32, fields: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    write_u32(&mut bytes, offset::COMMAND, command);
    for (offset, value) in fields {
        write_u32(&mut bytes, *offset, *value);
    }
    bytes
}
