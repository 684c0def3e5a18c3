//! Reads `registry.maxStaleness`.

use registry_core::parse_positive_duration;

use super::read::Section;
use crate::freshness::MaxStaleness;

pub(super) fn read(registry: &Section<'_>) -> MaxStaleness {
    let section = registry.section("maxStaleness");
    let age = |name| section.find(name).and_then(|field| field.parse(parse_positive_duration));
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
