//! Differences between two catalogs of one history.

use std::{cmp::Ordering, iter::from_fn, ops::Bound, sync::Arc};

use super::{Catalog, Record};
use crate::{
    compatibility::Mode,
    reference::Key,
    setting::{Selector, SelectorSettings},
};

/// An entity that exists in only one of two catalogs, or whose lifecycle differs.
#[derive(Debug, Clone, Copy)]
pub struct EntityDifference<'a> {
    /// The entity's key.
    pub key: &'a Key,
    /// The record in the first catalog.
    pub old: Option<&'a Arc<Record>>,
    /// The record in the second catalog.
    pub new: Option<&'a Arc<Record>>,
}

/// A selector whose settings differ between two catalogs.
#[derive(Debug, Clone, Copy)]
pub struct SettingDifference<'a> {
    /// The selector of the setting.
    pub target: &'a Selector,
    /// The setting in the first catalog; `None` if it was never set.
    pub old: Option<&'a SelectorSettings>,
    /// The setting in the second catalog; `None` if it was never set.
    pub new: Option<&'a SelectorSettings>,
}

impl Catalog {
    /// The entities after `after` that differ between this catalog and another, ordered by key. A
    /// deprecation that was reverted is no difference.
    pub fn entity_differences<'a>(
        &'a self,
        other: &'a Self,
        after: Option<&Key>,
    ) -> impl Iterator<Item = EntityDifference<'a>> {
        let same = |(old, new): (&Arc<Record>, &Arc<Record>)| {
            let (old, new) = (&old.lifecycle, &new.lifecycle);
            old.state == new.state && old.notice == new.notice
        };
        merge(self.after(after), other.after(after))
            .filter(move |(_, old, new)| !old.zip(*new).is_some_and(same))
            .map(|(key, old, new)| EntityDifference { key, old, new })
    }

    /// The settings after `after` that differ between this catalog and another, ordered by
    /// selector. A change that was reverted is no difference.
    pub fn setting_differences<'a>(
        &'a self,
        other: &'a Self,
        after: Option<&'a Selector>,
    ) -> impl Iterator<Item = SettingDifference<'a>> {
        merge(self.settings.after(after), other.settings.after(after))
            .filter(|(_, old, new)| values(*old) != values(*new))
            .map(|(target, old, new)| SettingDifference { target, old, new })
    }

    /// The highest version of the same name below this one.
    pub fn predecessor(&self, key: &Key) -> Option<&Arc<Record>> {
        let below = (Bound::Unbounded, Bound::Excluded(key.clone()));
        let (before, record) = self.records.range(below).next_back()?;
        (before.kind == key.kind && before.name == key.name).then_some(record)
    }
}

/// The values of a setting without its revision.
fn values(set: Option<&SelectorSettings>) -> (bool, Option<&str>, Option<Mode>) {
    let owner = set.and_then(|set| set.owner.as_deref());
    (set.is_some_and(|set| set.archived), owner, set.and_then(|set| set.compatibility))
}

/// Joins two sorted sequences by key.
fn merge<'a, K: Ord + 'a, V: 'a>(
    old: impl Iterator<Item = (&'a K, &'a V)>,
    new: impl Iterator<Item = (&'a K, &'a V)>,
) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> {
    let (mut old, mut new) = (old.peekable(), new.peekable());
    from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let (key, _) = before.or(after)?;
        Some((key, before.map(|(_, value)| value), after.map(|(_, value)| value)))
    })
}
