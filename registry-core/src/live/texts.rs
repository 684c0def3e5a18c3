//! Words that have changed: for people, or for the model.
//!
//! Deliberately absent: the signs themselves, which imports use too.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Class, Comparison, Difference};
use crate::{
    import::text::{Sign, clean, signs},
    json_schema::each_object,
    reference::Kind,
};

/// How much longer a text may get before that is a sign.
const GROWTH: usize = 200;

/// Signs that ask for a look even where there was no text before.
const ALWAYS: [Sign; 2] = [Sign::Hidden, Sign::Imperative];

impl Comparison<'_> {
    /// Compares a text; without a registered one, only what is always a sign counts.
    pub(super) fn text(
        &mut self,
        (tool, pointer): (&str, &str),
        before: Option<&str>,
        after: Option<&str>,
    ) {
        if before.is_some() && before == after {
            return;
        }
        let signs = self.new_signs(tool, before, after.unwrap_or_default());
        let what = match (before, after) {
            _ if !signs.is_empty() => {
                let all: Vec<_> = signs.iter().map(|sign| sign.explain()).collect();
                format!("the text {}", all.join(", "))
            }
            (Some(_), None) => "the text is gone".to_owned(),
            (Some(_), Some(_)) => "the text is another".to_owned(),
            (None, _) => return,
        };
        let class = if signs.is_empty() { Class::Cosmetic } else { Class::Suspicious };
        self.found.push(Difference { signs, ..Difference::new(class, tool, pointer, what) });
    }

    fn new_signs(&self, tool: &str, before: Option<&str>, after: &str) -> BTreeSet<Sign> {
        let catalog = self.catalog;
        let others = || {
            let names = catalog.of_kind(Kind::Tool).map(|(key, _)| key.name.as_str());
            names.filter(|name| *name != tool)
        };
        let now = signs(after, others());
        let Some(before) = before else {
            return now.into_iter().filter(|sign| ALWAYS.contains(sign)).collect();
        };
        let mut new: BTreeSet<_> = &now - &signs(before, others());
        // A registered text was cleaned; that the live one hides something is always new.
        if clean(after).removed > 0 {
            new.insert(Sign::Hidden);
        }
        let (old, len) = (before.chars().count(), after.chars().count());
        if len > 2 * old && len > old + GROWTH {
            new.insert(Sign::Growth);
        }
        new
    }

    /// Looks at all words of a tool of which nothing is registered.
    pub(super) fn words_of(&mut self, live: &Value, tool: &str) {
        for field in ["title", "description"] {
            let said = live.get(field).and_then(Value::as_str);
            self.text((tool, &format!("/{field}")), None, said);
        }
        for field in ["inputSchema", "outputSchema"] {
            if let Some(schema) = live.get(field) {
                self.schema_words((tool, &format!("/{field}")), None, schema);
            }
        }
    }

    /// Compares the texts inside of a schema, all together.
    pub(super) fn schema_words(
        &mut self,
        place: (&str, &str),
        before: Option<&Value>,
        after: &Value,
    ) {
        let (before, after) = (before.map(words), words(after));
        self.text(place, before.as_deref(), Some(&after));
    }
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
