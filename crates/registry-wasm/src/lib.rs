//! The registry's rules as a WebAssembly module, which the TypeScript package `registry-dsl` calls.
//!
//! The interface has no types beyond numbers: the caller writes the text of a registry file into memory
//! that `alloc` returns, calls `validate`, reads the JSON answer and returns both with `free`. Only
//! WebAssembly has it: `free` of a native program is that of its C library.

use policy::PolicyBreaks;
use registry_core::{
    Catalog, Diagnostic, RegistryId,
    reference::Key,
    registry_file::{FileError, RegistryFile},
    rules,
};
use serde::Serialize;

/// The help for a reference to an entity that the file does not contain.
const ABSENT_HELP: &str = "if it is registered, validate with `deep`, which asks the registry";

/// The JSON answer.
#[derive(Serialize)]
struct Answer {
    diagnostics: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    code: &'static str,
    severity: String,
    entity: Option<Entity>,
    /// JSON pointer into the file.
    pointer: String,
    message: String,
    help: Option<String>,
}

#[derive(Serialize)]
struct Entity {
    kind: &'static str,
    name: String,
    version: String,
}

impl From<&Key> for Entity {
    fn from(key: &Key) -> Self {
        Self {
            kind: key.kind.as_str(),
            name: key.name.to_string(),
            version: key.version.to_string(),
        }
    }
}

impl Finding {
    fn new(pointer: String, found: Diagnostic) -> Self {
        let found = rules::about_files(found, ABSENT_HELP);
        Self {
            code: found.code.as_str(),
            severity: found.severity.to_string(),
            entity: found.entity.as_ref().map(Entity::from),
            pointer,
            message: found.message,
            help: found.help,
        }
    }
}

/// Validates the text of a registry file against an empty registry, like `registryctl validate`. Returns
/// `{"diagnostics": […]}`, errors first.
pub fn validate(text: &[u8]) -> Vec<u8> {
    // An answer has strings only, so it is always JSON.
    serde_json::to_vec(&answer(text)).unwrap_or_default()
}

fn answer(text: &[u8]) -> Answer {
    let mut found = match RegistryFile::parse(text) {
        Ok(file) => check(&file),
        Err(FileError { diagnostics }) => {
            diagnostics.into_iter().map(|found| (found.pointer.clone(), found)).collect()
        }
    };
    found.sort_by_key(|(_, found)| std::cmp::Reverse(found.severity));
    let diagnostics = found.into_iter().map(|(pointer, found)| Finding::new(pointer, found));
    Answer { diagnostics: diagnostics.collect() }
}

/// The findings with their pointers into the file.
fn check(file: &RegistryFile) -> Vec<(String, Diagnostic)> {
    let catalog = Catalog::empty(RegistryId::new("offline"));
    let mut planned = rules::plan(&catalog, file.proposals());
    policy::check(&catalog, file.proposals(), PolicyBreaks::Reject, &mut planned);
    let of_file = file.warnings().iter().map(|found| (found.pointer.clone(), found.clone()));
    of_file
        .chain(planned.diagnostics.into_iter().map(|found| (file.locate(&found), found)))
        .collect()
}

#[cfg(target_family = "wasm")]
mod exports {
    /// Seeds of hash tables, the only use of random numbers. The module has no source of them, and the caller
    /// validates its own files.
    ///
    /// # Safety
    /// The memory has this address and length.
    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __getrandom_v03_custom(
        start: *mut u8,
        length: usize,
    ) -> Result<(), getrandom::Error> {
        // SAFETY: as required of the caller.
        unsafe { std::ptr::write_bytes(start, 0x5a, length) };
        Ok(())
    }

    /// Memory of this size for a text. [`free`] returns it.
    #[unsafe(no_mangle)]
    extern "C" fn alloc(length: u32) -> *mut u8 {
        Box::into_raw(vec![0_u8; length as usize].into_boxed_slice()).cast()
    }

    /// Returns memory of [`alloc`] or of the answer of [`validate`].
    ///
    /// # Safety
    /// The memory has this address and length, and is not used again.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(start: *mut u8, length: u32) {
        // SAFETY: as required of the caller.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, length as usize)) });
    }

    /// Validates the text of a registry file. Returns the address of the JSON answer in the upper 32 bits and
    /// its length in the lower ones. The caller returns the answer with [`free`].
    ///
    /// # Safety
    /// The text has this address and length.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn validate(start: *const u8, length: u32) -> u64 {
        // SAFETY: as required of the caller.
        let text = unsafe { std::slice::from_raw_parts(start, length as usize) };
        let answer = super::validate(text).into_boxed_slice();
        let length = answer.len() as u64;
        (Box::into_raw(answer).cast::<u8>() as u64) << 32 | length
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn absent_entities_are_absent_from_the_file() {
        let source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t" });
        let tool = json!({ "name": "t", "version": "1.0.0", "source": source });
        let file = json!({ "schemaVersion": "2.0", "tools": [tool] });
        let answer: Value = serde_json::from_slice(&validate(file.to_string().as_bytes())).unwrap();
        let codes = answer["diagnostics"].as_array().unwrap().iter().map(|found| &found["code"]);
        assert!(codes.eq(["source-unknown"]), "{answer}");
    }
}
