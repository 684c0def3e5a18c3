//! Each validator catches what it is for: a really recorded history passes, and each mutation of it
//! is caught by the validator that it names.
//!
//! Deliberately absent: the mutations themselves.

use history_check::{Event, History, Line, VALIDATORS};
use proof::{Plan, Postgres, record};

use crate::mutations::MUTATIONS;

/// Room between lines for what a mutation adds.
const ROOM: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn each_validator_catches_what_it_is_for() {
    // Kept where this fails, for whoever reads the failure.
    let dir = tempfile::tempdir().expect("a temporary directory").keep();
    let postgres = Postgres::start().await;
    record(&Plan::varied(), &postgres, &dir).await.expect("a history is recorded");
    let text = std::fs::read_to_string(dir.join("history.jsonl")).expect("it is there");
    let recorded = History::parse(&text).expect("a history");
    let lines = with_room(recorded.lines);
    let unmutated = History::of(lines.clone());
    for validator in VALIDATORS {
        let found = (validator.check)(&unmutated);
        assert_eq!(found, [], "{}, of the real one in {dir:?}", validator.name);
    }
    for (validator, what, mutate) in MUTATIONS {
        let mut lines = lines.clone();
        assert!(mutate(&mut lines, &unmutated.log).is_some(), "there is nothing to {what}");
        let mutated = History::of(lines);
        let validator = VALIDATORS.iter().find(|v| v.name == *validator).expect("a validator");
        let found = (validator.check)(&mutated);
        assert!(!found.is_empty(), "{} does not catch: {what}", validator.name);
    }
    for validator in VALIDATORS {
        let has_one = MUTATIONS.iter().any(|(name, _, _)| *name == validator.name);
        assert!(has_one, "{} catches nothing here", validator.name);
    }
    std::fs::remove_dir_all(&dir).expect("a directory of our own");
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
