//! Reads `registry.scope` and `registry.scopeFile`.

use std::path::PathBuf;

use registry_core::Scope;

use super::{Args, read::Section};
use crate::source::{ScopeConfig, Source};

pub(super) fn read(section: &Section<'_>, args: &Args, source: Option<&Source>) -> ScopeConfig {
    let file = section.find("scopeFile").and_then(|field| field.text()).map(PathBuf::from);
    let written = section.find("scope").and_then(|field| field.texts());
    let is_flag = !args.scope.is_empty();
    let (roots, file) = if is_flag { (Some(args.scope.clone()), None) } else { (written, file) };
    let problem = |message: String| {
        if is_flag { section.flag_problem("--scope", message) } else { section.problem(message) }
    };
    if (roots.is_some() || file.is_some()) && !matches!(source, Some(Source::Grpc(_)) | None) {
        problem(
            "`scope` needs a grpc(s):// source; other sources always deliver the whole catalog"
                .to_owned(),
        );
    }
    let scope = match (roots, &file) {
        (Some(_), Some(_)) => {
            Err("`scope` and `scopeFile` are both set; remove one of them".to_owned())
        }
        (None, Some(file)) => ScopeConfig::read(file),
        (Some(roots), None) => Scope::from_roots(&roots).map_err(|e| format!("`scope`: {e}")),
        (None, None) => Ok(Scope::Everything),
    };
    let scope = scope.map_err(problem).unwrap_or_default();
    ScopeConfig { scope, file }
}
