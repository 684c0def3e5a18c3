//! Values that may be or hold secrets: what is wrong with one is said without repeating it.

use std::{ffi::OsStr, fmt::Display, marker::PhantomData, str::FromStr};

use clap::{Arg, Command, Error, builder::TypedValueParser, error::ErrorKind};

/// Parses such a value.
#[derive(Debug, Clone)]
pub(super) struct Unrepeated<T>(PhantomData<T>);

pub(super) fn unrepeated<T>() -> Unrepeated<T> {
    Unrepeated(PhantomData)
}

impl<T> TypedValueParser for Unrepeated<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
        let parsed = text.and_then(|text| text.parse::<T>().map_err(|e| e.to_string()));
        parsed.map_err(|reason| {
            let name = arg.map(Arg::to_string).unwrap_or_default();
            let message = format!("invalid value for '{name}': {reason}");
            cmd.clone().error(ErrorKind::ValueValidation, message)
        })
    }
}
