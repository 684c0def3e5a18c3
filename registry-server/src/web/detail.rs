//! The page of one approval request.

use std::{fmt::Display, sync::Arc};

use approval::{Choice, Decision, Request, RequestId, State as RequestState};
use axum::{
    body::Bytes,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::LOCATION};

use super::{
    Session, Web,
    form::{Fields, Form},
    html::Html,
    inbox::{decide_one, read_choice, sign_in},
    problem::Problem,
    target::Target,
};
use crate::{access::Role, app::approvals::DecisionWanted};

/// Maximum indentation levels of a preview, which bounds the size of its page.
const MAX_LEVELS: usize = 16;

/// Shows a request.
pub(super) async fn show(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = id.parse::<RequestId>().map_err(|_| Problem::not_found())?;
    let Some(session) = web.session(&headers) else {
        return Ok(sign_in(&headers, Target(Some(id))));
    };
    let request = web.approvals.show(&session.viewer(), id).await?.request;
    let title = format!("Approval of {}", request.binding.resource);
    Ok(web.page(&session, title, render(&web, &session, &request)).respond(StatusCode::OK))
}

/// Decides about a request.
pub(super) async fn decide(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let session = web.session_of_form(&headers)?;
    let id = id.parse::<RequestId>().map_err(|_| Problem::not_found())?;
    let fields = Fields::parse(&body);
    let wanted = DecisionWanted { id, choice: read_choice(&fields)?, is_batch: false };
    decide_one(&web, &session, fields.one("form"), &wanted).await?;
    // The path has letters and digits only.
    let path = HeaderValue::try_from(Target(Some(id)).to_string());
    let path = path.unwrap_or(HeaderValue::from_static("/approvals"));
    Ok((StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response())
}

fn render(web: &Web, session: &Session, request: &Request) -> Html {
    let state = request.state_at(web.now());
    let mut content = Html::default();
    if let Some(earlier) = request.uncertain {
        content.markup(
            "<p class=\"warning\" role=\"note\"><strong>The call may be a repetition.</strong> An \
             earlier request for this call is in progress or has an unknown outcome: <a href=\"",
        );
        content.text(Target(Some(earlier))).markup("\">").text(earlier).markup("</a></p>\n");
    }
    add_facts(&mut content, request, state);
    add_arguments(&mut content, session, request);
    add_policies(&mut content, request);
    add_decisions(&mut content, &request.decisions);
    if state == RequestState::Pending {
        add_forms(&mut content, web, session, request);
    }
    content
}

fn add_arguments(content: &mut Html, session: &Session, request: &Request) {
    content.markup("<h2>Arguments</h2>\n");
    if !session.viewer().sees_arguments(request) {
        content.markup(
            "<p id=\"unseen-arguments\">Only the caller and the approvers that the policies name see \
             the arguments.</p>\n",
        );
    } else if let Some(preview) = &request.preview {
        if request.binding.demands.iter().any(|demand| !demand.rule.show.is_empty()) {
            content.markup(
                "<p id=\"hidden-arguments\" role=\"note\">The policies select these arguments. \
                 Others of the call are hidden.</p>\n",
            );
        }
        content.markup("<pre tabindex=\"0\" aria-label=\"Arguments as JSON\">");
        for line in indent(preview) {
            content.text(line).markup("\n");
        }
        content.markup("</pre>\n");
    } else {
        content.markup("<p>The arguments were erased after the end.</p>\n");
    }
}

fn add_facts(content: &mut Html, request: &Request, state: RequestState) {
    let binding = &request.binding;
    content.markup("<dl>\n");
    add_fact(content, "State", state);
    add_fact(content, "Caller", &binding.caller.subject);
    add_fact(content, "Issuer of the caller", &binding.caller.issuer);
    if let Some(person) = &binding.caller.person {
        add_fact(content, "Person", person);
    }
    if let Some(agent) = &binding.agent {
        add_fact(content, "Agent", agent);
    }
    add_fact(content, "Tool", &binding.resource);
    add_fact(content, "Version", &binding.version);
    add_fact(content, "Digest of the definition", binding.definition);
    add_fact(content, "Requested at", request.created_at);
    match request.deadline {
        Some(deadline) => add_fact(content, "Expires at", deadline),
        None => add_fact(content, "Expires at", "never"),
    }
    if let Some(origin) = request.granted_by {
        add_fact(content, "Standing grant", origin);
    }
    content.markup("</dl>\n");
}

fn add_fact(content: &mut Html, name: &'static str, value: impl Display) {
    content.markup("<dt>").markup(name).markup("</dt>\n<dd>").text(value).markup("</dd>\n");
}

fn add_policies(content: &mut Html, request: &Request) {
    content.markup("<h2>Policies</h2>\n<ul>\n");
    for demand in &request.binding.demands {
        let rule = &demand.rule;
        content.markup("<li><strong>").text(&demand.policy).markup("</strong>: ");
        content.text(rule.quorum).markup(" of");
        for approver in &rule.approvers {
            content.markup(" <code>").text(approver).markup("</code>");
        }
        if rule.four_eyes {
            content.markup("; not the caller, and not a team that owns the agent");
        }
        content.markup("</li>\n");
    }
    content.markup("</ul>\n");
}

fn add_decisions(content: &mut Html, decisions: &[Decision]) {
    content.markup("<h2>Decisions</h2>\n");
    if decisions.is_empty() {
        content.markup("<p>There are none.</p>\n");
        return;
    }
    content.markup("<ul>\n");
    for decision in decisions {
        content.markup("<li><strong>");
        match &decision.choice {
            Choice::Approve { .. } => content.markup("Approved"),
            Choice::Deny { .. } => content.markup("Denied"),
        };
        content.markup("</strong> by ").text(&decision.by.subject).markup(" at ");
        content.text(decision.at).markup(" for");
        for policy in &decision.policies {
            content.markup(" <code>").text(policy).markup("</code>");
        }
        if let Choice::Deny { reason } = &decision.choice {
            content.markup("<blockquote>");
            for line in reason.lines() {
                content.text(line).markup("<br>\n");
            }
            content.markup("</blockquote>");
        }
        content.markup("</li>\n");
    }
    content.markup("</ul>\n");
}

fn add_forms(content: &mut Html, web: &Web, session: &Session, request: &Request) {
    content.markup("<h2>Decide</h2>\n");
    if !session.principal.roles.has(Role::Approver) && !session.principal.is_admin() {
        content.markup("<p>The role <code>approver</code> is required.</p>\n");
        return;
    }
    let token = web.forms.token(&session.key, Form::Decision(request));
    let add_start = |content: &mut Html| {
        content.markup("<form method=\"post\" action=\"").text(Target(Some(request.id)));
        content.markup("\">\n<input type=\"hidden\" name=\"form\" value=\"").text(&token);
        content.markup("\">\n");
    };
    add_start(content);
    content
        .markup("<button name=\"choice\" value=\"approve\">Approve this call</button>\n</form>\n");
    add_start(content);
    content.markup(
        "<label for=\"reason\">Reason of the denial, which the caller receives</label>\n\
         <textarea id=\"reason\" name=\"reason\" rows=\"3\" maxlength=\"2000\" required></textarea>\n\
         <button name=\"choice\" value=\"deny\">Deny this call</button>\n</form>\n",
    );
}

/// The lines of a JSON text with indentation. Its tokens are unchanged: a parser could round numbers.
fn indent(json: &str) -> Vec<String> {
    let (mut lines, mut line, mut level) = (Vec::new(), String::new(), 0_usize);
    let (mut is_string, mut is_escaped) = (false, false);
    let spaces = |level: usize| "  ".repeat(level.min(MAX_LEVELS));
    for character in json.chars() {
        if is_string {
            line.push(character);
            is_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                level += 1;
                line.push(character);
                lines.push(std::mem::replace(&mut line, spaces(level)));
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                lines.push(std::mem::replace(&mut line, spaces(level)));
                line.push(character);
            }
            ',' => {
                line.push(character);
                lines.push(std::mem::replace(&mut line, spaces(level)));
            }
            ':' => line.push_str(": "),
            ' ' | '\t' | '\r' | '\n' => {}
            other => {
                is_string = other == '"';
                line.push(other);
            }
        }
    }
    lines.push(line);
    lines.retain(|line| !line.trim_matches(' ').is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn preview_keeps_all_digits_and_escapes() {
        let lines = indent(r#"{"amount":12345678901234567890.10,"to":["a, b","\"}{"],"n":{}}"#);
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {
          "amount": 12345678901234567890.10,
          "to": [
            "a, b",
            "\"}{"
          ],
          "n": {
          }
        }
        "#);
    }

    #[test]
    fn deep_preview_has_bounded_size() {
        let lines = indent(&"[".repeat(65_536));
        assert_eq!(lines.len(), 65_536);
        assert!(lines.iter().all(|line| line.len() <= 2 * MAX_LEVELS + 1));
    }

    proptest! {
        #[test]
        fn indentation_changes_only_spaces(text in "[\\[\\]{}:,\"\\\\ a-c0-9\n]{0,60}") {
            let visible = |text: &str| -> String {
                text.chars().filter(|character| !character.is_whitespace()).collect()
            };
            prop_assert_eq!(visible(&indent(&text).concat()), visible(&text));
        }
    }
}
