//! Layout of a drawing: boxes in layers from the top down, and lines between them.
//!
//! Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
//! structures" (1981): lines that lead back are turned round, layers by the longest way, order by
//! the middle of the neighbours. Places within a layer are the nearest to the neighbours that keep
//! the order (`place`).

use super::place::{Item, place_items};

const GAP_X: f64 = 28.0;
const GAP_Y: f64 = 46.0;
const SWEEPS: usize = 8;

/// Width and height of a box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A place in a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Positions of all boxes and lines.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) size: Size,
    /// The middle of each box.
    pub(super) middles: Vec<Point>,
    /// The points of each line, from its beginning to its end; none for one from a box to itself.
    pub(super) ways: Vec<Vec<Point>>,
}

/// A box, or a place where a long line passes a layer.
#[derive(Debug, Clone, Copy)]
struct Cell {
    width: f64,
    layer: usize,
    x: f64,
}

/// Lays boxes of these sizes out, with lines between them.
pub(super) fn lay_out(sizes: &[Size], lines: &[(usize, usize)]) -> Layout {
    let turned = leads_back(sizes.len(), lines);
    let down: Vec<_> = lines
        .iter()
        .zip(&turned)
        .map(|((from, to), turned)| if *turned { (*to, *from) } else { (*from, *to) })
        .collect();
    let layers = assign_layers(sizes.len(), &down);
    let mut cells: Vec<Cell> = sizes
        .iter()
        .zip(&layers)
        .map(|(size, layer)| Cell { width: size.width, layer: *layer, x: 0.0 })
        .collect();
    let chains = build_chains(&mut cells, &down);
    let rows = order_by_walk(&cells, &chains);
    let rows = order_rows(rows, &chains, cells.len());
    put_cells(&mut cells, &rows, &chains);
    draw_layout(sizes, &cells, &turned, &chains)
}

/// Finds the lines that lead back to where they come from, or stay at one box.
fn leads_back(boxes: usize, lines: &[(usize, usize)]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        Open,
        Closed,
    }
    let mut seen = vec![Seen::Not; boxes];
    let mut back = vec![false; lines.len()];
    let mut leaves: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    for (line, (from, _)) in lines.iter().enumerate() {
        leaves[*from].push(line);
    }
    for first in 0..boxes {
        if seen[first] != Seen::Not {
            continue;
        }
        seen[first] = Seen::Open;
        let mut open = vec![(first, 0)];
        while let Some((at, next)) = open.pop() {
            let Some(line) = leaves[at].get(next) else {
                seen[at] = Seen::Closed;
                continue;
            };
            open.push((at, next + 1));
            let to = lines[*line].1;
            match seen[to] {
                Seen::Open => back[*line] = true,
                Seen::Not => {
                    seen[to] = Seen::Open;
                    open.push((to, 0));
                }
                Seen::Closed => {}
            }
        }
    }
    back
}

/// The layer of each box: one below the lowest that leads to it.
fn assign_layers(boxes: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; boxes];
    let mut waits = vec![0; boxes];
    let between = || down.iter().filter(|(from, to)| from != to);
    between().for_each(|(_, to)| waits[*to] += 1);
    let mut free: Vec<usize> = (0..boxes).rev().filter(|i| waits[*i] == 0).collect();
    while let Some(at) = free.pop() {
        for (_, to) in between().filter(|(from, _)| *from == at) {
            layers[*to] = layers[*to].max(layers[at] + 1);
            waits[*to] -= 1;
            if waits[*to] == 0 {
                free.push(*to);
            }
        }
    }
    layers
}

/// The cells that each line passes from the top down; cells are added where it passes a layer.
fn build_chains(cells: &mut Vec<Cell>, down: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let chain = |(from, to): &(usize, usize)| {
        if from == to {
            return Vec::new();
        }
        let mut chain = vec![*from];
        for layer in cells[*from].layer + 1..cells[*to].layer {
            cells.push(Cell { width: 0.0, layer, x: 0.0 });
            chain.push(cells.len() - 1);
        }
        chain.push(*to);
        chain
    };
    down.iter().map(chain).collect()
}

/// The cells of each layer, in the order in which a walk along the lines finds them.
fn order_by_walk(cells: &[Cell], chains: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = cells.iter().map(|cell| cell.layer + 1).max().unwrap_or_default();
    let mut rows = vec![Vec::new(); count];
    let mut known = vec![false; cells.len()];
    let along = chains.iter().flatten().copied();
    for cell in std::iter::once(0).chain(along).chain(0..cells.len()) {
        if let Some(seen) = known.get_mut(cell).filter(|seen| !**seen) {
            *seen = true;
            rows[cells[cell].layer].push(cell);
        }
    }
    rows
}

/// The neighbours of each cell above and below it.
fn find_neighbours(cells: usize, chains: &[Vec<usize>]) -> [Vec<Vec<usize>>; 2] {
    let mut above = vec![Vec::new(); cells];
    let mut below = vec![Vec::new(); cells];
    for pair in chains.iter().flat_map(|chain| chain.windows(2)) {
        if let [upper, lower] = pair {
            above[*lower].push(*upper);
            below[*upper].push(*lower);
        }
    }
    [above, below]
}

/// The rows from the top down, or from the bottom up.
fn sweep_rows(rows: usize, turn: usize) -> Box<dyn Iterator<Item = usize>> {
    if turn.is_multiple_of(2) { Box::new(1..rows) } else { Box::new((0..rows.max(1) - 1).rev()) }
}

/// Each row sorted by the middle of the neighbours in the row before it, down and up again.
fn order_rows(mut rows: Vec<Vec<usize>>, chains: &[Vec<usize>], cells: usize) -> Vec<Vec<usize>> {
    let sides = find_neighbours(cells, chains);
    let mut at = vec![0.0; cells];
    let number = |row: &[usize], at: &mut [f64]| {
        row.iter().zip(0u32..).for_each(|(cell, i)| at[*cell] = f64::from(i));
    };
    rows.iter().for_each(|row| number(row, &mut at));
    for turn in 0..SWEEPS {
        let side = &sides[turn % 2];
        for index in sweep_rows(rows.len(), turn) {
            let row = &mut rows[index];
            let middles: Vec<f64> = row
                .iter()
                .map(|cell| mean_position(&side[*cell], &at).unwrap_or(at[*cell]))
                .collect();
            let mut sorted: Vec<_> = row.iter().copied().zip(middles).collect();
            sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
            *row = sorted.into_iter().map(|(cell, _)| cell).collect();
            number(row, &mut at);
        }
    }
    rows
}

fn mean_position(cells: &[usize], at: &[f64]) -> Option<f64> {
    let count = u32::try_from(cells.len()).ok().filter(|count| *count > 0)?;
    Some(cells.iter().map(|cell| at[*cell]).sum::<f64>() / f64::from(count))
}

/// Puts the cells of each row near their neighbours, side by side and in order.
fn put_cells(cells: &mut [Cell], rows: &[Vec<usize>], chains: &[Vec<usize>]) {
    let sides = find_neighbours(cells.len(), chains);
    let mut at: Vec<f64> = vec![0.0; cells.len()];
    let near = |row: &[usize], at: &mut Vec<f64>, side: Option<&Vec<Vec<usize>>>| {
        let items: Vec<Item> = row
            .iter()
            .map(|cell| Item {
                width: cells[*cell].width + GAP_X,
                wish: side.and_then(|side| mean_position(&side[*cell], at)).unwrap_or(at[*cell]),
            })
            .collect();
        row.iter().zip(place_items(&items)).for_each(|(cell, x)| at[*cell] = x);
    };
    rows.iter().for_each(|row| near(row, &mut at, None));
    // An even number less one ends with a sweep down: what follows hangs below what it follows.
    for turn in 0..SWEEPS - 1 {
        for index in sweep_rows(rows.len(), turn) {
            near(&rows[index], &mut at, Some(&sides[turn % 2]));
        }
    }
    let left = cells.iter().zip(&at).map(|(cell, x)| x - cell.width / 2.0).fold(f64::MAX, f64::min);
    cells.iter_mut().zip(&at).for_each(|(cell, x)| cell.x = (x - left).round());
}

fn draw_layout(sizes: &[Size], cells: &[Cell], turned: &[bool], chains: &[Vec<usize>]) -> Layout {
    let count = cells.iter().map(|cell| cell.layer + 1).max().unwrap_or_default();
    let mut heights = vec![0.0_f64; count];
    for (size, cell) in sizes.iter().zip(cells) {
        heights[cell.layer] = heights[cell.layer].max(size.height);
    }
    let mut top = 0.0;
    let mut middles_y = Vec::with_capacity(count);
    for height in &heights {
        middles_y.push(top + height / 2.0);
        top += height + GAP_Y;
    }
    let at = |cell: usize| Point { x: cells[cell].x, y: middles_y[cells[cell].layer] };
    // Where a cell's layer begins and ends: lines bend between layers only, and cut no corners.
    let within = |cell: usize, x: f64| {
        let Point { y, .. } = at(cell);
        let half = heights[cells[cell].layer] / 2.0;
        [Point { x, y: y - half }, Point { x, y: y + half }]
    };
    let ports = find_ports(sizes, cells, chains);
    let ways = chains.iter().zip(turned).zip(ports).map(|((chain, turned), [out, into])| {
        let mut way = Vec::new();
        if let [first, between @ .., last] = chain.as_slice() {
            let from = at(*first);
            let to = at(*last);
            let x = from.x + out;
            way.push(Point { x, y: from.y + sizes[*first].height / 2.0 });
            way.push(within(*first, x)[1]);
            way.extend(between.iter().flat_map(|cell| within(*cell, cells[*cell].x)));
            let x = to.x + into;
            way.push(within(*last, x)[0]);
            way.push(Point { x, y: to.y - sizes[*last].height / 2.0 });
            way.dedup();
        }
        if *turned {
            way.reverse();
        }
        way
    });
    let ways: Vec<_> = ways.collect();
    let right = cells.iter().map(|cell| cell.x + cell.width / 2.0).fold(0.0, f64::max);
    let size = Size { width: right, height: (top - GAP_Y).max(0.0) };
    Layout { size, middles: (0..sizes.len()).map(at).collect(), ways }
}

/// Returns the horizontal offsets at which each line leaves its upper box and enters its lower box,
/// measured from their middles: lines at the same side of a box are spread out, ordered by their
/// other ends.
fn find_ports(sizes: &[Size], cells: &[Cell], chains: &[Vec<usize>]) -> Vec<[f64; 2]> {
    let mut ports = vec![[0.0; 2]; chains.len()];
    for side in [0, 1] {
        let mut by_box: Vec<Vec<(f64, usize)>> = vec![Vec::new(); sizes.len()];
        for (line, chain) in chains.iter().enumerate() {
            let ends = match chain.as_slice() {
                [first, second, ..] if side == 0 => Some((*first, *second)),
                [.., before, last] => Some((*last, *before)),
                _ => None,
            };
            if let Some((own, other)) = ends {
                by_box[own].push((cells[other].x, line));
            }
        }
        for (size, mut lines) in sizes.iter().zip(by_box) {
            lines.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let parts = f64::from(u32::try_from(lines.len()).unwrap_or(u32::MAX)) + 1.0;
            for ((_, line), i) in lines.iter().zip(1u32..) {
                ports[*line][side] = (size.width * (f64::from(i) / parts - 0.5)).round();
            }
        }
    }
    ports
}
