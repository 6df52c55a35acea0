//! Generated runs, read with an interruption at each place.

use super::*;
use crate::event::{
    AttemptReset, CheckpointSource, CheckpointStored, StreamPosition, TaskEnd, TaskStatus,
};
use crate::run::RunStatus;
use crate::{CheckpointId, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TASKS: u128 = 3;
const MESSAGES: u8 = 4;

/// A generated part of a run. Messages belong to the tasks in turn; each step has its own ones.
#[derive(Debug, Clone)]
enum Happening {
    Text {
        message: u8,
        text: String,
    },
    TextOfTask {
        task: u128,
        text: String,
    },
    Reasoning {
        message: u8,
    },
    ResetTask {
        task: u128,
    },
    ResetMessage {
        message: u8,
    },
    /// The message of this step, or the unfinished one of the step before, is final with the text
    /// that was emitted, or with another text.
    Final {
        message: u8,
        other: Option<String>,
    },
    Step,
    ToolCall,
    /// The process dies, and another one goes on.
    Kill,
    Requeue,
}

fn happening() -> impl Strategy<Value = Happening> {
    let text = || "[aü🦀]{0,4}";
    prop_oneof![
        10 => (0..MESSAGES, text()).prop_map(|(message, text)| Happening::Text { message, text }),
        2 => (0..TASKS, text()).prop_map(|(task, text)| Happening::TextOfTask { task, text }),
        1 => (0..MESSAGES).prop_map(|message| Happening::Reasoning { message }),
        1 => (0..TASKS).prop_map(|task| Happening::ResetTask { task }),
        1 => (0..MESSAGES).prop_map(|message| Happening::ResetMessage { message }),
        3 => (0..MESSAGES, proptest::option::weighted(0.2, text()))
            .prop_map(|(message, other)| Happening::Final { message, other }),
        1 => Just(Happening::Step),
        1 => Just(Happening::ToolCall),
        1 => Just(Happening::Kill),
        1 => Just(Happening::Requeue),
    ]
}

fn id_of(step: u128, message: u8) -> MessageId {
    MessageId::new(format!("m {step} {message}")).expect("an id")
}

fn task_of(message: u8) -> u128 {
    u128::from(message) % TASKS
}

fn task_id(step: u128, task: u128) -> TaskId {
    TaskId(step * TASKS + task)
}

/// Namespaces of the tasks: the last one runs in a subgraph of the first.
fn ns_of(step: u128, task: u128) -> String {
    if task == TASKS - 1 { format!("sub:{}", task_id(step, 0)) } else { String::new() }
}

/// A run and its log.
#[derive(Debug, Default)]
struct Told {
    /// Everything that was emitted, in order.
    live: Vec<RunEvent>,
    at: Position,
    step: u128,
    /// Text of the current attempts.
    said: BTreeMap<u8, String>,
    /// Text of the step before that is not final.
    said_before: BTreeMap<u8, String>,
    /// Number of events after each happening.
    ends: Vec<usize>,
}

impl Told {
    fn durable(&mut self, event: AiEvent) {
        self.at = Position::after(self.at.seq + 1);
        self.live.push(RunEvent::durable(self.at.seq, Timestamp(1), event));
    }

    fn text(&mut self, task: u128, message: Option<u8>, event: AiEvent) {
        self.at = self.at.plus(event.delta().expect("text").text.len());
        let ns = ns_of(self.step, task);
        let message = message.map(|message| id_of(self.step, message));
        let at = PieceAt { ns, message, ..PieceAt::new(self.at, "n", task_id(self.step, task)) };
        self.live.push(RunEvent { piece: Some(at), ..RunEvent::placeless(event) });
    }

    fn happen(&mut self, happening: &Happening) {
        let step = self.step;
        let reset = |task: u128, message: Option<MessageId>| {
            let ns = ns_of(step, task);
            let task = Some(task_id(step, task));
            AttemptReset { ns, task, message, ..AttemptReset::of_node("n") }
        };
        match happening {
            Happening::Text { message, text } => {
                let delta = text.clone();
                self.said.entry(*message).or_default().push_str(text);
                self.text(task_of(*message), Some(*message), AiEvent::TextDelta { delta });
            }
            Happening::TextOfTask { task, text } => {
                self.text(*task, None, AiEvent::TextDelta { delta: text.clone() });
            }
            Happening::Reasoning { message } => {
                let event = AiEvent::ReasoningDelta { delta: "hm".to_owned() };
                self.text(task_of(*message), Some(*message), event);
            }
            Happening::ResetTask { task } => {
                // The last task runs within the first one.
                let is_void = |of: u128| of == *task || *task == 0 && of == TASKS - 1;
                self.said.retain(|message, _| !is_void(task_of(*message)));
                self.durable(AiEvent::AttemptReset(reset(*task, None)));
            }
            Happening::ResetMessage { message } => {
                self.said.remove(message);
                let void = reset(task_of(*message), Some(id_of(step, *message)));
                self.durable(AiEvent::AttemptReset(void));
            }
            Happening::Final { message, other } => {
                let before = self.said_before.remove(message);
                let id = id_of(if before.is_some() { step - 1 } else { step }, *message);
                let said = before.or_else(|| self.said.remove(message));
                let text = other.clone().or(said).unwrap_or_else(|| "not told".to_owned());
                let message = Message::text(id, Role::Assistant, text);
                self.durable(AiEvent::MessageFinal { message });
            }
            Happening::Step => {
                let end = |task| TaskEnd::new(task_id(step, task), "n", TaskStatus::Ok);
                let stored = CheckpointStored {
                    ns: String::new(),
                    id: CheckpointId(1),
                    parent: None,
                    source: CheckpointSource::Loop,
                    step: 1,
                    ended: (0..TASKS).map(end).collect(),
                    due: Vec::new(),
                };
                self.durable(AiEvent::Checkpoint(Box::new(stored)));
                self.step += 1;
                self.said_before = std::mem::take(&mut self.said);
            }
            Happening::ToolCall => self.durable(AiEvent::custom(1.into())),
            Happening::Kill => {
                self.said.clear();
                self.said_before.clear();
                self.durable(AiEvent::TakenOver { claim: 2 });
            }
            Happening::Requeue => {
                self.said.clear();
                self.said_before.clear();
                self.durable(AiEvent::Done { outcome: RunStatus::Failed });
                self.durable(AiEvent::Requeued { by: "ada".to_owned() });
            }
        }
        self.ends.push(self.live.len());
    }
}

/// Texts as a client has them, and what it has received in all.
#[derive(Debug, Clone, Default, PartialEq)]
struct Client {
    texts: BTreeMap<TextSource, String>,
    finals: Vec<(MessageId, String)>,
}

impl Client {
    fn with_texts_of(&self, received: &ReceivedTexts) -> Self {
        let mut client = self.clone();
        client.texts.retain(|source, _| received.parts().any(|part| part.source == *source));
        client
    }

    fn receive(&mut self, output: &Output) {
        match output {
            Output::Change(TextChange::Part(part)) => {
                let text = self.texts.entry(part.source.clone()).or_default();
                if part.start == 0 {
                    text.clear();
                }
                assert_eq!(text.len(), part.start, "{part:?} after {text:?}");
                text.push_str(&part.text);
            }
            Output::Change(TextChange::Reset(source)) => drop(self.texts.remove(source)),
            Output::Event(event) => {
                let AiEvent::MessageFinal { message } = &event.event else { return };
                let has = self.texts.remove(&TextSource::Message(message.id.clone()));
                assert_eq!(has.unwrap_or_default(), message.joined_text(), "{}", message.id);
                self.finals.push((message.id.clone(), message.joined_text()));
            }
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "a test has few of them")]
#[derive(Debug, Clone)]
enum Output {
    Change(TextChange),
    Event(RunEvent),
}

/// Output with the position after it, as a stream has it.
#[derive(Debug)]
struct Read {
    output: Output,
    after: StreamPosition,
}

fn read(events: &[RunEvent], from: &StreamPosition) -> Vec<Read> {
    let mut reader = TextReader::new(&from.texts);
    let mut at = from.at;
    let mut all = Vec::new();
    for event in events {
        let Some(event) = event.clone().rest(at) else { continue };
        let is_text = matches!(event.event, AiEvent::TextDelta { .. });
        let end = event.position().expect("all have one");
        for ReadText { change, received: texts } in reader.read(&event) {
            at = if is_text { end } else { at };
            let after = StreamPosition { run: None, at, texts };
            all.push(Read { output: Output::Change(change), after });
        }
        at = end;
        if !is_text {
            let after = StreamPosition { run: None, at, texts: reader.received() };
            all.push(Read { output: Output::Event(event), after });
        }
    }
    all
}

/// Returns the events after a position as the store has them at the end: without void text, without
/// text of final messages, and in larger pieces.
fn stored(told: &Told, happenings: &[Happening], after: Position) -> Vec<RunEvent> {
    let mut kept: Vec<RunEvent> = Vec::new();
    let mut begin = 0;
    for (happening, end) in happenings.iter().zip(&told.ends) {
        let events = &told.live[begin..*end];
        begin = *end;
        let is_void = |at: &PieceAt| match happening {
            Happening::Kill | Happening::Requeue => true,
            _ => match &events[0].event {
                AiEvent::AttemptReset(reset) => reset.voids(at),
                AiEvent::MessageFinal { message } => at.message.as_ref() == Some(&message.id),
                _ => false,
            },
        };
        kept.retain(|told| !told.piece.as_ref().is_some_and(is_void));
        for event in events {
            if !kept.last_mut().is_some_and(|last| merge(last, event)) {
                kept.push(event.clone());
            }
        }
    }
    kept.retain(|event| event.position().is_some_and(|at| at > after));
    kept
}

/// Adds a text to the text before it, if it follows it directly.
fn merge(last: &mut RunEvent, next: &RunEvent) -> bool {
    let (Some(at), Some(next_at)) = (&mut last.piece, &next.piece) else { return false };
    match (&mut last.event, &next.event) {
        (AiEvent::TextDelta { delta }, AiEvent::TextDelta { delta: more })
            if at.has_origin_of(next_at) && at.end.plus(more.len()) == next_at.end =>
        {
            delta.push_str(more);
            at.end = next_at.end;
            true
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_first_part_and_the_resumed_part_are_the_whole(
        happenings in prop::collection::vec(happening(), 1..25)
    ) {
        let mut told = Told::default();
        happenings.iter().for_each(|happening| told.happen(happening));
        let start = StreamPosition::default();
        let whole = read(&told.live, &start);
        let mut all = Client::default();
        whole.iter().for_each(|read| all.receive(&read.output));
        let mut before = Client::default();
        for cut in 0..=whole.len() {
            let place = match cut.checked_sub(1) {
                Some(last) => {
                    before.receive(&whole[last].output);
                    whole[last].after.clone()
                }
                None => start.clone(),
            };
            let place: StreamPosition = place.to_string().parse().expect("its own form");
            // At once, while all text is there, and after the end.
            let live = told.live.iter().filter(|event| event.position() > Some(place.at));
            let live: Vec<_> = live.cloned().collect();
            for rest in [live, stored(&told, &happenings, place.at)] {
                let mut client = before.clone();
                read(&rest, &place).iter().for_each(|read| client.receive(&read.output));
                // Nobody hears any more of texts that ended without a final message.
                let last = whole.last().map(|read| read.after.texts.clone()).unwrap_or_default();
                let both = [&client, &all].map(|client| client.with_texts_of(&last));
                prop_assert_eq!(&both[0], &both[1], "after {} of {:?}", cut, whole);
            }
        }
    }
}

#[test]
fn texts_without_a_final_message_are_forgotten_a_step_later() {
    let mut told = Told::default();
    told.happen(&Happening::Text { message: 0, text: "a".to_owned() });
    let mut reader = TextReader::default();
    for (steps, left) in [(0, 1), (1, 1), (2, 0)] {
        told.live.drain(..).for_each(|event| drop(reader.read(&event)));
        assert_eq!(reader.received().len(), left, "after {steps}");
        told.happen(&Happening::Step);
    }
}

#[test]
fn messages_of_others_are_no_text() {
    let mut reader = TextReader::default();
    for (role, parts) in [(Role::User, 0), (Role::Tool, 0), (Role::Assistant, 1)] {
        let message = Message::text(id_of(0, 1), role, "hello");
        let event = RunEvent::durable(1, Timestamp(1), AiEvent::MessageFinal { message });
        assert_eq!(reader.read(&event).len(), parts, "{role:?}");
    }
}
