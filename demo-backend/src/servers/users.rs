//! `user-service`: a fixed set of people, read and searched by their bios.

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::hosted_server::Domain;
use crate::page::{Totals, Window};
use crate::relevance::Text;
use crate::search::{Candidate, Search, SearchResults};
use crate::tool_error::ToolError;

/// The user server. Its people are constants.
#[derive(Debug, Clone, Copy)]
pub struct Users;

/// A person.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct User {
    /// The person's id, such as `user-1`.
    pub id: &'static str,
    /// Full name.
    pub name: &'static str,
    /// Address for mail.
    #[schemars(extend("format" = "email"))]
    pub email: &'static str,
    /// The occupation of the person.
    pub role: &'static str,
    /// A few sentences about the person.
    pub bio: &'static str,
}

const USERS: [User; 5] = [
    User {
        id: "user-1",
        name: "Ada Lind",
        email: "ada.lind@example.com",
        role: "Platform engineer",
        bio: "Builds the registry and its storage in Rust. Cares for append-only logs.",
    },
    User {
        id: "user-2",
        name: "Bo Mensah",
        email: "bo.mensah@example.com",
        role: "Site reliability engineer",
        bio: "Runs gateways in three regions and writes the operations handbook.",
    },
    User {
        id: "user-3",
        name: "Chen Wei",
        email: "chen.wei@example.com",
        role: "Backend engineer",
        bio: "Designs the order saga: inventory, payment and shipping with compensation.",
    },
    User {
        id: "user-4",
        name: "Dana Ruiz",
        email: "dana.ruiz@example.com",
        role: "Research scientist",
        bio: "Studies quantum computing and error correction; reads more than she writes.",
    },
    User {
        id: "user-5",
        name: "Eli Novak",
        email: "eli.novak@example.com",
        role: "Market analyst",
        bio: "Follows electric vehicles, batteries and charging networks.",
    },
];

/// One user.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UserId {
    /// The user's id, such as `user-1`.
    pub id: String,
}

/// A search over the bios.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchUsers {
    /// The words to look for.
    pub query: String,
    /// The page of hits to return.
    #[serde(flatten)]
    pub window: Window,
}

/// A page of users.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UserList {
    /// The users of this page, by id.
    pub users: Vec<User>,
    /// The size of the whole.
    #[serde(flatten)]
    pub totals: Totals,
}

impl Domain for Users {
    const NAME: &'static str = "user-service";
    const VERSION: &'static str = "1.1.0";
    const PATH: &'static str = "/users/mcp";
    const INSTRUCTIONS: &'static str = "Find out who works here and who knows what.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Users {
    /// List all users, by id.
    #[tool(annotations(
        title = "List users",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn list_users(Parameters(window): Parameters<Window>) -> Result<Json<UserList>, ToolError> {
        let (users, totals) = window.cut(USERS)?;
        Ok(Json(UserList { users, totals }))
    }

    /// Read one user by id.
    #[tool(annotations(
        title = "Get user",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn get_user(Parameters(UserId { id }): Parameters<UserId>) -> Result<Json<User>, ToolError> {
        let user = USERS.into_iter().find(|user| user.id == id);
        user.map(Json).ok_or_else(|| ToolError::not_found("user", &id))
    }

    /// Find users whose bio answers a query; the results have the shape of a document search.
    #[tool(annotations(
        title = "Search users by bio",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn search_users_by_bio(
        Parameters(request): Parameters<SearchUsers>,
    ) -> Result<Json<SearchResults>, ToolError> {
        let SearchUsers { query, window } = request;
        let candidates = USERS.iter().map(User::candidate).collect();
        Search { query: &query, min_score: 0.0, window }.run(candidates).map(Json)
    }
}

impl User {
    fn candidate(&self) -> Candidate<'_> {
        let mut metadata = Map::new();
        metadata.insert("kind".into(), json!("user"));
        metadata.insert("email".into(), json!(self.email));
        metadata.insert("role".into(), json!(self.role));
        Candidate {
            id: self.id,
            text: Text { title: self.name, tags: &[], body: self.bio },
            url: format!("https://users.example/{}", self.id),
            metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_user_by_bio() {
        let request = SearchUsers { query: "quantum error".into(), window: Window::default() };
        let found = Users::search_users_by_bio(Parameters(request)).map(|found| found.0).unwrap();
        assert_eq!(found.results.len(), 1);
        assert_eq!(
            (found.results[0].id.as_str(), found.results[0].title.as_str()),
            ("user-4", "Dana Ruiz")
        );
    }

    #[test]
    fn unknown_user_is_rejected() {
        let get = |id: &str| Users::get_user(Parameters(UserId { id: id.into() }));
        assert_eq!(get("user-2").map(|user| user.0.name).unwrap(), "Bo Mensah");
        assert_eq!(get("user-6").err().unwrap().code, "not_found");
    }

    #[test]
    fn lists_in_pages() {
        let list = Users::list_users(Parameters(Window { limit: 2, offset: 4 }));
        let list = list.map(|list| list.0).unwrap();
        assert_eq!((list.users.len(), list.totals.total_count), (1, 5));
    }
}
