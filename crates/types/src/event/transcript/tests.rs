use super::*;
use crate::Timestamp;
use crate::event::{AiEvent, Piece, Position, RunEvent};
use crate::message::{Message, Role};
use crate::run::RunStatus;
use proptest::prelude::*;

/// A generated event. Few sources, so that texts of one source meet.
#[derive(Debug, Clone)]
enum Happening {
    Text { task: u128, message: Option<u8>, kind: PieceKind, text: String },
    ResetTask { task: u128 },
    ResetMessage { task: u128, message: u8 },
    ResetNode { task: u128 },
    Final { message: u8 },
    Done,
}

fn happening() -> impl Strategy<Value = Happening> {
    let kind = prop_oneof![3 => Just(PieceKind::Text), 1 => Just(PieceKind::Reasoning)];
    let text = (0..3_u128, proptest::option::of(0..3_u8), kind, "[aü]{0,3}")
        .prop_map(|(task, message, kind, text)| Happening::Text { task, message, kind, text });
    prop_oneof![
        12 => text,
        1 => (0..3_u128).prop_map(|task| Happening::ResetTask { task }),
        1 => (0..3_u128, 0..3_u8)
            .prop_map(|(task, message)| Happening::ResetMessage { task, message }),
        1 => (0..3_u128).prop_map(|task| Happening::ResetNode { task }),
        2 => (0..3_u8).prop_map(|message| Happening::Final { message }),
        1 => Just(Happening::Done),
    ]
}

fn message_id(message: u8) -> MessageId {
    MessageId::new(format!("m{message}")).expect("an id")
}

fn node_of(task: u128) -> String {
    // Tasks 0 and 1 are of one node.
    format!("n{}", task / 2)
}

/// A piece of the plain model: all texts in one list, each with its state.
#[derive(Debug, Clone)]
struct Line {
    at: PieceAt,
    kind: PieceKind,
    text: String,
    is_open: bool,
}

/// Everything that was emitted, and nothing removed: each answer is computed from the whole list.
#[derive(Debug, Default)]
struct PlainModel {
    lines: Vec<Line>,
    finals: Vec<MessageId>,
}

impl PlainModel {
    fn close(&mut self, closes: impl Fn(&PieceAt) -> bool) -> Vec<(TextSource, String)> {
        let before = self.open();
        // A text is closed as a whole, by the origin of its last piece.
        let closed: Vec<_> = before
            .into_iter()
            .filter(|(source, _)| {
                let last = self.lines.iter().rfind(|line| line.is_open && is_of(line, source));
                last.is_some_and(|line| closes(&line.at))
            })
            .collect();
        for line in &mut self.lines {
            line.is_open &= closed.iter().all(|(source, _)| !is_of(line, source));
        }
        closed
    }

    /// Open texts in the order in which they began.
    fn open(&self) -> Vec<(TextSource, String)> {
        let mut texts: Vec<(TextSource, String)> = Vec::new();
        for line in self.lines.iter().filter(|line| line.is_open) {
            let source = TextSource::of(&line.at);
            let answer = if line.kind == PieceKind::Text { &*line.text } else { "" };
            match texts.iter_mut().find(|(known, _)| *known == source) {
                Some((_, text)) => text.push_str(answer),
                None => texts.push((source, answer.to_owned())),
            }
        }
        texts
    }
}

fn is_of(line: &Line, source: &TextSource) -> bool {
    TextSource::of(&line.at) == *source
}

fn reset(task: u128) -> AttemptReset {
    AttemptReset { task: Some(TaskId(task)), ..AttemptReset::of_node(node_of(task)) }
}

/// Assigns positions as a log does.
#[derive(Debug, Default)]
struct Log(Position);

impl Log {
    fn logged(&mut self, event: AiEvent) -> RunEvent {
        self.0 = Position::after(self.0.seq + 1);
        RunEvent::durable(self.0.seq, Timestamp::default(), event)
    }

    fn emitted(&mut self, line: &mut Line) -> RunEvent {
        self.0 = self.0.plus(line.text.len());
        line.at.end = self.0;
        let told_at = Timestamp::default();
        let Line { at, kind, text, .. } = line.clone();
        Piece { at, told_at, kind, text }.into()
    }
}

fn answers<'a>(
    texts: impl Iterator<Item = &'a OpenText<MessageText>>,
) -> Vec<(TextSource, String)> {
    texts
        .map(|text| (text.source.clone(), text.content.of_kind(&PieceKind::Text).to_owned()))
        .collect()
}

/// Adds an event as readers do, and returns the texts that it ends.
fn add(
    transcript: &mut Transcript,
    RunEvent { piece, event, .. }: &RunEvent,
) -> Vec<OpenText<MessageText>> {
    match event {
        AiEvent::AttemptReset(reset) => transcript.reset(reset),
        AiEvent::MessageFinal { message } => transcript.finish(&message.id).into_iter().collect(),
        AiEvent::Done { .. } => transcript.end(),
        event => {
            let delta = event.delta().expect("partial text");
            let at = piece.as_ref().expect("partial text has an origin");
            transcript.text_at(at).content.append(&delta.kind, delta.text);
            Vec::new()
        }
    }
}

proptest! {
    #[test]
    fn a_transcript_is_the_text_of_the_log(
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let mut log = Log::default();
        let mut model = PlainModel::default();
        let mut transcript = Transcript::default();
        for happening in happenings {
            let found;
            let expected;
            match happening {
                Happening::Text { task, message, kind, text } => {
                    let at = PieceAt {
                        message: message.map(message_id),
                        ..PieceAt::new(Position::START, node_of(task), TaskId(task))
                    };
                    let mut line = Line { at, kind, text, is_open: true };
                    found = add(&mut transcript, &log.emitted(&mut line));
                    model.lines.push(line);
                    expected = Vec::new();
                }
                Happening::ResetTask { task } => {
                    found = add(&mut transcript, &log.logged(AiEvent::AttemptReset(reset(task))));
                    expected = model.close(|at| at.task == TaskId(task));
                }
                Happening::ResetMessage { task, message } => {
                    let message = Some(message_id(message));
                    let reset = AttemptReset { message: message.clone(), ..reset(task) };
                    found = add(&mut transcript, &log.logged(AiEvent::AttemptReset(reset)));
                    expected = model.close(|at| at.task == TaskId(task) && at.message == message);
                }
                Happening::ResetNode { task } => {
                    let reset = AttemptReset::of_node(node_of(task));
                    found = add(&mut transcript, &log.logged(AiEvent::AttemptReset(reset)));
                    expected = model.close(|at| at.node == node_of(task));
                }
                Happening::Final { message } => {
                    let id = message_id(message);
                    let message = Message::text(id.clone(), Role::Assistant, "the whole");
                    found = add(&mut transcript, &log.logged(AiEvent::MessageFinal { message }));
                    expected = model.close(|at| at.message.as_ref() == Some(&id));
                    model.finals.push(id);
                }
                Happening::Done => {
                    let done = AiEvent::Done { outcome: RunStatus::Completed };
                    found = add(&mut transcript, &log.logged(done));
                    expected = model.close(|_| true);
                }
            }
            prop_assert_eq!(answers(found.iter()), expected);
            prop_assert_eq!(answers(transcript.open_texts()), model.open());
            for message in 0..3 {
                let id = message_id(message);
                prop_assert_eq!(transcript.is_final(&id), model.finals.contains(&id));
            }
        }
    }
}

#[test]
fn a_text_that_goes_on_after_its_end_begins_anew() {
    let id = message_id(1);
    let at = |bytes| PieceAt {
        message: Some(id.clone()),
        ..PieceAt::new(Position::in_text(1, bytes), "n", TaskId(1))
    };
    let mut transcript = Transcript::<MessageText>::default();
    for (bytes, text) in [(2, "ab"), (3, "c")] {
        transcript.text_at(&at(bytes)).content.append(&PieceKind::Text, text);
    }
    let final_text = transcript.finish(&id).expect("it was open");
    assert_eq!(final_text.content.of_kind(&PieceKind::Text), "abc");
    assert!(transcript.is_empty() && transcript.is_final(&id));
    transcript.text_at(&at(5)).content.append(&PieceKind::Text, "de");
    let again = transcript.text(&TextSource::Message(id)).expect("it is open");
    assert_eq!(again.content.of_kind(&PieceKind::Text), "de");
}
