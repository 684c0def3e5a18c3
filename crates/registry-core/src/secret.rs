//! Strings that must not be printed, even if invalid.

use std::{convert::Infallible, fmt, str::FromStr};

/// A string that may contain a password or token. `Debug` redacts it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The plain value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
