//! Numbers of the parts of a graph, and reserved names.

/// A node, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdx(pub usize);

impl NodeIdx {
    /// The hidden node that turns input into writes.
    pub const START: Self = Self(usize::MAX);
}

/// A channel, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelIdx(pub usize);

/// Something that can make a node due, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TriggerIdx(pub usize);

/// Name of the end of a graph in routes and drawings.
///
/// ```
/// assert_eq!(weftwork_engine::plan::END, "END");
/// ```
pub const END: &str = "END";
/// Name of the hidden node that turns input into writes.
pub const START_NAME: &str = "__start__";
/// Name of the start of a graph in edges and drawings.
///
/// ```
/// assert_eq!(weftwork_engine::plan::START, "START");
/// ```
pub const START: &str = "START";
