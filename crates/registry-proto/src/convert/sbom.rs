//! Formats of bills of materials.
//!
//! Deliberately absent: the bills; they travel as bytes.

use registry_core::sbom::Format;

use crate::v1;

/// A format that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSbomFormat {
    /// `SBOM_FORMAT_UNSPECIFIED`, or the field was left out.
    #[error("the format is missing; set it to CycloneDX 1.6 or 1.7, or SPDX 2.3 or 3.0")]
    Unspecified,
    /// A number that this version does not know.
    #[error("{0} is not the number of a format that this version knows")]
    Unknown(i32),
}

impl From<Format> for v1::SbomFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::CycloneDx16 => Self::Cyclonedx16,
            Format::CycloneDx17 => Self::Cyclonedx17,
            Format::Spdx23 => Self::Spdx23,
            Format::Spdx30 => Self::Spdx30,
        }
    }
}

/// Reads a format that must be given.
pub fn sbom_format(number: i32) -> Result<Format, InvalidSbomFormat> {
    match v1::SbomFormat::try_from(number).map_err(|_| InvalidSbomFormat::Unknown(number))? {
        v1::SbomFormat::Unspecified => Err(InvalidSbomFormat::Unspecified),
        v1::SbomFormat::Cyclonedx16 => Ok(Format::CycloneDx16),
        v1::SbomFormat::Cyclonedx17 => Ok(Format::CycloneDx17),
        v1::SbomFormat::Spdx23 => Ok(Format::Spdx23),
        v1::SbomFormat::Spdx30 => Ok(Format::Spdx30),
    }
}
