//! SVG output of plots.

use std::fmt::Write as _;

use super::scale::{CHARACTER, Scale};
use super::{Line, Plot, Style};
use crate::html::escaped;

/// The colours of pictures, light and dark.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// The text in place of the plots.
pub(crate) const NOTHING: &str =
    "Nothing to plot: no tests with spaced datagrams, no packet records";

/// Pixels of a picture.
const WIDTH: f64 = 800.0;
/// Pixels of the plot's own area.
const HEIGHT: f64 = 300.0;
const TOP: f64 = 40.0;
/// Margin right of the area, for half of the last tick's label.
const RIGHT: f64 = 40.0;
/// Margin below the area, for the labels of the ticks and of the axis.
const BELOW: f64 = 44.0;
const LEGEND_ROW: f64 = 18.0;
const SWATCH: f64 = 26.0;

/// The maximum number of characters in a title.
const LONGEST_TITLE: usize = 80;

/// The number of colours before they repeat.
const COLOURS: usize = 8;

/// The maximum number of points of a curve with a dot at each point.
const MOST_DOTS: usize = 64;

/// The number of dots above which dots are small.
const MANY: usize = 1000;

/// The maximum distance of dots, in pixels, that are merged to one stroke.
const CELL: f64 = 2.0;

/// Draws one plot as an element of a page that contains [`STYLE`].
pub(crate) fn picture(plot: &Plot) -> String {
    let (body, height) = drawn(plot);
    element(&body, height, &plot.title, "")
}

/// Draws all plots, one below the other, as a file.
pub(super) fn sheet(plots: &[Plot]) -> String {
    let mut body = String::new();
    let mut height = 0.0;
    for plot in plots {
        let (drawn, its) = drawn(plot);
        let title = escaped(&plot.title);
        let _ = writeln!(
            body,
            "<g role=\"img\" aria-label=\"{title}\" transform=\"translate(0 {height})\">{drawn}</g>"
        );
        height += its;
    }
    if plots.is_empty() {
        height = 60.0;
        body = format!("<text x=\"20\" y=\"35\">{NOTHING}</text>");
    }
    let title = match plots {
        [] => "nothing to plot",
        [plot] => &plot.title,
        _ => "plots of a test",
    };
    let style = format!(
        "<style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    element(
        &(style + &body),
        height,
        title,
        " xmlns=\"http://www.w3.org/2000/svg\"",
    )
}

fn element(body: &str, height: f64, title: &str, attributes: &str) -> String {
    format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\"{attributes}>\n<title>{}</title>{body}</svg>\n",
        escaped(title)
    )
}

/// The elements of a plot, and its height.
fn drawn(plot: &Plot) -> (String, f64) {
    let values = |of: fn(&(f64, f64)) -> f64| {
        let points = plot.lines.iter().flat_map(|line| &line.points);
        points.map(of)
    };
    let bottom = TOP + HEIGHT;
    let shown = values(|point| point.1).filter(|y| plot.limit.is_none_or(|limit| *y <= limit));
    let y = Scale::of(plot.y, shown, HEIGHT / 45.0).along(bottom, TOP);
    let left = 34.0 + y.longest() as f64 * CHARACTER;
    let right = WIDTH - RIGHT;
    let x = fitting(plot, || values(|point| point.0), right - left).along(left, right);
    let mut body = String::new();
    let _ = writeln!(
        body,
        "<text class=\"title\" x=\"{left}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}</text>",
        escaped(&shortened(&plot.title))
    );
    axes(&mut body, &x, &y, (left, right, bottom));
    // A separate element cuts off everything above the area.
    let area = HEIGHT + 4.0;
    let _ = write!(
        body,
        "<svg y=\"{TOP}\" width=\"{WIDTH}\" height=\"{area}\" viewBox=\"0 {TOP} {WIDTH} {area}\">"
    );
    for line in &plot.lines {
        curve(&mut body, line, &x, &y);
    }
    body.push_str("</svg>");
    let rows = legend(&mut body, &plot.lines, left, bottom + BELOW);
    (body, bottom + BELOW + 10.0 + rows * LEGEND_ROW)
}

/// Shortens a title to fit.
fn shortened(title: &str) -> String {
    match title.char_indices().nth(LONGEST_TITLE) {
        Some((end, _)) => format!("{}…", &title[..end]),
        None => title.to_owned(),
    }
}

/// Creates the x axis with the maximum number of ticks whose labels fit.
fn fitting<V: Iterator<Item = f64>>(plot: &Plot, values: impl Fn() -> V, width: f64) -> Scale {
    let mut most = 10.0;
    loop {
        let scale = Scale::of(plot.x, values(), most);
        let needed = (scale.longest() as f64 + 2.0) * CHARACTER * scale.ticks().len() as f64;
        if needed <= width || most <= 1.0 {
            return scale;
        }
        most -= 1.0;
    }
}

fn axes(body: &mut String, x: &Scale, y: &Scale, (left, right, bottom): (f64, f64, f64)) {
    let mut grid = String::new();
    for (value, text) in y.ticks() {
        let at = pixel(y.at(value));
        let _ = write!(grid, "M{left} {at}H{right}");
        let _ = write!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{text}</text>",
            left - 8.0,
            at + 4.0
        );
    }
    for (value, text) in x.ticks() {
        let at = pixel(x.at(value));
        let _ = write!(grid, "M{at} {TOP}V{}", bottom + 4.0);
        let _ = write!(
            body,
            "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 18.0
        );
    }
    let (middle_x, middle_y) = (f64::midpoint(left, right), f64::midpoint(TOP, bottom));
    let _ = write!(
        body,
        "\n<path class=\"grid\" d=\"{grid}\" stroke=\"#ddd\"/>\
         <path class=\"axis\" d=\"M{left} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\
         <text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        bottom + 36.0,
        escaped(&x.label()),
        escaped(&y.label())
    );
}

fn curve(body: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let points = line
        .points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite());
    let points: Vec<(f64, f64)> = points.map(|point| (x.at(point.0), y.at(point.1))).collect();
    let class = class(line.colour);
    let mut dots = String::new();
    if line.style == Style::Dots || (line.style == Style::Solid && points.len() <= MOST_DOTS) {
        for (x, from, to) in strokes(&points) {
            let _ = write!(dots, "M{} {}V{}", pixel(x), pixel(from), pixel(to));
        }
    }
    let _ = write!(
        body,
        "<g class=\"{class}\" fill=\"none\" stroke=\"currentColor\">"
    );
    if line.style != Style::Dots {
        let mut path = String::new();
        for (at, (x, y)) in decimated(&points).into_iter().enumerate() {
            let (x, y) = (pixel(x), pixel(y));
            let _ = match line.style {
                _ if at == 0 => write!(path, "M{x} {y}"),
                Style::Steps => write!(path, "V{y}H{x}"),
                _ => write!(path, "L{x} {y}"),
            };
        }
        let dash = dash(line.style);
        let _ = write!(
            body,
            "<path d=\"{path}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"{dash}/>"
        );
    }
    if !dots.is_empty() {
        let _ = write!(
            body,
            "<path d=\"{dots}\" stroke-width=\"{}\" stroke-linecap=\"round\"/>",
            dot(line)
        );
    }
    body.push_str("</g>\n");
}

fn dash(style: Style) -> &'static str {
    match style {
        Style::Dashed => " stroke-dasharray=\"5 4\"",
        _ => "",
    }
}

/// Returns the radius of dots. Many dots are small; dots of losses are larger than those around them.
fn dot(line: &Line) -> f64 {
    match (line.style, line.colour) {
        (Style::Dots, Some(_)) if line.points.len() > MANY => 2.0,
        (Style::Dots, _) => 3.0,
        _ => 4.0,
    }
}

/// Draws the names of several curves in rows. Returns the number of rows.
fn legend(body: &mut String, lines: &[Line], left: f64, top: f64) -> f64 {
    if lines.len() < 2 {
        return 0.0;
    }
    let (mut at, mut row) = (left, 0.0);
    for line in lines {
        let width = SWATCH + (line.name.chars().count() as f64 + 2.0) * CHARACTER;
        if at > left && at + width > WIDTH {
            (at, row) = (left, row + 1.0);
        }
        let y = top + 10.0 + row * LEGEND_ROW;
        let (path, width_of_stroke) = match line.style {
            Style::Dots => (format!("M{} {}h0", at + 9.0, y - 4.0), 5.0),
            _ => (format!("M{at} {}h18", y - 4.0), 2.0),
        };
        let dash = dash(line.style);
        let _ = writeln!(
            body,
            "<path class=\"{}\" d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-linecap=\"{}\" \
             stroke-width=\"{width_of_stroke}\"{dash}/><text x=\"{}\" y=\"{y}\">{}</text>",
            class(line.colour),
            if line.style == Style::Dots {
                "round"
            } else {
                "butt"
            },
            at + SWATCH - 2.0,
            escaped(&line.name)
        );
        at += width;
    }
    row + 1.0
}

fn class(colour: Option<usize>) -> String {
    colour.map_or_else(
        || "lost".to_owned(),
        |colour| format!("c{}", colour % COLOURS),
    )
}

/// Reduces a curve with many points to the first, lowest, highest and last point of each pixel column. The picture does
/// not change.
fn decimated(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let columns = points.chunk_by(|a, b| a.0.floor().to_bits() == b.0.floor().to_bits());
    let kept = columns.flat_map(|column| {
        let by_y = |a: &&usize, b: &&usize| column[**a].1.total_cmp(&column[**b].1);
        let places: Vec<usize> = (0..column.len()).collect();
        let ends = [
            places.first(),
            places.iter().min_by(by_y),
            places.iter().max_by(by_y),
            places.last(),
        ];
        let mut ends: Vec<usize> = ends.into_iter().flatten().copied().collect();
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().map(|place| column[place])
    });
    kept.collect()
}

/// Merges all points to vertical strokes: the x, and the first and the last y. Distant points get separate strokes.
fn strokes(points: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let column = |point: &(f64, f64)| (point.0 / CELL).floor() as i32;
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| (column(a).cmp(&column(b))).then(a.1.total_cmp(&b.1)));
    let touch = |a: &(f64, f64), b: &(f64, f64)| column(a) == column(b) && b.1 - a.1 <= CELL;
    let ends = sorted.chunk_by(touch).map(|stroke| {
        let middle = (f64::from(column(&stroke[0])) + 0.5) * CELL;
        let x = if stroke.len() == 1 {
            stroke[0].0
        } else {
            middle
        };
        (x, stroke[0].1, stroke[stroke.len() - 1].1)
    });
    ends.collect()
}

/// Rounds to 0.1 pixel, which is sufficient for any display.
fn pixel(at: f64) -> f64 {
    (at * 10.0).round() / 10.0
}
