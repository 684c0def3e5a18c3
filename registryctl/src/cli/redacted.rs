//! Values that may contain secrets: error messages do not repeat them.

use std::{ffi::OsStr, fmt::Display, marker::PhantomData, str::FromStr};

use clap::{Arg, Command, Error, builder::TypedValueParser, error::ErrorKind};

/// A value parser whose errors omit the value.
#[derive(Debug, Clone)]
pub(super) struct RedactedParser<T>(PhantomData<T>);

pub(super) fn redacted<T>() -> RedactedParser<T> {
    RedactedParser(PhantomData)
}

impl<T> TypedValueParser for RedactedParser<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_str().ok_or_else(|| "not valid UTF-8".to_owned());
        let parsed = text.and_then(|text| text.parse::<T>().map_err(|e| e.to_string()));
        parsed.map_err(|reason| {
            let name = arg.map(Arg::to_string).unwrap_or_default();
            let message = format!("invalid value for '{name}': {reason}");
            cmd.clone().error(ErrorKind::ValueValidation, message)
        })
    }
}
