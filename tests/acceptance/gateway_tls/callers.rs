//! TLS of callers: server certificates and required client certificates.

use std::process::Command;

use acceptance::{binary, tls::Mounted};

use super::{Authority, Backend, agent, gateway, pair, text, works};

#[tokio::test]
async fn agent_calls_over_tls_only() {
    let (authority, other, backend) = (Authority::new(), Authority::new(), Backend::start());
    let gateway = gateway(&backend.targets(), &pair(&authority.server()));
    assert!(gateway.process.greeting.contains("https://127.0.0.1:"));
    works(&agent(&gateway, authority.trusting())).await;
    let livez = format!("{}/livez", gateway.url());
    let answer = authority.trusting().get(&livez).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_11));
    // Clients of gRPC offer HTTP/2 only.
    let http2 = authority.client_builder().http2_prior_knowledge().build().expect("a client");
    let answer = http2.get(&livez).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));

    assert!(other.trusting().get(&livez).send().await.is_err(), "another authority");
    let plain = reqwest::get(livez.replace("https", "http")).await;
    assert!(plain.is_err(), "plain text on the port of TLS: {plain:?}");
    assert!(!gateway.process.stderr().contains("certificate-rejected"), "no certificate was sent");
}

#[tokio::test]
async fn client_certificate_is_required_and_verified() {
    let (authority, other, backend) = (Authority::new(), Authority::new(), Backend::start());
    let (ca, crl) = (text(&authority.ca).to_owned(), authority.revoke(&["revoked"]));
    let asks = format!("clientCaFile: {ca}, clientCrlFile: {}", text(&crl));
    let tls = format!("{}, {asks}", pair(&authority.server()));
    let gateway = gateway(&backend.targets(), &tls);
    let livez = format!("{}/livez", gateway.url());
    for (who, http) in [
        ("nobody", authority.trusting()),
        ("a stranger", authority.trusting_as(&other.client("planner"))),
        ("one that was revoked", authority.trusting_as(&authority.client("revoked"))),
    ] {
        let refused = http.get(&livez).send().await;
        assert!(refused.is_err(), "{who}: {refused:?}");
    }
    let known = authority.trusting_as(&authority.client("planner"));
    works(&agent(&gateway, known.clone())).await;
    let log = gateway.process.stderr();
    assert_eq!(log.matches("certificate-rejected").count(), 3, "{log}");
    for why in ["no certificates", "Revoked"] {
        assert!(log.contains(why), "no {why} in the log:\n{log}");
    }
    let metrics = known.get(format!("{}/metrics", gateway.url())).send().await.expect("metrics");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("gateway_tls_client_certificates_rejected_total 3"), "{metrics}");
}

#[tokio::test]
async fn server_certificate_is_reloaded() {
    let (old, new) = (Authority::new(), Authority::new());
    let mounted = Mounted::new(&old);
    let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|file| mounted.path(file));
    let (certificate, key, ca) = (text(&certificate), text(&key), text(&ca));
    let tls = format!("certFile: {certificate}, keyFile: {key}, clientCaFile: {ca}");
    let gateway = gateway("", &tls);
    let livez = format!("{}/livez", gateway.url());
    let known = |authority: &Authority| authority.trusting_as(&authority.client("planner"));
    let is_served = async |http: reqwest::Client| http.get(&livez).send().await.is_ok();
    let early = known(&old);
    assert!(is_served(early.clone()).await);
    assert!(!is_served(known(&new)).await);

    mounted.exchange(&new);
    acceptance::eventually("the new certificate", || is_served(known(&new))).await;
    assert!(!is_served(known(&old)).await, "the old one is gone");
    assert!(is_served(early).await, "the connection from before stays");
    std::fs::write(mounted.path("tls.key"), "no key").expect("a file");
    acceptance::eventually("the failure is logged", || async {
        !gateway.process.logged(&["ERROR", "tls.key"]).is_empty()
    })
    .await;
    assert!(is_served(known(&new)).await, "open connections continue");
}

#[test]
fn authenticated_calls_need_no_client_certificates() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let tls = format!("tls: {{ {} }}", pair(&authority.server()));
    let keys = format!("apiKeys: [{{ agent: planner, sha256: {} }}]", "ab".repeat(32));
    for (tls, identity, is_accepted) in [
        (&*tls, format!("required: true, {keys}"), true),
        ("", format!("required: true, {keys}"), false),
        (&tls, keys.clone(), false),
        (&tls, format!("required: true, trustHeaders: true, {keys}"), false),
        (
            &tls,
            format!("required: true, trustHeaders: true, trustedProxies: [10.0.0.7], {keys}"),
            true,
        ),
        (&tls, format!("required: true, trustedProxies: [10.0.0.7, 0.0.0.0/0], {keys}"), false),
        (&tls, format!("required: true, trustedProxies: ['::/0'], {keys}"), false),
        (&tls, "required: true, trustedProxies: [10.0.0.7]".to_owned(), false),
    ] {
        let file = dir.path().join("gateway.yaml");
        let config = format!(
            "listen: 0.0.0.0:0\nregistry: {{ source: grpc://127.0.0.1:1 }}\n{tls}\n\
             identity: {{ {identity} }}\n"
        );
        std::fs::write(&file, &config).expect("a file");
        let mut command = Command::new(binary("gateway-agent"));
        command.arg("--config").arg(&file).arg("--check").current_dir(&dir);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = if is_accepted { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(expected), "{config}: {said}");
        assert_eq!(said.contains("--insecure"), !is_accepted, "{config}: {said}");
    }
}

#[test]
fn incomplete_tls_settings_are_rejected() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (ours, theirs) = (authority.server(), other.client("theirs"));
    let [certificate, key, foreign] =
        [&ours.certificate, &ours.key, &theirs.key].map(|path| text(path));
    let open = "--listen=0.0.0.0:0";
    for (flags, code, why) in [
        (&["--tls-cert", certificate][..], 2, "--tls-key <FILE>"),
        (&["--tls-key", key], 2, "--tls-cert <FILE>"),
        (&["--tls-client-ca", text(&authority.ca)], 2, "needs `certFile` and `keyFile`"),
        (&["--tls-cert", certificate, "--tls-key", foreign], 2, foreign),
        (&["--tls-cert", certificate, "--tls-key", "/nobody/has/this"], 2, "/nobody/has/this"),
        (&["--tls-cert", key, "--tls-key", key], 2, "the file has no certificate"),
        (&["--tls-cert", certificate, "--tls-key", key, "--tls-client-crl", key], 2, "needs"),
        (&["--tls-cert", certificate, "--tls-key", key, open], 2, "--insecure"),
        (&["--tls-cert", certificate, "--tls-key", key], 0, ""),
        (
            &["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", certificate, open],
            0,
            "",
        ),
    ] {
        let mut command = Command::new(binary("gateway-agent"));
        command.args(["--check", "--registry", "grpc://127.0.0.1:1"]).args(flags);
        let output = command.current_dir("/").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(why), "{flags:?}: no {why:?} in {said}");
    }
}
