//! TLS of upstreams: client certificates of the gateway, and verification of server certificates.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use acceptance::{binary, tls::Mounted};
use registry_tls::{Acceptor, ClientAuth, MetricsHooks, ServerFiles};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use super::{Authority, Backend, agent, gateway, is_answered, pair, text, works};

/// Terminates TLS in front of the demo backend and requires a valid client certificate.
struct TlsTerminator {
    address: SocketAddr,
    /// The number of connections with a certificate.
    shown: Arc<AtomicUsize>,
    cut: Arc<Notify>,
}

impl TlsTerminator {
    async fn start(mounted: &Mounted, backend: &Backend) -> Self {
        let files = ServerFiles {
            certificate: mounted.path("tls.crt"),
            key: mounted.path("tls.key"),
            client_ca: Some(mounted.path("ca.crt")),
            client_crl: None,
            client_auth: ClientAuth::Required,
            protocols: &["http/1.1"],
        };
        let tls = Acceptor::open(files, MetricsHooks { reloaded: |_| (), rejected: || () });
        let (tls, to) = (tls.expect("good files"), backend.process.address());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shown = Arc::new(AtomicUsize::new(0));
        let (counted, cut) = (Arc::clone(&shown), Arc::new(Notify::new()));
        let ended = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, to) = (tls.clone(), to.clone());
                let (counted, ended) = (Arc::clone(&counted), Arc::clone(&ended));
                tokio::spawn(async move {
                    let Some(mut stream) = tls.accept(stream).await else { return };
                    let has_one = stream.get_ref().1.peer_certificates().is_some();
                    counted.fetch_add(usize::from(has_one), Ordering::Relaxed);
                    let mut backend = TcpStream::connect(to).await.expect("the backend");
                    tokio::select! {
                        _ = copy_bidirectional(&mut stream, &mut backend) => {}
                        () = ended.notified() => {}
                    }
                });
            }
        });
        Self { address, shown, cut }
    }

    /// The targets of the backend, with the document service behind TLS.
    fn targets(&self, backend: &Backend, tls: &str) -> String {
        let direct = format!("http://{}/documents/mcp\"", backend.process.address());
        let through = format!("https://{}/documents/mcp\", tls: {{ {tls} }}", self.address);
        let targets = backend.targets().replace(&direct, &through);
        assert!(targets.contains(&through), "{targets}");
        targets
    }
}

#[tokio::test]
async fn gateway_presents_certificate_to_upstream() {
    let (authority, backend) = (Authority::new(), Backend::start());
    let front = TlsTerminator::start(&Mounted::new(&authority), &backend).await;
    let tls = format!("caFile: {}, {}", text(&authority.ca), pair(&authority.client("gateway")));
    let gateway = gateway(&front.targets(&backend, &tls), "");
    works(&agent(&gateway, reqwest::Client::new())).await;
    assert!(front.shown.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn certificate_errors_are_reported() {
    let (authority, other, backend) = (Authority::new(), Authority::new(), Backend::start());
    let front = TlsTerminator::start(&Mounted::new(&authority), &backend).await;
    let (ours, theirs) = (authority.client("gateway"), other.client("gateway"));
    let [right, wrong] = [&authority.ca, &other.ca].map(|ca| format!("caFile: {}", text(ca)));
    for (tls, why) in [
        (format!("{wrong}, {}", pair(&ours)), "certificate"),
        (pair(&ours), "UnknownIssuer"),
        (right.clone(), "certificate"),
        (format!("{right}, {}", pair(&theirs)), "certificate"),
    ] {
        let gateway = gateway(&front.targets(&backend, &tls), "");
        gateway.ready().await;
        let agent = agent(&gateway, reqwest::Client::new());
        let failed = ["outcome=\"upstream-failed\"", "server/document-service@1.2.0", why];
        acceptance::eventually(why, || async {
            assert!(!is_answered(&agent).await);
            !gateway.process.logged(&failed).is_empty()
        })
        .await;
    }
    assert_eq!(front.shown.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn upstream_certificates_are_reloaded() {
    let (old, new, backend) = (Authority::new(), Authority::new(), Backend::start());
    let (theirs, ours) = (Mounted::new(&old), Mounted::new(&old));
    let front = TlsTerminator::start(&theirs, &backend).await;
    let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|file| ours.path(file));
    let (certificate, key, ca) = (text(&certificate), text(&key), text(&ca));
    let tls = format!("caFile: {ca}, certFile: {certificate}, keyFile: {key}");
    let gateway = gateway(&front.targets(&backend, &tls), "");
    let agent = agent(&gateway, reqwest::Client::new());
    works(&agent).await;
    theirs.exchange(&new);
    acceptance::eventually("it trusts only the old one", || async {
        front.cut.notify_waiters();
        is_answered(&agent).await;
        !gateway.process.logged(&["outcome=\"upstream-failed\"", "certificate"]).is_empty()
    })
    .await;
    ours.exchange(&new);
    works(&agent).await;
}

#[test]
fn conflicting_upstream_tls_settings_are_rejected() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (ours, theirs) = (authority.client("ours"), other.client("theirs"));
    let (certificate, key, foreign) = (text(&ours.certificate), text(&ours.key), text(&theirs.key));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("gateway.yaml");
    for (scheme, tls, why) in [
        ("https", format!("certFile: {certificate}"), "set both `certFile` and `keyFile`"),
        ("https", "caFile: /nobody/has/this".to_owned(), "/nobody/has/this"),
        ("https", format!("certFile: {certificate}, keyFile: {foreign}"), foreign),
        ("https", format!("caFile: {key}"), "the file has no certificate"),
        ("https", String::new(), "is empty"),
        ("https", format!("ca: {certificate}"), "unknown field"),
        ("http", format!("caFile: {certificate}"), "has no effect without TLS"),
    ] {
        let target = format!("server: a, version: 1.0.0, http: {scheme}://h/mcp, tls: {{ {tls} }}");
        let yaml = format!("registry: {{ source: grpc://h:1 }}\ntargets: [{{ {target} }}]\n");
        std::fs::write(&file, yaml).expect("a file");
        let mut command = Command::new(binary("gateway-agent"));
        let output = command.arg("--check").arg("--config").arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{tls}: {said}");
        assert!(said.contains("line 2: targets[0].tls") && said.contains(why), "{tls}: {said}");
    }
}
