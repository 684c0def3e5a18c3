//! Validation overrides of single tools and their precedence.

use gateway_policy::{ValidationMode, ValidationModes};

use super::parse;

const GLOBAL: &str = "inputValidation: deny, outputValidation: ignore, contractDrift: quarantine";

fn with(tools: &str) -> String {
    format!(
        "registry:\n  source: grpc://a:1\n  validation:\n    runtime: {{ {GLOBAL}, tools: {tools} }}\n"
    )
}

#[test]
fn exact_entry_precedes_others_per_field() {
    let tools = "[{ tool: a, inputValidation: ignore, outputValidation: deny }, \
                 { tool: a@2.0.0, inputValidation: warn }, { tool: b@1.0.0, contractDrift: ignore }, \
                 { tool: agent/x/c, outputValidation: warn }]";
    let rules = parse(&with(tools)).unwrap().registry.check_rules();
    let of = |key: &str| rules.for_tool(&key.parse().unwrap());
    let all = ValidationModes {
        input: ValidationMode::Error,
        output: ValidationMode::Ignore,
        contract: ValidationMode::Error,
    };
    for (tool, checks) in [
        (
            "tool/a@1.0.0",
            ValidationModes { input: ValidationMode::Ignore, output: ValidationMode::Error, ..all },
        ),
        (
            "tool/a@2.0.0",
            ValidationModes { input: ValidationMode::Warn, output: ValidationMode::Error, ..all },
        ),
        ("tool/b@1.0.0", ValidationModes { contract: ValidationMode::Ignore, ..all }),
        ("tool/b@1.0.1", all),
        ("tool/c@2.0.0", all),
        ("server/a@2.0.0", all),
        ("agent/x/c@1.0.0", ValidationModes { output: ValidationMode::Warn, ..all }),
        ("agent/x/d@1.0.0", all),
        ("agent/a@1.0.0", all),
    ] {
        assert_eq!(of(tool), checks, "{tool}");
    }
}

#[test]
fn invalid_entry_is_reported_at_its_line() {
    let at = "line 4: registry.validation.runtime.tools";
    for (tools, problem) in [
        ("[{ inputValidation: warn }]", "[0].tool: missing; set it to a tool"),
        ("[{ tool: a@1 }]", "[0].tool: "),
        ("[{ tool: 'a b' }]", "[0].tool: "),
        ("[{ tool: a, inputValidation: error }]", "[0].inputValidation: `error` is not one of"),
        ("[{ tool: a, contractDrift: deny }]", "not one of quarantine, warn, ignore"),
        ("[{ tool: a, unknownCaller: deny }]", "[0].unknownCaller: unknown field"),
        ("[{ tool: a }, { tool: a }]", "[1]: a already has an entry"),
        ("{ tool: a }", ": expected a list"),
    ] {
        let problems = parse(&with(tools)).unwrap_err();
        assert!(problems[0].starts_with(at) && problems[0].contains(problem), "{problems:?}");
    }
}
