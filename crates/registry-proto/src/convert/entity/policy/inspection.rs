//! Reads the inspection of arguments and results.

use registry_core::entity::policy::{
    BinaryContent, DataClass, InspectionAction, InspectionProfile,
};
use serde_json::{Map, Value};

use super::{list, object};
use crate::v1;

pub(super) fn inspection_value(inspection: v1::PolicyInspection) -> Value {
    let v1::PolicyInspection { profile, arguments, results, exceptions, restore_for, binary } =
        inspection;
    object([
        ("profile", profile_value(profile)),
        ("arguments", rules_value(arguments)),
        ("results", rules_value(results)),
        ("except", list(exceptions, exception_value)),
        ("restoreFor", restore_for.into()),
        ("binary", binary_value(binary)),
    ])
}

/// The actions by class. `null`: there are none. The reader of documents rejects the text of a second
/// action for a class.
fn rules_value(rules: Vec<v1::PolicyInspectionRule>) -> Value {
    let mut actions = Map::new();
    for v1::PolicyInspectionRule { data_class, action } in rules {
        let (class, action) = (class_name(data_class), action_value(action));
        let action = if actions.contains_key(&class) { "repeated".into() } else { action };
        actions.insert(class, action);
    }
    Some(actions).filter(|actions| !actions.is_empty()).into()
}

fn exception_value(exception: v1::PolicyInspectionException) -> Value {
    let v1::PolicyInspectionException { tool, pointer } = exception;
    object([("tool", tool.into()), ("pointer", pointer.into())])
}

// The reader of documents rejects the text of an unknown number.

fn profile_value(number: i32) -> Value {
    match v1::PolicyInspectionProfile::try_from(number) {
        Ok(v1::PolicyInspectionProfile::Unspecified) => Value::Null,
        Ok(v1::PolicyInspectionProfile::Strict) => InspectionProfile::Strict.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}

fn class_name(number: i32) -> String {
    let class = match v1::PolicyDataClass::try_from(number) {
        Ok(v1::PolicyDataClass::Credential) => DataClass::Credential,
        Ok(v1::PolicyDataClass::Financial) => DataClass::Financial,
        Ok(v1::PolicyDataClass::GovernmentId) => DataClass::GovernmentId,
        Ok(v1::PolicyDataClass::Contact) => DataClass::Contact,
        Ok(v1::PolicyDataClass::Network) => DataClass::Network,
        Ok(v1::PolicyDataClass::Unspecified) | Err(_) => return number.to_string(),
    };
    class.as_str().to_owned()
}

fn action_value(number: i32) -> Value {
    let action = match v1::PolicyInspectionAction::try_from(number) {
        Ok(v1::PolicyInspectionAction::Log) => InspectionAction::Log,
        Ok(v1::PolicyInspectionAction::Tokenize) => InspectionAction::Tokenize,
        Ok(v1::PolicyInspectionAction::Redact) => InspectionAction::Redact,
        Ok(v1::PolicyInspectionAction::Block) => InspectionAction::Block,
        Ok(v1::PolicyInspectionAction::Unspecified) | Err(_) => return number.to_string().into(),
    };
    action.as_str().into()
}

fn binary_value(number: i32) -> Value {
    match v1::PolicyBinaryContent::try_from(number) {
        Ok(v1::PolicyBinaryContent::Unspecified) => Value::Null,
        Ok(v1::PolicyBinaryContent::Allow) => BinaryContent::Allow.as_str().into(),
        Ok(v1::PolicyBinaryContent::Block) => BinaryContent::Block.as_str().into(),
        Err(_) => number.to_string().into(),
    }
}
