//! How the tools stand to their upstreams, for people and programs.
//!
//! Tools without findings are only counted.

use std::{collections::BTreeMap, sync::Arc};

use gateway_policy::{CheckRules, Mode};
use registry_core::{Digest, Key};
use serde::Serialize;

use super::{
    judge::{Drift, Judgement, State},
    observed::{AllObserved, Observed},
};

/// Most tools that a report lists.
const LISTED: usize = 1_000;

/// How all tools are.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many tools are in each state.
    pub states: BTreeMap<&'static str, usize>,
    /// How many of them are quarantined.
    pub quarantined: usize,
    /// Those with something to tell.
    pub tools: Vec<ToolReport>,
    /// How many more have something to tell.
    pub not_listed: usize,
}

/// How one tool is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// `tool/NAME@VERSION`.
    pub tool: Key,
    /// How it stands to what its server lists; absent where that is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The definition that its server gives now, by its digest: what can be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Digest>,
    /// Whether its calls are refused.
    pub quarantined: bool,
    /// Whether a person has accepted the definition.
    pub accepted: bool,
    /// What differs, part by part.
    pub drift: Vec<Drift>,
    /// Calls that broke its schemas since the gateway runs.
    pub observed: Arc<Observed>,
}

impl Report {
    pub(super) fn new<'a>(
        judged: impl Iterator<Item = (&'a Key, &'a Judgement)>,
        rules: &CheckRules,
        observed: &AllObserved,
    ) -> Self {
        let mut noted = observed.noted();
        let mut states: BTreeMap<_, _> =
            State::ALL.map(|state| (state.as_str(), 0_usize)).into_iter().collect();
        let (mut quarantined, mut tools) = (0, Vec::new());
        let is_looked_at = |(tool, _): &(&Key, &Judgement)| rules.of(tool).contract != Mode::Ignore;
        for (tool, judgement) in judged.filter(is_looked_at) {
            *states.entry(judgement.state.as_str()).or_default() += 1;
            let is_quarantined = judgement.is_broken && rules.of(tool).contract == Mode::Error;
            quarantined += usize::from(is_quarantined);
            let observed = noted.remove(tool);
            let is_well = matches!(judgement.state, State::Same | State::Unheard);
            if is_well && !is_quarantined && observed.is_none() {
                continue;
            }
            tools.push(ToolReport {
                tool: tool.clone(),
                state: Some(judgement.state),
                live: judgement.live.as_ref().map(super::definition::Fingerprint::digest),
                quarantined: is_quarantined,
                accepted: judgement.is_accepted,
                drift: judgement.drift.clone(),
                observed: observed.unwrap_or_default(),
            });
        }
        tools.extend(noted.into_iter().map(|(tool, observed)| ToolReport {
            tool,
            state: None,
            live: None,
            quarantined: false,
            accepted: false,
            drift: Vec::new(),
            observed,
        }));
        // What is kept from being called comes first, should there be too many.
        tools.sort_by(|a, b| (!a.quarantined, &a.tool).cmp(&(!b.quarantined, &b.tool)));
        let not_listed = tools.len().saturating_sub(LISTED);
        tools.truncate(LISTED);
        Self { states, quarantined, tools, not_listed }
    }
}
