//! The CA bundle, the client certificate and its key of programs that connect to a registry.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use acceptance::{
    CtlOutput, Gateway, GatewayOptions,
    access::Guarded,
    binary, ctl, eventually,
    tls::{Authority, Files},
};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs a program that exits by itself.
fn run(program: &str, arguments: &[&str]) -> CtlOutput {
    Command::new(binary(program)).args(arguments).output().expect("it runs").into()
}

#[test]
fn mismatched_client_keys_are_rejected_by_every_program() {
    let authority = Authority::new();
    let (ours, theirs) = (authority.client("ours"), authority.client("theirs"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("gateway.yaml");
    let (gateway, data) = (text(&file), text(dir.path()));
    let secure = "grpcs://127.0.0.1:1";
    for (certificate, key) in [(&ours.certificate, &theirs.key), (&ours.key, &ours.certificate)] {
        let (certificate, key) = (text(certificate), text(key));
        for source in [secure, "https://127.0.0.1:1/registry.json"] {
            let pair = format!("certFile: {certificate}, keyFile: {key}");
            let yaml = format!("registry: {{ source: \"{source}\", {pair} }}\n");
            fs::write(&file, yaml).expect("a file");
            for arguments in [&["--config", gateway, "--check"][..], &["--config", gateway]] {
                names_both(&run("gateway-agent", arguments), certificate, key);
            }
        }
        let relay = ["--data-dir", data, "--follow", secure];
        let pair = ["--follow-cert", certificate, "--follow-cert-key", key];
        names_both(&run("registry-server", &[relay, pair].concat()), certificate, key);
        let pair = ["--client-cert", certificate, "--client-key", key];
        let whoami = [&["whoami"][..], &pair].concat();
        names_both(&ctl("https://127.0.0.1:1", &whoami), certificate, key);
        let admin = ["gateway", "--admin", "https://127.0.0.1:1", "targets"];
        names_both(&ctl("https://127.0.0.1:1", &[&admin[..], &pair].concat()), certificate, key);
    }
}

/// Asserts that a program exits with 2 and names both files.
fn names_both(output: &CtlOutput, certificate: &str, key: &str) {
    assert_eq!(output.code, 2, "{output:?}");
    for path in [certificate, key] {
        assert!(output.stderr.contains(path), "{path}: {output:?}");
    }
}

#[test]
fn unusable_revocation_list_names_required_form() {
    let authority = Authority::new();
    let Files { certificate, key } = authority.server();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let list = dir.path().join("crl.pem");
    let empty = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
    fs::write(&list, empty).expect("a file");
    let server = ["--listen", "127.0.0.1:0", "--data-dir", text(dir.path())];
    let tls = ["--tls-cert", text(&certificate), "--tls-key", text(&key)];
    let clients = ["--tls-client-ca", text(&authority.ca), "--tls-client-crl", text(&list)];
    let rejected = run("registry-server", &[&server[..], &tls, &clients].concat());
    assert_eq!(rejected.code, 2, "{rejected:?}");
    for part in [text(&list), "crlnumber"] {
        assert!(rejected.stderr.contains(part), "{part}: {rejected:?}");
    }
}

#[tokio::test]
async fn untrusted_registries_name_the_setting() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let Files { certificate, key } = ours.server();
    let guarded = Guarded::start(&["--tls-cert", text(&certificate), "--tls-key", text(&key)]);
    let (address, ca) = (&guarded.registry.address, text(&theirs.ca));
    for source in [format!("grpcs://{address}"), format!("https://{address}/registry.json")] {
        for ca in [String::new(), format!("\n  caFile: {ca}")] {
            let gateway = Gateway::start(&options(format!("{source}{ca}")));
            let setting = "registry.caFile";
            eventually(setting, || async { gateway.process.stderr().contains(setting) }).await;
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = dir.path().join("log");
    let mut relay = Command::new(binary("registry-server"))
        .args(["--listen", "127.0.0.1:0", "--data-dir", text(dir.path()), "--follow-ca", ca])
        .args(["--follow", &format!("grpcs://{address}")])
        .stderr(File::create(&log).expect("a log"))
        .spawn()
        .expect("it starts");
    let logged = || fs::read_to_string(&log).expect("a log");
    eventually("--follow-ca", || async { logged().contains("--follow-ca") }).await;
    relay.kill().and_then(|()| relay.wait()).expect("it ends");
}

/// The status of an answer decides the setting that its remedy names.
#[tokio::test]
async fn unusable_file_sources_name_the_setting() {
    let guarded = Guarded::start(&[]);
    let url = guarded.registry.url();
    for (source, remedy) in
        [(format!("{url}/registry.json"), "registry.tokenFile"), (url, "/registry.json")]
    {
        let gateway = Gateway::start(&options(source));
        eventually(remedy, || async {
            !gateway.process.logged(&["unexpected HTTP status", remedy]).is_empty()
        })
        .await;
    }
}

fn options(source: String) -> GatewayOptions {
    GatewayOptions { source, targets: String::new(), runtime: None, more: String::new() }
}
