//! `server.json` and responses of MCP registries: parsing never panics, rejections have reasons,
//! and accepted servers are served in an acceptable form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_registry::{LocatedDocument, ServerDetail};
use registry_core::{Entity, document::parse_json};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    let _ = mcp_registry::more_pages(&value);
    for LocatedDocument { pointer, value: found, .. } in mcp_registry::find(&value) {
        assert_eq!(value.pointer(&pointer), Some(found));
        let (document, diagnostics) = mcp_registry::document(found);
        let Some(document) = document else {
            assert!(diagnostics.iter().any(|found| found.is_error()));
            continue;
        };
        let Entity::Server(server) = document.entity() else { panic!("no server") };
        let served = ServerDetail::from_server(server, server.name.as_str());
        let served = serde_json::to_value(served).expect("texts and JSON");
        let (again, diagnostics) = mcp_registry::document(&served);
        assert_eq!(again.map(|again| again.digest()), Some(document.digest()), "{diagnostics:?}");
    }
});
