//! Sections: the typed parts of a prompt.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use weftwork_tools::{ASK_HUMAN, Policy, Tool};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::message::Media;

/// Form in which a section is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// The whole section, with its tools and the sections within it.
    #[default]
    Full,
    /// Its summary. The model reads the rest with the tool `open_section`, which also brings the
    /// tools of the section.
    Summary,
}

type Predicate<P> = dyn Fn(&P) -> bool + Send + Sync;

/// A section of a [`Prompt`](crate::Prompt) with parameters `P`: a markdown template under a title,
/// with the tools and policies that belong to it.
///
/// A section that is not enabled is absent with all that it contains: text, tools, policies and the
/// sections within it.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use weftwork_agents::{Overrides, Prompt, Section};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Guest {
///     name: String,
///     vip: bool,
/// }
///
/// let greet = Section::new("greet", "Greeting", "Greet ${name}.");
/// let gift = Section::new("gift", "Gift", "Offer a drink.").enabled(|guest: &Guest| guest.vip);
/// let prompt = Prompt::<Guest>::builder("hotel", "welcome", "Welcome").section(greet).section(gift);
/// let guest = Guest { name: "Ada".to_owned(), vip: false };
/// let rendered = prompt.build()?.render(&guest, &Overrides::new())?;
/// assert!(rendered.text().contains("Greet Ada."));
/// assert!(!rendered.text().contains("drink"));
/// # Ok::<(), weftwork_agents::PromptError>(())
/// ```
#[must_use]
pub struct Section<P> {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) template: String,
    pub(super) summary: Option<String>,
    pub(super) visibility: Visibility,
    pub(super) enabled: Option<Arc<Predicate<P>>>,
    pub(super) tools: Vec<SectionTool>,
    pub(super) policy: Policy,
    pub(super) media: Vec<Media>,
    pub(super) children: Vec<Section<P>>,
}

/// A tool of a section.
#[derive(Debug, Clone)]
pub(crate) enum SectionTool {
    Run(Arc<dyn Tool>),
    AskHuman,
}

impl SectionTool {
    fn name(&self) -> &str {
        match self {
            Self::Run(tool) => &tool.spec().name,
            Self::AskHuman => ASK_HUMAN,
        }
    }
}

impl<P> Section<P> {
    /// Creates a section. The key names it in paths, such as `rules` or `rules/refunds`; the
    /// template is markdown with placeholders `${name}` for the members of `P`.
    pub fn new(
        key: impl Into<String>,
        title: impl Into<String>,
        template: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            title: title.into(),
            template: template.into(),
            summary: None,
            visibility: Visibility::Full,
            enabled: None,
            tools: Vec::new(),
            policy: Policy::new(),
            media: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Sets the template of the summary, and renders the section as its summary unless an override
    /// selects the full form.
    pub fn summarized(mut self, summary: impl Into<String>) -> Self {
        self.visibility = Visibility::Summary;
        self.summary(summary)
    }

    /// Sets the template of the summary, for overrides; the section is rendered in full without one.
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Includes the section only if the predicate holds. It must be pure: a run that continues in
    /// another process evaluates it again.
    pub fn enabled(mut self, predicate: impl Fn(&P) -> bool + Send + Sync + 'static) -> Self {
        self.enabled = Some(Arc::new(predicate));
        self
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tool_shared(Arc::new(tool))
    }

    /// Adds a tool that the caller shares.
    pub fn tool_shared(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(SectionTool::Run(tool));
        self
    }

    /// Adds `ask_human`: the model asks the person, and the evaluation is interrupted until the
    /// answer.
    pub fn ask_human(mut self) -> Self {
        self.tools.push(SectionTool::AskHuman);
        self
    }

    /// Adds the names of the tools of this section and of those within it.
    pub(super) fn declare_tools(&self, names: &mut BTreeSet<String>) {
        names.extend(self.tools.iter().map(|tool| tool.name().to_owned()));
        self.children.iter().for_each(|child| child.declare_tools(names));
    }

    /// Adds rules for calls of tools. Rules of earlier sections decide first.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = self.policy.then(policy);
        self
    }

    /// Adds an image, audio, video or file, which follows the text of the prompt.
    pub fn media(mut self, media: Media) -> Self {
        self.media.push(media);
        self
    }

    /// Adds a section within this one.
    pub fn child(mut self, section: Self) -> Self {
        self.children.push(section);
        self
    }

    /// Returns the hash of the template, to which text overrides are bound.
    #[must_use]
    pub fn content_hash(&self) -> Hash {
        hash_bytes(self.template.as_bytes())
    }
}

impl<P> fmt::Debug for Section<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section")
            .field("key", &self.key)
            .field("tools", &self.tools)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}
