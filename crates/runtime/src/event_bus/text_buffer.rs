//! Emitted text that is not void: the result it belongs to is not recorded yet.

use super::EventSource;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use weftwork_types::event::{AiEvent, AttemptReset, Delta, Piece, PieceAt, PieceKind, Position};
use weftwork_types::port::Clock;

/// Maximum time that text waits for a commit. An earlier commit includes it.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_millis(250);
/// Maximum size of the waiting text, in bytes.
pub(crate) const FLUSH_BYTES: usize = 4 << 10;
/// Maximum size of the retained text of a run, unsaved and stored together, in bytes. Text beyond
/// it, mostly because the store accepts no writes, is only delivered live, until the retained text
/// is void.
pub(crate) const KEPT_BYTES_MAX: usize = 1 << 20;

/// Text of a run since its last superstep, and the part of it that is in the store.
///
/// No [`Transcript`](weftwork_types::event::Transcript), whose unit is the text of a message: here
/// it is the piece, because each has a position, is stored with one commit, and is void with its
/// superstep too. What a reset voids is decided by [`AttemptReset::voids`] for both.
#[derive(Debug, Clone, Default)]
pub(super) struct TextBuffer {
    /// Position of the watchers.
    at: Position,
    unsaved: VecDeque<Said>,
    /// Number of unsaved pieces in the commit in progress; later text is not among them.
    sealed: usize,
    saved: VecDeque<SavedCommit>,
    /// Bytes of text that wait for a commit.
    waiting_bytes: usize,
    kept_bytes: usize,
    /// `true` if some of it exceeded the limit and was not retained.
    full: bool,
    /// Texts of which a part was not retained.
    lost: Vec<LostText>,
    /// `true` if the store may have text of earlier claims.
    left: bool,
}

#[derive(Debug, Clone)]
struct Said {
    piece: Piece,
    step: i64,
    told_at: Duration,
}

/// Text of a message or task of which a part was not retained, in one superstep.
#[derive(Debug, Clone)]
pub(crate) struct LostText {
    /// Origin of the text.
    pub(crate) at: PieceAt,
    /// Superstep of the outermost graph.
    pub(crate) step: i64,
}

impl LostText {
    /// Returns `true` if an event voids the text.
    pub(crate) fn is_void_with(&self, event: &AiEvent) -> bool {
        match event {
            AiEvent::AttemptReset(reset) => reset.voids(&self.at),
            AiEvent::Done { .. } | AiEvent::TakenOver { .. } => true,
            event => event.step().is_some_and(|step| self.step <= step),
        }
    }
}

/// The text that one commit has stored, or several that have stored one text only. The store keeps
/// or removes it as a whole.
#[derive(Debug, Clone)]
struct SavedCommit {
    /// Position after it.
    end: Position,
    texts: Vec<SavedText>,
}

/// Stored text of one message or task in one superstep.
#[derive(Debug, Clone)]
struct SavedText {
    /// Origin of the text.
    at: PieceAt,
    /// Superstep of the outermost graph.
    step: i64,
    bytes: usize,
    /// Its text, if it is an answer.
    answer: String,
    void: bool,
}

/// An answer that is being produced.
#[derive(Debug, Clone)]
pub(super) struct OpenAnswer {
    pub(super) at: PieceAt,
    /// Superstep of the outermost graph.
    pub(super) step: i64,
    pub(super) text: String,
}

impl SavedText {
    fn is_part_of(&self, other: &Self) -> bool {
        self.step == other.step && self.void == other.void && self.at.has_origin_of(&other.at)
    }

    fn append(&mut self, later: &Self) {
        self.bytes += later.bytes;
        self.answer.push_str(&later.answer);
    }
}

/// Time at which text is due to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// No text waits.
    Never,
    At(Duration),
    Now,
}

impl TextBuffer {
    /// Creates a buffer for a claim that has emitted nothing.
    pub(super) fn new(left: bool) -> Self {
        Self { left, ..Self::default() }
    }

    /// Sets the number of the last event to that in the log.
    pub(super) fn correct(&mut self, seq: u64) {
        self.at.seq = seq;
    }

    /// Returns the position from which on no text is stored.
    pub(super) fn unsaved_from(&self) -> Position {
        self.unsaved.front().map_or(self.at, |said| said.piece.start())
    }

    /// Returns the text that is not stored.
    pub(super) fn unsaved(&self) -> impl Iterator<Item = &Piece> {
        self.unsaved.iter().map(|said| &said.piece)
    }

    /// Returns the position of the watchers.
    pub(super) fn at(&self) -> Position {
        self.at
    }

    /// Returns the texts of which a part was not retained.
    pub(super) fn lost(&self) -> &[LostText] {
        &self.lost
    }

    /// Returns `true` if the store has text that is not void.
    pub(super) fn is_partly_stored(&self) -> bool {
        self.saved_texts().any(|saved| !saved.void)
    }

    fn saved_texts(&self) -> impl Iterator<Item = &SavedText> {
        self.saved.iter().flat_map(|commit| &commit.texts)
    }

    /// Records that the store has no text of earlier claims.
    pub(super) fn nothing_left(&mut self) {
        self.left = false;
    }

    /// Returns the resets of the tasks whose text is not void.
    pub(super) fn tasks(&self) -> BTreeSet<AttemptReset> {
        let saved = self.saved_texts().filter(|saved| !saved.void).map(|saved| &saved.at);
        let all = saved.chain(self.unsaved().map(|piece| &piece.at));
        all.map(AttemptReset::of_task).collect()
    }

    /// Returns the answers of which no message is final, as far as their text is retained.
    pub(super) fn answers(&self) -> Vec<OpenAnswer> {
        let mut answers: Vec<OpenAnswer> = Vec::new();
        let mut add = |at: &PieceAt, step, text: &str| {
            let is_same = |open: &&mut OpenAnswer| open.step == step && open.at.has_origin_of(at);
            match answers.iter_mut().find(is_same) {
                Some(open) => {
                    open.text.push_str(text);
                    open.at.end = at.end;
                }
                None => answers.push(OpenAnswer { at: at.clone(), step, text: text.to_owned() }),
            }
        };
        for saved in self.saved_texts().filter(|saved| !saved.void) {
            add(&saved.at, saved.step, &saved.answer);
        }
        for Said { piece, step, .. } in &self.unsaved {
            if piece.kind == PieceKind::Text {
                add(&piece.at, *step, &piece.text);
            }
        }
        answers.retain(|open| !open.text.is_empty());
        answers
    }

    pub(super) fn due(&self) -> Due {
        let Some(first) = self.unsaved.get(self.sealed) else { return Due::Never };
        if self.waiting_bytes >= FLUSH_BYTES {
            return Due::Now;
        }
        Due::At(first.told_at.saturating_add(FLUSH_AFTER))
    }

    pub(super) fn is_due(&self, now: impl FnOnce() -> Duration) -> bool {
        match self.due() {
            Due::Never => false,
            Due::At(at) => at <= now(),
            Due::Now => true,
        }
    }

    /// Assigns a position to a piece of text, and retains the text unless that exceeds the limit.
    pub(super) fn say(
        &mut self,
        by: &EventSource,
        Delta { kind, text }: Delta<'_>,
        clock: &dyn Clock,
    ) -> PieceAt {
        // Also for text that is not retained: watchers receive it, and positions count what they
        // have received.
        self.at = self.at.plus(text.len());
        let at = PieceAt {
            end: self.at,
            node: by.node.to_string(),
            task: by.task,
            ns: by.ns.to_string(),
            step: by.graph_step,
            message: by.message.clone(),
        };
        // Once some text was left out, later text is too: retained text has no gap.
        self.full |= self.kept_bytes.saturating_add(text.len()) > KEPT_BYTES_MAX;
        if text.is_empty() {
            return at;
        }
        if self.full {
            if !self.lost.iter().any(|lost| lost.at.has_origin_of(&at) && lost.step == by.step) {
                self.lost.push(LostText { at: at.clone(), step: by.step });
            }
            return at;
        }
        self.kept_bytes += text.len();
        self.waiting_bytes += text.len();
        // A piece in the commit in progress must not grow: `save_sealed` marks it as stored as a
        // whole.
        let open = self.unsaved.len() > self.sealed;
        let last = self.unsaved.back_mut().filter(|_| open);
        if last.is_some_and(|said| said.piece.extend(&at, &kind, text)) {
            return at;
        }
        let text = text.to_owned();
        let piece = Piece { at: at.clone(), told_at: clock.now(), kind, text };
        self.unsaved.push_back(Said { piece, step: by.step, told_at: clock.elapsed() });
        at
    }

    /// Advances past a durable event. Returns the position up to which it voids stored text.
    pub(super) fn pass(&mut self, event: &AiEvent) -> Option<Position> {
        self.at = Position::after(self.at.seq + 1);
        match event {
            // The store may have text of earlier claims, of any task.
            AiEvent::AttemptReset(_) if self.left => self.void_all(),
            AiEvent::AttemptReset(reset) => self.void_where(|at, _| reset.voids(at)),
            AiEvent::Done { .. } => self.void_all(),
            event => {
                let step = event.step()?;
                self.void_where(|_, of| of <= step)
            }
        }
    }

    fn void_all(&mut self) -> Option<Position> {
        let any = self.left || !self.saved.is_empty();
        self.left = false;
        self.void_where(|_, _| true);
        any.then_some(Position::END)
    }

    /// Removes void text. Stored text is removed from the front only, and a text as a whole: valid
    /// text before it, or in the commit of its end, retains it.
    fn void_where(&mut self, is: impl Fn(&PieceAt, i64) -> bool) -> Option<Position> {
        self.unsaved.retain(|said| !is(&said.piece.at, said.step));
        for saved in self.saved.iter_mut().flat_map(|commit| &mut commit.texts) {
            saved.void |= is(&saved.at, saved.step);
        }
        let removed = self.saved.drain(..self.removable()).next_back();
        let last = removed.map(|commit| commit.end);
        let saved = self.saved_texts().map(|saved| saved.bytes);
        self.kept_bytes = saved.chain(self.unsaved().map(|piece| piece.text.len())).sum();
        self.lost.retain(|lost| !is(&lost.at, lost.step));
        // Without text that lost a part there is no gap that later text would show.
        self.full &= !self.lost.is_empty();
        last
    }

    /// Returns the number of commits at the front that have void text only, of which no later commit
    /// has a part.
    fn removable(&self) -> usize {
        let is_void = |commit: &&SavedCommit| commit.texts.iter().all(|saved| saved.void);
        let mut count = self.saved.iter().take_while(is_void).count();
        // A later commit has a part of a text: the commit with its beginning stays, and with it all
        // that follow.
        loop {
            let stays = |saved: &SavedText| {
                let later = self.saved.iter().skip(count).flat_map(|commit| &commit.texts);
                later.into_iter().any(|later| later.is_part_of(saved))
            };
            let first =
                self.saved.iter().take(count).position(|commit| commit.texts.iter().any(stays));
            match first {
                Some(first) => count = first,
                None => return count,
            }
        }
    }

    /// Marks all unsaved text as part of a commit.
    pub(super) fn seal(&mut self) {
        (self.sealed, self.waiting_bytes) = (self.unsaved.len(), 0);
    }

    /// Marks all unsaved text as waiting again, after a commit failed.
    pub(super) fn unseal(&mut self) {
        self.sealed = 0;
        self.waiting_bytes = self.unsaved().map(|piece| piece.text.len()).sum();
    }

    /// Marks the committed text as stored.
    pub(super) fn save_sealed(&mut self) {
        let sealed = self.unsaved.drain(..std::mem::take(&mut self.sealed));
        let mut texts: Vec<SavedText> = Vec::new();
        let mut end = None;
        for Said { piece: Piece { at, kind, text, .. }, step, .. } in sealed {
            end = Some(at.end);
            let bytes = text.len();
            let answer = if kind == PieceKind::Text { text } else { String::new() };
            let saved = SavedText { at, step, bytes, answer, void: false };
            match texts.iter_mut().find(|known| known.is_part_of(&saved)) {
                Some(known) => known.append(&saved),
                None => texts.push(saved),
            }
        }
        let Some(end) = end else { return };
        match (self.saved.back_mut(), texts.as_slice()) {
            (Some(SavedCommit { end: last, texts: known }), [saved])
                if known.len() == 1 && known[0].is_part_of(saved) =>
            {
                *last = end;
                known[0].append(saved);
            }
            _ => self.saved.push_back(SavedCommit { end, texts }),
        }
    }
}
