//! `weft chat`: an interactive conversation with an agent, in a store or at a server.

mod asking;
mod backend;
mod local;
mod remote;
mod words;

use crate::CliError;
use crate::args::Chat;
use crate::context::CommandContext;
use crate::editor::{Edited, Kind, LineEditor, Request, Settings};
use crate::error::report;
use crate::exit::Exit;
use crate::follow::{View, show};
use crate::input::{Interrupts, Lines};
use crate::terminal::{Answer, Style, Terminal, plain};
use backend::{Backend, Listed, Step};
use local::Local;
use remote::Remote;
use weftwork::types::ThreadId;
use weftwork::types::canonical::Hash;
use weftwork::types::message::Role;
use words::Word;

/// The prompt for a message.
const PROMPT: &str = "you>";
/// Terminals on which lines cannot be edited.
const WITHOUT_KEYS: [&str; 3] = ["dumb", "cons25", "emacs"];
/// Number of times that an answer is followed again after its connection broke.
const CUTS_MAX: usize = 3;
/// File of the history of messages, in the user's data folder.
const HISTORY: &str = "chat-history";

pub(crate) async fn chat(args: &Chat, context: &CommandContext) -> Result<Exit, CliError> {
    match &args.server.url {
        Some(url) => talk(Remote::open(url, args, context).await?, context).await,
        None => talk(Local::open(args, context).await?, context).await,
    }
}

async fn talk<B: Backend>(backend: B, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let input = Input::open(context)?;
    // People see the label in the first line of the chat.
    let label = backend.model().filter(|_| !input.is_editor());
    let view = View::Text(Answer::of_chat(terminal, label));
    let talk = Talk {
        terminal,
        view,
        backend,
        input,
        interrupts: Interrupts::listen()?,
        listed: Vec::new(),
        is_leaving: false,
        draft: None,
        cuts: 0,
    };
    Box::pin(talk.talk()).await
}

/// User input.
enum Typed {
    Line(String),
    /// End of input.
    End,
    /// Ctrl-C pressed twice.
    Quit,
}

/// The source of user input.
enum Input {
    /// A terminal.
    Editor(LineEditor),
    /// A pipe or a file, and terminals whose output is redirected.
    Lines(Lines),
}

impl Input {
    fn open(context: &CommandContext) -> Result<Self, CliError> {
        let terminal = &context.terminal;
        let is_dumb = std::env::var("TERM").is_ok_and(|term| WITHOUT_KEYS.contains(&term.as_str()));
        if !(terminal.typed && terminal.read) || is_dumb {
            return Ok(Self::Lines(Lines::of_process()?));
        }
        let history = context.config.data.as_ref().map(|folder| folder.join(HISTORY));
        let (colours, words) = (terminal.colours(), &words::NAMES[..]);
        Ok(Self::Editor(LineEditor::start(Settings { history, colours, words })?))
    }

    fn is_editor(&self) -> bool {
        matches!(self, Self::Editor(_))
    }
}

struct Talk<'a, B> {
    terminal: &'a Terminal,
    view: View<'a>,
    backend: B,
    input: Input,
    interrupts: Interrupts,
    /// Threads of the last list, which have numbers.
    listed: Vec<Listed>,
    /// `true` if Ctrl-C was the last input, so that another one leaves the chat.
    is_leaving: bool,
    /// The last edit of arguments, with the binding of the call.
    draft: Option<(Hash, String)>,
    /// Number of connections that broke since an answer was complete.
    cuts: usize,
}

impl<B: Backend> Talk<'_, B> {
    async fn talk(mut self) -> Result<Exit, CliError> {
        self.welcome();
        let mut next = self.enter().await?;
        loop {
            next = match next {
                Step::Answer(answer) => self.listen(answer).await?,
                Step::Leave(exit) => return self.leave(exit),
                Step::Nothing => {
                    let open = self.backend.questions().await;
                    let open = self.recover(open)?.unwrap_or_default();
                    match open.is_empty() {
                        true => self.message().await?,
                        false => self.ask(&open).await?,
                    }
                }
            };
        }
    }

    fn welcome(&self) {
        for line in self.backend.welcome(self.terminal) {
            self.terminal.note(line);
        }
        if self.terminal.typed {
            self.terminal
                .note("Ctrl-C stops an answer, Ctrl-D ends the chat, /help lists commands");
        }
    }

    /// Begins or continues a thread: shows its last messages, and what it is producing.
    async fn enter(&mut self) -> Result<Step<B::Answer>, CliError> {
        if self.input.is_editor() {
            let messages = self.backend.last_messages().await;
            let messages = self.recover(messages)?.unwrap_or_default();
            self.show_last(&messages)?;
        }
        let unfinished = self.backend.unfinished().await;
        Ok(self
            .recover(unfinished)?
            .map_or(Step::Nothing, |found| found.map_or(Step::Nothing, Step::Answer)))
    }

    /// Shows the last message of the user, and what the agent said since.
    fn show_last(&self, messages: &[(Role, String)]) -> Result<(), CliError> {
        let from = messages.iter().rposition(|(role, _)| *role == Role::User);
        for (role, text) in messages.get(from.unwrap_or(messages.len())..).unwrap_or_default() {
            let text = plain(text);
            match role {
                Role::User => self
                    .terminal
                    .line(self.terminal.paint(Style::Quiet, format_args!("{PROMPT} {text}")))?,
                Role::Assistant if !text.is_empty() => self.terminal.line(text)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a message or a command.
    async fn message(&mut self) -> Result<Step<B::Answer>, CliError> {
        let line = match self.read((PROMPT, ""), Kind::Message).await? {
            Typed::Line(line) => line,
            Typed::End => return Ok(Step::Leave(Exit::Done)),
            Typed::Quit => return Ok(Step::Leave(Exit::Interrupted)),
        };
        if line.trim().is_empty() {
            return Ok(Step::Nothing);
        }
        if self.input.is_editor()
            && let Some(word) = words::read(&line)
        {
            return self.command(word).await;
        }
        let said = self.backend.say(&line).await;
        Ok(self.recover(said)?.map_or(Step::Nothing, Step::Answer))
    }

    /// Executes a command.
    async fn command(&mut self, word: Word<'_>) -> Result<Step<B::Answer>, CliError> {
        match word {
            Word::Help => self.terminal.note(words::HELP),
            Word::Threads => {
                let list = self.backend.threads().await;
                self.list(list, "STATE", "no threads yet")?;
            }
            Word::Inbox => {
                let list = self.backend.inbox().await;
                self.list(list, "QUESTION", "nothing waits for an answer")?;
            }
            Word::Model(name) => {
                let model = self.backend.select_model(name);
                if let Some(text) = self.recover(model)? {
                    self.terminal.note(text);
                }
            }
            Word::Open(id) => return self.open(id).await,
            Word::Quit => return Ok(Step::Leave(Exit::Done)),
            Word::Unknown(name) => self.terminal.note(format_args!(
                "unknown command `{name}`; /help lists them, and a message may begin with a space"
            )),
        }
        Ok(Step::Nothing)
    }

    fn list(
        &mut self,
        list: Result<Vec<Listed>, CliError>,
        state: &'static str,
        none: &str,
    ) -> Result<(), CliError> {
        let Some(list) = self.recover(list)? else { return Ok(()) };
        if list.is_empty() {
            self.terminal.note(none);
            return Ok(());
        }
        Listed::table(&list, state).write(self.terminal)?;
        self.terminal.note("continue one with: /open and its number or its thread");
        self.listed = list;
        Ok(())
    }

    async fn open(&mut self, id: Option<&str>) -> Result<Step<B::Answer>, CliError> {
        let listed = id.and_then(|id| {
            let number = id.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let by_number = number.and_then(|at| self.listed.get(at));
            by_number.or_else(|| self.listed.iter().find(|one| one.thread == id))
        });
        let thread = listed.map(|one| one.thread.as_str()).or(id).map(ThreadId::new);
        let agent = listed.map(|one| one.agent.as_str()).filter(|agent| !agent.is_empty());
        let opened = match thread.transpose() {
            Ok(thread) => self.backend.open(thread, agent).await,
            Err(error) => Err(error.into()),
        };
        if self.recover(opened)?.is_none() {
            return Ok(Step::Nothing);
        }
        self.backend.welcome(self.terminal).iter().for_each(|line| self.terminal.note(line));
        self.enter().await
    }

    /// Shows an answer until its end.
    async fn listen(&mut self, mut answer: B::Answer) -> Result<Step<B::Answer>, CliError> {
        let shown = show(&mut answer, &mut self.view, &mut self.interrupts).await;
        if let View::Text(answer) = &mut self.view {
            answer.end_line()?;
        }
        let shown = self.recover(shown)?;
        self.is_leaving = shown == Some(true);
        // The chat continues after a failed run.
        let ended = self.backend.ended(answer, self.terminal).await;
        self.recover(ended)?;
        self.cuts = if shown.is_some() { 0 } else { self.cuts + 1 };
        if self.cuts == 0 || self.cuts > CUTS_MAX {
            return Ok(Step::Nothing);
        }
        let unfinished = self.backend.unfinished().await;
        let Some(Some(answer)) = self.recover(unfinished)? else { return Ok(Step::Nothing) };
        self.terminal.note("following the answer again, from its beginning");
        Ok(Step::Answer(answer))
    }

    /// Reports an error at a terminal, where the chat continues. Errors of the terminal end it.
    fn recover<T>(&self, result: Result<T, CliError>) -> Result<Option<T>, CliError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ (CliError::NobodyReads | CliError::Output(_) | CliError::Input(_))) => {
                Err(error)
            }
            Err(error) if self.input.is_editor() => {
                report(&error.fault(), self.terminal);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads input with a prompt and a text to edit. The first Ctrl-C at an empty prompt prints
    /// a hint, the second leaves, also if the first one stopped an answer.
    async fn read(&mut self, prompt: (&str, &str), kind: Kind) -> Result<Typed, CliError> {
        let typed = match &mut self.input {
            Input::Editor(_) => self.edit_line(prompt, kind).await,
            Input::Lines(_) => self.read_line(prompt.0).await,
        };
        self.is_leaving = false;
        typed
    }

    async fn edit_line(
        &mut self,
        (prompt, initial): (&str, &str),
        kind: Kind,
    ) -> Result<Typed, CliError> {
        let styled = format!("{} ", self.terminal.paint(Style::Ask, prompt));
        loop {
            let Input::Editor(editor) = &mut self.input else { return Ok(Typed::End) };
            let prompt = (format!("{prompt} "), styled.clone());
            let request = Request { kind, prompt, initial: initial.to_owned() };
            let edited = editor.read(request).await?;
            self.interrupts.clear();
            match edited {
                Edited::Text(text) => return Ok(Typed::Line(text)),
                Edited::End => return Ok(Typed::End),
                // An edit is left at once; the question remains.
                Edited::Interrupt { .. } if kind == Kind::Json => return Ok(Typed::Quit),
                Edited::Interrupt { was_empty: false } => self.is_leaving = false,
                Edited::Interrupt { was_empty: true } if self.is_leaving => return Ok(Typed::Quit),
                Edited::Interrupt { was_empty: true } => {
                    self.is_leaving = true;
                    self.terminal.note("press Ctrl-C again to leave the chat");
                }
            }
        }
    }

    async fn read_line(&mut self, prompt: &str) -> Result<Typed, CliError> {
        loop {
            self.prompt(prompt)?;
            let Input::Lines(lines) = &mut self.input else { return Ok(Typed::End) };
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if self.is_leaving {
                        return Ok(Typed::Quit);
                    }
                    self.is_leaving = true;
                    self.terminal.note("\npress Ctrl-C again to leave the chat");
                }
                line = lines.next() => {
                    let Some(line) = line? else { return Ok(Typed::End) };
                    if !self.terminal.typed {
                        self.terminal.line(plain(&line))?;
                    }
                    return Ok(Typed::Line(line));
                }
            }
        }
    }

    /// Writes the prompt. On a terminal, input follows on the same line; otherwise a question is
    /// written as a complete line, so that programs can read it.
    fn prompt(&self, prompt: &str) -> Result<(), CliError> {
        let shown = self.terminal.paint(Style::Ask, prompt);
        match (self.terminal.typed, prompt == PROMPT) {
            (false, false) => self.terminal.line(shown),
            _ => self.terminal.piece(format_args!("{shown} ")),
        }
    }

    fn leave(&self, exit: Exit) -> Result<Exit, CliError> {
        if !self.input.is_editor() {
            self.terminal.line("")?;
        }
        if let Some(command) = self.backend.how_to_continue() {
            self.terminal.note(format_args!("continue with: {command}"));
        }
        Ok(exit)
    }
}
