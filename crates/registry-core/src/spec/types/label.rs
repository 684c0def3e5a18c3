//! Sources of values, described for messages, with the JSON pointers of their bindings.

use schema_compat::pointer::Location;

use super::{
    Checker,
    select::{Presence, Selected, Undeclared, select, undeclared},
    shape::{Member, Shape, Step},
};
use crate::spec::{Binding, Path};

/// A shape with its source.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) shape: Shape,
    pub(super) label: Label,
}

/// The source of a value.
#[derive(Debug, Clone)]
pub(super) struct Label {
    /// JSON pointer of the binding, or of the operation without one.
    pub(super) pointer: String,
    pub(super) is_binding: bool,
    pub(super) from: Source,
}

#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The whole of a value: `the result of "fetch"`.
    Whole(String),
    /// The selection of a path.
    Path {
        path: String,
        of: String,
        /// The segment that no schema declares, if that is the problem.
        undeclared: Option<Undeclared>,
        /// Whether it is the result of a step that may not have completed.
        is_pending: bool,
    },
    Constant,
    Construct(Vec<(String, Label)>),
}

impl Source {
    pub(super) fn path(path: &str, of: &str) -> Self {
        let (path, of) = (path.to_owned(), of.to_owned());
        Self::Path { path, of, undeclared: None, is_pending: false }
    }
}

impl Label {
    /// Whether the source step may not have completed.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.from, Source::Path { is_pending: true, .. })
    }

    pub(super) fn whole(of: &str, pointer: String) -> Self {
        Self { pointer, is_binding: false, from: Source::Whole(of.to_owned()) }
    }

    /// The source of the member with this name; `None` for one that a `construct` lacks.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        let from = match &self.from {
            Source::Whole(of) => Source::path(&segment("$", name), of),
            Source::Path { path, of, .. } => Source::path(&segment(path, name), of),
            Source::Constant => Source::Constant,
            Source::Construct(fields) => {
                let field = fields.iter().find(|(known, _)| known == name);
                return field.map(|(_, label)| label.clone());
            }
        };
        Some(Self { pointer: self.pointer.clone(), is_binding: self.is_binding, from })
    }

    pub(super) fn words(&self) -> String {
        match &self.from {
            Source::Whole(of) => of.clone(),
            Source::Path { path, of, .. } => format!("{path} in {of}"),
            Source::Constant => "the constant".to_owned(),
            Source::Construct(_) => "the constructed object".to_owned(),
        }
    }
}

pub(super) fn segment(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_plain)
    {
        format!("{path}.{name}")
    } else {
        format!("{path}['{name}']")
    }
}

/// The values that bindings can refer to.
#[derive(Clone, Copy)]
pub(super) struct ValueContext<'s> {
    pub(super) input: &'s Given,
    /// The results of steps.
    pub(super) steps: &'s [(&'s str, Given)],
    /// The number of these steps that have certainly completed.
    pub(super) completed: usize,
    /// The error that a saga compensates.
    pub(super) error: Option<&'s Given>,
}

impl Checker<'_> {
    /// The input of a step: its binding, or `otherwise` without one.
    pub(super) fn given(
        &mut self,
        (binding, otherwise): (Option<&Binding>, &Given),
        scope: ValueContext<'_>,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        let Some(binding) = binding else { return otherwise.clone() };
        let (selected, label) = bound(binding, scope, at);
        self.is_present(&selected, &label, subject, at);
        match selected.presence {
            Presence::Never => Given { shape: Shape::Unknown(None), label },
            Presence::Perhaps | Presence::Always => Given { shape: selected.shape, label },
        }
    }
}

/// The value of a binding.
fn bound(binding: &Binding, scope: ValueContext<'_>, at: Location<'_>) -> (Selected, Label) {
    let from = |path: &Path, from: &Given| from_path(path, from, at);
    match binding {
        Binding::Input(path) => from(path, scope.input),
        Binding::Step { id, path } => {
            let step = scope.steps.iter().enumerate().find(|(_, (known, _))| known == id);
            let nothing = || Given {
                shape: Shape::Unknown(None),
                label: Label::whole(&format!("the result of \"{id}\""), at.to_string()),
            };
            match step {
                Some((i, (_, given))) if i < scope.completed => from(path, given),
                Some((_, (_, given))) => pending(from(path, given)),
                None => from(path, &nothing()),
            }
        }
        Binding::Error(path) => {
            let unknown = || Given {
                shape: Shape::Unknown(None),
                label: Label::whole("the error", at.to_string()),
            };
            match scope.error {
                Some(given) => from(path, given),
                None => from(path, &unknown()),
            }
        }
        Binding::Constant(value) => {
            let label = Label { pointer: at.to_string(), is_binding: true, from: Source::Constant };
            (Selected::always(Shape::constant(value)), label)
        }
        Binding::Construct(fields) => {
            let inside = at.member("construct");
            let inside = inside.member("fields");
            let (mut members, mut all) = (Vec::new(), Vec::new());
            for (name, binding) in fields {
                let (selected, label) = bound(binding, scope, inside.member(name));
                all.push((name.clone(), label));
                let Selected { shape, presence, is_declared } = selected;
                let is_sure = presence == Presence::Always;
                if presence != Presence::Never {
                    members.push((name.clone(), Member { shape, is_sure, is_declared }));
                }
            }
            let from = Source::Construct(all);
            let label = Label { pointer: at.to_string(), is_binding: true, from };
            (Selected::always(Shape::object(members)), label)
        }
    }
}

/// Marks a result as that of a step that may not have completed.
fn pending((mut selected, mut label): (Selected, Label)) -> (Selected, Label) {
    if selected.presence == Presence::Always {
        selected.presence = Presence::Perhaps;
    }
    if let Source::Path { is_pending, .. } = &mut label.from {
        *is_pending = true;
    }
    (selected, label)
}

fn from_path(path: &Path, from: &Given, at: Location<'_>) -> (Selected, Label) {
    let selected = select(path, &from.shape);
    let of = match &from.label.from {
        Source::Whole(of) => of.clone(),
        _ => "the input".to_owned(),
    };
    let is_declared = selected.is_declared && selected.presence != Presence::Never;
    let undeclared = if is_declared { None } else { undeclared(path, &from.shape) };
    let path = path.as_str().to_owned();
    let from = Source::Path { path, of, undeclared, is_pending: false };
    let label = Label { pointer: at.to_string(), is_binding: true, from };
    (selected, label)
}

impl Shape {
    /// The declared names of its members.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Unknown(_) | Self::Array(_) => Vec::new(),
            Self::Schema(schema, _) => super::schema::declared(schema),
            Self::Object(object) => object.members.keys().cloned().collect(),
            Self::OneOf(all) => {
                let mut names: Vec<_> = all.iter().flat_map(Self::names).collect();
                names.sort();
                names.dedup();
                names
            }
        }
    }

    /// The member with this name.
    pub(super) fn member(&self, name: &str) -> super::shape::Found {
        self.child(&Step::Name(name.to_owned()))
    }
}
