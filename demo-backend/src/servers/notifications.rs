//! `notification-service`: an outbox.

pub mod model;

use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{GetNotifications, Notification, NotificationList, SendNotification};
use crate::clock::Clock;
use crate::hosted_server::Domain;
use crate::records::{Records, lock};
use crate::tool_error::ToolError;

/// The notification server.
#[derive(Debug)]
pub struct Notifications {
    clock: Clock,
    outbox: Mutex<Records<Notification>>,
}

impl Notifications {
    /// A server with an empty outbox.
    pub fn new(clock: Clock) -> Self {
        Self { clock, outbox: Mutex::new(Records::new("notif")) }
    }
}

impl Domain for Notifications {
    const NAME: &'static str = "notification-service";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/notifications/mcp";
    const INSTRUCTIONS: &'static str = "Notify users and read what they were sent.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Notifications {
    /// Send a notification to one user over one channel.
    #[tool(annotations(
        title = "Send notification",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = true
    ))]
    fn send_notification(
        &self,
        Parameters(new): Parameters<SendNotification>,
    ) -> Result<Json<Notification>, ToolError> {
        if new.user_id.is_empty() {
            return Err(ToolError::invalid("userId is empty"));
        }
        let sent_at = self.clock.timestamp();
        let mut outbox = lock(&self.outbox);
        let sent = outbox.add(|id| Notification {
            id,
            user_id: new.user_id,
            subject: new.subject,
            body: new.body,
            channel: new.channel,
            sent_at,
        });
        Ok(Json(sent.clone()))
    }

    /// Read what was sent to one user, oldest first.
    #[tool(annotations(
        title = "Get notifications",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn get_notifications(
        &self,
        Parameters(wanted): Parameters<GetNotifications>,
    ) -> Result<Json<NotificationList>, ToolError> {
        let outbox = lock(&self.outbox);
        let matching = outbox.iter().filter(|sent| {
            sent.user_id == wanted.user_id
                && wanted.channel.is_none_or(|channel| channel == sent.channel)
        });
        let (notifications, totals) = wanted.window.cut(matching.cloned())?;
        Ok(Json(NotificationList { notifications, totals }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(server: &Notifications, wanted: Value) -> Vec<String> {
        let wanted = serde_json::from_value(wanted).unwrap();
        let list = server.get_notifications(Parameters(wanted)).map(|list| list.0).unwrap();
        list.notifications.into_iter().map(|sent| sent.id).collect()
    }

    #[test]
    fn user_reads_only_own_notifications() {
        let server = Notifications::new(Clock::System);
        for (user, channel) in [("user-1", "email"), ("user-2", "sms"), ("user-1", "in_app")] {
            let new = json!({ "userId": user, "subject": "s", "body": "b", "channel": channel });
            let new = serde_json::from_value(new).unwrap();
            assert!(server.send_notification(Parameters(new)).is_ok());
        }
        assert_eq!(read(&server, json!({ "userId": "user-1" })), ["notif-1", "notif-3"]);
        let by_mail = json!({ "userId": "user-1", "channel": "email" });
        assert_eq!(read(&server, by_mail), ["notif-1"]);
        assert!(read(&server, json!({ "userId": "user-3" })).is_empty());
    }

    #[test]
    fn unknown_channel_is_rejected() {
        let new = json!({ "userId": "u", "subject": "s", "body": "b", "channel": "pigeon" });
        assert!(serde_json::from_value::<SendNotification>(new).is_err());
    }
}
