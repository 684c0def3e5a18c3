//! Output formats of bills.

use std::{fmt, str::FromStr};

/// An output format of a bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// CycloneDX 1.6 JSON.
    CycloneDx16,
    /// CycloneDX 1.7 JSON.
    CycloneDx17,
    /// SPDX 2.3 JSON.
    Spdx23,
    /// SPDX 3.0.1 JSON-LD.
    Spdx30,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::CycloneDx16, Self::CycloneDx17, Self::Spdx23, Self::Spdx30];

    /// The name: `cyclonedx-1.6`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CycloneDx16 => "cyclonedx-1.6",
            Self::CycloneDx17 => "cyclonedx-1.7",
            Self::Spdx23 => "spdx-2.3",
            Self::Spdx30 => "spdx-3.0",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a format; the formats are cyclonedx-1.6, cyclonedx-1.7, spdx-2.3 and spdx-3.0"
)]
pub struct InvalidFormat(String);

impl FromStr for Format {
    type Err = InvalidFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| InvalidFormat(text.to_owned()))
    }
}
