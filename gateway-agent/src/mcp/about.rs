//! What the gateway says of itself: what it can do depends on whose servers a caller may use.
//!
//! Deliberately absent: who answers (`respond`).

use registry_core::entity::Exposure;
use serde_json::json;

use super::{
    Endpoint,
    feature::{Feature, List},
    manner::Who,
};
use crate::{
    upstream::{Era, Method, TASKS},
    view::shown::Showcase,
};

/// Longest instructions of all servers together, in characters.
const INSTRUCTIONS: usize = 16 * 1024;

/// What a server may have besides tools, as capabilities name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Prompts,
    Resources,
    Completions,
    Logging,
    Tasks,
}

/// What there is for one caller.
#[derive(Debug)]
pub(super) struct Offered {
    offers: Vec<Offer>,
    /// The servers that it comes from.
    pub(super) showcase: Showcase,
}

/// What there is for a caller. Without a catalog there is nothing yet.
pub(super) fn of(endpoint: &Endpoint, who: &Who) -> Offered {
    let gateway = &endpoint.gateway;
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, &who.claim, who.client.clone());
    let showcase = gateway.showcase(&snapshot, &gateway.view(&snapshot, &caller));
    let exposes = |what| showcase.iter().any(|shown| shown.exposes(what));
    let can = |what: &str| showcase.iter().any(|shown| shown.features.capabilities().can(what));
    let found = [
        (Offer::Prompts, exposes(Exposure::Prompts)),
        (Offer::Resources, exposes(Exposure::Resources)),
        (Offer::Completions, can("completions")),
        (Offer::Logging, can("logging")),
        (Offer::Tasks, showcase.iter().any(|shown| shown.features.capabilities().knows(TASKS))),
    ];
    let offers = found.into_iter().filter_map(|(offer, is_there)| is_there.then_some(offer));
    Offered { offers: offers.collect(), showcase }
}

impl Offered {
    /// Each server's own words, under the name by which a caller knows what it has.
    pub(super) fn instructions(&self) -> Option<String> {
        let mut all = String::new();
        for shown in self.showcase.iter() {
            let Some(own) = shown.features.instructions().filter(|own| !own.trim().is_empty())
            else {
                continue;
            };
            if !all.is_empty() {
                all.push_str("\n\n");
            }
            if !shown.prefix.is_empty() {
                all.push_str(shown.prefix.as_str());
                all.push_str(": ");
            }
            all.push_str(own);
        }
        let end = all.char_indices().nth(INSTRUCTIONS).map_or(all.len(), |(end, _)| end);
        all.truncate(end);
        (!all.is_empty()).then_some(all)
    }

    /// Whether there is this.
    pub(super) fn has(&self, offer: Offer) -> bool {
        self.offers.contains(&offer)
    }

    /// Whether a method makes sense for this caller; what is not offered is not served.
    pub(super) fn serves(&self, feature: Feature) -> bool {
        match feature {
            Feature::List(List::Prompts) | Feature::Relayed(Method::GetPrompt) => {
                self.has(Offer::Prompts)
            }
            Feature::Relayed(Method::Complete) => self.has(Offer::Completions),
            Feature::Relayed(Method::GetTask | Method::UpdateTask | Method::CancelTask) => {
                self.has(Offer::Tasks)
            }
            Feature::List(_) | Feature::Relayed(_) => self.has(Offer::Resources),
        }
    }

    /// As an era writes it.
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
            }
        }
        all.to_string()
    }
}
