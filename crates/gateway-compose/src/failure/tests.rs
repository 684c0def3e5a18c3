//! What is told of failures, and what is known of them.

use registry_core::{Kind, Name, spec::Target};

use super::*;
use crate::history::End;

fn target() -> Target {
    Target::Tool(Name::parse(Kind::Tool, "t").unwrap())
}

#[test]
fn a_dead_letter_that_fails_hides_nothing_of_what_was_done() {
    let certain = || Failure::new("s", Cause::Duplicate);
    let letter = |failure, letter| Failure::new("", Cause::DeadLetter { failure, letter });
    assert_eq!(letter(certain(), certain()).effects(), Effects::None);
    for beside in [Effects::Committed, Effects::Unknown] {
        assert_eq!(letter(certain().beside(beside), certain()).effects(), beside);
        assert_eq!(letter(certain(), certain().beside(beside)).effects(), beside);
    }
    let lost = || Failure::new("s", Cause::Timeout { after_ms: 1, message: None });
    assert!(letter(lost(), certain()).is_unknown() && letter(certain(), lost()).is_unknown());
}

#[test]
fn what_was_not_even_asked_may_go_better_later() {
    let second = Duration::from_secs(1);
    let error = |effects, retry_after| StepError {
        outcome: Outcome::UpstreamBusy,
        message: String::new(),
        detail: String::new(),
        effects,
        retry_after,
        rejects_result: false,
    };
    let spared = || error(Effects::None, Some(second));
    let call = |error| Failure::new("s", Cause::Call { tool: target(), error });
    assert_eq!(call(spared()).retry_after(), Some(second));
    assert_eq!(call(spared()).beside(Effects::Committed).retry_after(), None, "a part was done");
    let open = || Failure::new("s", Cause::Open { name: "b".into(), retry_after_s: 1 });
    assert_eq!(open().retry_after(), Some(second));
    assert_eq!(call(error(Effects::Committed, Some(second))).retry_after(), None);
    assert_eq!(open().beside(Effects::Committed).retry_after(), None);
    assert_eq!(Failure::new("s", Cause::Duplicate).retry_after(), None);
}

#[test]
fn a_failure_is_told_with_its_step() {
    let failure = |step| Failure::new(step, Cause::Duplicate).to_string();
    assert!(failure("a/b").starts_with("step `a/b`: the same was done before"));
    assert!(failure("").starts_with("the same was done before"));
}

/// How a saga ended, of which the steps came to this.
fn end(status: Status, outcomes: &[&str]) -> End {
    let step = |outcome: &&str| json!({ "id": "s", "outcome": outcome });
    let steps = outcomes.iter().map(step).collect::<Value>();
    End {
        status,
        failed_step: None,
        error: Some(json!({ "message": "the words of a tool", "reason": "tool-error" })),
        steps: serde_json::from_value(steps).unwrap(),
        output: None,
    }
}

#[test]
fn a_saga_is_not_said_to_have_done_or_undone_what_it_has_not() {
    let told = |status, outcomes: &[&str]| {
        Failure::new("", Cause::Saga(Arc::new(end(status, outcomes)))).message()
    };
    assert_eq!(
        told(Status::CompensationFailed, &[]),
        "the saga is left to the gateway's operator: the words of a tool"
    );
    assert_eq!(
        told(Status::Compensated, &["compensated", "failed"]),
        "the saga failed, and what it had done was undone: the words of a tool"
    );
    assert_eq!(
        told(Status::Compensated, &["failed", "not_run"]),
        "the saga failed, before which it had done nothing: the words of a tool"
    );
}

#[test]
fn the_words_of_tools_are_for_callers_and_not_for_logs() {
    let (text, said) = (Some("the words of a tool".to_owned()), json!("the words of a tool"));
    let tool = || {
        Failure::new("s", Cause::Tool { tool: target(), text: text.clone(), said: said.clone() })
    };
    let none = || Cause::NothingArrived { of: 2, first: Some(tool()) };
    let saga = || Cause::Saga(Arc::new(end(Status::Compensated, &["compensated", "failed"])));
    let letter = || Cause::DeadLetter { failure: tool(), letter: tool() };
    for cause in [none(), saga(), letter()] {
        let failure = Failure::new("", cause);
        assert!(failure.message().contains("the words of a tool"), "{}", failure.message());
        assert!(!failure.to_string().contains("the words of a tool"), "{failure}");
    }
    assert_eq!(
        Failure::new("", none()).to_string(),
        "none of 2 targets gave a result; the first failure: step `s`: t says that it failed"
    );
    assert!(Failure::new("", saga()).to_string().ends_with("was undone: tool-error"));
}
