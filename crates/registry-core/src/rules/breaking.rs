//! `breaking-change` and `compatibility-undecided`: users of the previous version can switch to the
//! new one.
//!
//! A new release is compared with the newest lower release of the same compatibility line (by
//! semver: `1.x`, `0.4.x`; each `0.0.z` is a line of its own) in the mode that is set for its name.
//! Pre-releases make no promises, and retired versions accept no new users, so neither is compared.
//! A release below an existing one is also compared with that, but only for a warning, because the
//! newer release is immutable. A restored release is compared in both directions with warnings,
//! because it was accepted before.

use std::collections::{BTreeSet, HashMap};

use schema_compat::compatibility::{Budget, Difference, Side};
use serde_json::Value;

use super::proposal::{NewEntity, Proposal};
use crate::{
    LifecycleState,
    compatibility::{Comparison, CompatibilityDirection, Outcome, Resolve, compare},
    diagnostic::{Code, Diagnostic},
    entity::Entity,
    kind::Kind,
    name::Name,
    reference::Key,
    version::Version,
};

pub(super) fn check(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let unusable = [Code::SchemaInvalid, Code::SchemaUnresolved, Code::SchemaCycle];
    let broken: BTreeSet<usize> =
        found.iter().filter(|d| unusable.contains(&d.code)).filter_map(|d| d.change).collect();
    let mut releases = HashMap::new();
    let mut budget = Budget::for_batch();
    let new = proposal.new.iter().map(|new| (new, true));
    let restored = proposal.restored.iter().map(|restored| (restored, false));
    for (new, is_new) in new.chain(restored) {
        let key = new.key();
        let has_schemas = key.kind != Kind::Server;
        if !has_schemas || key.version.is_prerelease() || broken.contains(&new.change()) {
            continue;
        }
        let has_others = proposal.versions(key.kind, &key.name).nth(1).is_some();
        if !has_others {
            continue;
        }
        let mode = proposal.catalog().settings().compatibility(key.kind, &key.name);
        let Some(direction) = mode.direction() else { continue };
        let all = releases
            .entry((key.kind, &key.name))
            .or_insert_with(|| proposal.releases(key.kind, &key.name));
        let place = all.partition_point(|version| *version < &key.version);
        let in_line = |version: &&&Version| version.line() == key.version.line();
        let lower = all[..place].iter().rev().take_while(in_line);
        let lower = lower.take(if mode.is_transitive() { usize::MAX } else { 1 });
        let report = if is_new { Diagnostic::error } else { Diagnostic::warning };
        let check = Check { proposal, new, direction, report, highest: all.last().copied() };
        for version in lower {
            check.below(version, &mut budget, found);
        }
        let above = all[place..].iter().filter(|version| **version != &key.version);
        if let Some(version) = above.take_while(in_line).next() {
            check.above(version, &mut budget, found);
        }
    }
}

/// A new release and the releases it must be compatible with.
struct Check<'c, 'a> {
    proposal: &'c Proposal<'a>,
    new: &'c NewEntity<'a>,
    direction: CompatibilityDirection,
    /// The severity: a warning for restored releases, which were accepted before.
    report: fn(Code, String, String) -> Diagnostic,
    highest: Option<&'c Version>,
}

impl Check<'_, '_> {
    fn other(&self, version: &Version) -> Key {
        let Key { kind, name, .. } = self.new.key();
        Key::new(*kind, name.clone(), version.clone())
    }

    /// Compares with an earlier release.
    fn below(&self, version: &Version, budget: &mut Budget, found: &mut Vec<Diagnostic>) {
        let earlier = self.other(version);
        let Some(old) = self.proposal.find(&earlier) else { return };
        let resolve: Resolve<'_> = &|key| self.proposal.find(key);
        let comparison = compare(old, self.new.entity(), self.direction, resolve, budget);
        for difference in &comparison.differences {
            let mut message = difference.explain(version, &self.new.key().version);
            let added = newly_required(difference, old, self.new.entity());
            if !added.is_empty() {
                message = format!("{message}; newly required: {}", added.join(", "));
            }
            let problem = (self.report)(Code::BreakingChange, difference.pointer.clone(), message);
            self.new.report(found, problem.with_help(self.help()));
        }
        self.undecided_checks(&comparison, version, found);
    }

    /// Compares an existing newer release with this one.
    fn above(&self, version: &Version, budget: &mut Budget, found: &mut Vec<Diagnostic>) {
        let later = self.other(version);
        // A newer release in the same batch is compared with this one by its own check.
        if self.proposal.position(&later).is_some() {
            return;
        }
        let Some(entity) = self.proposal.find(&later) else { return };
        let resolve: Resolve<'_> = &|key| self.proposal.find(key);
        let comparison = compare(self.new.entity(), entity, self.direction, resolve, budget);
        if comparison.outcome() == Outcome::Breaking {
            let version_there = format!("{version}, which is already registered,");
            let message = self.direction.broken(&self.new.key().version, &version_there);
            let help =
                format!("see `registryctl compatibility check`; repeat the change above {version}");
            let problem = Diagnostic::warning(Code::BreakingChange, "", message);
            self.new.report(found, problem.with_help(help));
        }
    }

    fn undecided_checks(
        &self,
        comparison: &Comparison,
        version: &Version,
        found: &mut Vec<Diagnostic>,
    ) {
        for doubt in &comparison.undecided_checks {
            let message =
                format!("compatibility with {version} could not be decided: {}", doubt.reason);
            let problem =
                Diagnostic::warning(Code::CompatibilityUndecided, doubt.pointer.clone(), message);
            let help = "review the change manually, or register it as a new major version";
            self.new.report(found, problem.with_help(help));
        }
    }

    fn help(&self) -> String {
        let highest = self.highest.unwrap_or(&self.new.key().version);
        match highest.next_breaking() {
            Some(next) => format!("register it as {next}, or revert the change"),
            None => "revert the change".to_owned(),
        }
    }
}

/// Maximum number of names in a finding.
const NAMES: usize = 10;

/// The members that the new version requires and the old one does not, if `required` rejects a value.
fn newly_required(difference: &Difference, old: &Entity, new: &Entity) -> Vec<String> {
    let is_added = difference.assertion.keyword() == Some("required")
        && difference.rejected_by == Side::New
        && difference.referenced_location.is_none();
    if !is_added {
        return Vec::new();
    }
    let names = |entity: &Entity| -> Vec<String> {
        let value = entity.to_value();
        let listed = value.pointer(&difference.pointer).and_then(Value::as_array);
        let names = listed.into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| format!("`{name}`")).collect()
    };
    let before = names(old);
    names(new).into_iter().filter(|name| !before.contains(name)).take(NAMES).collect()
}

impl Proposal<'_> {
    /// The releases of a name after the batch, lowest first, without retired ones.
    fn releases<'n>(&'n self, kind: Kind, name: &'n Name) -> Vec<&'n Version> {
        let mut releases: Vec<&Version> = self.versions(kind, name).collect();
        releases.retain(|version| {
            let key = Key::new(kind, name.clone(), (*version).clone());
            !version.is_prerelease() && self.lifecycle(&key).0 != LifecycleState::Retired
        });
        releases.sort();
        releases.dedup();
        releases
    }
}

#[cfg(test)]
mod tests;
