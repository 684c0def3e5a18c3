//! TLS on the single port, and authentication by client certificate.

use std::{path::Path, time::Duration};

use acceptance::{
    Gateway, GatewayOptions, Registry,
    access::{Guarded, create_token},
    tls::{Authority, Files, Mounted},
};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A server with a certificate that trusts client certificates of this authority.
fn serve(authority: &Authority, flags: &[&str]) -> Guarded {
    let Files { certificate, key } = authority.server();
    let tls = ["--tls-cert", text(&certificate), "--tls-key", text(&key), "--tls-client-ca"];
    let ca = [text(&authority.ca)];
    Guarded::start(&[&tls[..], &ca, flags].concat())
}

const RULES: [&str; 4] = [
    "--tls-client",
    "spiffe://prod/gateways/*=platform:gateway",
    "--tls-client",
    "ci.docs=docs:publisher",
];

fn whoami(registry: &Registry, ca: &Authority, files: Option<&Files>) -> Result<Value, String> {
    let mut arguments = vec!["whoami", "--output", "json", "--ca-cert", text(&ca.ca)];
    if let Some(Files { certificate, key }) = files {
        arguments.extend(["--client-cert", text(certificate), "--client-key", text(key)]);
    }
    let output = registry.ctl(&arguments);
    if output.success() {
        return Ok(serde_json::from_str(&output.stdout).expect("JSON"));
    }
    Err(format!("{}: {}", output.code, output.stderr))
}

#[test]
fn certificate_maps_to_configured_principal() {
    let authority = Authority::new();
    let guarded = serve(&authority, &RULES);
    let who = |name| whoami(&guarded.registry, &authority, Some(&authority.client(name)));
    let gateway = who("spiffe://prod/gateways/eu-1").expect("let in");
    assert_eq!(gateway["name"], "spiffe://prod/gateways/eu-1");
    assert_eq!((&gateway["team"], &gateway["method"]), (&"platform".into(), &"certificate".into()));
    let ci = who("ci.docs").expect("let in");
    assert_eq!((&ci["team"], &ci["roles"]), (&"docs".into(), &serde_json::json!(["publisher"])));
    for unknown in ["ci.docs.evil", "spiffe://prod/gateways", "spiffe://test/gateways/eu-1"] {
        let refused = who(unknown).expect_err(unknown);
        assert!(
            refused.starts_with("1:") && refused.contains("[CREDENTIALS_INVALID]"),
            "{refused}"
        );
    }
    let nobody = whoami(&guarded.registry, &authority, None).expect_err("nobody");
    assert!(nobody.contains("[CREDENTIALS_MISSING]"), "{nobody}");
}

#[test]
fn common_name_is_never_treated_as_spiffe_id() {
    let authority = Authority::new();
    let any = ["--tls-client", "gw-*=platform:gateway", "--tls-client", "anonymous=docs:admin"];
    let root = ["--tls-client", "spiffe://td/admin=root:admin"];
    let guarded = serve(&authority, &[&any[..], &root].concat());
    let who = |files: &Files| whoami(&guarded.registry, &authority, Some(files));
    who(&authority.client("spiffe://td/admin")).expect("let in");
    who(&authority.client("gw-1")).expect("let in");
    for name in ["spiffe://td/admin", "anonymous", "gw-\u{202e}ann", "gw-\u{200b}", "gw-*"] {
        let refused = who(&authority.common_name(name)).expect_err(name);
        assert!(
            refused.starts_with("1:") && refused.contains("[CREDENTIALS_INVALID]"),
            "{name}: {refused}"
        );
    }
    let upper = authority.client("SPIFFE://td/admin");
    assert!(who(&upper).is_err(), "not as a SPIFFE id, and not by its common name");
    let log = guarded.registry.process.stderr();
    for why in ["looks like a SPIFFE id", "does not start with spiffe://", "invisible"] {
        assert!(log.contains(why), "{why} is not in the log:\n{log}");
    }
}

#[test]
fn certificate_of_other_authority_is_rejected() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let guarded = serve(&ours, &RULES);
    let stranger = theirs.client("ci.docs");
    let refused = whoami(&guarded.registry, &ours, Some(&stranger)).expect_err("a stranger");
    assert!(refused.starts_with("3:"), "{refused}");
    let (_, cause) = refused.split_once("; ").expect("a possible cause");
    insta::assert_snapshot!(
        cause.lines().next().expect("a line"),
        @"the server may have rejected the client certificate: see its log"
    );
    let log = guarded.registry.process.stderr();
    let line = log.lines().find(|line| line.contains("certificate-rejected")).expect("a line");
    assert!(line.contains("WARN") && line.contains("127.0.0.1:"), "{line}");
    assert!(line.contains("UnknownIssuer") || line.contains("BadSignature"), "why: {line}");
    // The client sends no token to a server of another authority.
    let output =
        guarded.registry.ctl(&["whoami", "--ca-cert", text(&theirs.ca), "--token", &guarded.admin]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(!output.stderr.contains(&guarded.admin[17..]));
}

#[test]
fn ca_certificate_of_server_has_remedy() {
    let authority = Authority::new();
    let Files { certificate, key } = authority.server_as_ca();
    let registry =
        Registry::start_fresh(&["--tls-cert", text(&certificate), "--tls-key", text(&key)]);
    let refused = whoami(&registry, &authority, None).expect_err("a CA certificate");
    insta::assert_snapshot!(
        refused.lines().find(|line| line.contains("help: ")).expect("a remedy").trim_start(),
        @"= help: the server's certificate is a CA certificate; issue one with basicConstraints=CA:FALSE"
    );
    let log = registry.process.stderr();
    let line = log.lines().find(|line| line.contains(text(&certificate))).expect("a warning");
    assert!(line.contains("WARN"), "{line}");
}

#[tokio::test]
async fn tls_serves_both_http_versions_with_tokens() {
    let authority = Authority::new();
    let guarded = serve(&authority, &[]);
    let url = guarded.registry.url();
    assert!(url.starts_with("https://"), "{url}");
    let ca = std::fs::read(&authority.ca).expect("a file");
    for (is_old, version) in [(true, reqwest::Version::HTTP_11), (false, reqwest::Version::HTTP_2)]
    {
        let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
        let builder = reqwest::Client::builder().tls_certs_only([ca]);
        let builder = if is_old { builder.http1_only() } else { builder };
        let client = builder.build().expect("a client");
        let answer = client.get(format!("{url}/livez")).send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
        let file = client.get(format!("{url}/registry.json")).bearer_auth(&guarded.admin);
        assert_eq!(file.send().await.expect("an answer").status().as_u16(), 200);
    }
    let arguments = ["list", "--ca-cert", text(&authority.ca), "--token", &guarded.admin];
    assert!(guarded.registry.ctl(&arguments).success());
    // Plain text on the TLS port gets no response.
    let plain = reqwest::get(url.replace("https", "http") + "/livez").await;
    assert!(plain.is_err(), "{plain:?}");
}

#[tokio::test]
async fn gateway_follows_over_tls_with_either_credential() {
    let authority = Authority::new();
    let guarded = serve(&authority, &RULES);
    let example = acceptance::root().join("examples/registry-v2.json");
    let apply = ["apply", "-f", text(&example), "--yes", "--token", &guarded.admin, "--ca-cert"];
    let applied = guarded.registry.ctl(&[&apply[..], &[text(&authority.ca)]].concat());
    assert!(applied.success(), "{applied:?}");

    let dir = tempfile::tempdir().expect("a temporary directory");
    let token = dir.path().join("token");
    let secret = create_token(&guarded.database, "gateway-1", "platform", "gateway");
    std::fs::write(&token, &secret).expect("a file");
    let Files { certificate, key } = authority.client("spiffe://prod/gateways/eu-1");
    let ca = text(&authority.ca);
    let source = format!("grpcs://{}", guarded.registry.address);
    for proof in [
        format!("{source}\n  caFile: {ca}\n  tokenFile: {}", text(&token)),
        format!(
            "{source}\n  caFile: {ca}\n  certFile: {}\n  keyFile: {}",
            text(&certificate),
            text(&key)
        ),
        format!(
            "{}/registry.json\n  caFile: {ca}\n  tokenFile: {}",
            guarded.registry.url(),
            text(&token)
        ),
    ] {
        let gateway = Gateway::start(&options(&proof));
        gateway.ready().await;
        assert!(!gateway.process.stderr().contains(&secret[17..]), "the token is not logged");
    }
    let stranger = Gateway::start(&options(&format!("{source}\n  caFile: {ca}")));
    acceptance::eventually("it is refused", || async {
        stranger.process.stderr().contains("Unauthenticated")
    })
    .await;
}

/// Whether a new client that trusts this authority is served.
async fn is_served(url: &str, authority: &Authority) -> bool {
    authority.trusting().get(format!("{url}/livez")).send().await.is_ok()
}

#[tokio::test]
async fn rotated_certificates_keep_open_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let mounted = Mounted::new(&old);
    let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|file| mounted.path(file));
    let files = ["--tls-cert", text(&certificate), "--tls-key", text(&key), "--tls-client-ca"];
    let guarded = Guarded::start(&[&files[..], &[text(&ca)], &RULES].concat());
    let (url, ci) = (guarded.registry.url(), "ci.docs");
    let livez = format!("{url}/livez");
    let early = old.trusting();
    assert!(early.get(&livez).send().await.is_ok());
    assert!(!is_served(&url, &new).await);
    whoami(&guarded.registry, &old, Some(&old.client(ci))).expect("known by the old authority");

    mounted.exchange(&new);
    acceptance::eventually("the new certificate", || is_served(&url, &new)).await;
    assert!(!is_served(&url, &old).await, "the old one is gone");
    assert!(early.get(&livez).send().await.is_ok(), "the connection from before stays");
    whoami(&guarded.registry, &new, Some(&new.client(ci))).expect("known by the new authority");
    let refused = whoami(&guarded.registry, &new, Some(&old.client(ci))).expect_err("the old one");
    assert!(refused.starts_with("3:"), "{refused}");

    std::fs::write(&key, "no key").expect("a file");
    acceptance::eventually("the failure is counted", || async {
        let refused = r#"registry_tls_reloads_total{outcome="rejected"} 1"#;
        guarded.registry.metrics().await.contains(refused)
    })
    .await;
    assert!(is_served(&url, &new).await, "open connections continue");
    mounted.exchange(&old);
    acceptance::eventually("and mended", || is_served(&url, &old)).await;
    let metrics = guarded.registry.metrics().await;
    for line in ["outcome=\"applied\"} 2", "outcome=\"rejected\"} 1"] {
        assert!(metrics.contains(&format!("registry_tls_reloads_total{{{line}")), "{metrics}");
    }
}

#[tokio::test]
async fn revoked_certificate_is_rejected_after_list_update() {
    let authority = Authority::new();
    let revoked = authority.revoke(&["somebody"]);
    let guarded = serve(&authority, &[&RULES[..], &["--tls-client-crl", text(&revoked)]].concat());
    let who = |name| whoami(&guarded.registry, &authority, Some(&authority.client(name)));
    let gateway = "spiffe://prod/gateways/eu-1";
    who("ci.docs").expect("let in");
    assert!(who("somebody").expect_err("revoked").starts_with("3:"), "no connection");
    let metrics = guarded.registry.metrics().await;
    let counted = |line: &str| line.starts_with("registry_tls_client_certificates_rejected_total ");
    assert!(metrics.lines().any(counted), "{metrics}");
    assert!(guarded.registry.process.stderr().contains("Revoked"), "the log says why");
    authority.revoke(&["somebody", "ci.docs"]);
    acceptance::eventually("it is refused", || async { who("ci.docs").is_err() }).await;
    who(gateway).expect("other clients are accepted");
    let token = ["whoami", "--ca-cert", text(&authority.ca), "--token", &guarded.admin];
    assert!(guarded.registry.ctl(&token).success(), "clients without a certificate too");
    let other = Authority::new();
    std::fs::copy(other.revoke(&[]), &revoked).expect("a copy");
    acceptance::eventually("a list of others says nothing", || async { who(gateway).is_err() })
        .await;
}

/// The connection is opened while the certificate is valid, and stays open.
#[tokio::test]
async fn expired_certificate_is_rejected_on_open_connection() {
    let authority = Authority::new();
    let guarded = serve(&authority, &RULES);
    let files = authority.short_lived("ci.docs", Duration::from_secs(5));
    let client = authority.trusting_as(&files);
    let url = format!("{}/registry.json", guarded.registry.url());
    let status = async || client.get(&url).send().await.map(|answer| answer.status().as_u16());
    assert_eq!(status().await.expect("a connection"), 200);
    acceptance::eventually("the open connection is no longer authenticated", || async {
        status().await.is_ok_and(|status| status == 401)
    })
    .await;
    // Certificate validity has a resolution of one second.
    acceptance::eventually("TLS rejects a new connection", || async {
        authority.trusting_as(&files).get(&url).send().await.is_err()
    })
    .await;
}

fn options(source: &str) -> GatewayOptions {
    let (targets, runtime) = (String::new(), None);
    GatewayOptions { source: source.to_owned(), targets, runtime, more: String::new() }
}

#[tokio::test]
async fn broken_connection_names_possible_causes() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let guarded = serve(&ours, &RULES);
    let open = Registry::start();
    let (secure, ca) = (&guarded.registry.address, text(&ours.ca));
    let Files { certificate, key } = theirs.client("spiffe://prod/gateways/eu-1");
    let stranger = format!("certFile: {}\n  keyFile: {}", text(&certificate), text(&key));
    let other = Gateway::start(&options(&format!("grpc://{}", open.address)));
    for (source, hint) in [
        (
            format!("grpcs://{secure}\n  caFile: {ca}\n  {stranger}"),
            "may have rejected the client certificate",
        ),
        (format!("grpc://{secure}"), "if the server expects TLS, write grpcs://"),
        (format!("grpc://{}", other.address), "the server is not a registry"),
        (format!("grpcs://{}\n  caFile: {ca}", open.address), "does not use TLS, write grpc://"),
    ] {
        let gateway = Gateway::start(&options(&source));
        acceptance::eventually(hint, || async { gateway.process.stderr().contains(hint) }).await;
    }
}
