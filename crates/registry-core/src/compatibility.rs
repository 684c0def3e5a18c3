//! Compatibility of two versions of an entity, schema by schema, in the direction of data flow.
//!
//! A new version may accept more input and return less output. The schema of a schema entity
//! counts as input. Servers promise no schema, and the dependencies of an agent are invisible to
//! its callers. The rule `breaking-change` selects the versions to compare.

mod mode;

use std::sync::LazyLock;

use schema_compat::{
    compatibility::{Assertion, Budget, Difference, Side, UndecidedCheck, Verdict, covers},
    name::{Definition, SchemaName},
};
use serde_json::{Value, json};

pub use mode::{CompatibilityDirection, InvalidMode, Mode};

use crate::{
    entity::{Entity, Implementation, Skill, Tool},
    reference::Key,
};

/// Looks up registered schemas by key.
pub type Resolve<'a> = &'a dyn Fn(&Key) -> Option<&'a Entity>;

/// The overall result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The schemas are equal.
    Identical,
    /// The schemas differ without a breaking change.
    Compatible,
    /// Compatibility could be neither proved nor refuted.
    Undecided,
    /// At least one promise is broken.
    Breaking,
}

impl Outcome {
    /// The serialized name: `compatible`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Compatible => "compatible",
            Self::Undecided => "undecided",
            Self::Breaking => "breaking",
        }
    }
}

/// The findings of a comparison of two versions of one entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Whether all schemas are equal as JSON.
    pub is_identical: bool,
    /// Breaking changes with counterexamples.
    pub differences: Vec<Difference>,
    /// Checks that could not be decided.
    pub undecided_checks: Vec<UndecidedCheck>,
}

impl Comparison {
    /// The findings of a comparison with itself.
    pub(crate) fn identical() -> Self {
        Self { is_identical: true, differences: Vec::new(), undecided_checks: Vec::new() }
    }

    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Yes => {}
            Verdict::No(difference) => self.differences.push(difference),
            Verdict::Undecided(doubt) => self.undecided_checks.push(doubt),
        }
    }

    /// The overall result.
    pub fn outcome(&self) -> Outcome {
        if !self.differences.is_empty() {
            Outcome::Breaking
        } else if !self.undecided_checks.is_empty() {
            Outcome::Undecided
        } else if self.is_identical {
            Outcome::Identical
        } else {
            Outcome::Compatible
        }
    }
}

/// The direction of data flow through a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    In,
    Out,
}

/// One schema of an entity.
struct Part<'a> {
    /// The member that contains the schema, in the object at `holder`.
    name: &'static str,
    /// Identifies the holder by a name that is stable across versions.
    id: &'a str,
    /// JSON pointer of the object with the member.
    holder: String,
    flow: Flow,
    promise: Promise<'a>,
}

/// The promise made by a schema member, present or absent.
#[derive(Clone, Copy, PartialEq)]
enum Promise<'a> {
    Schema(&'a Value),
    /// No schema: every possible value.
    Anything(&'static Value),
    /// No schema: the upstream server's own schema applies.
    Upstream,
}

static ANYTHING: Value = Value::Bool(true);
static ANY_OBJECT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));

/// Compares two versions of one name.
pub fn compare<'a>(
    old: &'a Entity,
    new: &'a Entity,
    direction: CompatibilityDirection,
    resolve: Resolve<'a>,
    budget: &mut Budget,
) -> Comparison {
    let mut found = Comparison::identical();
    let (olds, news) = (parts(old), parts(new));
    let directions: &[CompatibilityDirection] = match direction {
        CompatibilityDirection::Full => {
            &[CompatibilityDirection::Backward, CompatibilityDirection::Forward]
        }
        CompatibilityDirection::Backward => &[CompatibilityDirection::Backward],
        CompatibilityDirection::Forward => &[CompatibilityDirection::Forward],
    };
    skills(old, new, directions, &mut found);
    hidden(old, new, &mut found);
    for part in news {
        let same = |other: &&Part<'a>| (other.id, other.name) == (part.id, part.name);
        let Some(before) = olds.iter().find(same) else { continue };
        if before.promise == part.promise {
            continue;
        }
        found.is_identical = false;
        for direction in directions {
            found.add(part.compare(before, *direction, resolve, budget));
        }
    }
    found
}

impl<'a> Part<'a> {
    fn compare(
        &self,
        old: &Self,
        direction: CompatibilityDirection,
        resolve: Resolve<'a>,
        budget: &mut Budget,
    ) -> Verdict {
        let (Some(before), Some(after)) = (old.schema(), self.schema()) else {
            let reason = format!(
                "one of the versions has no `{}`, so the schema of the upstream server applies",
                self.name
            );
            return Verdict::Undecided(UndecidedCheck { pointer: self.pointer(), reason });
        };
        let (at_old, at_new) = (old.pointer(), self.pointer());
        let (before, after) = ((before, at_old.as_str()), (after, at_new.as_str()));
        let definition = |name: &SchemaName| match resolve(&Key::for_schema(name)?)? {
            Entity::Schema(schema) => {
                Some(Definition { schema: &schema.schema, pointer: "/schema" })
            }
            _ => None,
        };
        let is_new_wider =
            (self.flow == Flow::In) == (direction == CompatibilityDirection::Backward);
        if is_new_wider {
            covers(before, after, Side::New, &definition, budget)
        } else {
            covers(after, before, Side::Old, &definition, budget)
        }
    }

    fn schema(&self) -> Option<&'a Value> {
        match self.promise {
            Promise::Schema(schema) | Promise::Anything(schema) => Some(schema),
            Promise::Upstream => None,
        }
    }

    /// JSON pointer of the schema, or of its would-be location.
    fn pointer(&self) -> String {
        match self.promise {
            Promise::Schema(_) => format!("{}/{}", self.holder, self.name),
            Promise::Anything(_) | Promise::Upstream => self.holder.clone(),
        }
    }
}

fn parts(entity: &Entity) -> Vec<Part<'_>> {
    match entity {
        Entity::Schema(schema) => vec![Part {
            name: "schema",
            id: "",
            holder: String::new(),
            flow: Flow::In,
            promise: Promise::Schema(&schema.schema),
        }],
        Entity::Server(_) | Entity::Policy(_) => Vec::new(),
        Entity::Tool(tool) => tool_parts(tool),
        Entity::Agent(agent) => {
            agent.skills.iter().enumerate().flat_map(|(i, skill)| skill_parts(i, skill)).collect()
        }
    }
}

fn tool_parts(tool: &Tool) -> Vec<Part<'_>> {
    let no_input = match tool.implementation {
        Implementation::Source(_) => Promise::Upstream,
        Implementation::Spec(_) => Promise::Anything(&ANY_OBJECT),
    };
    let input = tool.input_schema.as_ref().map_or(no_input, Promise::Schema);
    let output = tool.output_schema.as_ref().map_or(Promise::Anything(&ANYTHING), Promise::Schema);
    [("inputSchema", Flow::In, input), ("outputSchema", Flow::Out, output)]
        .map(|(name, flow, promise)| Part { name, id: "", holder: String::new(), flow, promise })
        .into()
}

fn skill_parts<'a>(index: usize, skill: &'a Skill) -> Vec<Part<'a>> {
    let promise = |schema: &'a Option<Value>| {
        schema.as_ref().map_or(Promise::Anything(&ANYTHING), Promise::Schema)
    };
    let (input, output) = (promise(&skill.input_schema), promise(&skill.output_schema));
    let holder = format!("/skills/{index}");
    [("inputSchema", Flow::In, input), ("outputSchema", Flow::Out, output)]
        .map(|(name, flow, promise)| Part {
            name,
            id: &skill.id,
            holder: holder.clone(),
            flow,
            promise,
        })
        .into()
}

/// Reports skills that exist in only one of the versions.
fn skills(
    old: &Entity,
    new: &Entity,
    directions: &[CompatibilityDirection],
    found: &mut Comparison,
) {
    let (Entity::Agent(old), Entity::Agent(new)) = (old, new) else { return };
    for direction in directions {
        let (given, wanted, rejected_by) = match direction {
            CompatibilityDirection::Forward => (new, old, Side::Old),
            CompatibilityDirection::Backward | CompatibilityDirection::Full => {
                (old, new, Side::New)
            }
        };
        for skill in &given.skills {
            if wanted.skill(&skill.id).is_none() {
                let index = given.skills.iter().position(|other| other.id == skill.id);
                let index = index.filter(|_| rejected_by == Side::Old);
                let pointer = index.map_or("/skills".to_owned(), |i| format!("/skills/{i}"));
                found.differences.push(Difference {
                    assertion: Assertion::Part(format!("the skill `{}`", skill.id)),
                    pointer,
                    referenced_location: None,
                    instance: None,
                    rejected_by,
                });
            }
        }
    }
    let ids = |skills: &[Skill]| skills.iter().map(|skill| skill.id.clone()).collect::<Vec<_>>();
    found.is_identical &= ids(&old.skills) == ids(&new.skills);
}

/// Reports arguments that callers may send in only one version.
fn hidden(old: &Entity, new: &Entity, found: &mut Comparison) {
    let hidden = |entity: &Entity| match entity {
        Entity::Tool(tool) => {
            let mut fields =
                tool.source().map(|source| source.hide_fields.clone()).unwrap_or_default();
            fields.sort();
            fields
        }
        _ => Vec::new(),
    };
    if hidden(old) != hidden(new) {
        found.is_identical = false;
        found.undecided_checks.push(UndecidedCheck {
            pointer: "/source".to_owned(),
            reason:
                "`hideFields` differs, and the schemas do not say which arguments callers may send"
                    .to_owned(),
        });
    }
}
