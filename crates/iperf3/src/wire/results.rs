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

    /// Decodes the object. Fails if a required key is missing, or if a number is impossible.
    ///
    /// [`StreamResult`]s that contradict each other or the test are not detected here.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut json = Json::parse(bytes).map_err(|_| invalid_results("not JSON"))?;
        let document = json.take("server_output_json");
        let cpu = ["cpu_util_total", "cpu_util_user", "cpu_util_system"];
        let [total, user, system] = cpu.map(|key| measure(&json, key, MAX_CPU_PERCENT));
        let Some(Json::List(streams)) = json.get("streams") else {
            return Err(invalid_results("streams is missing"));
        };
        let text = json.get("server_output_text").and_then(Json::text);
        let text = text.map(|text| ServerOutput::Text(text.to_owned()));
        Ok(Self {
            cpu: [total?, user?, system?],
            sender_has_retransmits: count_or_unknown(&json, "sender_has_retransmits")?
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
        let optional = |key| match json.get(key) {
            Some(_) => count(json, key).map(Some),
            None => Ok(None),
        };
        let number = u32::try_from(count(json, "id")?);
        Ok(Self {
            number: number.map_err(|_| invalid_results("id is out of range"))?,
            bytes: count(json, "bytes")?,
            retransmits: count_or_unknown(json, "retransmits")?,
            jitter: measure(json, "jitter", MAX_SECONDS)?,
            errors: count(json, "errors")?,
            omitted_errors: optional("omitted_errors")?,
            packets: count(json, "packets")?,
            omitted_packets: optional("omitted_packets")?,
            end_time: match json.get("end_time") {
                Some(_) => Some(measure(json, "end_time", MAX_SECONDS)?),
                None => None,
            },
        })
    }
}

/// The maximum possible count: iperf3's counters are signed numbers of 64 bits.
const MAX_COUNT: f64 = 9.2e18;

/// The maximum possible duration or jitter, in seconds.
const MAX_SECONDS: f64 = 1e9;

/// The maximum possible CPU load: short times on many CPUs may give high figures.
const MAX_CPU_PERCENT: f64 = 1e9;

/// Returns a required number.
fn required(json: &Json, key: &str) -> Result<f64, Fault> {
    let number = json.get(key).and_then(Json::number);
    number.ok_or_else(|| invalid_results(&format!("{key} is missing or not a number")))
}

/// Returns a required number from 0 to `max`.
fn measure(json: &Json, key: &str, max: f64) -> Result<f64, Fault> {
    let number = required(json, key)?;
    let is_possible = (0.0..=max).contains(&number);
    is_possible
        .then_some(number)
        .ok_or_else(|| invalid_results(&format!("{key} is impossible: {number}")))
}

/// Returns a required whole number.
fn count(json: &Json, key: &str) -> Result<u64, Fault> {
    let number = measure(json, key, MAX_COUNT)?;
    if number.fract() != 0.0 {
        return Err(invalid_results(&format!("{key} is impossible: {number}")));
    }
    Ok(number as u64)
}

/// Returns a required whole number; `None` for -1 in either form.
#[expect(
    clippy::float_cmp,
    reason = "both numbers are exact, and no other number is unknown"
)]
fn count_or_unknown(json: &Json, key: &str) -> Result<Option<u64>, Fault> {
    let number = required(json, key)?;
    if number == -1.0 || number == UNKNOWN as f64 {
        return Ok(None);
    }
    count(json, key).map(Some)
}

fn invalid_results(reason: &str) -> Fault {
    Fault::with_reason(error::RECEIVE_RESULTS, reason)
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
    fn impossible_results_are_refused() {
        const VALID: &str = r#"{"cpu_util_total":1,"cpu_util_user":0,"cpu_util_system":1,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":7,"retransmits":4,"jitter":2,"errors":3,"packets":5,"omitted_errors":8,"omitted_packets":9,"end_time":6}]}"#;
        assert!(Results::decode(VALID.as_bytes()).is_ok());
        let counts = [
            "-7",
            "0.5",
            "18446744073709551615",
            "1e300",
            "null",
            "\"1\"",
        ];
        let measures = ["-0.5", "1e300", "null", "[]"];
        for (member, values) in [
            ("\"bytes\":7", &counts[..]),
            ("\"errors\":3", &counts),
            ("\"packets\":5", &counts),
            ("\"omitted_errors\":8", &counts),
            ("\"omitted_packets\":9", &counts),
            ("\"id\":1", &counts),
            ("\"retransmits\":4", &["-7", "0.5", "1e300"]),
            ("\"sender_has_retransmits\":1", &["-7", "0.5", "1e300"]),
            ("\"jitter\":2", &measures),
            ("\"end_time\":6", &measures),
            ("\"cpu_util_total\":1", &measures),
        ] {
            let (key, _) = member.split_once(':').unwrap();
            for value in values {
                let text = VALID.replace(member, &format!("{key}:{value}"));
                assert!(Results::decode(text.as_bytes()).is_err(), "{text}");
            }
        }
    }
}
