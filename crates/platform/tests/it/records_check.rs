//! Checks of contents against their declared forms.

use serde_json::{Value, json};
use std::fmt::Write as _;
use weftwork_platform::records::{ContentFormat, Form, RecordError};
use weftwork_platform::{Deliverable, Plan};

fn plan(value: Value) -> Form {
    let plan: Plan = serde_json::from_value(value).expect("a form of plans");
    Form::of_plan(&plan).expect("compiles")
}

fn deliverable(value: Value) -> Form {
    let deliverable: Deliverable = serde_json::from_value(value).expect("a form of deliverables");
    Form::of_deliverable(&deliverable).expect("compiles")
}

const TEMPLATE: &str = "# Plan for {{project}}\n\n{{summary}}\n\n## Steps\n\n## Risks of {{ project }} and {{other}}\n";

fn forms() -> [(&'static str, Form); 8] {
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "level": {"enum": ["low", "high"]}},
        "required": ["title"],
        "additionalProperties": false,
    });
    [
        ("json", deliverable(json!({"format": "json", "schema": schema}))),
        ("yaml", plan(json!({"format": "yaml", "schema": schema}))),
        ("yaml with a template", plan(json!({"format": "yaml", "template": "title: {{title}}\n"}))),
        ("template", plan(json!({"format": "markdown", "template": TEMPLATE}))),
        (
            "markdown",
            deliverable(json!({"format": "markdown", "sections": ["Summary", "## Next steps"]})),
        ),
        ("html", deliverable(json!({"format": "html", "sections": ["Summary & more"]}))),
        ("html alone", deliverable(json!({"format": "html"}))),
        ("markdown alone", Form::of_format(ContentFormat::Markdown)),
    ]
}

const GOOD: [(&str, &str); 20] = [
    ("json", "{\"title\": \"x\"}"),
    ("json", " {\"title\": \"x\", \"level\": \"low\"}\n"),
    ("yaml", "title: x\nlevel: high\n"),
    ("yaml with a template", "title: Golf\n"),
    (
        "template",
        "# Plan for Weft\n\nShort.\n\n## Steps\n\n1. x\n\n### Detail\n\n## Risks of Weft and more\n",
    ),
    ("template", "Plan for *the* site\n===\n\nSteps\n---\n\n## risks of `a`  and b ##\n"),
    ("template", "# Plan for x\n## Steps\n```\n{{ user }}\n# Risks\n```\n## Risks of x and y\n"),
    ("markdown", "## Next steps\n\ntext\n\n# Summary #\n"),
    ("markdown", "Summary\n=======\n\n   ### **Next** steps\n"),
    ("markdown alone", "no heading, and {{any}} braces"),
    ("html", "<h1>Summary &amp; <b>more</b></h1><p>One<p>Two<br>"),
    (
        "html",
        "<!DOCTYPE html>\n<html><head><title>a < b</title></head>\n<body><H2\n class='>'>Summary &amp; more</H2></body></html>",
    ),
    ("html alone", "<ul><li>One<li>Two</ul><table><tr><td>1<tr><td>2</table>"),
    ("html alone", "<script>if (a < b) { document.write('</p>') }</script><p>1 < 2</p>"),
    ("html alone", "<!-- <b> --><img src=\"a>b\"><svg><path d='M0'/></svg>"),
    ("html alone", "<p>a &lt; b"),
    ("yaml", "{\"title\": \"JSON is YAML\"}"),
    ("json", "{\"title\": \"\\u00fc\"}"),
    ("template", "# Plan for {x}\n## Steps\n## Risks of { and }\n"),
    ("markdown alone", "#no heading\n"),
];

const WRONG: [(&str, &str); 29] = [
    ("json", ""),
    ("json", "  \n"),
    ("json", "{\"title\": \"x\""),
    ("json", "Here is the JSON:\n{\"title\": \"x\"}"),
    ("json", "```json\n{\"title\": \"x\"}\n```"),
    ("json", "{\"level\": \"middle\", \"extra\": 1}"),
    ("json", "{\"title\": 7}"),
    ("json", "[]"),
    ("yaml", "title: [x\n"),
    ("yaml", "title: x\ntitle: y\n"),
    ("yaml", "level: low\n"),
    ("yaml", "a: &a [x, x]\nb: *c\n"),
    ("yaml with a template", "title: {{title}}\n"),
    ("yaml with a template", "title: \"{{ title }}\"\n"),
    (
        "template",
        "# Plan for {{project}}\n\n{{summary}}\n\n## Steps\n\n## Risks of x and {{other}}\n",
    ),
    ("template", "# Plan for x\n\n## Risks of x and y\n\n## Steps\n"),
    ("template", "# Plan for\n## Steps\n"),
    ("template", "no headings"),
    ("template", "# Plan for x\n## Steps\n```\n{{summary}}\n## Risks of x and y\n```\n"),
    ("template", "# Plan for x\n## Steps {{step_1_best_url}}\n## Steps\n## Risks of x and y\n"),
    ("markdown", "# Summary of all\n"),
    ("markdown", "```\n# Summary\n# Next steps\n```\n"),
    ("html", "<h1>Summary</h1>"),
    ("html alone", "# Markdown\n"),
    ("html alone", "<div>\n<p>cut"),
    ("html alone", "<div>\n<b>one</div>"),
    ("html alone", "<p>one</p>\n</div>"),
    ("html alone", "<p class=\"x>one</p>"),
    ("html alone", "<script>let a = 1;"),
];

fn form<'f>(forms: &'f [(&str, Form)], name: &str) -> &'f Form {
    &forms.iter().find(|(other, _)| *other == name).expect("a form").1
}

#[test]
fn contents_of_their_form_are_accepted() {
    let forms = forms();
    for (name, content) in GOOD {
        let found = form(&forms, name).check(content);
        assert_eq!(found, Ok(()), "{name}: {content}");
    }
}

#[test]
fn each_problem_of_a_content_is_named() {
    let forms = forms();
    let mut report = String::new();
    for (name, content) in WRONG {
        let found = form(&forms, name).check(content).expect_err(content);
        assert_eq!(found.code().0, "W1024");
        let RecordError::Content { problems, .. } = found else { panic!("{found}") };
        writeln!(report, "{name}: {content:?}").expect("writes");
        for problem in problems {
            writeln!(report, "  {:?}: {problem}", problem.rule).expect("writes");
        }
    }
    insta::assert_snapshot!(report);
}

#[test]
fn contents_that_are_made_to_do_harm_are_checked_in_bounded_time() {
    let forms = forms();
    let many = |text: &str| text.repeat((1 << 20) / text.len());
    for (name, content) in [
        ("html alone", many("<b>")),
        ("html alone", many("<p>")),
        ("html alone", many("</b>")),
        ("html alone", many("<")),
        ("html alone", many("<script></script")),
        ("html", many("<h1></h1>\n")),
        ("html", many("<h1>")),
        ("template", many("# Plan for x\n")),
        ("template", many("{{summary}}\n")),
        ("template", many("{{")),
        ("markdown", many("```\n")),
        ("json", many("[")),
        ("yaml", many("[")),
        ("yaml", many("- ")),
        ("yaml", many("a: b\n")),
    ] {
        let found = form(&forms, name).check(&content);
        let Err(RecordError::Content { problems, .. }) = found else { panic!("{name}: {found:?}") };
        assert!(problems.len() <= 20, "{}", problems.len());
        let message = RecordError::Content { format: ContentFormat::Html, problems }.to_string();
        assert!(message.len() < 8_000, "{}", message.len());
    }
}
