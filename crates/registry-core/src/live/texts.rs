//! Changes of texts for people and for the model.

use std::collections::BTreeSet;

use schema_compat::{json_schema::each_object_at, pointer::Location};
use serde_json::{Map, Value};

use super::{Class, Comparison, LiveDifference};
use crate::{
    kind::Kind,
    text::{Sign, each_text, mentioned, phrases},
};

/// Growth of a text in characters that counts as a warning sign.
const GROWTH: usize = 200;

/// Warning signs that are reported even without a registered text.
const ALWAYS: [Sign; 2] = [Sign::Hidden, Sign::Imperative];

type Texts = Vec<String>;

impl Comparison<'_> {
    /// Compares a text. Without a registered one, only the signs in [`ALWAYS`] count.
    pub(super) fn text(&mut self, place: (&str, &str), before: Option<&str>, after: Option<&str>) {
        if before.is_some() && before == after {
            return;
        }
        let one = |text: &str| vec![text.to_owned()];
        let now = after.map(one).unwrap_or_default();
        let mut signs = self.new_signs(place.0, before.map(one), &now);
        signs.extend(growth(before, after));
        let change = match (before, after) {
            (Some(_), None) => Some("the text was removed"),
            (Some(_), Some(_)) => Some("the text changed"),
            (None, _) => None,
        };
        self.say(place, change, signs);
    }

    fn say(&mut self, (tool, pointer): (&str, &str), change: Option<&str>, signs: BTreeSet<Sign>) {
        let all: Vec<_> = signs.iter().map(|sign| sign.explain()).collect();
        let (class, what) = match change {
            _ if !signs.is_empty() => (Class::Suspicious, format!("the text {}", all.join(", "))),
            Some(change) => (Class::Cosmetic, change.to_owned()),
            None => return,
        };
        self.found
            .push(LiveDifference { signs, ..LiveDifference::new(class, tool, pointer, what) });
    }

    /// Signs in phrases that were not in the registered texts.
    fn new_signs(&self, tool: &str, before: Option<Texts>, after: &Texts) -> BTreeSet<Sign> {
        let phrases_of = |texts: &Texts| -> BTreeSet<_> {
            texts.iter().flat_map(|text| phrases(text)).collect()
        };
        let now = phrases_of(after).into_iter();
        let Some(before) = before else {
            return now.map(|(sign, _)| sign).filter(|sign| ALWAYS.contains(sign)).collect();
        };
        let old = phrases_of(&before);
        let mut new: BTreeSet<_> =
            now.filter(|phrase| !old.contains(phrase)).map(|(sign, _)| sign).collect();
        let catalog = self.catalog;
        let others = || {
            let names = catalog.of_kind(Kind::Tool).map(|(key, _)| key.name.as_str());
            names.filter(|name| *name != tool)
        };
        let (before, after) = (before.join("\n"), after.join("\n"));
        if mentioned(&after, others()).any(|name| mentioned(&before, [name]).next().is_none()) {
            new.insert(Sign::OtherTool);
        }
        new
    }

    /// Inspects all texts of a tool that is not registered.
    pub(super) fn words_of(&mut self, live: &Value, tool: &str) {
        for field in [
            "title",
            "description",
            "annotations",
            "execution",
            "_meta",
            "inputSchema",
            "outputSchema",
        ] {
            if let Some(said) = live.get(field) {
                self.unregistered((tool, &format!("/{field}")), said);
            }
        }
    }

    /// Inspects all texts of a value that is not registered.
    pub(super) fn unregistered(&mut self, place: (&str, &str), said: &Value) {
        let signs = self.new_signs(place.0, None, &texts(&[said]));
        self.say(place, None, signs);
    }

    /// Inspects a changed value for new texts that may instruct the model or hide something.
    pub(super) fn value_words(&mut self, place: (&str, &str), before: &Value, after: &Value) {
        let signs = self.new_signs(place.0, Some(texts(&[before])), &texts(&[after]));
        self.say(place, None, signs);
    }

    /// Compares all texts inside of a schema. Titles and descriptions are compared as texts. All
    /// strings are inspected for signs, because models read names and values too. Each side is
    /// given in its compared and its original form.
    pub(super) fn schema_words(
        &mut self,
        place: (&str, &str),
        before: &[&Value; 2],
        after: &[&Value; 2],
    ) {
        let (old, new) = (words(before[0]), words(after[0]));
        let mut signs = self.new_signs(place.0, Some(texts(before)), &texts(after));
        signs.extend(growth(Some(&old), Some(&new)));
        self.say(place, Some("the text changed").filter(|_| old != new), signs);
    }
}

fn growth(before: Option<&str>, after: Option<&str>) -> Option<Sign> {
    let (old, len) = (before?.chars().count(), after?.chars().count());
    (len > 2 * old && len > old + GROWTH).then_some(Sign::Growth)
}

fn texts(values: &[&Value]) -> Texts {
    let mut texts = Vec::new();
    for value in values {
        each_text(value, &mut |text| texts.push(text.to_owned()));
    }
    texts
}

/// The descriptions and titles of a schema, one per line. They are sorted by location, because the
/// order of members has no meaning and differs between a canonical document and a server's list.
fn words(schema: &Value) -> String {
    let mut found = Vec::new();
    each_object_at(schema, Location::ROOT, &mut |map: &Map<String, Value>, at: Location<'_>| {
        for name in ["title", "description"] {
            if let Some(Value::String(text)) = map.get(name) {
                found.push((format!("{at}/{name}"), format!("{text}\n")));
            }
        }
    });
    found.sort();
    found.into_iter().map(|(_, line)| line).collect()
}
