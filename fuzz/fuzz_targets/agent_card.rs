//! Agent cards: parsing never panics, and the result is a valid agent, or a repair needs a
//! decision.

#![no_main]

use libfuzzer_sys::fuzz_target;
use registry_import::{RepairedBy, AgentImportOptions, import_agent};
use registry_core::{Document, Kind, document::parse_json};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = parse_json(data) else { return };
    let imported = import_agent(&value, &AgentImportOptions::default());
    let is_said = imported.repairs.iter().any(|repair| repair.by == RepairedBy::Person);
    for agent in &imported.draft.agents {
        assert!(is_said || Document::parse(Kind::Agent, agent).is_ok(), "{agent}");
    }
    assert!(is_said || !imported.draft.is_empty());
    parse_json(&imported.draft.write()).expect("a draft is JSON");
});
