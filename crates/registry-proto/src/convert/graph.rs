//! Converts results about dependencies, and version requirements.

use registry_core::{
    Catalog, Entity, Kind, Record,
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

/// The largest number of paths in a message, which signed integers can hold. It is a lower bound.
pub const MAX_PATH_COUNT: u64 = i64::MAX.unsigned_abs();

/// Writes an entity of the graph.
pub fn node(catalog: &Catalog, record: &Record) -> v1::GraphNode {
    v1::GraphNode {
        key: Some(record.document.key().into()),
        digest: record.document.digest().to_string(),
        lifecycle_state: v1::LifecycleState::from(record.lifecycle.state).into(),
        owner: catalog.owner_of(record).to_owned(),
        depth: 0,
    }
}

/// Writes a policy that selects an entity; `None` for another kind.
pub fn selecting_policy(record: &Record) -> Option<v1::SelectingPolicy> {
    let Entity::Policy(policy) = record.document.entity() else { return None };
    let key = record.document.key();
    let mode = v1::PolicyMode::from(policy.effective_mode()).into();
    Some(v1::SelectingPolicy { key: Some(key.into()), mode })
}

/// Writes an edge between two nodes of these kinds.
pub fn edge((from, from_kind): (u32, Kind), (to, to_kind): (u32, Kind)) -> v1::GraphEdge {
    let relation = match Relation::between(from_kind, to_kind) {
        Relation::Provides => v1::DependencyRelation::Unspecified,
        Relation::Source => v1::DependencyRelation::Source,
        Relation::Depends => v1::DependencyRelation::Declared,
        Relation::Schema => v1::DependencyRelation::Schema,
    };
    v1::GraphEdge { dependent_index: from, dependency_index: to, relation: relation.into() }
}

/// Writes a dependent of a changed entity.
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
        path_count: (*paths).min(MAX_PATH_COUNT),
        effect: effect.into(),
        findings: diagnostics(findings),
    }
}

/// Writes the comparison of two versions.
pub fn compared(
    ReplacementComparison { old, new, found }: &ReplacementComparison,
) -> v1::VersionComparison {
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
        rejected_by_old: difference.rejected_by == Side::Old,
        message: difference.explain(old, new),
        referenced_location: difference.referenced_location.clone(),
    };
    let doubt = |UndecidedCheck { pointer, reason }: &UndecidedCheck| v1::UndecidedCheck {
        pointer: pointer.clone(),
        reason: reason.clone(),
    };
    let most = limits::COMPARISON_FINDINGS;
    v1::VersionComparison {
        compatibility: compatibility.into(),
        differences: found.differences.iter().take(most).map(difference).collect(),
        undecided_checks: found.undecided_checks.iter().take(most).map(doubt).collect(),
    }
}

/// An invalid requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWireRequirement {
    /// An invalid kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// An invalid name or constraint.
    #[error(transparent)]
    Parts(#[from] InvalidRequirement),
}

/// Reads a requirement.
pub fn requirement(
    message: &v1::VersionRequirement,
) -> Result<Requirement, InvalidWireRequirement> {
    let v1::VersionRequirement { kind, name, constraint } = message;
    Ok(Requirement::parse(key::kind(*kind)?, name, constraint)?)
}

impl From<&Requirement> for v1::VersionRequirement {
    fn from(Requirement { kind, name, constraint }: &Requirement) -> Self {
        let constraint = Constraint::to_string(constraint);
        Self { kind: v1::EntityKind::from(*kind).into(), name: name.to_string(), constraint }
    }
}

/// Writes the matching version of a requirement.
pub fn resolved(record: &Record) -> v1::Resolution {
    let resolved = v1::ResolvedVersion {
        key: Some(record.document.key().into()),
        digest: record.document.digest().to_string(),
        lifecycle: Some((&record.lifecycle).into()),
    };
    v1::Resolution { outcome: Some(v1::resolution::Outcome::Resolved(resolved)) }
}

/// Writes an unresolved requirement.
pub fn unresolved(unresolved: &Unresolved) -> v1::Resolution {
    let Unresolved { required: _, candidates, total } = unresolved;
    let candidate = |Candidate { version, state, reason }: &Candidate| v1::ResolveCandidate {
        version: version.to_string(),
        lifecycle_state: v1::LifecycleState::from(*state).into(),
        reason: reason.as_str().to_owned(),
    };
    let unresolved = v1::UnresolvedRequirement {
        message: unresolved.to_string(),
        candidates: candidates.iter().map(candidate).collect(),
        total_count: u32::try_from(*total).unwrap_or(u32::MAX),
    };
    v1::Resolution { outcome: Some(v1::resolution::Outcome::Unresolved(unresolved)) }
}
