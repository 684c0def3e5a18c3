//! Documents of each kind: parsing never panics, and the canonical form is stable.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_core::{Document, Kind, document::parse_json};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    for kind in Kind::ALL {
        let Ok(document) = Document::parse(kind, &value) else { continue };
        let again = Document::parse(kind, &document.entity().to_value());
        assert_eq!(again.as_ref(), Ok(&document));
        let verified = Document::verify(kind, document.bytes().clone(), document.digest());
        assert_eq!(verified.as_ref(), Ok(&document));
    }
});
