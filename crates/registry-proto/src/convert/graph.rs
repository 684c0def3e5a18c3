//! Answers about the graph, to the wire, and requirements from it.

use registry_core::{
    Catalog, Kind, Record,
    compatibility::Outcome,
    edges::Relation,
    graph::{Affected, Effect, ReplacementComparison},
    limits,
    resolve::{Candidate, Constraint, InvalidRequirement, Requirement, Unresolved},
};
use schema_compat::compatibility::{Difference, Side, UndecidedCheck};

use super::{
    diagnostic::diagnostics,
    key::{self, InvalidKind},
};
use crate::v1;

/// Writes an entity of the graph.
pub fn node(catalog: &Catalog, record: &Record) -> v1::GraphNode {
    v1::GraphNode {
        key: Some(record.document.key().into()),
        digest: record.document.digest().to_string(),
        lifecycle: v1::LifecycleState::from(record.lifecycle.state).into(),
        owner: catalog.owner_of(record).to_owned(),
    }
}

/// Writes an edge between two nodes, of which the kinds are given.
pub fn edge((from, from_kind): (u32, Kind), (to, to_kind): (u32, Kind)) -> v1::GraphEdge {
    let relation = match Relation::between(from_kind, to_kind) {
        Relation::Provides => v1::Relation::Unspecified,
        Relation::Source => v1::Relation::Source,
        Relation::Depends => v1::Relation::Depends,
        Relation::Schema => v1::Relation::Schema,
    };
    v1::GraphEdge { from, to, relation: relation.into() }
}

/// Writes a dependent of what is changed.
pub fn affected(catalog: &Catalog, affected: &Affected) -> v1::AffectedEntity {
    let Affected { record, path, paths, effect, findings } = affected;
    let effect = match effect {
        Effect::Breaks => v1::ImpactEffect::Breaks,
        Effect::Undecided => v1::ImpactEffect::Undecided,
        Effect::Affected => v1::ImpactEffect::Affected,
        Effect::Retired => v1::ImpactEffect::Retired,
        Effect::Unchecked => v1::ImpactEffect::Unchecked,
    };
    v1::AffectedEntity {
        entity: Some(node(catalog, record)),
        path: path.iter().map(v1::EntityKey::from).collect(),
        paths: *paths,
        effect: effect.into(),
        findings: diagnostics(findings),
    }
}

/// Writes what comparing two versions found.
pub fn compared(
    ReplacementComparison { old, new, found }: &ReplacementComparison,
) -> v1::Comparison {
    let compatibility = match found.outcome() {
        Outcome::Identical => v1::Compatibility::Identical,
        Outcome::Compatible => v1::Compatibility::Compatible,
        Outcome::Undecided => v1::Compatibility::Undecided,
        Outcome::Breaking => v1::Compatibility::Breaking,
    };
    let difference = |difference: &Difference| v1::SchemaDifference {
        keyword: difference.assertion.keyword().map(str::to_owned),
        pointer: difference.pointer.clone(),
        instance: (difference.instance.as_ref().map(ToString::to_string))
            .filter(|instance| instance.len() <= limits::COMPARISON_INSTANCE_BYTES),
        refused_by_old: difference.rejected_by == Side::Old,
        message: difference.explain(old, new),
        elsewhere: difference.referenced_location.clone(),
    };
    let doubt = |UndecidedCheck { pointer, reason }: &UndecidedCheck| v1::SchemaDoubt {
        pointer: pointer.clone(),
        reason: reason.clone(),
    };
    let most = limits::COMPARISON_FINDINGS;
    v1::Comparison {
        compatibility: compatibility.into(),
        differences: found.differences.iter().take(most).map(difference).collect(),
        doubts: found.undecided_checks.iter().take(most).map(doubt).collect(),
    }
}

/// Why a message is not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWireRequirement {
    /// Its kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// Its name or its constraint.
    #[error(transparent)]
    Parts(#[from] InvalidRequirement),
}

/// Reads a requirement.
pub fn requirement(message: &v1::Requirement) -> Result<Requirement, InvalidWireRequirement> {
    let v1::Requirement { kind, name, constraint } = message;
    Ok(Requirement::parse(key::kind(*kind)?, name, constraint)?)
}

impl From<&Requirement> for v1::Requirement {
    fn from(Requirement { kind, name, constraint }: &Requirement) -> Self {
        let constraint = Constraint::to_string(constraint);
        Self { kind: v1::Kind::from(*kind).into(), name: name.to_string(), constraint }
    }
}

/// Writes the version that a requirement means.
pub fn resolved(record: &Record) -> v1::Resolution {
    let resolved = v1::ResolvedEntity {
        key: Some(record.document.key().into()),
        digest: record.document.digest().to_string(),
        lifecycle: Some((&record.lifecycle).into()),
    };
    v1::Resolution { outcome: Some(v1::resolution::Outcome::Resolved(resolved)) }
}

/// Writes why nothing meets a requirement.
pub fn unresolved(unresolved: &Unresolved) -> v1::Resolution {
    let Unresolved { required: _, candidates, total } = unresolved;
    let candidate = |Candidate { version, state, reason }: &Candidate| v1::ResolveCandidate {
        version: version.to_string(),
        lifecycle: v1::LifecycleState::from(*state).into(),
        reason: reason.as_str().to_owned(),
    };
    let unresolved = v1::UnresolvedRequirement {
        message: unresolved.to_string(),
        candidates: candidates.iter().map(candidate).collect(),
        total: u32::try_from(*total).unwrap_or(u32::MAX),
    };
    v1::Resolution { outcome: Some(v1::resolution::Outcome::Unresolved(unresolved)) }
}
