//! Views of changing catalogs: their content, and reuse of unchanged parts.

use gateway_protocol::mcp::Era;
use gateway_upstream::{Addresses, Lists, Tools, TransportConfig};
use proptest::prelude::*;
use registry_core::Version;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, Registered, agent, catalog, composed, definitions, schema, tool};

struct World {
    views: Views,
    publish: watch::Sender<Arc<Catalog>>,
    targets: watch::Sender<Arc<Definitions>>,
}

fn world(first: Arc<Catalog>) -> World {
    let (publish, catalog) = watch::channel(first);
    let (targets, definitions) = watch::channel(definitions(&["server/up@*"]));
    World { views: Views::new(catalog, definitions, Arc::default()), publish, targets }
}

impl World {
    fn see(&self, audience: &Audience) -> Arc<View> {
        self.views.view(&self.views.now(), audience)
    }

    fn then(&self, catalog: Arc<Catalog>) {
        self.publish.send_replace(catalog);
    }
}

fn agent_audience(name: &str) -> Audience {
    Audience::Agent(Key::parse(Kind::Agent, name, "1.0.0").unwrap())
}

fn listed(view: &View) -> Vec<Value> {
    serde_json::from_slice(&view.list(None, Era::Modern).tools).unwrap()
}

/// `name@version` of all tools on the first page.
fn names(view: &View) -> Vec<String> {
    let name = |tool: &Value| {
        let (name, version) = (&tool["name"], &tool["_meta"]["registry/version"]);
        format!("{}@{}", name.as_str().unwrap(), version.as_str().unwrap())
    };
    listed(view).iter().map(name).collect()
}

#[test]
fn each_audience_sees_its_tools() {
    let world = world(catalog(
        1,
        vec![
            tool("b", "1.0.0", json!({})),
            tool("b", "2.0.0", json!({})),
            tool("b", "3.0.0-rc.1", json!({})),
            tool("a", "1.0.0", json!({})),
            tool("a", "1.1.0", json!({})).deprecated(),
            tool("c", "1.0.0", json!({})).retired(),
            tool("d", "1.0.0", json!({})).deprecated(),
            tool("e", "1.0.0", json!({ "outputTransform": { "mappings": {} } })),
            composed("f"),
            agent("x", "1.0.0", &[("b", "1.0.0"), ("a", "1.1.0"), ("c", "1.0.0"), ("f", "1.0.0")]),
            agent("y", "1.0.0", &[]),
        ],
    ));
    assert_eq!(names(&world.see(&agent_audience("x"))), ["a@1.1.0", "b@1.0.0"]);
    assert_eq!(names(&world.see(&agent_audience("y"))), [""; 0]);
    assert_eq!(names(&world.see(&agent_audience("nobody"))), [""; 0]);
    assert_eq!(names(&world.see(&Audience::Everyone)), ["a@1.0.0", "b@2.0.0", "d@1.0.0"]);
    assert_eq!(names(&world.see(&Audience::Nobody)), [""; 0]);
}

#[test]
fn tool_of_retired_server_is_not_served() {
    let entities = |change: fn(Registered) -> Registered| {
        let mut around = composed("around");
        around.document["depends"] = json!([{ "type": "tool", "name": "a", "version": "1.0.0" }]);
        around.document["spec"]["pipeline"]["steps"][0]["operation"] =
            json!({ "tool": { "name": "a" } });
        let agent = agent("x", "1.0.0", &[("a", "1.0.0"), ("around", "1.0.0")]);
        let server = change(testing::server("up", &["a"], &[]));
        vec![server, tool("a", "1.0.0", json!({})), around, agent]
    };
    let world = world(catalog(1, entities(|server| server)));
    let seen =
        || [Audience::Everyone, agent_audience("x")].map(|audience| names(&world.see(&audience)));
    let both = ["a@1.0.0", "around@1.0.0"];
    assert_eq!(seen(), [both, both]);
    world.then(catalog(2, entities(Registered::retired)));
    assert_eq!(seen(), [[""; 0], [""; 0]]);
    let undoing = Key::parse(Kind::Tool, "a", "1.0.0").unwrap();
    assert!(world.views.registered(&world.views.now(), &undoing).is_some(), "to compensate");
    world.then(catalog(3, entities(|server| server)));
    assert_eq!(seen(), [both, both], "the server is restored");
}

/// A tool of this version of `server/up`.
fn of_server(name: &str, version: &str) -> Registered {
    tool(name, version, json!({ "source": { "serverVersion": version } }))
}

#[test]
fn unregistered_callers_see_newest_version_with_target() {
    let world = world(catalog(
        1,
        vec![
            of_server("a", "1.0.0"),
            of_server("a", "2.0.0"),
            tool("a", "3.0.0", json!({ "source": { "server": "other" } })),
            tool("b", "1.0.0", json!({ "source": { "server": "other" } })),
            agent("x", "1.0.0", &[("a", "3.0.0"), ("b", "1.0.0")]),
            agent("y", "1.0.0", &[("a", "2.0.0")]),
        ],
    ));
    let with = |targets: &[&str]| world.targets.send_replace(definitions(targets));
    let everyone = || names(&world.see(&Audience::Everyone));
    with(&["server/up@1.0.0", "server/up@2.0.0"]);
    assert_eq!(everyone(), ["a@2.0.0"], "server/other has no target");
    with(&["server/up@1.0.0"]);
    assert_eq!(everyone(), ["a@1.0.0"], "the target was not listed yet");
    world.targets.send_replace(listing(&["server/up@1.0.0"], json!([{ "name": "a" }])));
    assert_eq!(everyone(), ["a@2.0.0"], "it uses the target of the lower version");
    with(&["server/up@2.0.0", "server/other@*"]);
    assert_eq!(everyone(), ["a@3.0.0", "b@1.0.0"]);
    assert_eq!(names(&world.see(&agent_audience("x"))), ["a@3.0.0", "b@1.0.0"]);
    with(&[]);
    assert_eq!(everyone(), [""; 0]);
    for agent in ["x", "y"] {
        let view = world.see(&agent_audience(agent));
        assert_eq!(names(&view), [""; 0], "no list has tools without a target");
        let declared = view.find(&Name::parse(Kind::Tool, "a").unwrap()).unwrap();
        assert!(declared.missing_target().is_some(), "a call names the missing target");
    }
}

/// Targets with their tools.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn listing(targets: &[&str], tools: Value) -> Arc<Definitions> {
    let mut definitions = Arc::unwrap_or_clone(definitions(targets));
    let page = serde_json::value::to_raw_value(&json!({ "tools": tools })).unwrap();
    let transport = Arc::new(TransportConfig::Http {
        url: "http://127.0.0.1:1/mcp".to_owned(),
        headers: std::collections::BTreeMap::new(),
        auth: None,
        tls: None,
        addresses: Addresses::default(),
        is_grpc: false,
    });
    for target in targets {
        let mut tools = Tools::default();
        tools.add_page(&page).unwrap();
        let (features, transport) = (Arc::default(), Arc::clone(&transport));
        let lists = Lists { tools: Arc::new(tools), features, transport };
        definitions.replace(&target.parse().unwrap(), lists);
    }
    Arc::new(definitions)
}

#[test]
fn tools_of_unavailable_target_are_marked_in_lists() {
    let mut composition = composed("both");
    composition.document["spec"]["pipeline"]["steps"][0]["operation"]["tool"]["name"] = "a".into();
    composition.document["depends"] = json!([{ "type": "tool", "name": "a", "version": "1.0.0" }]);
    let world = world(catalog(1, vec![tool("a", "1.0.0", json!({})), composition]));
    let marks = || {
        let tools = listed(&world.see(&Audience::Everyone));
        tools.iter().map(|tool| tool["_meta"]["registry/availability"].clone()).collect::<Vec<_>>()
    };
    let before = world.see(&Audience::Everyone).fingerprint();
    assert_eq!(marks(), [Value::Null, Value::Null]);

    let mut down = Arc::unwrap_or_clone(definitions(&["server/up@*"]));
    down.set_available(&"server/up@*".parse().unwrap(), false);
    world.targets.send_replace(Arc::new(down));
    assert_eq!(marks(), ["unavailable", "unavailable"]);
    assert_ne!(world.see(&Audience::Everyone).fingerprint(), before);

    world.targets.send_replace(definitions(&["server/up@*"]));
    assert_eq!(marks(), [Value::Null, Value::Null]);
    assert_eq!(world.see(&Audience::Everyone).fingerprint(), before);
}

#[test]
fn tools_of_stopped_target_are_found_but_not_listed() {
    let mut composition = composed("both");
    composition.document["spec"]["pipeline"]["steps"][0]["operation"]["tool"]["name"] = "a".into();
    composition.document["depends"] = json!([{ "type": "tool", "name": "a", "version": "1.0.0" }]);
    let world = world(catalog(1, vec![tool("a", "1.0.0", json!({})), composition]));
    let before = world.see(&Audience::Everyone).fingerprint();
    let mut stopped = Arc::unwrap_or_clone(definitions(&["server/up@*"]));
    stopped.set_stopped(["server/up@*".parse().unwrap()].into());
    world.targets.send_replace(Arc::new(stopped));
    let view = world.see(&Audience::Everyone);
    let tools = listed(&view);
    assert_eq!(tools.len(), 1, "{tools:?}");
    assert_eq!(
        (&tools[0]["name"], &tools[0]["_meta"]["registry/availability"]),
        (&json!("both"), &json!("unavailable"))
    );
    assert_ne!(view.fingerprint(), before);
    assert!(view.find(&Name::parse(Kind::Tool, "a").unwrap()).is_some());

    world.targets.send_replace(definitions(&["server/up@*"]));
    assert_eq!(world.see(&Audience::Everyone).fingerprint(), before);
}

#[test]
fn members_of_wrong_types_are_not_served() {
    let hints = json!({ "readOnlyHint": "yes", "destructiveHint": false });
    let registered = tool("own", "1.0.0", json!({ "annotations": hints }));
    let world = world(catalog(1, vec![registered, tool("up", "1.0.0", json!({}))]));
    let icons = json!([{ "src": 7 }]);
    let live = json!([{ "name": "own" }, { "name": "up", "annotations": hints, "icons": icons }]);
    world.targets.send_replace(listing(&["server/up@1.0.0"], live));
    let listed = listed(&world.see(&Audience::Everyone));
    assert_eq!(listed.len(), 2);
    for served in listed {
        assert_eq!(served["annotations"], json!({ "destructiveHint": false }), "{served}");
        assert_eq!(served.get("icons"), None);
    }
}

/// A tool of this version of `server/up` with these properties, and a composition of it.
fn with_input(version: &str, input: &Value, description: &str) -> [Registered; 2] {
    let source = json!({ "serverVersion": version });
    let more = json!({ "source": source, "inputSchema": input, "description": description });
    let mut composition = composed("both");
    composition.document["version"] = version.into();
    composition.document["spec"]["pipeline"]["steps"][0]["operation"]["tool"]["name"] = "a".into();
    composition.document["depends"] = json!([{ "type": "tool", "name": "a", "version": version }]);
    [tool("a", version, more), composition]
}

#[test]
fn undeployed_version_is_replaced_by_deployed_one() {
    let input = |name: &str| json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": [name] });
    let (old, new) = (input("a"), input("b"));
    let at = |second: &Value, description: &str| {
        let versions = [with_input("1.0.0", &old, "d"), with_input("2.0.0", second, description)];
        let world = world(catalog(1, versions.into_iter().flatten().collect()));
        let live = json!([{ "name": "a", "inputSchema": old, "description": "d" }]);
        world.targets.send_replace(listing(&["server/up@1.0.0"], live));
        names(&world.see(&Audience::Everyone))
    };
    assert_eq!(at(&new, "d"), ["a@1.0.0", "both@1.0.0"], "the schema is another");
    assert_eq!(at(&old, "d"), ["a@2.0.0", "both@2.0.0"]);
    assert_eq!(at(&old, "other words"), ["a@2.0.0", "both@2.0.0"], "words alone do not count");
    let only = world(catalog(1, with_input("2.0.0", &new, "d").into()));
    let live = json!([{ "name": "a", "inputSchema": old }]);
    only.targets.send_replace(listing(&["server/up@1.0.0"], live));
    let alone = names(&only.see(&Audience::Everyone));
    assert_eq!(alone, ["a@2.0.0", "both@2.0.0"], "there is no other version");
}

#[test]
fn unlisted_fallback_serves_registered_tools() {
    let x = agent_audience("x");
    let from_upstream = |name: &str, version: &str, upstream: &str| {
        tool(name, version, json!({ "source": { "serverVersion": version, "tool": upstream } }))
    };
    let world = world(catalog(
        1,
        vec![
            from_upstream("a", "1.0.0", "first"),
            from_upstream("a", "3.0.0", "first"),
            from_upstream("neu", "3.0.0", "neu"),
            from_upstream("renamed", "3.0.0", "first"),
            agent("x", "1.0.0", &[("a", "3.0.0"), ("neu", "3.0.0")]),
        ],
    ));
    world.targets.send_replace(definitions(&["server/up@1.0.0"]));
    assert_eq!(names(&world.see(&x)), ["a@3.0.0"]);
    assert_eq!(names(&world.see(&Audience::Everyone)), ["a@1.0.0", "renamed@3.0.0"]);
    let live = json!([{ "name": "first" }, { "name": "neu" }]);
    world.targets.send_replace(listing(&["server/up@1.0.0"], live));
    assert_eq!(names(&world.see(&x)), ["a@3.0.0", "neu@3.0.0"]);
    let all = names(&world.see(&Audience::Everyone));
    assert_eq!(all, ["a@3.0.0", "neu@3.0.0", "renamed@3.0.0"]);
}

#[test]
fn composition_needs_targets_for_all_steps() {
    let step = |id: &str| json!({ "id": id, "operation": { "tool": { "name": id } } });
    let on = |id: &str| json!({ "type": "tool", "name": id, "version": "1.0.0" });
    let both = json!({
        "source": null,
        "spec": { "pipeline": { "steps": [step("a"), step("b")] } },
        "depends": [on("a"), on("b")],
    });
    let mut both = tool("both", "1.0.0", both);
    both.document.as_object_mut().unwrap().remove("source");
    let world = world(catalog(
        1,
        vec![
            tool("a", "1.0.0", json!({})),
            tool("b", "1.0.0", json!({ "source": { "server": "other" } })),
            both,
            agent("x", "1.0.0", &[("both", "1.0.0")]),
        ],
    ));
    assert_eq!(names(&world.see(&Audience::Everyone)), ["a@1.0.0"]);
    assert_eq!(names(&world.see(&agent_audience("x"))), [""; 0]);
    world.targets.send_replace(definitions(&["server/up@*", "server/other@1.0.0"]));
    assert_eq!(names(&world.see(&Audience::Everyone)), ["b@1.0.0", "a@1.0.0", "both@1.0.0"]);
    assert_eq!(names(&world.see(&agent_audience("x"))), ["both@1.0.0"]);
}

#[test]
fn definition_defaults_to_any_object() {
    let more = json!({
        "title": "T", "description": "d\"q", "annotations": { "readOnlyHint": true },
        "inputSchema": { "$ref": "#In:1.0.0" }, "outputSchema": { "$ref": "#Out:1.0.0" },
        "source": { "hideFields": ["secret", "deep.secret"] },
    });
    let deep = json!({ "type": "object", "properties": {
        "secret": { "type": "string", "x-mcp-header": "S" }, "open": {} } });
    let input = json!({ "type": "object", "properties": {
        "secret": {}, "deep": { "$ref": "#Deep:1.0.0" },
        "region": { "type": "string", "x-mcp-header": "Region" } }, "required": ["secret"] });
    let world = world(catalog(
        1,
        vec![
            schema("In", input),
            schema("Deep", deep),
            schema("Out", json!({ "type": "array" })),
            tool("full", "1.0.0", more),
            tool("bare", "1.0.0", json!({})),
        ],
    ));
    let view = world.see(&Audience::Everyone);
    let input = json!({ "type": "object", "properties": {
        "deep": { "type": "object", "properties": { "open": {} } },
        "region": { "type": "string", "x-mcp-header": "Region" } } });
    let meta = json!({ "registry/version": "1.0.0" });
    let bare = json!({ "name": "bare", "inputSchema": { "type": "object" }, "_meta": meta });
    let full = json!({ "name": "full", "title": "T", "description": "d\"q", "inputSchema": input,
        "outputSchema": { "type": "array" }, "annotations": { "readOnlyHint": true }, "_meta": meta });
    assert_eq!(listed(&view), [bare.clone(), full.clone()]);
    let params = &view.find(&Name::parse(Kind::Tool, "full").unwrap()).unwrap().input().params;
    assert_eq!(params.len(), 1, "the hidden field's header went with it");
    // Older clients reject a list with an output schema that does not describe an object.
    let legacy = view.list(None, Era::Legacy).tools;
    let mut expected = full;
    expected.as_object_mut().unwrap().remove("outputSchema");
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&legacy).unwrap(), [bare, expected]);
}

#[test]
fn tools_follow_order_of_servers() {
    let other = json!({ "source": { "server": "another" } });
    let world = world(catalog(
        1,
        vec![
            testing::server("up", &["z", "a", "m"], &[]),
            testing::server("another", &["y", "b"], &[]),
            tool("a", "1.0.0", json!({})),
            tool("m", "1.0.0", json!({})),
            tool("z", "1.0.0", json!({})),
            tool("k", "1.0.0", json!({})),
            tool("b", "1.0.0", other.clone()),
            tool("y", "1.0.0", other),
        ],
    ));
    world.targets.send_replace(definitions(&["server/up@*", "server/another@1.0.0"]));
    let names = names(&world.see(&Audience::Everyone));
    let names: Vec<_> = names.iter().map(|name| &name[..1]).collect();
    assert_eq!(names, ["y", "b", "z", "a", "m", "k"]);
}

#[test]
fn both_eras_share_equal_bytes() {
    let world = world(catalog(1, vec![tool("a", "1.0.0", json!({}))]));
    let view = world.see(&Audience::Everyone);
    let (legacy, modern) = (view.list(None, Era::Legacy), view.list(None, Era::Modern));
    assert_eq!(legacy.tools.as_ptr(), modern.tools.as_ptr());
}

#[test]
fn only_changed_parts_are_rebuilt() {
    let first = || {
        vec![
            tool("a", "1.0.0", json!({})),
            tool("b", "1.0.0", json!({})),
            agent("x", "1.0.0", &[("a", "1.0.0")]),
            agent("y", "1.0.0", &[("b", "1.0.0")]),
        ]
    };
    let world = world(catalog(1, first()));
    let (x, y, all) = (
        world.see(&agent_audience("x")),
        world.see(&agent_audience("y")),
        world.see(&Audience::Everyone),
    );
    let page = y.list(None, Era::Modern).tools;
    assert!(Arc::ptr_eq(&x, &world.see(&agent_audience("x"))), "nothing changed");

    let mut second = first();
    second[1] = tool("b", "1.0.0", json!({ "description": "new" }));
    world.then(catalog(2, second));
    assert!(Arc::ptr_eq(&x, &world.see(&agent_audience("x"))), "what changed is not of this agent");
    assert_ne!(y.fingerprint(), world.see(&agent_audience("y")).fingerprint());
    assert_ne!(all.fingerprint(), world.see(&Audience::Everyone).fingerprint());
    assert_eq!(listed(&world.see(&agent_audience("y")))[0]["description"], "new");
    assert_eq!(y.list(None, Era::Modern).tools, page, "whoever holds the old view keeps it");

    world.then(catalog(3, first()));
    assert_eq!(y.fingerprint(), world.see(&agent_audience("y")).fingerprint());
}

#[test]
fn changed_schema_rebuilds_its_tool() {
    let with = |kind: &str| {
        let inner = schema("Inner", json!({ "type": kind }));
        let outer = schema("Outer", json!({ "properties": { "a": { "$ref": "#Inner:1.0.0" } } }));
        let tool = tool("t", "1.0.0", json!({ "inputSchema": { "$ref": "#Outer:1.0.0" } }));
        vec![inner, outer, tool]
    };
    let world = world(catalog(1, with("string")));
    let before = world.see(&Audience::Everyone);
    world.then(catalog(2, with("integer")));
    let after = world.see(&Audience::Everyone);
    assert_ne!(before.fingerprint(), after.fingerprint());
    assert_eq!(listed(&after)[0]["inputSchema"]["properties"]["a"]["type"], "integer");
}

#[test]
fn earlier_snapshot_stays_readable() {
    let world = world(catalog(1, vec![tool("a", "1.0.0", json!({}))]));
    let then = world.views.now();
    world.then(catalog(2, vec![tool("b", "1.0.0", json!({}))]));
    assert_eq!(names(&world.see(&Audience::Everyone)), ["b@1.0.0"]);
    let now = world.see(&Audience::Everyone);
    assert_eq!(names(&world.views.view(&then, &Audience::Everyone)), ["a@1.0.0"]);
    assert!(Arc::ptr_eq(&now, &world.see(&Audience::Everyone)), "the present was not made again");
}

#[test]
fn removed_agents_and_tools_are_dropped() {
    let world = world(catalog(
        1,
        vec![tool("a", "1.0.0", json!({})), agent("x", "1.0.0", &[("a", "1.0.0")])],
    ));
    world.see(&agent_audience("x"));
    world.then(catalog(2, vec![]));
    world.views.now();
    assert!(world.views.cells.read().unwrap().is_empty());
    assert!(world.views.tool_cache.is_empty());
}

fn many(count: usize) -> Vec<testing::Registered> {
    (0..count).map(|i| tool(&format!("t{i:05}"), "1.0.0", json!({}))).collect()
}

#[test]
fn unchanged_pages_keep_their_bytes() {
    let world = world(catalog(1, many(1201)));
    let view = world.see(&Audience::Everyone);
    let mut seen = Vec::new();
    let mut sizes = Vec::new();
    let mut cursor = None;
    loop {
        let page = view.list(cursor.as_ref(), Era::Modern);
        let tools: Vec<Value> = serde_json::from_slice(&page.tools).unwrap();
        sizes.push(tools.len());
        seen.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = page.next.map(|next| Cursor::parse(&next.to_text()).unwrap());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [500, 500, 201]);
    assert_eq!(seen, (0..1201).map(|i| format!("t{i:05}")).collect::<Vec<_>>());

    let mut changed = many(1201);
    changed[1200] = tool("t01200", "1.0.0", json!({ "description": "new" }));
    world.then(catalog(2, changed));
    let first = |view: &View| view.list(None, Era::Modern).tools.as_ptr();
    assert_eq!(first(&view), first(&world.see(&Audience::Everyone)));
}

#[test]
fn cursor_survives_removed_tool() {
    let world = world(catalog(1, many(1000)));
    let cursor = world.see(&Audience::Everyone).list(None, Era::Modern).next.unwrap();
    let first = cursor.clone();
    let mut fewer = many(1000);
    fewer.drain(400..600);
    world.then(catalog(2, fewer));
    let view = world.see(&Audience::Everyone);
    let (mut names, mut cursor) = (Vec::new(), Some(cursor));
    while let Some(after) = cursor {
        let page = view.list(Some(&after), Era::Modern);
        let tools: Vec<Value> = serde_json::from_slice(&page.tools).unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = page.next;
    }
    let missed = (600..1000).map(|i| format!("t{i:05}")).find(|name| !names.contains(name));
    assert_eq!(missed, None);
    world.then(catalog(3, many(10)));
    let end = world.see(&Audience::Everyone).list(Some(&first), Era::Modern);
    assert_eq!((&*end.tools, end.next), (&b"[]"[..], None));
}

#[test]
fn large_definitions_shorten_pages() {
    let text = "x".repeat(7 * 1024);
    let tools = (0..600).map(|i| tool(&format!("t{i}"), "1.0.0", json!({ "description": text })));
    let world = world(catalog(1, tools.collect()));
    let view = world.see(&Audience::Everyone);
    let page = view.list(None, Era::Modern);
    assert!(page.tools.len() < 3 * 1024 * 1024 && page.next.is_some());
}

/// A registry of up to six tools in up to three versions, and an agent that depends on some.
fn registry() -> impl Strategy<Value = Vec<(u8, u8, u8, bool)>> {
    proptest::collection::vec((0..6_u8, 0..3_u8, 0..3_u8, any::<bool>()), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn views_equal_brute_force_model(entries in registry()) {
        let mut tools = std::collections::BTreeMap::new();
        for (name, version, state, declared) in entries {
            tools.entry((name, version)).or_insert((state, declared));
        }
        let mut one_version = std::collections::BTreeMap::new();
        let mut entities = Vec::new();
        for (&(name, version), &(state, declared)) in &tools {
            let (name, version) = (format!("t{name}"), format!("{version}.0.0"));
            let entity = tool(&name, &version, json!({}));
            entities.push(match state {
                0 => entity,
                1 => entity.deprecated(),
                _ => entity.retired(),
            });
            if declared {
                one_version.entry(name).or_insert((version, state));
            }
        }
        let depends: Vec<_> = one_version.iter().map(|(n, (v, _))| (n.as_str(), v.as_str())).collect();
        entities.push(agent("x", "1.0.0", &depends));
        let world = world(catalog(1, entities));

        let declared: Vec<_> = one_version.iter().filter(|(_, (_, state))| *state < 2)
            .map(|(name, (version, _))| format!("{name}@{version}")).collect();
        prop_assert_eq!(names(&world.see(&agent_audience("x"))), declared);

        let newest: Vec<_> = (0..6_u8).filter_map(|name| {
            let usable = tools.iter().filter(|((n, _), (state, _))| *n == name && *state < 2);
            let best = usable.max_by_key(|((_, version), (state, _))| (*state == 0, *version))?;
            Some(format!("t{name}@{}", Version::parse(&format!("{}.0.0", best.0.1)).unwrap()))
        }).collect();
        prop_assert_eq!(names(&world.see(&Audience::Everyone)), newest);
    }
}

/// An agent with two skills, and a composition of each.
fn skilled(revision: u64, change: impl FnOnce(Registered) -> Registered) -> Arc<Catalog> {
    let skill = |id: &str| json!({ "id": id, "name": id, "description": "d", "tags": [] });
    let mut writer = agent("writer", "1.0.0", &[]);
    writer.document["skills"] = json!([skill("write"), skill("read")]);
    let with_skill = |skill: &str| {
        let mut tool = composed(skill);
        tool.document["depends"] =
            json!([{ "type": "agent", "name": "writer", "version": "1.0.0", "skill": skill }]);
        tool.document["spec"]["pipeline"]["steps"][0]["operation"] =
            json!({ "agent": { "name": "writer", "skill": skill } });
        tool
    };
    catalog(revision, vec![change(writer), with_skill("write"), with_skill("read")])
}

#[test]
fn skill_composition_needs_its_agent() {
    let world = world(skilled(1, |writer| writer));
    world.targets.send_replace(definitions(&["agent/writer@1.0.0"]));
    let first = world.see(&Audience::Everyone);
    assert_eq!(names(&first), ["read@1.0.0", "write@1.0.0"]);
    for tool in listed(&first) {
        assert_eq!(tool["inputSchema"]["required"], json!(["text"]), "what the skill takes");
    }
    world.then(skilled(2, |writer| writer));
    assert!(Arc::ptr_eq(&first, &world.see(&Audience::Everyone)), "nothing has changed");
    world.then(skilled(3, |mut writer| {
        writer.document["skills"][1]["inputSchema"] =
            json!({ "type": "object", "minProperties": 2 });
        writer
    }));
    let second = world.see(&Audience::Everyone);
    assert_eq!(listed(&second)[0]["inputSchema"]["minProperties"], 2);
    assert_eq!(listed(&second)[1]["inputSchema"]["required"], json!(["text"]));
    assert_ne!(first.fingerprint(), second.fingerprint());
    world.then(skilled(4, |mut writer| {
        writer.document["skills"].as_array_mut().unwrap().pop();
        writer
    }));
    assert_eq!(names(&world.see(&Audience::Everyone)), ["write@1.0.0"]);
    world.then(skilled(5, Registered::retired));
    assert_eq!(names(&world.see(&Audience::Everyone)), [""; 0]);
    let undoing = Key::parse(Kind::Tool, "write", "1.0.0").unwrap();
    assert!(world.views.registered(&world.views.now(), &undoing).is_some(), "to undo what it did");
}
