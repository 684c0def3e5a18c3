//! `registryctl` with a token: tokens made, listed, ended; whoami; who the author is.

use std::process::Command;

use acceptance::{access::Guarded, binary, root};
use serde_json::Value;

struct Ctl<'a> {
    guarded: &'a Guarded,
    token: &'a str,
}

impl Ctl<'_> {
    /// The exit code and both outputs.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(binary("registryctl"))
            .args(["--registry", &self.guarded.registry.url()])
            .args(arguments)
            .env("REGISTRY_TOKEN", self.token)
            .env("USER", "somebody")
            .current_dir(root())
            .output()
            .expect("registryctl runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.run(&[arguments, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}");
        serde_json::from_str(&out).expect("JSON")
    }
}

#[test]
fn an_admin_makes_and_ends_a_token_and_its_holder_is_its_name() {
    let guarded = Guarded::start(&[]);
    let admin = Ctl { guarded: &guarded, token: &guarded.admin };
    let made =
        admin.json(&["token", "create", "--name", "ci", "--team", "docs", "--role", "publisher"]);
    let secret = made["secret"].as_str().expect("a text");
    let ci = Ctl { guarded: &guarded, token: secret };
    let who = ci.json(&["whoami"]);
    assert_eq!((&who["name"], &who["team"]), (&"ci".into(), &"docs".into()));
    assert_eq!(
        (&who["roles"], &who["address"]),
        (&serde_json::json!(["publisher"]), &"127.0.0.1".into())
    );
    assert_eq!(who["method"], format!("token {}", &secret[4..16]));

    let (code, _, err) = ci.run(&["token", "list"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("`ci` may not do this: it has publisher, and needs one of admin"),
        "{err}"
    );
    let (code, list, _) = admin.run(&["token", "list"]);
    assert!(code == 0 && list.contains("ci") && !list.contains(&secret[17..]), "{list}");

    let applied = ["apply", "-f", "examples/registry-v2.json", "--yes"];
    let (code, _, err) = ci.run(&[&applied[..], &["--author", "boss"]].concat());
    assert_eq!(code, 1);
    assert!(err.contains("`boss` is not who is calling, `ci`"), "{err}");
    assert_eq!(ci.run(&applied).0, 0);
    assert_eq!(ci.json(&["show", "1"])["author"], "ci", "not the user of this machine");

    let id = made["token"]["id"].as_str().expect("an id");
    assert_eq!(admin.run(&["token", "revoke", id]).0, 0);
    let (code, _, err) = ci.run(&["whoami"]);
    assert_eq!(code, 1);
    assert!(err.contains("the credentials are not valid") && !err.contains(secret), "{err}");
    let ended = admin.json(&["token", "list", "--all"]);
    assert!(ended.as_array().expect("a list").iter().any(|token| token["revokedBy"] == "root"));
}

#[test]
fn a_token_comes_from_a_file_and_never_goes_out_in_plain_text() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{}\n", guarded.admin)).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let registry = &guarded.registry;
    assert!(registry.ctl(&["whoami", "--token-file", file]).success());
    assert_eq!(registry.ctl(&["whoami", "--token-file", "/nobody/has/this"]).code, 2);
    // A name of the documentation range, where nobody listens.
    let far = acceptance::ctl("http://192.0.2.1:7070", &["whoami", "--token-file", file]);
    assert_eq!(far.code, 2, "{far:?}");
    assert!(far.stderr.contains("in plain text") && !far.stderr.contains(&guarded.admin[17..]));
}

#[test]
fn who_asks_too_much_is_told_when_to_come_again() {
    let guarded = Guarded::start(&["--rate-limit", "1", "--rate-burst", "2"]);
    let admin = Ctl { guarded: &guarded, token: &guarded.admin };
    let codes: Vec<_> = (0..4).map(|_| admin.run(&["whoami"])).collect();
    assert_eq!(codes[0].0, 0);
    assert!(codes.iter().any(|(_, _, err)| err.contains("RATE_LIMITED")), "{codes:?}");
}
