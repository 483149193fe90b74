//! Plots as SVG pictures, which need nothing but themselves.

mod scale;
mod spaced;
mod svg;

pub(crate) use scale::{Axis, Unit, axis};
pub(crate) use spaced::plots;
pub(crate) use svg::{NOTHING, STYLE, picture};

use crate::Report;

/// Curves over two axes.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Curves leave the picture at its top above this y; `None` shows all.
    pub limit: Option<f64>,
    pub lines: Vec<Line>,
}

/// One curve, in the order of its points.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
    /// Place among the colours; `None` is that of losses.
    pub colour: Option<usize>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Solid,
    Dashed,
    /// A value holds from the x before its own.
    Steps,
    Dots,
}

/// Draws the plots of tests with spaced datagrams, and of packet records, as one SVG picture: throughput and loss against
/// spacing and against size, and per test the delays and the arrivals. Without such tests the picture says so.
pub fn plots_svg(report: &Report) -> String {
    svg::sheet(&plots(report))
}
