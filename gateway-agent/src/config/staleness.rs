//! `registry.maxStaleness`: how old the catalog may be for which calls.
//!
//! Deliberately absent: how old it is, and the decision.

use std::time::Duration;

use registry_core::parse_wait;

use super::read::Section;

/// The age from which a kind of call is no longer let through; without one, there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaxStaleness {
    /// Of tools that may change something: all that are not registered with `readOnlyHint`.
    pub tools: Option<Duration>,
    /// Of tools that are registered with the annotation `readOnlyHint: true`.
    pub read_only_tools: Option<Duration>,
}

pub(super) fn read(registry: &Section<'_>) -> MaxStaleness {
    let section = registry.section("maxStaleness");
    let age = |name| section.find(name).and_then(|field| field.parse(parse_wait));
    let limits = MaxStaleness { tools: age("tools"), read_only_tools: age("readOnlyTools") };
    match (limits.tools, limits.read_only_tools) {
        (None, Some(_)) if section.find("tools").is_none() => section.problem(
            "`readOnlyTools` has a limit and `tools` has none; give `tools` one that is as long \
             or shorter",
        ),
        (Some(tools), Some(read_only)) if tools > read_only => section.problem(
            "`tools` is longer than `readOnlyTools`; what may change something must not be \
             called for longer than what only reads",
        ),
        _ => {}
    }
    section.finish();
    limits
}
