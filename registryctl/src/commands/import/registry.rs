//! `import registry`: repairs a registry file of version 1, or an invalid one of version 2.

use registry_import::{Imported, import_registry_file};

use crate::{
    cli::ImportRegistryArgs,
    failure::Failure,
    input::{Source, SyntaxError},
};

pub(super) fn import(args: &ImportRegistryArgs) -> Result<Imported, Failure> {
    let source = Source::read(&args.file)?;
    let value = source.value().map_err(|SyntaxError { position, message }| Failure::File {
        action: "import",
        path: args.file.clone(),
        reason: match position {
            Some(position) => format!("line {}: {message}", position.line),
            None => message,
        },
    })?;
    Ok(import_registry_file(&value))
}
