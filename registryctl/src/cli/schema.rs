//! The arguments of `schema`.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use registry_core::PublishedSchema;

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  registryctl schema registry > registry.schema.json

docs/editor.md shows how editors use the file.")]
pub(crate) struct SchemaArgs {
    /// registry, schema, server, tool, agent, policy or gateway-config
    #[arg(value_name = "SCHEMA", value_parser = published(), hide_possible_values = true)]
    pub(crate) schema: Option<PublishedSchema>,
}

fn published() -> impl TypedValueParser<Value = PublishedSchema> {
    let names = PublishedSchema::ALL.map(PublishedSchema::name);
    let parser = PossibleValuesParser::new(names);
    parser.try_map(|name| PublishedSchema::named(&name).ok_or("unknown schema"))
}
