//! Plots as self-contained SVG pictures.

mod scale;
mod spaced;
mod svg;

pub(crate) use scale::{Axis, Unit, axis};
pub(crate) use spaced::plots;
pub(crate) use svg::{NOTHING_TO_PLOT, STYLE, picture};

use crate::Report;

/// Curves over two axes.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// The upper limit of the y axis, where curves are cut off. `None` shows all values.
    pub limit: Option<f64>,
    pub curves: Vec<Curve>,
}

/// One curve. Its points are in drawing order.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
    /// The index of its colour; `None` selects the colour of losses.
    pub colour: Option<usize>,
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Solid,
    Dashed,
    /// Steps: each y value is valid from the previous point's x to its own x.
    Steps,
    Dots,
}

/// Draws tests with spaced datagrams, and packet records, as one SVG picture. It shows throughput
/// and loss against spacing and against size, and the delays and arrivals of each test. Without
/// such tests, the picture contains a note.
pub fn plots_svg(report: &Report) -> String {
    svg::sheet(&plots(report))
}
