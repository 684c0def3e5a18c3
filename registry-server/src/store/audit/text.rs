//! Text columns in their stored form. SQLite accepts invalid UTF-8, which must not stop the verification.

use std::{borrow::Cow, ops::Deref};

use sqlx::{
    Database, Decode, Encode, Postgres, Sqlite, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgTypeInfo, PgValueRef},
    sqlite::{SqliteTypeInfo, SqliteValueRef},
};

/// Bytes of a text column. As a parameter it is a blob in SQLite: `CAST($1 AS text)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text(Vec<u8>);

impl Text {
    /// Displayed text; invalid bytes are replaced.
    pub(super) fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Type<Sqlite> for Text {
    fn type_info() -> SqliteTypeInfo {
        <[u8] as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <[u8] as Type<Sqlite>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Sqlite> for Text {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(<&[u8] as Decode<Sqlite>>::decode(value)?.to_owned()))
    }
}

impl Encode<'_, Sqlite> for Text {
    fn encode_by_ref(
        &self,
        buffer: &mut <Sqlite as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode(self.0.clone(), buffer)
    }
}

impl Type<Postgres> for Text {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <str as Type<Postgres>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Postgres> for Text {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(value.as_bytes()?.to_owned()))
    }
}

impl Encode<'_, Postgres> for Text {
    fn encode_by_ref(
        &self,
        buffer: &mut <Postgres as Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.0.as_slice(), buffer)
    }
}
