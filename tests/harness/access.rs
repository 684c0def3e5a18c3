//! Registries that ask who is calling, and tokens for them.

use std::process::{Command, Output};

use tempfile::TempDir;
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::{Registry, binary};

/// A database and what is in it before a server is started: a token.
#[derive(Debug)]
pub struct Guarded {
    /// The server.
    pub registry: Registry,
    /// `sqlite:…` or `postgres://…`.
    pub database: String,
    /// The text of a token with the role admin, of `root` in the team `platform`.
    pub admin: String,
    _dir: Option<TempDir>,
}

impl Guarded {
    /// A fresh registry on SQLite.
    pub fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        Self { _dir: Some(dir), ..Self::start_on(&database, flags) }
    }

    /// A registry on this database.
    pub fn start_on(database: &str, flags: &[&str]) -> Self {
        let admin = create_token(database, "root", "platform", "admin");
        let registry = Registry::start_with(database, flags);
        Self { registry, database: database.to_owned(), admin, _dir: None }
    }

    /// Makes a token in the database: its text.
    pub fn token(&self, name: &str, team: &str, role: &str) -> String {
        create_token(&self.database, name, team, role)
    }

    /// A connection on which every call carries this token.
    pub async fn channel(&self, token: &str) -> Authorized {
        InterceptedService::new(self.registry.channel().await, Bearer(token.to_owned()))
    }
}

/// A connection on which every call carries a token.
pub type Authorized = InterceptedService<Channel, Bearer>;

/// Adds a token to every call.
#[derive(Debug, Clone)]
pub struct Bearer(pub String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = format!("Bearer {}", self.0);
        request.metadata_mut().insert("authorization", value.parse().expect("a token is ASCII"));
        Ok(request)
    }
}

/// Makes a token with one role: its text.
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
