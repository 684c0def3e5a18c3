//! `schema`: a JSON Schema for editors and other programs. The registry serves the same ones.

use registry_core::PublishedSchema;

use super::Session;
use crate::{cli::SchemaArgs, failure::Failure};

pub(super) fn run(session: &Session, args: &SchemaArgs) -> Result<(), Failure> {
    let Some(schema) = args.schema else {
        let names = PublishedSchema::ALL.map(PublishedSchema::name).join(", ");
        return Err(Failure::Usage(format!("the schema is missing; write one of {names}")));
    };
    session.screen.bytes(schema.text().as_bytes())
}
