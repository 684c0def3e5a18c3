//! Prepares the arguments of a call for its upstream.

use std::sync::Arc;

use gateway_policy::ValidationMode;
use gateway_protocol::content;
use registry_core::tool_schema::defaults::Defaults;

use super::{
    Error,
    arguments::Arguments,
    inspect::{CallInspection, Inspecting},
    mcp_headers, validate,
};
use crate::{audit::CallRecord, view::ServedTool};

/// Validates the arguments of a tool as the caller knows them, then adds the defaults.
/// `must_conform` rejects violations in any configuration.
pub(super) async fn prepare<'a>(
    Inspecting { gateway, call, moment }: Inspecting<'a>,
    inspection: &CallInspection,
    (served, must_conform): (&Arc<ServedTool>, bool),
    record: &mut CallRecord,
) -> Result<Arguments<'a>, Error> {
    let mut arguments = Arguments::new(call.target.arguments())?;
    let is_parsed = served.composed().is_some()
        || served.defaults().is_some()
        || !served.hidden().is_empty()
        || (call.target.mcp_headers().is_some() && !served.input().params.is_empty());
    if let Some(raw) = arguments.raw().filter(|_| is_parsed) {
        let reserved = call.context.buffer(content::tree_bytes(raw.get()));
        reserved.map_err(gateway_upstream::Error::from)?;
    }
    if let Some(headers) = call.target.mcp_headers() {
        let params = &served.input().params;
        if !params.is_empty() {
            mcp_headers::check_params(headers, params, arguments.members()?)?;
        }
    }
    let inspecting = Inspecting { gateway, call, moment };
    let restored = match arguments.raw().filter(|raw| inspecting.may_have_placeholders(raw)) {
        // Boxed, because compositions nest.
        Some(raw) => Box::pin(inspection.restored(inspecting, served, Some(raw))).await?,
        None => None,
    };
    let is_restored = restored.is_some();
    if let Some(restored) = restored {
        arguments.replace(restored);
    }
    for field in served.hidden() {
        if field.find(arguments.members()?).is_some() {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    let mode = if must_conform { ValidationMode::Error } else { served.checks().input };
    let validated = validate::input(gateway, served, (&arguments, &call.context, mode), record);
    validated.await.map_err(|error| if is_restored { without_messages(error) } else { error })?;
    // Validation reports more, but it can be configured to warn only.
    for field in served.hidden() {
        if field.is_obstructed(arguments.members()?) {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    if let Some(defaults) = served.defaults() {
        let filling =
            Defaults { hidden: served.hidden(), variables: &gateway.settings().variables };
        arguments.change(|members| filling.fill(defaults, members).map_err(Error::from))?;
    }
    Ok(arguments)
}

/// Replaces the messages of violations: they quote restored values, which the caller must not
/// receive.
pub(super) fn without_messages(mut error: Error) -> Error {
    if let Error::InvalidInput { violations } = &mut error {
        for violation in violations {
            "the value does not conform to the schema".clone_into(&mut violation.message);
        }
    }
    error
}
