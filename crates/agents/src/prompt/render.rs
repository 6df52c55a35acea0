//! Rendering: from sections and parameters to the text that a model reads.

use super::section::SectionTool;
use super::{
    Definition, OPEN_SECTION, Overrides, PromptError, PromptId, Section, Visibility,
    checked_template, section_at,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weftwork_tools::{
    ASK_HUMAN, FnTool, Policy, Tool, ToolBox, ToolBoxErrors, ToolContext, ToolError,
};
use weftwork_types::MessageId;
use weftwork_types::canonical::{self, Hash};
use weftwork_types::message::{Media, Message, Part, Role};
use weftwork_types::session::SessionEvent;

/// Deepest level of headings in markdown.
const HEADING_MAX: usize = 6;

/// A rendered prompt: its text, and the tools of its sections.
#[derive(Debug, Clone)]
pub struct Rendered {
    id: PromptId,
    inputs: Value,
    text: String,
    media: Vec<Media>,
    sections: Vec<RenderedSection>,
    tools: Vec<PlacedTool>,
    policy: Policy,
    /// Names of the tools of all sections, also of those that are not enabled.
    declared: BTreeSet<String>,
    hash: Hash,
}

/// A section of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedSection {
    /// Path, such as `rules/refunds`.
    pub path: String,
    /// Form in which it was rendered.
    pub visibility: Visibility,
    /// Text of a summarized section, which `open_section` returns; `None` for one rendered in full.
    pub full_text: Option<String>,
}

/// A tool with the summarized sections around it, all of which have to be opened before the model
/// gets it.
#[derive(Debug, Clone)]
struct PlacedTool {
    tool: SectionTool,
    summaries: Vec<String>,
}

impl Rendered {
    /// The identity of the prompt.
    #[must_use]
    pub fn id(&self) -> &PromptId {
        &self.id
    }

    /// The parameters, as JSON.
    #[must_use]
    pub fn inputs(&self) -> &Value {
        &self.inputs
    }

    /// The text, in markdown.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The enabled sections, in order. Sections within a summarized one are part of its full text.
    #[must_use]
    pub fn sections(&self) -> &[RenderedSection] {
        &self.sections
    }

    /// Hash of all that a model receives: text, media, tools with the sections that bring them, the
    /// full text of summarized sections, and the schema of the output.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The prompt as the message that a model receives.
    pub(crate) fn message(&self, id: MessageId) -> Message {
        let mut message = Message::text(id, Role::User, self.text.clone());
        message.parts.extend(self.media.iter().cloned().map(Part::Media));
        message
    }

    /// Returns the prompt as the beginning of a conversation: the system message, if a user has begun
    /// it, otherwise the first message of the user. A system message has no media.
    pub(crate) fn opening(&self, id: MessageId, begun: Option<&Message>) -> Message {
        let mut message = self.message(id);
        if begun.is_some_and(|first| first.role == Role::User) && self.media.is_empty() {
            message.role = Role::System;
        }
        message
    }

    /// Returns the tools that a model has after it opened these sections, with the policies of the
    /// enabled sections.
    pub(crate) fn tool_box(&self, base: &ToolBox, opened: &BTreeSet<String>) -> (ToolBox, Policy) {
        let mut tools = base.clone();
        let visible = |placed: &&PlacedTool| placed.summaries.iter().all(|s| opened.contains(s));
        for placed in self.tools.iter().filter(visible) {
            tools = match &placed.tool {
                SectionTool::Run(tool) => tools.with_shared(std::sync::Arc::clone(tool)),
                SectionTool::AskHuman => tools.with_ask_human(),
            };
        }
        if self.sections.iter().any(|section| section.full_text.is_some()) {
            tools = tools.with(open_section(self.sections.clone()));
        }
        (tools, self.policy.clone())
    }

    /// Checks that each tool that a rule names is one of `base` or of a section of the prompt.
    pub(crate) fn check_policy(&self, base: &ToolBox) -> Result<(), ToolBoxErrors> {
        let declared = self.declared.iter().map(String::as_str);
        let known = base.names().chain(declared).chain([OPEN_SECTION]).collect();
        self.policy.check_tools(&known)
    }
}

/// Argument of `open_section`.
#[derive(Deserialize, schemars::JsonSchema)]
struct OpenSection {
    /// Path of the section, as its summary gives it.
    path: String,
}

/// Slice of a session with the sections that its evaluations opened.
pub(crate) const OPENED: &str = "$opened";

/// Returns the tool that reads summarized sections. It records the opened section in the session, so
/// that the tools of the section are offered from the next model call on.
fn open_section(sections: Vec<RenderedSection>) -> impl Tool {
    let description = "Returns the full text of a summarized section of the prompt.";
    FnTool::new(OPEN_SECTION, description, move |args: OpenSection, context: ToolContext| {
        let opened = find_summary(&sections, &args.path);
        async move {
            let (path, text) = opened?;
            if let Ok(prompt) = context.deps::<crate::evaluate::PromptContext>() {
                prompt.record_opened(path)?;
            }
            Ok::<String, ToolError>(text)
        }
    })
}

fn find_summary(sections: &[RenderedSection], path: &str) -> Result<(String, String), ToolError> {
    let found = sections.iter().find(|section| section.path == path);
    match found.map(|section| (section.path.clone(), section.full_text.clone())) {
        Some((path, Some(text))) => Ok((path, text)),
        Some((path, None)) => Err(ToolError::invalid_args(format_args!(
            "section `{path}` is not summarized; its text is in the prompt"
        ))),
        None => {
            let known: Vec<&str> = sections
                .iter()
                .filter(|section| section.full_text.is_some())
                .map(|section| section.path.as_str())
                .collect();
            let known = known.join(", ");
            Err(ToolError::invalid_args(format_args!(
                "no section has this path; the summarized sections are: {known}"
            )))
        }
    }
}

/// The event of an opened section.
pub(crate) fn opened_event(evaluation: &str, path: String) -> SessionEvent {
    SessionEvent {
        slice: OPENED.to_owned(),
        event: json!({"evaluation": evaluation, "path": path}),
    }
}

impl<P: DeserializeOwned> Definition<P> {
    /// Renders stored parameters.
    pub(super) fn render(
        &self,
        inputs: &Value,
        overrides: &Overrides,
    ) -> Result<Rendered, PromptError> {
        let params = P::deserialize(inputs)
            .map_err(|error| self.unfit(format!("the parameters do not fit: {error}")))?;
        for (path, text) in &overrides.text {
            self.check_text(path, text.of)?;
        }
        for path in overrides.visibility.keys() {
            let section = section_at(&self.sections, path);
            let section = section.ok_or_else(|| self.no_section(path))?;
            if overrides.visibility.get(path) == Some(&Visibility::Summary)
                && section.summary.is_none()
            {
                return Err(self.refuse(path, "the section has no summary; add one to it"));
            }
        }
        let mut walk = Walk {
            definition: self,
            inputs,
            params: &params,
            overrides,
            sections: Vec::new(),
            tools: Vec::new(),
            media: Vec::new(),
            policy: Policy::new(),
        };
        let text = walk.sections(&self.sections, &Place::default())?.join("\n\n");
        let Walk { sections, tools, media, policy, .. } = walk;
        let placed = |placed: &PlacedTool| {
            let name = match &placed.tool {
                SectionTool::Run(tool) => json!(tool.spec()),
                SectionTool::AskHuman => json!(ASK_HUMAN),
            };
            json!({"tool": name, "summaries": placed.summaries})
        };
        let full_text = |section: &RenderedSection| {
            Some(json!({"path": section.path, "text": section.full_text.as_ref()?}))
        };
        let hash = canonical::hash(&json!({
            "text": text,
            "summarized": sections.iter().filter_map(full_text).collect::<Vec<_>>(),
            "media": media,
            "tools": tools.iter().map(placed).collect::<Vec<_>>(),
            "output": self.output.as_ref().map(|output| output.spec.schema()),
        }));
        let id = self.id.clone();
        let inputs = inputs.clone();
        let mut declared = BTreeSet::new();
        self.sections.iter().for_each(|section| section.declare_tools(&mut declared));
        Ok(Rendered { id, inputs, text, media, sections, tools, policy, declared, hash })
    }

    fn check_text(&self, path: &str, of: Hash) -> Result<(), PromptError> {
        let section = section_at(&self.sections, path).ok_or_else(|| self.no_section(path))?;
        if section.content_hash() == of {
            return Ok(());
        }
        let reason = format!(
            "it replaces content with hash {of}, and the section has {} now; make the override again for this content",
            section.content_hash()
        );
        Err(self.refuse(path, &reason))
    }

    fn no_section(&self, path: &str) -> PromptError {
        self.refuse(path, "the prompt has no such section; paths are keys joined by `/`")
    }

    fn refuse(&self, section: &str, reason: &str) -> PromptError {
        PromptError::Override {
            prompt: self.id.clone(),
            section: section.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn unfit(&self, reason: String) -> PromptError {
        PromptError::Parameters { prompt: self.id.clone(), reason }
    }
}

/// A walk over the sections, which collects what they have besides their text.
struct Walk<'a, P> {
    definition: &'a Definition<P>,
    inputs: &'a Value,
    params: &'a P,
    overrides: &'a Overrides,
    sections: Vec<RenderedSection>,
    tools: Vec<PlacedTool>,
    media: Vec<Media>,
    policy: Policy,
}

/// Place of a list of sections.
#[derive(Debug, Clone, Default)]
struct Place {
    /// Path up to here, with a slash at its end.
    path: String,
    /// Number up to here, with a point at its end.
    number: String,
    depth: usize,
    /// Summarized sections around it.
    summaries: Vec<String>,
}

impl<P: DeserializeOwned> Walk<'_, P> {
    /// Returns the texts of the enabled sections of a list.
    fn sections(
        &mut self,
        sections: &[Section<P>],
        at: &Place,
    ) -> Result<Vec<String>, PromptError> {
        let mut texts = Vec::new();
        let mut number = 0;
        for section in sections {
            let path = format!("{}{}", at.path, section.key);
            if self.is_enabled(section, &path)? {
                number += 1;
                texts.push(self.render_section(section, path, number, at)?);
            }
        }
        Ok(texts)
    }

    fn is_enabled(&self, section: &Section<P>, path: &str) -> Result<bool, PromptError> {
        let Some(predicate) = &section.enabled else { return Ok(true) };
        catch_unwind(AssertUnwindSafe(|| predicate(self.params))).map_err(|_| {
            self.definition.unfit(format!("the predicate `enabled` of section `{path}` panicked"))
        })
    }

    fn render_section(
        &mut self,
        section: &Section<P>,
        path: String,
        number: usize,
        at: &Place,
    ) -> Result<String, PromptError> {
        let visibility = self.visibility_of(section, &path);
        let place = self.sections.len();
        self.sections.push(RenderedSection { path: path.clone(), visibility, full_text: None });
        let mut summaries = at.summaries.clone();
        if visibility == Visibility::Summary {
            summaries.push(path.clone());
        }
        let tools = section.tools.iter().cloned();
        self.tools.extend(tools.map(|tool| PlacedTool { tool, summaries: summaries.clone() }));
        self.media.extend(section.media.iter().cloned());
        self.policy = std::mem::take(&mut self.policy).then(section.policy.clone());
        let number = format!("{}{number}", at.number);
        let heading = "#".repeat((at.depth + 2).min(HEADING_MAX));
        let heading = format!("{heading} {number}. {}", section.title);
        let within = Place {
            path: format!("{path}/"),
            number: format!("{number}."),
            depth: at.depth + 1,
            summaries,
        };
        let text = self.overrides.text.get(&path);
        let text = text.map_or(section.template.as_str(), |text| &text.template);
        let mut full = vec![heading.clone(), self.fill(text, &path)?];
        full.extend(self.sections(&section.children, &within)?);
        full.retain(|part| !part.is_empty());
        let full = full.join("\n\n");
        let summary = section.summary.as_deref().filter(|_| visibility == Visibility::Summary);
        let Some(summary) = summary else { return Ok(full) };
        let summary = self.fill(summary, &path)?;
        if let Some(rendered) = self.sections.get_mut(place) {
            rendered.full_text = Some(full);
        }
        Ok(format!(
            "{heading}\n\n{summary}\n\n(Summary. Call `{OPEN_SECTION}` with the path `{path}` for the whole section.)"
        ))
    }

    fn visibility_of(&self, section: &Section<P>, path: &str) -> Visibility {
        let chosen = self.overrides.visibility.get(path).copied().unwrap_or(section.visibility);
        // Without a summary there is only the full form.
        if section.summary.is_none() { Visibility::Full } else { chosen }
    }

    fn fill(&self, template: &str, path: &str) -> Result<String, PromptError> {
        let definition = self.definition;
        let template = checked_template(template, &definition.schema)
            .map_err(|problem| definition.refuse(path, &problem))?;
        let text = template.fill(self.inputs).map_err(|name| {
            definition.unfit(format!("placeholder `${{{name}}}` of section `{path}` has no value"))
        })?;
        Ok(text.trim().to_owned())
    }
}
