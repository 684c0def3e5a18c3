//! Say what is different between two points in history: which entities are registered, their
//! lifecycles, and what is set about names.
//!
//! Both catalogs are walked from where the page before ended, so all pages together cost one walk.
//! Differences inside documents are not part of the result: clients compute them.

use std::sync::Arc;

use registry_core::{
    Catalog, Key, PointInTime, Record, Selector,
    catalog::{EntityDifference, SettingDifference},
    setting::SelectorSettings,
};

use super::{Catalogs, ReadError, page, run_blocking};
use crate::store::About;

/// What to compare.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// As it was then.
    pub from: PointInTime,
    /// As it was then; `None`: now.
    pub to: Option<PointInTime>,
    /// Only this.
    pub about: Option<About>,
}

/// Something that is different.
#[derive(Debug, Clone)]
pub enum Difference {
    /// An entity that is new, gone, or in another state.
    Entity {
        /// As it was.
        old: Option<Arc<Record>>,
        /// As it is.
        new: Option<Arc<Record>>,
        /// The next lower version of what is on one side only.
        earlier: Option<Arc<Record>>,
    },
    /// Another setting.
    Setting {
        /// About what.
        on: Selector,
        /// What was set, and who owned the name.
        old: (SelectorSettings, Option<Arc<str>>),
        /// What is set, and who owns the name.
        new: (SelectorSettings, Option<Arc<str>>),
    },
}

/// A page of differences.
#[derive(Debug)]
pub struct Compared {
    /// Entities by their keys, then settings by their selectors.
    pub differences: Vec<Difference>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// The first of the two.
    pub from: Arc<Catalog>,
    /// The second.
    pub to: Arc<Catalog>,
}

/// After what a page begins.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Start,
    Entity(Key),
    Setting(Selector),
}

impl Place {
    /// The key and the selector after which it is.
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
    Comparison { from, to, about }: Comparison,
    size: usize,
    token: &str,
) -> Result<Compared, ReadError> {
    let (from, to) = (catalogs.at(Some(from)).await?, catalogs.at(to).await?);
    let mark = format!("compare {} {} {about:?}", from.revision(), to.revision());
    let place = page::cursor(&mark, token, read_place)?.unwrap_or(Place::Start);
    let walk = Walk { from: from.clone(), to: to.clone(), about };
    let walking = move || walk.page(&place, size);
    let (differences, more) = run_blocking(walking).await?;
    let next_page_token = page::next(&mark, &differences, more, Difference::place);
    Ok(Compared { differences, next_page_token, from, to })
}

/// No selector has an `@`, so it is never taken for a key.
pub(super) fn read_place(cursor: &str) -> Option<Place> {
    let key = || cursor.parse().ok().map(Place::Entity);
    key().or_else(|| cursor.parse().ok().map(Place::Setting))
}

struct Walk {
    from: Arc<Catalog>,
    to: Arc<Catalog>,
    about: Option<About>,
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
            .filter(|difference| self.touches(difference.on))
            .map(|difference| self.setting(&difference));
        page::fill(entities.chain(settings), size, Difference::bytes)
    }

    fn concerns(&self, key: &Key) -> bool {
        self.about.as_ref().is_none_or(|About { kind, name, version }| {
            key.kind == *kind
                && name.as_ref().is_none_or(|name| key.name == *name)
                && version.as_ref().is_none_or(|version| key.version == *version)
        })
    }

    /// Whether a setting may hold for what was asked for.
    fn touches(&self, on: &Selector) -> bool {
        let Some(About { kind, name, version: _ }) = &self.about else { return true };
        match (name, on) {
            (Some(name), on) => on.covers(*kind, name),
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
        let SettingDifference { on, old, new } = *difference;
        let owner = |catalog: &Catalog| match on {
            Selector::Name(kind, name) => catalog.owner(*kind, name),
            Selector::Everything | Selector::Namespace(_) => None,
        };
        let side = |set: Option<&SelectorSettings>, catalog| {
            (set.cloned().unwrap_or_default(), owner(catalog))
        };
        let (old, new) = (side(old, &self.from), side(new, &self.to));
        Difference::Setting { on: on.clone(), old, new }
    }
}

impl Difference {
    /// Where the next page goes on.
    fn place(&self) -> String {
        match self {
            Self::Entity { old, new, .. } => {
                let key = old.as_ref().or(new.as_ref()).map(|record| record.document.key());
                key.map(ToString::to_string).unwrap_or_default()
            }
            Self::Setting { on, .. } => on.to_string(),
        }
    }

    /// About how much room it takes in an answer.
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
