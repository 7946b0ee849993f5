//! The plot of a survey as SVG text: width changes over the rate, plain rule against ours.

use std::fmt::Write as _;

use super::summary::per_3_hours;
use super::{Changes, RATE_MAX, RATE_MIN, Rule, Sample, Survey};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 612.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = WIDTH - 28.0;
const PANEL_HEIGHT: f64 = 190.0;
const PANEL_TOPS: [f64; 2] = [112.0, 362.0];
/// Rates that have a name on the axis: the doublings.
const RATE_TICKS: [u32; 6] = [2, 4, 8, 16, 32, 64];
const Y_STEP: f64 = 30.0;
const PLAIN: &str = "#c8452f";
const OURS: &str = "#1f5fa8";

/// What a panel takes from a sample.
type Series = fn(&Sample) -> Changes;

/// Draws the samples of a survey. The same survey gives the same text.
#[must_use]
pub fn plot(survey: &Survey, samples: &[Sample]) -> String {
    let mut svg = head(survey);
    let panels: [(&str, Series); 2] = [
        ("Steady senders: equal gaps between payloads", |sample| sample.steady),
        ("Senders with random arrivals (Poisson), same rates", |sample| sample.poisson),
    ];
    for (top, (title, changes)) in PANEL_TOPS.into_iter().zip(panels) {
        let points = |rule: Rule| -> Vec<(f64, f64)> {
            let flips = |s: &Sample| per_3_hours(f64::from(changes(s)[rule as usize]), survey.hours);
            samples.iter().map(|sample| (sample.rate, flips(sample))).collect()
        };
        panel(&mut svg, top, title, &points(Rule::Plain), &points(Rule::Ours));
    }
    let (x, y) = (f64::midpoint(LEFT, RIGHT), HEIGHT - 14.0);
    let _ = writeln!(svg, r#"<text x="{x}" y="{y}" class="axis mid">payloads per minute (log scale)</text>"#);
    svg.push_str("</svg>\n");
    svg
}

fn head(survey: &Survey) -> String {
    let Survey { rates, hours, seed } = survey;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title desc">
<title id="title">How often the number of mailboxes changes for a sender that keeps its rate</title>
<desc id="desc">Width changes in three hours over the rate. The plain rule changes about 120 times for a third of all steady rates; ours stays at zero.</desc>
<style>
text {{ font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; font-size: 13px; }}
.head {{ font-size: 18px; font-weight: 600; }}
.note, .tick {{ fill: #57606a; font-size: 12px; }}
.panel {{ font-weight: 600; }}
.mid {{ text-anchor: middle; }}
.end {{ text-anchor: end; }}
.grid {{ stroke: #d8dee4; stroke-width: 1; }}
.base {{ stroke: #57606a; stroke-width: 1; }}
.dots {{ fill: none; stroke-width: 3.2; stroke-linecap: round; }}
</style>
<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="white"/>
<text x="{LEFT}" y="36" class="head">How often the width changes for a sender that keeps its rate</text>
<text x="{LEFT}" y="58" class="note">{rates} rates, {hours} virtual hours each, default options, seed {seed}; drawn by make sim-mailboxes</text>
"#
    );
    for (x, colour, label) in [(RIGHT - 190.0, PLAIN, "plain rule"), (RIGHT - 76.0, OURS, "mailrail")] {
        let _ = writeln!(
            svg,
            r#"<rect x="{x}" y="78" width="14" height="14" rx="3" fill="{colour}"/><text x="{}" y="90">{label}</text>"#,
            x + 20.0
        );
    }
    svg
}

fn panel(svg: &mut String, top: f64, title: &str, plain: &[(f64, f64)], ours: &[(f64, f64)]) {
    // A change more or less over the last line may stand above it.
    let most = plain.iter().chain(ours).map(|(_, flips)| *flips).fold(Y_STEP, f64::max);
    let scale = Scale { bottom: top + PANEL_HEIGHT, most: ((most - 1.0) / Y_STEP).ceil().max(1.0) * Y_STEP };
    let _ = writeln!(svg, r#"<text x="{LEFT}" y="{}" class="panel">{title}</text>"#, top - 12.0);
    axes(svg, top, &scale);
    // Few different values make a curve; many make a cloud.
    if is_curve(plain) {
        let curve = scale.curve(plain);
        let (first, last) = (scale.x(RATE_MIN), scale.x(RATE_MAX));
        let bottom = scale.bottom;
        let _ = writeln!(
            svg,
            r#"<path d="M{first:.1} {bottom:.1}{curve}L{last:.1} {bottom:.1}Z" fill="{PLAIN}" fill-opacity="0.16" stroke="{PLAIN}" stroke-width="1.5" stroke-linejoin="round"/>"#
        );
    } else {
        dots(svg, &scale, plain, PLAIN, 0.6);
    }
    if is_curve(ours) {
        let curve = scale.curve(ours);
        let start = curve.replacen('L', "M", 1);
        let _ = writeln!(svg, r#"<path d="{start}" fill="none" stroke="{OURS}" stroke-width="3"/>"#);
    } else {
        dots(svg, &scale, ours, OURS, 0.7);
    }
}

fn axes(svg: &mut String, top: f64, scale: &Scale) {
    let mut flips = 0.0;
    while flips <= scale.most {
        let y = scale.y(flips);
        let class = if flips == 0.0 { "base" } else { "grid" };
        let _ = writeln!(
            svg,
            r#"<line x1="{LEFT}" y1="{y:.1}" x2="{RIGHT}" y2="{y:.1}" class="{class}"/><text x="{}" y="{:.1}" class="tick end">{flips}</text>"#,
            LEFT - 8.0,
            y + 4.0
        );
        flips += Y_STEP;
    }
    for rate in RATE_TICKS {
        let x = scale.x(f64::from(rate));
        let _ = writeln!(
            svg,
            r#"<line x1="{x:.1}" y1="{0:.1}" x2="{x:.1}" y2="{1:.1}" class="base"/><text x="{x:.1}" y="{2:.1}" class="tick mid">{rate}</text>"#,
            scale.bottom,
            scale.bottom + 5.0,
            scale.bottom + 20.0
        );
    }
    let middle = top + PANEL_HEIGHT / 2.0;
    let _ = writeln!(
        svg,
        r#"<text x="24" y="{middle}" transform="rotate(-90 24 {middle})" class="axis mid">changes in 3 hours</text>"#
    );
}

fn dots(svg: &mut String, scale: &Scale, points: &[(f64, f64)], colour: &str, opacity: f64) {
    let mut path = String::new();
    for (rate, flips) in points {
        let _ = write!(path, "M{:.1} {:.1}h0", scale.x(*rate), scale.y(*flips));
    }
    let _ = writeln!(svg, r#"<path d="{path}" class="dots" stroke="{colour}" stroke-opacity="{opacity}"/>"#);
}

fn is_curve(points: &[(f64, f64)]) -> bool {
    let jumps = points.windows(2).filter(|two| two[0].1 != two[1].1).count();
    jumps * 4 <= points.len()
}

/// From values to places in a panel.
struct Scale {
    bottom: f64,
    most: f64,
}

impl Scale {
    fn x(&self, rate: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (rate / RATE_MIN).ln() / (RATE_MAX / RATE_MIN).ln()
    }

    fn y(&self, flips: f64) -> f64 {
        self.bottom - PANEL_HEIGHT * flips / self.most
    }

    /// Lines through the points, without those inside a level stretch.
    fn curve(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (at, (rate, flips)) in points.iter().enumerate() {
            let same = |other: Option<&(f64, f64)>| other.is_some_and(|(_, other)| other == flips);
            if !(at > 0 && same(points.get(at - 1)) && same(points.get(at + 1))) {
                let _ = write!(path, "L{:.1} {:.1}", self.x(*rate), self.y(*flips));
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_the_same_for_the_same_survey_and_holds_both_rules() {
        let survey = Survey { rates: 12, hours: 1, seed: 1 };
        let svg = plot(&survey, &survey.run(|_| ()));
        assert_eq!(svg, plot(&survey, &survey.run(|_| ())));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for part in ["plain rule", "mailrail", PLAIN, OURS, "12 rates", "seed 1", ">64</text>"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<path").count(), 4, "two rules in two panels");
    }

    #[test]
    fn the_scale_is_logarithmic() {
        let scale = Scale { bottom: 100.0, most: 30.0 };
        let steps: Vec<f64> =
            RATE_TICKS.windows(2).map(|two| scale.x(two[1].into()) - scale.x(two[0].into())).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{steps:?}");
        assert_eq!((scale.y(0.0), scale.y(30.0)), (100.0, 100.0 - PANEL_HEIGHT));
    }
}
