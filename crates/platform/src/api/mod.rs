//! HTTP APIs of API agents, as tools: so their requests have the journal, the policy and the budget of all
//! calls of tools.

mod address;
mod answer;
mod body;
mod credentials;
mod operation;
mod pages;
mod tool;

pub(crate) use address::allowed_address;
pub(crate) use answer::{without, without_secrets};
pub(crate) use body::kind_of;
pub(crate) use credentials::{Credentials, Secrets, Signed};
pub(crate) use operation::encode_segment;
pub(crate) use tool::{ApiServices, ApiTool, tool_name, usual_policy};
