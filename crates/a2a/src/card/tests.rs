//! Interfaces of cards, and the cards that the gateway serves.

use serde_json::json;

use super::*;

const UP: &str = "https://agent.internal.example:8443/a2a";

fn legacy() -> Value {
    json!({
        "name": "Recipes", "description": "Cooks at https://agent.internal.example:8443/x. Ask.",
        "url": UP, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0", "version": "1.2",
        "additionalInterfaces": [
            { "url": UP, "transport": "JSONRPC" },
            { "url": "https://rest.internal.example", "transport": "HTTP+JSON" },
            { "url": "https://odd.internal.example", "transport": "MQTT" },
        ],
        "iconUrl": "https://agent.internal.example:8443/icon.png",
        "documentationUrl": "https://docs.example/recipes",
        "provider": { "organization": "Acme", "url": "https://www.example" },
        "capabilities": { "streaming": true, "pushNotifications": true,
            "stateTransitionHistory": true,
            "extensions": [{ "uri": "urn:x", "required": true,
                "params": { "at": "https://AGENT.internal.example/ext", "n": 1 } }] },
        "supportsAuthenticatedExtendedCard": true,
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "security": [{ "key": [] }, { "oauth": ["read"] }],
        "securitySchemes": {
            "key": { "type": "apiKey", "in": "header", "name": "X-Key" },
            "oauth": { "type": "oauth2", "flows": { "clientCredentials":
                { "tokenUrl": "https://agent.internal.example/token", "scopes": { "read": "r" } } } },
            "tls": { "type": "mutualTLS" },
        },
        "skills": [{ "id": "cook", "name": "Cook", "description": "Cooks", "tags": [],
            "security": [{ "key": [] }], "inputModes": [],
            "examples": ["curl odd.internal.example", "Cook"] }],
        "x-own": ["https://rest.internal.example/x", 1],
        "signatures": [{ "protected": "", "signature": "" }],
    })
}

fn card(value: &Value) -> Card {
    Card::parse(value.to_string().as_bytes(), &CardLimits::default()).unwrap()
}

fn facade() -> Facade {
    let url = "https://gw.example/a2a/recipes".to_owned();
    let interface =
        |binding, version, tenant| Interface { url: url.clone(), binding, version, tenant };
    Facade {
        interfaces: vec![
            interface(Binding::JsonRpc, Version::V1, Some("t".to_owned())),
            interface(Binding::JsonRpc, Version::V03, None),
            interface(Binding::HttpJson, Version::V03, None),
        ],
        streaming: true,
        push_notifications: false,
        extended_card: false,
        ..Facade::default()
    }
}

#[test]
fn interfaces_are_those_of_known_bindings() {
    let found = card(&legacy()).interfaces();
    let found: Vec<_> = found.iter().map(|i| (i.binding, i.version, i.url.as_str())).collect();
    assert_eq!(
        found,
        [
            (Binding::JsonRpc, Version::V03, UP),
            (Binding::HttpJson, Version::V03, "https://rest.internal.example"),
        ]
    );
    let new = json!({ "name": "n", "supportedInterfaces": [
        { "url": "https://a.example", "protocolBinding": "GRPC", "protocolVersion": "1.0.1" },
        { "url": "https://b.example", "protocolBinding": "JSONRPC", "tenant": "t" },
        { "url": "https://c.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        { "url": "https://d.example", "protocolBinding": "JSONRPC", "protocolVersion": "2.0" },
    ] });
    let new = card(&new);
    let url = |binding, version| new.interface(binding, version).map(|i| i.url);
    assert_eq!(url(Binding::Grpc, Version::V1).as_deref(), Some("https://a.example"));
    assert_eq!(url(Binding::JsonRpc, Version::V1).as_deref(), Some("https://c.example"));
    assert_eq!(url(Binding::JsonRpc, Version::V03).as_deref(), Some("https://b.example"));
    assert_eq!(url(Binding::HttpJson, Version::V1), None);
    let legacy = new.interface(Binding::JsonRpc, Version::V03).unwrap();
    assert_eq!(legacy.tenant.as_deref(), Some("t"));
}

#[test]
fn missing_version_means_0_3() {
    let old = card(&json!({ "name": "n", "url": "https://a.example" }));
    assert!(old.interface(Binding::JsonRpc, Version::V03).is_some());
}

#[test]
fn unusable_cards_are_rejected() {
    let limits = CardLimits { bytes: 300, depth: 4, skills: 1, items: 2 };
    let parse = |value: Value| Card::parse(value.to_string().as_bytes(), &limits).unwrap_err();
    let found = [
        parse(json!({})),
        parse(json!([])),
        parse(json!({ "name": "n", "url": "" })),
        parse(json!({ "name": "n", "url": "https://a.example", "protocolVersion": "9.0" })),
        parse(json!({ "name": "n", "x": [[[[1]]]] })),
        parse(json!({ "name": "n", "x": "y".repeat(300) })),
        parse(json!({ "name": "n", "url": "https://a.example", "skills": [1, 2] })),
        parse(json!({ "name": "n", "capabilities": { "extensions": [1, 2, 3] } })),
        Card::parse(br#"{"name":"a","name":"b"}"#, &limits).unwrap_err(),
    ];
    insta::assert_snapshot!(found.map(|error| error.to_string()).join("\n"), @"
    the agent card has no `name`
    the agent card is not a JSON object
    the agent card has no interface with a known version and binding
    the agent card has no interface with a known version and binding
    the agent card is nested deeper than 4 levels
    the agent card is longer than 300 bytes
    `skills` of the agent card has more than 1 items
    `extensions` of the agent card has more than 2 items
    the agent card is not valid JSON: not valid JSON: `name` occurs twice in one object at line 1 column 18
    ");
}

#[test]
fn published_card_has_no_address_of_the_agent() {
    for shape in [Shape::V1, Shape::V03, Shape::Combined] {
        let served = card(&legacy()).publish(&facade(), shape).unwrap();
        let text = served.to_string().to_lowercase();
        assert!(!text.contains("internal.example"), "{text}");
        assert!(served.get("signatures").is_none());
        assert_eq!(served["documentationUrl"], "https://docs.example/recipes");
        assert_eq!(served["description"], "Cooks at https://gw.example/x. Ask.");
        assert_eq!(served["x-own"], json!([1]));
    }
}

/// The text of a card with sorted members. Their order depends on `preserve_order` of `serde_json`.
fn sorted(mut card: Value) -> String {
    card.sort_all_objects();
    serde_json::to_string_pretty(&card).unwrap()
}

#[test]
fn published_card_of_1_0_is_complete() {
    let served = card(&legacy()).publish(&facade(), Shape::V1).unwrap();
    insta::assert_snapshot!(sorted(served), @r#"
    {
      "capabilities": {
        "extensions": [
          {
            "params": {
              "n": 1
            },
            "required": true,
            "uri": "urn:x"
          }
        ],
        "streaming": true
      },
      "defaultInputModes": [
        "text/plain"
      ],
      "defaultOutputModes": [
        "text/plain"
      ],
      "description": "Cooks at https://gw.example/x. Ask.",
      "documentationUrl": "https://docs.example/recipes",
      "name": "Recipes",
      "provider": {
        "organization": "Acme",
        "url": "https://www.example"
      },
      "skills": [
        {
          "description": "Cooks",
          "examples": [
            "curl gw.example",
            "Cook"
          ],
          "id": "cook",
          "name": "Cook",
          "tags": [
            "cook"
          ]
        }
      ],
      "supportedInterfaces": [
        {
          "protocolBinding": "JSONRPC",
          "protocolVersion": "1.0",
          "tenant": "t",
          "url": "https://gw.example/a2a/recipes"
        },
        {
          "protocolBinding": "JSONRPC",
          "protocolVersion": "0.3",
          "url": "https://gw.example/a2a/recipes"
        },
        {
          "protocolBinding": "HTTP+JSON",
          "protocolVersion": "0.3",
          "url": "https://gw.example/a2a/recipes"
        }
      ],
      "version": "1.2",
      "x-own": [
        1
      ]
    }
    "#);
}

#[test]
fn published_card_of_0_3_is_complete() {
    let served = card(&legacy()).publish(&facade(), Shape::V03).unwrap();
    insta::assert_snapshot!(sorted(served), @r#"
    {
      "additionalInterfaces": [
        {
          "transport": "HTTP+JSON",
          "url": "https://gw.example/a2a/recipes"
        }
      ],
      "capabilities": {
        "extensions": [
          {
            "params": {
              "n": 1
            },
            "required": true,
            "uri": "urn:x"
          }
        ],
        "streaming": true
      },
      "defaultInputModes": [
        "text/plain"
      ],
      "defaultOutputModes": [
        "text/plain"
      ],
      "description": "Cooks at https://gw.example/x. Ask.",
      "documentationUrl": "https://docs.example/recipes",
      "name": "Recipes",
      "preferredTransport": "JSONRPC",
      "protocolVersion": "0.3.0",
      "provider": {
        "organization": "Acme",
        "url": "https://www.example"
      },
      "skills": [
        {
          "description": "Cooks",
          "examples": [
            "curl gw.example",
            "Cook"
          ],
          "id": "cook",
          "name": "Cook",
          "tags": [
            "cook"
          ]
        }
      ],
      "url": "https://gw.example/a2a/recipes",
      "version": "1.2",
      "x-own": [
        1
      ]
    }
    "#);
}

#[test]
fn combined_card_serves_clients_of_both_versions() {
    let (new, old) = (facade(), facade());
    let served = card(&legacy()).publish(&new, Shape::Combined).unwrap();
    assert_eq!(card(&served).interfaces().len(), 3);
    let old = card(&legacy()).publish(&old, Shape::V03).unwrap();
    for (name, value) in old.as_object().unwrap() {
        assert!(name == "skills" || served[name] == *value, "{name}");
    }
    let none = Facade { interfaces: facade().interfaces[..1].to_vec(), ..facade() };
    assert!(matches!(
        card(&legacy()).publish(&none, Shape::V03),
        Err(InvalidCard::Untranslatable(_))
    ));
}

#[test]
fn gateway_on_the_host_of_the_agent_stays_visible() {
    let value = json!({ "name": "n", "url": "http://localhost:9000/",
        "description": "localhost:9000, localhost and http://localhost:7000" });
    let mut facade = facade();
    for interface in &mut facade.interfaces {
        interface.url = "http://localhost:7000/a2a/n".to_owned();
    }
    let served = card(&value).publish(&facade, Shape::V03).unwrap();
    assert_eq!(served["description"], "localhost:7000, localhost and http://localhost:7000");
    assert_eq!(served["url"], "http://localhost:7000/a2a/n");
}

#[test]
fn hosts_are_matched_as_a_whole() {
    let value = json!({ "name": "n", "url": "https://agent/x",
        "description": "An agent. https://agent:1/y https://agents.example r=https%3A%2F%2Fagent%2Fz",
        "x": { "a": "https://b.example/?r=https%3A%2F%2Fagent%2Fz", "b": "https://agent.example" } });
    let served = card(&value).publish(&facade(), Shape::V03).unwrap();
    assert_eq!(
        served["description"],
        "An agent. https://gw.example/y https://agents.example r=https%3A%2F%2Fgw.example%2Fz"
    );
    assert_eq!(served["x"], json!({ "b": "https://agent.example" }));
}

#[test]
fn shapes_survive_translation() {
    let mut old = legacy();
    let members = old.as_object_mut().unwrap();
    members.remove("signatures");
    // An interface that repeats the main one is not kept.
    members["additionalInterfaces"].as_array_mut().unwrap().remove(0);
    let new = card(&old).to_v1().unwrap();
    assert_eq!(legacy::card::to_v03(new.clone()).unwrap(), old);
    assert_eq!(card(&new).to_v1().unwrap(), new);
}

#[test]
fn entity_tags_identify_content() {
    let tag = entity_tag(&json!({ "a": 1, "b": 2 }));
    assert_eq!(tag, entity_tag(&json!({ "b": 2, "a": 1 })));
    assert_ne!(tag, entity_tag(&json!({ "a": 2 })));
    assert!(matches_entity_tag(&format!("\"x\", W/{tag}"), &tag) && matches_entity_tag("*", &tag));
    assert!(!matches_entity_tag("\"x\"", &tag));
}

#[test]
fn registered_agent_keeps_members_of_its_card() {
    let document = json!({ "name": "acme/recipes", "version": "1.0.0", "description": "d",
        "url": UP, "protocolVersion": "1.0", "defaultInputModes": [], "defaultOutputModes": [],
        "skills": [], "capabilities": { "streaming": true },
        "metadata": { "title": "Recipes", "owner": "a", "card": { "iconUrl": "https://i.example",
            "url": "https://other.example", "capabilities": { "extendedAgentCard": true } } } });
    let kind = registry_core::Kind::Agent;
    let document = registry_core::Document::parse(kind, &document).unwrap();
    let registry_core::Entity::Agent(agent) = document.entity() else { panic!("not an agent") };
    let card = Card::of_agent(agent);
    assert_eq!(card.members()["name"], "Recipes");
    assert_eq!(card.members()["iconUrl"], "https://i.example");
    assert!(card.members().get("metadata").is_none());
    assert_eq!(card.interface(Binding::JsonRpc, Version::V1).unwrap().url, UP);
    let all = Capabilities { streaming: true, push_notifications: false, extended_card: true };
    assert_eq!(card.capabilities(), all);
}

#[test]
fn addresses_of_card_are_compared_by_path() {
    let card = json!({
        "url": "https://a.example/a2a/writer/",
        "supportedInterfaces": [{ "url": "a.example:50051" }, { "url": 1 }, {}],
        "additionalInterfaces": [{ "url": "http://10.0.0.1:8080/rest?tenant=x" }],
    });
    for (path, expected) in [
        ("/a2a/writer", true),
        ("/a2a/writer/", true),
        ("/rest", true),
        ("/a2a", false),
        ("/a2a/writer/more", false),
        ("/writer", false),
    ] {
        assert_eq!(has_address_at(&card, path), expected, "{path}");
    }
    assert!(!has_address_at(&json!([]), "/a2a"));
}
