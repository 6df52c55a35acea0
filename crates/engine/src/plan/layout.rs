//! The layout of rows: names, which rows replace by numbers.

use super::{ChannelIdx, NodeIdx, Plan, TriggerIdx};
use crate::binary::{Reader, VERSION, Writer};
use crate::error::EngineError;
use weftwork_types::canonical::{Hash, hash_bytes};

/// The first 128 bits of the hash of a layout's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutId(pub [u8; 16]);

impl LayoutId {
    pub(crate) fn read(read: &mut Reader<'_>) -> Result<Self, EngineError> {
        let mut id = [0u8; 16];
        id.copy_from_slice(read.raw(16)?);
        Ok(Self(id))
    }

    /// The id as a key of a store, padded to the length of a hash.
    #[must_use]
    pub fn key(self) -> Hash {
        let mut key = [0u8; 32];
        for (to, from) in key.iter_mut().zip(self.0) {
            *to = from;
        }
        Hash(key)
    }
}

/// The names of a build of a graph, in the order of their numbers.
#[derive(Debug, Clone)]
pub struct Layout {
    id: LayoutId,
    bytes: Vec<u8>,
    channels: Vec<(String, String)>,
    triggers: Vec<String>,
    nodes: Vec<String>,
}

impl Layout {
    pub(super) fn of(plan: &Plan) -> Self {
        let channels: Vec<_> =
            plan.channels.iter().map(|c| (c.name.clone(), c.channel.kind().to_owned())).collect();
        let triggers: Vec<_> = plan.triggers.iter().map(|t| t.name.clone()).collect();
        let nodes: Vec<_> = plan.nodes.iter().map(|n| n.name.to_string()).collect();
        let mut out = Writer::default();
        out.byte(VERSION);
        out.count(channels.len());
        for (name, kind) in &channels {
            out.text(name);
            out.text(kind);
        }
        for names in [&triggers, &nodes] {
            out.count(names.len());
            names.iter().for_each(|name| out.text(name));
        }
        let bytes = out.into_bytes();
        Self { id: id_of(&bytes), bytes, channels, triggers, nodes }
    }

    /// Reads a layout.
    ///
    /// # Errors
    /// [`EngineError::Damaged`], also if the bytes do not match the id;
    /// [`EngineError::NewerRecord`].
    pub fn read(id: LayoutId, bytes: &[u8]) -> Result<Self, EngineError> {
        if id_of(bytes) != id {
            return Err(EngineError::Damaged { at: 0, expected: "the names of that hash" });
        }
        let mut read = Reader::new(bytes);
        let found = read.byte()?;
        if found > VERSION {
            return Err(EngineError::NewerRecord { found, known: VERSION });
        }
        let mut channels = Vec::new();
        for _ in 0..read.count()? {
            channels.push((read.text()?.to_owned(), read.text()?.to_owned()));
        }
        let mut names = || -> Result<Vec<String>, EngineError> {
            (0..read.count()?).map(|_| Ok(read.text()?.to_owned())).collect()
        };
        let triggers = names()?;
        let nodes = names()?;
        Ok(Self { id, bytes: bytes.to_vec(), channels, triggers, nodes })
    }

    /// The id of the layout.
    #[must_use]
    pub fn id(&self) -> LayoutId {
        self.id
    }

    /// The stored form.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Maps the numbers of this layout to those of a build of the graph.
    ///
    /// # Errors
    /// [`EngineError::OtherBuild`] for a channel of another kind.
    pub fn mapped(&self, plan: &Plan) -> Result<Mapped, EngineError> {
        if plan.layout().id == self.id {
            return Ok(Mapped::Same);
        }
        let mut channels = Vec::with_capacity(self.channels.len());
        for (name, kind) in &self.channels {
            let index = plan.channel_idx(name);
            let now = index.and_then(|index| plan.channels.get(index.0)).map(|c| c.channel.kind());
            if let Some(now) = now.filter(|now| now != kind) {
                let what = format!("channel `{name}` was `{kind}` and is `{now}`, which");
                return Err(EngineError::OtherBuild { what });
            }
            channels.push(index);
        }
        let triggers = self.triggers.iter().map(|name| plan.trigger_idx(name)).collect();
        let nodes = self.nodes.iter().map(|name| plan.node_idx(name)).collect();
        Ok(Mapped::Other(Box::new(Others {
            channels,
            known: self.channels.iter().map(|(name, _)| name.clone()).collect(),
            triggers,
            nodes,
            trigger_names: self.triggers.clone(),
            node_names: self.nodes.clone(),
        })))
    }
}

fn id_of(bytes: &[u8]) -> LayoutId {
    let mut id = [0u8; 16];
    for (to, from) in id.iter_mut().zip(hash_bytes(bytes).0) {
        *to = from;
    }
    LayoutId(id)
}

/// The mapping from the numbers of a layout to those of a build of the graph.
#[derive(Debug, Clone)]
pub enum Mapped {
    /// Both have the same numbers.
    Same,
    /// The numbers differ.
    Other(Box<Others>),
}

/// The mapping from the numbers of another build to those of this one; `None` for names that this
/// build does not have.
#[derive(Debug, Clone)]
pub struct Others {
    channels: Vec<Option<ChannelIdx>>,
    known: Vec<String>,
    triggers: Vec<Option<TriggerIdx>>,
    nodes: Vec<Option<NodeIdx>>,
    trigger_names: Vec<String>,
    node_names: Vec<String>,
}

impl Mapped {
    pub(crate) fn is_same(&self) -> bool {
        matches!(self, Self::Same)
    }

    /// `true` if the build that wrote the layout had a channel of this name.
    pub(crate) fn knows(&self, channel: &str) -> bool {
        match self {
            Self::Same => true,
            Self::Other(others) => others.known.iter().any(|name| name == channel),
        }
    }

    pub(crate) fn channel(
        &self,
        plan: &Plan,
        index: usize,
        read: &Reader<'_>,
    ) -> Result<Option<ChannelIdx>, EngineError> {
        match self {
            Self::Same if index < plan.channels.len() => Ok(Some(ChannelIdx(index))),
            Self::Other(others) => {
                others.channels.get(index).copied().ok_or_else(|| read.damaged("a known channel"))
            }
            Self::Same => Err(read.damaged("a known channel")),
        }
    }

    /// Finds a trigger; the error is the name of a trigger that this build does not have.
    pub(crate) fn trigger(
        &self,
        plan: &Plan,
        index: usize,
        read: &Reader<'_>,
    ) -> Result<Result<TriggerIdx, &str>, EngineError> {
        let unknown = || read.damaged("a known trigger");
        match self {
            Self::Same if index < plan.triggers.len() => Ok(Ok(TriggerIdx(index))),
            Self::Same => Err(unknown()),
            Self::Other(others) => {
                let name = others.trigger_names.get(index).ok_or_else(unknown)?;
                Ok(others.triggers.get(index).copied().flatten().ok_or(name.as_str()))
            }
        }
    }

    /// Finds a node by its number; `None` if this build does not have it.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] for a number that the writing build did not have.
    pub fn node_of(
        &self,
        plan: &Plan,
        index: usize,
        read: &Reader<'_>,
    ) -> Result<Option<NodeIdx>, EngineError> {
        Ok(self.node(plan, index.saturating_add(1), read)?.ok())
    }

    /// Reads a node as written by [`write_node`]; the error is the name of a node that this build
    /// does not have.
    pub(crate) fn target<'n, 'r: 'n>(
        &'n self,
        plan: &Plan,
        read: &mut Reader<'r>,
    ) -> Result<Result<NodeIdx, &'n str>, EngineError> {
        match read.number()? {
            0usize => read.text().map(|name| plan.node_idx(name).ok_or(name)),
            number => self.node(plan, number, read),
        }
    }

    /// Finds a node, including the hidden first one; the error is the name of a node that this
    /// build does not have.
    pub(crate) fn node(
        &self,
        plan: &Plan,
        number: usize,
        read: &Reader<'_>,
    ) -> Result<Result<NodeIdx, &str>, EngineError> {
        let unknown = || read.damaged("a known node");
        let Some(index) = number.checked_sub(1) else { return Ok(Ok(NodeIdx::START)) };
        match self {
            Self::Same if index < plan.nodes.len() => Ok(Ok(NodeIdx(index))),
            Self::Same => Err(unknown()),
            Self::Other(others) => {
                let name = others.node_names.get(index).ok_or_else(unknown)?;
                Ok(others.nodes.get(index).copied().flatten().ok_or(name.as_str()))
            }
        }
    }
}

/// Writes a node: its number, or zero and the name if the graph does not have it.
pub(crate) fn write_node(out: &mut Writer, node: Option<NodeIdx>, name: &str) {
    match node {
        Some(node) => out.count(node.0 + 1),
        None => {
            out.count(0);
            out.text(name);
        }
    }
}

/// A node's number in a row: zero for the hidden first one.
pub(crate) fn node_number(node: NodeIdx) -> usize {
    if node == NodeIdx::START { 0 } else { node.0 + 1 }
}
