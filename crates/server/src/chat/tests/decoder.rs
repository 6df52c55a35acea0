//! A decoder of both formats that refuses what a decoder of a front end refuses.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The state of a decoder that accepts what all known decoders accept.
#[derive(Default)]
pub(super) struct Decoder {
    block: Option<String>,
    blocks: BTreeSet<String>,
    /// Calls: `false` until their arguments are complete.
    pub(super) calls: BTreeMap<String, bool>,
    pub(super) results: BTreeSet<String>,
    step: bool,
    pub(super) finished: Option<String>,
}

impl Decoder {
    fn start_call(&mut self, id: &str) {
        assert!(self.calls.insert(id.to_owned(), false).is_none(), "second start of {id}");
    }

    fn piece(&mut self, id: &str) {
        assert_eq!(self.calls.get(id), Some(&false), "a piece for {id}");
    }

    fn complete(&mut self, id: &str) {
        assert_eq!(self.calls.insert(id.to_owned(), true), Some(false), "arguments of {id}");
    }

    fn result(&mut self, id: &str) {
        assert_eq!(self.calls.get(id), Some(&true), "a result before its arguments: {id}");
        assert!(self.results.insert(id.to_owned()), "second result of {id}");
    }

    fn step(&mut self, begins: bool) {
        assert_ne!(self.step, begins, "steps alternate");
        self.step = begins;
    }

    fn finish(&mut self, reason: &str) {
        assert_eq!(self.block, None);
        assert!(self.calls.values().all(|complete| *complete), "open arguments: {:?}", self.calls);
        assert!(!self.step, "an open step");
        let pauses = reason == "tool-calls";
        let open: Vec<_> = self.calls.keys().filter(|id| !self.results.contains(*id)).collect();
        assert!(pauses || reason == "other" || open.is_empty(), "{reason}: {open:?}");
        assert!(self.finished.replace(reason.to_owned()).is_none(), "a second end");
    }

    pub(super) fn ui_stream(frames: &str) -> Self {
        let mut decoder = Self::default();
        assert!(frames.ends_with("data: [DONE]\n\n"));
        let mut chunks = frames.split_terminator("\n\n").peekable();
        let mut first = true;
        while let Some(chunk) = chunks.next() {
            let data = chunk.strip_prefix("data: ").expect("a frame of data");
            assert!(!data.contains('\n'), "one line: {data}");
            if data == "[DONE]" {
                assert!(decoder.finished.is_some() && chunks.peek().is_none());
                break;
            }
            let chunk: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(first, chunk["type"] == "start", "{chunk}");
            first = false;
            decoder.chunk(&chunk);
        }
        decoder
    }

    fn chunk(&mut self, chunk: &Value) {
        let kind = chunk["type"].as_str().expect("a type");
        let text = |name: &str| chunk[name].as_str().unwrap_or_else(|| panic!("{name}: {chunk}"));
        let is_fact = kind.starts_with("data-") && chunk["transient"] == true;
        let of_block =
            kind.ends_with("-delta") && !kind.starts_with("tool") || kind.ends_with("-end");
        assert!(self.block.is_none() || of_block || is_fact, "within a block: {chunk}");
        assert!(self.finished.is_none(), "after the end: {chunk}");
        match kind {
            "start" => assert!(chunk["messageMetadata"].is_object()),
            "start-step" => self.step(true),
            "finish-step" => {
                assert!(chunk["usage"]["inputTokens"].is_u64());
                self.step(false);
            }
            "text-start" | "reasoning-start" => {
                assert!(self.blocks.insert(text("id").to_owned()), "a second block: {chunk}");
                self.block = Some(text("id").to_owned());
            }
            "text-delta" | "reasoning-delta" => {
                assert_eq!(self.block.as_deref(), Some(text("id")));
                assert!(!text("delta").is_empty());
            }
            "text-end" | "reasoning-end" => {
                assert_eq!(self.block.take().as_deref(), Some(text("id")))
            }
            "tool-input-start" => {
                assert!(!text("toolName").is_empty());
                self.start_call(text("toolCallId"));
            }
            "tool-input-delta" => {
                assert!(chunk["inputTextDelta"].is_string());
                self.piece(text("toolCallId"));
            }
            "tool-input-available" => {
                assert!(chunk.get("input").is_some());
                self.complete(text("toolCallId"));
            }
            "tool-output-available" => {
                assert!(chunk["output"].to_string().len() <= crate::chat::cut::PART_BYTES_MAX);
                self.result(text("toolCallId"));
            }
            "tool-output-error" => {
                assert!(chunk["errorText"].is_string());
                self.result(text("toolCallId"));
            }
            "tool-approval-request" => {
                assert_eq!(self.calls.get(text("toolCallId")), Some(&true));
                assert!(!self.results.contains(text("toolCallId")));
            }
            "error" | "abort" => {}
            "finish" => self.finish(text("finishReason")),
            kind => assert!(kind.starts_with("data-"), "not known: {chunk}"),
        }
    }

    pub(super) fn data_stream(frames: &str) -> Self {
        let mut decoder = Self::default();
        assert!(frames.ends_with('\n'));
        for line in frames.lines() {
            let (code, value) = line.split_once(':').expect("a code");
            let value: Value = serde_json::from_str(value).expect("JSON");
            assert!(decoder.finished.is_none(), "after the end: {line}");
            let text =
                |name: &str| value[name].as_str().unwrap_or_else(|| panic!("{name}: {line}"));
            match code {
                "0" | "g" | "3" => assert!(value.is_string()),
                "2" => assert!(value.is_array()),
                "aui-data" => assert!(value["name"].is_string() && value.get("data").is_some()),
                "b" => decoder.start_call(text("toolCallId")),
                "c" if value["isFinal"] == true => decoder.complete(text("toolCallId")),
                "c" => decoder.piece(text("toolCallId")),
                "a" => decoder.result(text("toolCallId")),
                "f" => decoder.step(true),
                "e" => decoder.step(false),
                "k" => {}
                "d" => decoder.finish(text("finishReason")),
                code => panic!("not known: {code}"),
            }
        }
        decoder
    }
}
