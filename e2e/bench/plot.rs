//! A bar plot as SVG: few shapes, so without a library.

use std::fmt::Write as _;

use crate::comparison::Kind;
use crate::results::Figures;

/// In pixels.
const LABELS: f64 = 330.0;
const BARS: f64 = 520.0;
const BAR: f64 = 9.0;
const GAP: f64 = 9.0;
const HEAD: f64 = 48.0;

/// Colors that people with any color vision tell apart on light and dark pages.
fn color(kind: Kind) -> &'static str {
    match kind {
        Kind::Steady => "#0072b2",
        Kind::First => "#e69f00",
        Kind::Refused => "#999999",
    }
}

/// Bars of CPU per request by kind for each variant, with a line between quartiles.
pub(crate) fn bars(figures: &[Figures]) -> String {
    let most = figures.iter().map(|of| of.spent[2]).fold(1.0, f64::max);
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        .into_iter()
        .find(|step| most / step <= 10.0)
        .unwrap_or(100.0);
    let scale = BARS / most;
    let (mut body, mut y, mut variant) = (String::new(), HEAD, "");
    for of in figures {
        if of.variant != variant {
            variant = &of.variant;
            y += GAP;
            let _ = writeln!(
                body,
                r#"<text x="{}" y="{}" text-anchor="end">{variant}</text>"#,
                LABELS - 8.0,
                y + BAR
            );
        }
        let [low, median, high] = of.spent.map(|spent| spent * scale);
        let _ = writeln!(
            body,
            r#"<rect x="{LABELS}" y="{y:.1}" width="{median:.1}" height="{BAR}" fill="{}"/>"#,
            color(of.kind)
        );
        let middle = y + BAR / 2.0;
        let _ = writeln!(
            body,
            r#"<line x1="{:.1}" x2="{:.1}" y1="{middle:.1}" y2="{middle:.1}" stroke="currentColor"/>"#,
            LABELS + low,
            LABELS + high
        );
        y += BAR;
    }
    let bottom = y + GAP;
    let mut grid = String::new();
    let mut at = 0.0;
    while at <= most {
        let x = LABELS + at * scale;
        let _ = writeln!(
            grid,
            r##"<line x1="{x:.1}" x2="{x:.1}" y1="{HEAD}" y2="{bottom:.1}" stroke="#888888" stroke-opacity="0.3"/>
<text x="{x:.1}" y="{:.1}" text-anchor="middle">{at}</text>"##,
            bottom + 14.0
        );
        at += step;
    }
    let mut legend = String::new();
    for (number, kind) in (0_u8..).zip(Kind::ALL) {
        let x = LABELS + f64::from(number) * 130.0;
        let _ = writeln!(
            legend,
            r#"<rect x="{x}" y="26" width="12" height="{BAR}" fill="{}"/><text x="{}" y="35">{}</text>"#,
            color(kind),
            x + 18.0,
            kind.name()
        );
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0} {:.0}" font-family="sans-serif" font-size="12">
<title>CPU of the whole proxy per request</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<g fill="#222222" color="#222222">
<text x="{LABELS}" y="15">CPU of the whole proxy per request, us (lines: quartiles)</text>
{legend}{grid}{body}</g>
</svg>
"##,
        LABELS + BARS + 30.0,
        bottom + 24.0
    )
}
