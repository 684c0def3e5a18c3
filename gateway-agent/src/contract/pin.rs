//! Pins: the definition of each tool when this gateway first saw it, or when an operator accepted
//! it.
//!
//! A pin belongs to one registered document; a new document starts without a pin.

use std::collections::BTreeMap;

use registry_core::{Catalog, Digest, Key, Record, Revision};
use serde::{Deserialize, Serialize};

use super::{
    comparison::{ComparisonResult, ContractState, ContractStatus, Drift, DriftClass},
    definition::Fingerprint,
};

/// Maximum number of pins. Tools beyond it are not trusted.
const MAX_PINS: usize = 20_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pin {
    /// The digest of the registered document.
    document: Digest,
    /// The first seen or accepted definition. `None`: unknown.
    seen: Option<Fingerprint>,
    /// The digest of the accepted definition.
    accepted: Option<Digest>,
    /// Whether the last seen definition differs and was not accepted.
    is_broken: bool,
    /// Whether `execution` and `_meta` are included; earlier releases lack them.
    #[serde(default)]
    has_all_parts: bool,
}

impl Pin {
    /// Completes a pin of an earlier release with the current values of missing parts.
    fn complete(&mut self, live: &Fingerprint) {
        if std::mem::replace(&mut self.has_all_parts, true) {
            return;
        }
        if self.accepted == Some(live.without_later_parts().digest()) {
            self.accepted = Some(live.digest());
        }
        if let Some(seen) = &mut self.seen {
            seen.add_later_parts(live);
        }
    }
}

/// The stored form of all pins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Content {
    /// Earlier pins were lost: for tools registered up to this revision, the first seen definition
    /// is unknown.
    pub(super) distrusted_up_to: Revision,
    /// By `tool/NAME@VERSION`.
    pub(super) pins: BTreeMap<String, Pin>,
}

#[derive(Debug, Default)]
pub(super) struct Pins {
    content: Content,
    /// Earlier pins were lost, up to a revision that is not determined yet.
    is_lost: bool,
    is_unsaved: bool,
}

impl Pins {
    pub(super) fn read(content: Content) -> Self {
        Self { content, ..Self::default() }
    }

    /// Pins existed but are unreadable.
    pub(super) fn lost() -> Self {
        Self { is_lost: true, ..Self::default() }
    }

    /// Completes a comparison by the pins, and pins new definitions.
    pub(super) fn compare_with_pins(
        &mut self,
        catalog: &Catalog,
        record: &Record,
        found: ComparisonResult,
    ) -> ContractStatus {
        if std::mem::take(&mut self.is_lost) {
            self.content.distrusted_up_to = catalog.revision();
            self.is_unsaved = true;
        }
        let key = record.document.key().to_string();
        let document = record.document.digest();
        let pin = self.content.pins.get(&key).filter(|pin| pin.document == document).cloned();
        let ComparisonResult { state, live, mut drift, inherited, is_provisional, tolerated } =
            found;
        let is_broken_by =
            |drift: &[Drift]| drift.iter().any(|drift| Some(drift.class) > tolerated);
        let Some(live) = live else {
            let is_broken = pin.is_some_and(|pin| pin.is_broken);
            return ContractStatus { state, live, drift, is_accepted: false, is_broken };
        };
        if is_provisional {
            let is_broken = is_broken_by(&drift);
            let state = if drift.is_empty() { state } else { ContractState::Drifted };
            return ContractStatus {
                state,
                live: Some(live),
                drift,
                is_accepted: false,
                is_broken,
            };
        }
        let is_first = record.registered > self.content.distrusted_up_to && self.has_room(catalog);
        let mut pin = pin.unwrap_or_else(|| Pin {
            document,
            seen: is_first.then(|| live.clone()),
            accepted: None,
            is_broken: false,
            has_all_parts: true,
        });
        pin.complete(&live);
        for part in inherited {
            let (class, what) = match &pin.seen {
                Some(seen) if seen.part(part) == live.part(part) => continue,
                Some(_) => (DriftClass::Changed, "it differs from the first seen one"),
                None if live.part(part).is_none() => continue,
                None => (DriftClass::Unknown, "the first seen one is unknown"),
            };
            drift.push(Drift { part, class, what: what.to_owned() });
        }
        drift.sort_by_key(|drift| drift.part);
        let is_accepted = pin.accepted == Some(live.digest());
        pin.is_broken = is_broken_by(&drift) && !is_accepted;
        let state = if drift.is_empty() { state } else { ContractState::Drifted };
        let is_broken = pin.is_broken;
        self.store(key, pin);
        ContractStatus { state, live: Some(live), drift, is_accepted, is_broken }
    }

    /// Whether an operator accepted exactly this definition.
    pub(super) fn is_accepted(&self, record: &Record, live: &Fingerprint) -> bool {
        let pin = self.content.pins.get(&record.document.key().to_string());
        pin.is_some_and(|pin| {
            pin.document == record.document.digest() && pin.accepted == Some(live.digest())
        })
    }

    /// Whether another pin fits. Pins of removed tools are dropped if necessary.
    fn has_room(&mut self, catalog: &Catalog) -> bool {
        let pins = &mut self.content.pins;
        if pins.len() >= MAX_PINS {
            pins.retain(|key, _| key.parse().is_ok_and(|key: Key| catalog.find(&key).is_some()));
        }
        pins.len() < MAX_PINS
    }

    fn store(&mut self, key: String, pin: Pin) {
        let known = self.content.pins.get(&key);
        if known == Some(&pin) || (known.is_none() && self.content.pins.len() >= MAX_PINS) {
            return;
        }
        self.content.pins.insert(key, pin);
        self.is_unsaved = true;
    }

    /// Pins an accepted definition. Returns the previous pin, if any.
    pub(super) fn accept(&mut self, tool: &Key, seen: Fingerprint) -> Option<Pin> {
        let pin = self.content.pins.get_mut(&tool.to_string())?;
        let (accepted, is_broken) = (Some(seen.digest()), false);
        let now = Pin {
            document: pin.document,
            seen: Some(seen),
            accepted,
            is_broken,
            has_all_parts: true,
        };
        self.is_unsaved = true;
        Some(std::mem::replace(pin, now))
    }

    pub(super) fn restore(&mut self, tool: &Key, pin: Pin) {
        self.store(tool.to_string(), pin);
    }

    /// Returns the pins if they changed since the last call.
    pub(super) fn take_unsaved(&mut self) -> Option<Content> {
        std::mem::take(&mut self.is_unsaved).then(|| self.content.clone())
    }

    /// Marks the pins as changed after a failed write.
    pub(super) fn mark_unsaved(&mut self) {
        self.is_unsaved = true;
    }
}
