//! The endpoint of an agent, its protocol version, and its security requirements.

use ::a2a::{Binding, Version, card::requirement_to_v03};
use serde_json::{Value, json};

use super::{
    Card,
    part::{LEFT_OUT, Part},
};

/// The protocol version of a card or an interface without one (A2A 1.0 section 3.6).
const OLDEST_PROTOCOL: &str = Version::V03.as_str();

impl Card {
    /// The URL of the agent and its protocol version, preferably for JSON-RPC.
    pub(super) fn endpoint(&mut self, part: &mut Part, address: &str) -> (String, String) {
        if let Some(found) = self.interface(part) {
            return found;
        }
        if !part.has("protocolVersion") {
            self.lacks(part, "protocolVersion", &format!("\"{OLDEST_PROTOCOL}\" is written"));
        }
        let protocol = self.text(part, "protocolVersion");
        let url = self.text(part, "url").unwrap_or_else(|| {
            let how = match address {
                "" => "an empty value is written; fill it in",
                _ => "the URL of the card is written; replace it with the agent's",
            };
            self.repairs.needed(part.at("url"), "the agent has no `url`", how);
            address.to_owned()
        });
        (url, protocol.unwrap_or_else(|| OLDEST_PROTOCOL.to_owned()))
    }

    fn interface(&mut self, part: &mut Part) -> Option<(String, String)> {
        let said = part.take("supportedInterfaces")?;
        let at = part.at("supportedInterfaces");
        let all = said.as_array().into_iter().flatten().enumerate();
        let mut all = all.filter(|(_, i)| i["url"].is_string());
        let json_rpc = Binding::JsonRpc.as_str();
        let chosen = all.clone().find(|(_, i)| i["protocolBinding"] == json_rpc).or(all.next());
        let Some((i, chosen)) = chosen else {
            self.refuse(&at, "no interface has a `url`", said);
            return None;
        };
        let text = |name: &str| chosen[name].as_str();
        let url = text("url").unwrap_or_default().to_owned();
        let protocol = text("protocolVersion").unwrap_or(OLDEST_PROTOCOL).to_owned();
        for (name, used) in [("url", &url), ("protocolVersion", &protocol)] {
            self.origins.moved(format!("/{name}"), format!("{at}/{i}/{name}"));
            if let Some(other) = part.take(name).filter(|other| other != used) {
                self.refuse(&part.at(name), "`supportedInterfaces` says otherwise", other);
            }
        }
        let read =
            json!([{ "url": url, "protocolBinding": json_rpc, "protocolVersion": protocol }]);
        if said != read {
            let what = "the registry has fields for one `url` and one `protocolVersion`";
            let how = "the first for JSON-RPC has them, else the first; all are in `metadata.card`";
            if self.keep(&at, said) {
                self.repairs.made(&at, what, how);
            } else {
                self.repairs.needed(&at, what, LEFT_OUT);
            }
        }
        Some((url, protocol))
    }

    /// The security requirements in the form of A2A 0.3: `{ scheme: [scopes] }`.
    pub(super) fn security(&mut self, part: &mut Part) -> Vec<Value> {
        if part.has("security") {
            if let Some(other) = part.take("securityRequirements") {
                let what = "`security` is present too";
                self.refuse(&part.at("securityRequirements"), what, other);
            }
            let list = self.value(part, "security", "a list", Value::is_array);
            return list.and_then(|list| list.as_array().cloned()).unwrap_or_default();
        }
        let name = "securityRequirements";
        let Some(said) = self.value(part, name, "a list", Value::is_array) else {
            return Vec::new();
        };
        let what = "security requirements as A2A 1.0 writes them";
        let how = "they are `security`, each scheme with its list of scopes";
        self.repairs.made(part.at(name), what, how);
        let mut security = Vec::new();
        for (i, said) in said.as_array().into_iter().flatten().enumerate() {
            let at = format!("{}/{i}", part.at(name));
            if let Some(requirement) = requirement_to_v03(said) {
                security.push((at, requirement));
            } else {
                self.refuse(&at, "not a security requirement", said.clone());
            }
        }
        self.origins.list("/security", security)
    }
}
