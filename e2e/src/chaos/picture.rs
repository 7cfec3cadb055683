//! Resource usage over a run as an SVG.

use std::fmt::Write as _;
use std::time::Duration;

use super::samples::{cpus, lines};
use super::{Role, Sample};

const WIDTH: f64 = 900.0;
const PANEL: f64 = 180.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const GAP: f64 = 60.0;
const STEP: Duration = Duration::from_secs(5);

const ROLES: [(Role, &str); 2] = [(Role::Envoy, "#1f77b4"), (Role::Controller, "#d9730d")];

/// Memory with a line for each process, and CPU with a line for each role.
#[must_use]
pub fn picture(title: &str, samples: &[Sample]) -> String {
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1.0);
    let memory: Vec<_> = ROLES
        .iter()
        .flat_map(|(role, color)| {
            lines(samples, *role)
                .into_values()
                .map(move |line| (*color, memory_line(&line)))
        })
        .collect();
    let cpu: Vec<_> = ROLES
        .iter()
        .map(|(role, color)| (*color, cpu_line(&cpus(samples, *role, STEP))))
        .collect();
    let height = TOP + 2.0 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    );
    panel(&mut svg, TOP, "Memory of each process (RSS, MiB)", end, &memory);
    panel(&mut svg, TOP + PANEL + GAP, "CPUs used by all of them", end, &cpu);
    for (number, (role, color)) in ROLES.iter().enumerate() {
        let x = WIDTH - 200.0 + f64::from(u8::try_from(number).unwrap_or_default()) * 90.0;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"20\" fill=\"{color}\">{}</text>", role.name());
    }
    svg.push_str("</svg>\n");
    svg
}

type Line = Vec<(f64, f64)>;

#[allow(clippy::cast_precision_loss, reason = "bytes of memory")]
fn memory_line(samples: &[&Sample]) -> Line {
    let point = |sample: &&Sample| (sample.at.as_secs_f64(), sample.memory as f64 / f64::from(1 << 20));
    // A point in five seconds is enough for this width.
    samples.iter().step_by(5).map(point).collect()
}

fn cpu_line(cpus: &[f64]) -> Line {
    let times = (0..).map(|number| (f64::from(number) + 0.5) * STEP.as_secs_f64());
    times.zip(cpus.iter().copied()).collect()
}

fn panel(svg: &mut String, top: f64, title: &str, end: f64, lines: &[(&str, Line)]) {
    let most = lines
        .iter()
        .flat_map(|(_, line)| line)
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    let step = round_step(most / 4.0);
    let most = (most / step).ceil().max(1.0) * step;
    let (bottom, right) = (top + PANEL, WIDTH - 20.0);
    let x = |time: f64| LEFT + time / end * (right - LEFT);
    let y = |value: f64| bottom - value / most * (PANEL - 20.0);
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#333\">{title}</text>",
        top + 8.0
    );
    let mut value = 0.0;
    while value <= most * 1.001 {
        let at = y(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            short(value)
        );
        value += step;
    }
    let mut minute = 0.0;
    while minute * 60.0 <= end {
        let at = x(minute * 60.0);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{minute} min</text>",
            bottom + 18.0
        );
        minute += (end / 60.0 / 12.0).ceil().max(1.0);
    }
    for (color, line) in lines.iter().filter(|(_, line)| line.len() > 1) {
        let points: Vec<_> = line
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
            .collect();
        let points = points.join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.2\"/>"
        );
    }
}

/// The next larger round number for an axis.
fn round_step(least: f64) -> f64 {
    let least = least.max(0.001);
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(least)
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_line_and_each_role_another() {
        let sample = |at, process, role| Sample {
            at: Duration::from_secs(at),
            role,
            process,
            memory: 30 << 20,
            cpu: Duration::from_secs(at / 2),
        };
        let samples: Vec<_> = (0..120)
            .flat_map(|at| {
                [
                    sample(at, 1, Role::Envoy),
                    sample(at, 2, Role::Envoy),
                    sample(at, 3, Role::Controller),
                ]
            })
            .collect();
        let svg = picture("A run", &samples);
        assert_eq!(svg.matches("<polyline").count(), 3 + 2);
        assert!(svg.contains(">2 min<") || svg.contains(">1 min<"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn axes_have_round_numbers() {
        let steps = [0.7, 3.0, 10.0, 23.0].map(|least| short(round_step(least)));
        assert_eq!(steps, ["1", "5", "10", "50"]);
        assert_eq!([0.0, 0.5, 40.0].map(short), ["0", "0.5", "40"]);
    }
}
