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
    manner::Who,
};
use crate::view::{View, shown::Showcase};

/// Maximum size of all instructions, in bytes.
const INSTRUCTIONS: usize = 16 * 1024;
/// Minimum share of a server, in bytes.
const LEAST_INSTRUCTIONS: usize = 512;
/// Characters that can start a new line.
const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
/// Marks truncated instructions.
const CUT: &str = " […]";

/// A capability of servers besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
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
pub(super) struct Offered {
    offers: Vec<Offer>,
    /// The servers with these features.
    pub(super) showcase: Showcase,
    /// The tools that the caller currently sees.
    view: Arc<View>,
    /// The MCP Apps interfaces, whose URIs stay unchanged.
    pub(super) interfaces: Arc<Interfaces>,
}

/// Returns the features of a caller. Without a catalog there are none.
pub(super) fn of(endpoint: &Endpoint, who: &Who) -> Offered {
    let gateway = &endpoint.gateway;
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, &who.caller.claim, who.caller.client.clone());
    let view = gateway.view(&snapshot, &caller);
    let showcase = gateway.showcase(&snapshot, &view);
    let view = view.at(gateway.watchman().look().verdict);
    let exposes = |what| showcase.iter().any(|shown| shown.exposes(what));
    let can = |what: &str| showcase.iter().any(|shown| shown.features.capabilities().can(what));
    let found = [
        (Offer::Prompts, exposes(Exposure::Prompts)),
        (Offer::Resources, exposes(Exposure::Resources)),
        (Offer::Completions, can("completions")),
        (Offer::Logging, can("logging")),
        (Offer::ToolTasks, who.takes_tasks && view.takes_tasks()),
        (Offer::Tasks, showcase.iter().any(|shown| shown.features.capabilities().knows(TASKS))),
    ];
    let offers = found.into_iter().filter_map(|(offer, is_there)| is_there.then_some(offer));
    let interfaces = snapshot.definitions.interfaces().clone();
    Offered { offers: offers.collect(), showcase, view, interfaces }
}

impl Offered {
    /// The instructions of the servers with visible tools, each under a heading.
    pub(super) fn instructions(&self) -> Option<String> {
        let listed = self.view.offers().filter(|offer| !offer.is_quarantined());
        let servers: BTreeSet<&Key> = listed.filter_map(|offer| offer.server()).collect();
        let shown = self.showcase.iter().filter(|shown| servers.contains(&shown.server));
        let with_text: Vec<(&str, &str)> = shown
            .filter_map(|shown| {
                let text = shown.features.instructions()?.trim();
                let prefix = shown.prefix.as_str();
                let name = if prefix.is_empty() { shown.server.name.as_str() } else { prefix };
                (!text.is_empty()).then_some((name, text))
            })
            .collect();
        together(&with_text)
    }

    pub(super) fn has(&self, offer: Offer) -> bool {
        self.offers.contains(&offer)
    }

    /// Whether a method is available to this caller.
    pub(super) fn serves(&self, feature: Feature) -> bool {
        match feature {
            Feature::List(List::Prompts) | Feature::Relayed(Method::GetPrompt) => {
                self.has(Offer::Prompts)
            }
            Feature::Relayed(Method::Complete) => self.has(Offer::Completions),
            Feature::Tasks | Feature::Relayed(Method::TaskResult) => self.has(Offer::ToolTasks),
            Feature::Relayed(method) if method.is_of_task() => {
                self.has(Offer::Tasks) || self.has(Offer::ToolTasks)
            }
            Feature::List(_) | Feature::Relayed(_) => self.has(Offer::Resources),
        }
    }

    /// The capabilities in the form of a protocol era.
    pub(super) fn capabilities(&self, era: Era) -> String {
        let mut all = json!({ "tools": { "listChanged": true } });
        for offer in &self.offers {
            match offer {
                Offer::Prompts => all["prompts"] = json!({ "listChanged": true }),
                Offer::Resources => {
                    all["resources"] = json!({ "listChanged": true, "subscribe": true });
                }
                Offer::Completions => all["completions"] = json!({}),
                Offer::Logging => all["logging"] = json!({}),
                Offer::Tasks if era == Era::Modern => {
                    all["extensions"] = json!({ TASKS: {} });
                }
                Offer::Tasks => {}
                Offer::ToolTasks => {
                    let requests = json!({ "tools": { "call": {} } });
                    all["tasks"] = json!({ "list": {}, "cancel": {}, "requests": requests });
                }
            }
        }
        all.to_string()
    }
}

/// Joins the instructions of servers, up to [`INSTRUCTIONS`] bytes.
fn together(servers: &[(&str, &str)]) -> Option<String> {
    let most = (INSTRUCTIONS / servers.len().max(1)).max(LEAST_INSTRUCTIONS);
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
        let all = together(&[("docs", text), ("notes", "Be short.")]).unwrap();
        let expected = "# docs\n\n> Read first.\n>\n>   # notes\n> # notes\n> notes\n> ====\n> # notes\n\
                        > <h1>notes</h1>\n> ```\n\n# notes\n\n> Be short.";
        assert_eq!(all, expected);
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn long_instructions_leave_room_for_others() {
        let long = "ä".repeat(INSTRUCTIONS);
        let all = together(&[("a", &long), ("b", "Be short.")]).unwrap();
        assert!(all.contains(CUT) && all.ends_with("# b\n\n> Be short."), "{}", all.len());
        assert!(together(&[("a", &long)]).unwrap().len() <= INSTRUCTIONS);
        let many: Vec<_> = (0..1_000).map(|_| ("a", long.as_str())).collect();
        let all = together(&many).unwrap();
        assert!((INSTRUCTIONS - LEAST_INSTRUCTIONS..=INSTRUCTIONS).contains(&all.len()));
    }
}
