//! The searchable texts of an entity by field.
//!
//! They are read from the canonical JSON instead of the parsed entity, which documents would cache. No tree is
//! built, because most members have no searchable text.

use std::{borrow::Cow, fmt};

use registry_core::document::Document;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A searchable field of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The name.
    Name,
    /// The title of a tool.
    Title,
    /// A tag of the metadata or of a skill.
    Tag,
    /// The id or name of an agent's skill.
    Skill,
    /// The description.
    Description,
    /// The name of a property in a JSON Schema.
    Property,
    /// The description or an example of a skill, or the description of a property.
    Detail,
    /// A related name: a provided tool, the server of a tool, the provider of an agent, or a selector
    /// of a policy; and the kind itself.
    Related,
}

impl Field {
    /// All fields, most significant first.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Tag,
        Self::Skill,
        Self::Description,
        Self::Property,
        Self::Detail,
        Self::Related,
    ];

    /// The name in lower case: `name`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Tag => "tag",
            Self::Skill => "skill",
            Self::Description => "description",
            Self::Property => "property",
            Self::Detail => "detail",
            Self::Related => "related",
        }
    }
}

/// Calls `found` with each text of the entity, most significant fields first.
pub(super) fn each(document: &Document, found: &mut dyn FnMut(Field, &str)) {
    let key = document.key();
    let mut texts = vec![
        FieldText { order: 0, field: Field::Name, text: key.name.as_str().into() },
        FieldText { order: RELATED, field: Field::Related, text: key.kind.as_str().into() },
    ];
    let mut json = serde_json::Deserializer::from_slice(document.bytes());
    // A verified document is valid JSON.
    let _ = Reader { place: Place::Document, texts: &mut texts }.deserialize(&mut json);
    texts.sort_by_key(|text| text.order);
    for FieldText { field, text, .. } in &texts {
        found(*field, text);
    }
}

struct FieldText<'d> {
    /// The significance; lower is more significant.
    order: u8,
    field: Field,
    text: Cow<'d, str>,
}

/// The order of texts of the entity's own schemas.
const SCHEMA: u8 = 5;
/// The order of details of skills.
const SKILL_DETAIL: u8 = 6;
/// The order of the first related names.
const RELATED: u8 = 7;

/// The place of a value in a document, which decides the field and the order of its texts.
#[derive(Debug, Clone, Copy)]
enum Place {
    Document,
    Metadata,
    Skill,
    Source,
    Provider,
    Provision,
    AppliesTo,
    Text(u8, Field),
    /// A list of texts.
    Texts(u8, Field),
    /// A JSON Schema or any value inside of one.
    Schema(u8),
    /// The member `properties` of a schema.
    Properties(u8),
    /// The member `title` or `description` of a schema, unless it is the name of a definition.
    Annotation(u8),
    /// A value without searchable texts.
    Other,
}

impl Place {
    /// The place of a member.
    fn member(self, name: &str) -> Self {
        match (self, name) {
            (Self::Document, "title") => Self::Text(1, Field::Title),
            (Self::Document, "metadata") => Self::Metadata,
            (Self::Metadata, "tags") => Self::Texts(2, Field::Tag),
            (Self::Document, "skills") => Self::Skill,
            (Self::Skill, "id" | "name") => Self::Text(3, Field::Skill),
            (Self::Skill, "tags") => Self::Texts(3, Field::Tag),
            (Self::Document, "description") => Self::Text(4, Field::Description),
            (Self::Document, "schema" | "inputSchema" | "outputSchema") => Self::Schema(SCHEMA),
            (Self::Skill, "description") => Self::Text(SKILL_DETAIL, Field::Detail),
            (Self::Skill, "examples") => Self::Texts(SKILL_DETAIL, Field::Detail),
            (Self::Skill, "inputSchema" | "outputSchema") => Self::Schema(SKILL_DETAIL),
            (Self::Document, "source") => Self::Source,
            (Self::Document, "provider") => Self::Provider,
            (Self::Document, "provides") => Self::Provision,
            (Self::Document, "appliesTo") => Self::AppliesTo,
            (Self::Source, "server" | "tool")
            | (Self::Provider, "organization")
            | (Self::Provision, "tool") => Self::Text(RELATED, Field::Related),
            (Self::AppliesTo, "callers") => Self::Texts(RELATED, Field::Related),
            (Self::AppliesTo, "tools") => Self::Texts(RELATED + 1, Field::Related),
            (Self::AppliesTo, "skills") => Self::Texts(RELATED + 2, Field::Related),
            (Self::AppliesTo, "servers") => Self::Texts(RELATED + 3, Field::Related),
            (Self::Properties(order), _) => Self::Schema(order),
            (Self::Schema(_) | Self::Annotation(_), "const" | "enum" | "default" | "examples") => {
                Self::Other
            }
            (Self::Schema(order) | Self::Annotation(order), _) => match name {
                "properties" => Self::Properties(order),
                "title" | "description" => Self::Annotation(order),
                _ => Self::Schema(order),
            },
            _ => Self::Other,
        }
    }

    /// The place of a list's item.
    fn item(self) -> Self {
        match self {
            Self::Texts(order, field) => Self::Text(order, field),
            Self::Properties(order) | Self::Annotation(order) => Self::Schema(order),
            Self::Text(..) => Self::Other,
            place => place,
        }
    }
}

/// Collects the texts of a value.
struct Reader<'t, 'd> {
    place: Place,
    texts: &'t mut Vec<FieldText<'d>>,
}

impl<'d> Reader<'_, 'd> {
    fn add(self, text: Cow<'d, str>) {
        let (order, field) = match self.place {
            Place::Text(order, field) => (order, field),
            Place::Annotation(order) => (order, Field::Detail),
            _ => return,
        };
        self.texts.push(FieldText { order, field, text });
    }
}

impl<'d> DeserializeSeed<'d> for Reader<'_, 'd> {
    type Value = ();

    fn deserialize<D: Deserializer<'d>>(self, json: D) -> Result<(), D::Error> {
        match self.place {
            Place::Other => IgnoredAny::deserialize(json).map(drop),
            _ => json.deserialize_any(self),
        }
    }
}

/// The name of a member.
#[derive(Deserialize)]
struct MemberName<'d>(#[serde(borrow)] Cow<'d, str>);

impl<'d> Visitor<'d> for Reader<'_, 'd> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'d>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(MemberName(name)) = members.next_key()? {
            let place = self.place.member(&name);
            if let Place::Properties(order) = self.place {
                self.texts.push(FieldText { order, field: Field::Property, text: name });
            }
            members.next_value_seed(Reader { place, texts: self.texts })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut items: A) -> Result<(), A::Error> {
        let place = self.place.item();
        while items.next_element_seed(Reader { place, texts: self.texts })?.is_some() {}
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'d str) -> Result<(), E> {
        self.add(text.into());
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.add(text.to_owned().into());
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use registry_core::kind::Kind;
    use serde_json::{Value, json};

    use super::*;

    fn texts(kind: Kind, value: &Value) -> Vec<(Field, String)> {
        let mut texts = Vec::new();
        let document = Document::parse(kind, value).unwrap();
        each(&document, &mut |field, text| texts.push((field, text.to_owned())));
        texts
    }

    fn in_schema(schema: &Value) -> Vec<(Field, String)> {
        let value = json!({ "name": "S", "version": "1.0.0", "schema": schema });
        let mut texts = texts(Kind::Schema, &value);
        texts.retain(|(field, _)| matches!(field, Field::Property | Field::Detail));
        texts
    }

    #[test]
    fn tags_are_texts_of_a_list() {
        for (tags, expected) in [
            (json!("a"), &[][..]),
            (json!({ "a": "b" }), &[]),
            (json!([["a"]]), &[]),
            (json!([1, { "a": "b" }, null, "c"]), &["c"]),
        ] {
            let value = json!({ "name": "S", "version": "1.0.0", "schema": {},
                "metadata": { "tags": tags } });
            let mut texts = texts(Kind::Schema, &value);
            texts.retain(|(field, _)| *field == Field::Tag);
            let found: Vec<_> = texts.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(found, expected, "{tags}");
        }
    }

    #[test]
    fn texts_come_most_significant_first() {
        let schema = json!({ "properties": { "p": { "description": "detail" } } });
        let tool = json!({
            "name": "t", "version": "1.0.0", "title": "title", "description": "description",
            "metadata": { "tags": ["tag"] }, "inputSchema": schema, "outputSchema": { "title": "out" },
            "source": { "server": "s", "serverVersion": "1.0.0", "tool": "upstream" },
        });
        let shown = |kind, value| {
            let texts = texts(kind, value).into_iter();
            texts.map(|(field, text)| format!("{} {text}", field.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Kind::Tool, &tool),
            [
                "name t",
                "title title",
                "tag tag",
                "description description",
                "property p",
                "detail detail",
                "detail out",
                "related tool",
                "related s",
                "related upstream",
            ]
        );
        let skill = json!({
            "id": "id", "name": "n", "description": "does", "tags": ["tag"], "examples": ["like"],
            "inputSchema": schema,
        });
        let agent = json!({
            "name": "a", "version": "1.0.0", "description": "description", "url": "http://localhost",
            "protocolVersion": "0.2.1", "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
            "skills": [skill], "capabilities": {},
            "provider": { "organization": "org", "url": "http://localhost" },
        });
        assert_eq!(
            shown(Kind::Agent, &agent),
            [
                "name a",
                "skill id",
                "skill n",
                "tag tag",
                "description description",
                "detail does",
                "detail like",
                "property p",
                "detail detail",
                "related agent",
                "related org",
            ]
        );
        let policy = json!({
            "name": "p", "version": "1.0.0",
            "appliesTo": { "callers": ["c"], "servers": ["s*"], "skills": ["k"], "tools": ["t"] },
        });
        assert_eq!(
            shown(Kind::Policy, &policy),
            ["name p", "related policy", "related c", "related t", "related k", "related s*"]
        );
        let server = json!({
            "name": "s", "version": "1.0.0", "provides": [{ "tool": "t", "version": "1.0.0" }],
        });
        assert_eq!(shown(Kind::Server, &server), ["name s", "related server", "related t"]);
    }

    /// The names and descriptions of all nested properties of a schema, as the definition.
    fn expected(schema: &Value, found: &mut Vec<(Field, String)>) {
        match schema {
            Value::Object(members) => {
                for (name, member) in members.iter().collect::<BTreeMap<_, _>>() {
                    match (name.as_str(), member) {
                        ("properties", Value::Object(properties)) => {
                            for (name, property) in properties.iter().collect::<BTreeMap<_, _>>() {
                                found.push((Field::Property, name.clone()));
                                expected(property, found);
                            }
                        }
                        ("description" | "title", Value::String(text)) => {
                            found.push((Field::Detail, text.clone()));
                        }
                        ("const" | "enum" | "default" | "examples", _) => {}
                        _ => expected(member, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| expected(item, found)),
            _ => {}
        }
    }

    fn schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(true)),
            Just(json!(-1)),
            Just(json!(1.5)),
            "[a\"\n\u{e9}]{0,3}".prop_map(Value::from),
        ];
        let name = prop::sample::select(
            &[
                "properties",
                "title",
                "description",
                "const",
                "enum",
                "default",
                "examples",
                "items",
                "b\n",
            ][..],
        );
        leaf.prop_recursive(5, 40, 4, move |inner| {
            let members = prop::collection::vec((name.clone(), inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::Array),
                members.prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn schema_texts_match_their_definition(schema in schema()) {
            let schema = json!({ "$defs": { "properties": schema } });
            let mut all = Vec::new();
            expected(&schema, &mut all);
            prop_assert_eq!(in_schema(&schema), all);
        }
    }
}
