//! Mutual TLS between a server and its Postgres.

use acceptance::{Process, Registry, postgres::PrivateCluster, tls::Authority};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_and_postgres_authenticate_with_certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    let cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("guarded").await;
    cluster.ask_for_certificates(&authority).await;
    let own = authority.client("postgres");
    let (certificate, key) = (own.certificate.display(), own.key.display());
    let shown = format!("sslcert={certificate}&sslkey={key}");
    let proved = format!("sslmode=verify-full&sslrootcert={}", authority.ca.display());
    let registry = Registry::start_on(&format!("{database}?{proved}&{shown}"));
    registry.apply_example();
    assert_eq!(registry.revision().await, 1);

    let strange = other.client("postgres");
    let strange =
        format!("sslcert={}&sslkey={}", strange.certificate.display(), strange.key.display());
    let elsewhere = format!("sslmode=verify-full&sslrootcert={}", other.ca.display());
    for (parameters, problem) in [
        ("sslmode=disable".to_owned(), "no encryption"),
        (proved.clone(), "certificate"),
        (format!("{proved}&{strange}"), "fatal alert"),
        (format!("{elsewhere}&{shown}"), "invalid peer certificate"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let refused = Process::try_start("registry-server", dir.path(), |command| {
            let database = format!("{database}?{parameters}");
            command.args(["--listen", "127.0.0.1:0", "--database", &database]);
            command.arg("--data-dir").arg(dir.path());
        });
        let told = refused.expect_err(&parameters);
        assert_eq!(told.code, Some(3), "{parameters}: {told}");
        assert!(told.log.to_lowercase().contains(problem), "{parameters}: {told}");
    }
}
