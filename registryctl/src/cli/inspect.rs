//! The arguments of `inspect`.

use std::path::PathBuf;

use clap::Args;
use inspection::Detector;
use registry_core::entity::policy::DataClass;

#[derive(Debug, Args)]
#[command(after_help = "Exits with 1 if the file has findings. Values are never printed.")]
pub(crate) struct InspectArgs {
    /// File, or `-` for standard input
    ///
    /// JSON is inspected by strings, numbers and keys. Everything else is a text.
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub(crate) file: Option<PathBuf>,
    /// Only this class; may be repeated [default: all but network]
    ///
    /// The classes are credential, financial, governmentId, contact and network.
    #[arg(long = "class", value_name = "CLASS")]
    pub(crate) classes: Vec<DataClass>,
    /// Add a detector, such as br-cpf; may be repeated
    ///
    /// Detectors of national identification numbers are opt-in, except the one of US numbers.
    #[arg(long = "detector", value_name = "NAME", value_parser = detector)]
    pub(crate) detectors: Vec<&'static Detector>,
    /// List the detectors
    #[arg(long, conflicts_with_all = ["file", "classes", "detectors"])]
    pub(crate) list: bool,
}

fn detector(name: &str) -> Result<&'static Detector, String> {
    Detector::find(name).map_err(|e| format!("{e}; `registryctl inspect --list` shows all"))
}
