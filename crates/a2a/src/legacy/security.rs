//! Security schemes and requirements: those of OpenAPI in 0.3, messages in 1.0.

use serde_json::{Value, json};

use crate::json::{Object, rename};

/// The `type` of 0.3 and the member of 1.0.
const SCHEMES: [(&str, &str); 5] = [
    ("apiKey", "apiKeySecurityScheme"),
    ("http", "httpAuthSecurityScheme"),
    ("oauth2", "oauth2SecurityScheme"),
    ("openIdConnect", "openIdConnectSecurityScheme"),
    ("mutualTLS", "mtlsSecurityScheme"),
];

/// The flows in the order of preference. A scheme of 1.0 has one.
const FLOWS: [&str; 5] =
    ["authorizationCode", "clientCredentials", "deviceCode", "implicit", "password"];

/// Converts a scheme to 1.0. An unknown scheme is kept.
pub(crate) fn scheme_to_v1(scheme: &mut Value) {
    let Some(members) = scheme.as_object_mut() else { return };
    if SCHEMES.iter().any(|(_, name)| members.contains_key(*name)) {
        return;
    }
    let kind = members.get("type").and_then(Value::as_str);
    let Some((_, name)) = SCHEMES.iter().find(|(old, _)| Some(*old) == kind) else { return };
    members.remove("type");
    rename(members, "in", "location");
    if let Some(Value::Object(flows)) = members.get_mut("flows")
        && let Some(first) = FLOWS.iter().find(|flow| flows.contains_key(**flow))
    {
        flows.retain(|flow, _| flow == first || !FLOWS.contains(&flow.as_str()));
    }
    let members = std::mem::take(members);
    *scheme = Object::from_iter([((*name).to_owned(), members.into())]).into();
}

/// Converts a scheme to 0.3. An unknown scheme is kept.
pub(crate) fn scheme_to_v03(scheme: &mut Value) {
    let Some(members) = scheme.as_object_mut() else { return };
    let found = SCHEMES.iter().find(|(_, name)| members.get(*name).is_some_and(Value::is_object));
    let Some((kind, name)) = found else { return };
    let Some(Value::Object(mut inner)) = members.remove(*name) else { return };
    rename(&mut inner, "location", "in");
    inner.insert("type".to_owned(), (*kind).into());
    *scheme = inner.into();
}

/// Converts a requirement, from scheme names to scopes, to 1.0.
pub(crate) fn requirement_to_v1(requirement: &Value) -> Value {
    let schemes = requirement.as_object().into_iter().flatten();
    let schemes = schemes.map(|(name, scopes)| {
        let is_empty = scopes.as_array().is_none_or(Vec::is_empty);
        (name.clone(), if is_empty { json!({}) } else { json!({ "list": scopes }) })
    });
    json!({ "schemes": schemes.collect::<Object>() })
}

/// Converts a requirement to 0.3. A requirement in the form of 0.3 is kept.
pub(crate) fn requirement_to_v03(requirement: &Value) -> Value {
    let Some(schemes) = requirement.get("schemes").and_then(Value::as_object) else {
        return requirement.clone();
    };
    let scopes = |scopes: &Value| match scopes {
        Value::Array(_) => scopes.clone(),
        scopes => scopes.get("list").cloned().unwrap_or_else(|| json!([])),
    };
    schemes.iter().map(|(name, list)| (name.clone(), scopes(list))).collect::<Object>().into()
}
