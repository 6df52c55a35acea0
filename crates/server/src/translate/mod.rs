//! Translation between our records and the JSON of the protocol.

pub(crate) mod approval;
pub(crate) mod assistant;
pub(crate) mod ids;
pub(crate) mod names;
pub(crate) mod partial;
pub(crate) mod records;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod time;

pub(crate) use weftwork_types::message::langchain as messages;
