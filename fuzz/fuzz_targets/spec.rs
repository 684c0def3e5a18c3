//! Compositions and projections: parsing and projection never panic, and every problem has a
//! pointer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_core::{
    document::parse_json,
    spec::{Composition, Mappings, eval::Budget},
};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    let problems = [
        Composition::parse(&value).err().unwrap_or_default(),
        Mappings::parse(&value).err().unwrap_or_default(),
    ];
    for problem in problems.into_iter().flatten() {
        assert!(value.pointer(&problem.pointer).is_some(), "{problem}");
    }
    if let Ok(mappings) = Mappings::parse(&value) {
        let _ = mappings.apply(&value, &mut Budget::new(1 << 16));
    }
});
