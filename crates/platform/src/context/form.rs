//! The form of a content, in words for a model.

use crate::definition::{Deliverable, DeliverableFormat, Plan, PlanFormat};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Describes the form of a plan.
pub(crate) fn plan_text(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else { return " in Markdown.".to_owned() };
    let mut text = match plan.format {
        PlanFormat::Json => " as JSON.",
        PlanFormat::Yaml => " as YAML.",
        PlanFormat::Markdown => " in Markdown.",
    }
    .to_owned();
    add_schema(&mut text, plan.schema.as_ref());
    if let Some(template) = &plan.template {
        text.push_str(
            " Keep the headings of this template in their order, and replace its placeholders:\n\n",
        );
        text.push_str(template);
    }
    text
}

/// Describes the form of a deliverable.
pub(crate) fn deliverable_text(deliverable: Option<&Deliverable>) -> String {
    let Some(deliverable) = deliverable else { return " in Markdown.".to_owned() };
    let mut text = match deliverable.format {
        DeliverableFormat::Json => " as JSON.",
        DeliverableFormat::Html => " as HTML.",
        DeliverableFormat::Markdown => " in Markdown.",
    }
    .to_owned();
    if let Some(kind) = &deliverable.kind {
        write!(text, " It is a {kind}.").unwrap_or_default();
    }
    add_schema(&mut text, deliverable.schema.as_ref());
    if let Some(sections) = &deliverable.sections {
        let sections = sections.join("`, `");
        write!(text, " Give it these headings, in this order: `{sections}`.").unwrap_or_default();
    }
    text
}

fn add_schema(text: &mut String, schema: Option<&Map<String, Value>>) {
    if let Some(schema) = schema {
        let schema = Value::Object(schema.clone());
        write!(text, " It must satisfy this JSON Schema: {schema}").unwrap_or_default();
    }
}
