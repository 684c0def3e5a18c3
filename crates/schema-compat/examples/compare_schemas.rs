//! Compares successive versions of published JSON Schemas and counts the verdicts; the source of
//! the numbers in `docs/compatibility.md`.
//!
//! `cargo run -p schema-compat --example compare_schemas -- DIR…`: each directory has one
//! subdirectory per version with `.json` files, as created by `tests/real-schemas.sh`.

#![expect(clippy::unwrap_used, reason = "a tool for developers may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use schema_compat::{
    compatibility::{Budget, Side, Verdict, covers},
    schema_compile::compile,
};
use serde_json::{Value, json};

/// Files with more definitions are compared definition by definition.
const MANY_DEFINITIONS: usize = 40;

#[derive(Default)]
struct Count {
    outcomes: BTreeMap<&'static str, usize>,
    undecided: BTreeMap<String, usize>,
    slowest: Duration,
    total: Duration,
}

fn main() {
    let mut all = Count::default();
    for dir in env::args().skip(1) {
        let mut count = Count::default();
        let versions = versions(Path::new(&dir));
        for pair in versions.windows(2) {
            for (name, old, new) in pairs(&pair[0], &pair[1]) {
                compare(&format!("{}/{name}", pair[1].display()), &old, &new, &mut count);
            }
        }
        println!("{dir}: {:?}, slowest {:?}", count.outcomes, count.slowest);
        for (outcome, number) in count.outcomes {
            *all.outcomes.entry(outcome).or_default() += number;
        }
        for (check, number) in count.undecided {
            *all.undecided.entry(check).or_default() += number;
        }
        all.slowest = all.slowest.max(count.slowest);
        all.total += count.total;
    }
    println!("all: {:?}, {:?}, slowest {:?}", all.outcomes, all.total, all.slowest);
    println!("undecided at: {:#?}", all.undecided);
}

/// The subdirectories, lowest version first.
fn versions(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let version = |path: &PathBuf| semver::Version::parse(path.file_name()?.to_str()?).ok();
    let mut found: Vec<_> = entries.filter_map(|path| Some((version(&path)?, path))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The schemas that exist in both versions and differ.
fn pairs(old: &Path, new: &Path) -> Vec<(String, Value, Value)> {
    let (old, new) = (schemas(old, old), schemas(new, new));
    let both = old.into_iter().filter_map(|(name, old)| {
        let new = new.get(&name)?.clone();
        Some((name, old, new))
    });
    both.flat_map(|(name, old, new)| definitions(&name, old, new)).collect()
}

fn schemas(root: &Path, dir: &Path) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(schemas(root, &path));
        } else if path.extension().is_some_and(|end| end == "json")
            && let Ok(mut value) =
                serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap())
            && ["$schema", "$id", "definitions"].iter().any(|name| value.get(*name).is_some())
            && ["properties", "definitions", "$ref", "oneOf"]
                .iter()
                .any(|n| value.get(*n).is_some())
        {
            // Some schemas name a dialect that does not exist.
            if !value["$schema"].as_str().is_some_and(|dialect| dialect.contains("draft")) {
                value["$schema"] = "http://json-schema.org/draft-07/schema#".into();
            }
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), value);
        }
    }
    found
}

fn definitions(name: &str, old: Value, new: Value) -> Vec<(String, Value, Value)> {
    let names = |value: &Value| -> BTreeSet<String> {
        let map = value.get("definitions").and_then(Value::as_object);
        map.into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let both: Vec<String> = names(&old).intersection(&names(&new)).cloned().collect();
    if both.len() < MANY_DEFINITIONS {
        return vec![(name.to_owned(), old, new)];
    }
    let part = |whole: &Value, definition: &str| {
        let schema = whole.get("$schema").cloned().unwrap_or_default();
        let reference = json!({ "$ref": format!("#/definitions/{definition}") });
        json!({ "$schema": schema, "allOf": [reference], "definitions": whole["definitions"] })
    };
    let each = |definition: String| {
        let (old, new) = (part(&old, &definition), part(&new, &definition));
        (format!("{name}#{definition}"), old, new)
    };
    both.into_iter().map(each).collect()
}

fn compare(name: &str, old: &Value, new: &Value, count: &mut Count) {
    let usable = |schema| compile(schema, &|_| None).is_ok();
    if !usable(old) || !usable(new) {
        *count.outcomes.entry("not registrable").or_default() += 1;
        return;
    }
    for (given, wanted, side, way) in
        [(old, new, Side::New, "backward"), (new, old, Side::Old, "forward")]
    {
        let start = Instant::now();
        let nothing = |_: &_| None;
        let verdict = covers((given, ""), (wanted, ""), side, &nothing, &mut Budget::for_pair());
        let took = start.elapsed();
        (count.slowest, count.total) = (count.slowest.max(took), count.total + took);
        let outcome = match verdict {
            Verdict::Yes if given == wanted => "identical",
            Verdict::Yes => "compatible",
            Verdict::No(_) => "breaking",
            Verdict::Undecided(check) => {
                println!("{way} {name}: {} at {}", check.reason, check.pointer);
                *count.undecided.entry(check.reason).or_default() += 1;
                "undecided"
            }
        };
        *count.outcomes.entry(outcome).or_default() += 1;
    }
}
