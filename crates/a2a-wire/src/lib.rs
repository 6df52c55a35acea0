//! The types of A2A 1.0.1, in the JSON form of its protocol buffers, and signatures of agent cards, for
//! server and client.
//!
//! Members that a type does not have are ignored, as clients of later minor versions send some.

mod card;
mod event;
mod message;
mod request;
mod sign;
mod task;
mod verify;

pub use card::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentProvider, AgentSkill,
};
pub use event::{ArtifactUpdate, SendResult, StatusUpdate, StreamResponse};
pub use message::{Message, Part, PartContent, Role};
pub use request::{
    Authentication, ConfigRef, ListConfigs, ListConfigsResult, ListTasks, ListTasksResult,
    PushConfig, SendConfiguration, SendMessage, TaskRef,
};
pub use sign::{CardKey, KeyError};
pub use task::{Artifact, Task, TaskState, TaskStatus, timestamp};
pub use verify::{BadPublicKey, CardVerifier};

/// The version of the protocol, as requests and cards name it.
pub const VERSION: &str = "1.0";
