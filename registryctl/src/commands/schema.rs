//! `schema`: a JSON Schema for editors and other programs. The registry serves the same ones.

use super::Session;
use crate::{cli::SchemaArgs, failure::Failure};

pub(super) fn run(session: &Session, args: &SchemaArgs) -> Result<(), Failure> {
    session.screen.bytes(args.schema.text().as_bytes())
}
