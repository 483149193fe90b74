//! Plots, as SVG in the page.

use std::cmp::Reverse;
use std::time::Duration;

use model::{Sample, Series};

use super::Distribution;
use super::text::{amount, escaped, nanoseconds};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = HEIGHT - 36.0;

/// How many colours there are for lines; what comes after them has none of its own.
const COLOURS: usize = 6;

/// A rate over time, in the intervals in which it was sampled: a line that is level within each.
/// `total` returns the quantity of a sample that the rate is of.
pub(super) fn series(unit: &str, all: &[Series], total: fn(&Sample) -> f64) -> String {
    let ends = all.iter().map(|series| {
        let last = series.samples.last();
        last.map_or(0.0, |last| {
            series.begun.as_secs_f64() + last.at.as_secs_f64()
        })
    });
    let end = ends.fold(0.0, f64::max);
    // What is narrower than its line would show nothing but a scale that hides all else.
    let is_seen = |level: &Level| level.to - level.from >= 2.0 * end / (RIGHT - LEFT);
    let levels: Vec<Vec<Level>> = all
        .iter()
        .map(|series| levels(series, total).into_iter().filter(is_seen).collect())
        .collect();
    let most = levels.iter().flatten().map(Level::rate).fold(0.0, f64::max);
    let (x_step, y_step) = (step(end, 10.0), step(most, 5.0));
    let top = y_step * (most / y_step).ceil().max(1.0);
    let x = |seconds: f64| LEFT + (RIGHT - LEFT) * if end > 0.0 { seconds / end } else { 0.0 };
    let y = |rate: f64| BOTTOM - (BOTTOM - TOP) * rate / top;

    let grid: String = ticks(y_step, top)
        .map(|rate| horizontal(y(rate), &amount(rate, unit)))
        .collect();
    let times: String = ticks(x_step, end)
        .map(|seconds| below(x(seconds), &format!("{} s", short(seconds))))
        .collect();
    let lines = all.iter().zip(&levels).map(|(series, levels)| {
        let begun = x(series.begun.as_secs_f64());
        let corners = |(number, level): (usize, &Level)| {
            let (from, to, y) = (x(level.from), x(level.to), y(level.rate()));
            let to_begin = if number == 0 { 'M' } else { 'L' };
            format!("{to_begin}{from:.1} {y:.1}L{to:.1} {y:.1}")
        };
        let path: String = levels.iter().enumerate().map(corners).collect();
        let hint = |level: &Level| {
            let (from, to) = (x(level.from), x(level.to));
            let hint = format!(
                "{}, {} to {} s: {}",
                series.name,
                short(level.from),
                short(level.to),
                amount(level.rate(), unit)
            );
            format!(
                "<rect class=\"hint\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" \
                 height=\"{:.1}\"><title>{}</title></rect>",
                (to - from).max(1.0),
                BOTTOM - TOP,
                escaped(&hint)
            )
        };
        let hints: String = levels.iter().map(hint).collect();
        format!(
            "<line class=\"mark\" x1=\"{begun:.1}\" x2=\"{begun:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
             <path class=\"line c0\" d=\"{path}\"/>{hints}"
        )
    });
    let lines: String = lines.collect();
    drawing(&(grid + &times + &lines + &names(all, x)), "rate over time")
}

/// Each transaction's name where it begins. Where there is no room for all, those that took longer have it.
fn names(all: &[Series], x: impl Fn(f64) -> f64) -> String {
    let mut by_length: Vec<&Series> = all.iter().collect();
    by_length.sort_by_key(|series| Reverse(series.samples.last().map(|last| last.at)));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let name = |series: &Series| {
        let begun = x(series.begun.as_secs_f64()).min(RIGHT - 40.0);
        let end = begun + 8.0 * (series.name.chars().count() + 1) as f64;
        let is_free = |(from, to): &(f64, f64)| end <= *from || begun >= *to;
        if !taken.iter().all(is_free) {
            return String::new();
        }
        taken.push((begun, end));
        let name = escaped(&series.name);
        format!(
            "<text x=\"{begun:.1}\" y=\"{:.1}\">{name}</text>",
            TOP - 10.0
        )
    };
    by_length.into_iter().map(name).collect()
}

/// So much in an interval, in seconds.
struct Level {
    from: f64,
    to: f64,
    amount: f64,
}

impl Level {
    fn rate(&self) -> f64 {
        self.amount / (self.to - self.from)
    }
}

fn levels(series: &Series, total: fn(&Sample) -> f64) -> Vec<Level> {
    let seconds = |sample: &Sample| series.begun.as_secs_f64() + sample.at.as_secs_f64();
    let mut last = Sample::default();
    let mut levels = Vec::new();
    for sample in &series.samples {
        let (from, to) = (seconds(&last), seconds(sample));
        // Two samples at one time are one.
        if to > from {
            let amount = (total(sample) - total(&last)).max(0.0);
            levels.push(Level { from, to, amount });
            last = *sample;
        }
    }
    join_rest(&mut levels);
    levels
}

/// The last look comes when the transaction ends; what little time is left then is no interval of its own.
fn join_rest(levels: &mut Vec<Level>) {
    let [.., before, rest] = &levels[..] else {
        return;
    };
    if rest.to - rest.from < (before.to - before.from) / 4.0 {
        let joined = Level {
            from: before.from,
            to: rest.to,
            amount: before.amount + rest.amount,
        };
        levels.truncate(levels.len() - 2);
        levels.push(joined);
    }
}

/// Percentiles side by side, the times by their logarithm.
pub(super) fn percentiles(distributions: &[&Distribution]) -> String {
    let all = distributions
        .iter()
        .flat_map(|distribution| &distribution.percentiles);
    let log = |time: Duration| (time.as_nanos().max(1) as f64).log10();
    let (least, most) = all
        .map(|(_, time)| log(*time))
        .fold((f64::MAX, f64::MIN), |(least, most), time| {
            (least.min(time), most.max(time))
        });
    let (bottom, top) = (least.floor(), most.ceil().max(least.floor() + 1.0));
    let longest = distributions
        .iter()
        .map(|distribution| distribution.percentiles.len());
    let places = longest.max().unwrap_or(0).max(2);
    let x = |place: usize| LEFT + 20.0 + (RIGHT - LEFT - 40.0) * place as f64 / (places - 1) as f64;
    let y = |time: f64| BOTTOM - (BOTTOM - TOP) * (time - bottom) / (top - bottom);

    let grid: String = (bottom as i32..=top as i32)
        .map(|decade| horizontal(y(f64::from(decade)), &nanoseconds(10_f64.powi(decade))))
        .collect();
    let first = distributions.first();
    let labels: String = first
        .iter()
        .flat_map(|distribution| distribution.percentiles.iter().enumerate())
        .map(|(place, (percent, _))| below(x(place), &format!("{percent} %")))
        .collect();
    let lines = distributions
        .iter()
        .enumerate()
        .map(|(number, distribution)| {
            let colour = number.min(COLOURS);
            let points: Vec<_> = distribution
                .percentiles
                .iter()
                .enumerate()
                .map(|(place, (percent, time))| (x(place), y(log(*time)), *percent, *time))
                .collect();
            let corners: Vec<String> = points
                .iter()
                .map(|(x, y, ..)| format!("{x:.1},{y:.1}"))
                .collect();
            let dot = |(x, y, percent, time): &(f64, f64, f64, Duration)| {
                let time = nanoseconds(time.as_nanos() as f64);
                let name = escaped(&distribution.name);
                format!(
                    "<circle class=\"c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">\
                     <title>{name}, {percent} %: {time}</title></circle>"
                )
            };
            let dots: String = points.iter().map(dot).collect();
            format!(
                "<polyline class=\"line c{colour}\" points=\"{}\"/>{dots}",
                corners.join(" ")
            )
        });
    let lines: String = lines.collect();
    legend(distributions) + &drawing(&(grid + &labels + &lines), "latency percentiles")
}

/// Of one line the heading says what it is.
fn legend(distributions: &[&Distribution]) -> String {
    if distributions.len() < 2 {
        return String::new();
    }
    let entry = |(number, distribution): (usize, &&Distribution)| {
        let colour = number.min(COLOURS);
        let name = escaped(&distribution.name);
        format!("<span><i class=\"c{colour}\"></i>{name}</span>")
    };
    let entries: String = distributions.iter().enumerate().map(entry).collect();
    format!("<p class=\"legend\">{entries}</p>\n")
}

fn drawing(content: &str, label: &str) -> String {
    format!(
        "<div class=\"wide\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{label}\">\n{content}\n</svg></div>\n"
    )
}

/// A line of the grid, and what it stands for.
fn horizontal(y: f64, label: &str) -> String {
    format!(
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT - 10.0,
        y + 4.0,
        escaped(label)
    )
}

fn below(x: f64, label: &str) -> String {
    format!(
        "<text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        BOTTOM + 22.0,
        escaped(label)
    )
}

/// The smallest of 1, 2 and 5 times a power of ten of which at most `count` reach `most`.
fn step(most: f64, count: f64) -> f64 {
    let least = most / count;
    if least.is_nan() || least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(steps[3])
}

/// From 0 to `most`.
fn ticks(step: f64, most: f64) -> impl Iterator<Item = f64> {
    let count = (most / step + 1e-9).floor() as u32;
    (0..=count).map(move |number| f64::from(number) * step)
}

/// Seconds without zeros at their end.
fn short(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (most, count, expected) in [
            (10.0, 5.0, 2.0),
            (10.1, 5.0, 5.0),
            (4.3, 10.0, 0.5),
            (1.0, 10.0, 0.1),
            (0.0, 5.0, 1.0),
            (f64::NAN, 5.0, 1.0),
            (7e9, 5.0, 2e9),
        ] {
            let step = step(most, count);
            assert!((step - expected).abs() < 1e-9 * expected, "{most}: {step}");
        }
        assert_eq!(ticks(0.5, 1.4).collect::<Vec<_>>(), [0.0, 0.5, 1.0]);
        assert_eq!([0.5, 2.0, 0.125].map(short), ["0.5", "2", "0.125"]);
    }

    #[test]
    fn rates_are_of_what_came_since_the_last_look() {
        let sample = |at, bytes| Sample {
            at: Duration::from_millis(at),
            sent: Bytes(bytes),
            ..Sample::default()
        };
        let series = Series {
            name: "Txn2".to_owned(),
            begun: Duration::from_secs(1),
            samples: vec![
                sample(0, 0),
                sample(500, 100),
                sample(500, 120),
                sample(1500, 400),
                sample(1600, 455),
            ],
        };
        let levels = levels(&series, |sample| sample.bytes().0 as f64);
        let rates: Vec<_> = levels
            .iter()
            .map(|level| (level.from, level.to, level.rate()))
            .collect();
        // The last look joins the one before it.
        assert_eq!(rates, [(1.0, 1.5, 200.0), (1.5, 2.6, 355.0 / 1.1)]);
    }
}
