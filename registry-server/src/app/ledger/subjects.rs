//! The subjects of budgets that calls can have, so that a misspelled one is not adjusted.

use std::{collections::BTreeSet, fmt};

use ledger::usage::UNKNOWN;
use registry_core::{
    Catalog, Entity, Kind, Record,
    entity::{Implementation, policy::BudgetScope},
    suggest::closest,
};

/// The subject of budgets for all calls.
const FLEET: &str = "fleet";

/// A subject that no call has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSubject {
    per: BudgetScope,
    subject: String,
    /// The most similar subject.
    near: Option<String>,
}

impl UnknownSubject {
    /// Finds out whether calls can have a subject. `None`: they can.
    pub(super) fn find(catalog: &Catalog, per: BudgetScope, subject: &str) -> Option<Self> {
        let known: BTreeSet<String> = match per {
            BudgetScope::Agent => agents(catalog).map(|(name, _)| name.to_owned()).collect(),
            BudgetScope::Team => agents(catalog).map(|(_, team)| team.to_owned()).collect(),
            BudgetScope::Tool => tools(catalog),
            BudgetScope::Principal => return None,
            BudgetScope::Fleet => BTreeSet::from([FLEET.to_owned()]),
        };
        if known.contains(subject) || subject == UNKNOWN {
            return None;
        }
        let near = closest(subject, known.iter().map(String::as_str)).map(str::to_owned);
        // Prompts and resources are not registered.
        let is_certain = per != BudgetScope::Tool || near.is_some();
        is_certain.then(|| Self { per, subject: subject.to_owned(), near })
    }
}

impl fmt::Display for UnknownSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per, subject, near } = self;
        match per {
            BudgetScope::Team => write!(f, "the team `{subject}` owns no registered agent")?,
            BudgetScope::Fleet => write!(f, "a budget of the fleet has no subject `{subject}`")?,
            _ => write!(f, "the {} `{subject}` is not registered", per.as_str())?,
        }
        match near {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => f.write_str(", so that no call charges this budget"),
        }
    }
}

impl std::error::Error for UnknownSubject {}

/// The names of the agents and their teams.
fn agents(catalog: &Catalog) -> impl Iterator<Item = (&str, &str)> {
    let agents = catalog.of_kind(Kind::Agent);
    agents.map(move |(key, record)| (key.name.as_str(), catalog.owner_of(record)))
}

/// The subjects of tools and skills in budgets.
fn tools(catalog: &Catalog) -> BTreeSet<String> {
    let kinds = [Kind::Tool, Kind::Agent].into_iter();
    let records = kinds.flat_map(|kind| catalog.of_kind(kind));
    records.flat_map(|(_, record)| names_in_counts(record)).collect()
}

fn names_in_counts(record: &Record) -> Vec<String> {
    match record.document.entity() {
        Entity::Tool(tool) => match &tool.implementation {
            Implementation::Source(source) => vec![format!("{}/{}", source.server, source.tool)],
            Implementation::Spec(_) => vec![tool.name.to_string()],
        },
        Entity::Agent(agent) => {
            agent.skills.iter().map(|skill| format!("{}/{}", agent.name, skill.id)).collect()
        }
        _ => Vec::new(),
    }
}
