//! SVG: no scripts, no fonts, nothing from elsewhere; every text escaped.

use super::layout::{Layout, Point, Size, lay_out};
use super::{Drawing, Kind, Style};
use crate::compiled::CompiledGraph;
use std::fmt::Write;

const LINE_HEIGHT: f64 = 34.0;
/// About the width of a letter of the font.
const LETTER: f64 = 8.0;
const PADDING: f64 = 16.0;
const TITLE: f64 = 26.0;
const LOOP: f64 = 22.0;
const MARGIN: f64 = 12.0;
/// Letters of a name that are shown; all of it is in the title.
const SHOWN_MAX: usize = 40;

const STYLE: &str = "text{font:14px system-ui,sans-serif;text-anchor:middle;fill:#1f2328}\
rect{fill:#fff;stroke:#57606a}rect.within{fill:#f6f8fa}rect.end{fill:#ddf4ff}rect.any{stroke-dasharray:3 3}\
path{fill:none;stroke:#57606a;stroke-width:1.4}path.route{stroke-dasharray:5 4}marker path{fill:#57606a;stroke:none}";

/// A graph as an SVG image.
pub(crate) fn svg(graph: &CompiledGraph) -> String {
    let drawing = Drawing::of(graph);
    let measured = Measured::of(&drawing);
    let width = measured.layout.size.width + 2.0 * MARGIN;
    let height = measured.layout.size.height + 2.0 * MARGIN;
    let name = escape_xml(graph.name());
    let mut out = String::new();
    // Writing to a string cannot fail.
    let written = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width:.0}\" \
         height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <title>{name}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"weft-arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/>\
         </marker></defs>\n"
    );
    let drawn =
        written.and_then(|()| write_drawing(&mut out, &measured, Point { x: MARGIN, y: MARGIN }));
    drawn.unwrap_or_default();
    out.push_str("</svg>\n");
    out
}

/// A drawing with the sizes and places of its boxes.
struct Measured<'a> {
    drawing: &'a Drawing,
    sizes: Vec<Size>,
    inner: Vec<Option<Measured<'a>>>,
    layout: Layout,
}

impl<'a> Measured<'a> {
    fn of(drawing: &'a Drawing) -> Self {
        let inner: Vec<_> = drawing.boxes.iter().map(|b| b.inner.as_ref().map(Self::of)).collect();
        let sizes: Vec<_> = drawing
            .boxes
            .iter()
            .zip(&inner)
            .map(|(b, inner)| box_size(&b.name, inner.as_ref().map(|inner| inner.layout.size)))
            .collect();
        let lines: Vec<_> = drawing.lines.iter().map(|line| (line.from, line.to)).collect();
        // A line from a box to itself is drawn beside it.
        let roomy = sizes.iter().enumerate().map(|(i, size)| {
            let turns = lines.contains(&(i, i));
            Size { width: size.width + if turns { 2.0 * LOOP } else { 0.0 }, ..*size }
        });
        let layout = lay_out(&roomy.collect::<Vec<_>>(), &lines);
        Self { drawing, sizes, inner, layout }
    }
}

fn box_size(name: &str, inner: Option<Size>) -> Size {
    let text = shorten_name(name);
    let text = text.chars().map(|c| if c.is_ascii() { LETTER } else { 2.0 * LETTER });
    let width = (text.sum::<f64>() + 2.0 * PADDING).max(60.0);
    match inner {
        None => Size { width, height: LINE_HEIGHT },
        Some(inner) => Size {
            width: width.max(inner.width + 2.0 * PADDING),
            height: inner.height + TITLE + PADDING,
        },
    }
}

fn write_drawing(out: &mut String, measured: &Measured<'_>, corner: Point) -> std::fmt::Result {
    writeln!(out, "<g transform=\"translate({:.0} {:.0})\">", corner.x, corner.y)?;
    let places = measured.sizes.iter().zip(&measured.layout.middles);
    for ((shape, (size, middle)), inner) in
        measured.drawing.boxes.iter().zip(places).zip(&measured.inner)
    {
        let left = Point { x: middle.x - size.width / 2.0, y: middle.y - size.height / 2.0 };
        let (class, round) = match (shape.kind, inner) {
            (Kind::Start | Kind::End, _) => (" class=\"end\"", size.height / 2.0),
            (Kind::Anywhere, _) => (" class=\"any\"", size.height / 2.0),
            (Kind::Node, Some(_)) => (" class=\"within\"", 8.0),
            (Kind::Node, None) => ("", 6.0),
        };
        writeln!(
            out,
            "<rect{class} x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"{round:.0}\"/>",
            left.x, left.y, size.width, size.height
        )?;
        let base = if inner.is_some() { left.y + 18.0 } else { middle.y + 5.0 };
        write_label(out, &shape.name, middle.x, base)?;
        if let Some(inner) = inner {
            let x = middle.x - inner.layout.size.width / 2.0;
            write_drawing(out, inner, Point { x, y: left.y + TITLE })?;
        }
    }
    write_lines(out, measured)?;
    out.push_str("</g>\n");
    Ok(())
}

fn write_label(out: &mut String, name: &str, x: f64, y: f64) -> std::fmt::Result {
    let text = shorten_name(name);
    let title =
        if text == name { String::new() } else { format!("<title>{}</title>", escape_xml(name)) };
    writeln!(out, "<text x=\"{x:.0}\" y=\"{y:.0}\">{title}{}</text>", escape_xml(&text))
}

fn write_lines(out: &mut String, measured: &Measured<'_>) -> std::fmt::Result {
    for (line, way) in measured.drawing.lines.iter().zip(&measured.layout.ways) {
        let class = match line.style {
            Style::Edge => "",
            Style::Route => " class=\"route\"",
        };
        let way =
            if line.from == line.to { self_loop(measured, line.from) } else { curve_path(way) };
        writeln!(out, "<path{class} marker-end=\"url(#weft-arrow)\" d=\"{way}\"/>")?;
    }
    Ok(())
}

/// A line through points, straight down or up at each.
fn curve_path(way: &[Point]) -> String {
    let mut path = String::new();
    for (i, point) in way.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| way.get(i));
        let piece = match before {
            None => format!("M{:.0} {:.0}", point.x, point.y),
            Some(before) if before.x.round() == point.x.round() => format!("V{:.0}", point.y),
            Some(before) => {
                let half = (before.y + point.y) / 2.0;
                format!(
                    "C{:.0} {half:.0} {:.0} {half:.0} {:.0} {:.0}",
                    before.x, point.x, point.x, point.y
                )
            }
        };
        path.push_str(&piece);
    }
    path
}

/// A line from a box to itself, at its right.
fn self_loop(measured: &Measured<'_>, index: usize) -> String {
    let (Some(size), Some(middle)) =
        (measured.sizes.get(index), measured.layout.middles.get(index))
    else {
        return String::new();
    };
    let x = middle.x + size.width / 2.0;
    let y = middle.y;
    let out = x + LOOP;
    format!(
        "M{x:.0} {:.0}C{out:.0} {:.0} {out:.0} {:.0} {x:.0} {:.0}",
        y + 8.0,
        y + 14.0,
        y - 14.0,
        y - 8.0
    )
}

fn shorten_name(name: &str) -> String {
    match name.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A text as XML. What XML cannot hold is shown as a sign for it.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
