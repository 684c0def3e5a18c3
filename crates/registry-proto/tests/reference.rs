//! Generates `docs/reference/api.md` from the descriptors of the API.

use std::{collections::HashMap, fmt::Write as _};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use registry_proto::FILE_DESCRIPTOR_SET;

const PACKAGE: &str = "registry.v1";

// Field numbers in `FileDescriptorProto` and `DescriptorProto`, which form the paths of comments.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
const MEMBERS: i32 = 2;
const NESTED_MESSAGES: i32 = 3;
const NESTED_ENUMS: i32 = 4;

/// The comments of a file by their path in the descriptor.
struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    fn of_file(file: &FileDescriptorProto) -> Self {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = locations.filter_map(|location| {
            let lines = location.leading_comments.as_ref()?.lines().map(str::trim);
            Some((location.path.clone(), lines.collect::<Vec<_>>().join("\n")))
        });
        Self(comments.collect())
    }

    /// The comment as paragraphs.
    fn text(&self, path: &[i32]) -> String {
        let comment = self.0.get(path).map(String::as_str).unwrap_or_default();
        let paragraphs = comment.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        paragraphs.collect::<Vec<_>>().join("\n\n").trim().to_owned()
    }

    /// The comment as one table cell.
    fn cell(&self, path: &[i32]) -> String {
        self.text(path).replace("\n\n", " ").replace('|', "\\|")
    }
}

/// A type name as a link, if it belongs to the package.
fn link(name: &str) -> String {
    let name = name.trim_start_matches('.');
    match name.strip_prefix(&format!("{PACKAGE}.")) {
        Some(local) => format!("[{local}](#{})", anchor(local)),
        None => format!("`{name}`"),
    }
}

fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace('.', "")
}

fn scalar(kind: Type) -> String {
    format!("`{}`", kind.as_str_name().trim_start_matches("TYPE_").to_lowercase())
}

fn type_name(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        kind => scalar(kind),
    }
}

/// The type of a field with its label.
fn field_type(field: &FieldDescriptorProto, nested: &[DescriptorProto]) -> String {
    let entry = nested.iter().find(|message| {
        let is_map = message.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry);
        is_map && field.type_name().ends_with(&format!(".{}", message.name()))
    });
    if let Some([key, value]) = entry.map(|entry| entry.field.as_slice()) {
        return format!("map of {} to {}", type_name(key), type_name(value));
    }
    match field.label() {
        Label::Repeated => format!("repeated {}", type_name(field)),
        _ if field.proto3_optional() => format!("optional {}", type_name(field)),
        _ => type_name(field),
    }
}

fn service(text: &mut String, service: &ServiceDescriptorProto, at: i32, comments: &Comments) {
    let name = service.name();
    let _ = write!(text, "## {name}\n\n{}\n\n", comments.text(&[SERVICES, at]));
    for (i, method) in (0..).zip(&service.method) {
        let side = |is_stream: bool, name: &str| {
            format!("{}{}", if is_stream { "stream of " } else { "" }, link(name))
        };
        let request = side(method.client_streaming(), method.input_type());
        let response = side(method.server_streaming(), method.output_type());
        let comment = comments.text(&[SERVICES, at, MEMBERS, i]);
        let _ =
            write!(text, "### {name}.{}\n\n{comment}\n\n{request} → {response}\n\n", method.name());
    }
}

fn message(
    text: &mut String,
    message: &DescriptorProto,
    (parent, path): (&str, &[i32]),
    comments: &Comments,
) {
    if message.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry) {
        return;
    }
    let name = format!("{parent}{}", message.name());
    let _ = write!(text, "### {name}\n\n{}\n\n", comments.text(path));
    if !message.field.is_empty() {
        text.push_str("| field | type | meaning |\n|---|---|---|\n");
    }
    for (i, field) in (0..).zip(&message.field) {
        let kind = field_type(field, &message.nested_type);
        let group = field.oneof_index.filter(|_| !field.proto3_optional());
        let group = group.and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?));
        let group = group.map(|group| format!(" One of `{}`.", group.name())).unwrap_or_default();
        let meaning = comments.cell(&[path, &[MEMBERS, i]].concat());
        let _ = writeln!(text, "| `{}` | {kind} | {meaning}{group} |", field.name());
    }
    text.push('\n');
    let parent = format!("{name}.");
    for (i, nested) in (0..).zip(&message.nested_type) {
        let path = [path, &[NESTED_MESSAGES, i]].concat();
        self::message(text, nested, (&parent, &path), comments);
    }
    for (i, nested) in (0..).zip(&message.enum_type) {
        let path = [path, &[NESTED_ENUMS, i]].concat();
        enumeration(text, nested, (&parent, &path), comments);
    }
}

fn enumeration(
    text: &mut String,
    enumeration: &EnumDescriptorProto,
    (parent, path): (&str, &[i32]),
    comments: &Comments,
) {
    let name = format!("{parent}{}", enumeration.name());
    let _ = write!(text, "### {name}\n\n{}\n\n", comments.text(path));
    text.push_str("| value | number | meaning |\n|---|---|---|\n");
    for (i, value) in (0..).zip(&enumeration.value) {
        let meaning = comments.cell(&[path, &[MEMBERS, i]].concat());
        let _ = writeln!(text, "| `{}` | {} | {meaning} |", value.name(), value.number());
    }
    text.push('\n');
}

/// The services with their methods, followed by all messages and enums by file.
fn api() -> String {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let mut files: Vec<_> = set.file.iter().filter(|file| file.package() == PACKAGE).collect();
    files.sort_by_key(|file| file.name());
    let (mut services, mut types) = (String::new(), String::from("## Messages and enums\n\n"));
    for file in files {
        let comments = Comments::of_file(file);
        for (i, descriptor) in (0..).zip(&file.service) {
            service(&mut services, descriptor, i, &comments);
        }
        for (i, descriptor) in (0..).zip(&file.message_type) {
            message(&mut types, descriptor, ("", &[MESSAGES, i]), &comments);
        }
        for (i, descriptor) in (0..).zip(&file.enum_type) {
            enumeration(&mut types, descriptor, ("", &[ENUMS, i]), &comments);
        }
    }
    format!("{services}{types}")
}

#[test]
fn reference_of_api_is_current() {
    reference_pages::check("api.md", "API reference", &api());
}
