//! Checks of contents against their declared forms.

use super::Result;
use super::error::RecordError;
use super::heading::{Heading, Pattern, markdown_headings, placeholders, placeholders_of_text};
use super::html;
use super::version::ContentFormat;
use crate::definition::{Deliverable, DeliverableFormat, Plan, PlanFormat, read_yaml};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use weftwork_schema::{Checker, ViolationKind};

/// Type of the plans of orchestrations.
pub(crate) const ORCHESTRATION: &str = "orchestration";
/// Maximum number of reported problems of a content.
const PROBLEMS_MAX: usize = 20;
/// Maximum number of headings that a problem quotes.
const QUOTED_HEADINGS_MAX: usize = 8;
/// Maximum length of a quotation in characters.
const QUOTE_CHARS_MAX: usize = 80;

/// The declared form of a plan or a deliverable.
#[derive(Debug)]
pub struct Form {
    pub(super) format: ContentFormat,
    pub(super) kind: Option<String>,
    schema: Option<Checker>,
    template: Option<Template>,
    sections: Vec<Pattern>,
}

#[derive(Debug)]
struct Template {
    headings: Vec<Pattern>,
    placeholders: BTreeSet<String>,
}

/// A deviation of a content from its form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContentProblem {
    /// Violated part of the form.
    pub rule: ContentRule,
    /// Line in the content, from 1, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Requirement.
    pub expected: String,
    /// Content found instead.
    pub found: String,
}

/// Parts of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentRule {
    /// The format.
    Format,
    /// The JSON Schema.
    Schema,
    /// The headings of the template.
    Heading,
    /// The placeholders of the template.
    Placeholder,
    /// The sections.
    Section,
}

impl fmt::Display for ContentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl Form {
    /// Creates a form that only a format has.
    #[must_use]
    pub fn of_format(format: ContentFormat) -> Self {
        Self { format, kind: None, schema: None, template: None, sections: Vec::new() }
    }

    /// Creates the form of the plans of orchestrations.
    #[must_use]
    pub fn of_orchestration() -> Self {
        let kind = Some(ORCHESTRATION.to_owned());
        Self { kind, ..Self::of_format(ContentFormat::Yaml) }
    }

    /// Creates the form that a definition declares for its plans.
    ///
    /// # Errors
    /// [`RecordError::Schema`] if the schema does not compile. Reading a definition refuses it.
    pub fn of_plan(plan: &Plan) -> Result<Self> {
        let format = match plan.format {
            PlanFormat::Json => ContentFormat::Json,
            PlanFormat::Markdown => ContentFormat::Markdown,
            PlanFormat::Yaml => ContentFormat::Yaml,
        };
        let schema = compile(format, plan.schema.as_ref())?;
        let template = plan.template.as_deref().map(|text| Template {
            headings: match format {
                ContentFormat::Markdown => {
                    markdown_headings(text).iter().map(Pattern::of_heading).collect()
                }
                _ => Vec::new(),
            },
            placeholders: placeholders(text).map(|found| found.name).collect(),
        });
        Ok(Self { schema, template, ..Self::of_format(format) })
    }

    /// Creates the form that a definition declares for its deliverables.
    ///
    /// # Errors
    /// See [`of_plan`](Self::of_plan).
    pub fn of_deliverable(deliverable: &Deliverable) -> Result<Self> {
        let format = match deliverable.format {
            DeliverableFormat::Json => ContentFormat::Json,
            DeliverableFormat::Markdown => ContentFormat::Markdown,
            DeliverableFormat::Html => ContentFormat::Html,
        };
        let schema = compile(format, deliverable.schema.as_ref())?;
        let sections = deliverable.sections.iter().flatten();
        let sections = sections.map(|text| Pattern::of_text(text)).collect();
        let kind = deliverable.kind.clone();
        Ok(Self { kind, schema, sections, ..Self::of_format(format) })
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> ContentFormat {
        self.format
    }

    /// Checks a content.
    ///
    /// # Errors
    /// [`RecordError::Content`] with the first 20 problems.
    pub fn check(&self, content: &str) -> Result<()> {
        let mut problems = match self.parse(content) {
            Ok(parsed) => self.check_parsed(&parsed, content),
            Err(problem) => vec![*problem],
        };
        if problems.is_empty() {
            return Ok(());
        }
        problems.truncate(PROBLEMS_MAX);
        Err(RecordError::Content { format: self.format, problems })
    }

    fn parse(&self, content: &str) -> std::result::Result<Parsed, Box<ContentProblem>> {
        let problem = |line, expected: &str, found: String| {
            let expected = expected.to_owned();
            Box::new(ContentProblem { rule: ContentRule::Format, line, expected, found })
        };
        if content.trim().is_empty() {
            return Err(problem(None, "a content", "an empty text".to_owned()));
        }
        match self.format {
            ContentFormat::Json => serde_json::from_str(content)
                .map(Parsed::Value)
                .map_err(|error| problem(Some(error.line()), "JSON", format!("`{error}`"))),
            ContentFormat::Yaml => read_yaml(content).map(Parsed::Value).map_err(|error| {
                let line = usize::try_from(error.location.line).ok();
                // A key that stands twice is a path.
                let found = if error.found.is_empty() { &error.path } else { &error.found };
                let expected = if error.expected.is_empty() { "YAML" } else { &error.expected };
                problem(line, expected, format!("`{}`", quoted(found)))
            }),
            ContentFormat::Markdown => Ok(Parsed::Text(markdown_headings(content))),
            ContentFormat::Html => html::read(content)
                .map(Parsed::Text)
                .map_err(|error| problem(Some(error.line), &error.expected, error.found)),
        }
    }

    fn check_parsed(&self, parsed: &Parsed, content: &str) -> Vec<ContentProblem> {
        let mut problems = Vec::new();
        match parsed {
            Parsed::Value(value) => self.check_value(value, &mut problems),
            Parsed::Text(headings) => {
                if let Some(template) = &self.template {
                    check_order(&template.headings, headings, &mut problems);
                }
                for section in &self.sections {
                    if !headings.iter().any(|heading| section.fits(heading)) {
                        problems.push(ContentProblem {
                            rule: ContentRule::Section,
                            line: None,
                            expected: format!("the section `{}`", section.text),
                            found: listed(headings),
                        });
                    }
                }
            }
        }
        if let Some(template) = &self.template {
            template.check_placeholders(content, &mut problems);
        }
        problems
    }

    fn check_value(&self, value: &Value, problems: &mut Vec<ContentProblem>) {
        let Some(schema) = &self.schema else { return };
        for violation in schema.violations(value, PROBLEMS_MAX) {
            let place = if violation.at.is_empty() { "/" } else { &violation.at };
            let part = value.pointer(&violation.at);
            let found = part.map(|part| format!("`{}`", quoted(&part.to_string())));
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            let expected = match violation.kind {
                ViolationKind::UnknownMembers(names) => {
                    format!("no member `{}`", names.join("`, `"))
                }
                ViolationKind::MissingMember(name) => format!("the member `{name}`"),
                ViolationKind::Type(kind) => format!("a value of the type {kind}"),
                ViolationKind::NoneOf(values) => {
                    let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                    format!("one of {}", values.join(", "))
                }
                ViolationKind::Other(text) => format!("a value of the schema ({text})"),
                other => format!("a value of the schema ({other:?})"),
            };
            problems.push(ContentProblem {
                rule: ContentRule::Schema,
                line: None,
                expected: format!("{expected} at {place}"),
                found,
            });
        }
    }
}

/// A content in its format.
enum Parsed {
    Value(Value),
    Text(Vec<Heading>),
}

impl Template {
    /// Reports the placeholders of the template that are left, and others that stand in the text.
    fn check_placeholders(&self, content: &str, problems: &mut Vec<ContentProblem>) {
        let of_template = placeholders(content).filter(|at| self.placeholders.contains(&at.name));
        let mut left: Vec<_> = of_template.chain(placeholders_of_text(content)).collect();
        left.sort_by(|a, b| (a.line, &a.name).cmp(&(b.line, &b.name)));
        left.dedup();
        for at in left {
            problems.push(ContentProblem {
                rule: ContentRule::Placeholder,
                line: Some(at.line),
                expected: format!("a value for the placeholder `{}`", at.name),
                found: format!("`{{{{{}}}}}`", at.name),
            });
        }
    }
}

/// Checks that headings are present in their order. Headings between them are allowed.
fn check_order(expected: &[Pattern], headings: &[Heading], problems: &mut Vec<ContentProblem>) {
    let mut next = 0;
    let mut before: Option<&Pattern> = None;
    for pattern in expected {
        let rest = headings.get(next..).unwrap_or_default();
        match rest.iter().position(|heading| pattern.fits(heading)) {
            Some(found) => {
                next += found + 1;
                before = Some(pattern);
            }
            None if problems.len() < PROBLEMS_MAX => {
                let after = before.map(|before| format!(" after `{}`", before.text));
                let elsewhere = headings.iter().find(|heading| pattern.fits(heading));
                problems.push(ContentProblem {
                    rule: ContentRule::Heading,
                    line: elsewhere.map(|heading| heading.line),
                    expected: format!(
                        "the heading `{}`{}",
                        pattern.text,
                        after.unwrap_or_default()
                    ),
                    found: match elsewhere {
                        Some(_) => "it before".to_owned(),
                        None => listed(headings),
                    },
                });
            }
            None => return,
        }
    }
}

fn listed(headings: &[Heading]) -> String {
    let mut texts: Vec<_> = headings
        .iter()
        .take(QUOTED_HEADINGS_MAX)
        .map(|heading| format!("`{}`", quoted(&heading.text)))
        .collect();
    match headings.len().checked_sub(QUOTED_HEADINGS_MAX) {
        Some(more @ 1..) => texts.push(format!("{more} more")),
        _ if headings.is_empty() => return "no headings".to_owned(),
        _ => {}
    }
    format!("the headings {}", texts.join(", "))
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

fn compile(format: ContentFormat, schema: Option<&Map<String, Value>>) -> Result<Option<Checker>> {
    let compiled = schema.map(|schema| Checker::compile(&Value::Object(schema.clone())));
    compiled.transpose().map_err(|problem| RecordError::Schema { format, problem })
}
