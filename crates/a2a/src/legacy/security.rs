//! Security schemes and requirements: `OpenAPI` in 0.3, messages in 1.0.

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

/// Converts a requirement to 0.3: from scheme names to scopes. `None`: it is invalid.
pub fn requirement_to_v03(requirement: &Value) -> Option<Value> {
    let requirement = requirement.as_object()?;
    let schemes = match requirement.get("schemes") {
        Some(schemes) if requirement.len() == 1 => schemes.as_object()?,
        Some(_) => return None,
        None => requirement,
    };
    let scopes = |(name, scopes): (&String, &Value)| {
        let scopes = match scopes {
            Value::Array(_) => scopes.clone(),
            Value::Object(list) if list.is_empty() => json!([]),
            Value::Object(list) if list.len() == 1 => {
                list.get("list").filter(|list| list.is_array())?.clone()
            }
            _ => return None,
        };
        Some((name.clone(), scopes))
    };
    schemes.iter().map(scopes).collect::<Option<Object>>().map(Value::Object)
}
