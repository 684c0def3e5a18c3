//! Reads `registry.validation.runtime.tools`. Entries may name unregistered tools, because the
//! catalog can change at any time.

use gateway_policy::{ToolSelector, ToolValidation};

use super::{
    CONTRACT_MODES, VIOLATION_MODES,
    read::{Field, Section},
};

/// Reads the list. Invalid entries are skipped and reported.
pub(super) fn read(runtime: &Section<'_>) -> Vec<ToolValidation> {
    read_each(runtime, entry, |entry| &entry.tool)
}

/// Reads a list `tools` with at most one entry per tool.
pub(super) fn read_each<E>(
    section: &Section<'_>,
    entry: fn(&Field<'_>) -> Option<E>,
    selector: fn(&E) -> &ToolSelector,
) -> Vec<E> {
    let items = section.find("tools").map(|field| field.list()).unwrap_or_default();
    let mut tools = Vec::<E>::new();
    for item in items {
        let Some(entry) = entry(&item) else { continue };
        if tools.iter().any(|known| selector(known) == selector(&entry)) {
            item.problem(format!("{} already has an entry; remove one of them", selector(&entry)));
        } else {
            tools.push(entry);
        }
    }
    tools
}

fn entry(item: &Field<'_>) -> Option<ToolValidation> {
    let section = item.section();
    let tool = section.require("tool", "set it to a tool: NAME or NAME@VERSION");
    let tool = tool.and_then(|field| field.parse(str::parse));
    let [input, output] = ["inputValidation", "outputValidation"]
        .map(|name| section.find(name).and_then(|field| field.choice(VIOLATION_MODES)));
    let contract = section.find("contractDrift").and_then(|field| field.choice(CONTRACT_MODES));
    section.finish();
    Some(ToolValidation { tool: tool?, input, output, contract })
}
