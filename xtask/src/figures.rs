//! Statistics and tables for the output of this tool.

/// Median, 95th percentile and maximum of some sizes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) median: usize,
    pub(crate) p95: usize,
    pub(crate) max: usize,
}

impl Spread {
    /// Computes the spread of the sizes; zeros if there are none.
    pub(crate) fn of(mut sizes: Vec<usize>) -> Self {
        sizes.sort_unstable();
        let at = |percent: usize| {
            let index = (sizes.len() * percent).div_ceil(100).saturating_sub(1);
            sizes.get(index).copied().unwrap_or_default()
        };
        Self { median: at(50), p95: at(95), max: at(100) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.median, self.p95, self.max)
    }
}

/// Formats rows as columns: the first aligned left, the others right.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let length = |cell: Option<&String>| cell.map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..count)
        .map(|index| rows.iter().map(|row| length(row.get(index))).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Spread, columns};

    #[test]
    fn a_spread_takes_the_nearest_rank() {
        let spread = Spread::of((1..=20).rev().collect());
        assert_eq!(spread, Spread { median: 10, p95: 19, max: 20 });
        assert_eq!(Spread::of(vec![7]), Spread { median: 7, p95: 7, max: 7 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }

    #[test]
    fn columns_line_up() {
        let rows =
            [vec!["a".to_owned(), "100".to_owned()], vec!["long".to_owned(), "1".to_owned()]];
        assert_eq!(columns(&rows), "a     100\nlong    1\n");
    }
}
