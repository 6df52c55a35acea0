//! `weft chat`: an interactive conversation with an agent.

use super::question;
use super::run::tell_turn;
use crate::CliError;
use crate::args::Chat;
use crate::context::{CommandContext, USUAL_AGENT};
use crate::exit::Exit;
use crate::follow::{View, follow, tell_end};
use crate::input::{Interrupts, Lines};
use crate::terminal::{Answer, Style, Terminal, plain};
use std::collections::BTreeMap;
use weftwork::App;
use weftwork::config::Origin;
use weftwork::store::StoreError;
use weftwork::types::ThreadId;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::port::RunHandle;
use weftwork::types::run::{RunInput, RunOutcome};

pub(crate) async fn chat(args: &Chat, context: &CommandContext) -> Result<Exit, CliError> {
    let named = args.thread.as_deref().map(ThreadId::new).transpose()?;
    let store = named.is_some().then(|| context.store()).transpose()?;
    let found = match (&named, &store) {
        (Some(id), Some(store)) => match context.thread(store.as_ref(), id).await {
            Ok(found) => Some(found),
            Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => None,
            Err(error) => return Err(error),
        },
        _ => None,
    };
    let of_thread = found.as_ref().map(|found| found.graph());
    let agent = context.agent(args.agent.as_deref().or(of_thread).unwrap_or(USUAL_AGENT))?;
    let recorded = found.as_ref().and_then(|found| found.model());
    let app = context
        .open(agent, store, recorded, (args.keeping.durability(), args.busy.multitask()))
        .await?;
    let app = args.limits.limit(app);
    let thread = named.unwrap_or_else(|| app.new_thread());
    Talk {
        context,
        terminal: &context.terminal,
        app: &app,
        agent: agent.id().to_owned(),
        known: found.is_some(),
        lines: Lines::of_process()?,
        interrupts: Interrupts::listen()?,
        thread,
    }
    .talk()
    .await
}

/// User input.
enum Typed {
    Line(String),
    /// End of input.
    End,
    /// Ctrl-C pressed twice.
    Quit,
}

struct Talk<'a> {
    context: &'a CommandContext,
    terminal: &'a Terminal,
    app: &'a App,
    agent: String,
    /// `true` if the thread exists in the store.
    known: bool,
    lines: Lines,
    interrupts: Interrupts,
    thread: ThreadId,
}

impl Talk<'_> {
    async fn talk(mut self) -> Result<Exit, CliError> {
        self.welcome();
        let mut next = self.unfinished().await?;
        loop {
            if let Some(handle) = next.take() {
                self.listen(handle).await?;
            }
            let open = if self.known {
                question::open(self.app.store().as_ref(), &self.thread).await?
            } else {
                Vec::new()
            };
            next = if open.is_empty() {
                match self.read("you>").await? {
                    Typed::Line(line) if line.trim().is_empty() => None,
                    Typed::Line(line) => Some(self.say(&line).await?),
                    Typed::End => return self.leave(Exit::Done),
                    Typed::Quit => return self.leave(Exit::Interrupted),
                }
            } else {
                match self.ask(&open).await? {
                    Ok(answers) => {
                        let input = RunInput::answers(answers);
                        Some(self.app.start(&self.agent, self.thread.clone(), input).await?)
                    }
                    Err(exit) => {
                        // The cursor is still behind the prompt.
                        if self.terminal.typed {
                            self.terminal.line("")?;
                        }
                        question::tell_open(&open, &self.thread, self.terminal);
                        return self.leave(exit);
                    }
                }
            };
        }
    }

    fn welcome(&self) {
        let (terminal, model) = (self.terminal, self.app.model());
        let label = model.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        terminal.note(format_args!(
            "{} with model {}{label}",
            terminal.paint_error(Style::Strong, &self.agent),
            model.id()
        ));
        // A configuration file in a foreign folder could send keys to another server.
        if let Some(file) = &self.context.config.file {
            terminal.note(format_args!("configuration file {}", file.display()));
        }
        if self.app.model_setting().origin == Origin::Default {
            terminal.note("default model; choose another with --model, WEFT_MODEL or weft.toml");
        }
        terminal.note(format_args!("thread {}", self.thread));
        if terminal.typed {
            terminal.note("Ctrl-C stops an answer, Ctrl-D ends the chat");
        }
    }

    /// Takes over an unfinished run that an earlier process left on the thread.
    async fn unfinished(&self) -> Result<Option<RunHandle>, CliError> {
        if !self.known {
            return Ok(None);
        }
        let found = self.context.thread(self.app.store().as_ref(), &self.thread).await?;
        if found.unfinished().is_none() {
            return Ok(None);
        }
        let handle = self.app.resume(&self.thread).await?;
        self.terminal.note("resuming the unfinished run of the thread");
        Ok(Some(handle))
    }

    async fn say(&mut self, text: &str) -> Result<RunHandle, CliError> {
        let input = RunInput::Start { input: self.app.say(text) };
        let handle = self.app.start(&self.agent, self.thread.clone(), input).await?;
        tell_turn(self.app, &handle.run, self.terminal).await?;
        self.known = true;
        Ok(handle)
    }

    async fn listen(&mut self, handle: RunHandle) -> Result<(), CliError> {
        let run = handle.run.clone();
        let mut view = View::Text(Answer::new(self.terminal, self.app.model()));
        let outcome = follow(self.app, handle, &mut view, &mut self.interrupts).await?;
        // The chat continues after a failed run.
        match outcome {
            RunOutcome::Cancelled { .. } => self.terminal.note("stopped"),
            other => {
                tell_end(self.app.store().as_ref(), &run, &other, self.terminal).await;
            }
        }
        Ok(())
    }

    /// Asks the user every open question. Returns an exit status if the user leaves.
    async fn ask(
        &mut self,
        open: &[Interrupt],
    ) -> Result<Result<BTreeMap<weftwork::types::InterruptId, serde_json::Value>, Exit>, CliError>
    {
        let mut answers = BTreeMap::new();
        for interrupt in open {
            for line in question::lines(interrupt, self.terminal) {
                self.terminal.line(line)?;
            }
            let answer = loop {
                match self.read(question::prompt(interrupt)).await? {
                    Typed::Line(line) => {
                        if let Some(answer) = question::answer(interrupt, &line) {
                            break answer;
                        }
                    }
                    Typed::End => return Ok(Err(Exit::Waiting)),
                    Typed::Quit => return Ok(Err(Exit::Interrupted)),
                }
            };
            answers.insert(interrupt.id, answer);
        }
        Ok(Ok(answers))
    }

    /// Reads a line. The first Ctrl-C prints a hint, the second quits.
    async fn read(&mut self, prompt: &str) -> Result<Typed, CliError> {
        let mut warned = false;
        loop {
            self.prompt(prompt)?;
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if warned {
                        return Ok(Typed::Quit);
                    }
                    warned = true;
                    self.terminal.note("\npress Ctrl-C again to leave the chat");
                }
                line = self.lines.next() => {
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
        let is_question = prompt != "you>";
        let shown = self.terminal.paint(Style::Ask, prompt);
        match (self.terminal.typed, is_question) {
            (false, true) => self.terminal.line(shown),
            _ => self.terminal.piece(format_args!("{shown} ")),
        }
    }

    fn leave(&self, exit: Exit) -> Result<Exit, CliError> {
        self.terminal.line("")?;
        if self.known && self.context.lasting {
            self.terminal.note(format_args!("continue with: weft chat --thread {}", self.thread));
        }
        Ok(exit)
    }
}
