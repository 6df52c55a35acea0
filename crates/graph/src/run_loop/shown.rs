//! The shown form of states and events: results of tools without the values that only models read.

use super::event::{
    MessagePart, Snapshot, StreamEvent, StreamItem, SubState, TaskEnded, TaskResult, TaskSnapshot,
    TaskStarted, Written,
};
use serde_json::Value as Json;
use weftwork_engine::channel::MessageWrite;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::shown::{StateForm, show};

impl StreamItem {
    /// Returns the item in the form in which streams emit it. Only `values` can contain the whole
    /// state; everything else always has the shown form.
    #[must_use]
    pub fn in_form(self, values: StateForm) -> Self {
        Self { ns: self.ns, event: self.event.in_form(values) }
    }
}

impl StreamEvent {
    /// Returns the event in the form in which streams emit it; see [`StreamItem::in_form`].
    #[must_use]
    pub fn in_form(self, form: StateForm) -> Self {
        match self {
            Self::Values { values, interrupts } => {
                let interrupts = interrupts.map(shown_questions);
                Self::Values { values: form.of(values), interrupts }
            }
            Self::Updates { node, mut updates, mut returned, cached } => {
                updates.iter_mut().for_each(|writes| show_writes(writes));
                returned.iter_mut().for_each(show);
                Self::Updates { node, updates, returned, cached }
            }
            Self::Interrupts(asked) => Self::Interrupts(shown_questions(asked)),
            Self::TaskStarted(TaskStarted { id, name, input, triggers, call }) => {
                let input = shown_json(input);
                Self::TaskStarted(TaskStarted { id, name, input, triggers, call })
            }
            Self::TaskEnded(TaskEnded { id, name, mut result, error, interrupts }) => {
                show_writes(&mut result);
                let interrupts = shown_questions(interrupts);
                Self::TaskEnded(TaskEnded { id, name, result, error, interrupts })
            }
            Self::Checkpoint(snapshot) => {
                Self::Checkpoint(Box::new(snapshot.in_form(StateForm::Shown)))
            }
            Self::Custom(value) => Self::Custom(shown_json(value)),
            Self::Data { mode, data } => Self::Data { mode, data: shown_json(data) },
            Self::Message { part, node, step } => {
                Self::Message { part: part.into_shown(), node, step }
            }
            Self::Debug { step, event } => {
                Self::Debug { step, event: Box::new(event.in_form(form)) }
            }
        }
    }
}

impl MessagePart {
    fn into_shown(self) -> Self {
        match self {
            Self::Returned(MessageWrite::Put(message)) => {
                Self::Returned(MessageWrite::Put(message.into_shown()))
            }
            other => other,
        }
    }
}

impl Snapshot {
    /// Returns the snapshot, with those of its subgraphs, in this form.
    #[must_use]
    pub fn in_form(self, form: StateForm) -> Self {
        if form == StateForm::Whole {
            return self;
        }
        Self {
            values: shown_json(self.values),
            tasks: self.tasks.into_iter().map(TaskSnapshot::into_shown).collect(),
            interrupts: shown_questions(self.interrupts),
            ..self
        }
    }
}

impl TaskSnapshot {
    fn into_shown(self) -> Self {
        let result = self.result.map(|result| match result {
            TaskResult::Writes(mut writes) => {
                show_writes(&mut writes);
                TaskResult::Writes(writes)
            }
            TaskResult::Returned(value) => TaskResult::Returned(shown_json(value)),
        });
        let state = self.state.map(|state| match state {
            SubState::Snapshot(inner) => {
                SubState::Snapshot(Box::new(inner.in_form(StateForm::Shown)))
            }
            SubState::Checkpoint(config) => SubState::Checkpoint(config),
        });
        Self { interrupts: shown_questions(self.interrupts), result, state, ..self }
    }
}

fn shown_questions(asked: Vec<Interrupt>) -> Vec<Interrupt> {
    asked.into_iter().map(Interrupt::into_shown).collect()
}

fn show_writes(writes: &mut [(String, Written)]) {
    for (_, Written::Put(json) | Written::Overwrite(json)) in writes {
        show(json);
    }
}

fn shown_json(mut json: Json) -> Json {
    show(&mut json);
    json
}
