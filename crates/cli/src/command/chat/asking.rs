//! Questions of a chat, and the answers that a person types.

use super::backend::{Backend, Step};
use super::{ChatSession, UserInput, words};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use weftwork::types::approval::{ApprovalRequest, Verdict};
use weftwork::types::interrupt::{Ask, Interrupt};
use weftwork_cli_base::CliError;
use weftwork_cli_base::editor::Kind;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::question;
use weftwork_cli_base::terminal::{Style, to_plain};

/// Length of arguments up to which they are edited on one line, in characters.
const ONE_LINE_MAX: usize = 60;

/// The reply of a person to a question.
enum Reply<A> {
    Answer(Value),
    /// The chat does something else.
    Step(Step<A>),
}

/// The meaning of a line at the prompt of a question.
enum Meaning<'a> {
    Answer(Value),
    /// `no` without a reason.
    Reject(&'a ApprovalRequest),
    Edit(&'a ApprovalRequest),
    EditElsewhere(&'a ApprovalRequest),
    /// A call of unknown outcome is made again.
    CallAgain(Value),
    Nothing,
}

impl<B: Backend> ChatSession<'_, B> {
    /// Asks the user every open question, and sends the answers.
    pub(super) async fn ask(&mut self, open: &[Interrupt]) -> Result<Step<B::Answer>, CliError> {
        let mut answers = BTreeMap::new();
        for interrupt in open {
            self.show_question(interrupt)?;
            match self.read_reply(interrupt).await? {
                Reply::Answer(answer) => answers.insert(interrupt.id, answer),
                Reply::Step(Step::Leave(exit)) => {
                    // The cursor is still behind the prompt.
                    if self.terminal.typed && !self.input.is_editor() {
                        self.terminal.line("")?;
                    }
                    self.backend.leave_open(open, self.terminal);
                    return Ok(Step::Leave(exit));
                }
                Reply::Step(step) => return Ok(step),
            };
        }
        let answered = self.await_request(async |backend| backend.answer(answers).await).await?;
        Ok(answered.map_or(Step::Nothing, Step::Answer))
    }

    fn show_question(&self, interrupt: &Interrupt) -> Result<(), CliError> {
        let mut lines = question::question_lines(interrupt, self.terminal).into_iter();
        lines.try_for_each(|line| self.terminal.line(line))
    }

    async fn read_reply(&mut self, interrupt: &Interrupt) -> Result<Reply<B::Answer>, CliError> {
        let prompt = self.prompt_of(interrupt);
        let kind = match question::takes_decision(interrupt) {
            true => Kind::Decision,
            false => Kind::Line,
        };
        loop {
            let line = match self.read(&prompt, "", kind).await? {
                UserInput::Line(line) => line,
                UserInput::End => return Ok(Reply::Step(Step::Leave(Exit::Waiting))),
                UserInput::Quit(signal) => return Ok(Reply::Step(Step::Leave(signal.exit()))),
            };
            if self.input.is_editor()
                && let Some(word) = words::read_word(&line)
            {
                self.has_opened = false;
                match self.execute_command(word).await? {
                    Step::Leave(_) => return Ok(Reply::Step(Step::Leave(Exit::Waiting))),
                    Step::Nothing if !self.has_opened => {
                        self.show_question(interrupt)?;
                        continue;
                    }
                    step => return Ok(Reply::Step(step)),
                }
            }
            let answer = match self.meaning_of(interrupt, &line) {
                Meaning::Answer(answer) => Some(answer),
                Meaning::Reject(request) => self.ask_for_reason(request).await?,
                Meaning::Edit(request) => self.edit_arguments(request).await?,
                Meaning::EditElsewhere(request) => self.edit_elsewhere(request)?,
                Meaning::CallAgain(answer) => self.confirm_again().await?.then_some(answer),
                Meaning::Nothing => {
                    self.explain_answers(interrupt);
                    None
                }
            };
            if let Some(answer) = answer {
                return Ok(Reply::Answer(answer));
            }
            // SIGTERM at the prompt of a reason or of arguments is no answer: the next `read` leaves.
        }
    }

    fn prompt_of(&self, interrupt: &Interrupt) -> String {
        match (&interrupt.ask, self.input.is_editor(), question::can_edit(interrupt)) {
            (Ask::Approval(_), true, true) => "approve exactly this call? [y/n/edit]".to_owned(),
            _ => question::prompt_of(interrupt).to_owned(),
        }
    }

    fn meaning_of<'q>(&self, interrupt: &'q Interrupt, line: &str) -> Meaning<'q> {
        if let Ask::Approval(request) = &interrupt.ask
            && self.input.is_editor()
        {
            let edits = question::can_edit(interrupt);
            match line.trim().to_lowercase().as_str() {
                "n" | "no" => return Meaning::Reject(request),
                "e" | "edit" if edits => return Meaning::Edit(request),
                "editor" if edits => return Meaning::EditElsewhere(request),
                _ => {}
            }
        }
        match question::parse_answer(interrupt, line) {
            Some(answer) if question::calls_again(interrupt, &answer) => Meaning::CallAgain(answer),
            Some(answer) => Meaning::Answer(answer),
            None => Meaning::Nothing,
        }
    }

    /// Asks if a call of unknown outcome is to be made again. `false` if the person does not want
    /// it after all.
    async fn confirm_again(&mut self) -> Result<bool, CliError> {
        let prompt = "if the call took effect, it takes effect twice; call again? [y/n]";
        match self.read(prompt, "", Kind::Line).await? {
            UserInput::Line(line) => Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes")),
            UserInput::End | UserInput::Quit(_) => Ok(false),
        }
    }

    /// Prints the answers that a question takes.
    fn explain_answers(&self, interrupt: &Interrupt) {
        if question::is_about_unknown(interrupt) {
            return self.terminal.note(
                "nothing was decided: type `happened` and the result, such as `happened {\"id\": 7}`, \
                 `again` to call it again, or `give up`",
            );
        }
        if !self.input.is_editor() || !question::takes_decision(interrupt) {
            return;
        }
        let Ask::Approval(_) = &interrupt.ask else {
            return self.terminal.note("type `y`, `n`, `n REASON`, or the answer as JSON");
        };
        let edit = match question::can_edit(interrupt) {
            true => ", `edit` to change the arguments, `editor` to change them in $EDITOR",
            false => "",
        };
        self.terminal.note(format_args!(
            "type `y`, `n`, `n REASON`{edit}, or `respond TEXT` to give the result yourself"
        ));
    }

    /// Asks for the reason of a rejection. `None` if the person does not reject after all.
    async fn ask_for_reason(
        &mut self,
        request: &ApprovalRequest,
    ) -> Result<Option<Value>, CliError> {
        match self.read("reason for the model, or nothing:", "", Kind::Reason).await? {
            UserInput::Line(reason) => {
                let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
                Ok(Some(question::bound_decision(request, Verdict::Reject, reason)))
            }
            UserInput::End | UserInput::Quit(_) => Ok(None),
        }
    }

    /// Edits the arguments of a call on the line. `None` if the person leaves them.
    async fn edit_arguments(
        &mut self,
        request: &ApprovalRequest,
    ) -> Result<Option<Value>, CliError> {
        let mut text = self.draft_of(request);
        loop {
            match self.read("arguments:", &text, Kind::Json).await? {
                UserInput::Line(line) => text = line,
                UserInput::End | UserInput::Quit(_) => return Ok(None),
            }
            if let Some(decision) = self.read_edit(request, &text) {
                return Ok(Some(decision));
            }
        }
    }

    /// Edits the arguments of a call in the editor of the user.
    fn edit_elsewhere(&mut self, request: &ApprovalRequest) -> Result<Option<Value>, CliError> {
        let name = |variable| std::env::var(variable).ok().filter(|name| !name.trim().is_empty());
        let Some(editor) = name("VISUAL").or_else(|| name("EDITOR")) else {
            self.terminal.note("set EDITOR or VISUAL to the command of an editor, or type `edit`");
            return Ok(None);
        };
        let text = self.draft_of(request);
        let changed = edit_in_program(&editor, &text);
        self.signals.clear();
        match changed {
            Ok(text) => Ok(self.read_edit(request, &text)),
            Err(error) => {
                self.terminal.note(format_args!("the editor `{editor}` failed: {error}"));
                Ok(None)
            }
        }
    }

    /// Returns the text to edit: the last edit of this call that was refused, or the arguments.
    fn draft_of(&self, request: &ApprovalRequest) -> String {
        if let Some((binding, text)) = &self.draft
            && *binding == request.binding
        {
            return text.clone();
        }
        let short = request.args.to_string();
        match short.chars().count() > ONE_LINE_MAX {
            true => serde_json::to_string_pretty(&request.args).unwrap_or(short),
            false => short,
        }
    }

    /// Reads edited arguments. `None` if they are not a JSON object.
    fn read_edit(&mut self, request: &ApprovalRequest, text: &str) -> Option<Value> {
        self.draft = Some((request.binding, text.to_owned()));
        let problem = match serde_json::from_str::<Value>(text) {
            Ok(args) if args.is_object() => {
                let call = self.terminal.paint(Style::Strong, to_plain(&request.tool));
                self.terminal.note(format_args!("edited: {call} {}", to_plain(&args.to_string())));
                return Some(question::bound_decision(request, Verdict::Edit { args }, None));
            }
            Ok(_) => "expected a JSON object with all arguments".to_owned(),
            Err(error) => format!("not JSON: {error}"),
        };
        self.terminal.note(problem);
        None
    }
}

/// Returns a text after a person changed it in an editor.
fn edit_in_program(editor: &str, text: &str) -> std::io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("weft-").suffix(".json").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // The variable may have arguments, as in `code --wait`.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file.path());
    let status = command.status()?;
    if !status.success() {
        return Err(std::io::Error::other(format!("it ended with {status}")));
    }
    // The file may have been replaced by another one of this name.
    std::fs::read_to_string(file.path())
}
