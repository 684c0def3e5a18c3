//! Writes the inspection of arguments and results.

use std::collections::BTreeMap;

use registry_core::entity::policy::{
    BinaryContent, DataClass, Inspection, InspectionAction, InspectionException, InspectionProfile,
};

use crate::v1;

impl From<&Inspection> for v1::PolicyInspection {
    fn from(inspection: &Inspection) -> Self {
        let Inspection { profile, arguments, results, except, restore_for, binary } = inspection;
        let exception = |InspectionException { tool, pointer }: &InspectionException| {
            v1::PolicyInspectionException { tool: tool.to_string(), pointer: pointer.to_string() }
        };
        Self {
            profile: v1::PolicyInspectionProfile::from(*profile).into(),
            arguments: rules(arguments),
            results: rules(results),
            exceptions: except.iter().map(exception).collect(),
            restore_for: restore_for.iter().map(ToString::to_string).collect(),
            binary: v1::PolicyBinaryContent::from(*binary).into(),
        }
    }
}

fn rules(actions: &BTreeMap<DataClass, InspectionAction>) -> Vec<v1::PolicyInspectionRule> {
    let rule = |(class, action): (&DataClass, &InspectionAction)| v1::PolicyInspectionRule {
        data_class: v1::PolicyDataClass::from(*class).into(),
        action: v1::PolicyInspectionAction::from(*action).into(),
    };
    actions.iter().map(rule).collect()
}

impl From<InspectionProfile> for v1::PolicyInspectionProfile {
    fn from(profile: InspectionProfile) -> Self {
        match profile {
            InspectionProfile::Listed => Self::Unspecified,
            InspectionProfile::Strict => Self::Strict,
        }
    }
}

impl From<DataClass> for v1::PolicyDataClass {
    fn from(class: DataClass) -> Self {
        match class {
            DataClass::Credential => Self::Credential,
            DataClass::Financial => Self::Financial,
            DataClass::GovernmentId => Self::GovernmentId,
            DataClass::Contact => Self::Contact,
            DataClass::Network => Self::Network,
        }
    }
}

impl From<InspectionAction> for v1::PolicyInspectionAction {
    fn from(action: InspectionAction) -> Self {
        match action {
            InspectionAction::Log => Self::Log,
            InspectionAction::Tokenize => Self::Tokenize,
            InspectionAction::Redact => Self::Redact,
            InspectionAction::Block => Self::Block,
        }
    }
}

impl From<BinaryContent> for v1::PolicyBinaryContent {
    fn from(binary: BinaryContent) -> Self {
        match binary {
            BinaryContent::Allow => Self::Allow,
            BinaryContent::Block => Self::Block,
        }
    }
}
