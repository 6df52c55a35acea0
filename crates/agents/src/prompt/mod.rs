//! Prompts: agents as typed documents.

mod error;
mod overrides;
mod render;
mod section;
mod template;

pub use error::PromptError;
pub use overrides::Overrides;
pub(crate) use render::{OPENED, opened_event};
pub use render::{Rendered, RenderedSection};
pub use section::{Section, Visibility};

use crate::output::{OutputSpec, TypedOutput};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use template::{Template, find_undeclared};
use weftwork_tools::output_schema;
use weftwork_types::canonical::Hash;

/// Name of the built-in tool with which the model reads a summarized section.
pub const OPEN_SECTION: &str = "open_section";

/// Identity of a prompt: namespace and key are unique in a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PromptId {
    /// Namespace, such as the name of a product.
    pub namespace: String,
    /// Key within the namespace.
    pub key: String,
    /// Name for people.
    pub name: String,
}

impl fmt::Display for PromptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.key)
    }
}

/// An agent as a document: sections with parameters `P`, the tools and policies in them, and the
/// type `T` of its structured output (`()` without one). Cloning shares it.
///
/// Templates are checked against the members of `P` when the prompt is built. The same parameters
/// and overrides give the same bytes, and the same hash, in every process.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use weftwork_agents::{Overrides, Prompt, Section, Visibility};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Trip {
///     city: String,
///     days: u32,
/// }
///
/// let prompt = Prompt::<Trip>::builder("travel", "plan", "Plan a trip")
///     .section(Section::new("task", "Task", "Plan ${days} days in ${city}."))
///     .section(Section::new("rules", "Rules", "No flights.").summarized("Rules of the company."))
///     .section(Section::new("long", "Rest", "Plan a day of rest.").enabled(|trip: &Trip| trip.days > 7))
///     .build()?;
/// let trip = Trip { city: "Bern".to_owned(), days: 3 };
/// let rendered = prompt.render(&trip, &Overrides::new())?;
/// assert!(rendered.text().starts_with("## 1. Task\n\nPlan 3 days in Bern."));
/// assert!(!rendered.text().contains("No flights."));
/// let open = Overrides::new().visibility("rules", Visibility::Full);
/// assert!(prompt.render(&trip, &open)?.text().contains("No flights."));
///
/// let problem = Prompt::<Trip>::builder("travel", "plan", "Plan a trip")
///     .section(Section::new("task", "Task", "Plan a trip to ${town}."))
///     .build()
///     .expect_err("`Trip` has no `town`");
/// assert!(problem.to_string().contains("`${town}`"));
/// # Ok::<(), weftwork_agents::PromptError>(())
/// ```
pub struct Prompt<P, T = ()> {
    definition: Arc<Definition<P>>,
    output: PhantomData<fn() -> T>,
}

impl<P, T> Clone for Prompt<P, T> {
    fn clone(&self) -> Self {
        Self { definition: Arc::clone(&self.definition), output: PhantomData }
    }
}

impl<P, T> fmt::Debug for Prompt<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("id", &self.definition.id).finish_non_exhaustive()
    }
}

/// The content of a prompt, without the type of its output.
struct Definition<P> {
    id: PromptId,
    sections: Vec<Section<P>>,
    output: Option<TypedOutput>,
    /// JSON Schema of the parameters.
    schema: Value,
}

/// Builder of a [`Prompt`].
#[must_use]
pub struct PromptBuilder<P, T = ()> {
    id: PromptId,
    sections: Vec<Section<P>>,
    output: Option<TypedOutput>,
    types: PhantomData<fn() -> T>,
}

impl<P, T> fmt::Debug for PromptBuilder<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptBuilder").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<P> Prompt<P> {
    /// Begins a prompt without sections.
    pub fn builder(
        namespace: impl Into<String>,
        key: impl Into<String>,
        name: impl Into<String>,
    ) -> PromptBuilder<P> {
        let id = PromptId { namespace: namespace.into(), key: key.into(), name: name.into() };
        PromptBuilder { id, sections: Vec::new(), output: None, types: PhantomData }
    }
}

impl<P: Serialize + DeserializeOwned + JsonSchema, T> PromptBuilder<P, T> {
    /// Adds a section after the others.
    pub fn section(mut self, section: Section<P>) -> Self {
        self.sections.push(section);
        self
    }

    /// Declares that the answer is a `U`: an object, a list (`Vec`), or an enum with data. The model
    /// gets its schema, and an answer that does not fit goes back to it at most twice.
    pub fn output<U: DeserializeOwned + JsonSchema>(self) -> PromptBuilder<P, U> {
        let Self { id, sections, .. } = self;
        PromptBuilder { id, sections, output: Some(TypedOutput::of::<U>()), types: PhantomData }
    }

    /// Checks keys, templates and the output type.
    ///
    /// # Errors
    /// [`PromptError::Invalid`] with all problems.
    pub fn build(self) -> Result<Prompt<P, T>, PromptError> {
        let schema = output_schema::<P>();
        let mut problems = Vec::new();
        for (what, text) in [("namespace", &self.id.namespace), ("key", &self.id.key)] {
            if !is_key(text) {
                problems.push(format!("its {what} `{text}` is not valid; {KEY_RULE}"));
            }
        }
        check_sections(&self.sections, "", &schema, &mut problems);
        if let Some(problem) = self.output.as_ref().and_then(|output| output.spec.problem()) {
            problems.push(problem);
        }
        if !problems.is_empty() {
            return Err(PromptError::Invalid { prompt: self.id, problems });
        }
        let Self { id, sections, output, .. } = self;
        let definition = Arc::new(Definition { id, sections, output, schema });
        Ok(Prompt { definition, output: PhantomData })
    }
}

const KEY_RULE: &str = "it has 1 to 64 lower-case letters, digits, `-` and `_`";

fn is_key(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !text.is_empty() && text.len() <= 64 && text.chars().all(allowed)
}

fn check_sections<P>(
    sections: &[Section<P>],
    above: &str,
    schema: &Value,
    problems: &mut Vec<String>,
) {
    let mut keys = BTreeSet::new();
    for section in sections {
        let path = format!("{above}{}", section.key);
        if !is_key(&section.key) {
            problems.push(format!("the key of section `{path}` is not valid; {KEY_RULE}"));
        }
        if !keys.insert(&section.key) {
            problems.push(format!("two sections have the path `{path}`; paths are unique"));
        }
        for template in std::iter::once(&section.template).chain(&section.summary) {
            if let Err(problem) = checked_template(template, schema) {
                problems.push(format!("section `{path}`: {problem}"));
            }
        }
        check_sections(&section.children, &format!("{path}/"), schema, problems);
    }
}

/// Parses a template and checks its placeholders against the schema of the parameters.
fn checked_template(text: &str, schema: &Value) -> Result<Template, String> {
    let template = Template::parse(text)?;
    for path in template.placeholders() {
        if let Some((name, known)) = find_undeclared(schema, path) {
            let known = match known.as_slice() {
                [] => "there are none at this place".to_owned(),
                known => format!("the parameters are: {}", known.join(", ")),
            };
            return Err(format!("`${{{name}}}` is no parameter; {known}"));
        }
    }
    Ok(template)
}

impl<P: Serialize + DeserializeOwned, T> Prompt<P, T> {
    /// The identity of the prompt.
    #[must_use]
    pub fn id(&self) -> &PromptId {
        &self.definition.id
    }

    /// Returns the hash of the template of a section, to which text overrides are bound; `None` if
    /// there is no such section.
    #[must_use]
    pub fn content_hash(&self, path: &str) -> Option<Hash> {
        section_at(&self.definition.sections, path).map(Section::content_hash)
    }

    /// Renders the prompt.
    ///
    /// # Errors
    /// [`PromptError::Parameters`] if a placeholder has no value or a predicate panics,
    /// [`PromptError::Override`] if an override does not fit the prompt.
    pub fn render(&self, params: &P, overrides: &Overrides) -> Result<Rendered, PromptError> {
        self.definition.render(&self.json(params)?, overrides)
    }

    /// The parameters as they are stored.
    pub(crate) fn json(&self, params: &P) -> Result<Value, PromptError> {
        serde_json::to_value(params).map_err(|error| PromptError::Parameters {
            prompt: self.id().clone(),
            reason: format!("the parameters cannot be written as JSON: {error}"),
        })
    }
}

impl<P: Serialize + DeserializeOwned + 'static, T> Prompt<P, T> {
    /// The type of the output.
    pub(crate) fn typed_output(&self) -> Option<TypedOutput> {
        self.definition.output.clone()
    }

    /// The prompt without its types, for registries.
    pub(crate) fn erased(&self) -> Arc<dyn AnyPrompt> {
        Arc::clone(&self.definition) as Arc<dyn AnyPrompt>
    }
}

fn section_at<'a, P>(sections: &'a [Section<P>], path: &str) -> Option<&'a Section<P>> {
    let (key, rest) = match path.split_once('/') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    let section = sections.iter().find(|section| section.key == key)?;
    rest.map_or(Some(section), |rest| section_at(&section.children, rest))
}

/// A prompt without its types.
pub(crate) trait AnyPrompt: Send + Sync {
    /// Renders stored parameters.
    fn render(&self, params: &Value, overrides: &Overrides) -> Result<Rendered, PromptError>;

    fn output(&self) -> Option<&OutputSpec>;
}

impl<P: DeserializeOwned> AnyPrompt for Definition<P> {
    fn render(&self, params: &Value, overrides: &Overrides) -> Result<Rendered, PromptError> {
        Self::render(self, params, overrides)
    }

    fn output(&self) -> Option<&OutputSpec> {
        self.output.as_ref().map(|output| &output.spec)
    }
}

#[cfg(test)]
mod tests;
