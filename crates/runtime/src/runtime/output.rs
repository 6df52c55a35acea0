//! Output of runs with the texts that its reader lacks.

use crate::follow::FollowFrom;
use crate::modes::{Events, Frame, RunOutput, Selection, Texts};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use std::collections::VecDeque;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_types::BoxStream;
use weftwork_types::event::{
    AiEvent, Position, ReadText, RunEvent, StreamPosition, TextChange, TextPart, TextReader,
};
use weftwork_types::run::RunRef;

/// Output of a run, or of one of the runs of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The run.
    pub run: RunRef,
    /// Its output.
    pub output: RunOutput,
    /// Position of a client that has received this output and all output before it. A client that
    /// reconnects with it, also as text, gets what follows.
    pub position: StreamPosition,
}

impl Output {
    /// Returns the place from which a client follows the run or its thread that has received this
    /// output and all output before it.
    #[must_use]
    pub fn start_after(&self) -> FollowFrom {
        FollowFrom::After(self.position.clone())
    }

    /// Returns the event; `None` for frames and changes of texts.
    #[must_use]
    pub fn event(&self) -> Option<&RunEvent> {
        match &self.output {
            RunOutput::Event(event) => Some(event),
            _ => None,
        }
    }

    /// Returns the part of a text; `None` for other output.
    #[must_use]
    pub fn text(&self) -> Option<&TextPart> {
        match &self.output {
            RunOutput::Text(part) => Some(part),
            _ => None,
        }
    }

    /// Returns the frame; `None` for other output.
    #[must_use]
    pub fn into_frame(self) -> Option<Arc<Frame>> {
        match self.output {
            RunOutput::Frame(frame) => Some(frame),
            _ => None,
        }
    }
}

/// The output of runs. An error is the last element.
pub type OutputStream = BoxStream<'static, Result<Output, RuntimeError>>;

/// Output of a run, before the texts that its reader lacks are found.
#[derive(Debug)]
pub struct LoggedOutput {
    pub(crate) run: RunRef,
    pub(crate) output: RunOutput,
}

/// Gives each output its position, and replaces the parts of texts by those that a reader lacks that
/// has received all output before `from`.
pub(crate) fn complete_texts(
    logged: BoxStream<'static, Result<LoggedOutput, RuntimeError>>,
    from: FollowFrom,
    select: Selection,
) -> OutputStream {
    let after = match from {
        FollowFrom::After(after) => Some(after),
        FollowFrom::Start | FollowFrom::Now => None,
    };
    let events = select.events;
    let has_texts = events == Events::Include && select.texts == Texts::Resumed;
    let texts = has_texts.then(TextReader::default);
    let at = Position::START;
    let next = VecDeque::new();
    let completion = Completion { logged, events, after, run: None, at, texts, next };
    let output = unfold(Some(completion), async |completion| {
        let mut completion = completion?;
        match completion.next().await? {
            Ok(output) => Some((Ok(output), Some(completion))),
            Err(error) => Some((Err(error), None)),
        }
    });
    output.boxed()
}

struct Completion {
    logged: BoxStream<'static, Result<LoggedOutput, RuntimeError>>,
    events: Events,
    /// Position of the reader, until the first output.
    after: Option<StreamPosition>,
    /// The run of the last output.
    run: Option<RunRef>,
    /// Position of the last output in its run.
    at: Position,
    /// `None` if texts are delivered as the log has them.
    texts: Option<TextReader>,
    next: VecDeque<Output>,
}

impl Completion {
    async fn next(&mut self) -> Option<Result<Output, RuntimeError>> {
        loop {
            if let Some(output) = self.next.pop_front() {
                return Some(Ok(output));
            }
            match self.logged.next().await? {
                Ok(LoggedOutput { run, output }) => self.read(run, output),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn read(&mut self, run: RunRef, output: RunOutput) {
        if self.run.as_ref() != Some(&run) {
            self.begin(run.clone());
        }
        match output {
            RunOutput::Event(event) => self.read_event(run, *event),
            RunOutput::Frame(frame) => {
                self.at = frame.position;
                self.push(run, RunOutput::Frame(frame));
            }
            changed @ (RunOutput::Text(_) | RunOutput::Reset(_)) => self.push(run, changed),
        }
    }

    fn begin(&mut self, run: RunRef) {
        let is_of_run = |after: &StreamPosition| after.run.as_ref().is_none_or(|of| *of == run.run);
        let after = self.after.take().filter(is_of_run).unwrap_or_default();
        if let Some(texts) = &mut self.texts {
            *texts = TextReader::new(&after.texts);
        }
        self.at = after.at;
        self.run = Some(run);
    }

    fn read_event(&mut self, run: RunRef, event: RunEvent) {
        let Some(texts) = &mut self.texts else {
            self.at = event.position().unwrap_or(self.at);
            if self.events == Events::Include {
                self.push(run, RunOutput::Event(Box::new(event)));
            }
            return;
        };
        // The frames of a run are computed from its first event on, also for a reader that has a
        // part of a text.
        let Some(event) = event.rest(self.at) else { return };
        let is_text = event.piece.is_some() && matches!(event.event, AiEvent::TextDelta { .. });
        let end = event.position().unwrap_or(self.at);
        for ReadText { change, received } in texts.read(&event) {
            if is_text {
                self.at = end;
            }
            let output = match change {
                TextChange::Part(part) => RunOutput::Text(part),
                TextChange::Reset(source) => RunOutput::Reset(source),
            };
            let at = self.at;
            let position = StreamPosition { run: Some(run.run.clone()), at, texts: received };
            self.next.push_back(Output { run: run.clone(), output, position });
        }
        self.at = end;
        if !is_text {
            self.push(run, RunOutput::Event(Box::new(event)));
        }
    }

    fn push(&mut self, run: RunRef, output: RunOutput) {
        let texts = self.texts.as_ref().map(TextReader::received).unwrap_or_default();
        let position = StreamPosition { run: Some(run.run.clone()), at: self.at, texts };
        self.next.push_back(Output { run, output, position });
    }
}
