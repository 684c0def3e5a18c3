//! Words that have changed: for people, or for the model.

use std::collections::BTreeSet;

use schema_compat::json_schema::each_object;
use serde_json::{Map, Value};

use super::{Class, Comparison, Difference};
use crate::{
    kind::Kind,
    text::{Sign, each_text, mentioned, phrases},
};

/// How much longer a text may get before that is a sign.
const GROWTH: usize = 200;

/// Signs that ask for a look even where there was no text before.
const ALWAYS: [Sign; 2] = [Sign::Hidden, Sign::Imperative];

/// The texts of one place.
type Texts = Vec<String>;

impl Comparison<'_> {
    /// Compares a text; without a registered one, only what is always a sign counts.
    pub(super) fn text(&mut self, place: (&str, &str), before: Option<&str>, after: Option<&str>) {
        if before.is_some() && before == after {
            return;
        }
        let one = |text: &str| vec![text.to_owned()];
        let now = after.map(one).unwrap_or_default();
        let mut signs = self.new_signs(place.0, before.map(one), &now);
        signs.extend(growth(before, after));
        let change = match (before, after) {
            (Some(_), None) => Some("the text is gone"),
            (Some(_), Some(_)) => Some("the text is another"),
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
        self.found.push(Difference { signs, ..Difference::new(class, tool, pointer, what) });
    }

    /// The signs of which there is a phrase that was not there before.
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

    /// Looks at all texts of a tool of which nothing is registered.
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

    /// Looks at all texts of a value of which nothing is registered.
    pub(super) fn unregistered(&mut self, place: (&str, &str), said: &Value) {
        let signs = self.new_signs(place.0, None, &texts(&[said]));
        self.say(place, None, signs);
    }

    /// Looks for new texts in a value that speak to the model or hide something.
    pub(super) fn value_words(&mut self, place: (&str, &str), before: &Value, after: &Value) {
        let signs = self.new_signs(place.0, Some(texts(&[before])), &texts(&[after]));
        self.say(place, None, signs);
    }

    /// Compares the texts inside of a schema, all together: those for people as such, and all for
    /// what speaks to the model, which reads names and values too. Each side is given as it is
    /// compared and as it was written.
    pub(super) fn schema_words(
        &mut self,
        place: (&str, &str),
        before: &[&Value; 2],
        after: &[&Value; 2],
    ) {
        let (old, new) = (words(before[0]), words(after[0]));
        let mut signs = self.new_signs(place.0, Some(texts(before)), &texts(after));
        signs.extend(growth(Some(&old), Some(&new)));
        self.say(place, Some("the text is another").filter(|_| old != new), signs);
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

/// The descriptions and titles of a schema, one a line.
fn words(schema: &Value) -> String {
    let mut words = String::new();
    each_object(schema, &mut |map: &Map<String, Value>| {
        for name in ["title", "description"] {
            if let Some(Value::String(text)) = map.get(name) {
                words.push_str(text);
                words.push('\n');
            }
        }
    });
    words
}
