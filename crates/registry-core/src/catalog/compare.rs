//! What is different between two catalogs of one history.

use std::{cmp::Ordering, iter::from_fn, ops::Bound, sync::Arc};

use super::{Catalog, Record};
use crate::{
    compatibility::Mode,
    reference::Key,
    setting::{Selector, Set},
};

/// An entity that one of two catalogs lacks, or that has another lifecycle in it.
#[derive(Debug, Clone, Copy)]
pub struct EntityDifference<'a> {
    /// What names it.
    pub key: &'a Key,
    /// As the first catalog has it.
    pub old: Option<&'a Arc<Record>>,
    /// As the second one has it.
    pub new: Option<&'a Arc<Record>>,
}

/// A name, a namespace or everything about which something else is set.
#[derive(Debug, Clone, Copy)]
pub struct SettingDifference<'a> {
    /// What the setting is about.
    pub on: &'a Selector,
    /// What the first catalog says; `None`: nothing was ever set.
    pub old: Option<&'a Set>,
    /// What the second one says.
    pub new: Option<&'a Set>,
}

impl Catalog {
    /// The entities in which a catalog differs from this one, by their keys, after this key. Those
    /// that were deprecated and restored are not different.
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

    /// The settings in which a catalog differs from this one, by their selectors, after this one.
    /// Those that were changed and changed back are not different.
    pub fn setting_differences<'a>(
        &'a self,
        other: &'a Self,
        after: Option<&'a Selector>,
    ) -> impl Iterator<Item = SettingDifference<'a>> {
        merge(self.settings.after(after), other.settings.after(after))
            .filter(|(_, old, new)| values(*old) != values(*new))
            .map(|(on, old, new)| SettingDifference { on, old, new })
    }

    /// The newest lower version of the same name.
    pub fn predecessor(&self, key: &Key) -> Option<&Arc<Record>> {
        let below = (Bound::Unbounded, Bound::Excluded(key.clone()));
        let (before, record) = self.records.range(below).next_back()?;
        (before.kind == key.kind && before.name == key.name).then_some(record)
    }
}

/// What is set, without when.
fn values(set: Option<&Set>) -> (bool, Option<&str>, Option<Mode>) {
    let owner = set.and_then(|set| set.owner.as_deref());
    (set.is_some_and(|set| set.archived), owner, set.and_then(|set| set.compatibility))
}

/// Both sides of each key that at least one of two sorted sides has.
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
