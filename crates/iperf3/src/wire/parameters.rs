//! What a client asks for: the JSON object behind PARAM_EXCHANGE.

use model::MAX_UDP_PAYLOAD;

use super::error::{self, Fault};
use crate::json::{Json, Object};

/// What carries the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP, or Multipath TCP where the parameters ask for it.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// The block size of a test that asks for none; of UDP, if the path's segment size is unknown.
    pub fn block_bytes(self) -> u32 {
        match self {
            Self::Tcp => 128 * 1024,
            Self::Udp => 1460,
            Self::Sctp => 64 * 1024,
        }
    }
}

/// Which ends send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    #[default]
    Forward,
    /// The server.
    Reverse,
    /// Both, each over streams of its own.
    Both,
}

/// The parameters of a test.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the object")]
pub struct Parameters {
    /// `tcp`, `udp` or `sctp`.
    pub protocol: Protocol,
    /// `omit`, in seconds.
    pub omit: u32,
    /// `server_affinity`: a CPU.
    pub server_affinity: Option<u32>,
    /// `time`, in seconds; 0 for no limit.
    pub time: u32,
    /// `num`: bytes, 0 for no limit.
    pub bytes: u64,
    /// `blockcount`, 0 for no limit.
    pub blocks: u64,
    /// `MSS`, in bytes.
    pub max_segment: Option<u32>,
    /// `nodelay`.
    pub no_delay: bool,
    /// `parallel`: streams per direction.
    pub parallel: u32,
    /// `reverse`, `bidirectional`.
    pub direction: Direction,
    /// `mptcp`.
    pub multipath: bool,
    /// `window`: socket buffer bytes.
    pub window: Option<u32>,
    /// `len`: bytes per block or datagram.
    pub block_bytes: Option<u32>,
    /// `bandwidth`: bits per second and stream, 0 for no limit.
    pub rate: u64,
    /// `fqrate`: bits per second and stream.
    pub fq_rate: Option<u64>,
    /// `pacing_timer`, in microseconds.
    pub pacing_timer: u32,
    /// `burst`: blocks.
    pub burst: Option<u32>,
    /// `TOS`: the octet.
    pub type_of_service: Option<u8>,
    /// `flowlabel`.
    pub flow_label: Option<u32>,
    /// `title`.
    pub title: Option<String>,
    /// `extra_data`.
    pub extra_data: Option<String>,
    /// `congestion`.
    pub congestion: Option<String>,
    /// `get_server_output`.
    pub server_output: bool,
    /// `udp_counters_64bit`.
    pub wide_counters: bool,
    /// `repeating_payload`.
    pub repeating_payload: bool,
    /// `zerocopy`.
    pub zero_copy: bool,
    /// `dont_fragment`.
    pub do_not_fragment: bool,
    /// `skip_rx_copy`.
    pub skip_copy: bool,
    /// `gso`, `gro`: the peer has to be of 3.21, or a linerate.
    pub offload: bool,
    /// `authtoken`.
    pub token: Option<String>,
    /// `client_version`.
    pub client_version: Option<String>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            omit: 0,
            server_affinity: None,
            time: 10,
            bytes: 0,
            blocks: 0,
            max_segment: None,
            no_delay: false,
            parallel: 1,
            direction: Direction::Forward,
            multipath: false,
            window: None,
            block_bytes: None,
            rate: 0,
            fq_rate: None,
            pacing_timer: 1000,
            burst: None,
            type_of_service: None,
            flow_label: None,
            title: None,
            extra_data: None,
            congestion: None,
            server_output: false,
            wide_counters: false,
            repeating_payload: false,
            zero_copy: false,
            do_not_fragment: false,
            skip_copy: false,
            offload: false,
            token: None,
            client_version: None,
        }
    }
}

/// Streams per direction that a server serves.
pub const MOST_STREAMS: u32 = 128;
/// Bytes per block.
pub const LARGEST_BLOCK: u32 = 1 << 20;
/// The shortest datagram, which has room for the longest header.
pub const SHORTEST_DATAGRAM: u32 = 16;
/// Seconds.
pub const LONGEST_TIME: u32 = 86_400;
/// Seconds. The limit of the latest versions: 3.12 has 60.
pub const LONGEST_OMIT: u32 = 600;
/// Bytes of a socket buffer.
pub const LARGEST_WINDOW: u32 = 512 << 20;
/// Bytes of a segment.
pub const LARGEST_SEGMENT: u32 = 32_767;
/// Blocks per burst.
pub const LONGEST_BURST: u32 = 1000;
/// Characters of a text that is shown.
const LONGEST_TEXT: usize = 4096;

impl Parameters {
    /// Writes the object as a stock client does.
    pub fn encode(&self) -> String {
        let mut json = Object::new();
        let mut put = |key: &'static str, value: Option<Json>| {
            json.extend(value.map(|value| (key.into(), value)));
        };
        let flag = |is_set: bool| is_set.then_some(Json::Bool(true));
        let one = |is_set: bool| is_set.then_some(Json::from(1));
        let text = |text: &Option<String>| text.clone().map(Json::from);
        match self.protocol {
            Protocol::Tcp => put("tcp", flag(true)),
            Protocol::Udp => put("udp", flag(true)),
            Protocol::Sctp => put("sctp", flag(true)),
        }
        put("omit", Some(self.omit.into()));
        put("server_affinity", self.server_affinity.map(Json::from));
        put("time", Some(self.time.into()));
        put("num", Some(self.bytes.into()));
        put("blockcount", Some(self.blocks.into()));
        put("MSS", self.max_segment.map(Json::from));
        put("nodelay", flag(self.no_delay));
        put("parallel", Some(self.parallel.into()));
        put("reverse", flag(self.direction == Direction::Reverse));
        put("bidirectional", flag(self.direction == Direction::Both));
        put("mptcp", flag(self.multipath));
        put("window", self.window.map(Json::from));
        put("len", self.block_bytes.map(Json::from));
        put("bandwidth", (self.rate > 0).then(|| self.rate.into()));
        put("fqrate", self.fq_rate.map(Json::from));
        put("pacing_timer", Some(self.pacing_timer.into()));
        put("burst", self.burst.map(Json::from));
        if self.offload {
            for key in ["gso", "gro"] {
                put(key, one(true));
            }
        }
        put("TOS", self.type_of_service.map(Json::from));
        put("flowlabel", self.flow_label.map(Json::from));
        put("title", text(&self.title));
        put("extra_data", text(&self.extra_data));
        put("congestion", text(&self.congestion));
        put("get_server_output", one(self.server_output));
        put("udp_counters_64bit", one(self.wide_counters));
        put("repeating_payload", one(self.repeating_payload));
        put("zerocopy", one(self.zero_copy));
        put("dont_fragment", one(self.do_not_fragment));
        put("authtoken", text(&self.token));
        put("skip_rx_copy", one(self.skip_copy));
        put("client_version", text(&self.client_version));
        Json::from(json).compact()
    }

    /// Reads the object as a stock server does: unknown keys are nothing, a missing one has its default, and a flag is set by
    /// its presence. What has the wrong type or range is an error of stock's numbers.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let unreadable = || Fault::because(error::RECEIVE_PARAMETERS, "not a JSON object");
        let json = Json::parse(bytes).map_err(|_| unreadable())?;
        if !matches!(json, Json::Object(_)) {
            return Err(unreadable());
        }
        let reader = Reader(&json);
        let protocol = if reader.has("udp") {
            Protocol::Udp
        } else if reader.has("sctp") {
            Protocol::Sctp
        } else {
            Protocol::Tcp
        };
        let block = match protocol {
            Protocol::Udp => (SHORTEST_DATAGRAM, MAX_UDP_PAYLOAD, error::UDP_BLOCK_SIZE),
            _ => (1, LARGEST_BLOCK, error::BLOCK_SIZE),
        };
        let direction = match (reader.has("bidirectional"), reader.has("reverse")) {
            (true, _) => Direction::Both,
            (_, true) => Direction::Reverse,
            _ => Direction::Forward,
        };
        let default = Self::default();
        let non_zero = |number: Option<u32>| number.filter(|number| *number > 0);
        Ok(Self {
            protocol,
            omit: reader
                .number("omit", 0, LONGEST_OMIT, error::OMIT)?
                .unwrap_or(0),
            server_affinity: reader.number("server_affinity", 0, 1 << 16, error::AFFINITY)?,
            time: reader
                .number("time", 0, LONGEST_TIME, error::DURATION)?
                .unwrap_or(default.time),
            bytes: reader.long("num")?,
            blocks: reader.long("blockcount")?,
            max_segment: non_zero(reader.number("MSS", 0, LARGEST_SEGMENT, error::MSS)?),
            no_delay: reader.has("nodelay"),
            parallel: reader
                .number("parallel", 1, MOST_STREAMS, error::STREAMS)?
                .unwrap_or(1),
            direction,
            multipath: reader.has("mptcp"),
            window: non_zero(reader.number("window", 0, LARGEST_WINDOW, error::BUFFER_SIZE)?),
            block_bytes: match reader.number("len", 0, block.1, block.2)? {
                None | Some(0) => None,
                Some(bytes) if bytes < block.0 => return Err(Fault::of(block.2)),
                some => some,
            },
            rate: reader.long("bandwidth")?,
            fq_rate: Some(reader.long("fqrate")?).filter(|rate| *rate > 0),
            pacing_timer: reader
                .number("pacing_timer", 0, u32::MAX, error::RECEIVE_PARAMETERS)?
                .unwrap_or(default.pacing_timer),
            burst: non_zero(reader.number("burst", 0, LONGEST_BURST, error::BURST)?),
            type_of_service: reader
                .number("TOS", 0, u8::MAX.into(), error::BAD_TOS)?
                .map(|tos| tos as u8),
            flow_label: non_zero(reader.number("flowlabel", 0, 0xf_ffff, error::FLOW_LABEL)?),
            title: reader.text("title")?,
            extra_data: reader.text("extra_data")?,
            congestion: reader.text("congestion")?,
            server_output: reader.has("get_server_output"),
            wide_counters: reader.has("udp_counters_64bit"),
            repeating_payload: reader.has("repeating_payload"),
            zero_copy: reader.is_one("zerocopy"),
            do_not_fragment: reader.is_one("dont_fragment"),
            skip_copy: reader.is_one("skip_rx_copy"),
            offload: reader.is_one("gso") || reader.is_one("gro"),
            token: reader.text("authtoken")?,
            client_version: reader.text("client_version")?,
        })
    }

    /// Bytes per block or datagram.
    pub fn block(&self) -> u32 {
        self.block_bytes.unwrap_or(self.protocol.block_bytes())
    }

    /// Whether the client's streams come first, and how many streams each end sends on: the client's, the server's.
    pub fn streams(&self) -> (u32, u32) {
        match self.direction {
            Direction::Forward => (self.parallel, 0),
            Direction::Reverse => (0, self.parallel),
            Direction::Both => (self.parallel, self.parallel),
        }
    }
}

/// Reads members of an object.
struct Reader<'a>(&'a Json);

impl Reader<'_> {
    fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    fn is_one(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Json::Bool(value)) => *value,
            Some(value) => value.number().is_some_and(|number| number != 0.0),
            None => false,
        }
    }

    fn number(&self, key: &str, least: u32, most: u32, code: i32) -> Result<Option<u32>, Fault> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        match value.number() {
            Some(number) if (f64::from(least)..=f64::from(most)).contains(&number) => {
                Ok(Some(number as u32))
            }
            _ => Err(Fault::of(code)),
        }
    }

    /// A count or a rate; 0 if it is missing.
    fn long(&self, key: &str) -> Result<u64, Fault> {
        const MOST: f64 = 9.2e18;
        let Some(value) = self.0.get(key) else {
            return Ok(0);
        };
        match value.number() {
            Some(number) if (0.0..MOST).contains(&number) => Ok(number as u64),
            _ => Err(Fault::because(
                error::RECEIVE_PARAMETERS,
                format!("{key} is not a number in range"),
            )),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Json::Text(text)) if text.len() <= LONGEST_TEXT => Ok(Some(text.clone())),
            Some(_) => Err(Fault::because(
                error::RECEIVE_PARAMETERS,
                format!("{key} is not a text in range"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_is_the_default_test() {
        let parameters = Parameters::decode(b"{}").unwrap();
        assert_eq!(parameters, Parameters::default());
        assert_eq!(
            (parameters.block(), parameters.streams()),
            (131_072, (1, 0))
        );
    }

    #[test]
    fn flags_are_set_by_their_presence_and_unknown_keys_are_nothing() {
        let text = br#"{"udp":true,"reverse":false,"bogus":[1,{"x":null}],"zerocopy":0}"#;
        let parameters = Parameters::decode(text).unwrap();
        assert_eq!(parameters.direction, Direction::Reverse);
        assert!(!parameters.zero_copy && parameters.protocol == Protocol::Udp);
    }

    #[test]
    fn nonsense_has_the_number_that_stock_has() {
        for (text, code) in [
            (r#"{"parallel":"1"}"#, error::STREAMS),
            (r#"{"parallel":129}"#, error::STREAMS),
            (r#"{"parallel":0}"#, error::STREAMS),
            (r#"{"time":-1}"#, error::DURATION),
            (r#"{"time":1e300}"#, error::DURATION),
            (r#"{"len":1048577}"#, error::BLOCK_SIZE),
            (r#"{"udp":true,"len":15}"#, error::UDP_BLOCK_SIZE),
            (r#"{"window":1e12}"#, error::BUFFER_SIZE),
            (r#"{"MSS":[]}"#, error::MSS),
            (r#"{"omit":601}"#, error::OMIT),
            (r#"{"burst":1001}"#, error::BURST),
            (r#"{"TOS":256}"#, error::BAD_TOS),
            (r#"{"bandwidth":-5}"#, error::RECEIVE_PARAMETERS),
            (r#"{"title":5}"#, error::RECEIVE_PARAMETERS),
            ("[]", error::RECEIVE_PARAMETERS),
            ("{", error::RECEIVE_PARAMETERS),
            ("", error::RECEIVE_PARAMETERS),
        ] {
            let fault = Parameters::decode(text.as_bytes()).unwrap_err();
            assert_eq!(fault.code, code, "{text}");
        }
    }
}
