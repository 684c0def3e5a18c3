//! `schema-keyword-unknown`: members of JSON Schemas that are likely typos of keywords.

use std::collections::HashMap;

use schema_compat::{
    keyword::{can_be_typo, each_unknown, misspelled},
    pointer::Location,
};
use serde_json::Value;

use super::super::proposal::NewEntity;
use crate::{
    diagnostic::{Code, Diagnostic},
    limits,
};

/// Maximum number of different members in a batch that are compared with the keywords.
const COMPARED: usize = 1_000;

/// The comparison of a batch with the keywords.
#[derive(Default)]
pub(super) struct Keywords<'a> {
    /// The compared members, and the keyword that each is likely a typo of.
    compared: HashMap<&'a str, Option<&'static str>>,
    reported: usize,
}

impl<'a> Keywords<'a> {
    /// Warns about the schema at `place`.
    pub(super) fn check(
        &mut self,
        new: &NewEntity<'_>,
        (place, schema): (&str, &'a Value),
        found: &mut Vec<Diagnostic>,
    ) {
        each_unknown(schema, Location::ROOT, &mut |member, at| {
            let Some(meant) = self.meant(member) else { return };
            if self.reported == limits::PROBLEMS {
                return;
            }
            self.reported += 1;
            let pointer = format!("{place}{at}");
            let message = format!("`{member}` is not a keyword of JSON Schema");
            let unknown = Diagnostic::warning(Code::SchemaKeywordUnknown, pointer, message);
            let help = format!("did you mean `{meant}`? otherwise give it the prefix `x-`");
            new.report(found, unknown.with_help(help));
        });
    }

    fn meant(&mut self, member: &'a str) -> Option<&'static str> {
        if let Some(known) = self.compared.get(member) {
            return *known;
        }
        if !can_be_typo(member) || self.compared.len() == COMPARED {
            return None;
        }
        *self.compared.entry(member).or_insert_with(|| misspelled(member))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{
        super::super::testing::{agent, found_of, schema, source_tool, with},
        COMPARED,
    };
    use crate::{diagnostic::Code, limits};

    #[test]
    fn misspelled_keyword_suggests_the_known_one() {
        let batch = [
            schema("A", &json!({ "anyOf": [{ "type ": "string" }], "propertys": {} })),
            with(
                &source_tool("t", "s"),
                json!({
                    "inputSchema": { "properties": { "requried": { "minlenght": 1 } } },
                    "outputSchema": { "type": "object", "requried": ["a"] },
                }),
            ),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaKeywordUnknown, &[], &batch), @r#"
        warning[schema-keyword-unknown] schema/A@1.0.0 at "/schema/anyOf/0/type ": `type ` is not a keyword of JSON Schema (did you mean `type`? otherwise give it the prefix `x-`)
        warning[schema-keyword-unknown] schema/A@1.0.0 at "/schema/propertys": `propertys` is not a keyword of JSON Schema (did you mean `properties`? otherwise give it the prefix `x-`)
        warning[schema-keyword-unknown] tool/t@1.0.0 at "/inputSchema/properties/requried/minlenght": `minlenght` is not a keyword of JSON Schema (did you mean `minLength`? otherwise give it the prefix `x-`)
        warning[schema-keyword-unknown] tool/t@1.0.0 at "/outputSchema/requried": `requried` is not a keyword of JSON Schema (did you mean `required`? otherwise give it the prefix `x-`)
        "#);
        let skill = json!({ "id": "s", "name": "S", "description": "d", "tags": [],
            "inputSchema": { "enums": [1] } });
        let agent = with(&agent("a", &json!([])), json!({ "skills": [skill] }));
        let found = found_of(Code::SchemaKeywordUnknown, &[], &[agent]);
        assert!(found.contains(" at \"/skills/0/inputSchema/enums\""), "{found}");
    }

    #[test]
    fn extensions_names_and_data_get_no_warning() {
        let typo = json!({ "requried": [] });
        let other = json!({
            "x-required": true, "x-form": typo, "nullable": true, "example": typo,
            "properties": { "requried": true }, "default": typo, "enum": [typo], "const": typo,
        });
        assert_eq!(found_of(Code::SchemaKeywordUnknown, &[], &[schema("A", &other)]), "");
    }

    #[test]
    fn number_of_comparisons_and_warnings_is_limited() {
        let many = |count: usize| -> Vec<Value> {
            (0..count).map(|i| json!({ format!("unknown{i}"): 1 })).collect()
        };
        let found = |unknown: usize, typos: usize| {
            let typo = Map::from_iter([("requried".to_owned(), json!([]))]);
            let all = json!({ "allOf": many(unknown), "anyOf": vec![typo; typos] });
            found_of(Code::SchemaKeywordUnknown, &[], &[schema("A", &all)]).lines().count()
        };
        assert_eq!(found(COMPARED - 1, 2), 2);
        assert_eq!(found(COMPARED, 2), 0);
        assert_eq!(found(0, limits::PROBLEMS + 1), limits::PROBLEMS);
    }
}
