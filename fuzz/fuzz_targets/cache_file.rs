//! Cache files: parsing never panics, and an accepted file is written back unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_core::registry_file::{read_export, write_export};

fuzz_target!(|data: &[u8]| {
    let Ok(catalog) = read_export(data) else { return };
    let again = read_export(&write_export(&catalog));
    assert_eq!(again, Ok(catalog));
});
