//! Notifications, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::page::{Totals, Window};

/// How a notification reaches its user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Channel {
    /// Inside the application.
    #[default]
    InApp,
    /// By mail.
    Email,
    /// By text message.
    Sms,
    /// On the lock screen.
    Push,
}

/// A notification that was sent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Its id, such as `notif-1`.
    pub id: String,
    /// The recipient.
    pub user_id: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
    /// How it went.
    pub channel: Channel,
    /// When it went.
    #[schemars(extend("format" = "date-time"))]
    pub sent_at: String,
}

/// A notification to send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendNotification {
    /// Id of the user to notify, such as `user-1`.
    #[schemars(length(min = 1))]
    pub user_id: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
    /// How to send it.
    #[serde(default)]
    pub channel: Channel,
}

/// Filters for notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetNotifications {
    /// Id of the user they went to.
    pub user_id: String,
    /// Only those on this channel.
    pub channel: Option<Channel>,
    /// The page to return.
    #[serde(flatten)]
    pub window: Window,
}

/// A page of notifications.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotificationList {
    /// The notifications of this page, oldest first.
    pub notifications: Vec<Notification>,
    /// The size of the whole.
    #[serde(flatten)]
    pub totals: Totals,
}
