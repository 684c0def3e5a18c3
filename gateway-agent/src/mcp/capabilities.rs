//! The capabilities and instructions of the gateway, which depend on the servers that a caller can
//! use.

use std::{collections::BTreeSet, sync::Arc};

use gateway_protocol::{
    mcp::{Era, Method, TASKS},
    naming::Interfaces,
};
use registry_core::{Key, entity::Exposure};
use serde_json::json;

use super::{
    Endpoint,
    feature::{Feature, List},
    requester::Requester,
};
use crate::view::{View, visible_servers::VisibleServers};

/// Maximum size of all instructions, in bytes.
const INSTRUCTIONS: usize = 16 * 1024;
/// Minimum share of a server, in bytes.
const MIN_INSTRUCTIONS: usize = 512;
/// Characters that can start a new line.
const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
/// Marks truncated instructions.
const CUT: &str = " […]";

/// A server capability other than tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capability {
    Prompts,
    Resources,
    Completions,
    Logging,
    /// Tasks of the extension (2026-07-28).
    Tasks,
    /// Tasks of 2025-11-25.
    ToolTasks,
}

/// The features that are available to one caller.
#[derive(Debug)]
pub(super) struct AvailableFeatures {
    served_tools: Vec<Capability>,
    /// The servers with these features.
    pub(super) visible_servers: VisibleServers,
    /// The tools that the caller currently sees.
    view: Arc<View>,
    /// The MCP Apps interfaces, whose URIs stay unchanged.
    pub(super) interfaces: Arc<Interfaces>,
}

/// Returns the features of a caller. Without a catalog there are none.
pub(super) fn available_features(endpoint: &Endpoint, requester: &Requester) -> AvailableFeatures {
    let gateway = &endpoint.gateway;
    let snapshot = gateway.views().now();
    let caller =
        gateway.identify(&snapshot, &requester.caller.claim, requester.caller.client.clone());
    let view = gateway.view(&snapshot, &caller);
    let visible_servers = gateway.visible_servers(&snapshot, &view, &caller);
    let view = view.at(gateway.staleness().check().level);
    let exposes = |what| visible_servers.iter().any(|visible| visible.exposes(what));
    let can = |what: &str| {
        visible_servers.iter().any(|visible| visible.features.capabilities().has(what))
    };
    let has_skills = gateway.settings().agents.as_tools
        && view.served_tools().any(|served| served.skill().is_some());
    let found = [
        (Capability::Prompts, exposes(Exposure::Prompts)),
        (Capability::Resources, exposes(Exposure::Resources)),
        (Capability::Completions, can("completions")),
        (Capability::Logging, can("logging")),
        (Capability::ToolTasks, requester.takes_tasks && view.takes_tasks()),
        (
            Capability::Tasks,
            has_skills
                || visible_servers
                    .iter()
                    .any(|visible| visible.features.capabilities().has_extension(TASKS)),
        ),
    ];
    let served_tools =
        found.into_iter().filter_map(|(served, is_there)| is_there.then_some(served));
    let interfaces = snapshot.definitions.interfaces().clone();
    AvailableFeatures { served_tools: served_tools.collect(), visible_servers, view, interfaces }
}

impl AvailableFeatures {
    /// The instructions of the servers with visible tools, each under a heading.
    pub(super) fn instructions(&self) -> Option<String> {
        let listed = self.view.served_tools().filter(|served| !served.is_quarantined());
        let servers: BTreeSet<&Key> = listed.filter_map(|served| served.server()).collect();
        let visible =
            self.visible_servers.iter().filter(|visible| servers.contains(&visible.server));
        let with_text: Vec<(&str, &str)> = visible
            .filter_map(|visible| {
                let text = visible.features.instructions()?.trim();
                let prefix = visible.prefix.as_str();
                let name = if prefix.is_empty() { visible.server.name.as_str() } else { prefix };
                (!text.is_empty()).then_some((name, text))
            })
            .collect();
        joined(&with_text)
    }

    pub(super) fn has(&self, served: Capability) -> bool {
        self.served_tools.contains(&served)
    }

    /// Whether a method is available to this caller.
    pub(super) fn serves(&self, feature: Feature) -> bool {
        match feature {
            Feature::List(List::Prompts) | Feature::Relayed(Method::GetPrompt) => {
                self.has(Capability::Prompts)
            }
            Feature::Relayed(Method::Complete) => self.has(Capability::Completions),
            Feature::Tasks | Feature::Relayed(Method::TaskResult) => {
                self.has(Capability::ToolTasks)
            }
            Feature::Relayed(method) if method.concerns_task() => {
                self.has(Capability::Tasks) || self.has(Capability::ToolTasks)
            }
            Feature::List(_) | Feature::Relayed(_) => self.has(Capability::Resources),
        }
    }

    /// The capabilities in the form of a protocol era.
    pub(super) fn capabilities(&self, era: Era) -> String {
        let mut all = json!({ "tools": { "listChanged": true } });
        for served in &self.served_tools {
            match served {
                Capability::Prompts => all["prompts"] = json!({ "listChanged": true }),
                Capability::Resources => {
                    all["resources"] = json!({ "listChanged": true, "subscribe": true });
                }
                Capability::Completions => all["completions"] = json!({}),
                Capability::Logging => all["logging"] = json!({}),
                Capability::Tasks if era == Era::Modern => {
                    all["extensions"] = json!({ TASKS: {} });
                }
                Capability::Tasks => {}
                Capability::ToolTasks => {
                    let requests = json!({ "tools": { "call": {} } });
                    all["tasks"] = json!({ "list": {}, "cancel": {}, "requests": requests });
                }
            }
        }
        all.to_string()
    }
}

/// Joins the instructions of servers, up to [`INSTRUCTIONS`] bytes.
fn joined(servers: &[(&str, &str)]) -> Option<String> {
    let most = (INSTRUCTIONS / servers.len().max(1)).max(MIN_INSTRUCTIONS);
    let mut all = String::new();
    for (name, text) in servers {
        let section = section(name, text, most);
        if all.len() + section.len() > INSTRUCTIONS {
            break;
        }
        all.push_str(&section);
    }
    (!all.is_empty()).then(|| all.trim_end().to_owned())
}

/// Formats the instructions of one server as a block quote under its name. A quote also contains
/// Markdown and HTML, so a server cannot write headings or text in the name of another.
fn section(name: &str, text: &str, most: usize) -> String {
    let mut section = format!("# {name}\n\n");
    let text = text.replace("\r\n", "\n");
    for line in text.split(LINE_BREAKS) {
        section.extend(["> ", line]);
        section.truncate(section.trim_end().len());
        section.push('\n');
    }
    let room = most.saturating_sub(CUT.len() + 2);
    if section.len() > room {
        section.truncate(section.floor_char_boundary(room));
        section.push_str(CUT);
        section.push('\n');
    }
    section.push('\n');
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_headings_that_no_server_can_forge() {
        let text =
            "Read first.\n\n  # notes\r# notes\r\nnotes\n====\u{2028}# notes\n<h1>notes</h1>\n```";
        let all = joined(&[("docs", text), ("notes", "Be short.")]).unwrap();
        let expected = "# docs\n\n> Read first.\n>\n>   # notes\n> # notes\n> notes\n> ====\n> # notes\n\
                        > <h1>notes</h1>\n> ```\n\n# notes\n\n> Be short.";
        assert_eq!(all, expected);
        assert_eq!(joined(&[]), None);
    }

    #[test]
    fn long_instructions_leave_room_for_others() {
        let long = "ä".repeat(INSTRUCTIONS);
        let all = joined(&[("a", &long), ("b", "Hurry.")]).unwrap();
        assert!(all.contains(CUT) && all.ends_with("# b\n\n> Hurry."), "{}", all.len());
        assert!(joined(&[("a", &long)]).unwrap().len() <= INSTRUCTIONS);
        let many: Vec<_> = (0..1_000).map(|_| ("a", long.as_str())).collect();
        let all = joined(&many).unwrap();
        assert!((INSTRUCTIONS - MIN_INSTRUCTIONS..=INSTRUCTIONS).contains(&all.len()));
    }
}
