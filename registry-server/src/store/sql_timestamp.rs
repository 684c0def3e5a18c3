//! Timestamps in the database: `timestamptz` in Postgres, RFC 3339 text in SQLite. Both are readable and
//! comparable in queries.

use registry_core::Timestamp;
use sqlx::{
    Database, Decode, Encode, Postgres, Sqlite, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, types::Oid},
    sqlite::{SqliteTypeInfo, SqliteValueRef},
};

/// A stored timestamp in its exact form, to detect edits below one millisecond or in the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawTimestamp(pub(super) Vec<u8>);

/// A timestamp column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SqlTimestamp(pub(super) Timestamp);

/// 2000-01-01T00:00:00Z, the epoch of Postgres timestamps.
const POSTGRES_EPOCH_MILLIS: i64 = 946_684_800_000;

impl Type<Sqlite> for SqlTimestamp {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(ty)
    }
}

impl Encode<'_, Sqlite> for SqlTimestamp {
    fn encode_by_ref(
        &self,
        buffer: &mut <Sqlite as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.0.to_string(), buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for SqlTimestamp {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(Timestamp::parse(<&str as Decode<Sqlite>>::decode(value)?)?))
    }
}

impl Type<Sqlite> for RawTimestamp {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }
}

impl<'r> Decode<'r, Sqlite> for RawTimestamp {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(<&[u8] as Decode<Sqlite>>::decode(value)?.to_owned()))
    }
}

impl Type<Postgres> for RawTimestamp {
    fn type_info() -> PgTypeInfo {
        <SqlTimestamp as Type<Postgres>>::type_info()
    }
}

impl<'r> Decode<'r, Postgres> for RawTimestamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let micros = postgres_micros(value)?;
        let time = from_postgres(micros);
        let text = match micros.rem_euclid(1000) {
            0 => time.to_string(),
            finer => format!("{time} and {finer} µs"),
        };
        Ok(Self(text.into_bytes()))
    }
}

impl Type<Postgres> for SqlTimestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for SqlTimestamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for SqlTimestamp {
    fn encode_by_ref(
        &self,
        buffer: &mut <Postgres as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode((self.0.as_millis() - POSTGRES_EPOCH_MILLIS) * 1000, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for SqlTimestamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        postgres_micros(value).map(from_postgres).map(Self)
    }
}

/// Microseconds since the Postgres epoch.
fn postgres_micros(value: PgValueRef<'_>) -> Result<i64, BoxDynError> {
    if value.format() != PgValueFormat::Binary {
        return Err("unexpected text format of a timestamp".into());
    }
    <i64 as Decode<Postgres>>::decode(value)
}

/// Truncates to milliseconds.
fn from_postgres(micros: i64) -> Timestamp {
    Timestamp::from_millis(micros.div_euclid(1000) + POSTGRES_EPOCH_MILLIS)
}
