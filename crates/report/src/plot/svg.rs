//! SVG output of plots.

use std::fmt::Write as _;

use super::scale::{CHARACTER_WIDTH, Scale};
use super::{Curve, Plot, Style};
use crate::html::escape_html;

/// The style sheet of pictures, with colours for light and dark pages.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// The text in place of the plots.
pub(crate) const NOTHING_TO_PLOT: &str =
    "Nothing to plot: no tests with spaced datagrams, no packet records";

/// The width of a picture, in pixels.
const WIDTH: f64 = 800.0;
/// The height of the area inside the axes, in pixels.
const AREA_HEIGHT: f64 = 300.0;
const TOP_MARGIN: f64 = 40.0;
/// The margin right of the area, for half of the last tick's label.
const RIGHT_MARGIN: f64 = 40.0;
/// The margin below the area, for the labels of the ticks and of the axis.
const BOTTOM_MARGIN: f64 = 44.0;
const LEGEND_ROW_HEIGHT: f64 = 18.0;
const SWATCH_WIDTH: f64 = 26.0;

/// The maximum number of characters in a title.
const MAX_TITLE_LENGTH: usize = 80;

/// The number of colours before they repeat.
const COLOURS: usize = 8;

/// The maximum number of points of a solid curve that has a dot at each point.
const MAX_DOTS: usize = 64;

/// The maximum number of dots of normal size. If a curve has more, its dots are small.
const MAX_LARGE_DOTS: usize = 1000;

/// The maximum distance between dots that are merged into one stroke, in pixels.
const MERGE_DISTANCE: f64 = 2.0;

/// Draws one plot as an element of a page that contains [`STYLE`].
pub(crate) fn picture(plot: &Plot) -> String {
    let (body, height) = draw_plot(plot);
    svg_element(&body, height, &plot.title, "")
}

/// Draws all plots, one below the other, as a file.
pub(super) fn sheet(plots: &[Plot]) -> String {
    let mut body = String::new();
    let mut height = 0.0;
    for plot in plots {
        let (plot_body, plot_height) = draw_plot(plot);
        let title = escape_html(&plot.title);
        let _ = writeln!(
            body,
            "<g role=\"img\" aria-label=\"{title}\" transform=\"translate(0 {height})\">{plot_body}</g>"
        );
        height += plot_height;
    }
    if plots.is_empty() {
        height = 60.0;
        body = format!("<text x=\"20\" y=\"35\">{NOTHING_TO_PLOT}</text>");
    }
    let title = match plots {
        [] => "nothing to plot",
        [plot] => &plot.title,
        _ => "plots of a test",
    };
    let style = format!(
        "<style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    svg_element(
        &(style + &body),
        height,
        title,
        " xmlns=\"http://www.w3.org/2000/svg\"",
    )
}

fn svg_element(body: &str, height: f64, title: &str, attributes: &str) -> String {
    format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\"{attributes}>\n<title>{}</title>{body}</svg>\n",
        escape_html(title)
    )
}

/// Returns the SVG elements of a plot, and its height in pixels.
fn draw_plot(plot: &Plot) -> (String, f64) {
    let values = |coordinate: fn(&(f64, f64)) -> f64| {
        let points = plot.curves.iter().flat_map(|curve| &curve.points);
        points.map(coordinate)
    };
    let bottom = TOP_MARGIN + AREA_HEIGHT;
    let y_values = values(|point| point.1).filter(|y| plot.limit.is_none_or(|limit| *y <= limit));
    let y = Scale::new(plot.y, y_values, AREA_HEIGHT / 45.0).with_pixels(bottom, TOP_MARGIN);
    let left = 34.0 + y.max_label_length() as f64 * CHARACTER_WIDTH;
    let right = WIDTH - RIGHT_MARGIN;
    let x =
        fitting_x_scale(plot, || values(|point| point.0), right - left).with_pixels(left, right);
    let mut body = String::new();
    let _ = writeln!(
        body,
        "<text class=\"title\" x=\"{left}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}</text>",
        escape_html(&shorten(&plot.title))
    );
    draw_axes(&mut body, &x, &y, (left, right, bottom));
    // A separate element cuts off everything above the area.
    let clip_height = AREA_HEIGHT + 4.0;
    let _ = write!(
        body,
        "<svg y=\"{TOP_MARGIN}\" width=\"{WIDTH}\" height=\"{clip_height}\" viewBox=\"0 {TOP_MARGIN} {WIDTH} {clip_height}\">"
    );
    for curve in &plot.curves {
        draw_curve(&mut body, curve, &x, &y);
    }
    body.push_str("</svg>");
    let rows = draw_legend(&mut body, &plot.curves, left, bottom + BOTTOM_MARGIN);
    (
        body,
        bottom + BOTTOM_MARGIN + 10.0 + rows * LEGEND_ROW_HEIGHT,
    )
}

/// Shortens a title to fit.
fn shorten(title: &str) -> String {
    match title.char_indices().nth(MAX_TITLE_LENGTH) {
        Some((end, _)) => format!("{}…", &title[..end]),
        None => title.to_owned(),
    }
}

/// Creates the x axis with the maximum number of ticks whose labels fit.
fn fitting_x_scale<V: Iterator<Item = f64>>(
    plot: &Plot,
    values: impl Fn() -> V,
    width: f64,
) -> Scale {
    let mut max_steps = 10.0;
    loop {
        let scale = Scale::new(plot.x, values(), max_steps);
        let needed_width =
            (scale.max_label_length() as f64 + 2.0) * CHARACTER_WIDTH * scale.ticks().len() as f64;
        if needed_width <= width || max_steps <= 1.0 {
            return scale;
        }
        max_steps -= 1.0;
    }
}

fn draw_axes(body: &mut String, x: &Scale, y: &Scale, (left, right, bottom): (f64, f64, f64)) {
    let mut grid = String::new();
    for (value, text) in y.ticks() {
        let position = round_pixel(y.pixel(value));
        let _ = write!(grid, "M{left} {position}H{right}");
        let _ = write!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{text}</text>",
            left - 8.0,
            position + 4.0
        );
    }
    for (value, text) in x.ticks() {
        let position = round_pixel(x.pixel(value));
        let _ = write!(grid, "M{position} {TOP_MARGIN}V{}", bottom + 4.0);
        let _ = write!(
            body,
            "<text x=\"{position}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 18.0
        );
    }
    let (middle_x, middle_y) = (
        f64::midpoint(left, right),
        f64::midpoint(TOP_MARGIN, bottom),
    );
    let _ = write!(
        body,
        "\n<path class=\"grid\" d=\"{grid}\" stroke=\"#ddd\"/>\
         <path class=\"axis\" d=\"M{left} {TOP_MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\
         <text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        bottom + 36.0,
        escape_html(&x.label()),
        escape_html(&y.label())
    );
}

fn draw_curve(body: &mut String, curve: &Curve, x: &Scale, y: &Scale) {
    let points = curve
        .points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite());
    let points: Vec<(f64, f64)> = points
        .map(|point| (x.pixel(point.0), y.pixel(point.1)))
        .collect();
    let class = colour_class(curve.colour);
    let mut dots = String::new();
    if curve.style == Style::Dots || (curve.style == Style::Solid && points.len() <= MAX_DOTS) {
        for (x, from, to) in merge_into_strokes(&points) {
            let _ = write!(
                dots,
                "M{} {}V{}",
                round_pixel(x),
                round_pixel(from),
                round_pixel(to)
            );
        }
    }
    let _ = write!(
        body,
        "<g class=\"{class}\" fill=\"none\" stroke=\"currentColor\">"
    );
    if curve.style != Style::Dots {
        let mut path = String::new();
        for (index, (x, y)) in decimate(&points).into_iter().enumerate() {
            let (x, y) = (round_pixel(x), round_pixel(y));
            let _ = match curve.style {
                _ if index == 0 => write!(path, "M{x} {y}"),
                Style::Steps => write!(path, "V{y}H{x}"),
                _ => write!(path, "L{x} {y}"),
            };
        }
        let dash = dash_attribute(curve.style);
        let _ = write!(
            body,
            "<path d=\"{path}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"{dash}/>"
        );
    }
    if !dots.is_empty() {
        let _ = write!(
            body,
            "<path d=\"{dots}\" stroke-width=\"{}\" stroke-linecap=\"round\"/>",
            dot_diameter(curve)
        );
    }
    body.push_str("</g>\n");
}

fn dash_attribute(style: Style) -> &'static str {
    match style {
        Style::Dashed => " stroke-dasharray=\"5 4\"",
        _ => "",
    }
}

/// Returns the diameter of dots, in pixels. A curve with many dots has smaller ones, unless it
/// shows losses (`colour` is `None`).
fn dot_diameter(curve: &Curve) -> f64 {
    match (curve.style, curve.colour) {
        (Style::Dots, Some(_)) if curve.points.len() > MAX_LARGE_DOTS => 2.0,
        (Style::Dots, _) => 3.0,
        _ => 4.0,
    }
}

/// Draws the names of several curves in rows. Returns the number of rows.
fn draw_legend(body: &mut String, curves: &[Curve], left: f64, top: f64) -> f64 {
    if curves.len() < 2 {
        return 0.0;
    }
    let (mut x, mut row) = (left, 0.0);
    for curve in curves {
        let width = SWATCH_WIDTH + (curve.name.chars().count() as f64 + 2.0) * CHARACTER_WIDTH;
        if x > left && x + width > WIDTH {
            (x, row) = (left, row + 1.0);
        }
        let y = top + 10.0 + row * LEGEND_ROW_HEIGHT;
        let (path, stroke_width) = match curve.style {
            Style::Dots => (format!("M{} {}h0", x + 9.0, y - 4.0), 5.0),
            _ => (format!("M{x} {}h18", y - 4.0), 2.0),
        };
        let dash = dash_attribute(curve.style);
        let _ = writeln!(
            body,
            "<path class=\"{}\" d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-linecap=\"{}\" \
             stroke-width=\"{stroke_width}\"{dash}/><text x=\"{}\" y=\"{y}\">{}</text>",
            colour_class(curve.colour),
            if curve.style == Style::Dots {
                "round"
            } else {
                "butt"
            },
            x + SWATCH_WIDTH - 2.0,
            escape_html(&curve.name)
        );
        x += width;
    }
    row + 1.0
}

fn colour_class(colour: Option<usize>) -> String {
    colour.map_or_else(
        || "lost".to_owned(),
        |colour| format!("c{}", colour % COLOURS),
    )
}

/// Reduces a curve with many points to the first, lowest, highest and last point of each pixel
/// column. The picture does not change.
fn decimate(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let columns = points.chunk_by(|a, b| a.0.floor().to_bits() == b.0.floor().to_bits());
    let kept_points = columns.flat_map(|column| {
        let by_y = |a: &&usize, b: &&usize| column[**a].1.total_cmp(&column[**b].1);
        let indices: Vec<usize> = (0..column.len()).collect();
        let kept_indices = [
            indices.first(),
            indices.iter().min_by(by_y),
            indices.iter().max_by(by_y),
            indices.last(),
        ];
        let mut kept_indices: Vec<usize> = kept_indices.into_iter().flatten().copied().collect();
        kept_indices.sort_unstable();
        kept_indices.dedup();
        kept_indices.into_iter().map(|index| column[index])
    });
    kept_points.collect()
}

/// Merges nearby points into vertical strokes. Returns the x, and the first and last y, of each
/// stroke.
fn merge_into_strokes(points: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let column = |point: &(f64, f64)| (point.0 / MERGE_DISTANCE).floor() as i32;
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| (column(a).cmp(&column(b))).then(a.1.total_cmp(&b.1)));
    let are_close =
        |a: &(f64, f64), b: &(f64, f64)| column(a) == column(b) && b.1 - a.1 <= MERGE_DISTANCE;
    let strokes = sorted.chunk_by(are_close).map(|stroke| {
        let middle = (f64::from(column(&stroke[0])) + 0.5) * MERGE_DISTANCE;
        let x = if stroke.len() == 1 {
            stroke[0].0
        } else {
            middle
        };
        (x, stroke[0].1, stroke[stroke.len() - 1].1)
    });
    strokes.collect()
}

/// Rounds to 0.1 pixel, which is sufficient for any display.
fn round_pixel(position: f64) -> f64 {
    (position * 10.0).round() / 10.0
}
