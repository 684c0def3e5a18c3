//! The later rounds of an approved call. The caller returns the state of the server with a sealed round
//! number, which the store of approvals accepts once and within 10 minutes.

use std::borrow::Cow;

use approval::RequestId;
use gateway_policy::CallerIdentity;
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter},
    mcp::{Param, RawResult, TASK_PARAM},
};
use registry_core::Digest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::pipeline::{Gateway, task::SealOwner};

/// The purpose in the associated data of the seal.
const PURPOSE: &str = "approved-round-1";
const STATE: &str = "requestState";
const RESPONSES: &str = "inputResponses";

/// A round after a question of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::pipeline) struct ContinuedRound {
    pub(in crate::pipeline) request: RequestId,
    pub(in crate::pipeline) round: u32,
}

/// The sealed content.
#[derive(Debug, Serialize, Deserialize)]
struct SealedRound {
    continued: ContinuedRound,
    /// The digest of the server's state, which follows the seal.
    state: Digest,
}

/// The parameters with the state of the server, and the round that the caller continues. Other states
/// stay unchanged.
pub(in crate::pipeline) fn opened<'a>(
    gateway: &Gateway,
    caller: &CallerIdentity,
    params: Cow<'a, [Param]>,
) -> (Cow<'a, [Param]>, Option<ContinuedRound>) {
    let Some(position) = params.iter().position(|param| &*param.name == STATE) else {
        return (params, None);
    };
    let Some((continued, state)) = read(gateway, caller, &params[position].value) else {
        return (params, None);
    };
    let mut params = params.into_owned();
    match state {
        Some(state) => params[position].value = state,
        None => drop(params.remove(position)),
    }
    (Cow::Owned(params), Some(continued))
}

/// The parameters of an approved call that the server receives. Approvers do not see the others. The
/// answers to questions belong to later rounds.
pub(in crate::pipeline) fn bound(
    params: Cow<'_, [Param]>,
    continued: Option<ContinuedRound>,
) -> Cow<'_, [Param]> {
    let is_bound = |param: &&Param| match &*param.name {
        TASK_PARAM => true,
        STATE | RESPONSES => continued.is_some(),
        _ => false,
    };
    if params.iter().all(|param| is_bound(&param)) {
        return params;
    }
    params.iter().filter(is_bound).cloned().collect()
}

/// The round, and the state of the server if it has one.
fn read(
    gateway: &Gateway,
    caller: &CallerIdentity,
    value: &RawValue,
) -> Option<(ContinuedRound, Option<Box<RawValue>>)> {
    let text: String = serde_json::from_str(value.get()).ok()?;
    let (sealed, state) = text.split_once('.')?;
    let data = SealOwner::of(gateway, caller).associated_data(PURPOSE);
    let content = gateway.sealer().open(&data, sealed)?;
    let SealedRound { continued, state: digest } = serde_json::from_slice(&content).ok()?;
    if digest != Digest::compute(state.as_bytes()) {
        return None;
    }
    let state = (!state.is_empty()).then(|| RawValue::from_string(state.to_owned()));
    Some((continued, state.transpose().ok()?))
}

/// The question of a server with the next round in its state. Without random bytes, it is unchanged, and
/// the next round is rejected.
pub(in crate::pipeline) fn sealed(
    gateway: &Gateway,
    caller: &CallerIdentity,
    continued: ContinuedRound,
    asked: RawResult,
) -> RawResult {
    let Ok(members) = Object::parse(&asked.result) else { return asked };
    let state = members.find(STATE).map_or("", RawValue::get);
    let content = SealedRound { continued, state: Digest::compute(state.as_bytes()) };
    let content = serde_json::to_vec(&content).unwrap_or_default();
    let data = SealOwner::of(gateway, caller).associated_data(PURPOSE);
    let Ok(sealed) = gateway.sealer().seal(&data, &content) else { return asked };
    let mut result = ObjectWriter::with_capacity(asked.result.get().len() + sealed.len() + 64);
    for member in members.members().iter().filter(|member| &*member.name != STATE) {
        result.member(&member.name, member.value.get());
    }
    result.string(STATE, &format!("{sealed}.{state}"));
    match RawValue::from_string(result.finish_string()) {
        Ok(result) => RawResult { result, ..asked },
        Err(_) => asked,
    }
}
