//! JSON in iperf3's style: ordered keys, integers without a fraction, and cJSON's indentation.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use units::iperf::format_general;

/// A JSON value. An object may contain a key twice, as the stock server's documents do.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// Any other number, which is finite.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object.
    Object(Object),
}

/// The members of an object, in document order.
pub type Object = Vec<(Cow<'static, str>, Json)>;

/// Creates an [`Object`] from keys and values.
macro_rules! object {
    ($($key:literal: $value:expr),* $(,)?) => {
        vec![$((std::borrow::Cow::Borrowed($key), $crate::json::Json::from($value))),*]
    };
}
pub(crate) use object;

/// The maximum depth of a document. Those of iperf3 have a depth of at most 6. The parser is recursive
/// and runs on the small stacks of sessions.
const MAX_DEPTH: usize = 24;

/// Returns the maximum number of open arrays and objects. The result for invalid JSON has no meaning,
/// but is not less than the depth that a parser reaches.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut max_depth) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        max_depth = max_depth.max(depth);
    }
    max_depth
}

impl Json {
    /// Parses a document. Fails if it is nested deeper than 24 levels.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        if depth(bytes) > MAX_DEPTH {
            return Err(serde::de::Error::custom("nested too deeply"));
        }
        serde_json::from_slice(bytes)
    }

    /// Returns the first member of an object with this key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                let member = members.iter().find(|(name, _)| name == key)?;
                Some(&member.1)
            }
            _ => None,
        }
    }

    /// Removes and returns the first member of an object with this key.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        match self {
            Self::Object(members) => {
                let index = members.iter().position(|(name, _)| name == key)?;
                Some(members.swap_remove(index).1)
            }
            _ => None,
        }
    }

    /// Returns the value of a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Formats the value on one line without spaces.
    pub fn compact(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, None);
        text
    }

    /// Formats the value on several lines, indented by tabs.
    pub fn indented(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text
    }

    fn write(&self, out: &mut String, depth: Option<usize>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Integer(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Number(number) => out.push_str(&format_number(*number)),
            Self::Text(text) => write_quoted(out, text),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(if depth.is_some() { ", " } else { "," });
                    }
                    item.write(out, depth.map(|depth| depth + 1));
                }
                out.push(']');
            }
            Self::Object(members) => write_object(out, members, depth),
        }
    }
}

fn write_object(out: &mut String, members: &Object, depth: Option<usize>) {
    out.push('{');
    let indent = |out: &mut String, tabs| {
        out.push('\n');
        out.extend(std::iter::repeat_n('\t', tabs));
    };
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if let Some(depth) = depth {
            indent(out, depth + 1);
        }
        write_quoted(out, key);
        out.push_str(if depth.is_some() { ":\t" } else { ":" });
        value.write(out, depth.map(|depth| depth + 1));
    }
    if let Some(depth) = depth {
        indent(out, depth);
    }
    out.push('}');
}

/// Formats a number with 15 digits if they preserve its value, else with 17.
fn format_number(number: f64) -> String {
    let short = format_general(number, 15);
    if short.parse() == Ok(number) {
        short
    } else {
        format_general(number, 17)
    }
}

/// Writes a quoted string. Escapes control and format characters, so that a peer cannot control a
/// terminal.
fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if codec::needs_escape(c) => codec::push_json_escape(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Json {
    /// Infinities and NaN become 0, because JSON cannot represent them.
    fn from(number: f64) -> Self {
        const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
        if !number.is_finite() {
            Self::Integer(0)
        } else if number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER {
            Self::Integer(number as i128)
        } else {
            Self::Number(number)
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Object> for Json {
    fn from(members: Object) -> Self {
        Self::Object(members)
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}

macro_rules! from_integers {
    ($($kind:ty)*) => {$(
        impl From<$kind> for Json {
            fn from(number: $kind) -> Self {
                Self::Integer(number.into())
            }
        }
    )*};
}
from_integers!(i32 i64 u8 u16 u32 u64 i128);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::from(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Object::new();
        while let Some((key, value)) = members.next_entry::<String, Json>()? {
            object.push((key.into(), value));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_stocks_format() {
        let inner = object! { "a": 1, "b": 1.5, "c": Vec::<Json>::new(), "d": Object::new() };
        let list = vec![
            Json::from(inner),
            Json::from(object! { "e": "x\"\n\u{1b}\u{9b}\u{202e}" }),
        ];
        let json = Json::from(object! { "list": list, "t": true, "n": f64::NAN });
        assert_eq!(
            json.indented(),
            "{\n\t\"list\":\t[{\n\t\t\t\"a\":\t1,\n\t\t\t\"b\":\t1.5,\n\t\t\t\"c\":\t[],\n\t\t\t\"d\":\t{\n\t\t\t}\n\t\t}, \
             {\n\t\t\t\"e\":\t\"x\\\"\\n\\u001b\\u009b\\u202e\"\n\t\t}],\n\t\"t\":\ttrue,\n\t\"n\":\t0\n}"
        );
        let compact = r#"{"list":[{"a":1,"b":1.5,"c":[],"d":{}},{"e":"x\"\n\u001b\u009b\u202e"}],"t":true,"n":0}"#;
        assert_eq!(json.compact(), compact);
        assert_eq!(Json::parse(compact.as_bytes()).unwrap(), json);
    }

    #[test]
    fn numbers_keep_their_digits() {
        for text in [
            "0",
            "-1",
            "18446744073709551615",
            "2638479420",
            "0.40604782285476315",
            "2031402.6552186909",
            "1.000105",
            "4.9569852010123e-05",
            "1.0001050233840942",
        ] {
            let json = Json::parse(text.as_bytes()).unwrap();
            assert_eq!(json.compact(), text);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(100_000);
        assert!(Json::parse(deep.as_bytes()).is_err());
        // The parser fits on the stack of a session.
        let parse = || {
            let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
            assert!(Json::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
            assert!(Json::parse(nested(MAX_DEPTH + 1).as_bytes()).is_err());
            assert!(Json::parse(format!(r#""\"{}""#, "[".repeat(99)).as_bytes()).is_ok());
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread.spawn(parse).unwrap().join().unwrap();
    }
}
