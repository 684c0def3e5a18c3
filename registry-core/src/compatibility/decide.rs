//! Two schemas, one question: does the one accept everything that the other accepts?
//!
//! The proof says yes; its failures bring candidates, and only real validators say no.
//! Deliberately absent: entities.

use serde_json::Value;

use super::{
    Budget, Difference, Doubt, Resolve, Side, Verdict,
    arena::{Arena, Id},
    prover::{Failure, Goal, New, Prover, Stop},
};
use crate::{
    document::pointer_join,
    entity::Entity,
    limits,
    reference::Key,
    schema_compile::{Validator, compile},
};

/// A JSON Schema and its JSON pointer in its entity.
pub(crate) type Placed<'a, 'p> = (&'a Value, &'p str);

/// Steps that are left for examples when the proof has used up its own.
const LAST_STEPS: usize = 2_000;

/// Whether `wanted` accepts everything that `given` accepts; `new` says which of them is the new
/// version.
pub fn covers<'a>(
    given: Placed<'a, '_>,
    wanted: Placed<'a, '_>,
    new: Side,
    resolve: Resolve<'a>,
    budget: &mut Budget,
) -> Verdict {
    if given.0 == wanted.0 {
        return Verdict::Yes;
    }
    if budget.is_spent() {
        let at = if new == Side::New { wanted.1 } else { given.1 };
        let reason = "the comparisons of one commit have used up their steps".to_owned();
        return Verdict::Undecided(Doubt { pointer: at.to_owned(), reason });
    }
    let mut arena = Arena::new(resolve);
    let (given_root, wanted_root) = (arena.add(given.0, given.1), arena.add(wanted.0, wanted.1));
    let (role, own) = match new {
        // With `New::Given`, what is given is the new version.
        Side::New => (New::Wanted, wanted_root),
        Side::Old => (New::Given, given_root),
    };
    let share = budget.share();
    let mut prover = Prover::new(arena, role, own, share);
    if let Ok(Some(circle)) = prover.circle([given_root, wanted_root]) {
        budget.spend(share - prover.left());
        return circular(prover.arena.pointer(own), prover.arena.pointer(circle));
    }
    let outcome = prove(&mut prover, given_root, (wanted_root, own));
    let is_complete = outcome.is_ok();
    let failures = outcome.unwrap_or_default();
    budget.spend(share - prover.left());
    if is_complete && failures.is_empty() {
        return Verdict::Yes;
    }
    budget.spend(prover.arena.len());
    let refused_by = if role == New::Wanted { Side::New } else { Side::Old };
    let more = prover.last_candidates(given_root, LAST_STEPS);
    let root = Failure {
        keyword: "schema",
        wanted: wanted_root,
        anchor: own,
        candidates: Vec::new(),
        is_definite: false,
    };
    // Whatever nobody thought of is put down to the first thing in the way.
    let rest = failures.first().unwrap_or(&root).with(more);
    if let Some(judges) = Judges::of(given.0, wanted.0, resolve) {
        for failure in failures.iter().chain([&rest]) {
            if let Some(instance) = failure.candidates.iter().find(|value| judges.differ(value)) {
                let instance = Some(instance.clone());
                return Verdict::No(place(&prover, failure, refused_by).with(instance));
            }
        }
    }
    match failures.first() {
        Some(failure) => undecided(place(&prover, failure, refused_by)),
        None => too_long(prover.arena.pointer(own), share),
    }
}

fn undecided(difference: Difference) -> Verdict {
    let Difference { keyword, pointer, elsewhere, .. } = difference;
    let place = elsewhere.map(|place| format!(" ({place})")).unwrap_or_default();
    let reason = format!("`{keyword}`{place} could not be compared");
    Verdict::Undecided(Doubt { pointer, reason })
}

fn circular(pointer: &str, circle: &str) -> Verdict {
    let reason = format!("a circle of references leads back to {circle}");
    Verdict::Undecided(Doubt { pointer: pointer.to_owned(), reason })
}

fn too_long(pointer: &str, steps: usize) -> Verdict {
    let reason = format!("comparing takes more than {steps} steps, or it is nested too deep");
    Verdict::Undecided(Doubt { pointer: pointer.to_owned(), reason })
}

fn prove(
    prover: &mut Prover<'_>,
    given: Id,
    (wanted, anchor): (Id, Id),
) -> Result<Vec<Failure>, Stop> {
    let given = prover.given([given])?;
    prover.prove(&Goal { given, wanted, anchor, level: 0 })
}

impl Difference {
    fn with(self, instance: Option<Value>) -> Self {
        Self { instance, ..self }
    }
}

/// Where a failure is, in the words of the new document.
fn place(prover: &Prover<'_>, failure: &Failure, refused_by: Side) -> Difference {
    let arena = &prover.arena;
    let Failure { keyword, wanted, anchor, .. } = failure;
    let at = |node: Id, keyword: &str| {
        let has_it = arena.json(node).is_some_and(|json| json.get(keyword).is_some());
        let pointer = arena.pointer(node);
        if has_it { pointer_join(pointer, keyword) } else { pointer.to_owned() }
    };
    let is_false = arena.json(*wanted) == Some(&Value::Bool(false));
    let keyword = if is_false { applicator(arena.pointer(*wanted)) } else { (*keyword).to_owned() };
    let own = match refused_by {
        Side::New => at(*anchor, if anchor == wanted { &keyword } else { "$ref" }),
        Side::Old => at(*anchor, &keyword),
    };
    let elsewhere = (wanted != anchor).then(|| {
        let place = at(*wanted, &keyword);
        match arena.key_of(*wanted) {
            Some(key) => format!("in {key} at {place}"),
            None => format!("at {place}"),
        }
    });
    Difference { keyword, pointer: own, elsewhere, instance: None, refused_by }
}

/// The keyword of which the schema at this pointer is the value, or one of them.
fn applicator(pointer: &str) -> String {
    let named =
        ["properties", "patternProperties", "prefixItems", "allOf", "anyOf", "oneOf", "$defs"];
    let mut steps = pointer.rsplit('/');
    let (last, before) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
    if named.contains(&before) { before.to_owned() } else { last.to_owned() }
}

impl Prover<'_> {
    /// Values of the given schema, found with some steps more.
    fn last_candidates(&mut self, given: Id, steps: usize) -> Vec<Value> {
        self.refill(steps);
        let given = self.given([given]);
        given.and_then(|given| self.samples(&given)).unwrap_or_default()
    }
}

/// The real validators of both schemas.
struct Judges {
    given: Validator,
    wanted: Validator,
}

impl Judges {
    fn of<'a>(given: &'a Value, wanted: &'a Value, resolve: Resolve<'a>) -> Option<Self> {
        let schema = |key: &Key| match resolve(key)? {
            Entity::Schema(schema) => Some(&schema.schema),
            _ => None,
        };
        let compiled = |value| compile(value, &schema).ok();
        Some(Self { given: compiled(given)?, wanted: compiled(wanted)? })
    }

    /// Whether the one accepts the value and the other refuses it.
    fn differ(&self, value: &Value) -> bool {
        is_shallow(value, limits::DOCUMENT_DEPTH)
            && self.given.accepts(value) == Some(true)
            && self.wanted.accepts(value) == Some(false)
    }
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_shallow(item, depth - 1)),
        Value::Object(map) => map.values().all(|member| is_shallow(member, depth - 1)),
        _ => true,
    }
}
