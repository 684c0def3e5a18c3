//! A detector, and the selection of an inspector.

use std::hash::{Hash, Hasher};

use registry_core::entity::policy::DataClass;

use crate::class::Classes;

/// One kind of value, such as a payment card number.
#[derive(Debug)]
pub struct Detector {
    name: &'static str,
    class: DataClass,
    finds: &'static str,
    is_opt_in: bool,
}

impl Detector {
    pub(crate) const fn new(name: &'static str, class: DataClass, finds: &'static str) -> Self {
        Self { name, class, finds, is_opt_in: false }
    }

    pub(crate) const fn opt_in(name: &'static str, finds: &'static str) -> Self {
        Self { name, class: DataClass::GovernmentId, finds, is_opt_in: true }
    }

    /// The name in findings: lower case with dashes.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The class of the value.
    pub fn class(&self) -> DataClass {
        self.class
    }

    /// The value and its validation, in words.
    pub fn finds(&self) -> &'static str {
        self.finds
    }

    /// Whether a selection of the class does not contain the detector.
    pub fn is_opt_in(&self) -> bool {
        self.is_opt_in
    }
}

impl PartialEq for Detector {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Detector {}

impl Hash for Detector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The detectors of an inspector: those of some classes, and some opt-in detectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    classes: Classes,
    /// Detectors that the classes do not contain.
    opt_in: Vec<&'static Detector>,
}

impl Selection {
    /// The detectors of these classes, without opt-in detectors.
    pub fn of(classes: impl IntoIterator<Item = DataClass>) -> Self {
        Self { classes: classes.into_iter().collect(), opt_in: Vec::new() }
    }

    /// The selection with an opt-in detector.
    pub fn with(mut self, detector: &'static Detector) -> Self {
        if !self.contains(detector) {
            self.opt_in.push(detector);
        }
        self
    }

    pub(crate) fn contains(&self, detector: &Detector) -> bool {
        let is_default = !detector.is_opt_in && self.classes.contains(detector.class);
        is_default || self.opt_in.iter().any(|selected| std::ptr::eq(*selected, detector))
    }

    /// Whether an opt-in detector is selected.
    pub(crate) fn has_opt_in(&self) -> bool {
        !self.opt_in.is_empty()
    }

    /// Whether no detector is selected.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.opt_in.is_empty()
    }
}

impl Default for Selection {
    /// All classes but `network`, without opt-in detectors.
    fn default() -> Self {
        Self::of(DataClass::ALL.into_iter().filter(|class| *class != DataClass::Network))
    }
}
