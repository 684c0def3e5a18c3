//! The metrics of contracts.

use std::collections::BTreeMap;

use metrics::{counter, gauge};

use super::{
    comparison::{ContractState, ContractStatus, DriftClass},
    definition::DefinitionPart,
};

const TOOLS: &str = "gateway_contract_tools";
const QUARANTINED: &str = "gateway_contract_quarantined_tools";
const DRIFT: &str = "gateway_contract_drift";
const CHANGES: &str = "gateway_contract_changes_total";

pub(super) fn count_change(to: ContractState) {
    counter!(CHANGES, "state" => to.as_str()).increment(1);
}

pub(super) fn set<'a>(compared: impl Iterator<Item = &'a ContractStatus>, quarantined: usize) {
    let mut states = BTreeMap::<ContractState, u32>::new();
    let mut parts = BTreeMap::<(DefinitionPart, DriftClass), u32>::new();
    for status in compared {
        *states.entry(status.state).or_default() += 1;
        for drift in &status.drift {
            *parts.entry((drift.part, drift.class)).or_default() += 1;
        }
    }
    for state in ContractState::ALL {
        let tools = states.get(&state).copied().unwrap_or_default();
        gauge!(TOOLS, "state" => state.as_str()).set(tools);
    }
    let all = DefinitionPart::ALL.into_iter().chain([DefinitionPart::Card]);
    for (part, class) in all.flat_map(|p| DriftClass::ALL.map(|c| (p, c))) {
        let tools = parts.get(&(part, class)).copied().unwrap_or_default();
        gauge!(DRIFT, "part" => part.as_str(), "class" => class.as_str()).set(tools);
    }
    gauge!(QUARANTINED).set(u32::try_from(quarantined).unwrap_or(u32::MAX));
}
