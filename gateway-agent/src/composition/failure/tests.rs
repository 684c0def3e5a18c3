//! What is told of a saga.

use super::*;

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
