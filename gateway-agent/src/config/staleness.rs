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
            "`readOnlyTools` is set and `tools` is not; set `tools` to the same or a shorter time",
        ),
        (Some(tools), Some(read_only)) if tools > read_only => section.problem(
            "`tools` is longer than `readOnlyTools`; tools with side effects must not be allowed a \
             staler catalog than read-only tools",
        ),
        _ => {}
    }
    section.finish();
    limits
}
