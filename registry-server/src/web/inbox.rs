//! The list of approval requests, and decisions about several of them.

use std::sync::Arc;

use approval::{Request, RequestId, State as RequestState};
use axum::{
    body::Bytes,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::LOCATION};
use registry_core::{Timestamp, commit::invalid_message_char};

use super::{
    Session, Web,
    form::{Fields, Form},
    html::Html,
    problem::Problem,
    sign_in::forward,
    target::Target,
};
use crate::app::{
    approvals::{ApprovalsWanted, DecisionChoice, DecisionWanted, States},
    page::PageRequest,
};

/// Maximum number of requests in one page.
const PAGE: usize = 50;

/// Shows the requests that the person may see.
pub(super) async fn show(
    State(web): State<Arc<Web>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let target = Target(None);
    let Some(session) = web.session(&headers) else { return Ok(sign_in(&headers, target)) };
    let query = query.unwrap_or_default();
    let start = Place::read(&Fields::parse(query.as_bytes()));
    let Listed { pending, others, next } = Box::pin(list(&web, &session, start)).await?;
    let now = web.now();
    let mut content = Html::default();
    content.markup("<h2>Pending</h2>\n");
    if pending.is_empty() {
        content.markup("<p>No request on this page waits for a decision.</p>\n");
    } else {
        add_pending(&mut content, &web, &session, &pending);
    }
    if !others.is_empty() {
        content.markup("<h2>Decided and ended</h2>\n<ul class=\"requests\">\n");
        for request in &others {
            content.markup("<li>\n");
            add_summary(&mut content, request, now);
            content.markup("</li>\n");
        }
        content.markup("</ul>\n");
    }
    if let Some(next) = next {
        content.markup("<nav aria-label=\"Pages\"><a rel=\"next\" href=\"/approvals?");
        content.text(next.query()).markup("\">Next page</a></nav>\n");
    }
    Ok(web.page(&session, "Approvals", content).respond(StatusCode::OK))
}

/// Decides about the selected requests.
pub(super) async fn decide(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let session = web.session_of_form(&headers)?;
    let fields = Fields::parse(&body);
    let choice = read_choice(&fields)?;
    let selected = read_selected(&fields)?;
    let mut content = Html::default();
    content.markup("<ul class=\"requests\">\n");
    for (id, token) in selected {
        content.markup("<li><a href=\"").text(Target(Some(id))).markup("\">").text(id);
        content.markup("</a>: ");
        let wanted = DecisionWanted { id, choice: choice.clone(), is_batch: true };
        match decide_one(&web, &session, token, &wanted).await {
            Ok(request) => content.text(request.state),
            Err(problem) => content.text(problem),
        };
        content.markup("</li>\n");
    }
    content.markup("</ul>\n<p><a href=\"/approvals\">Open the approvals</a></p>\n");
    Ok(web.page(&session, "Results", content).respond(StatusCode::OK))
}

/// Decides about a request with the token of its form.
pub(super) async fn decide_one(
    web: &Web,
    session: &Session,
    token: Option<&str>,
    wanted: &DecisionWanted,
) -> Result<Request, Problem> {
    let viewer = session.viewer();
    let shown = Box::pin(web.approvals.show(&viewer, wanted.id)).await?;
    web.check_token(token, session, Form::Decision(&shown.request))?;
    Ok(Box::pin(web.approvals.decide(&viewer, wanted)).await?)
}

/// The response to a request without a session.
pub(super) fn sign_in(headers: &HeaderMap, target: Target) -> Response {
    // A link of another site, for example of a chat, sends no session. The page repeats the request.
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return forward("Approvals", target).respond(StatusCode::OK);
    }
    // The path has letters and digits only.
    let path = HeaderValue::try_from(target.sign_in());
    let path = path.unwrap_or(HeaderValue::from_static("/sign-in"));
    (StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response()
}

/// The choice of a form. A missing reason of a denial is rejected later.
pub(super) fn read_choice(fields: &Fields<'_>) -> Result<DecisionChoice, Problem> {
    match fields.one("choice") {
        Some("approve") => Ok(DecisionChoice::Approve),
        Some("deny") => {
            let reason = fields.one("reason").unwrap_or_default().trim().replace("\r\n", "\n");
            if invalid_message_char(&reason).is_some() {
                let problem = "The reason has a control character. Remove it.";
                return Err(Problem::invalid_form(problem));
            }
            Ok(DecisionChoice::Deny { reason })
        }
        _ => Err(Problem::invalid_form("The form has no choice. Use one of its buttons.")),
    }
}

/// The ids and tokens of the selected requests.
fn read_selected<'a>(fields: &'a Fields<'_>) -> Result<Vec<(RequestId, Option<&'a str>)>, Problem> {
    let read = |value: &'a str| {
        let (id, token) = value.split_once('.')?;
        Some((id.parse::<RequestId>().ok()?, Some(token)))
    };
    let selected: Option<Vec<_>> = fields.all("request").map(read).collect();
    match selected {
        Some(selected) if (1..=PAGE).contains(&selected.len()) => Ok(selected),
        _ => Err(Problem::invalid_form("Select one or more requests of the page.")),
    }
}

/// The requests of one page.
#[derive(Default)]
struct Listed {
    pending: Vec<Request>,
    others: Vec<Request>,
    next: Option<Place>,
}

/// The place of a page: first those of the pending requests, then those of the others.
struct Place {
    is_past_pending: bool,
    token: String,
}

impl Place {
    fn read(fields: &Fields<'_>) -> Self {
        let token = fields.one("page").unwrap_or_default().to_owned();
        Self { is_past_pending: fields.one("list") == Some("others"), token }
    }

    fn query(&self) -> String {
        let list = if self.is_past_pending { "others" } else { "pending" };
        format!("list={list}&page={}", self.token)
    }

    /// The page of requests in this list, and the place of the next one.
    async fn requests(
        self,
        web: &Web,
        session: &Session,
    ) -> Result<(Vec<Request>, Option<Self>), Problem> {
        let (states, query): (_, &[u8]) = if self.is_past_pending {
            (States::Except(RequestState::Pending), b"others")
        } else {
            (States::Only(RequestState::Pending), b"pending")
        };
        let request = PageRequest::new(PAGE, self.token, "approval pages", query);
        let wanted = ApprovalsWanted { states, own: false };
        let page = web.approvals.list(&session.viewer(), wanted, &request).await?;
        let (is_past_pending, token) = (self.is_past_pending, page.next_page_token);
        let next = (!token.is_empty()).then_some(Self { is_past_pending, token });
        Ok((page.items, next))
    }
}

async fn list(web: &Web, session: &Session, start: Place) -> Result<Listed, Problem> {
    let mut listed = Listed::default();
    let mut place = start;
    if !place.is_past_pending {
        (listed.pending, listed.next) = place.requests(web, session).await?;
        if listed.next.is_some() {
            return Ok(listed);
        }
        place = Place { is_past_pending: true, token: String::new() };
    }
    (listed.others, listed.next) = place.requests(web, session).await?;
    Ok(listed)
}

fn add_pending(content: &mut Html, web: &Web, session: &Session, pending: &[Request]) {
    let now = web.now();
    content.markup("<form method=\"post\" action=\"/approvals\">\n<ul class=\"requests\">\n");
    for request in pending {
        let token = web.forms.token(&session.key, Form::Decision(request));
        content.markup("<li>\n<input type=\"checkbox\" name=\"request\" id=\"request-");
        content.text(request.id).markup("\" value=\"").text(request.id).markup(".").text(token);
        content.markup("\">\n<label for=\"request-").text(request.id).markup("\">Select ");
        content.text(&request.binding.resource).markup("</label>\n");
        add_summary(content, request, now);
        content.markup("</li>\n");
    }
    content.markup(
        "</ul>\n<h3>Decide about the selected requests</h3>\n\
         <p>Requests of policies that demand different people are skipped. Open their pages.</p>\n\
         <button name=\"choice\" value=\"approve\">Approve the selected</button>\n\
         <label for=\"reason\">Reason of a denial, which the caller receives</label>\n\
         <textarea id=\"reason\" name=\"reason\" rows=\"3\" maxlength=\"2000\"></textarea>\n\
         <button name=\"choice\" value=\"deny\">Deny the selected</button>\n</form>\n",
    );
}

fn add_summary(content: &mut Html, request: &Request, now: Timestamp) {
    let binding = &request.binding;
    content.markup("<div>\n<a href=\"").text(Target(Some(request.id))).markup("\">");
    content.text(&binding.resource).markup(" ").text(&binding.version).markup("</a>\n<p>");
    content.text(request.state_at(now)).markup(" · ").text(&binding.caller.subject);
    if let Some(agent) = &binding.agent {
        content.markup(" with ").text(agent);
    }
    content.markup(" · ").text(request.created_at).markup("</p>\n</div>\n");
}
