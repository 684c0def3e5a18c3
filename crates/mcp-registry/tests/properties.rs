//! Pages contain each version once and in order, imports are served unchanged, and every registered
//! server is served as a valid document.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::LazyLock;

use mcp_registry::{Entry, Filter, Listing, Namespace, SCHEMA, ServerDetail, ServerResponse};
use proptest::{collection::vec, option, prelude::*, sample::select};
use registry_core::{Catalog, Document, Entity, Key, Kind, LifecycleState, Timestamp};
use registry_fixtures::values::{damaged, json};
use registry_fixtures::world::{Wish, commit, empty};
use serde_json::{Value, json};

static NAMESPACE: LazyLock<Namespace> = LazyLock::new(|| "local.registry".parse().unwrap());

const NAMES: [&str; 8] = [
    "a",
    "b",
    "com.example/a",
    "local.registry/a",
    "local.registry/aa",
    "local.registry-x/a",
    "my_team/a",
    "zz/b",
];

/// Each wish is a separate commit with its own time.
fn catalog(wishes: &[Wish]) -> Catalog {
    let mut catalog = empty();
    for wish in wishes {
        if let Some(sealed) = commit(&catalog, std::slice::from_ref(wish)) {
            catalog.apply(&sealed).unwrap();
        }
    }
    catalog
}

fn version() -> impl Strategy<Value = &'static str> {
    select(&["1.0.0", "1.1.0", "1.1.0+b", "2.0.0-rc.1", "10.0.0"][..])
}

fn wish() -> impl Strategy<Value = Wish> {
    let states = [LifecycleState::Active, LifecycleState::Deprecated, LifecycleState::Retired];
    let text = option::of(select(&["Finds things", "A PAGE", ""][..]));
    let server = (select(&NAMES[..]), version(), text).prop_map(|(name, version, text)| {
        let server =
            json!({ "name": name, "version": version, "description": text, "provides": [] });
        Wish::Register(Kind::Server, server)
    });
    let change = (select(&NAMES[..]), version(), select(states.to_vec()));
    let change = change.prop_map(|(name, version, state)| {
        Wish::SetLifecycle(Key::parse(Kind::Server, name, version).unwrap(), state, None)
    });
    prop_oneof![3 => server, 1 => change]
}

fn filter() -> impl Strategy<Value = Filter> {
    let search = option::of(select(&["page", "example/", "things", "nowhere"][..]));
    let version = option::of(select(&["latest", "1.1.0", "no version"][..]));
    let since = option::of((0..30_i64).prop_map(|day| Timestamp::from_millis(day * 86_400_123)));
    (search, version, since, any::<bool>()).prop_map(|(search, version, since, deleted)| Filter {
        search: search.map(str::to_owned),
        version: version.map(str::to_owned),
        updated_since: since,
        include_deleted: deleted || since.is_some(),
    })
}

/// All entries that match a filter, without paging.
fn all(catalog: &Catalog, filter: &Filter) -> Vec<Entry> {
    let listing = Listing::new(catalog, &NAMESPACE);
    let names = catalog.of_kind(Kind::Server).filter_map(|(key, _)| {
        let served = NAMESPACE.served(&key.name)?.into_owned();
        (NAMESPACE.entity(catalog, &served).as_ref() == Some(&key.name)).then_some((served, key))
    });
    let found = names.filter_map(|(name, key)| {
        let entry = listing.find(&name, &key.version.to_string(), true).unwrap();
        let state = entry.record.lifecycle.state;
        let Entity::Server(entity) = entry.record.document.entity() else { unreachable!() };
        let text = format!("{name}\n{}", entity.description.as_deref().unwrap_or_default());
        let wanted = (filter.include_deleted || state != LifecycleState::Retired)
            && filter.updated_since.is_none_or(|since| entry.changed_at >= since)
            && filter.search.as_ref().is_none_or(|search| text.to_lowercase().contains(search))
            && match filter.version.as_deref() {
                Some("latest") => entry.is_latest,
                Some(exact) => key.version.to_string() == exact,
                None => true,
            };
        wanted.then_some(entry)
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_cached_key(|e| (e.name.clone(), e.record.document.key().version.clone()));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pages_contain_each_version_once_in_order(
        wishes in vec(wish(), 0..30), filter in filter(), limits in vec(1..4_usize, 1..8),
    ) {
        let catalog = catalog(&wishes);
        let listing = Listing::new(&catalog, &NAMESPACE);
        let (mut shown, mut after) = (Vec::new(), None);
        for limit in limits.iter().cycle() {
            let page = listing.page(&filter, after.as_ref(), *limit);
            prop_assert!(page.entries.len() <= *limit);
            prop_assert!(page.next.is_none() || page.entries.len() == *limit);
            shown.extend(page.entries);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        prop_assert_eq!(shown, all(&catalog, &filter));
    }

    #[test]
    fn each_name_has_exactly_one_latest_version(
        wishes in vec(wish(), 0..30),
    ) {
        let catalog = catalog(&wishes);
        let listing = Listing::new(&catalog, &NAMESPACE);
        let everything = Filter { include_deleted: true, ..Filter::default() };
        let entries = listing.page(&everything, None, 1_000).entries;
        for entry in &entries {
            let of_name = listing.versions(&entry.name, true);
            prop_assert_eq!(of_name.iter().filter(|entry| entry.is_latest).count(), 1);
            let age = |entry: &Entry| entry.record.registered;
            prop_assert!(of_name.is_sorted_by(|a, b| age(a) >= age(b)));
            let version = entry.record.document.key().version.to_string();
            prop_assert_eq!(&listing.find(&entry.name, &version, true), &Some(entry.clone()));
            let latest = listing.find(&entry.name, "latest", true).unwrap();
            prop_assert!(of_name.contains(&latest) && latest.is_latest);
            let is_deleted = |e: &Entry| e.record.lifecycle.state == LifecycleState::Retired;
            prop_assert_eq!(is_deleted(&latest), of_name.iter().all(is_deleted));
        }
    }

    #[test]
    fn changed_response_has_later_changed_at(wishes in vec(wish(), 0..30)) {
        let mut catalog = empty();
        let everything = Filter { include_deleted: true, ..Filter::default() };
        let list = |catalog: &Catalog| {
            Listing::new(catalog, &NAMESPACE).page(&everything, None, 1_000).entries
        };
        for wish in &wishes {
            let Some(sealed) = commit(&catalog, std::slice::from_ref(wish)) else { continue };
            let before = list(&catalog);
            catalog.apply(&sealed).unwrap();
            for entry in list(&catalog) {
                let key = entry.record.document.key();
                let old = before.iter().find(|old| old.record.document.key() == key);
                if old.is_some_and(|old| (old.is_latest, &old.record) != (entry.is_latest, &entry.record)) {
                    prop_assert_eq!(entry.changed_at, sealed.commit().committed_at, "{}", key);
                }
            }
        }
    }

    #[test]
    fn import_is_served_unchanged(document in server_json()) {
        let reading = ServerDetail::read(&document);
        prop_assert!(reading.detail.is_some(), "{:?}", reading.findings);
        let entity = Entity::Server(reading.detail.unwrap().to_server().unwrap());
        let registered = Document::new(entity).unwrap();
        let served = served(&registered);
        let mut expected = document;
        expected["$schema"] = SCHEMA.into();
        prop_assert_eq!(&served, &expected);
        let again = ServerDetail::read(&served).detail.unwrap().to_server().unwrap();
        prop_assert_eq!(Document::new(Entity::Server(again)).unwrap().digest(), registered.digest());
    }

    #[test]
    fn description_length_counts_characters(
        text in "[a-zäß😀]{90,110}", title in "[a-zäß😀]{90,110}",
    ) {
        let document = json!({
            "name": "a/b", "version": "1.0.0", "description": text, "title": title,
        });
        let fits = |text: &str| text.chars().count() <= 100;
        let expected = fits(&text) && fits(&title);
        prop_assert_eq!(ServerDetail::read(&document).detail.is_some(), expected);
        let by_hand = json!({
            "name": "b", "version": "1.0.0", "description": text, "provides": [],
            "metadata": { "serverJson": { "title": title } },
        });
        let served = served(&Document::parse(Kind::Server, &by_hand).unwrap());
        prop_assert_eq!(served.get("title").is_some(), fits(&title));
        prop_assert!(fits(served["description"].as_str().unwrap()));
        prop_assert!(VALID.is_valid(&served), "{served:#}");
    }

    #[test]
    fn accepted_document_is_served_valid(
        document in server_json(), at in any::<usize>(), with in json(),
    ) {
        let reading = ServerDetail::read(&damaged(&document, at, &with));
        if let Some(server) = reading.detail.and_then(|detail| detail.to_server())
            && let Ok(registered) = Document::new(Entity::Server(server))
        {
            let served = served(&registered);
            prop_assert!(VALID.is_valid(&served), "{served:#}");
        }
    }

    #[test]
    fn every_registered_server_is_served_valid(
        document in server_json(), at in any::<usize>(), with in json(), text in ".{0,300}",
    ) {
        let rest = damaged(&document, at, &with);
        let value = json!({
            "name": "docs", "version": "1.0.0", "description": text, "provides": [],
            "metadata": { "serverJson": rest },
        });
        if let Ok(registered) = Document::parse(Kind::Server, &value) {
            let served = served(&registered);
            prop_assert!(VALID.is_valid(&served), "{served:#}");
        }
    }
}

static VALID: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("data/server.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

fn served(document: &Document) -> Value {
    let wish = Wish::Register(Kind::Server, document.entity().to_value());
    let catalog = catalog(&[wish]);
    let page = Listing::new(&catalog, &NAMESPACE).page(&Filter::default(), None, 1);
    let response = serde_json::to_value(ServerResponse::from(&page.entries[0])).unwrap();
    response["server"].clone()
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäß{}-]{1,12}"
}

fn input() -> impl Strategy<Value = Value> {
    let formats = select(&["string", "number", "boolean", "filepath"][..]);
    (option::of(text()), option::of(formats), any::<bool>(), vec(text(), 0..3)).prop_map(
        |(value, format, flag, choices)| {
            let mut input = json!({ "isRequired": flag, "isSecret": !flag, "choices": choices });
            input["description"] = "what it is".into();
            if let Some(value) = value {
                input["default"] = value.into();
            }
            if let Some(format) = format {
                input["format"] = format.into();
            }
            input
        },
    )
}

fn named(kind: Option<&'static str>) -> impl Strategy<Value = Value> {
    (input(), "[-]{0,2}[a-z]{1,8}", option::of(input())).prop_map(
        move |(mut input, name, variable)| {
            input["name"] = name.into();
            if let Some(kind) = kind {
                input["type"] = kind.into();
            }
            if let Some(variable) = variable {
                input["variables"] = json!({ "v": variable });
            }
            input
        },
    )
}

fn argument() -> impl Strategy<Value = Value> {
    let positional = (input(), text(), any::<bool>()).prop_map(|(mut input, text, hint)| {
        input["type"] = "positional".into();
        input[if hint { "valueHint" } else { "value" }] = text.into();
        input
    });
    prop_oneof![positional, named(Some("named"))]
}

fn http() -> impl Strategy<Value = Value> {
    let url = select(&["https://a.example/{v}/mcp", "http://[::1]:80/", "{base}/mcp"][..]);
    (select(&["streamable-http", "sse"][..]), url, vec(named(None), 0..2))
        .prop_map(|(kind, url, headers)| json!({ "type": kind, "url": url, "headers": headers }))
}

fn package() -> impl Strategy<Value = Value> {
    let registry = select(&["npm", "pypi", "cargo", "oci", "nuget", "mcpb"][..]);
    let transport = prop_oneof![Just(json!({ "type": "stdio" })), http()];
    (registry, text(), transport, vec(argument(), 0..3), vec(named(None), 0..2)).prop_map(
        |(registry, identifier, transport, arguments, variables)| {
            json!({
                "registryType": registry, "identifier": identifier, "version": "1.0.0",
                "fileSha256": "0a".repeat(32), "transport": transport, "runtimeHint": "x",
                "packageArguments": arguments, "environmentVariables": variables,
            })
        },
    )
}

fn server_json() -> impl Strategy<Value = Value> {
    let more = option::of(select(vec![
        ("title", json!("A title")),
        ("websiteUrl", json!("https://example.com/a?b#c")),
        ("repository", json!({ "url": "https://git.example/x", "source": "git", "id": "7" })),
        (
            "icons",
            json!([{ "src": "https://a/i.png", "sizes": ["48x48", "any"], "theme": "dark" }]),
        ),
        (
            "_meta",
            json!({ "io.modelcontextprotocol.registry/publisher-provided": { "a": [1, null] } }),
        ),
        ("postInstallInstructions", json!({ "text": ["kept", 1.5] })),
    ]));
    (text(), vec(package(), 0..3), vec(http(), 0..3), vec(more, 0..4)).prop_map(
        |(description, packages, remotes, more)| {
            let mut server =
                json!({ "name": "com.example/a", "description": description, "version": "1.2.3" });
            if !packages.is_empty() {
                server["packages"] = packages.into();
            }
            if !remotes.is_empty() {
                server["remotes"] = remotes.into();
            }
            for (name, value) in more.into_iter().flatten() {
                server[name] = value;
            }
            server
        },
    )
}
