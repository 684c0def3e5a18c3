
use gateway_protocol::content;

use super::{Error, Gateway, Invocation, arguments::Arguments, defaults, mcp_headers, validate};
use crate::{audit::CallRecord, view::Offer};

/// Validates the arguments of a tool as the caller knows them, then adds the defaults.
pub(super) async fn prepare<'a>(
    gateway: &Gateway,
    offer: &Offer,
    call: &'a Invocation,
    record: &mut CallRecord,
) -> Result<Arguments<'a>, Error> {
    let mut arguments = Arguments::new(call.target.arguments())?;
    let is_parsed = offer.composed().is_some()
        || offer.defaults().is_some()
        || !offer.hidden().is_empty()
        || (call.target.mcp_headers().is_some() && !offer.input().params.is_empty());
    if let Some(raw) = arguments.raw().filter(|_| is_parsed) {
        let reserved = call.context.buffer(content::tree_bytes(raw.get()));
        reserved.map_err(gateway_upstream::Error::from)?;
    }
    if let Some(headers) = call.target.mcp_headers() {
        let params = &offer.input().params;
        if !params.is_empty() {
            mcp_headers::check_params(headers, params, arguments.members()?)?;
        }
    }
    for field in offer.hidden() {
        if field.find(arguments.members()?).is_some() {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    validate::input(gateway, offer, (&arguments, &call.context), record).await?;
    // Validation reports more, but it can be configured to warn only.
    for field in offer.hidden() {
        if field.is_obstructed(arguments.members()?) {
            return Err(Error::HiddenField { pointer: field.pointer() });
        }
    }
    if let Some(defaults) = offer.defaults() {
        let filling =
            defaults::Filling { hidden: offer.hidden(), variables: &gateway.settings().variables };
        arguments.change(|members| filling.fill(defaults, members))?;
    }
    if offer.composed().is_none() {
        arguments.forget_value();
    }
    Ok(arguments)
}
