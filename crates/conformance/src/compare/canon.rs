//! The canonical form of a trace.

use super::{FinishOrder, Messages, Rules};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Task,
    Checkpoint,
    Interrupt,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Self::Task => 'T',
            Self::Checkpoint => 'C',
            Self::Interrupt => 'I',
        }
    }
}

/// Puts one trace into its canonical form.
#[derive(Debug)]
pub(super) struct Canon<'a> {
    rules: Rules,
    /// Messages that nodes of the spec may raise.
    own: &'a BTreeSet<&'a str>,
    /// The number of each id, in order of first appearance.
    seen: BTreeMap<(Kind, String), usize>,
    count: BTreeMap<Kind, usize>,
}

impl<'a> Canon<'a> {
    pub(super) fn new(rules: Rules, own: &'a BTreeSet<&'a str>) -> Self {
        Self { rules, own, seen: BTreeMap::new(), count: BTreeMap::new() }
    }

    pub(super) fn trace(&mut self, trace: &Json) -> Json {
        if let Some(error) = trace.get("compile_error") {
            return json!({ "compile_error": self.error(error) });
        }
        let Some(entries) = trace.get("trace").and_then(Json::as_array) else {
            return trace.clone();
        };
        let entries: Vec<Json> = entries.iter().map(|entry| self.entry(entry)).collect();
        let mut all = Map::new();
        all.insert("trace".to_owned(), Json::Array(entries));
        if let Some(history) = trace.get("history") {
            let history = match history {
                Json::Array(all) => all.iter().map(|one| self.snapshot(one)).collect(),
                other => self.snapshot(other),
            };
            all.insert("history".to_owned(), history);
        }
        Json::Object(all)
    }

    fn entry(&mut self, entry: &Json) -> Json {
        let mut out = Map::new();
        let mut put = |name: &str, value: Json| {
            out.insert(name.to_owned(), value);
        };
        if let Some(events) = entry.get("events").and_then(Json::as_array) {
            put("events", self.events(events));
        }
        if let Some(config) = entry.get("config") {
            put("config", self.config(config));
        }
        for name in ["at", "state"] {
            if let Some(snapshot) = entry.get(name) {
                put(name, self.snapshot(snapshot));
            }
        }
        if let Some(error) = entry.get("error") {
            put("error", self.error(error));
        }
        if let Some(counts) = entry.get("counts") {
            put("counts", counts.clone());
        }
        Json::Object(out)
    }

    fn label(&mut self, kind: Kind, id: Option<&Json>) -> Json {
        match id {
            None | Some(Json::Null) => Json::Null,
            Some(Json::String(id)) => self.name(kind, id).into(),
            Some(other) => self.name(kind, &other.to_string()).into(),
        }
    }

    fn name(&mut self, kind: Kind, id: &str) -> String {
        let number = *self.seen.entry((kind, id.to_owned())).or_insert_with(|| {
            let count = self.count.entry(kind).or_default();
            *count += 1;
            *count
        });
        format!("{}{number}", kind.letter())
    }

    fn part(&mut self, part: &str) -> String {
        match part.split_once(':') {
            Some((node, task)) => format!("{node}:{}", self.name(Kind::Task, task)),
            None => part.to_owned(),
        }
    }

    fn namespace(&mut self, namespace: &str) -> String {
        let parts: Vec<String> = namespace.split('|').map(|part| self.part(part)).collect();
        parts.join("|")
    }

    /// The class, and the message where it is compared.
    fn error(&self, error: &Json) -> Json {
        let Some([class, rest @ ..]) = error.as_array().map(Vec::as_slice) else {
            return error.clone();
        };
        let message = match rest.first() {
            Some(Json::String(message)) => message.split('\n').next().unwrap_or_default(),
            _ => "",
        };
        let compared = match self.rules.messages {
            Messages::All => true,
            Messages::None => false,
            Messages::Own => self.own.contains(message) || is_boom(message),
        };
        if compared { json!([class, without_elapsed(message)]) } else { json!([class]) }
    }

    fn value(&mut self, value: &Json) -> Json {
        match value {
            Json::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Json::Object(members) => {
                if members.len() == 2
                    && let Some(asked) = members.get("$interrupt")
                    && let Some(id) = members.get("id")
                {
                    let asked = self.value(asked);
                    return json!({ "$interrupt": asked, "id": self.label(Kind::Interrupt, Some(id)) });
                }
                if members.len() == 1
                    && let Some(error) = members.get("$error")
                {
                    return json!({ "$error": self.error(error) });
                }
                let members = members.iter().map(|(name, value)| match value {
                    Json::Array(asks) if name == "__interrupt__" => {
                        (name.clone(), self.questions(asks))
                    }
                    value => (name.clone(), self.value(value)),
                });
                Json::Object(members.collect())
            }
            other => other.clone(),
        }
    }

    /// Several open questions, in the order of what they ask.
    fn questions(&mut self, asks: &[Json]) -> Json {
        let sorted = sorted_by(asks, "$interrupt");
        sorted.into_iter().map(|ask| self.value(ask)).collect()
    }

    fn config(&mut self, config: &Json) -> Json {
        let Some(members) = config.as_object() else { return config.clone() };
        let mut out = members.clone();
        let namespace = members.get("ns").and_then(Json::as_str).unwrap_or_default();
        out.insert("ns".to_owned(), self.namespace(namespace).into());
        out.insert("id".to_owned(), self.label(Kind::Checkpoint, members.get("id")));
        Json::Object(out)
    }

    fn metadata(&mut self, metadata: &Json) -> Json {
        let Some(members) = metadata.as_object() else { return metadata.clone() };
        let mut out = members.clone();
        let parents = members.get("parents").and_then(Json::as_object).into_iter().flatten();
        let parents = parents.map(|(namespace, id)| {
            (self.namespace(namespace), self.label(Kind::Checkpoint, Some(id)))
        });
        let parents = Json::Object(parents.collect());
        out.insert("parents".to_owned(), parents);
        Json::Object(out)
    }

    fn task(&mut self, task: &Json) -> Json {
        let Some(members) = task.as_object() else { return self.value(task) };
        let mut out = Map::new();
        for (name, value) in members {
            if !["id", "state", "interrupts"].contains(&name.as_str()) {
                out.insert(name.clone(), self.value(value));
            }
        }
        out.insert("id".to_owned(), self.label(Kind::Task, members.get("id")));
        if let Some(asks) = members.get("interrupts").and_then(Json::as_array) {
            out.insert("interrupts".to_owned(), self.task_questions(asks));
        }
        if let Some(state) = members.get("state") {
            let is_snapshot = state.get("values").is_some();
            let state = if is_snapshot { self.snapshot(state) } else { self.config(state) };
            out.insert("state".to_owned(), state);
        }
        Json::Object(out)
    }

    fn task_questions(&mut self, asks: &[Json]) -> Json {
        let as_values = asks.iter().any(|ask| ask.get("value").is_some());
        let sorted = sorted_by(asks, if as_values { "value" } else { "$interrupt" });
        let out = sorted.into_iter().map(|ask| {
            let members = ask.as_object().into_iter().flatten();
            let rest = members.filter(|(name, _)| *name != "id");
            let rest: Map<_, _> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
            let mut out = self.value(&Json::Object(rest));
            if let Json::Object(members) = &mut out {
                members.insert("id".to_owned(), self.label(Kind::Interrupt, ask.get("id")));
            }
            out
        });
        out.collect()
    }

    fn snapshot(&mut self, snapshot: &Json) -> Json {
        let Some(values) = snapshot.get("values") else {
            return match snapshot.get("error") {
                Some(error) => json!({ "error": self.error(error) }),
                None => snapshot.clone(),
            };
        };
        let part = |name: &str| snapshot.get(name).cloned().unwrap_or_default();
        let mut out = Map::new();
        out.insert("values".to_owned(), self.value(values));
        out.insert("next".to_owned(), part("next"));
        out.insert("config".to_owned(), self.config(&part("config")));
        out.insert("parent".to_owned(), self.config(&part("parent")));
        out.insert("metadata".to_owned(), self.metadata(&part("metadata")));
        let tasks = snapshot.get("tasks").and_then(Json::as_array).into_iter().flatten();
        let tasks: Vec<Json> = tasks.map(|task| self.task(task)).collect();
        out.insert("tasks".to_owned(), Json::Array(tasks));
        if let Some(asks) = snapshot.get("interrupts").and_then(Json::as_array) {
            out.insert("interrupts".to_owned(), self.questions(asks));
        }
        Json::Object(out)
    }

    fn payload(&mut self, mode: &str, payload: &Json) -> Json {
        if !payload.is_object() {
            return self.value(payload);
        }
        match mode {
            "tasks" => self.task(payload),
            "checkpoints" => self.snapshot(payload),
            "debug" => {
                let is_checkpoint = payload.get("type") == Some(&json!("checkpoint"));
                let mode = if is_checkpoint { "checkpoints" } else { "tasks" };
                let inner = payload.get("payload").cloned().unwrap_or_default();
                let inner = self.payload(mode, &inner);
                let mut out = payload.as_object().cloned().unwrap_or_default();
                out.insert("payload".to_owned(), inner);
                Json::Object(out)
            }
            _ => self.value(payload),
        }
    }

    /// Events by namespace: parents first, children in the order in which their parents named
    /// them.
    fn events(&mut self, events: &[Json]) -> Json {
        let mut groups: Vec<(Vec<String>, Vec<Event<'_>>)> = Vec::new();
        let Some(known) = events.iter().map(Event::of).collect::<Option<Vec<_>>>() else {
            // What is no event equals no event.
            return Json::Array(events.to_vec());
        };
        for event in known {
            match groups.iter_mut().find(|(namespace, _)| *namespace == event.namespace) {
                Some((_, group)) => group.push(event),
                None => groups.push((event.namespace.clone(), vec![event])),
            }
        }
        let mut out = Map::new();
        while let Some(next) = self.next_group(&groups) {
            let (namespace, group) = groups.remove(next);
            let ordered = order(group, self.rules.finish_order);
            let shown: Vec<Json> = ordered
                .into_iter()
                .map(|event| json!([event.mode, self.payload(event.mode, event.payload)]))
                .collect();
            let parts: Vec<String> = namespace.iter().map(|part| self.part(part)).collect();
            out.insert(parts.join("|"), Json::Array(shown));
        }
        Json::Object(out)
    }

    fn next_group(&self, groups: &[(Vec<String>, Vec<Event<'_>>)]) -> Option<usize> {
        let keys = groups.iter().enumerate().map(|(index, (namespace, _))| {
            let parts = namespace.iter().map(|part| {
                let (node, task) = part.split_once(':').unwrap_or((part, ""));
                let number = self.seen.get(&(Kind::Task, task.to_owned())).copied();
                (number.unwrap_or(usize::MAX), node.to_owned())
            });
            (namespace.len(), parts.collect::<Vec<_>>(), index)
        });
        keys.min().map(|(_, _, index)| index)
    }
}

/// An event of a trace.
#[derive(Debug, Clone)]
struct Event<'a> {
    namespace: Vec<String>,
    mode: &'a str,
    payload: &'a Json,
}

impl<'a> Event<'a> {
    fn of(json: &'a Json) -> Option<Self> {
        let [namespace, mode, payload] = json.as_array()?.as_slice() else { return None };
        let parts = namespace.as_array()?.iter();
        let namespace = parts.map(|part| part.as_str().unwrap_or_default().to_owned()).collect();
        Some(Self { namespace, mode: mode.as_str()?, payload })
    }

    fn id(&self) -> &str {
        self.payload.get("id").and_then(Json::as_str).unwrap_or_default()
    }

    fn is_free(&self) -> bool {
        matches!(self.mode, "custom" | "messages")
    }

    /// `true` if the event lies between supersteps, or starts a task.
    fn is_barrier(&self) -> bool {
        match self.mode {
            "tasks" => self.payload.get("result").is_none(),
            "checkpoints" | "debug" => true,
            "values" => self.payload.get("__interrupt__").is_none(),
            _ => false,
        }
    }
}

/// In a superstep of several tasks: custom and message events first; with any finish order also
/// finished tasks in the order in which they started.
fn order(events: Vec<Event<'_>>, finish: FinishOrder) -> Vec<Event<'_>> {
    let mut out = Vec::with_capacity(events.len());
    let mut open: Vec<Event<'_>> = Vec::new();
    let mut started: BTreeMap<String, usize> = BTreeMap::new();
    let mut running = 0_usize;
    for event in events {
        if !event.is_barrier() {
            open.push(event);
            continue;
        }
        settle(&mut open, &mut out, running, &started, finish);
        if event.mode == "tasks" {
            let place = started.len();
            started.insert(event.id().to_owned(), place);
            running += 1;
        } else {
            running = 0;
        }
        out.push(event);
    }
    settle(&mut open, &mut out, running, &started, finish);
    out
}

fn settle<'a>(
    open: &mut Vec<Event<'a>>,
    out: &mut Vec<Event<'a>>,
    running: usize,
    started: &BTreeMap<String, usize>,
    finish: FinishOrder,
) {
    if running == 1 {
        out.append(open);
        return;
    }
    let (mut free, mut rest): (Vec<_>, Vec<_>) = open.drain(..).partition(Event::is_free);
    if finish == FinishOrder::Any {
        rest = by_start(rest, started);
        free.sort_by_cached_key(|event| sorted_text(event.payload));
    }
    out.append(&mut free);
    out.append(&mut rest);
}

/// Blocks of events that end with the end of a task, in the order in which the tasks started;
/// replayed ones first.
fn by_start<'a>(events: Vec<Event<'a>>, started: &BTreeMap<String, usize>) -> Vec<Event<'a>> {
    let mut blocks: Vec<(Option<usize>, String, Vec<Event<'a>>)> = Vec::new();
    let mut block = Vec::new();
    for event in events {
        let replayed = event.mode == "updates" && event.payload.get("__metadata__").is_some();
        if replayed && block.is_empty() {
            blocks.push((None, sorted_text(event.payload), vec![event]));
            continue;
        }
        let ends = event.mode == "tasks";
        let place = started.get(event.id()).copied().unwrap_or(usize::MAX);
        block.push(event);
        if ends {
            blocks.push((Some(place), String::new(), std::mem::take(&mut block)));
        }
    }
    blocks.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let ordered = blocks.into_iter().flat_map(|(_, _, events)| events);
    ordered.chain(block).collect()
}

fn sorted_by<'a>(asks: &'a [Json], key: &str) -> Vec<&'a Json> {
    let mut sorted: Vec<&Json> = asks.iter().collect();
    sorted.sort_by_cached_key(|ask| match ask {
        Json::Object(members) => sorted_text(members.get(key).unwrap_or(&Json::Null)),
        other => sorted_text(other),
    });
    sorted
}

/// JSON text with members in order of their names.
fn sorted_text(json: &Json) -> String {
    fn sorted(json: &Json) -> Json {
        match json {
            Json::Array(items) => items.iter().map(sorted).collect(),
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| Ord::cmp(a.0, b.0));
                let members =
                    members.into_iter().map(|(name, value)| (name.clone(), sorted(value)));
                Json::Object(members.collect())
            }
            other => other.clone(),
        }
    }
    sorted(json).to_string()
}

/// The message of a failure that a spec asks for.
fn is_boom(message: &str) -> bool {
    message
        .strip_prefix("boom ")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The message with `#` for the time that has passed.
fn without_elapsed(message: &str) -> String {
    const WORD: &str = "elapsed";
    let Some(start) = message.find(WORD) else { return message.to_owned() };
    let after = &message[start + WORD.len()..];
    let after = after.strip_prefix(':').unwrap_or(after).trim_start();
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    if digits == 0 {
        return message.to_owned();
    }
    let head = &message[..message.len() - after.len()];
    let mut tail = &after[digits..];
    if let Some(fraction) = tail.strip_prefix('.') {
        let digits = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        if digits > 0 {
            tail = &fraction[digits..];
        }
    }
    format!("{head}#{tail}")
}
