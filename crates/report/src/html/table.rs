//! Tables.

use super::text::escaped;

/// Stands where a figure is not known.
pub(super) const UNKNOWN: &str = "–";

/// What stands in one place.
pub(super) enum Cell {
    /// On the left.
    Text(String),
    /// On the right.
    Number(String),
    /// A bar that is so long, in per cent.
    Bar(u32),
}

impl Cell {
    /// On the right, if it is known.
    pub(super) fn known(text: Option<String>) -> Self {
        Self::Number(text.unwrap_or_else(|| UNKNOWN.to_owned()))
    }

    /// A bar for `value` where the longest is for `most`.
    pub(super) fn bar(value: f64, most: f64) -> Self {
        if most <= 0.0 {
            return Self::Bar(0);
        }
        Self::Bar((100.0 * value / most).round() as u32)
    }
}

/// A table with these headings, if there are any.
pub(super) fn table(header: &[&str], rows: Vec<Vec<Cell>>) -> String {
    // A heading stands where what is below it does.
    let first = rows.first().map_or(&[][..], |row| row);
    let heading = |(number, text): (usize, &&str)| {
        let class = match first.get(number) {
            Some(Cell::Text(_)) => " class=\"text\"",
            _ => "",
        };
        format!("<th{class}>{}</th>", escaped(text))
    };
    let headings: String = header.iter().enumerate().map(heading).collect();
    let head = match &*headings {
        "" => String::new(),
        headings => format!("<thead><tr>{headings}</tr></thead>"),
    };
    let row = |cells: Vec<Cell>| {
        let cells: String = cells.into_iter().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.into_iter().map(row).collect();
    format!("<div class=\"wide\"><table>{head}<tbody>\n{body}</tbody></table></div>\n")
}

fn cell(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => format!("<td class=\"text\">{}</td>", escaped(&text)),
        Cell::Number(text) => format!("<td>{}</td>", escaped(&text)),
        Cell::Bar(percent) => format!(
            "<td class=\"bar\"><svg viewBox=\"0 0 100 8\" aria-hidden=\"true\">\
             <rect width=\"{percent}\" height=\"8\" rx=\"2\"/></svg></td>"
        ),
    }
}
