//! Secrets of targets in files and in the environment: headers, and environments of child
//! processes.

use std::{fs, process::Command};

use acceptance::{Backend, ModernClient, binary, eventually, process::signal_process};

use super::{
    SECRET, assert_kept, fetch, gateway, is_up,
    upstream::{TokenEndpoint, Upstream},
};

#[tokio::test]
async fn header_secret_is_reloaded_from_file() {
    let upstream = Upstream::modern().await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    fs::write(&file, "first-s3cret\n").expect("a file");
    let path = std::env::vars().find(|(name, _)| name == "PATH").expect("there is one").1;
    let headers = format!(
        "headers: {{ authorization: {{ file: {}, prefix: \"Bearer \" }}, x-path: {{ env: PATH }}, \
         x-literal: litera1 }}",
        file.display()
    );
    let gateway = gateway(&upstream, &headers, "");
    is_up(&gateway).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let shown = async || {
        assert_eq!(fetch(&client).await.text(), "fetched");
        upstream.last_call().authorization
    };
    assert_eq!(shown().await, "Bearer first-s3cret");
    assert!(upstream.seen().contains(&format!("x-path: {path}\r\n")));
    assert!(upstream.seen().contains("x-literal: litera1\r\n"));

    fs::write(&file, "second-s3cret\n").expect("a file");
    eventually("the new secret is sent", || async { shown().await == "Bearer second-s3cret" })
        .await;
    let endless = "x".repeat(70_000);
    for (bad, failures) in [("", 1), ("third-s3cret\nx: y", 2), (&endless, 3)] {
        fs::write(&file, bad).expect("a file");
        let server = "target.server=server/fetch-server@1.2.3";
        eventually("the failure is logged", || async {
            gateway.process.logged(&["ERROR", server, "reason="]).len() == failures
        })
        .await;
        assert_eq!(shown().await, "Bearer second-s3cret", "what cannot be used changes nothing");
    }
    fs::remove_file(&file).expect("it exists");
    fs::write(&file, "fourth-s3cret").expect("a file");
    eventually("it is taken again", || async { shown().await == "Bearer fourth-s3cret" }).await;
    assert_kept(&gateway, &["s3cret", "litera1", &path]).await;
}

#[tokio::test]
async fn client_secret_is_reloaded_from_file() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    tokens.set_behavior(super::upstream::valid_for(1));
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("secret");
    fs::write(&file, "wrong-s3cret").expect("a file");
    let target = format!(
        "auth: {{ clientCredentials: {{ tokenUrl: \"{}\", clientId: \"gate way\", \
         clientSecret: {{ file: {} }} }} }}",
        tokens.url,
        file.display()
    );
    let gateway = gateway(&upstream, &target, "");
    gateway.ready().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let refused = fetch(&client).await;
    assert!(refused.is_tool_error() && refused.text().contains("invalid_client"), "{refused:?}");
    let told = gateway.targets().await;
    assert!(told.contains("401") && told.contains("invalid_client"), "{told}");
    fs::write(&file, format!("{SECRET}\n")).expect("a file");
    eventually("the right one is used", || async { !fetch(&client).await.is_tool_error() }).await;
    fs::remove_file(&file).expect("it exists");
    eventually("there is none", || async { fetch(&client).await.is_tool_error() }).await;
    assert_kept(&gateway, &["s3cret", SECRET]).await;
}

#[tokio::test]
async fn child_environment_has_secrets_at_start() {
    let backend = Backend::start();
    let dir = tempfile::tempdir().expect("a directory");
    let (file, heard) = (dir.path().join("secret"), dir.path().join("heard"));
    let id = dir.path().join("id");
    fs::write(&file, "first-s3cret\n").expect("a file");
    let script = dir.path().join("child.sh");
    let program = binary("demo-backend");
    let text = format!(
        "echo $$ > {}\nprintf '%s %s' \"$KEY\" \"$PLAIN\" > {}\nexec {} --stdio time-server\n",
        id.display(),
        heard.display(),
        program.display()
    );
    fs::write(&script, text).expect("a file");
    let usual = format!("command: {}, args: [--stdio, time-server]", program.display());
    let with_env = format!(
        "command: sh, args: [{}], env: {{ KEY: {{ file: {}, prefix: \"k:\" }}, PLAIN: p }}",
        script.display(),
        file.display()
    );
    let targets = backend.targets().replace(&usual, &with_env);
    assert!(targets.contains(&with_env), "{targets}");
    let example = acceptance::root().join("examples/registry-v2.json");
    let gateway = acceptance::Gateway::start(&acceptance::GatewayOptions {
        source: format!("file://{}", example.display()),
        targets,
        runtime: None,
        more: "admin: 127.0.0.1:0\n".to_owned(),
    });
    let child_heard = |text: &'static str| {
        let heard = heard.clone();
        eventually("the child reports its environment", move || {
            let heard = heard.clone();
            async move { fs::read_to_string(heard).is_ok_and(|heard| heard == text) }
        })
    };
    child_heard("k:first-s3cret p").await;
    fs::write(&file, "second-s3cret").expect("a file");
    let child = fs::read_to_string(&id).expect("its id");
    signal_process(child.trim().parse().expect("a number"), "TERM");
    child_heard("k:second-s3cret p").await;
    assert_kept(&gateway, &["s3cret"]).await;
}

#[test]
fn unusable_secrets_are_reported_at_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, empty) = (dir.path().join("gateway.yaml"), dir.path().join("empty"));
    fs::write(&empty, "\n").expect("a file");
    let jwt = "identity: { jwt: { issuer: i, audience: a, jwks: f } }\n";
    let client = "clientId: c, clientSecret: s3cret";
    let exchange = format!("auth: {{ tokenExchange: {{ tokenUrl: 'https://id/t', {client} }} }}");
    let own = |more: &str| format!("auth: {{ clientCredentials: {{ {more} }} }}");
    let url = "tokenUrl: 'https://id/t'";
    for (head, target, place, why) in [
        ("", "headers: { a: { file: /nobody/has/this } }".to_owned(), "headers.a", "No such file"),
        ("", format!("headers: {{ a: {{ file: {} }} }}", empty.display()), "headers.a", "empty"),
        ("", "headers: { a: { env: NOBODY_SET_THIS } }".to_owned(), "headers.a.env", "not set"),
        ("", "headers: { a: { env: X, file: y } }".to_owned(), "headers.a", "one of `file: PATH`"),
        ("", "headers: { a: { fil: y } }".to_owned(), "headers.a.fil", "unknown field"),
        ("", "auth: {}".to_owned(), "auth", "needs one of `clientCredentials`"),
        ("", own(client), "tokenUrl", "missing"),
        ("", own(url), "clientSecret", "missing"),
        (
            "",
            own(&format!("{client}, tokenUrl: 'http://id/t?key=s3cret'")),
            "tokenUrl",
            "plain text",
        ),
        (
            "",
            own(&format!("{client}, tokenUrl: 'https://u:s3cret@id/t'")),
            "tokenUrl",
            "contains a user and a password",
        ),
        (
            "",
            own(&format!("{client}, {url}, clientAuthentication: none")),
            "Authentication",
            "is not one of",
        ),
        ("", own(&format!("{client}, {url}, scopes: ['a b']")), "scopes", "is not a scope"),
        ("", own(&format!("{client}, {url}, resource: far")), "resource", "not an absolute URI"),
        (
            "",
            format!("{exchange}, headers: {{ Authorization: s3cret }}"),
            "targets[0]",
            "are both set",
        ),
        ("", exchange.clone(), "targets[0]", "needs `identity.jwt`"),
        (jwt, format!("{exchange}, http: 'http://far/mcp'"), "auth", "allowInsecureToken"),
    ] {
        let http = if target.contains(", http: ") { "" } else { "http: 'https://far/mcp', " };
        let yaml = format!(
            "{head}registry: {{ source: \"file://x\" }}\ntargets:\n- {{ server: s, version: 1.0.0, \
             {http}{target} }}\n"
        );
        fs::write(&config, &yaml).expect("a file");
        let mut command = Command::new(binary("gateway-agent"));
        let output = command.arg("--check").arg("--config").arg(&config).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{target}: {said}");
        assert!(said.contains("line ") && said.contains(place), "{target}: {said}");
        assert!(said.contains(why), "{target}: no {why:?} in {said}");
        assert!(!said.contains("s3cret"), "{target}: {said}");
    }
}
