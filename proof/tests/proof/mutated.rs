//! A recorded history passes, and the named validator detects each mutation of it.

use std::path::Path;

use history_check::{Event, History, Line, VALIDATORS};
use proof::{Plan, Postgres, record};

use crate::mutations::{MUTATIONS, Mutation};

/// The distance of line numbers, so that a mutation can insert lines.
const ROOM: u64 = 10;
/// A mutation may not apply to a history. Then another one is recorded.
const HISTORIES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn validators_detect_their_mutations() {
    // Kept for analysis after a failure.
    let dir = tempfile::tempdir().expect("a temporary directory").keep();
    let postgres = Postgres::start().await;
    let mut open: Vec<&Mutation> = MUTATIONS.iter().collect();
    for number in 0..HISTORIES {
        let dir = dir.join(number.to_string());
        record(&Plan::varied(), &postgres, &dir).await.expect("a history is recorded");
        open = not_placed(&dir.join("history.jsonl"), open);
        if open.is_empty() {
            break;
        }
    }
    let open: Vec<_> = open.iter().map(|(_, what, _)| what).collect();
    assert!(open.is_empty(), "no history has a place to {open:?}");
    for validator in VALIDATORS {
        let has_one = MUTATIONS.iter().any(|(name, _, _)| *name == validator.name);
        assert!(has_one, "{} catches nothing here", validator.name);
    }
    std::fs::remove_dir_all(&dir).expect("a directory of our own");
}

/// Applies mutations to a history, which must pass unchanged. Returns the mutations that do not
/// apply.
fn not_placed<'a>(file: &Path, mutations: Vec<&'a Mutation>) -> Vec<&'a Mutation> {
    let text = std::fs::read_to_string(file).expect("it is there");
    let lines = with_room(History::parse(&text).expect("a history").lines);
    let unmutated = History::new(lines.clone());
    for validator in VALIDATORS {
        let found = (validator.check)(&unmutated);
        assert_eq!(found, [], "{}, of the real one: {}", validator.name, file.display());
    }
    let is_open = |(validator, what, mutate): &&Mutation| {
        let mut lines = lines.clone();
        if mutate(&mut lines, &unmutated.log).is_none() {
            return true;
        }
        let mutated = History::new(lines);
        let validator = VALIDATORS.iter().find(|v| v.name == *validator).expect("a validator");
        let found = (validator.check)(&mutated);
        assert!(!found.is_empty(), "{} does not catch: {what}: {}", validator.name, file.display());
        false
    };
    mutations.into_iter().filter(is_open).collect()
}

fn with_room(mut lines: Vec<Line>) -> Vec<Line> {
    for line in &mut lines {
        line.n *= ROOM;
        if let Event::Hello { resumes: Some(resumes), .. } = &mut line.event {
            *resumes *= ROOM;
        }
    }
    lines
}
