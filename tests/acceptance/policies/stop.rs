//! `policy stop`: an emergency policy that waits for gateways.

use acceptance::{
    Gateway, GatewayOptions, Registry, access::Guarded, gateway::unreachable_targets,
};
use serde_json::json;

use super::{applied, bank, keys, roles};

fn gateway(registry: &Registry) -> Gateway {
    Gateway::start(&GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: unreachable_targets(),
        runtime: None,
        more: String::new(),
    })
}

const STOP: [&str; 6] =
    ["policy", "stop", "tool/charge", "--reason", "duplicate charges", "--output"];

#[tokio::test]
async fn stop_waits_until_gateways_apply_it() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let gateway = gateway(&registry);
    gateway.ready().await;
    let stopped = registry.ctl(&[&STOP[..], &["json", "--yes"]].concat());
    assert!(stopped.success(), "{stopped:?}");
    let view = stopped.json();
    assert_eq!((&view["committed"], &view["rollout"]["applied"]), (&json!(true), &json!(1)));
    let impact = registry.json(&["impact", "tool/pay@1.0.0"]);
    assert_eq!(keys(&impact["policies"]), ["policy/stop-tool-charge@1.0.0"]);
    let document = registry.json(&["get", "policy/stop-tool-charge"])["digest"].clone();

    let again = registry.ctl(&[&STOP[..], &["json", "--yes"]].concat());
    assert_eq!((again.code, &again.json()["committed"]), (0, &json!(false)));
    registry.run(&["retire", "policy/stop-tool-charge@1.0.0", "--yes"]);
    let third = registry.ctl(&[&STOP[..], &["json", "--yes"]].concat());
    assert!(third.success(), "{third:?}");
    let shown = registry.json(&["get", "policy/stop-tool-charge"]);
    assert_eq!(shown["version"], "1.0.1");
    assert_ne!(shown["digest"], document);
}

#[tokio::test]
async fn stop_names_gateway_that_lost_its_connection() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let named = |name: &str| {
        Gateway::start(&GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: unreachable_targets(),
            runtime: None,
            more: format!("name: {name}\n"),
        })
    };
    let (mut lost, lives) = (named("lost"), named("lives"));
    for gateway in [&lost, &lives] {
        gateway.ready().await;
    }
    lost.process.kill_9();
    acceptance::eventually("a gateway is gone", || async {
        let listed = registry.json(&["fleet", "list", "--prefix", "lost"]);
        listed[0]["state"] == "gone"
    })
    .await;
    let stopped = registry.ctl(&[&STOP[..], &["json", "--yes"]].concat());
    assert_eq!(stopped.code, 6, "{stopped:?}");
    let rollout = stopped.json()["rollout"].clone();
    assert_eq!((&rollout["connected"], &rollout["applied"]), (&json!(1), &json!(1)));
    assert_eq!(rollout["missing"].as_array().map(Vec::len), Some(1), "{rollout}");
    assert_eq!(rollout["missing"][0]["gateway"], "lost");
    insta::assert_snapshot!(
        stopped.stderr.lines().last().expect("a remedy").trim_start(),
        @"= help: restore their connection and run the command again, or stop these gateways; a gateway counts for 1 h after it was last seen, also under an earlier principal if it has connected with a token of another name since"
    );
    assert_eq!(keys(&registry.json(&["list", "policies"])), ["policy/stop-tool-charge@1.0.0"]);
}

#[test]
fn stop_skips_names_of_other_policies() {
    let registry = Registry::start();
    let mut file = bank();
    let forbid = "forbid (principal, action, resource) unless { action == Action::\"cancel\" };";
    let named = |name: &str, members: serde_json::Value| {
        let mut policy = json!({
            "name": name, "version": "1.0.0", "appliesTo": { "tools": ["charge"] },
            "authorization": { "cedar": forbid },
        });
        policy
            .as_object_mut()
            .expect("an object")
            .extend(members.as_object().expect("an object").clone());
        policy
    };
    file["policies"] = json!([
        named("stop-tool-charge", json!({ "mode": "audit" })),
        named("stop-tool-charge-2", json!({ "appliesTo": { "tools": ["balance"] } })),
        named("stop-tool-charge-3", json!({})),
    ]);
    applied(&registry, &file);
    registry.run(&["retire", "policy/stop-tool-charge-3@1.0.0", "--yes"]);
    registry.run(&["archive", "policy/stop-tool-charge-3", "--yes"]);
    let stopped = registry.ctl(&[&STOP[..], &["json", "--yes", "--timeout", "1s"]].concat());
    assert_eq!((stopped.code, &stopped.json()["committed"]), (6, &json!(true)), "{stopped:?}");
    let denied = registry.json(&["policy", "explain", "charge"]);
    assert_eq!(
        [&denied["decision"], &denied["policy"]],
        [&json!("deny"), &json!("stop-tool-charge-4@1.0.0")]
    );
}

#[test]
fn stopped_team_neither_prepares_nor_undoes_a_stop() {
    let guarded = Guarded::start(&[]);
    let publisher = guarded.token("ann", "bank", "publisher");
    // The team has both roles, but in different tokens.
    let governor = guarded.token("gov", "bank", "governor");
    assert!(roles::apply(&guarded, &publisher, &bank()).success());
    let squatted = json!({ "schemaVersion": "2.0", "policies": [{
        "name": "stop-tool-charge", "version": "1.0.0", "mode": "audit",
        "appliesTo": { "tools": ["charge"] },
    }] });
    let refused = roles::apply(&guarded, &publisher, &squatted);
    assert_eq!(super::findings(&refused)[0].0, "role-required");

    let stop = ["policy", "stop", "tool/charge", "--reason", "x", "--yes", "--timeout", "1s"];
    let stopped = roles::run(&guarded, &governor, &stop);
    assert_eq!((stopped.code, &stopped.json()["committed"]), (6, &json!(true)), "{stopped:?}");
    let key = "policy/stop-tool-charge@1.0.0";
    for change in [
        &["retire", key, "--yes"][..],
        &["archive", "policy/stop-tool-charge", "--yes"],
        &["transfer", "policy/stop-tool-charge", "other", "--yes"],
    ] {
        let refused = roles::run(&guarded, &publisher, change);
        assert_eq!(super::findings(&refused)[0].0, "role-required", "{change:?}");
    }
    assert!(roles::run(&guarded, &governor, &["retire", key, "--yes"]).success());
}

#[test]
fn publisher_stops_and_allows_calls_of_its_team() {
    let guarded = Guarded::start(&[]);
    let create = ["token", "create", "--name", "eve", "--team", "bank", "--yes"];
    let create = [&create[..], &["--role", "publisher", "--role", "auditor"]].concat();
    let created = roles::run(&guarded, &guarded.admin, &create).json();
    let token = created["secret"].as_str().expect("a secret");
    assert!(roles::apply(&guarded, token, &bank()).success());
    let stop = ["policy", "stop", "tool/charge", "--reason", "x", "--yes", "--timeout", "1s"];
    assert_eq!(roles::run(&guarded, token, &stop).code, 6);
    let retire = ["retire", "policy/own-stop-tool-charge@1.0.0", "--yes"];
    assert!(roles::run(&guarded, token, &retire).success());
}

#[test]
fn stop_without_gateways_reports_missing_rollout() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let dry = registry.ctl(&[&STOP[..], &["json", "--dry-run"]].concat());
    assert_eq!((dry.code, &dry.json()["committed"]), (0, &json!(false)));
    let stopped = registry.ctl(&[&STOP[..], &["json", "--yes", "--timeout", "1s"]].concat());
    assert_eq!(stopped.code, 6, "{stopped:?}");
    let shown = registry.ctl(&[&STOP[..], &["table", "--yes", "--timeout", "1s"]].concat());
    assert_eq!(shown.code, 6, "{shown:?}");
    insta::assert_snapshot!(
        shown.stdout.lines().last().expect("a line"),
        @"to allow the calls again: registryctl retire policy/stop-tool-charge@1.0.0"
    );
    assert_eq!(keys(&registry.json(&["list", "policies"])), ["policy/stop-tool-charge@1.0.0"]);
    assert_eq!(registry.ctl(&["policy", "stop", "charge", "--reason", "x"]).code, 2);
}
