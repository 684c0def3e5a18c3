//! `import`: what others have described becomes entities.
//!
//! Deliberately absent: what is read; each source has a file of its own.

mod fetch;
mod server_json;

use super::Session;
use crate::{
    cli::{ImportArgs, ImportFrom},
    failure::Failure,
};

pub(super) async fn run(session: &Session, args: ImportArgs) -> Result<(), Failure> {
    match args.from {
        ImportFrom::ServerJson(args) => server_json::run(session, args).await,
    }
}
