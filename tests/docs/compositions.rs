//! The fields of patterns in `docs/composition-fields.md` are those of the parser.

use std::{collections::BTreeSet, fs};

use acceptance::root;
use registry_core::spec::{PATTERNS, Spec};
use serde_json::json;

/// The fields of a pattern in the notation of the page, from the findings about an object without
/// any of them.
fn accepted(pattern: &str) -> BTreeSet<String> {
    let found = Spec::parse(&json!({ pattern: { "unknown": true } })).expect_err("invalid");
    let helps: Vec<_> = found.iter().filter_map(|found| found.help.as_deref()).collect();
    let required: BTreeSet<_> = helps.iter().filter_map(|help| help.strip_prefix("add ")).collect();
    let mut fields = helps.iter().filter_map(|help| help.strip_prefix("the valid fields are "));
    let fields = fields.next().expect("the valid fields").split(", ");
    let noted = |name: &str| {
        let name = format!("`{name}`");
        if required.contains(name.as_str()) { name } else { name + "?" }
    };
    fields.map(noted).collect()
}

#[test]
fn documented_fields_are_those_of_the_parser() {
    let page = fs::read_to_string(root().join("docs/composition-fields.md")).expect("a page");
    for pattern in PATTERNS {
        let start = format!("| `{pattern}` | ");
        let mut rows = page.lines().filter_map(|line| line.strip_prefix(&start));
        let row = rows.next().unwrap_or_else(|| panic!("no row of {pattern}"));
        let fields = row.trim_end_matches(" |").split(", ");
        let documented: BTreeSet<_> = fields.map(str::to_owned).collect();
        assert_eq!(documented, accepted(pattern), "{pattern}");
    }
}
