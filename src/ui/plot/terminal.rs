//! A plot in characters, as wide as the terminal.

use super::axis::{float, short, times};
use super::{Chart, Plot, Point};

const ROWS: usize = 8;
/// The columns left of a diagram.
const MARGIN: usize = 8;
const BLOCKS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

/// Draws a plot, at most `width` columns wide.
pub(super) fn terminal(plot: &Plot, width: usize) -> String {
    let columns = width.saturating_sub(MARGIN + 2).max(16);
    plot.charts.iter().map(|chart| draw(plot, chart, columns)).collect()
}

fn draw(plot: &Plot, chart: &Chart, columns: usize) -> String {
    let mut lines = Vec::new();
    for series in &chart.series {
        let name = series.name.as_ref().map_or(String::new(), |name| format!(", '{name}'"));
        lines.push(format!("{}{name}: {}, {}", chart.title, chart.windows, chart.bound));
        let cells: Vec<_> = (0..columns).map(|column| cell(plot, &series.points, column, columns)).collect();
        diagram(&mut lines, chart, &cells);
        lines.push(axis(plot.span, columns));
    }
    lines.into_iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The most in a window within a column, and whether a release was too early.
fn cell(plot: &Plot, points: &[Point], column: usize, columns: usize) -> (f64, bool) {
    let at = |column: usize| plot.span * float(column) / float(columns);
    let (from, to) = (at(column), at(column + 1));
    let is_last = column + 1 == columns;
    let within =
        points.iter().filter(|point| point.from < to && point.to > from || is_last && point.from >= to);
    within.fold((0.0, false), |(most, is_early), point| {
        (f64::max(most, point.window), is_early || point.is_early)
    })
}

fn diagram(lines: &mut Vec<String>, chart: &Chart, cells: &[(f64, bool)]) {
    let top = chart.window();
    let limit = row_of(chart.most, top);
    for row in (0..ROWS).rev() {
        let label = match row {
            _ if row == ROWS - 1 => short(top),
            _ if row == limit => short(chart.most),
            _ => String::new(),
        };
        let empty = if row == limit { '-' } else { ' ' };
        let bars: String = cells.iter().map(|(most, _)| block(*most / top, row, empty)).collect();
        lines.push(format!("{label:>MARGIN$} {bars}"));
    }
    if cells.iter().any(|(_, is_early)| *is_early) {
        let marks: String = cells.iter().map(|(_, is_early)| if *is_early { '!' } else { ' ' }).collect();
        lines.push(format!("{:>MARGIN$} {marks}", "early"));
    }
}

fn row_of(level: f64, top: f64) -> usize {
    (0..ROWS).rev().find(|row| level / top * float(ROWS) > float(*row)).unwrap_or(0)
}

/// The part of a bar in a row. The height of the bar is `share` of the diagram.
fn block(share: f64, row: usize, empty: char) -> char {
    let eighths = (share * float(ROWS) - float(row)) * 8.0;
    let filled = (1..=8).rev().find(|filled| eighths >= float(*filled) - 0.5).unwrap_or(0);
    if filled == 0 { empty } else { BLOCKS[filled] }
}

fn axis(span: f64, columns: usize) -> String {
    let mut line = vec![' '; MARGIN + 2 + columns];
    for tick in times(span, (columns / 14).max(1)) {
        let share = tick.at / span;
        let column = (0..columns).rev().find(|column| float(*column) <= share * float(columns)).unwrap_or(0);
        // The last label must not extend beyond the axis.
        let column = column.min((columns + 1).saturating_sub(tick.label.len()));
        for (place, c) in line[MARGIN + 1 + column..].iter_mut().zip(tick.label.chars()) {
            *place = c;
        }
    }
    line.into_iter().collect()
}
