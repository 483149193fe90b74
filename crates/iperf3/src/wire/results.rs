//! The results of both ends: the JSON objects that follow EXCHANGE_RESULTS.

use super::error::{self, Fault};
use crate::json::{Json, Object, object};

/// One end's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// `cpu_util_*`, in percent of one CPU: total, user, system.
    pub cpu: [f64; 3],
    /// `sender_has_retransmits`; `None` if the end does not send.
    pub sender_has_retransmits: Option<bool>,
    /// `congestion_used`.
    pub congestion: Option<String>,
    /// `server_output_*`.
    pub output: Option<ServerOutput>,
    /// `streams`.
    pub streams: Vec<StreamResult>,
}

/// The output of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerOutput {
    /// Text output.
    Text(String),
    /// A JSON document.
    Document(Json),
}

/// The results of one stream at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// The stream's number.
    pub number: u32,
    /// Bytes that the end sent or received after the omitted time.
    pub bytes: u64,
    /// Retransmitted segments; `None` if unavailable.
    pub retransmits: Option<u64>,
    /// The jitter of received datagrams, in seconds.
    pub jitter: f64,
    /// Lost datagrams, including the omitted time.
    pub errors: u64,
    /// Datagrams lost in the omitted time.
    pub omitted_errors: Option<u64>,
    /// Datagrams sent, or the highest datagram number received, including the omitted time.
    pub packets: u64,
    /// The value of `packets` at the end of the omitted time.
    pub omitted_packets: Option<u64>,
    /// The end of the stream, in seconds after the omitted time.
    pub end_time: Option<f64>,
}

/// The value that 3.12 writes for -1, and reads as -1.
const UNKNOWN: u64 = u64::MAX;

impl Results {
    /// Encodes the object as stock 3.12 does.
    pub fn encode(&self) -> String {
        let retransmits = match self.sender_has_retransmits {
            Some(is_known) => u64::from(is_known),
            None => UNKNOWN,
        };
        let [total, user, system] = self.cpu;
        let mut json = object! {
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": retransmits,
        };
        json.extend((self.congestion.clone()).map(|name| ("congestion_used".into(), name.into())));
        match self.output.clone() {
            Some(ServerOutput::Text(text)) => json.push(("server_output_text".into(), text.into())),
            Some(ServerOutput::Document(document)) => {
                json.push(("server_output_json".into(), document));
            }
            None => {}
        }
        let streams = self
            .streams
            .iter()
            .map(|stream| Json::from(stream.members()));
        json.push(("streams".into(), Json::List(streams.collect())));
        Json::from(json).compact()
    }

    /// Decodes the object. Fails if a required key is missing or is not a number.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let json = Json::parse(bytes).map_err(|_| invalid_results("not JSON"))?;
        let cpu = ["cpu_util_total", "cpu_util_user", "cpu_util_system"];
        let [total, user, system] = cpu.map(|key| required(&json, key));
        let Some(Json::List(streams)) = json.get("streams") else {
            return Err(invalid_results("streams is missing"));
        };
        let text = json.get("server_output_text").and_then(Json::text);
        let text = text.map(|text| ServerOutput::Text(text.to_owned()));
        let document = json.get("server_output_json").cloned();
        Ok(Self {
            cpu: [total?, user?, system?].map(|percent| percent.max(0.0)),
            sender_has_retransmits: known_count(required(&json, "sender_has_retransmits")?)
                .map(|count| count > 0),
            congestion: json
                .get("congestion_used")
                .and_then(Json::text)
                .map(str::to_owned),
            output: document.map(ServerOutput::Document).or(text),
            streams: streams
                .iter()
                .map(StreamResult::decode)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the result of the stream with this number.
    pub fn stream(&self, number: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.number == number)
    }
}

impl StreamResult {
    fn members(&self) -> Object {
        let mut json = object! {
            "id": self.number,
            "bytes": self.bytes,
            "retransmits": self.retransmits.unwrap_or(UNKNOWN),
            "jitter": self.jitter,
            "errors": self.errors,
        };
        let mut add = |key: &'static str, value: Option<Json>| {
            json.extend(value.map(|value| (key.into(), value)));
        };
        add("omitted_errors", self.omitted_errors.map(Json::from));
        add("packets", Some(self.packets.into()));
        add("omitted_packets", self.omitted_packets.map(Json::from));
        add("start_time", self.end_time.map(|_| 0.into()));
        add("end_time", self.end_time.map(Json::from));
        json
    }

    fn decode(json: &Json) -> Result<Self, Fault> {
        let count = |key| required(json, key).map(|number| known_count(number).unwrap_or(0));
        let optional = |key| json.get(key).and_then(Json::number).and_then(known_count);
        let number =
            u32::try_from(count("id")?).map_err(|_| invalid_results("id is out of range"))?;
        let end_time = json.get("end_time").and_then(Json::number);
        Ok(Self {
            number,
            bytes: count("bytes")?,
            retransmits: known_count(required(json, "retransmits")?),
            jitter: required(json, "jitter")?.clamp(0.0, MAX_JITTER_SECONDS),
            errors: count("errors")?,
            omitted_errors: optional("omitted_errors"),
            packets: count("packets")?,
            omitted_packets: optional("omitted_packets"),
            end_time: end_time.filter(|seconds| (0.0..=MAX_TEST_SECONDS).contains(seconds)),
        })
    }
}

/// The maximum plausible jitter; a higher value is cut to it.
const MAX_JITTER_SECONDS: f64 = 1e6;

/// The maximum plausible duration; a higher value is ignored.
const MAX_TEST_SECONDS: f64 = 1e9;

fn required(json: &Json, key: &str) -> Result<f64, Fault> {
    let number = json.get(key).and_then(Json::number);
    number.ok_or_else(|| invalid_results(&format!("{key} is missing or not a number")))
}

fn invalid_results(reason: &str) -> Fault {
    Fault::with_reason(error::RECEIVE_RESULTS, reason)
}

/// Returns a count; `None` for -1 in either form.
fn known_count(number: f64) -> Option<u64> {
    (0.0..9.3e18).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_has_two_forms_and_keys_are_required() {
        let text = |retransmits: &str| {
            format!(
                r#"{{"cpu_util_total":1,"cpu_util_user":0,"cpu_util_system":1,"sender_has_retransmits":{retransmits},"streams":[{{"id":1,"bytes":5,"retransmits":{retransmits},"jitter":0,"errors":0,"packets":0}}]}}"#
            )
        };
        for retransmits in ["-1", "18446744073709551615"] {
            let results = Results::decode(text(retransmits).as_bytes()).unwrap();
            assert_eq!(results.sender_has_retransmits, None);
            assert_eq!(results.streams[0].retransmits, None);
        }
        let results = Results::decode(text("1").as_bytes()).unwrap();
        assert_eq!(results.stream(1).unwrap().retransmits, Some(1));
        assert_eq!(results.stream(2), None);
        for missing in ["\"jitter\":0,", "\"packets\":0", "\"cpu_util_user\":0,"] {
            let text = text("1")
                .replace(missing, "\"x\":0")
                .replace("\"x\":0\"", "\"x\":0,\"");
            let fault = Results::decode(text.as_bytes()).unwrap_err();
            assert_eq!(fault.code, error::RECEIVE_RESULTS, "{missing}");
        }
    }

    #[test]
    fn implausible_results_are_bounded() {
        let text = r#"{"cpu_util_total":-1,"cpu_util_user":1e308,"cpu_util_system":1,"sender_has_retransmits":1e99,"streams":[{"id":1,"bytes":-7,"retransmits":1e300,"jitter":-4,"errors":1e308,"packets":2,"end_time":1e308}]}"#;
        let results = Results::decode(text.as_bytes()).unwrap();
        let stream = results.streams[0];
        assert_eq!((stream.bytes, stream.errors, stream.end_time), (0, 0, None));
        assert!(stream.jitter == 0.0 && results.cpu[0] == 0.0);
    }
}
