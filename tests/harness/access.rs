//! Registries with authentication, and tokens for them.

use std::process::{Command, Output};

use tempfile::TempDir;
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::{Registry, binary};

/// A registry with authentication, and its database.
#[derive(Debug)]
pub struct Guarded {
    /// The server process.
    pub registry: Registry,
    /// `sqlite:…` or `postgres://…`.
    pub database: String,
    /// A token of `root` in team `platform` with role admin.
    pub admin: String,
    _dir: Option<TempDir>,
}

impl Guarded {
    /// Starts a registry on a new SQLite database.
    pub fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        Self { _dir: Some(dir), ..Self::start_on(&database, flags) }
    }

    /// Starts a registry on this database.
    pub fn start_on(database: &str, flags: &[&str]) -> Self {
        let admin = create_token(database, "root", "platform", "admin");
        let registry = Registry::start_with(database, flags);
        Self { registry, database: database.to_owned(), admin, _dir: None }
    }

    /// Creates a token in the database and returns its text.
    pub fn token(&self, name: &str, team: &str, role: &str) -> String {
        create_token(&self.database, name, team, role)
    }

    /// Connects with this token on every call.
    pub async fn channel(&self, token: &str) -> Authorized {
        InterceptedService::new(self.registry.channel().await, Bearer(token.to_owned()))
    }
}

/// A channel that sends a token with every call.
pub type Authorized = InterceptedService<Channel, Bearer>;

/// Adds a bearer token to every call.
#[derive(Debug, Clone)]
pub struct Bearer(pub String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = format!("Bearer {}", self.0);
        request.metadata_mut().insert("authorization", value.parse().expect("a token is ASCII"));
        Ok(request)
    }
}

/// Creates a token with one role and returns its text.
pub fn create_token(database: &str, name: &str, team: &str, role: &str) -> String {
    let output =
        server(database, &["token", "create", "--name", name, "--team", team, "--role", role]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
}

/// Runs a command of `registry-server` on a database.
pub fn server(database: &str, arguments: &[&str]) -> Output {
    let data = tempfile::tempdir().expect("a temporary directory");
    Command::new(binary("registry-server"))
        .env("REGISTRY_DATA_DIR", data.path())
        .args(["--database", database])
        .args(arguments)
        .output()
        .expect("registry-server runs")
}
