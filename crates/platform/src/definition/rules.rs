//! Rules between the keys of a definition.

use super::file::{AgentType, Definition, DeliverableFormat, PlanFormat};
use super::openapi::{NAME_CHARS_MAX, operation_tool};
use super::outline::{Outline, StepProblem};
use super::problem::{Problem, ProblemKind};
use super::schema::path_of;
use super::source::{DURATION_MAX, SourceKind, parse_duration};
use super::transform::Transform;
use super::transport::{
    ApiTransport, Authentication, AuthenticationType, ExternalForm, ExternalTransport, Grant,
    Pagination, PaginationKind, TransportKind,
};
use super::yaml::Node;
use crate::api::tool_name;
use crate::context::{NAMES, Template};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;
use weftwork_a2a_wire::CardVerifier;
use weftwork_schema::Checker;
use weftwork_types::OrgId;
use weftwork_types::item::Namespace;
use weftwork_types::port::Method;

/// Reports problems of a definition at the places of its keys.
pub(super) struct Rules<'a> {
    pub(super) definition: &'a Definition,
    pub(super) node: &'a Node,
    pub(super) problems: Vec<Problem>,
}

impl Rules<'_> {
    /// Checks everything that one definition alone shows.
    pub(super) fn check(&mut self) {
        self.check_version();
        self.check_modes();
        self.check_type();
        self.check_transport();
        self.check_operations();
        self.check_forms();
        self.check_agents();
        self.check_steps();
        self.check_sources();
        self.check_context();
        self.check_durations();
        self.check_budget();
    }

    fn problem(&self, kind: ProblemKind, pointer: &str) -> Problem {
        let node = self.node.at(pointer).unwrap_or(self.node);
        let problem = Problem::new(kind, node.location).path(path_of(pointer));
        match node.to_json() {
            Json::Null | Json::Array(_) | Json::Object(_) => problem,
            value => problem.found(value.to_string()),
        }
    }

    fn report(&mut self, kind: ProblemKind, pointer: &str, expected: impl Into<String>) {
        let problem = self.problem(kind, pointer).expected(expected);
        self.problems.push(problem);
    }

    fn check_version(&mut self) {
        if let Some(org) = &self.definition.organization
            && let Err(error) = OrgId::new(org)
        {
            let expected = format!("the id of an organisation: {}", error.expected);
            self.report(ProblemKind::BadValue, "/organization", expected);
        }
        if let Some(version) = &self.definition.version
            && let Err(error) = semver::Version::parse(version)
        {
            let expected = format!("a version such as `1.2.0` ({error})");
            self.report(ProblemKind::BadValue, "/version", expected);
        }
    }

    fn check_modes(&mut self) {
        let modes = self.definition.modes();
        for (place, mode) in modes.iter().enumerate() {
            if modes[..place].contains(mode) {
                let pointer = format!("/agent_card/modes/{place}");
                self.report(ProblemKind::Twice, &pointer, "each mode once");
            }
        }
    }

    /// Checks the keys that a type needs, and those that it has no use for.
    fn check_type(&mut self) {
        let definition = self.definition;
        let of = definition.agent_type;
        let keys = [
            ("tools", definition.tools.is_some(), AgentType::Tool),
            ("function_code", definition.function_code.is_some(), AgentType::Function),
        ];
        for (key, is_there, needed_by) in keys {
            let has_operations = key == "tools" && definition.openapi.is_some();
            if of == needed_by && !is_there && !has_operations {
                let expected = format!("the key `{key}`, which the type `{}` needs", of.name());
                self.report(ProblemKind::TypeMismatch, "", expected);
            }
        }
        if definition.function_code.is_some() && of != AgentType::Function {
            let expected = "the type `function`, or no code";
            self.report(ProblemKind::TypeMismatch, "/function_code", expected);
        }
        for (pointer, transform) in definition.transforms() {
            if of != AgentType::Api {
                let expected = "the type `api`, or no transform";
                self.report(ProblemKind::TypeMismatch, pointer, expected);
            }
            if Transform::read(transform).is_err() {
                let expected = "a mapping, JSON, a text with placeholders such as `{{message}}`, or a program as `{jq: PROGRAM}`";
                self.report(ProblemKind::BadValue, pointer, expected);
            }
        }
        if !definition.skills.is_empty() && of != AgentType::Context {
            let expected = "the type `context`, or no skills";
            self.report(ProblemKind::TypeMismatch, "/skills", expected);
        }
        for (place, skill) in definition.skills.iter().enumerate() {
            if definition.skills[..place].contains(skill) {
                self.report(ProblemKind::Twice, &format!("/skills/{place}"), "each skill once");
            }
        }
        if definition.tool_mode.is_some() && !self.has_tools() {
            self.report(ProblemKind::TypeMismatch, "/tool_mode", "the key `tools` beside it");
        }
        for (place, tool) in definition.tools.iter().flatten().enumerate() {
            if definition.tools.iter().flatten().take(place).any(|other| other == tool) {
                self.report(ProblemKind::Twice, &format!("/tools/{place}"), "each tool once");
            }
        }
        // A misspelt name would leave a call without its confirmation.
        let slug = definition.slug.as_deref();
        let request = slug.map(tool_name).filter(|_| definition.openapi.is_none());
        let names = definition.tool_names(slug.unwrap_or_default());
        for (place, name) in definition.requires_confirmation.iter().enumerate() {
            let expected = match of {
                _ if definition.openapi.is_some() => {
                    let listed = names.iter().map(|name| format!("`{name}`"));
                    let listed = || listed.collect::<Vec<_>>().join(", ");
                    (!names.contains(name)).then(|| format!("a tool of the agent: {}", listed()))
                }
                AgentType::Tool | AgentType::Function => {
                    (!names.contains(name)).then(|| "one of `tools`".to_owned())
                }
                AgentType::Api => {
                    let other = request.as_ref().filter(|request| *request != name);
                    other.map(|request| format!("`{request}`, the request of the agent"))
                }
                _ => None,
            };
            if let Some(expected) = expected {
                let pointer = format!("/requires_confirmation/{place}");
                self.report(ProblemKind::TypeMismatch, &pointer, expected);
            }
        }
    }

    /// Returns `true` if there are tools that calls may name.
    fn has_tools(&self) -> bool {
        self.definition.tools.is_some() || self.definition.openapi.is_some()
    }

    /// Checks what an OpenAPI file needs beside it, and the names of the tools of its operations.
    fn check_operations(&mut self) {
        let definition = self.definition;
        let ids = &definition.operations;
        if definition.openapi.is_none() {
            if !ids.is_empty() {
                let expected = "the key `openapi`, the file that has them";
                self.report(ProblemKind::TypeMismatch, "/operations", expected);
            }
            return;
        }
        if ids.is_empty() {
            let expected = "the key `operations`: those that become tools";
            self.report(ProblemKind::TypeMismatch, "/openapi", expected);
        }
        let of = definition.agent_type;
        if !matches!(of, AgentType::Api | AgentType::Tool | AgentType::Function) {
            let expected = "the type `api`, `tool` or `function`, or no such file";
            self.report(ProblemKind::TypeMismatch, "/openapi", expected);
            return;
        }
        let api = definition.transport.as_ref().and_then(|transport| transport.api.as_ref());
        if api.is_none() {
            let expected = "the key `transport.api` with the `endpoint` of the operations";
            self.report(ProblemKind::TypeMismatch, "/openapi", expected);
        }
        let of_request = [
            ("/request_transform", definition.request_transform.is_some()),
            ("/response_transform", definition.response_transform.is_some()),
            ("/transport/api/method", api.is_some_and(|api| api.method.is_some())),
            ("/transport/api/query", api.is_some_and(|api| !api.query.is_empty())),
            ("/transport/api/body", api.is_some_and(|api| api.body.is_some())),
            ("/transport/api/pagination", api.is_some_and(|api| api.pagination.is_some())),
        ];
        for (pointer, _) in of_request.iter().filter(|(_, is_there)| *is_there) {
            let expected = "no such key with `openapi`, whose operations have their own";
            self.report(ProblemKind::TypeMismatch, pointer, expected);
        }
        let slug = definition.slug.as_deref().unwrap_or_default();
        let names: Vec<_> = ids.iter().map(|id| operation_tool(slug, id)).collect();
        for (place, name) in names.iter().enumerate() {
            let pointer = format!("/operations/{place}");
            if names[..place].contains(name) {
                let expected = format!("each tool once; `{name}` is the tool of another one");
                self.report(ProblemKind::Twice, &pointer, expected);
            }
            if name.chars().count() > NAME_CHARS_MAX {
                let expected = format!(
                    "an id that makes a name of at most {NAME_CHARS_MAX} characters; `{name}` has {}",
                    name.chars().count()
                );
                self.report(ProblemKind::BadValue, &pointer, expected);
            }
        }
    }

    fn check_transport(&mut self) {
        let of = self.definition.agent_type;
        let Some(transport) = &self.definition.transport else {
            if matches!(of, AgentType::Api | AgentType::External) {
                let expected = format!("the key `transport`, which the type `{}` needs", of.name());
                self.report(ProblemKind::TypeMismatch, "", expected);
            }
            return;
        };
        let expected_kind = match of {
            AgentType::Api => TransportKind::Api,
            AgentType::Tool if self.definition.openapi.is_some() => TransportKind::Api,
            AgentType::External => TransportKind::External,
            AgentType::Function => TransportKind::Function,
            _ => TransportKind::None,
        };
        let is_of_function = of == AgentType::Function && transport.kind == TransportKind::None;
        if transport.kind != expected_kind && !is_of_function {
            let expected = match expected_kind {
                TransportKind::None => format!("`none`, as the type is `{}`", of.name()),
                TransportKind::Api => format!("`api`, as the type is `{}`", of.name()),
                _ => format!("`{0}`, as the type is `{0}`", of.name()),
            };
            self.report(ProblemKind::TypeMismatch, "/transport/kind", expected);
            return;
        }
        let parts = [
            ("api", transport.api.is_some(), TransportKind::Api),
            ("external", transport.external.is_some(), TransportKind::External),
            ("function", transport.function.is_some(), TransportKind::Function),
        ];
        for (part, is_there, kind) in parts {
            let is_needed = kind == transport.kind && kind != TransportKind::Function;
            if is_needed && !is_there {
                let expected = format!("the key `{part}`, which this kind of transport needs");
                self.report(ProblemKind::TypeMismatch, "/transport", expected);
            }
            let is_of_operations = kind == TransportKind::Api && self.definition.openapi.is_some();
            if is_there && kind != transport.kind && !is_of_operations {
                let expected = "only the part of the kind";
                self.report(ProblemKind::TypeMismatch, &format!("/transport/{part}"), expected);
            }
        }
        if let Some(function) = &transport.function {
            self.check_grants(&function.grants);
        }
        if let Some(api) = &transport.api {
            self.check_headers(&api.headers);
            self.check_addresses(api);
            self.check_authentication("/transport/api", api.authentication.as_ref());
            if let Some(pagination) = &api.pagination {
                self.check_pagination(api.method(), pagination);
            }
        }
        if let Some(external) = &transport.external {
            self.check_external(external);
        }
    }

    /// Checks an agent of another server: its address, its keys, and what its form has no use for.
    fn check_external(&mut self, external: &ExternalTransport) {
        const AT: &str = "/transport/external";
        self.check_endpoint(&format!("{AT}/endpoint"), &external.endpoint);
        self.check_authentication(AT, external.authentication.as_ref());
        let of_card = [("card_keys", !external.card_keys.is_empty(), ExternalForm::A2a)];
        let of_tasks = [("agent", external.agent.is_some(), ExternalForm::Task)];
        for (key, is_there, form) in of_card.into_iter().chain(of_tasks) {
            if is_there && external.form() != form {
                let expected = match form {
                    ExternalForm::A2a => "no such key: requests to this address need no card",
                    ExternalForm::Task => "no such key: the card names the agent",
                };
                self.report(ProblemKind::TypeMismatch, &format!("{AT}/{key}"), expected);
            }
        }
        for (place, key) in external.card_keys.iter().enumerate() {
            // The text of a problem must not have the key.
            if key.contains_key("d") {
                let pointer = format!("{AT}/card_keys/{place}");
                let expected = "a public key, without `d`: that is its private part, and no definition has secrets";
                self.report(ProblemKind::BadValue, &pointer, expected);
                continue;
            }
            if let Err(error) = CardVerifier::new(&[Json::Object(key.clone())]) {
                let pointer = format!("{AT}/card_keys/{place}");
                self.report(ProblemKind::BadValue, &pointer, format!("a public key ({error})"));
            }
        }
    }

    /// Checks that a list which is read in pages has what its kind needs, and nothing else.
    fn check_pagination(&mut self, method: Method, of: &Pagination) {
        const AT: &str = "/transport/api/pagination";
        if method != Method::Get {
            self.report(ProblemKind::TypeMismatch, AT, "the method `GET`, or no pagination");
        }
        let kind = of.kind;
        let is_page = kind == PaginationKind::Page;
        let keys = [
            ("next", of.next.is_some(), kind == PaginationKind::Cursor, !is_page),
            (
                "param",
                of.param.is_some(),
                kind != PaginationKind::Link,
                kind != PaginationKind::Link,
            ),
            ("start", of.start.is_some(), false, is_page),
        ];
        for (key, is_there, is_needed, is_allowed) in keys {
            let name = kind.name();
            if is_needed && !is_there {
                let expected = format!("the key `{key}`, which the kind `{name}` needs");
                self.report(ProblemKind::TypeMismatch, AT, expected);
            }
            if is_there && !is_allowed {
                let expected = format!("no `{key}` with the kind `{name}`");
                self.report(ProblemKind::TypeMismatch, &format!("{AT}/{key}"), expected);
            }
        }
    }

    /// Checks the address of an API, and those that it may become.
    fn check_addresses(&mut self, api: &ApiTransport) {
        const AT: &str = "/transport/api/endpoint";
        for (position, address) in api.url_allow_list.iter().enumerate() {
            self.check_endpoint(&format!("/transport/api/url_allow_list/{position}"), address);
        }
        if !api.has_template() {
            if !api.url_allow_list.is_empty() {
                let expected = "no such key: the `endpoint` has no placeholder";
                self.report(ProblemKind::TypeMismatch, "/transport/api/url_allow_list", expected);
            }
            self.check_endpoint(AT, &api.endpoint);
            return;
        }
        let expected = if self.definition.openapi.is_some() {
            "an address without placeholders, which fixes the host of the operations"
        } else if api.url_allow_list.is_empty() {
            "the key `url_allow_list` beside it, with the addresses that it may become"
        } else {
            return;
        };
        let problem = self.problem(ProblemKind::TypeMismatch, AT).found("").expected(expected);
        self.problems.push(problem);
    }

    /// Checks headers: those that say where and how a request is sent are not the definition's.
    fn check_headers(&mut self, headers: &BTreeMap<String, String>) {
        const FIXED: [&str; 8] = [
            "authorization",
            "connection",
            "content-length",
            "content-type",
            "cookie",
            "host",
            "proxy-authorization",
            "transfer-encoding",
        ];
        for (name, value) in headers {
            let pointer = format!("/transport/api/headers/{name}");
            let is_token = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
            if name.is_empty() || !name.chars().all(is_token) {
                self.report(ProblemKind::BadValue, &pointer, "a name of letters, digits and `-`");
            } else if FIXED.contains(&name.to_lowercase().as_str()) {
                let expected =
                    "another header: this one is set by `authentication`, `body` or the program";
                self.report(ProblemKind::BadValue, &pointer, expected);
            } else if value.contains("{{") || value.chars().any(char::is_control) {
                let expected = "a text without placeholders and line breaks";
                self.report(ProblemKind::BadValue, &pointer, expected);
            }
        }
    }

    fn check_grants(&mut self, grants: &[Grant]) {
        for (place, grant) in grants.iter().enumerate() {
            let pointer = format!("/transport/function/grants/{place}");
            if grants[..place].contains(grant) {
                self.report(ProblemKind::Twice, &pointer, "each grant once");
            }
            if *grant == Grant::Tools && !self.has_tools() {
                let expected = "the key `tools`, which says which ones";
                self.report(ProblemKind::TypeMismatch, &pointer, expected);
            }
        }
    }

    fn check_authentication(&mut self, pointer: &str, of: Option<&Authentication>) {
        let Some(of) = of else { return };
        let pointer = format!("{pointer}/authentication");
        let needs = [
            (AuthenticationType::Header, "header", of.header.is_some()),
            (AuthenticationType::Oauth, "token_endpoint", of.token_endpoint.is_some()),
        ];
        for (kind, key, is_there) in needs {
            if is_there != (of.kind == kind) {
                let expected = match is_there {
                    true => format!("no `{key}` with this type"),
                    false => format!("the key `{key}`, which this type needs"),
                };
                self.report(ProblemKind::TypeMismatch, &pointer, expected);
            }
        }
        if let Some(address) = &of.token_endpoint {
            self.check_endpoint(&format!("{pointer}/token_endpoint"), address);
        }
    }

    fn check_endpoint(&mut self, pointer: &str, address: &str) {
        let expected = match Url::parse(address) {
            _ if address.contains("{{") => "an address without placeholders",
            Ok(url) if !matches!(url.scheme(), "http" | "https") => "an address with http or https",
            Ok(url) if url.password().is_some() || !url.username().is_empty() => {
                "an address without credentials, which are in the environment"
            }
            Ok(_) => return,
            Err(_) => "an address such as `https://api.example.com/v1`",
        };
        // The address may have a secret.
        let problem = self.problem(ProblemKind::BadValue, pointer).found("").expected(expected);
        self.problems.push(problem);
    }

    /// Checks schemas, templates and sections.
    fn check_forms(&mut self) {
        let definition = self.definition;
        if let Some(plan) = &definition.plan {
            self.check_schema("/plan/schema", plan.schema.as_ref());
            if plan.schema.is_some() && plan.format == PlanFormat::Markdown {
                let expected = "a `template`: Markdown has no schema";
                self.report(ProblemKind::TypeMismatch, "/plan/schema", expected);
            }
        }
        if let Some(deliverable) = &definition.deliverable {
            self.check_schema("/deliverable/schema", deliverable.schema.as_ref());
            let is_json = deliverable.format == DeliverableFormat::Json;
            if deliverable.schema.is_some() && !is_json {
                let expected = "the format `json`, or no schema";
                self.report(ProblemKind::TypeMismatch, "/deliverable/schema", expected);
            }
            if deliverable.sections.is_some() && is_json {
                let expected = "a `schema`: JSON has no sections";
                self.report(ProblemKind::TypeMismatch, "/deliverable/sections", expected);
            }
        }
        self.check_schema("/input_schema", definition.input_schema.as_ref());
        self.check_schema("/output_schema", definition.output_schema.as_ref());
    }

    fn check_schema(&mut self, pointer: &str, schema: Option<&Map<String, Json>>) {
        let Some(schema) = schema else { return };
        if let Err(error) = Checker::compile(&Json::Object(schema.clone())) {
            self.report(ProblemKind::BadSchema, pointer, format!("a JSON Schema ({error})"));
        }
    }

    /// Reports placeholders that are nearly known ones. Other names between braces are text.
    fn check_context(&mut self) {
        let Some(context) = &self.definition.context else { return };
        let template = Template::parse(context);
        let own = template.own.keys().map(String::as_str);
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).chain(own).collect();
        for unknown in &template.unknown {
            let problem = self.problem(ProblemKind::BadValue, "/context");
            let problem = problem.found(format!("{{{{{unknown}}}}}"));
            let problem = problem.nearest_of(unknown, names.iter().copied());
            if problem.nearest.is_some() {
                let listed = names.join("`, `");
                self.problems.push(problem.expected(format!("a placeholder of `{listed}`")));
            }
        }
    }

    /// Checks that each source has what its kind needs, and nothing else.
    fn check_sources(&mut self) {
        let definition = self.definition;
        for (place, source) in definition.sources.iter().flatten().enumerate() {
            let pointer = format!("/sources/{place}");
            let keys = [
                ("namespace", !source.namespace.is_empty(), SourceKind::Store),
                ("paths", !source.paths.is_empty(), SourceKind::Files),
            ];
            for (key, is_there, kind) in keys {
                if is_there != (source.kind == kind) {
                    let expected = match is_there {
                        true => format!("no `{key}` with this kind of source"),
                        false => format!("the key `{key}`, which this kind of source needs"),
                    };
                    self.report(ProblemKind::TypeMismatch, &pointer, expected);
                }
            }
            if !source.namespace.is_empty()
                && let Err(error) = Namespace::new(source.namespace.iter().cloned())
            {
                let pointer = format!("{pointer}/namespace");
                self.report(ProblemKind::BadValue, &pointer, format!("a namespace ({error})"));
            }
            if source.kind == SourceKind::SubAgent && definition.sub_agent_slug.is_none() {
                let expected = "the key `subAgentSlug`, or no such source";
                self.report(ProblemKind::TypeMismatch, &pointer, expected);
            }
        }
    }

    /// Checks that times are neither zero nor longer than any that is meant.
    fn check_durations(&mut self) {
        let definition = self.definition;
        let timeout = definition.execution.as_ref().and_then(|of| of.timeout.as_deref());
        let mut given = vec![("/execution/timeout".to_owned(), timeout)];
        for (place, source) in definition.sources.iter().flatten().enumerate() {
            given.push((format!("/sources/{place}/deadline"), source.deadline.as_deref()));
        }
        let external = definition.transport.as_ref().and_then(|of| of.external.as_ref());
        let health = external.and_then(|external| external.health_check.as_ref());
        let interval = health.and_then(|health| health.interval.as_deref());
        given.push(("/transport/external/healthCheck/interval".to_owned(), interval));
        for (pointer, text) in given {
            let Some(text) = text else { continue };
            let is_sound = |time: Duration| !time.is_zero() && time <= DURATION_MAX;
            if !parse_duration(text).is_some_and(is_sound) {
                let expected = "a time from `1ms` to `52w`, or no such key for the usual one";
                self.report(ProblemKind::BadValue, &pointer, expected);
            }
        }
    }

    /// Checks that the budget leaves what each run of the type needs.
    fn check_budget(&mut self) {
        let definition = self.definition;
        let budget = definition.execution.as_ref().and_then(|of| of.budget.as_ref());
        let Some(budget) = budget else { return };
        let needed = match definition.agent_type {
            AgentType::Context => &[("tokens", budget.tokens), ("calls", budget.calls)][..],
            // A request of an API, or to an agent of another server, counts as a call of a tool, too.
            AgentType::Tool | AgentType::Api | AgentType::External => &[("tools", budget.tools)],
            _ => &[],
        };
        for (key, limit) in needed {
            if *limit == Some(0) {
                let of = definition.agent_type.name();
                let expected = format!("at least 1, which each run of the type `{of}` needs");
                self.report(ProblemKind::BadValue, &format!("/execution/budget/{key}"), expected);
            }
        }
    }

    fn check_steps(&mut self) {
        let Some(orchestration) = &self.definition.orchestration else { return };
        if orchestration.planning.is_some() {
            let at = "/orchestration/planning";
            if orchestration.available_agents.is_empty() {
                let expected = "the key `availableAgents` beside it, of which plans are made";
                self.report(ProblemKind::TypeMismatch, at, expected);
            }
            if !orchestration.steps.is_empty() {
                let expected = "no such key beside `steps`, which are written";
                self.report(ProblemKind::TypeMismatch, at, expected);
            }
        }
        for problem in Outline::problems(orchestration) {
            let StepProblem { kind, pointer, found, expected, known } = problem;
            let mut reported = self.problem(kind, &pointer).expected(expected);
            if let Some(found) = &found {
                reported = reported.found(found);
                reported = reported.nearest_of(found, known.iter().map(String::as_str));
            }
            self.problems.push(reported);
        }
    }

    fn check_agents(&mut self) {
        let definition = self.definition;
        let requires = definition.requires_sub_agents.unwrap_or_default();
        if requires && definition.sub_agent_slug.is_none() {
            let expected = "the key `subAgentSlug` beside it";
            self.report(ProblemKind::TypeMismatch, "/requiresSubAgents", expected);
        }
        let available = definition.orchestration.iter().flat_map(|of| &of.available_agents);
        let available: Vec<_> = available.collect();
        for (place, slug) in available.iter().enumerate() {
            if available[..place].contains(slug) {
                let pointer = format!("/orchestration/availableAgents/{place}");
                self.report(ProblemKind::Twice, &pointer, "each agent once");
            }
        }
    }
}
