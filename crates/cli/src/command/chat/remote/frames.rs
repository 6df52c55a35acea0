//! The UI message stream of a server, read as events of runs.
//!
//! Reading is strict: an event with a name, a frame of an unknown type and one without its members are
//! errors. Only the names of data parts are open.

use serde_json::Value;
use weftwork::types::MessageId;
use weftwork::types::ToolCallId;
use weftwork::types::code::Fault;
use weftwork::types::event::{AiEvent, AttemptReset};
use weftwork::types::sse::{SseEvent, SseParser};

/// Maximum length of a frame in bytes. Servers cut values at 64 KiB.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Separators before a text that follows another text, and before a text that replaces a void text.
const SEPARATORS: [&str; 2] = ["\n\n", "\n\n---\n\n"];
/// Names of the calls that stand for questions.
const QUESTIONS: [&str; 2] = ["ask_human", "request_approval"];

/// The end of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    /// Calls wait for a person.
    Asks,
    /// The run waits for something else than a person.
    Waits,
    Cancelled,
    Failed(String),
}

/// A piece of a response that is shown.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all pieces are events")]
pub(super) enum Piece {
    Event(AiEvent),
    /// The end of a text; the next one begins a line.
    TextEnd,
}

/// A reader of frames, without I/O.
#[derive(Debug)]
pub(super) struct Frames {
    parser: SseParser,
    /// Thread of the response.
    pub(super) thread: Option<String>,
    /// Calls that stand for questions, whose results are not shown.
    questions: Vec<String>,
    failure: Option<String>,
    is_cancelled: bool,
    /// `true` after a text began, and before its first part.
    is_text_start: bool,
    end: Option<End>,
    /// `true` after the last frame.
    is_over: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            parser: SseParser::new(FRAME_BYTES_MAX),
            thread: None,
            questions: Vec::new(),
            failure: None,
            is_cancelled: false,
            is_text_start: false,
            end: None,
            is_over: false,
        }
    }
}

impl Frames {
    /// Returns the end of the response once its last frame was read.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref().filter(|_| self.is_over)
    }

    /// Reads bytes of the body, and returns the pieces of the frames that are complete.
    ///
    /// # Errors
    /// A description of the frame that cannot be read.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, String> {
        let mut events = Vec::new();
        self.parser.push(bytes, &mut events).map_err(|error| error.to_string())?;
        let pieces = events.into_iter().filter_map(|event| self.read_piece(&event).transpose());
        pieces.collect()
    }

    fn read_piece(
        &mut self,
        SseEvent { name, data, .. }: &SseEvent,
    ) -> Result<Option<Piece>, String> {
        if !name.is_empty() {
            return Err(describe_found("an event with the name", name));
        }
        if self.is_over {
            return Err(describe_found("a frame after the last one", data));
        }
        if data == "[DONE]" {
            self.is_over = true;
            return self.end.is_some().then_some(None).ok_or_else(|| "no `finish`".to_owned());
        }
        let frame: Value =
            serde_json::from_str(data).map_err(|error| format!("a frame is not JSON: {error}"))?;
        self.read_frame(&frame)
            .map_err(|reason| format!("{reason} in {}", describe_found("a frame", data)))
    }

    fn read_frame(&mut self, frame: &Value) -> Result<Option<Piece>, String> {
        match read_text(frame, "type")? {
            "text-start" => self.is_text_start = true,
            "text-end" => return Ok(Some(Piece::TextEnd)),
            // Texts that follow each other begin on lines of their own.
            "text-delta"
                if self.is_text_start && SEPARATORS.iter().any(|one| frame["delta"] == *one) =>
            {
                return Ok(None);
            }
            _ => return Ok(self.read_event(frame)?.map(Piece::Event)),
        }
        Ok(None)
    }

    fn read_event(&mut self, frame: &Value) -> Result<Option<AiEvent>, String> {
        let kind = read_text(frame, "type")?;
        if let Some(name) = kind.strip_prefix("data-") {
            return read_fact(name, read_member(frame, "data")?);
        }
        Ok(match kind {
            "start" => {
                let thread = frame.pointer("/messageMetadata/threadId").and_then(Value::as_str);
                self.thread = thread.map(str::to_owned);
                None
            }
            "text-delta" => {
                self.is_text_start = false;
                Some(AiEvent::TextDelta { delta: read_text(frame, "delta")?.to_owned() })
            }
            "reasoning-delta" => {
                Some(AiEvent::ReasoningDelta { delta: read_text(frame, "delta")?.to_owned() })
            }
            "tool-input-available" => self.read_call(frame)?,
            "tool-output-available" => {
                self.read_result(frame, read_member(frame, "output")?, false)?
            }
            "tool-output-error" => {
                self.read_result(frame, read_member(frame, "errorText")?, true)?
            }
            "error" => {
                self.failure = Some(read_text(frame, "errorText")?.to_owned());
                None
            }
            "abort" => {
                self.is_cancelled = true;
                None
            }
            "finish" => {
                self.end = Some(self.read_end(read_text(frame, "finishReason")?)?);
                None
            }
            "start-step"
            | "finish-step"
            | "reasoning-start"
            | "reasoning-end"
            | "tool-input-start"
            | "tool-input-delta"
            | "tool-approval-request"
            | "file" => None,
            _ => return Err("an unknown type".to_owned()),
        })
    }

    fn read_call(&mut self, frame: &Value) -> Result<Option<AiEvent>, String> {
        let id = read_call_id(frame)?;
        let name = read_text(frame, "toolName")?.to_owned();
        if QUESTIONS.contains(&name.as_str()) {
            self.questions.push(id.to_string());
            return Ok(None);
        }
        let args = read_member(frame, "input")?.clone();
        Ok(Some(AiEvent::ToolCallStart {
            tool_call_id: id,
            tool_name: name,
            args,
            charged: true,
            task: None,
            ns: String::new(),
        }))
    }

    fn read_result(
        &self,
        frame: &Value,
        result: &Value,
        is_error: bool,
    ) -> Result<Option<AiEvent>, String> {
        let id = read_call_id(frame)?;
        let is_question = self.questions.iter().any(|question| question == id.as_str());
        let result = result.clone();
        let event = AiEvent::ToolCallResult { tool_call_id: id, result, is_error, task: None };
        Ok((!is_question).then_some(event))
    }

    fn read_end(&mut self, reason: &str) -> Result<End, String> {
        Ok(match reason {
            "stop" => End::Completed,
            "tool-calls" => End::Asks,
            "error" => End::Failed(self.failure.take().unwrap_or_default()),
            "other" if self.is_cancelled => End::Cancelled,
            "other" => End::Waits,
            _ => return Err("an unknown reason".to_owned()),
        })
    }
}

/// Reads a data part; parts that say nothing to a person have no event.
fn read_fact(name: &str, data: &Value) -> Result<Option<AiEvent>, String> {
    Ok(match name {
        "retry" => {
            let reset = AttemptReset::of_node(data["node"].as_str().unwrap_or("model"));
            let message = data["message"].as_str().and_then(|id| MessageId::new(id).ok());
            Some(AiEvent::AttemptReset(AttemptReset { message, ..reset }))
        }
        "tool-result" => Some(AiEvent::ToolCallResult {
            tool_call_id: read_call_id(data)?,
            result: read_member(data, "result")?.clone(),
            is_error: data["isError"] == true,
            task: None,
        }),
        "store" if data["available"] == true => Some(AiEvent::StoreAvailable),
        "store" => {
            let code = data["code"].as_str().filter(|code| is_code(code)).unwrap_or("W0204");
            let message = "the store of the server accepts no writes";
            let fault = serde_json::json!({"code": code, "message": message});
            let fault =
                serde_json::from_value::<Fault>(fault).map_err(|error| error.to_string())?;
            Some(AiEvent::StoreUnavailable { fault })
        }
        _ => None,
    })
}

/// Returns `true` for texts in the form of error codes, such as `W0204`.
fn is_code(text: &str) -> bool {
    let digits = text.strip_prefix('W').unwrap_or_default();
    digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_member<'a>(value: &'a Value, name: &str) -> Result<&'a Value, String> {
    value.get(name).ok_or_else(|| format!("no `{name}`"))
}

fn read_text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    read_member(value, name)?.as_str().ok_or_else(|| format!("`{name}` is not a text"))
}

fn read_call_id(value: &Value) -> Result<ToolCallId, String> {
    ToolCallId::new(read_text(value, "toolCallId")?).map_err(|error| error.to_string())
}

/// Describes what was found, by its beginning.
fn describe_found(what: &str, text: &str) -> String {
    format!("{what} `{}`", weftwork_cli_base::terminal::shorten(text, 80))
}

#[cfg(test)]
mod tests {
    use super::{End, FRAME_BYTES_MAX, Frames, Piece};
    use serde_json::{Value, json};
    use weftwork::types::event::AiEvent;

    fn frames(frames: &[Value]) -> String {
        let frames = frames.iter().map(|frame| format!("data: {frame}\n\n"));
        frames.collect::<String>() + "data: [DONE]\n\n"
    }

    #[test]
    fn a_stream_is_read_in_any_pieces() {
        let text = frames(&[
            json!({"type": "start", "messageId": "m", "messageMetadata": {"threadId": "t"}}),
            json!({"type": "start-step"}),
            json!({"type": "text-delta", "id": "1", "delta": "Hällo"}),
            json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "find",
                "input": {"a": 1}}),
            json!({"type": "tool-output-available", "toolCallId": "c", "output": 2}),
            json!({"type": "tool-input-available", "toolCallId": "q", "toolName": "ask_human",
                "input": {"question": "?"}}),
            json!({"type": "data-question", "data": {"kind": "question"}}),
            json!({"type": "finish", "finishReason": "tool-calls"}),
        ]);
        let text = format!(": keep-alive\n\n{text}");
        for size in [1, 7, text.len()] {
            let mut reader = Frames::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.extend(reader.read(piece).expect("frames"));
            }
            assert_eq!((reader.end(), reader.thread.as_deref()), (Some(&End::Asks), Some("t")));
            let [
                Piece::Event(AiEvent::TextDelta { delta }),
                Piece::Event(AiEvent::ToolCallStart { args, .. }),
                Piece::Event(AiEvent::ToolCallResult { result, .. }),
            ] = &events[..]
            else {
                panic!("{events:?}")
            };
            assert_eq!((delta.as_str(), args, result), ("Hällo", &json!({"a": 1}), &json!(2)));
        }
    }

    #[test]
    fn texts_that_follow_each_other_are_on_lines_of_their_own() {
        let delta = |delta: &str| json!({"type": "text-delta", "id": "1", "delta": delta});
        let start = json!({"type": "text-start", "id": "1"});
        let end = json!({"type": "text-end"});
        let all =
            [start.clone(), delta("One."), end.clone(), start, delta("\n\n"), delta("Two."), end];
        let text = all.iter().map(|frame| format!("data: {frame}\n\n")).collect::<String>();
        let pieces = Frames::default().read(text.as_bytes()).expect("frames");
        let text = |delta: &str| Piece::Event(AiEvent::TextDelta { delta: delta.to_owned() });
        assert_eq!(pieces, [text("One."), Piece::TextEnd, text("Two."), Piece::TextEnd]);
    }

    #[test]
    fn codes_of_other_forms_are_replaced() {
        for (code, expected) in
            [("W0205", "W0205"), ("W02\u{1b}", "W0204"), ("X0205", "W0204"), ("W02055", "W0204")]
        {
            let frame = json!({"type": "data-store", "data": {"available": false, "code": code}});
            let text = format!("data: {frame}\n\n");
            let pieces = Frames::default().read(text.as_bytes()).expect("a frame");
            let [Piece::Event(AiEvent::StoreUnavailable { fault })] = &pieces[..] else {
                panic!("{pieces:?}")
            };
            assert_eq!(fault.code, expected);
        }
    }

    #[test]
    fn ends_have_their_reasons() {
        for (before, reason, expected) in [
            (None, "stop", End::Completed),
            (Some(json!({"type": "abort", "reason": "stopped"})), "other", End::Cancelled),
            (None, "other", End::Waits),
            (
                Some(json!({"type": "error", "errorText": "no luck (W0109)"})),
                "error",
                End::Failed("no luck (W0109)".to_owned()),
            ),
        ] {
            let finish = json!({"type": "finish", "finishReason": reason});
            let all: Vec<_> = before.into_iter().chain([finish]).collect();
            let mut reader = Frames::default();
            reader.read(frames(&all).as_bytes()).expect("frames");
            assert_eq!(reader.end(), Some(&expected));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("data: {}", "x".repeat(FRAME_BYTES_MAX));
        for (text, says) in [
            ("event: x\ndata: {}\n\n", "an event with the name `x`"),
            ("data: {\n\n", "not JSON"),
            ("data: {\"type\":\"party\"}\n\n", "an unknown type in a frame `{\"type\":\"party\"}`"),
            ("data: {\"type\":\"text-delta\"}\n\n", "no `delta`"),
            ("data: {\"type\":\"finish\",\"finishReason\":\"fun\"}\n\n", "an unknown reason"),
            (
                "data: {\"type\":\"tool-output-available\",\"toolCallId\":\" \",\"output\":1}\n\n",
                "not valid",
            ),
            ("data: [DONE]\n\n", "no `finish`"),
            (&long, "longer than 1048576 bytes"),
        ] {
            let error = Frames::default().read(text.as_bytes()).expect_err(says);
            assert!(error.contains(says), "{error}");
        }
        let mut reader = Frames::default();
        let end = frames(&[json!({"type": "finish", "finishReason": "stop"})]);
        let (finish, done) = end.split_at(end.find("data: [DONE]").expect("the last frame"));
        reader.read(finish.as_bytes()).expect("a frame");
        assert_eq!(reader.end(), None, "the last frame is missing");
        reader.read(done.as_bytes()).expect("a frame");
        reader.read(b"data: {}\n\n").expect_err("nothing follows");
    }
}
