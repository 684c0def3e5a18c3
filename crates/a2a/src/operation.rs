//! The operations of A2A and their names in both versions.

use crate::version::Version;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Sends a message and returns a task or a message.
    SendMessage,
    /// Sends a message and streams the events of its task.
    SendStreamingMessage,
    /// Returns a task.
    GetTask,
    /// Returns a page of tasks.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the events of a task.
    SubscribeToTask,
    /// Adds a push notification configuration to a task.
    CreatePushConfig,
    /// Returns a push notification configuration.
    GetPushConfig,
    /// Returns the push notification configurations of a task.
    ListPushConfigs,
    /// Removes a push notification configuration.
    DeletePushConfig,
    /// Returns the card for an authenticated caller.
    GetExtendedAgentCard,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreatePushConfig,
        Self::GetPushConfig,
        Self::ListPushConfigs,
        Self::DeletePushConfig,
        Self::GetExtendedAgentCard,
    ];

    /// The name of 1.0, which is also the gRPC method of 1.0.
    pub fn name(self) -> &'static str {
        self.method(Version::V1)
    }

    /// The JSON-RPC method. `tasks/list` is not part of 0.3.0; agents that have it use this name.
    pub fn method(self, version: Version) -> &'static str {
        let [new, old] = match self {
            Self::SendMessage => ["SendMessage", "message/send"],
            Self::SendStreamingMessage => ["SendStreamingMessage", "message/stream"],
            Self::GetTask => ["GetTask", "tasks/get"],
            Self::ListTasks => ["ListTasks", "tasks/list"],
            Self::CancelTask => ["CancelTask", "tasks/cancel"],
            Self::SubscribeToTask => ["SubscribeToTask", "tasks/resubscribe"],
            Self::CreatePushConfig => {
                ["CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"]
            }
            Self::GetPushConfig => {
                ["GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"]
            }
            Self::ListPushConfigs => {
                ["ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"]
            }
            Self::DeletePushConfig => {
                ["DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"]
            }
            Self::GetExtendedAgentCard => {
                ["GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"]
            }
        };
        match version {
            Version::V1 => new,
            Version::V03 => old,
        }
    }

    /// The operation of a JSON-RPC method.
    pub fn of_method(version: Version, method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.method(version) == method)
    }

    /// Whether a successful answer is a stream of events.
    pub fn is_streaming(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }

    /// Whether the operation sends a message.
    pub fn sends_message(self) -> bool {
        matches!(self, Self::SendMessage | Self::SendStreamingMessage)
    }

    /// Whether the operation concerns push notification configurations.
    pub fn is_push_config(self) -> bool {
        matches!(
            self,
            Self::CreatePushConfig
                | Self::GetPushConfig
                | Self::ListPushConfigs
                | Self::DeletePushConfig
        )
    }
}
