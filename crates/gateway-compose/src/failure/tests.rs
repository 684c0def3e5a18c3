//! Messages and side effects of failures.

use registry_core::{Kind, Name, spec::Target};

use super::*;
use crate::history::SagaEnd;

fn target() -> Target {
    Target::Tool(Name::parse(Kind::Tool, "t").unwrap())
}

#[test]
fn failed_dead_letter_keeps_effects_of_operation() {
    let certain = || Failure::new("s", Cause::Duplicate);
    let letter = |failure, letter| Failure::new("", Cause::DeadLetter { failure, letter });
    assert_eq!(letter(certain(), certain()).effects(), Effects::None);
    for beside in [Effects::Committed, Effects::Unknown] {
        assert_eq!(letter(certain().with_effects(beside), certain()).effects(), beside);
        assert_eq!(letter(certain(), certain().with_effects(beside)).effects(), beside);
    }
    let lost = || Failure::new("s", Cause::Timeout { after_ms: 1, message: None });
    assert!(letter(lost(), certain()).is_unknown() && letter(certain(), lost()).is_unknown());
}

#[test]
fn retry_after_requires_no_effects() {
    let second = Duration::from_secs(1);
    let error = |effects, retry_after| StepError {
        outcome: CallOutcome::UpstreamBusy,
        message: String::new(),
        detail: String::new(),
        effects,
        retry_after,
        rejects_result: false,
    };
    let spared = || error(Effects::None, Some(second));
    let call = |error| Failure::new("s", Cause::Call { tool: target(), error });
    assert_eq!(call(spared()).retry_after(), Some(second));
    assert_eq!(
        call(spared()).with_effects(Effects::Committed).retry_after(),
        None,
        "another part had effects"
    );
    let open = || Failure::new("s", Cause::CircuitOpen { name: "b".into(), retry_after_s: 1 });
    assert_eq!(open().retry_after(), Some(second));
    assert_eq!(call(error(Effects::Committed, Some(second))).retry_after(), None);
    assert_eq!(open().with_effects(Effects::Committed).retry_after(), None);
    assert_eq!(Failure::new("s", Cause::Duplicate).retry_after(), None);
}

#[test]
fn failure_message_starts_with_step() {
    let failure = |step| Failure::new(step, Cause::Duplicate).to_string();
    insta::assert_snapshot!(
        failure(""),
        @"a call with the same key has run or is running; nothing was done"
    );
    assert_eq!(failure("a/b"), format!("step `a/b`: {}", failure("")));
}

/// Builds the end of a saga from the outcomes of its steps.
fn end(status: SagaStatus, outcomes: &[&str]) -> SagaEnd {
    let step = |outcome: &&str| json!({ "id": "s", "outcome": outcome });
    let steps = outcomes.iter().map(step).collect::<Value>();
    SagaEnd {
        status,
        failed_step: None,
        error: Some(json!({ "message": "out-of-ink", "reason": "tool-error" })),
        steps: serde_json::from_value(steps).unwrap(),
        output: None,
    }
}

#[test]
fn saga_message_states_actual_outcome() {
    let told = |status, outcomes: &[&str]| {
        Failure::new("", Cause::Saga(Arc::new(end(status, outcomes)))).message()
    };
    insta::assert_snapshot!(
        told(SagaStatus::CompensationFailed, &[]),
        @"the saga needs the gateway's operator: out-of-ink"
    );
    insta::assert_snapshot!(
        told(SagaStatus::Compensated, &["compensated", "failed"]),
        @"the saga failed; its completed steps were compensated: out-of-ink"
    );
    insta::assert_snapshot!(
        told(SagaStatus::Compensated, &["failed", "not_run"]),
        @"the saga failed before any step had effects: out-of-ink"
    );
}

#[test]
fn tool_errors_reach_callers_but_not_logs() {
    let (text, value) = (Some("out-of-ink".to_owned()), json!("out-of-ink"));
    let tool = || {
        Failure::new(
            "s",
            Cause::Tool { tool: target(), text: text.clone(), value: Box::new(value.clone()) },
        )
    };
    let none = || Cause::NoResults { of: 2, first: Some(tool()) };
    let saga = || Cause::Saga(Arc::new(end(SagaStatus::Compensated, &["compensated", "failed"])));
    let letter = || Cause::DeadLetter { failure: tool(), letter: tool() };
    for cause in [none(), saga(), letter()] {
        let failure = Failure::new("", cause);
        assert!(failure.message().contains("out-of-ink"), "{}", failure.message());
        assert!(!failure.to_string().contains("out-of-ink"), "{failure}");
    }
    insta::assert_snapshot!(
        Failure::new("", none()),
        @"none of the 2 targets returned a result; first failure: step `s`: t returned an error"
    );
    insta::assert_snapshot!(
        Failure::new("", saga()),
        @"the saga failed; its completed steps were compensated: tool-error"
    );
}
