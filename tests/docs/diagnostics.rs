//! The codes of diagnostics.

use registry_core::Code;

use crate::assert_same;

/// Code, meaning, example, remedy.
const CODES: &[[&str; 4]] = &[
    [
        "name-invalid",
        "invalid characters or length of a name",
        "``` ` ` is not allowed in the name `a b` ```",
        "1 to 128 of `A-Z a-z 0-9 _ . -`; servers and agents may have one `namespace/`, 200 with it",
    ],
    [
        "version-invalid",
        "not an exact semantic version",
        "`` `latest` is not an exact semantic version ``",
        "write `1.4.0`; ranges are not stored",
    ],
    [
        "document-invalid",
        "a missing, unknown or mistyped field; a hidden or default argument that does not fit the input schema; a size, depth or number out of bounds; invalid JSON",
        "``unknown field `bogus` ``",
        "the help line lists the fields; [limits](limits.md)",
    ],
    [
        "already-registered",
        "the same key with other content",
        "`schema/a@1.0.0 occurs twice in this batch with different content`",
        "use a new version; equal content is no error",
    ],
    [
        "not-registered",
        "a lifecycle change of an unregistered entity",
        "`server/s@1.0.0 is not registered`",
        "check kind, name and version; in one batch, register first",
    ],
    [
        "schema-invalid",
        "a JSON Schema that does not compile, exceeds limits, multiplies itself through references, refers outside of the registry, or cannot be combined with its references for a tool",
        "`` `https://…` is outside of the registry ``",
        "refer to registered schemas as `#Name:1.0.0`, or use `$defs`",
    ],
    [
        "schema-unresolved",
        "a `$ref` to an unregistered schema",
        "`` `#Nope:1.0.0` refers to schema/Nope@1.0.0, which is not registered ``",
        "register it first, or in the same batch",
    ],
    [
        "schema-keyword-unknown",
        "a member of a JSON Schema that is likely a typo of a keyword, and has no effect (warning)",
        "`` `requried` is not a keyword of JSON Schema ``",
        "use the keyword in the help line; extensions have the prefix `x-`",
    ],
    [
        "schema-cycle",
        "schemas that refer to each other",
        "`schema/a@1.0.0 depends on itself: …`",
        "combine them in one schema with `$defs`",
    ],
    [
        "provision-unknown",
        "a server provides an unregistered tool",
        "`the server provides tool/get_user@1.0.0, which is not registered`",
        "register the tool first, or in the same batch",
    ],
    [
        "source-unknown",
        "the server of a tool is not registered",
        "`the tool's source server/files@1.0.0 is not registered`",
        "register the server first, or in the same batch",
    ],
    [
        "source-not-provided",
        "the server of a tool provides neither its upstream name nor the tool",
        "``server/files@1.0.0 does not provide `t` ``",
        "the help line lists the provided tools",
    ],
    [
        "tool-name-shared",
        "active tools with one name on several servers (warning)",
        "``server/web and server/docs both have a tool `search` ``",
        "import one server with `--prefix` or `--rename`, or deprecate the replaced version",
    ],
    [
        "implementation-ambiguous",
        "both or neither of `source` and `spec`",
        "`a tool needs exactly one of …, but has neither`",
        "`source` for an upstream tool, `spec` for a composition",
    ],
    [
        "dependency-unknown",
        "an unregistered dependency",
        "`agent/a@1.0.0 depends on tool/fetch@1.2.3, which is not registered`",
        "register it first, or in the same batch",
    ],
    [
        "dependency-skill-unknown",
        "a dependency on an agent without a skill, or with an unknown one",
        "``agent/b@1.0.0 has no skill `nap` ``",
        "the help line lists its skills",
    ],
    [
        "dependency-cycle",
        "a cycle of dependencies",
        "`agent/a@1.0.0 depends on itself: agent/a@1.0.0 → …`",
        "remove one dependency",
    ],
    [
        "dependency-undeclared",
        "a composition uses a tool that is missing in `depends`",
        "`` `c` uses the tool `r`, which is missing in `depends` ``",
        "add it to `depends`",
    ],
    [
        "dependency-ambiguous",
        "two versions of one name that is called by name",
        "``agent/a@1.0.0 depends on tool `read` in the versions 1.0.0 and 2.0.0``",
        "depend on one",
    ],
    [
        "composition-invalid",
        "a `spec` or `outputTransform` that violates the grammar",
        "``the step id `one` is used twice``",
        "see the message",
    ],
    [
        "composition-mismatch",
        "according to the registered schemas, a value in a [composition](../compositions.md#checks-at-registration) never fits (error) or may not fit (warning), or a path of an `outputTransform` is not declared by the output schema of its source (warning)",
        "``input of step \"b\": \"to\" is required but $.mail selects nothing in the result of \"a\"``",
        "bind another value, or change a schema; see the help line",
    ],
    [
        "header-annotation-invalid",
        "an `x-mcp-header` that violates MCP",
        "``only integer, string and boolean properties can be headers, but `type` is \"number\"``",
        "annotate a plain property with a unique name",
    ],
    [
        "annotation-doubtful",
        "a tool whose name says that it destroys or moves something (`delete`, `send`, `transfer`), while `readOnlyHint` is true or `destructiveHint` and `openWorldHint` are false (warning)",
        "``the name `delete_account` has the word `delete`, but `readOnlyHint` is true``",
        "correct the annotation if the tool destroys or moves something",
    ],
    [
        "deprecated-dependency",
        "a dependency on a deprecated (warning) or retired (error) entity",
        "`agent/a@1.0.0 depends on tool/t@1.0.0, which is retired: …`",
        "depend on an active version",
    ],
    [
        "server-json-invalid",
        "a part of `metadata.serverJson` that [MCP clients](../mcp-registry.md) reject, so it is not served (warning)",
        "`` `example.com/mcp` is not a valid URL ``",
        "correct it",
    ],
    [
        "replacement-unknown",
        "a replacement that is not registered, is retired, or is the entity itself",
        "`the replacement tool/u@1.0.0 is not registered`",
        "register it first, or in the same batch",
    ],
    [
        "still-needed",
        "an active entity depends on one that would be retired, one finding each, with the path; or files of `apply --prune` need an entity that was removed from them",
        "`agent/a@1.0.0 is active and depends on it: …`",
        "move it to a replacement, retire it too, or use `--force REASON`; the log records the reason. Keep a removed entity in the files, deprecated, or remove its dependents too",
    ],
    [
        "name-archived",
        "a new version of an archived name",
        "`tool/t is archived and accepts no new versions`",
        "use another name, or `registryctl unarchive tool/t`",
    ],
    [
        "setting-invalid",
        "a setting that does not apply: an archived namespace, an owner of everything",
        "``setting of acme/*: `acme/*` does not select a single name``",
        "see the help line",
    ],
    [
        "breaking-change",
        "a version rejects values that an earlier version of its release line accepts (error), or a registered newer version rejects values that this one accepts (warning)",
        "`` `maxLength` rejects a value that 1.0.0 accepts: \"aaa\" ``",
        "use the version number in the help line; see [compatibility](../compatibility.md)",
    ],
    [
        "compatibility-undecided",
        "the check could decide neither compatible nor breaking (warning)",
        "`` compatibility with 1.0.0 could not be decided: … ``",
        "check manually",
    ],
    [
        "not-owner",
        "a name, or its setting, belongs to another team, to no team, or is not registered",
        "``tool/fetch belongs to `docs`, but you write for `search` ``",
        "ask its owner, or an [admin](../access.md#own-names) to transfer it",
    ],
    [
        "outside-scope",
        "the caller's token may not write this name",
        "`tool/fetch is outside of your scopes: docs/*`",
        "use a token with a matching scope",
    ],
    [
        "policy-invalid",
        "conditions of a policy that do not parse, or do not fit the arguments of a selected tool",
        "`Cedar line 1, column 58: attribute `amuont` not found (calls of tool/pay@1.0.0)`",
        "correct the condition at this place; optional arguments need `has`",
    ],
    [
        "policy-incompatible",
        "a version of a tool or agent that a policy does not fit; a warning if the break is allowed",
        "`policy/limit@1.0.0 does not match the arguments of this version: Cedar line 1, column 58: attribute `amount` not found`",
        "keep the arguments, or register a fitting policy in the same batch",
    ],
    [
        "role-required",
        "a change that requires another role: publisher, or governor for policies about names of other teams",
        "`` the policy selects `pay_*`, which is not confined to names of `docs`; the role governor is required ``",
        "select names or namespaces of the own team, or ask an admin or a governor: of the team that owns the policy, or of any team for a new policy",
    ],
    [
        "policy-version-regresses",
        "a version of a policy below the highest one, which would never be in force",
        "`version 1.0.5 of policy/limit is below 1.1.0, so it would never be in force`",
        "use a higher version; `registryctl policy rollback` registers an earlier content again",
    ],
    [
        "policy-selector-unmatched",
        "a selector of a policy, or a name in its Cedar text, that matches nothing (warning)",
        "``the selector `chrage` matches nothing that is registered``",
        "correct the name, or register the entity",
    ],
    [
        "policy-denies-all",
        "a policy that denies by default and has no `permit`, or a rate whose `burst` is 0 (warning)",
        "`` the policy denies every call that it selects, because it has no `permit` ``",
        "add a `permit`, or remove `default`",
    ],
    [
        "policy-empty",
        "a policy whose Cedar text has no statement (warning)",
        "`the Cedar text has no statement`",
        "add a statement, or remove `authorization`",
    ],
    [
        "policy-argument-undeclared",
        "an argument in the conditions or the inspection of a policy that no selected tool declares (warning)",
        "`` Cedar line 1: no selected tool declares the argument `amont` ``",
        "correct the name of the argument",
    ],
    [
        "policy-unsatisfiable",
        "a statement in the conditions of a policy that no selected call can satisfy, because of its names, actions or types (warning)",
        "`` Cedar line 1: no selected call can satisfy this `forbid` ``",
        "correct the statement: `has` of an unknown attribute is false, and `appliesTo` must select resources that have its actions",
    ],
    [
        "policy-relaxed",
        "a version of a policy in audit mode, or with a weaker inspection, replaces one that rejects more (warning)",
        "`version 1.1.0 only records the violations that 1.0.0 rejects`",
        "use `mode: enforce` to reject them",
    ],
    [
        "policy-tightened",
        "a version of a policy that rejects calls replaces one in audit mode (warning)",
        "`version 1.1.0 rejects the violations that 1.0.0 only records`",
        "find out which calls it denies: `registryctl policy simulate`",
    ],
    [
        "budget-redefined",
        "a budget whose `per`, `window`, `timeZone` or `anchor` differs from another version of its policy",
        "``the budget `team-month` has window \"week\", but \"month\" in version 1.0.0``",
        "keep the member, or choose a new name, which starts at zero",
    ],
    [
        "budget-alert-above-limit",
        "a threshold for alerts above the limit of its budget (warning)",
        "``the threshold 1.2 of the budget `team-month` is above its limit``",
        "write fractions of the limit, at most 1",
    ],
    [
        "budget-unpriced",
        "a tool or skill under a budget that no policy prices for all callers of the budget (warning)",
        "``the budget `team-month` selects 3 tools or skills without a price, such as tool/pay@1.0.0``",
        "register a policy with a `price` for them",
    ],
    [
        "price-overlap",
        "a tool or skill with the prices of several policies (warning)",
        "`policy/fees@1.0.0 prices the same tools or skills, such as tool/pay@1.0.0`",
        "select other tools in one of the policies; the highest price applies",
    ],
    [
        "inspection-ineffective",
        "an action, an exception or a restored tool in the `inspection` of a policy that has no effect (warning)",
        "``the action `log` on contact data has no effect: policy/privacy@1.0.0 has a stricter one``",
        "remove it, or change the other policy",
    ],
    [
        "schema-unused",
        "a schema without references (warning). A batch has at most 100 of them, and the first counts the other schemas",
        "`schema/a@1.0.0 is not referenced`",
        "use it, or remove it",
    ],
    [
        "findings-truncated",
        "findings that are omitted from a response (warning)",
        "`12 of 400 findings do not fit into the response`",
        "correct the others first, or apply smaller batches",
    ],
];

#[test]
fn reference_of_diagnostics_is_current() {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    let documented: Vec<_> = CODES.iter().map(|[code, ..]| *code).collect();
    assert_same("codes of diagnostics", &documented, &codes);
    let rows: Vec<_> = CODES
        .iter()
        .map(|[code, meaning, example, remedy]| {
            [
                format!("`{code}`"),
                (*meaning).to_owned(),
                (*example).to_owned(),
                (*remedy).to_owned(),
            ]
        })
        .collect();
    let body = format!(
        "Findings of validation: at registration, by `registryctl validate`, and in a gateway that \
         loads a file or its cache. One error rejects the batch; warnings do not. Codes are stable, \
         messages are not.\n\n{}",
        reference_pages::table(["code", "meaning", "example", "remedy"], &rows),
    );
    reference_pages::check("diagnostics.md", "Diagnostics", &body);
}
