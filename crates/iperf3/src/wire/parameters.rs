//! The parameters of a test: the JSON object that a client sends after PARAM_EXCHANGE.

use model::MAX_UDP_PAYLOAD;

use super::error::{self, Fault};
use crate::json::{Json, Object};

/// The transport protocol of the data streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP, or Multipath TCP if the parameters request it.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Returns the name in JSON documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Returns the default block size, in bytes.
    ///
    /// UDP uses it only if the segment size of the control connection is unknown.
    pub fn default_block_bytes(self) -> u32 {
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
    /// Both, each over separate streams.
    Both,
}

/// The parameters of a test. The comment of each field names its JSON key.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the object")]
pub struct Parameters {
    /// `tcp`, `udp` or `sctp`.
    pub protocol: Protocol,
    /// `omit`, in seconds.
    pub omit: u32,
    /// `server_affinity`: a CPU.
    pub server_affinity: Option<u32>,
    /// `time`, in seconds; 0 means no limit.
    pub time: u32,
    /// `num`: bytes of all streams; 0 means no limit.
    pub bytes: u64,
    /// `blockcount`: blocks of all streams; 0 means no limit.
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
    /// `bandwidth`: bits per second and stream; 0 means no limit.
    pub rate: u64,
    /// `fqrate`: bits per second and stream.
    pub fq_rate: Option<u64>,
    /// `pacing_timer`, in microseconds.
    pub pacing_timer: u32,
    /// `burst`: blocks per burst.
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
    pub udp_counters_64bit: bool,
    /// `repeating_payload`.
    pub repeating_payload: bool,
    /// `zerocopy`.
    pub zero_copy: bool,
    /// `dont_fragment`.
    pub do_not_fragment: bool,
    /// `skip_rx_copy`.
    pub skip_copy: bool,
    /// `gso`, `gro`: requires iperf3 3.21 or linerate as the peer.
    pub offload: bool,
    /// `authtoken`.
    pub token: Option<String>,
    /// `client_version`.
    pub client_version: Option<String>,
    /// `udp_cookie`: the client can append the cookie to the greeting of a UDP stream. Only linerate
    /// sends and reads it.
    pub udp_cookie: bool,
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
            udp_counters_64bit: false,
            repeating_payload: false,
            zero_copy: false,
            do_not_fragment: false,
            skip_copy: false,
            offload: false,
            token: None,
            client_version: None,
            udp_cookie: false,
        }
    }
}

/// The maximum number of streams per direction.
pub const MAX_STREAMS: u32 = 128;
/// The maximum bytes per block.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;
/// The minimum bytes per datagram: the length of the longest header.
pub const MIN_DATAGRAM_BYTES: u32 = 16;
/// The maximum duration of a test.
pub const MAX_TIME_SECONDS: u32 = 86_400;
/// The maximum omitted time of the latest versions; 3.12 allows 60.
pub const MAX_OMIT_SECONDS: u32 = 600;
/// The maximum bytes of a socket buffer.
pub const MAX_WINDOW_BYTES: u32 = 512 << 20;
/// The maximum bytes of a segment.
pub const MAX_SEGMENT_BYTES: u32 = 32_767;
/// The maximum blocks per burst.
pub const MAX_BURST_BLOCKS: u32 = 1000;
/// The maximum length of a text.
const MAX_TEXT_BYTES: usize = 4096;

impl Parameters {
    /// Encodes the object as a stock client does.
    pub fn encode(&self) -> String {
        let mut json = Object::new();
        let mut add = |key: &'static str, value: Option<Json>| {
            json.extend(value.map(|value| (key.into(), value)));
        };
        let flag = |is_set: bool| is_set.then_some(Json::Bool(true));
        let flag_as_1 = |is_set: bool| is_set.then_some(Json::from(1));
        let text = |text: &Option<String>| text.clone().map(Json::from);
        match self.protocol {
            Protocol::Tcp => add("tcp", flag(true)),
            Protocol::Udp => add("udp", flag(true)),
            Protocol::Sctp => add("sctp", flag(true)),
        }
        add("omit", Some(self.omit.into()));
        add("server_affinity", self.server_affinity.map(Json::from));
        add("time", Some(self.time.into()));
        add("num", Some(self.bytes.into()));
        add("blockcount", Some(self.blocks.into()));
        add("MSS", self.max_segment.map(Json::from));
        add("nodelay", flag(self.no_delay));
        add("parallel", Some(self.parallel.into()));
        add("reverse", flag(self.direction == Direction::Reverse));
        add("bidirectional", flag(self.direction == Direction::Both));
        add("mptcp", flag(self.multipath));
        add("window", self.window.map(Json::from));
        add("len", self.block_bytes.map(Json::from));
        add("bandwidth", (self.rate > 0).then(|| self.rate.into()));
        add("fqrate", self.fq_rate.map(Json::from));
        add("pacing_timer", Some(self.pacing_timer.into()));
        add("burst", self.burst.map(Json::from));
        if self.offload {
            for key in ["gso", "gro"] {
                add(key, flag_as_1(true));
            }
        }
        add("TOS", self.type_of_service.map(Json::from));
        add("flowlabel", self.flow_label.map(Json::from));
        add("title", text(&self.title));
        add("extra_data", text(&self.extra_data));
        add("congestion", text(&self.congestion));
        add("get_server_output", flag_as_1(self.server_output));
        add("udp_counters_64bit", flag_as_1(self.udp_counters_64bit));
        add("repeating_payload", flag_as_1(self.repeating_payload));
        add("zerocopy", flag_as_1(self.zero_copy));
        add("dont_fragment", flag_as_1(self.do_not_fragment));
        add("authtoken", text(&self.token));
        add("skip_rx_copy", flag_as_1(self.skip_copy));
        add("client_version", text(&self.client_version));
        add("udp_cookie", flag_as_1(self.udp_cookie));
        Json::from(json).compact()
    }

    /// Decodes the object as a stock server does.
    ///
    /// Ignores unknown keys, and uses defaults for missing keys. The presence of most flags sets
    /// them. A wrong type or range is an error with stock's number.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let not_an_object = || Fault::with_reason(error::RECEIVE_PARAMETERS, "not a JSON object");
        let json = Json::parse(bytes).map_err(|_| not_an_object())?;
        if !matches!(json, Json::Object(_)) {
            return Err(not_an_object());
        }
        let reader = Reader(&json);
        let protocol = if reader.has("udp") {
            Protocol::Udp
        } else if reader.has("sctp") {
            Protocol::Sctp
        } else {
            Protocol::Tcp
        };
        let (min_block, max_block, block_error) = match protocol {
            Protocol::Udp => (MIN_DATAGRAM_BYTES, MAX_UDP_PAYLOAD, error::UDP_BLOCK_SIZE),
            _ => (1, MAX_BLOCK_BYTES, error::BLOCK_SIZE),
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
                .number("omit", 0, MAX_OMIT_SECONDS, error::OMIT)?
                .unwrap_or(0),
            server_affinity: reader.number("server_affinity", 0, 1 << 16, error::AFFINITY)?,
            time: reader
                .number("time", 0, MAX_TIME_SECONDS, error::DURATION)?
                .unwrap_or(default.time),
            bytes: reader.count("num")?,
            blocks: reader.count("blockcount")?,
            max_segment: non_zero(reader.number("MSS", 0, MAX_SEGMENT_BYTES, error::MSS)?),
            no_delay: reader.has("nodelay"),
            parallel: reader
                .number("parallel", 1, MAX_STREAMS, error::STREAMS)?
                .unwrap_or(1),
            direction,
            multipath: reader.has("mptcp"),
            window: non_zero(reader.number("window", 0, MAX_WINDOW_BYTES, error::BUFFER_SIZE)?),
            block_bytes: match reader.number("len", 0, max_block, block_error)? {
                None | Some(0) => None,
                Some(bytes) if bytes < min_block => return Err(Fault::from_code(block_error)),
                block_bytes => block_bytes,
            },
            rate: reader.count("bandwidth")?,
            fq_rate: Some(reader.count("fqrate")?).filter(|rate| *rate > 0),
            pacing_timer: reader
                .number("pacing_timer", 0, u32::MAX, error::RECEIVE_PARAMETERS)?
                .unwrap_or(default.pacing_timer),
            burst: non_zero(reader.number("burst", 0, MAX_BURST_BLOCKS, error::BURST)?),
            type_of_service: reader
                .number("TOS", 0, u8::MAX.into(), error::BAD_TOS)?
                .map(|tos| tos as u8),
            flow_label: non_zero(reader.number("flowlabel", 0, 0xf_ffff, error::FLOW_LABEL)?),
            title: reader.text("title")?,
            extra_data: reader.text("extra_data")?,
            congestion: reader.text("congestion")?,
            server_output: reader.has("get_server_output"),
            udp_counters_64bit: reader.has("udp_counters_64bit"),
            repeating_payload: reader.has("repeating_payload"),
            zero_copy: reader.is_true("zerocopy"),
            do_not_fragment: reader.is_true("dont_fragment"),
            skip_copy: reader.is_true("skip_rx_copy"),
            offload: reader.is_true("gso") || reader.is_true("gro"),
            token: reader.text("authtoken")?,
            client_version: reader.text("client_version")?,
            udp_cookie: reader.is_true("udp_cookie"),
        })
    }

    /// Returns the login token in an object that need not be valid otherwise; empty without one.
    pub fn decode_token(bytes: &[u8]) -> String {
        let json = Json::parse(bytes).ok();
        let token = json.and_then(|json| Reader(&json).text("authtoken").ok().flatten());
        token.unwrap_or_default()
    }

    /// Returns the bytes per block or datagram.
    pub fn block_size(&self) -> u32 {
        self.block_bytes
            .unwrap_or(self.protocol.default_block_bytes())
    }

    /// Returns the number of streams on which each end sends: the client, the server.
    ///
    /// The client's streams are opened first.
    pub fn stream_counts(&self) -> (u32, u32) {
        match self.direction {
            Direction::Forward => (self.parallel, 0),
            Direction::Reverse => (0, self.parallel),
            Direction::Both => (self.parallel, self.parallel),
        }
    }
}

/// Reads members of a JSON object.
struct Reader<'a>(&'a Json);

impl Reader<'_> {
    fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    fn is_true(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Json::Bool(value)) => *value,
            Some(value) => value.number().is_some_and(|number| number != 0.0),
            None => false,
        }
    }

    fn number(&self, key: &str, min: u32, max: u32, code: i32) -> Result<Option<u32>, Fault> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        match value.number() {
            Some(number) if (f64::from(min)..=f64::from(max)).contains(&number) => {
                Ok(Some(number as u32))
            }
            _ => Err(Fault::from_code(code)),
        }
    }

    /// Returns a count or a rate; 0 if it is missing.
    fn count(&self, key: &str) -> Result<u64, Fault> {
        const MAX_COUNT: f64 = 9.2e18;
        let Some(value) = self.0.get(key) else {
            return Ok(0);
        };
        match value.number() {
            Some(number) if (0.0..MAX_COUNT).contains(&number) => Ok(number as u64),
            _ => Err(Fault::with_reason(
                error::RECEIVE_PARAMETERS,
                format!("{key} is not a number in range"),
            )),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Json::Text(text)) if text.len() <= MAX_TEXT_BYTES => Ok(Some(text.clone())),
            Some(_) => Err(Fault::with_reason(
                error::RECEIVE_PARAMETERS,
                format!("{key} is not a text of at most {MAX_TEXT_BYTES} bytes"),
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
            (parameters.block_size(), parameters.stream_counts()),
            (131_072, (1, 0))
        );
    }

    #[test]
    fn flags_are_set_by_presence_and_unknown_keys_are_ignored() {
        let text = br#"{"udp":true,"reverse":false,"bogus":[1,{"x":null}],"zerocopy":0}"#;
        let parameters = Parameters::decode(text).unwrap();
        assert_eq!(parameters.direction, Direction::Reverse);
        assert!(!parameters.zero_copy && parameters.protocol == Protocol::Udp);
    }

    #[test]
    fn invalid_parameters_have_stocks_error_numbers() {
        for (text, code) in [
            (r#"{"parallel":"1"}"#, error::STREAMS),
            (r#"{"parallel":129}"#, error::STREAMS),
            (r#"{"parallel":0}"#, error::STREAMS),
            (r#"{"time":-1}"#, error::DURATION),
            (r#"{"time":1e300}"#, error::DURATION),
            (r#"{"time":86401}"#, error::DURATION),
            (r#"{"len":1048577}"#, error::BLOCK_SIZE),
            (r#"{"udp":true,"len":15}"#, error::UDP_BLOCK_SIZE),
            (r#"{"window":1e12}"#, error::BUFFER_SIZE),
            (r#"{"window":536870913}"#, error::BUFFER_SIZE),
            (r#"{"MSS":[]}"#, error::MSS),
            (r#"{"MSS":32768}"#, error::MSS),
            (r#"{"flowlabel":1048576}"#, error::FLOW_LABEL),
            (r#"{"server_affinity":65537}"#, error::AFFINITY),
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
        for key in [
            "title",
            "extra_data",
            "congestion",
            "client_version",
            "authtoken",
        ] {
            let text = format!(r#"{{"{key}":"{}"}}"#, "x".repeat(MAX_TEXT_BYTES + 1));
            let fault = Parameters::decode(text.as_bytes()).unwrap_err();
            assert_eq!(fault.code, error::RECEIVE_PARAMETERS, "{key}");
        }
    }
}
