//! The Cedar schema of calls of one resource.

use cedar_policy::{Schema, SchemaError};
use serde_json::{Map, Value, json};

use crate::{Action, ResourceKind, arguments::ArgumentType};

/// The schema of calls of resources of a kind. The other actions exist without a resource.
pub(super) fn schema(
    kind: ResourceKind,
    arguments: &ArgumentType,
) -> Result<Schema, Box<SchemaError>> {
    let string = || json!({ "type": "String" });
    let boolean = || json!({ "type": "Boolean" });
    let tags = || json!({ "type": "Set", "element": { "type": "String" } });
    let record = |attributes: Value| json!({ "type": "Record", "attributes": attributes });
    let agent = record(json!({
        "known": boolean(), "name": string(), "version": string(), "team": string(), "tags": tags(),
    }));
    let resource = record(json!({
        "name": string(), "version": string(), "destructive": boolean(), "readOnly": boolean(),
        "tags": tags(),
    }));
    let mut types = json!({
        "Team": {}, "Namespace": {}, "Tag": {}, "Server": {},
        "Agent": { "memberOfTypes": ["Team", "Namespace", "Tag"], "shape": agent },
    });
    for kind in ResourceKind::ALL {
        let groups = json!([kind.as_str(), "Server", "Namespace", "Tag"]);
        types[kind.as_str()] = json!({ "memberOfTypes": groups, "shape": resource });
    }
    let mut actions = Map::new();
    for action in Action::ALL {
        let mut context = json!({
            "caller": record(json!({
                "issuer": string(), "subject": string(), "method": string(), "scopes": tags(),
            })),
            "purpose": string(),
            "hops": { "type": "Long" },
            "time": { "type": "Extension", "name": "datetime" },
        });
        if action.has_arguments()
            && let Some(arguments) = type_of(arguments)
        {
            context["arguments"] = arguments;
        }
        let resources = if kind.actions().contains(&action) { vec![kind.as_str()] } else { vec![] };
        let principals = if resources.is_empty() { vec![] } else { vec!["Agent"] };
        let applies = json!({
            "principalTypes": principals, "resourceTypes": resources, "context": record(context),
        });
        actions.insert(action.as_str().into(), json!({ "appliesTo": applies }));
    }
    Schema::from_json_value(json!({ "": { "entityTypes": types, "actions": actions } }))
        .map_err(Box::new)
}

/// The Cedar type; `None` if conditions cannot read the value.
fn type_of(argument: &ArgumentType) -> Option<Value> {
    Some(match argument {
        ArgumentType::Long => json!({ "type": "Long" }),
        ArgumentType::Decimal => json!({ "type": "Extension", "name": "decimal" }),
        ArgumentType::String => json!({ "type": "String" }),
        ArgumentType::Bool => json!({ "type": "Boolean" }),
        ArgumentType::Set(item) => json!({ "type": "Set", "element": type_of(item)? }),
        ArgumentType::Record(members) => {
            let attributes = members.iter().filter_map(|(name, attribute)| {
                let mut member = type_of(&attribute.value)?;
                member["required"] = attribute.is_required.into();
                Some((name.clone(), member))
            });
            json!({ "type": "Record", "attributes": attributes.collect::<Map<_, _>>() })
        }
        ArgumentType::Unreadable { .. } => return None,
    })
}
