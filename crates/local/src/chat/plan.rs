//! The tool that a request is for, and its parts that need further calls.

use super::copy::{Copier, Form, Offer, Said, overlap};
use super::turn::{self, Turn};
use super::words::{self, Own};
use serde_json::Value;
use std::ops::Range;
use weftwork_types::tool::ToolSpec;

/// The tools with their words, for one request.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    tools: &'a [ToolSpec],
    copier: &'a Copier,
    own: Vec<Own>,
    /// The words that only one of the tools has.
    apart: Vec<Own>,
    /// The words that only the name of one of the tools has.
    names: Vec<Own>,
}

/// A part of a request that may need another call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    /// The part.
    pub(super) part: Range<usize>,
    /// `true` if its values were used by other calls and may be used again.
    pub(super) again: bool,
}

impl<'a> Desk<'a> {
    pub(super) fn new(tools: &'a [ToolSpec], copier: &'a Copier) -> Self {
        let own: Vec<Own> = tools.iter().map(Own::of).collect();
        let names: Vec<Own> = tools.iter().map(Own::name).collect();
        let apart_of_own = apart(&own);
        Self { tools, copier, own, apart: apart_of_own, names: apart(&names) }
    }

    /// The tool whose name a text contains, if there is only one, and `true` if the text asks for
    /// it: then the text is for that tool.
    pub(super) fn named(&self, text: &str) -> Option<(usize, bool)> {
        let mut named = (0..self.tools.len()).filter(|at| self.names[*at].speaks_in(text));
        let index = named.next().filter(|at| self.is_possible(*at, text))?;
        let wanted = words::wishes(text) || self.copier.offers_any(&self.tools[index], text);
        named.next().is_none().then_some((index, wanted))
    }

    /// `true` if a text can be for a tool: it mentions the tool or has the values that the tool
    /// needs. The tool that asks the person is only for missing arguments.
    pub(super) fn is_possible(&self, index: usize, text: &str) -> bool {
        let Some(tool) = self.tools.get(index) else { return true };
        !turn::asks(tool) && (self.copier.offers_any(tool, text) || self.own[index].speaks_in(text))
    }

    /// The words for a call of a tool, without those that other calls used and those in parts of
    /// the request that only mention other tools.
    pub(super) fn said(&self, index: usize, turn: &Turn<'_>) -> Said {
        let tool = &self.tools[index];
        let said = Said { used: self.used_positions(turn), ..turn.said(tool) };
        let foreign: Vec<Range<usize>> = words::segments(&said.request)
            .into_iter()
            .filter(|part| {
                let text = &said.request[part.clone()];
                let speaks = |at: usize| self.apart[at].speaks_in(text);
                !self.own[index].speaks_in(text) && (0..self.tools.len()).any(speaks)
            })
            .collect();
        let narrow = Said { used: [&said.used[..], &foreign].concat(), ..said.clone() };
        let complete = |said: &Said| self.copier.form(tool, said).missing().next().is_none();
        if !foreign.is_empty() && complete(&narrow) { narrow } else { said }
    }

    /// The positions of the arguments of the calls so far in the request.
    fn used_positions(&self, turn: &Turn<'_>) -> Vec<Range<usize>> {
        let mut said = Said { request: turn.request.clone(), ..Said::default() };
        for call in &turn.made {
            let tool = self.tools.iter().find(|tool| tool.wire_name() == call.name);
            let taken = tool.map(|tool| self.copier.taken(tool, &call.args, &said));
            said.used.extend(taken.into_iter().flatten());
        }
        said.used
    }

    /// The tool that was called last, if the request has another value of the same kind in a list
    /// with a value it used: `in Oslo and in Cairo`.
    pub(super) fn listed(&self, turn: &Turn<'_>) -> Option<usize> {
        let used = self.used_positions(turn);
        turn.made.iter().rev().find_map(|call| {
            let index = self.tools.iter().position(|tool| tool.wire_name() == call.name)?;
            let spots = self.copier.spots(&self.tools[index], &turn.request);
            let form = self.form_of_rest(index, turn, &used);
            let complete = form.missing().next().is_none();
            spots
                .iter()
                .any(|(name, spots)| {
                    let text = spots.first().is_some_and(|spot| spot.value.is_string());
                    let fresh = call.args.get(name).is_some_and(|value| !value.is_null());
                    fresh && (complete || text) && self.goes_on(index, turn, spots, &used)
                })
                .then_some(index)
        })
    }

    fn form_of_rest(&self, index: usize, turn: &Turn<'_>, used: &[Range<usize>]) -> Form {
        let tool = &self.tools[index];
        self.copier.form(tool, &Said { used: used.to_vec(), ..turn.said(tool) })
    }

    /// `true` if a list of values continues after the used ones.
    fn goes_on(
        &self,
        index: usize,
        turn: &Turn<'_>,
        spots: &[Offer],
        used: &[Range<usize>],
    ) -> bool {
        let mut places: Vec<Range<usize>> = Vec::new();
        for at in spots.iter().filter_map(|spot| spot.at.clone()) {
            // Of nested runs the longest is used.
            places.retain(|other| !(at.start <= other.start && other.end <= at.end));
            if !places.iter().any(|other| other.start <= at.start && at.end <= other.end) {
                places.push(at);
            }
        }
        places.sort_by_key(|at| at.start);
        let is_used = |at: &Range<usize>| used.iter().any(|u| overlap(u, at));
        let mut joined = false;
        let mut has_used = false;
        let mut has_free = false;
        for (number, at) in places.iter().enumerate() {
            let gap = number.checked_sub(1).map(|before| places[before].end..at.start);
            if let Some(gap) = gap {
                let words: Vec<&str> = words::places(&turn.request[gap.clone()])
                    .into_iter()
                    .filter(|word| {
                        let at = gap.start + word.start..gap.start + word.end;
                        !is_used(&at) && !turn.request[at].contains(char::is_numeric)
                    })
                    .map(|word| &turn.request[gap.start + word.start..gap.start + word.end])
                    .collect();
                let fills = |word: &&str| words::is_frame(word) || self.own[index].has(word);
                if !words.iter().all(fills) {
                    joined = false;
                    has_used = false;
                    has_free = false;
                }
                joined |= words.iter().any(|word| words::is_joint(word));
            }
            has_used |= is_used(at);
            has_free |= !is_used(at);
            if joined && has_used && has_free {
                return true;
            }
        }
        false
    }

    /// The parts of a request that may need a call that was not made.
    pub(super) fn rests(&self, turn: &Turn<'_>) -> Vec<Rest> {
        let used = self.used_positions(turn);
        let parts = words::segments(&turn.request);
        let single = parts.len() < 2;
        let meets = |part: &Range<usize>| used.iter().any(|u| overlap(u, part));
        let made = |index: usize| {
            let name = self.tools[index].wire_name();
            turn.made.iter().any(|call| call.name == name)
        };
        let rest = |part: Range<usize>| {
            let text = &turn.request[part.clone()];
            let taken = meets(&part);
            let speaks = |own: &[Own], of_made: bool| {
                (0..self.tools.len()).any(|at| made(at) == of_made && own[at].speaks_in(text))
            };
            let free = (0..self.tools.len())
                .any(|at| self.form_of_rest(at, turn, &used).takes_from(&part));
            let asks = words::asks(text);
            let again = taken && !free;
            let open = match (taken, free) {
                (_, true) => asks || speaks(&self.apart, true) || speaks(&self.apart, false),
                (true, false) => asks && !speaks(&self.apart, true),
                (false, false) => speaks(&self.apart, false),
            };
            (open && !(single && again)).then_some(Rest { part, again })
        };
        parts.into_iter().filter_map(rest).collect()
    }

    /// `true` if a tool that was selected for a remaining part is to be called for it.
    pub(super) fn answers(&self, index: usize, rest: &Rest, turn: &Turn<'_>) -> bool {
        let text = &turn.request[rest.part.clone()];
        let tool = &self.tools[index];
        let made = turn.made.iter().any(|call| call.name == tool.wire_name());
        let used = if rest.again { Vec::new() } else { self.used_positions(turn) };
        let form = self.form_of_rest(index, turn, &used);
        let fresh = form.takes_from(&rest.part);
        if rest.again || made {
            return fresh && form.missing().next().is_none() && !(rest.again && made);
        }
        self.apart[index].speaks_in(text) || fresh && form.missing().next().is_none()
    }

    /// The words for a call for a remaining part.
    pub(super) fn said_in(&self, index: usize, rest: &Rest, turn: &Turn<'_>) -> Said {
        let said = turn.said(&self.tools[index]);
        let outside = [0..rest.part.start, rest.part.end..turn.request.len()];
        match rest.again {
            true => Said { used: outside.to_vec(), ..said },
            false => {
                let used = self.used_positions(turn);
                let inside = Said { used: [&used[..], &outside].concat(), ..said.clone() };
                let form = self.copier.form(&self.tools[index], &inside);
                if form.missing().next().is_none() { inside } else { Said { used, ..said } }
            }
        }
    }
}

/// For each tool, the words that no other tool has.
fn apart(all: &[Own]) -> Vec<Own> {
    let others = |at| all.iter().enumerate().filter(move |(other, _)| *other != at);
    let apart = |at: usize| all[at].apart_from(others(at).map(|(_, own)| own));
    (0..all.len()).map(apart).collect()
}

/// The request of a tool's example with the values of a call.
pub(super) fn restated(copier: &Copier, tool: &ToolSpec, args: &Value) -> Option<String> {
    let example = tool.examples.first()?;
    let text = &example.request;
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    for (name, shown) in example.args.as_object()? {
        let value = match args.get(name).filter(|_| copier.is_copied(tool, name))? {
            Value::String(text) => text.clone(),
            Value::Number(number) => super::copy::plain(number).to_string(),
            _ => return None,
        };
        let places: Vec<Range<usize>> = match shown.as_str() {
            Some(shown) => text.match_indices(shown).map(|(at, _)| at..at + shown.len()).collect(),
            None => {
                let numbers = copier.numbers(text).into_iter();
                numbers.filter(|(n, _)| n.as_f64() == shown.as_f64()).map(|(_, at)| at).collect()
            }
        };
        let free = |at: &Range<usize>| !changes.iter().any(|(other, _)| overlap(at, other));
        changes.push((places.into_iter().find(free)?, value));
    }
    changes.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
    let mut text = text.clone();
    changes.into_iter().for_each(|(at, value)| text.replace_range(at, &value));
    Some(text)
}
