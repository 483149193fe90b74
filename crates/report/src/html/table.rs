//! HTML tables.

use super::text::escape_html;

/// The text of unavailable figures.
pub(super) const UNKNOWN: &str = "–";

/// A table cell.
pub(super) enum Cell {
    /// Left-aligned text.
    Text(String),
    /// A right-aligned number.
    Number(String),
    /// A horizontal bar; the length is in percent.
    Bar(u32),
}

impl Cell {
    /// Returns a number cell, with [`UNKNOWN`] for `None`.
    pub(super) fn number_or_unknown(text: Option<String>) -> Self {
        Self::Number(text.unwrap_or_else(|| UNKNOWN.to_owned()))
    }

    /// Returns a bar for `value`; `max` is the value of a full-length bar.
    pub(super) fn bar(value: f64, max: f64) -> Self {
        if max <= 0.0 {
            return Self::Bar(0);
        }
        Self::Bar((100.0 * value / max).round() as u32)
    }
}

/// Returns a table. Without headings, it has no header row.
pub(super) fn table(header: &[&str], rows: Vec<Vec<Cell>>) -> String {
    // A heading has the alignment of the first cell below it.
    let first_row = rows.first().map_or(&[][..], |row| row);
    let heading = |(index, text): (usize, &&str)| {
        let class = match first_row.get(index) {
            Some(Cell::Text(_)) => " class=\"text\"",
            _ => "",
        };
        format!("<th{class}>{}</th>", escape_html(text))
    };
    let headings: String = header.iter().enumerate().map(heading).collect();
    let head = match &*headings {
        "" => String::new(),
        headings => format!("<thead><tr>{headings}</tr></thead>"),
    };
    let row = |cells: Vec<Cell>| {
        let cells: String = cells.into_iter().map(render_cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.into_iter().map(row).collect();
    format!("<div class=\"wide\"><table>{head}<tbody>\n{body}</tbody></table></div>\n")
}

fn render_cell(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => format!("<td class=\"text\">{}</td>", escape_html(&text)),
        Cell::Number(text) => format!("<td>{}</td>", escape_html(&text)),
        Cell::Bar(percent) => format!(
            "<td class=\"bar\"><svg viewBox=\"0 0 100 8\" aria-hidden=\"true\">\
             <rect width=\"{percent}\" height=\"8\" rx=\"2\"/></svg></td>"
        ),
    }
}
