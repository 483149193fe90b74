//! Durations as integer nanoseconds, for serde's `with`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A [`Duration`] as nanoseconds.
pub(crate) struct Nanos;

/// An optional [`Duration`] as nanoseconds.
pub(crate) struct OptionalNanos;

impl Nanos {
    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.as_nanos() as u64)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

impl OptionalNanos {
    #[expect(
        clippy::ref_option,
        reason = "serde's `with` passes the field by reference"
    )]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|d| d.as_nanos() as u64).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_nanos))
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use super::{Nanos, OptionalNanos};

    impl JsonSchema for Nanos {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "nanos".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            u64::json_schema(generator)
        }
    }

    impl JsonSchema for OptionalNanos {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "optional nanos".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            Option::<u64>::json_schema(generator)
        }
    }
}
