//! Recordings of datagrams in a packed text format. The header of
//! `crates/udpmon/tests/data/transcripts.txt` describes the format.

/// The recorded datagrams of one run of the stock programs.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// Name, such as `bw-basic`.
    pub name: String,
    /// Command or description of the run.
    pub command: String,
    /// Datagrams in order of time.
    pub packets: Vec<RecordedPacket>,
}

/// One recorded datagram.
#[derive(Clone, Debug)]
pub struct RecordedPacket {
    /// Requester that sent or received the datagram: 1 or 2.
    pub requester: u8,
    /// Whether the requester sent the datagram.
    pub is_request: bool,
    /// Time since the first packet in microseconds.
    pub micros: u64,
    /// Payload, with zeros for parts that the recording omits.
    pub bytes: Vec<u8>,
    /// Whether the recording contains the complete payload.
    pub is_complete: bool,
}

impl Transcript {
    /// Reads all transcripts of a text.
    ///
    /// # Panics
    ///
    /// If the format of the text is wrong.
    pub fn read(text: &str) -> Vec<Self> {
        let mut transcripts: Vec<Self> = Vec::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((name, command)) = line.split_once(": ") {
                transcripts.push(Self {
                    name: name.to_owned(),
                    command: command.to_owned(),
                    packets: Vec::new(),
                });
                continue;
            }
            let packets = &mut transcripts.last_mut().expect("a name comes first").packets;
            let previous = packets.iter().rev().find(|packet| packet.is_complete);
            let packet = RecordedPacket::read(line, previous.map_or(&[], |packet| &packet.bytes));
            packets.push(packet.unwrap_or_else(|| panic!("not a packet: {line}")));
        }
        transcripts
    }

    /// Returns the transcript with this name in a text.
    pub fn find(text: &str, name: &str) -> Self {
        let mut transcripts = Self::read(text).into_iter();
        transcripts
            .find(|transcript| transcript.name == name)
            .unwrap_or_else(|| panic!("no transcript {name}"))
    }
}

impl RecordedPacket {
    fn read(line: &str, previous: &[u8]) -> Option<Self> {
        let mut words = line.split(' ');
        let (requester, is_request) = match words.next()? {
            ">" => (1, true),
            "<" => (1, false),
            "2>" => (2, true),
            "2<" => (2, false),
            _ => return None,
        };
        let mut packet = Self {
            requester,
            is_request,
            micros: words.next()?.parse().ok()?,
            bytes: Vec::new(),
            is_complete: true,
        };
        for word in words {
            packet.append(word, previous)?;
        }
        Some(packet)
    }

    fn append(&mut self, word: &str, previous: &[u8]) -> Option<()> {
        let (kind, digits) = word.split_at(1);
        let count = || digits.parse::<usize>().ok();
        let len = self.bytes.len();
        match kind {
            "z" => self.bytes.resize(len + count()?, 0),
            "p" => self.bytes.extend(previous.get(len..len + count()?)?),
            "?" => {
                self.bytes.resize(len + count()?, 0);
                self.is_complete = false;
            }
            _ => {
                for index in (0..word.len()).step_by(2) {
                    let byte = u8::from_str_radix(word.get(index..index + 2)?, 16).ok()?;
                    self.bytes.push(byte);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_packed_payloads() {
        let text = "# a remark\n\nrun: a -b\n> 0 01 z3 ff\n< 12 p2 0a0b\n2> 13 ?7\n2< 14 p4\n";
        let run = Transcript::find(text, "run");
        assert_eq!(run.command, "a -b");
        let [request, reply, omitted, repeated] = &run.packets[..] else {
            panic!("{run:?}");
        };
        assert_eq!(request.bytes, [1, 0, 0, 0, 255]);
        assert!(request.is_request && request.requester == 1);
        assert_eq!((reply.micros, &reply.bytes[..]), (12, &[1, 0, 10, 11][..]));
        assert!(!reply.is_request);
        assert!(!omitted.is_complete && omitted.bytes == [0; 7] && omitted.requester == 2);
        assert_eq!(repeated.bytes, reply.bytes);
    }
}
