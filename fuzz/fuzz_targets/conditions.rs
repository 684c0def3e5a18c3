//! Conditions of policies: parsing and type checking never panic, and every problem has a place in
//! the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::{
    ResourceKind,
    arguments::ArgumentType,
    cedar::{CedarProblem, Conditions},
};
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let schema = json!({
        "type": "object",
        "properties": { "amount": { "type": "number" }, "count": { "type": "integer" },
            "labels": { "type": "array", "items": { "type": "string" } } },
        "required": ["amount"],
    });
    let arguments = ArgumentType::of_schema(Some(&schema), &|_| None);
    let problems = match Conditions::parse(text) {
        Ok(conditions) => conditions.check(ResourceKind::Tool, &arguments),
        Err(problems) => problems,
    };
    let lines = text.split('\n').count();
    for CedarProblem { line, column, message, .. } in problems {
        assert!((1..=lines).contains(&line) && column >= 1, "{line}:{column}: {message}");
    }
});
