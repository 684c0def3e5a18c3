//! Conditions against values of all types.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::{
    complexity::{BRACKETS, OPERATORS},
    *,
};
use crate::{Action, CallContext, Caller, Purpose, Resource};

fn arguments() -> ArgumentType {
    let schema = json!({
        "type": "object",
        "properties": {
            "amount": { "type": "number" }, "count": { "type": "integer" },
            "currency": { "type": "string" }, "labels": { "type": "array", "items": { "type": "string" } },
            "card": { "type": "object", "properties": { "number": { "type": "string" } },
                "required": ["number"] },
            "note": { "type": ["string", "null"] },
        },
        "required": ["amount", "card"],
    });
    ArgumentType::of_schema(Some(&schema), &|_| None)
}

fn problems(text: &str) -> Vec<String> {
    match Conditions::parse(text) {
        Ok(conditions) => conditions.check(ResourceKind::Tool, &arguments()),
        Err(problems) => problems,
    }
    .iter()
    .map(|problem| format!("{problem} | {}", problem.help.as_deref().unwrap_or_default()))
    .collect()
}

fn forbid(condition: &str) -> String {
    format!("forbid (principal, action == Action::\"call\", resource) when {{ {condition} }};")
}

fn resource() -> Resource {
    Resource {
        kind: ResourceKind::Tool,
        name: "pay".to_owned(),
        version: "1.0.0".to_owned(),
        tools: vec!["charge".to_owned(), "pay".to_owned()],
        skills: Vec::new(),
        servers: vec!["acme/bank".to_owned()],
        tags: vec!["money".to_owned()],
        is_destructive: true,
        is_read_only: false,
        is_open_world: false,
    }
}

fn statement_set(conditions: &Conditions) -> StatementSet {
    StatementSet::new(conditions.statements().iter().map(|statement| (0, statement))).unwrap()
}

fn evaluate(condition: &str, values: Value) -> Result<bool, String> {
    let conditions = Conditions::parse(&forbid(condition)).unwrap();
    let set = statement_set(&conditions);
    let entities = CallEntities::new(&Caller::Unregistered, &resource());
    let context = CallContext {
        issuer: "https://issuer.example",
        subject: "ada",
        method: "token",
        scopes: &["pay".to_owned()].into(),
        purpose: Purpose::Step,
        hops: 2,
        time: SystemTime::UNIX_EPOCH,
    };
    let Value::Object(values) = values else { panic!("arguments are objects") };
    let types = arguments();
    let arguments = Some((&types, &values));
    let evaluation =
        set.evaluate(&entities, Request { action: Action::Call, context: &context, arguments })?;
    match evaluation.errors.into_values().next() {
        Some(error) => Err(error),
        None => Ok(evaluation.forbids.contains(&0)),
    }
}

#[test]
fn conditions_read_arguments_context_and_entities() {
    let values =
        json!({ "amount": 1000.5, "count": 3, "labels": ["a"], "card": { "number": "4" } });
    for (condition, expected) in [
        ("context.arguments.amount.greaterThan(decimal(\"1000.0\"))", true),
        ("context.arguments.amount.greaterThan(decimal(\"1000.5\"))", false),
        ("context.arguments has count && context.arguments.count == 3", true),
        ("context.arguments has labels && context.arguments.labels.contains(\"a\")", true),
        ("context.arguments.card.number like \"4*\"", true),
        ("context.arguments has currency", false),
        ("context.caller.scopes.contains(\"pay\") && context.caller.subject == \"ada\"", true),
        ("context.purpose == \"step\" && context.hops > 1", true),
        ("context.time < datetime(\"1970-01-02\")", true),
        ("principal.known", false),
        ("resource in Tool::\"charge\" && resource in Server::\"acme/bank\"", true),
        ("resource in Namespace::\"acme\" && resource in Tag::\"money\"", true),
        ("resource.destructive && !resource.readOnly", true),
    ] {
        assert_eq!(problems(&forbid(condition)), Vec::<String>::new(), "{condition}");
        assert_eq!(evaluate(condition, values.clone()), Ok(expected), "{condition}");
    }
}

#[test]
fn mismatched_values_are_evaluation_errors() {
    let card = json!({ "number": "4" });
    for (condition, values) in [
        ("context.arguments.amount == decimal(\"1.0\")", json!({ "amount": "1", "card": card })),
        (
            "context.arguments.amount == decimal(\"1.0\")",
            json!({ "amount": 0.00001, "card": card }),
        ),
        ("context.arguments.amount == decimal(\"1.0\")", json!({ "amount": 1e21, "card": card })),
        ("context.arguments.amount == decimal(\"1.0\")", json!({ "card": card })),
        ("context.arguments.count == 1", json!({ "amount": 1, "card": card, "count": 1.5 })),
        ("context.arguments.count == 1", json!({ "amount": 1, "card": card, "count": u64::MAX })),
        ("context.arguments.card.number == \"4\"", json!({ "amount": 1, "card": { "number": 4 } })),
        ("context.arguments.count * 9223372036854775807 > 1", json!({ "count": 3 })),
    ] {
        assert!(evaluate(condition, values.clone()).is_err(), "{condition} {values}");
    }
}

#[test]
fn numbers_are_exact_or_mismatches() {
    let amount = "context.arguments.amount";
    let count = "context.arguments has count && context.arguments.count";
    for (argument, text, condition, expected) in [
        ("count", "9223372036854775807", format!("{count} == 9223372036854775807"), Some(true)),
        ("count", "-9223372036854775808", format!("{count} < -9223372036854775807"), Some(true)),
        ("count", "9007199254740993", format!("{count} == 9007199254740993"), Some(true)),
        ("count", "9223372036854775808", format!("{count} == 1"), None),
        ("count", "-9223372036854775809", format!("{count} == 1"), None),
        ("count", "1e15", format!("{count} == 1"), None),
        ("count", "12.0", format!("{count} == 12"), Some(true)),
        (
            "amount",
            "12345678901.2345",
            format!("{amount} == decimal(\"12345678901.2345\")"),
            Some(true),
        ),
        (
            "amount",
            "123456789012345",
            format!("{amount} == decimal(\"123456789012345.0\")"),
            Some(true),
        ),
        ("amount", "123456789012.3456", format!("{amount} == decimal(\"1.0\")"), None),
        ("amount", "123456789012345.6789", format!("{amount} == decimal(\"1.0\")"), None),
        ("amount", "1234567890123456", format!("{amount} == decimal(\"1.0\")"), None),
    ] {
        let values = serde_json::from_str(&format!("{{\"{argument}\": {text}}}")).unwrap();
        assert_eq!(evaluate(&condition, values).ok(), expected, "{condition}: {text}");
    }
}

#[test]
fn only_read_arguments_are_converted() {
    let values = json!({ "amount": 1, "card": 7, "count": "many" });
    let condition = "context.arguments.amount == decimal(\"1.0\")";
    assert_eq!(evaluate(condition, values), Ok(true));
}

/// Cedar would evaluate `has` to false, although the upstream receives the argument.
#[test]
fn argument_without_readable_type_is_an_error() {
    let guarded = "context.arguments has note && context.arguments.note == \"x\"";
    assert_eq!(problems(&forbid(guarded)).len(), 1);
    let values = |more: Value| {
        let mut values = json!({ "amount": 1, "card": { "number": "4" } });
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values
    };
    for (condition, more) in [
        (guarded, json!({ "note": "x" })),
        ("context.arguments has ammount", json!({ "ammount": 1 })),
        (
            "context.arguments.card == {number: \"4\"}",
            json!({ "card": { "number": "4", "pin": "1" } }),
        ),
    ] {
        assert!(evaluate(condition, values(json!({}))).is_ok(), "{condition}");
        assert!(evaluate(condition, values(more)).is_err(), "{condition}");
    }
}

#[test]
fn unknown_purposes_are_rejected() {
    for condition in [
        "context.purpose == \"poll\"",
        "\"setp\" == context.purpose",
        "principal.known && !(context[\"purpose\"] != \"poll\")",
        "[\"call\", \"poll\"].contains(context.purpose)",
    ] {
        let problems = Conditions::parse(&forbid(condition)).unwrap_err();
        let help = problems[0].help.as_deref().unwrap_or_default();
        assert!(help.contains("compensation"), "{condition}: {problems:?}");
    }
    for condition in
        ["context.purpose == \"step\"", "[\"call\", \"compensation\"].contains(context.purpose)"]
    {
        assert!(Conditions::parse(&forbid(condition)).is_ok(), "{condition}");
    }
}

#[test]
fn type_errors_have_place_and_remedy() {
    for (text, place, help) in [
        (
            forbid("context.arguments.amuont == decimal(\"1.0\")"),
            "Cedar line 1, column 63",
            "amount",
        ),
        (forbid("context.arguments.count == 1"), "Cedar line 1, column 63", "has"),
        (
            forbid("context.arguments.note == \"x\""),
            "Cedar line 1, column 63",
            "union (/inputSchema/properties/note)",
        ),
        ("forbid (principal, action, resource == Tol::\"x\");".to_owned(), "Cedar line 1", "Tool"),
        (
            "forbid (principal, action == Action::\"cal\", resource);".to_owned(),
            "Cedar line 1",
            "call",
        ),
        ("forbid (principal, action,\n resource) when { 1 + };".to_owned(), "Cedar line 2", ""),
    ] {
        let problems = problems(&text);
        assert!(
            problems
                .first()
                .is_some_and(|problem| problem.starts_with(place) && problem.contains(help)),
            "{text}: {problems:?}"
        );
    }
}

#[test]
fn other_problems_do_not_depend_on_arguments() {
    for (condition, expected) in [
        ("context.arguments.amuont == decimal(\"1.0\")", true),
        ("context.arguments.count == 1", true),
        ("context.arguments.note == \"x\"", true),
        ("context.arguments.amount > 10", true),
        ("principal.zzz == 1", false),
        ("context.arguments.amount == decimal(\"1.0\") && principal.zzz == 1", false),
        ("principal.name > 1", false),
        ("principal in Taem::\"x\"", false),
    ] {
        let conditions = Conditions::parse(&forbid(condition)).unwrap();
        let found = conditions.check(ResourceKind::Tool, &arguments());
        let mut of_arguments = found.iter().map(|problem| problem.is_of_arguments);
        assert!(
            !found.is_empty() && of_arguments.all(|of| of == expected),
            "{condition}: {found:?}"
        );
    }
}

#[test]
fn missing_input_schema_has_a_remedy() {
    let nothing = ArgumentType::of_schema(None, &|_| None);
    for condition in ["context.arguments.url == \"x\"", "context has arguments.url"] {
        let problems =
            Conditions::parse(&forbid(condition)).unwrap().check(ResourceKind::Tool, &nothing);
        let [problem] = &problems[..] else { panic!("{condition}: {problems:?}") };
        let text = format!("{problem} {}", problem.help.as_deref().unwrap_or_default());
        assert!(text.contains("`inputSchema`") && !text.contains("()"), "{text}");
    }
}

#[test]
fn statement_for_all_actions_cannot_read_arguments() {
    let text = "forbid (principal, action, resource) when { context.arguments.amount == decimal(\"1.0\") };";
    let problems = problems(text);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("action == Action::\"call\""), "{problems:?}");
}

#[test]
fn comparison_of_number_with_integer_has_remedy() {
    for condition in [
        "context.arguments.amount > 10",
        "context.arguments.amount <= 10",
        "context.arguments.amount == 10",
        "context.arguments.amount.lessThan(10)",
    ] {
        let problems = problems(&forbid(condition));
        let [problem] = &problems[..] else { panic!("{condition}: {problems:?}") };
        assert!(problem.contains(".greaterThan(decimal(\"10.0\"))"), "{condition}: {problem}");
    }
}

#[test]
fn statements_that_no_call_satisfies_are_found() {
    let found = |text: &str| {
        let conditions = Conditions::parse(text).unwrap();
        let TypeCheck { problems, unsatisfiable } =
            conditions.check_types(&CallTypes::new(0, ResourceKind::Tool, arguments()));
        assert!(problems.is_empty(), "{text}: {problems:?}");
        unsatisfiable.into_iter().collect::<Vec<_>>()
    };
    for condition in [
        "context has argumnts && context.argumnts.count == 1",
        "context.caller has isuer && context.caller.isuer == \"x\"",
        "principal has teem",
        "resource has tagz && resource.tagz.contains(\"x\")",
        "context.arguments has ammount",
        "context.arguments has count && !(context.arguments has count)",
        "resource is Skill",
    ] {
        assert_eq!(found(&forbid(condition)), [0], "{condition}");
    }
    let possible = "forbid (principal, action, resource) unless { action == Action::\"cancel\" };";
    let send = "forbid (principal, action == Action::\"send\", resource);";
    assert_eq!(found(&format!("{possible}\n{send}")), [1]);
    assert_eq!(found(&forbid("context.arguments has count && principal.known")), [0; 0]);
}

#[test]
fn complex_texts_are_rejected_without_recursion() {
    let chain = |operand: &str, operator: &str| vec![operand; 20_000].join(operator);
    for condition in [
        format!("{}true{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{}true", "!".repeat(20_000)),
        chain("true", "&&"),
        chain("1", " + ") + " == 1",
        format!("context{}", ".a".repeat(20_000)),
        chain("if true then true else", " ") + " true",
        chain("true", " in "),
        format!("context{}", "[\"a\"]".repeat(20_000)),
        format!("context{}", "(1)".repeat(20_000)),
        format!("{}1{} == 1", "[".repeat(20_000), "]".repeat(20_000)),
    ] {
        assert!(Conditions::parse(&forbid(&condition)).is_err());
    }
    let clauses = "when { true } ".repeat(20_000);
    assert!(
        Conditions::parse(&format!("forbid (principal, action, resource) {clauses};")).is_err()
    );
}

#[test]
fn complex_texts_after_comments_and_strings_are_rejected() {
    let nested = forbid(&format!("{}true{}", "(".repeat(20_000), ")".repeat(20_000)));
    for before in
        ["//\r", "// a\r\n", "//\n", "///\r", "@id(\"//\") ", "@id(\"\\\\\") ", "@id(\"\\\"\") "]
    {
        assert!(Conditions::parse(&format!("{before}{nested}")).is_err(), "{before:?}");
    }
}

#[test]
fn skill_is_in_namespace_of_its_agent() {
    let conditions = Conditions::parse(&forbid("resource in Namespace::\"acme\"")).unwrap();
    let set = statement_set(&conditions);
    for (agent, expected) in [("acme/clerk", true), ("other/clerk", false), ("acme", false)] {
        let skill = format!("{agent}/pay");
        let kind = ResourceKind::Skill;
        let resource = Resource {
            kind,
            name: skill.clone(),
            tools: Vec::new(),
            skills: vec![skill],
            servers: Vec::new(),
            ..resource()
        };
        let entities = CallEntities::new(&Caller::Unregistered, &resource);
        let evaluation = set.evaluate_static(&entities, Action::Call).unwrap();
        assert_eq!(evaluation.forbids.contains(&0), expected, "{agent}");
    }
}

#[test]
fn long_flat_texts_are_accepted() {
    let members = |count: usize| vec!["\"a\""; count].join(", ");
    let clause = "context.arguments.card.number == \"4\"";
    for text in [
        forbid(&format!("[{}].contains(context.arguments.card.number)", members(2_000))),
        forbid(&vec![clause; 32].join(" || ")),
        vec![forbid(clause); 200].join("\n"),
    ] {
        assert!(Conditions::parse(&text).is_ok(), "{}", &text[..100]);
    }
}

#[test]
fn text_at_the_limits_fits_the_stack() {
    let wrong = "context.arguments.amount == 1";
    let nested = |open: &str, times: usize, close: &str| {
        format!("{}{wrong}{}", open.repeat(times), close.repeat(times))
    };
    // `&&` and `||` nest one operator each, the condition in them five.
    let chain = OPERATORS - 8;
    let texts = [
        forbid(&(wrong.to_owned() + &" && true".repeat(chain))),
        forbid(&(wrong.to_owned() + &" || false".repeat(chain))),
        forbid(&format!("context.arguments.amount{} == 1", " + 1".repeat(chain))),
        forbid(&format!(
            "if {wrong} then true else {}true",
            "if true then true else ".repeat(chain - 1)
        )),
        forbid(&nested("(", BRACKETS - 1, ")")),
        forbid(&nested("true && true && (", (BRACKETS - 1) / 2, ")")),
        forbid(&nested("if true then (", BRACKETS - 2, ") else false")),
        forbid(&format!("context{}", "[\"arguments\"]".repeat(chain))),
    ];
    let run = move || {
        for text in texts {
            let conditions = Conditions::parse(&text).unwrap();
            let problems = conditions.check(ResourceKind::Tool, &arguments());
            // The type checker ignores what does not fit the stack.
            assert!(!problems.is_empty(), "{text}");
            evaluate_static(&conditions);
        }
        Conditions::parse(&vec!["forbid (principal, action, resource);"; 1_000].join("\n"))
            .unwrap();
    };
    // Threads of the gateway have 2 MiB. The callers need a part of it.
    std::thread::Builder::new().stack_size(1_536 << 10).spawn(run).unwrap().join().unwrap();
}

fn evaluate_static(conditions: &Conditions) {
    let entities = CallEntities::new(&Caller::Unregistered, &resource());
    let set = statement_set(conditions);
    let evaluation = set.evaluate_static(&entities, Action::Call).unwrap();
    assert!(evaluation.errors.len() <= 1);
}

#[test]
fn statements_know_their_lines() {
    let text = "// a comment; with a semicolon\n\nforbid (principal, action, resource)\n  when { \
                resource.name == \"a;\\\"b\" };\n@id(\"x\") permit (principal, action, resource); \
                forbid (principal, action, resource);\n\n// end\npermit (principal, action, resource);";
    let conditions = Conditions::parse(text).unwrap();
    let statements: Vec<_> = conditions
        .statements()
        .iter()
        .map(|statement| (statement.line(), statement.is_permit()))
        .collect();
    assert_eq!(statements, [(3, false), (5, true), (5, false), (8, true)]);
}

#[test]
fn statements_name_entities_in_scopes_and_conditions() {
    let text = "forbid (principal == Agent::\"a\", action, resource in Server::\"s\");\n\
                permit (principal == Agent::\"(unknown)\", action, resource)\n\
                unless { resource in Tool::\"t\" };";
    let named = Conditions::parse(text).unwrap().named_entities();
    let named: Vec<_> = named
        .iter()
        .map(|named| format!("{} {} {}", named.line, named.entity_type, named.id))
        .collect();
    assert_eq!(named, ["1 Agent a", "1 Server s", "2 Tool t"]);
}

#[test]
fn rejected_policy_set_is_a_problem() {
    let text = "forbid (principal, action, resource);";
    let Conditions { text, statements } = Conditions::parse(text).unwrap();
    let repeated = Conditions { text, statements: [&statements[..], &statements[..]].concat() };
    assert_eq!(repeated.check(ResourceKind::Tool, &arguments()).len(), 1);
}

#[test]
fn templates_are_rejected() {
    assert_eq!(problems("permit (principal == ?principal, action, resource);").len(), 1);
}
