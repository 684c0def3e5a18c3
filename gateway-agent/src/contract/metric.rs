//! Names, help texts and labels of contract metrics. All label values are fixed.

use std::collections::BTreeMap;

use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::{
    definition::Part,
    judge::{DriftClass, Judgement, State},
};

const TOOLS: &str = "gateway_contract_tools";
const QUARANTINED: &str = "gateway_contract_quarantined_tools";
const DRIFT: &str = "gateway_contract_drift";
const CHANGES: &str = "gateway_contract_changes_total";

/// Registers the help texts.
pub(super) fn describe() {
    describe_gauge!(TOOLS, "Tools by the state of their contract.");
    describe_gauge!(QUARANTINED, "Quarantined tools.");
    describe_gauge!(DRIFT, "Tools with a changed definition, by part and class.");
    describe_counter!(CHANGES, "Changes of contract states by new state.");
}

pub(super) fn count_change(to: State) {
    counter!(CHANGES, "state" => to.as_str()).increment(1);
}

pub(super) fn set<'a>(judged: impl Iterator<Item = &'a Judgement>, quarantined: usize) {
    let mut states = BTreeMap::<State, u32>::new();
    let mut parts = BTreeMap::<(Part, DriftClass), u32>::new();
    for judgement in judged {
        *states.entry(judgement.state).or_default() += 1;
        for drift in &judgement.drift {
            *parts.entry((drift.part, drift.class)).or_default() += 1;
        }
    }
    for state in State::ALL {
        let tools = states.get(&state).copied().unwrap_or_default();
        gauge!(TOOLS, "state" => state.as_str()).set(tools);
    }
    for (part, class) in Part::ALL.into_iter().flat_map(|p| DriftClass::ALL.map(|c| (p, c))) {
        let tools = parts.get(&(part, class)).copied().unwrap_or_default();
        gauge!(DRIFT, "part" => part.as_str(), "class" => class.as_str()).set(tools);
    }
    gauge!(QUARANTINED).set(u32::try_from(quarantined).unwrap_or(u32::MAX));
}
