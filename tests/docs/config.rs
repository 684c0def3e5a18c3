//! The options of the gateway's configuration file, from the template of `config init`.

use std::fs;

/// A line of the template.
struct Line<'a> {
    indent: usize,
    name: &'a str,
    value: &'a str,
    meaning: &'a str,
    /// An alternative to the option before it. Later lines belong to that option.
    is_alternative: bool,
}

/// Reads a line with an option: `#`, the indentation, `#` for an alternative, and the option.
fn option(line: &str) -> Option<Line<'_>> {
    let line = line.strip_prefix('#')?;
    let text = line.trim_start();
    let indent = line.len() - text.len();
    if indent == 1 {
        return None;
    }
    let (is_alternative, text) = match text.strip_prefix('#') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (indent, text) = text.strip_prefix("- ").map_or((indent, text), |item| (indent + 2, item));
    let (field, meaning) = text.split_once(" #").unwrap_or((text, ""));
    let field = field.trim();
    let (name, value) = field.split_once(": ").or_else(|| Some((field.strip_suffix(':')?, "")))?;
    Some(Line { indent, name, value: value.trim(), meaning: meaning.trim(), is_alternative })
}

/// The tables of the options, one for each section of the template.
fn tables(template: &str) -> String {
    let mut sections: Vec<(&str, Vec<[String; 3]>)> = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    for line in template.lines().skip_while(|line| !line.is_empty()) {
        let title = line.strip_prefix("# ").filter(|title| !title.starts_with(' '));
        if let Some(title) = title {
            sections.push((title, Vec::new()));
            continue;
        }
        let Some(line) = option(line) else { continue };
        let path = parents.iter().filter(|(indent, _)| *indent < line.indent);
        let path: String = path.flat_map(|(_, name)| [name, "."]).collect();
        let (_, rows) = sections.last_mut().expect("options follow a title");
        let value = if line.value.is_empty() { String::new() } else { format!("`{}`", line.value) };
        rows.push([format!("`{path}{}`", line.name), value, line.meaning.to_owned()]);
        if !line.is_alternative {
            parents.retain(|(indent, _)| *indent < line.indent);
            parents.push((line.indent, line.name));
        }
    }
    let header = ["option", "default or example", "meaning"];
    let sections = sections.into_iter().filter(|(_, rows)| !rows.is_empty());
    let sections: Vec<_> = sections
        .map(|(title, rows)| format!("## {title}\n\n{}\n", reference_pages::table(header, &rows)))
        .collect();
    sections.concat()
}

#[test]
fn reference_of_configuration_is_current() {
    let path = acceptance::root().join("gateway-agent/src/config/template.yaml");
    let template = fs::read_to_string(path).expect("the template of `config init`");
    let tables = tables(&template);
    assert!(tables.contains("`registry.source`"), "{tables}");
    let body = format!(
        "The second column has the default, or an example if the meaning names the default. Items \
         of a list have the path of the list. A secret is a text, `{{ file: PATH }}` or `{{ env: \
         NAME }}`, the latter two with an optional `prefix`. `gateway-agent config init` writes a \
         file with all options; [Configure the gateway](../operate/configure.md) explains \
         them.\n\n{tables}"
    );
    reference_pages::check("gateway-config.md", "Configuration of gateway-agent", &body);
}
