//! `weft chat`: an interactive conversation with an agent, in a store or at a server.

mod asking;
mod backend;
mod local;
mod remote;
mod words;

use crate::args::Chat;
use backend::{Backend, Listed, Step};
use local::Local;
use remote::Remote;
use std::pin::pin;
use std::time::Duration;
use weftwork::store::StoreError;
use weftwork::types::ThreadId;
use weftwork::types::canonical::Hash;
use weftwork::types::message::Role;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::editor::{Edited, Kind, LineEditor, Request, Settings, history_file};
use weftwork_cli_base::error::report_fault;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::{View, show_elements};
use weftwork_cli_base::input::Lines;
use weftwork_cli_base::signals::{Signal, Signals, exit_at_once};
use weftwork_cli_base::terminal::{Answer, HiddenKeys, Style, Terminal, to_plain};
use words::Word;

/// The prompt for a message.
const PROMPT: &str = "you>";
/// Terminals on which lines cannot be edited.
const WITHOUT_KEYS: [&str; 3] = ["dumb", "cons25", "emacs"];
/// Number of times that an answer is followed again after its connection broke.
const CUTS_MAX: u32 = 3;
/// Delay before an answer is followed again; each further delay is twice as long.
const CUT_DELAY: Duration = Duration::from_millis(250);

pub(crate) async fn chat(args: &Chat, context: &CommandContext) -> Result<Exit, CliError> {
    match &args.server.url {
        Some(url) => converse(Remote::open(url, args, context).await?, context).await,
        None => converse(Local::open(args, context).await?, context).await,
    }
}

async fn converse<B: Backend>(backend: B, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let input = Input::open(context)?;
    // People see the label in the first line of the chat.
    let label = backend.model().filter(|_| !input.is_editor());
    let view = View::Text(Box::new(Answer::of_chat(terminal, label)));
    let session = ChatSession {
        terminal,
        view,
        backend,
        input,
        signals: Signals::listen(),
        is_terminated: false,
        listed: Vec::new(),
        is_leaving: false,
        draft: None,
        has_opened: false,
        cuts: 0,
    };
    Box::pin(session.run()).await
}

/// User input.
enum UserInput {
    Line(String),
    /// End of input.
    End,
    /// Ctrl-C pressed twice, or SIGTERM.
    Quit(Signal),
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
        let history = history_file(&context.config);
        Ok(Self::Editor(LineEditor::start(Settings {
            history,
            colours: terminal.colours(),
            words: &words::NAMES[..],
        })?))
    }

    fn is_editor(&self) -> bool {
        matches!(self, Self::Editor(_))
    }
}

struct ChatSession<'a, B> {
    terminal: &'a Terminal,
    view: View<'a>,
    backend: B,
    input: Input,
    signals: Signals,
    /// `true` once SIGTERM came: the chat leaves at the next prompt.
    is_terminated: bool,
    /// Threads of the last list, which have numbers.
    listed: Vec<Listed>,
    /// `true` if Ctrl-C was the last input, so that another one leaves the chat.
    is_leaving: bool,
    /// The last edit of arguments, with the binding of the call.
    draft: Option<(Hash, String)>,
    /// `true` after a command opened a thread.
    has_opened: bool,
    /// Number of attempts to follow an answer again since one was complete.
    cuts: u32,
}

impl<B: Backend> ChatSession<'_, B> {
    /// Talks until the end of the input. Open questions stay open.
    async fn run(mut self) -> Result<Exit, CliError> {
        match Box::pin(self.talk()).await {
            Err(CliError::NobodyReads) => match self.backend.questions().await?.is_empty() {
                true => Ok(Exit::Done),
                false => Ok(Exit::Waiting),
            },
            talked => talked,
        }
    }

    async fn talk(&mut self) -> Result<Exit, CliError> {
        self.welcome();
        let mut next = self.enter_thread().await?;
        loop {
            next = match next {
                Step::Answer(answer) => self.show_answer(answer).await?,
                Step::Leave(exit) => return self.leave(exit),
                Step::Nothing => {
                    let open =
                        self.await_request(async |backend| backend.questions().await).await?;
                    let open = open.unwrap_or_default();
                    match open.is_empty() {
                        true => self.read_message().await?,
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
    async fn enter_thread(&mut self) -> Result<Step<B::Answer>, CliError> {
        if self.input.is_editor() {
            self.show_last_messages().await?;
        }
        let unfinished = self.await_request(async |backend| backend.unfinished().await).await?;
        Ok(unfinished.flatten().map_or(Step::Nothing, Step::Answer))
    }

    /// Shows the last message of the user, and what the agent said since.
    async fn show_last_messages(&mut self) -> Result<(), CliError> {
        let messages = self.await_request(async |backend| backend.last_messages().await).await?;
        let messages = messages.unwrap_or_default();
        let from = messages.iter().rposition(|(role, _)| *role == Role::User);
        for (role, text) in messages.get(from.unwrap_or(messages.len())..).unwrap_or_default() {
            let text = to_plain(text);
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
    async fn read_message(&mut self) -> Result<Step<B::Answer>, CliError> {
        let line = match self.read(PROMPT, "", Kind::Message).await? {
            UserInput::Line(line) => line,
            UserInput::End => return Ok(Step::Leave(Exit::Done)),
            UserInput::Quit(signal) => return Ok(Step::Leave(signal.exit())),
        };
        if line.trim().is_empty() {
            return Ok(Step::Nothing);
        }
        if self.input.is_editor()
            && let Some(word) = words::read_word(&line)
        {
            return self.execute_command(word).await;
        }
        let said = self.await_request(async |backend| backend.say(&line).await).await?;
        Ok(said.map_or(Step::Nothing, Step::Answer))
    }

    /// Executes a command.
    async fn execute_command(&mut self, word: Word<'_>) -> Result<Step<B::Answer>, CliError> {
        match word {
            Word::Help => self.terminal.note(words::HELP),
            Word::Threads => {
                let list = self.await_request(async |backend| backend.threads().await).await?;
                self.print_list(list, "STATE", "no threads yet")?;
            }
            Word::Inbox => {
                let list = self.await_request(async |backend| backend.inbox().await).await?;
                self.print_list(list, "QUESTION", "nothing waits for an answer")?;
            }
            Word::Model(name) => {
                let model = self.backend.select_model(name);
                if let Some(text) = self.recover_error(model)? {
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

    fn print_list(
        &mut self,
        list: Option<Vec<Listed>>,
        state: &'static str,
        none: &str,
    ) -> Result<(), CliError> {
        let Some(list) = list else { return Ok(()) };
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
        let agent = listed.map(|one| one.agent.clone()).filter(|agent| !agent.is_empty());
        let thread = thread.transpose();
        let open = async |backend: &mut B| backend.open(thread?, agent.as_deref()).await;
        if self.await_request(open).await?.is_none() {
            return Ok(Step::Nothing);
        }
        self.has_opened = true;
        self.backend.welcome(self.terminal).iter().for_each(|line| self.terminal.note(line));
        self.enter_thread().await
    }

    /// Shows an answer until its end.
    async fn show_answer(&mut self, mut answer: B::Answer) -> Result<Step<B::Answer>, CliError> {
        let keys = self.input.is_editor().then(HiddenKeys::hide);
        let shown = show_elements(&mut answer, &mut self.view, &mut self.signals).await;
        drop(keys);
        let mut unwritten = None;
        if let View::Text(answer) = &mut self.view {
            unwritten = answer.end_line().err();
        }
        let (shown, broke) = match shown {
            Err(error @ CliError::Unreachable(_)) => (None, Some(error)),
            shown => (self.recover_error(shown)?, None),
        };
        if let Some(error) = &broke {
            report_fault(&error.fault(), self.terminal);
        }
        let stopped = shown.as_ref().and_then(|shown| shown.stopped);
        self.is_leaving = stopped == Some(Signal::Interrupt);
        self.is_terminated |= stopped == Some(Signal::Terminate);
        // The chat continues after a failed run.
        let ended = self.backend.ended(answer, self.terminal).await;
        self.recover_error(ended)?;
        let Some(shown) = shown else { return self.listen_again(broke).await };
        self.cuts = 0;
        shown.unwritten.or(unwritten).map_or(Ok(Step::Nothing), Err)
    }

    /// Follows an answer whose connection broke, from its beginning. Shows the last messages if the
    /// answer has ended. Without a terminal, a connection that cannot be made again is an error.
    async fn listen_again(
        &mut self,
        mut broke: Option<CliError>,
    ) -> Result<Step<B::Answer>, CliError> {
        while self.cuts < CUTS_MAX {
            let delay = CUT_DELAY * (1 << self.cuts);
            self.cuts += 1;
            let unfinished = async |backend: &mut B| {
                tokio::time::sleep(delay).await;
                match backend.unfinished().await {
                    Err(error @ CliError::Unreachable(_)) => Ok(Err(error)),
                    unfinished => unfinished.map(Ok),
                }
            };
            match self.await_request(unfinished).await? {
                Some(Ok(Some(answer))) => {
                    self.terminal.note("following the answer again, from its beginning");
                    return Ok(Step::Answer(answer));
                }
                Some(Ok(None)) => {
                    self.cuts = 0;
                    self.terminal.note("the answer has ended; the last messages are:");
                    self.show_last_messages().await?;
                    return Ok(Step::Nothing);
                }
                Some(Err(error)) => {
                    report_fault(&error.fault(), self.terminal);
                    broke = Some(error);
                }
                None => break,
            }
        }
        self.cuts = 0;
        self.terminal.note("the answer is no longer followed");
        match broke.filter(|_| !self.input.is_editor()) {
            Some(error) => Err(error),
            None => Ok(Step::Nothing),
        }
    }

    /// Waits for a request of the backend. `None` if it failed at a terminal, or if Ctrl-C ended the
    /// wait; a server may still fulfil the request.
    async fn await_request<T>(
        &mut self,
        request: impl AsyncFnOnce(&mut B) -> Result<T, CliError>,
    ) -> Result<Option<T>, CliError> {
        let keys = self.input.is_editor().then(HiddenKeys::hide);
        let result = tokio::select! {
            biased;
            signal = self.signals.next() => Err(signal),
            result = request(&mut self.backend) => Ok(result),
        };
        drop(keys);
        match result {
            Ok(result) => self.recover_error(result),
            Err(signal) if self.is_leaving => exit_at_once(signal),
            Err(Signal::Terminate) => {
                self.is_terminated = true;
                Ok(None)
            }
            Err(Signal::Interrupt) => {
                self.is_leaving = true;
                self.terminal.note("stopped waiting; press Ctrl-C again to leave the chat");
                Ok(None)
            }
        }
    }

    /// Reports an error at a terminal, where the chat continues. Errors of the terminal end it.
    fn recover_error<T>(&self, result: Result<T, CliError>) -> Result<Option<T>, CliError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ (CliError::NobodyReads | CliError::Output(_) | CliError::Input(_))) => {
                Err(error)
            }
            Err(CliError::App(weftwork::Error::Store(error @ StoreError::FileChanged { .. }))) => {
                Err(error.into())
            }
            Err(error) if self.input.is_editor() => {
                report_fault(&error.fault(), self.terminal);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads input with a prompt and a text to edit. The first Ctrl-C at an empty prompt prints
    /// a hint, the second leaves, also if the first one stopped an answer.
    async fn read(
        &mut self,
        prompt: &str,
        initial: &str,
        kind: Kind,
    ) -> Result<UserInput, CliError> {
        if self.is_terminated {
            return Ok(UserInput::Quit(Signal::Terminate));
        }
        let typed = match &mut self.input {
            Input::Editor(_) => self.edit_line(prompt, initial, kind).await,
            Input::Lines(_) => self.read_line(prompt).await,
        };
        self.is_leaving = false;
        self.is_terminated = matches!(typed, Ok(UserInput::Quit(Signal::Terminate)));
        typed
    }

    async fn edit_line(
        &mut self,
        prompt: &str,
        initial: &str,
        kind: Kind,
    ) -> Result<UserInput, CliError> {
        let styled = format!("{} ", self.terminal.paint(Style::Ask, prompt));
        loop {
            let Input::Editor(editor) = &mut self.input else { return Ok(UserInput::End) };
            let prompt = (format!("{prompt} "), styled.clone());
            let request = Request { kind, prompt, initial: initial.to_owned() };
            let keys = HiddenKeys::left_to_editor();
            let mut reading = pin!(editor.read(request));
            let edited = loop {
                tokio::select! {
                    biased;
                    signal = self.signals.next() => if signal == Signal::Terminate {
                        drop(keys);
                        self.terminal.piece("\n")?;
                        return Ok(UserInput::Quit(signal));
                    },
                    edited = &mut reading => break edited?,
                }
            };
            self.signals.clear();
            match edited {
                Edited::Text(text) => return Ok(UserInput::Line(text)),
                Edited::End => return Ok(UserInput::End),
                // An edit or a reason is left at once; the question remains.
                Edited::Interrupt { .. } if matches!(kind, Kind::Json | Kind::Reason) => {
                    return Ok(UserInput::Quit(Signal::Interrupt));
                }
                Edited::Interrupt { was_empty: false } => self.is_leaving = false,
                Edited::Interrupt { was_empty: true } if self.is_leaving => {
                    return Ok(UserInput::Quit(Signal::Interrupt));
                }
                Edited::Interrupt { was_empty: true } => {
                    self.is_leaving = true;
                    self.terminal.note("press Ctrl-C again to leave the chat");
                }
            }
        }
    }

    async fn read_line(&mut self, prompt: &str) -> Result<UserInput, CliError> {
        loop {
            self.write_prompt(prompt)?;
            let Input::Lines(lines) = &mut self.input else { return Ok(UserInput::End) };
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    if self.is_leaving || signal == Signal::Terminate {
                        return Ok(UserInput::Quit(signal));
                    }
                    self.is_leaving = true;
                    self.terminal.note("\npress Ctrl-C again to leave the chat");
                }
                line = lines.next() => {
                    let Some(line) = line? else { return Ok(UserInput::End) };
                    if !self.terminal.typed {
                        self.terminal.line(to_plain(&line))?;
                    }
                    return Ok(UserInput::Line(line));
                }
            }
        }
    }

    /// Writes the prompt. On a terminal, input follows on the same line; otherwise a question is
    /// written as a complete line, so that programs can read it.
    fn write_prompt(&self, prompt: &str) -> Result<(), CliError> {
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
