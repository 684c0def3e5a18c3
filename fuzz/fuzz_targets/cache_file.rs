//! Cache files: reading never panics, and what is accepted is written back as a copy of itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_core::registry_file::{read_export, write_export};

fuzz_target!(|data: &[u8]| {
    let Ok(catalog) = read_export(data) else { return };
    let again = read_export(&write_export(&catalog));
    assert_eq!(again, Ok(catalog));
});
