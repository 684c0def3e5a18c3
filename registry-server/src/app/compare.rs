//! Lists the differences between two points in history: registrations, lifecycles and settings.
//!
//! Each page continues the walk of the previous page, so all pages together cost one walk.
//! Differences inside documents are not part of the result: clients compute them.

use std::sync::Arc;

use registry_core::{
    Catalog, Key, PointInTime, Record, Revision, Selector,
    catalog::{EntityDifference, SettingDifference},
    setting::SelectorSettings,
};

use super::{
    Catalogs, ReadError,
    page::{self, PageRequest},
    run_blocking,
};
use crate::store::EntityFilter;

/// Two points in history.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The first point.
    pub from: PointInTime,
    /// The second point; `None` is the present.
    pub to: Option<PointInTime>,
    /// Selects entities; `None` selects everything.
    pub filter: Option<EntityFilter>,
}

/// One difference.
#[derive(Debug, Clone)]
pub enum Difference {
    /// An entity that is registered at one point only, or whose lifecycle differs.
    Entity {
        /// The record at the first point.
        old: Option<Arc<Record>>,
        /// The record at the second point.
        new: Option<Arc<Record>>,
        /// The next lower version of an entity that is registered at one point only.
        earlier: Option<Arc<Record>>,
    },
    /// A target whose settings differ.
    Setting {
        /// The target.
        target: Selector,
        /// The settings and the owner at the first point.
        old: (SelectorSettings, Option<Arc<str>>),
        /// The settings and the owner at the second point.
        new: (SelectorSettings, Option<Arc<str>>),
    },
}

/// A page of differences.
#[derive(Debug)]
pub struct Compared {
    /// Entities by their keys, then settings by their selectors.
    pub differences: Vec<Difference>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The catalog at the first point.
    pub from: Arc<Catalog>,
    /// The catalog at the second point.
    pub to: Arc<Catalog>,
}

/// The position after which a page begins.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Start,
    Entity(Key),
    Setting(Selector),
}

impl Place {
    /// The last key and the last selector of the previous page.
    pub(super) fn parts(&self) -> (Option<&Key>, Option<&Selector>) {
        match self {
            Self::Start => (None, None),
            Self::Entity(key) => (Some(key), None),
            Self::Setting(selector) => (None, Some(selector)),
        }
    }
}

/// Compares two points in history.
pub async fn compare(
    catalogs: &Catalogs,
    Comparison { from, to, filter }: Comparison,
    page: &PageRequest,
) -> Result<Compared, ReadError> {
    // Every page compares the revisions of the first one.
    let (from, to, place) = match page.cursor(read_cursor)? {
        Some((from, to, place)) => {
            (PointInTime::Revision(from), Some(PointInTime::Revision(to)), place)
        }
        None => (from, to, Place::Start),
    };
    let (from, to) = (catalogs.at(Some(from)).await?, catalogs.at(to).await?);
    let walk = Walk { from: from.clone(), to: to.clone(), filter };
    let size = page.size;
    let walking = move || walk.page(&place, size);
    let (differences, more) = run_blocking(walking).await?;
    let next_page_token = page.next_token(&differences, more, |last| {
        format!("{} {} {}", from.revision(), to.revision(), last.place())
    });
    Ok(Compared { differences, next_page_token, from, to })
}

fn read_cursor(cursor: &str) -> Option<(Revision, Revision, Place)> {
    let (from, rest) = cursor.split_once(' ')?;
    let (to, place) = rest.split_once(' ')?;
    Some((Revision(from.parse().ok()?), Revision(to.parse().ok()?), read_place(place)?))
}

/// Selectors contain no `@`, so they are not parsed as keys.
pub(super) fn read_place(cursor: &str) -> Option<Place> {
    let key = || cursor.parse().ok().map(Place::Entity);
    key().or_else(|| cursor.parse().ok().map(Place::Setting))
}

struct Walk {
    from: Arc<Catalog>,
    to: Arc<Catalog>,
    filter: Option<EntityFilter>,
}

impl Walk {
    /// A page, and whether there are more.
    fn page(&self, place: &Place, size: usize) -> (Vec<Difference>, bool) {
        let (key, selector) = place.parts();
        let entities = self
            .from
            .entity_differences(&self.to, key)
            .take_while(|_| selector.is_none())
            .filter(|difference| self.concerns(difference.key))
            .map(|difference| self.entity(&difference));
        let settings = self
            .from
            .setting_differences(&self.to, selector)
            .filter(|difference| self.touches(difference.target))
            .map(|difference| self.setting(&difference));
        page::fill(entities.chain(settings), size, Difference::bytes)
    }

    fn concerns(&self, key: &Key) -> bool {
        self.filter.as_ref().is_none_or(|EntityFilter { kind, name, version }| {
            key.kind == *kind
                && name.as_ref().is_none_or(|name| key.name == *name)
                && version.as_ref().is_none_or(|version| key.version == *version)
        })
    }

    /// Whether a setting can apply to the selected entities.
    fn touches(&self, target: &Selector) -> bool {
        let Some(EntityFilter { kind, name, version: _ }) = &self.filter else { return true };
        match (name, target) {
            (Some(name), target) => target.covers(*kind, name),
            (None, Selector::Name(of_kind, _)) => of_kind == kind,
            (None, _) => true,
        }
    }

    fn entity(&self, difference: &EntityDifference<'_>) -> Difference {
        let EntityDifference { key, old, new } = *difference;
        let earlier = match (old, new) {
            (None, _) => self.to.predecessor(key),
            (_, None) => self.from.predecessor(key),
            (Some(_), Some(_)) => None,
        };
        let [old, new, earlier] = [old, new, earlier].map(Option::<&Arc<Record>>::cloned);
        Difference::Entity { old, new, earlier }
    }

    fn setting(&self, difference: &SettingDifference<'_>) -> Difference {
        let SettingDifference { target, old, new } = *difference;
        let owner = |catalog: &Catalog| match target {
            Selector::Name(kind, name) => catalog.owner(*kind, name),
            Selector::Everything | Selector::Namespace(_) => None,
        };
        let side = |set: Option<&SelectorSettings>, catalog| {
            (set.cloned().unwrap_or_default(), owner(catalog))
        };
        let (old, new) = (side(old, &self.from), side(new, &self.to));
        Difference::Setting { target: target.clone(), old, new }
    }
}

impl Difference {
    /// The cursor of the next page.
    fn place(&self) -> String {
        match self {
            Self::Entity { old, new, .. } => {
                let key = old.as_ref().or(new.as_ref()).map(|record| record.document.key());
                key.map(ToString::to_string).unwrap_or_default()
            }
            Self::Setting { target, .. } => target.to_string(),
        }
    }

    /// The approximate size in a response.
    fn bytes(&self) -> usize {
        let Self::Entity { old, new, earlier } = self else { return page::OUTLINE_BYTES };
        let records = [old, new, earlier].into_iter().flatten();
        let documents = |record: &Arc<Record>| match earlier {
            Some(_) => record.document.bytes().len(),
            None => 0,
        };
        records.map(|record| page::outline_bytes(record) + documents(record)).sum()
    }
}
