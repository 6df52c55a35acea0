//! Tables with aligned columns.

use super::{Style, Terminal};
use crate::CliError;

/// A table. Columns are separated by two spaces, and rows have no colours or rules, so that
/// programs can parse them.
#[derive(Debug)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| super::shorten(&cell, 200)).collect());
    }

    pub fn write(&self, terminal: &Terminal) -> Result<(), CliError> {
        self.lines(terminal).iter().try_for_each(|line| terminal.line(line))
    }

    pub fn lines(&self, terminal: &Terminal) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(self.head.get(column).map_or(0, |cell| cell.len()))
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |cells: &[&str]| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let head = std::iter::once(terminal.paint(Style::Quiet, line(&self.head)));
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect::<Vec<_>>());
        head.chain(rows.map(|row| line(&row))).collect()
    }
}
