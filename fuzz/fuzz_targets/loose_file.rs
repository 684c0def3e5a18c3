//! Loose registry files: the repair never panics, is idempotent, and is valid if it needs no
//! decision.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_import::{RepairedBy, import_registry_file};
use registry_core::{Catalog, RegistryFile, RegistryId, document::parse_json, rules::plan};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    let once = import_registry_file(&value);
    if once.repairs.iter().any(|repair| repair.by == RepairedBy::Person) {
        return;
    }
    let file = RegistryFile::from_value(&once.draft.to_value()).expect("documents");
    let catalog = Catalog::empty(RegistryId::new("fuzz"));
    assert!(plan(&catalog, file.proposals()).is_acceptable(), "{once:?}");
    let again = import_registry_file(&once.draft.to_value());
    assert_eq!((again.repairs, again.draft), (vec![], once.draft));
});
