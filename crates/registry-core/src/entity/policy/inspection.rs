//! Inspection of arguments and results for credentials and personal data.

use std::{collections::BTreeMap, fmt, str::FromStr};

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::Value;

use super::{Pattern, argument_pointer, choice};
use crate::{
    decode::{Fields, Problems},
    suggest::closest,
};

/// The actions on data that is found in the arguments and results of the selected calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The classes of data that are rejected in both directions.
    #[serde(skip_serializing_if = "InspectionProfile::is_listed")]
    pub profile: InspectionProfile,
    /// The actions on data in arguments: `log` or `block`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<DataClass, InspectionAction>,
    /// The actions on data in results.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<DataClass, InspectionAction>,
    /// The arguments that this policy does not inspect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<InspectionException>,
    /// The tools whose arguments contain the values again that this policy replaced by placeholders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restore_for: Vec<Pattern>,
    /// The decision about content that is not read.
    #[serde(skip_serializing_if = "BinaryContent::is_allow")]
    pub binary: BinaryContent,
}

/// The classes of data that are rejected in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InspectionProfile {
    /// Those with the action `block`.
    #[default]
    Listed,
    /// All classes.
    Strict,
}

/// A class of data that inspection finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DataClass {
    /// Keys, tokens and passwords.
    Credential,
    /// Numbers of payment cards and bank accounts.
    Financial,
    /// Numbers of persons that governments issue.
    GovernmentId,
    /// E-mail addresses and phone numbers.
    Contact,
    /// IP and MAC addresses.
    Network,
}

/// The name of no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`: use credential, financial, governmentId, contact or network")]
pub struct UnknownDataClass(String);

/// The action on found data, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InspectionAction {
    /// The finding is counted and recorded.
    Log,
    /// A placeholder replaces the data. It is replaced by the data in arguments of `restoreFor`.
    Tokenize,
    /// A constant text replaces the data.
    Redact,
    /// The call or its result is rejected.
    Block,
}

/// The decision about images, audio and other content that inspection does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BinaryContent {
    /// It passes.
    #[default]
    Allow,
    /// The result is rejected.
    Block,
}

/// Arguments that a policy does not inspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InspectionException {
    /// The names of the tools. A name also selects the aliases of its tool.
    pub tool: Pattern,
    /// JSON pointer (RFC 6901) into the arguments. Everything below it is excepted too.
    pub pointer: Box<str>,
}

impl Inspection {
    /// The action on data of a class in arguments.
    pub fn of_arguments(&self, class: DataClass) -> Option<InspectionAction> {
        self.action(&self.arguments, class)
    }

    /// The action on data of a class in results.
    pub fn of_results(&self, class: DataClass) -> Option<InspectionAction> {
        self.action(&self.results, class)
    }

    fn action(
        &self,
        listed: &BTreeMap<DataClass, InspectionAction>,
        class: DataClass,
    ) -> Option<InspectionAction> {
        match self.profile {
            InspectionProfile::Listed => listed.get(&class).copied(),
            InspectionProfile::Strict => Some(InspectionAction::Block),
        }
    }

    pub(super) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let profiles = [InspectionProfile::Strict];
        let profile = choice(&fields, "profile", &profiles, InspectionProfile::as_str);
        let in_arguments = [InspectionAction::Log, InspectionAction::Block];
        let inspection = Self {
            profile: profile.unwrap_or_default(),
            arguments: actions(&fields, "arguments", &in_arguments),
            results: actions(&fields, "results", &InspectionAction::ALL),
            except: fields
                .list("except", |value, at| InspectionException::read(problems, value, at)),
            restore_for: fields.list("restoreFor", |value, at| Pattern::read(problems, value, at)),
            binary: choice(&fields, "binary", &BinaryContent::ALL, BinaryContent::as_str)
                .unwrap_or_default(),
        };
        if inspection.profile == InspectionProfile::Strict {
            for name in ["arguments", "results"] {
                if fields.get(name).is_some() {
                    let help = "remove the actions, or remove `profile`";
                    problems.invalid(at.member(name), "the profile blocks all classes", help);
                }
            }
        } else if inspection.binary == BinaryContent::Allow
            && fields.get("profile").is_none()
            && ["arguments", "results"].into_iter().all(|name| is_empty(fields.get(name)))
        {
            let help = "add `arguments`, `results`, `\"profile\": \"strict\"` or \
                        `\"binary\": \"block\"`";
            problems.invalid(at, "nothing is inspected", help);
        }
        fields.finish();
        Some(inspection)
    }
}

/// Whether actions are absent. Values of another type have an error of their own.
fn is_empty(actions: Option<&Value>) -> bool {
    let is_listed = |(name, value): (&String, &Value)| *name != "$comment" && !value.is_null();
    match actions {
        None => true,
        Some(Value::Object(members)) => !members.iter().any(is_listed),
        Some(_) => false,
    }
}

/// Reads the actions for classes in one direction.
fn actions(
    fields: &Fields<'_>,
    name: &'static str,
    allowed: &[InspectionAction],
) -> BTreeMap<DataClass, InspectionAction> {
    let (problems, here) = (fields.problems(), fields.here());
    let at = here.member(name);
    let mut actions = BTreeMap::new();
    let Some(value) = fields.get(name) else { return actions };
    let Value::Object(members) = value else {
        problems.wrong_type(value, at, "an object with an action for each class");
        return actions;
    };
    for (name, value) in members.iter().filter(|(name, _)| *name != "$comment") {
        let at = at.member(name);
        let Ok(class) = name.parse() else {
            let names = || DataClass::ALL.into_iter().map(DataClass::as_str);
            let help = match closest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the classes are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let name = name.chars().take(64).collect::<String>();
            problems.invalid(at, format!("unknown class `{name}`"), help);
            continue;
        };
        if value.is_null() {
            continue;
        }
        if let Some(action) = InspectionAction::read(problems, value, at, allowed) {
            actions.insert(class, action);
        }
    }
    actions
}

impl InspectionProfile {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_listed(&self) -> bool {
        *self == Self::Listed
    }

    /// The name in documents. The default has none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "",
            Self::Strict => "strict",
        }
    }
}

impl DataClass {
    /// All classes.
    pub const ALL: [Self; 5] =
        [Self::Credential, Self::Financial, Self::GovernmentId, Self::Contact, Self::Network];

    /// The name in documents, responses, audit events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Financial => "financial",
            Self::GovernmentId => "governmentId",
            Self::Contact => "contact",
            Self::Network => "network",
        }
    }
}

impl fmt::Display for DataClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DataClass {
    type Err = UnknownDataClass;

    fn from_str(text: &str) -> Result<Self, UnknownDataClass> {
        let found = Self::ALL.into_iter().find(|class| class.as_str() == text);
        found.ok_or_else(|| UnknownDataClass(text.to_owned()))
    }
}

impl InspectionAction {
    const ALL: [Self; 4] = [Self::Log, Self::Tokenize, Self::Redact, Self::Block];

    /// The name in documents, audit events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Tokenize => "tokenize",
            Self::Redact => "redact",
            Self::Block => "block",
        }
    }

    fn read(
        problems: &Problems,
        value: &Value,
        at: Location<'_>,
        allowed: &[Self],
    ) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|action| value.as_str() == Some(action.as_str()));
        if let Some(action) = found.filter(|action| allowed.contains(action)) {
            return Some(action);
        }
        let names: Vec<_> =
            allowed.iter().map(|action| format!("\"{}\"", action.as_str())).collect();
        let names = names.join(" or ");
        match found {
            Some(action) => {
                let message = format!("`{}` would change the call", action.as_str());
                problems.invalid(at, message, format!("write {names}"));
            }
            None => problems.wrong_type(value, at, &names),
        }
        None
    }
}

impl BinaryContent {
    const ALL: [Self; 2] = [Self::Allow, Self::Block];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
    fn is_allow(&self) -> bool {
        *self == Self::Allow
    }

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
        }
    }
}

impl InspectionException {
    /// Whether the exception covers a value in the arguments of a tool with these names.
    pub fn covers(&self, tools: &[String], pointer: &str) -> bool {
        let is_below = pointer
            .strip_prefix(&*self.pointer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_below && tools.iter().any(|tool| self.tool.matches(tool))
    }

    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let tool = fields
            .require("tool")
            .and_then(|value| Pattern::read(problems, value, fields.at("tool")));
        let pointer = fields
            .require("pointer")
            .and_then(|value| argument_pointer(problems, value, fields.at("pointer")));
        fields.finish();
        Some(Self { tool: tool?, pointer: pointer? })
    }
}
