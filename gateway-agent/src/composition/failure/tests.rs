//! What is told of a saga.

use super::*;

#[test]
fn a_failure_is_told_with_its_step() {
    let failure = |step| Failure::new(step, Cause::Duplicate).to_string();
    assert!(failure("a/b").starts_with("step `a/b`: the same was done before"));
    assert!(failure("").starts_with("the same was done before"));
}

#[test]
fn a_saga_of_which_nobody_knows_what_it_did_is_not_said_to_be_undone() {
    let doubtful = End {
        status: Status::CompensationFailed,
        failed_step: None,
        error: Some(json!({ "message": "lines are damaged" })),
        steps: Vec::new(),
        output: None,
    };
    let told = |end: &End| Cause::Saga(Arc::new(end.clone())).to_string();
    assert_eq!(told(&doubtful), "the saga is left to the gateway's operator: lines are damaged");
    let undone = End { status: Status::Compensated, ..doubtful };
    assert_eq!(
        told(&undone),
        "the saga failed, and what it had done was undone: lines are damaged"
    );
}
