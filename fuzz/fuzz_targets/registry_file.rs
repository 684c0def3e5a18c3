//! Registry files: parsing and validation never panic, and every finding has a position in the
//! file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_core::{Catalog, RegistryFile, RegistryId, document::parse_json, rules};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    match RegistryFile::from_value(&value) {
        Ok(file) => {
            let catalog = Catalog::empty(RegistryId::new("fuzz"));
            let plan = rules::validate(&catalog, file.proposals());
            assert_eq!(plan.effects.len(), file.proposals().len());
            for found in &plan.diagnostics {
                let _ = file.locate(found);
            }
        }
        Err(error) => assert!(!error.diagnostics.is_empty()),
    }
});
