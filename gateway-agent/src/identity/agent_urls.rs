//! The registered agents by the URLs of their cards, for `X-Caller-Agent`.

use std::{borrow::Cow, collections::HashMap};

use gateway_policy::CallerIdentity;
use registry_core::{Catalog, Entity, Kind, Name};

use super::account::registered_by;

/// The paths of cards below the URL of an agent.
const CARDS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The names of agents by URL. Nothing is fetched: a URL that no agent has registered names none.
#[derive(Debug)]
pub(crate) struct AgentUrls(HashMap<Box<str>, Option<Name>>);

impl AgentUrls {
    /// Collects the URLs of a catalog. A URL of several agents names none of them.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut names = HashMap::<Box<str>, Option<Name>>::new();
        for (key, record) in catalog.of_kind(Kind::Agent) {
            let Entity::Agent(agent) = record.document.entity() else { continue };
            // A data agent has no card, and its URL is the choice of the account that registered it.
            if registered_by(agent).is_some() {
                continue;
            }
            let name = names.entry(base(&agent.url).into());
            let name = name.or_insert_with(|| Some(key.name.clone()));
            if name.as_ref() != Some(&key.name) {
                *name = None;
            }
        }
        Self(names)
    }

    /// Replaces the URL of a claim by the name of its agent.
    pub(crate) fn named<'a>(&self, claim: &'a CallerIdentity) -> Cow<'a, CallerIdentity> {
        let CallerIdentity::Asserted { name, version } = claim else { return Cow::Borrowed(claim) };
        match self.0.get(base(name)) {
            Some(Some(known)) => {
                let name = known.as_str().into();
                Cow::Owned(CallerIdentity::Asserted { name, version: version.clone() })
            }
            _ => Cow::Borrowed(claim),
        }
    }
}

/// Whether a claim has the URL of a card instead of a name. Names have no colon.
pub(crate) fn is_url(claim: &CallerIdentity) -> bool {
    matches!(claim, CallerIdentity::Asserted { name, .. } if name.contains("://"))
}

/// The URL of an agent, without the path of its card and without a slash at the end.
fn base(url: &str) -> &str {
    let url = CARDS.iter().find_map(|card| url.strip_suffix(card)).unwrap_or(url);
    url.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{agent, catalog};

    fn asserted(name: &str) -> CallerIdentity {
        CallerIdentity::Asserted { name: name.into(), version: None }
    }

    #[test]
    fn card_url_names_registered_agent() {
        let with_url = |name: &str, version: &str, url: &str| {
            let mut agent = agent(name, version, &[]);
            agent.document["url"] = url.into();
            agent
        };
        let data_agent = |name: &str, url: &str| {
            let mut agent = with_url(name, "1.0.0", url);
            agent.document["metadata"] = serde_json::json!({ "dataAgent": { "owner": "o" } });
            agent
        };
        let urls = AgentUrls::new(&catalog(
            1,
            vec![
                with_url("team/a", "1.0.0", "https://a.example/a2a/"),
                with_url("team/a", "2.0.0", "https://a.example/a2a"),
                with_url("b", "1.0.0", "https://shared.example"),
                with_url("c", "1.0.0", "https://shared.example/"),
                data_agent("d", "https://a.example/a2a"),
            ],
        ));
        for url in [
            "https://a.example/a2a",
            "https://a.example/a2a/",
            "https://a.example/a2a/.well-known/agent-card.json",
            "https://a.example/a2a/.well-known/agent.json",
        ] {
            assert_eq!(*urls.named(&asserted(url)), asserted("team/a"), "{url}");
        }
        for other in ["https://shared.example", "https://a.example", "https://b.example", "b"] {
            assert_eq!(*urls.named(&asserted(other)), asserted(other), "{other}");
        }
        assert!(is_url(&asserted("https://a.example")) && !is_url(&asserted("team/a")));
    }
}
