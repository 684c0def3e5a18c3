//! Writing of bills in a format.

use std::io;

use crate::{bill::Bill, cyclonedx, format::Format, spdx2, spdx3};

impl Bill {
    /// Streams the bill as indented JSON without holding it in memory.
    pub fn write(&self, format: Format, out: impl io::Write) -> io::Result<()> {
        match format {
            Format::CycloneDx16 | Format::CycloneDx17 => cyclonedx::write(self, format, out),
            Format::Spdx23 => spdx2::write(self, out),
            Format::Spdx30 => spdx3::write(self, out),
        }
    }
}
