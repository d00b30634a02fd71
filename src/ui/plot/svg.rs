//! A plot as SVG: one file without scripts, readable on light and dark backgrounds.

use std::fmt::Write as _;

use super::axis::{Tick, counts, float, times};
use super::{Chart, Plot, Point, Series};

const WIDTH: f64 = 960.0;
/// Of the chart of one limit.
const HEIGHT: f64 = 300.0;
/// Margins around the two panels of a limit.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 36.0;

const STYLE: &str = "\
svg{color-scheme:light dark}\
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}\
.title{font-weight:600;font-size:15px}.small{fill:#57606a}\
.ground{fill:#fff}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}\
.limit{fill:none;stroke:#57606a;stroke-width:1.5;stroke-dasharray:6 4}\
.line{fill:none;stroke-linejoin:round}.w0{stroke-width:2}.w1{stroke-width:4.5}.w2{stroke-width:7}.w3{stroke-width:9.5}\
.s0{stroke:#0969da}.s1{stroke:#8250df}.s2{stroke:#bf8700}.s3{stroke:#1a7f37}\
.early{fill:#cf222e;stroke:#fff;stroke-width:1}.bad{fill:#cf222e}\
@media(prefers-color-scheme:dark){\
text{fill:#e6edf3}.small{fill:#9198a1}.ground{fill:#0d1117}.grid{stroke:#2a313c}.axis{stroke:#9198a1}\
.limit{stroke:#9198a1}.s0{stroke:#4493f8}.s1{stroke:#ab7df8}.s2{stroke:#d29922}.s3{stroke:#3fb950}\
.early{fill:#ff7b72;stroke:#0d1117}.bad{fill:#ff7b72}}";

pub(super) fn svg(plot: &Plot) -> String {
    let height = HEIGHT * float(plot.charts.len());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n\
         <title>Releases against their limits</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (chart, row) in plot.charts.iter().zip(0u32..) {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", HEIGHT * f64::from(row));
        draw(&mut out, plot, chart);
        out.push_str("</g>\n");
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, plot: &Plot, chart: &Chart) {
    text(out, (16.0, 26.0), "title", "start", &chart.title);
    legend(out, chart);
    let width = WIDTH / 2.0 - LEFT - RIGHT;
    let panel = |left: f64, top: f64| Panel { left: left + LEFT, width, span: plot.span, top };

    let released = panel(0.0, chart.total() * 1.12);
    let is_bounded = !chart.allowed.is_empty();
    released.frame(out, if is_bounded { "released so far, and allowed (dashed)" } else { "released so far" });
    released.limit(out, &chart.allowed);
    for (series, class) in chart.series.iter().zip(classes(chart)) {
        released.path(out, &class, series.points.iter().map(|point| (point.to.min(plot.span), point.total)));
    }

    let window = panel(WIDTH / 2.0, chart.window() * 1.12);
    window.frame(out, &format!("{}: {}", chart.windows, chart.bound));
    window.limit(out, &[(0.0, chart.most), (plot.span, chart.most)]);
    for (series, class) in chart.series.iter().zip(classes(chart)) {
        window.path(out, &class, outline(&series.points, plot.span));
    }
    chart.series.iter().for_each(|series| window.violations(out, &series.points));
}

/// The class of each series. Earlier ones are drawn wider, so that they can be seen where lines overlap.
fn classes(chart: &Chart) -> impl Iterator<Item = String> {
    let count = chart.series.len();
    (0..count).map(move |number| format!("line s{} w{}", number % 4, (count - 1 - number).min(3)))
}

/// The keys in their colours, and the mark for releases that were too early, right of the title.
fn legend(out: &mut String, chart: &Chart) {
    let mut right = WIDTH - RIGHT;
    let has_violations = chart.series.iter().flat_map(|series| &series.points).any(|point| point.is_early);
    if has_violations {
        text(out, (right, 26.0), "bad", "end", "too early");
        let _ = writeln!(out, "<circle class=\"early\" cx=\"{:.1}\" cy=\"21.5\" r=\"4\"/>", right - 66.0);
        right -= 90.0;
    }
    let series: Vec<_> = chart.series.iter().zip(classes(chart)).collect();
    for (Series { name, .. }, class) in series.into_iter().rev() {
        let Some(name) = name else { continue };
        let shown: String = name.chars().take(16).collect();
        let width = 8.0 * float(shown.chars().count());
        text(out, (right, 26.0), "", "end", &shown);
        let (from, to) = (right - width - 24.0, right - width - 6.0);
        let _ = writeln!(out, "<path class=\"{class}\" d=\"M{from:.1} 21.5H{to:.1}\"/>");
        right -= width + 42.0;
    }
}

/// The level of each step, from its start to its end.
fn outline(points: &[Point], span: f64) -> impl Iterator<Item = (f64, f64)> {
    points.iter().flat_map(move |point| [(point.from, point.window), (point.to.min(span), point.window)])
}

/// A diagram over time. Whatever exceeds its top is cut off.
struct Panel {
    left: f64,
    width: f64,
    span: f64,
    top: f64,
}

impl Panel {
    fn x(&self, at: f64) -> f64 {
        self.left + self.width * (at / self.span).clamp(0.0, 1.0)
    }

    fn y(&self, count: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (count / self.top).clamp(0.0, 1.0)
    }

    fn frame(&self, out: &mut String, title: &str) {
        let (left, right, ground) = (self.left, self.left + self.width, HEIGHT - BOTTOM);
        text(out, (left, TOP - 14.0), "small", "start", title);
        for Tick { at, label } in counts(self.top, 5) {
            let y = self.y(at);
            let class = if at == 0.0 { "axis" } else { "grid" };
            let _ = writeln!(out, "<path class=\"{class}\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
            text(out, (left - 8.0, y + 4.5), "small", "end", &label);
        }
        for Tick { at, label } in times(self.span, 6) {
            let x = self.x(at);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{x:.1} {ground:.1}v5\"/>");
            text(out, (x, ground + 20.0), "small", "middle", &label);
        }
    }

    /// Draws the line of a limit up to where it leaves the panel.
    fn limit(&self, out: &mut String, corners: &[(f64, f64)]) {
        let mut inside = Vec::new();
        for &(at, count) in corners {
            if count > self.top {
                if let Some(&(from, below)) = inside.last() {
                    let part = (self.top - below) / (count - below);
                    inside.push((from + (at - from) * part, self.top));
                }
                break;
            }
            inside.push((at, count));
        }
        self.path(out, "limit", inside.into_iter());
    }

    fn path(&self, out: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let corner = |(at, count)| format!("{:.1} {:.1}", self.x(at), self.y(count));
        let corners: Vec<_> = points.map(corner).collect();
        if !corners.is_empty() {
            let _ = writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", corners.join(" "));
        }
    }

    fn violations(&self, out: &mut String, points: &[Point]) {
        for point in points.iter().filter(|point| point.is_early) {
            let (x, y) = (self.x(f64::midpoint(point.from, point.to)), self.y(point.window));
            let _ = writeln!(out, "<circle class=\"early\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }
}

fn text(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Two characters that are printable on a terminal are invalid in XML.
fn escaped(text: &str) -> String {
    let text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
