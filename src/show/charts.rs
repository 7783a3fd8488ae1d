//! Charts as SVG for pages, in the colours of their style sheet. Pure.

pub mod safe;

use chrono::NaiveDate;
use maud::{Markup, html};

use crate::show::efficiency::Usage;
use crate::show::progress::Day;
use safe::safe;

const WIDTH: f64 = 640.0;
/// Width of the labels next to an axis.
const SIDE: f64 = 44.0;
const FOOT: f64 = 22.0;
/// Width of the names of rows.
const NAMES: f64 = 182.0;
/// Longer names are cut; the table has the full names.
const NAME: usize = 24;

fn svg(width: f64, height: f64, label: &str, shapes: Markup) -> Markup {
    html! {
        svg role="img" aria-label=(safe(label)) viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) {
            (shapes)
        }
    }
}

/// About `count` round values from 0 to `most`, at least `least` apart.
fn ticks(most: f64, count: f64, least: f64) -> Vec<f64> {
    let rough = (most / count).max(least);
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    (0..=1000)
        .map(|number| f64::from(number) * step)
        .take_while(|value| *value <= most)
        .collect()
}

/// Rounds a position to a visible precision.
pub fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// Draws a horizontal grid line with its value.
fn level(y: f64, right: f64, value: f64) -> Markup {
    html! {
        line.grid x1=(SIDE) x2=(right) y1=(px(y)) y2=(px(y)) {}
        text.end x=(SIDE - 6.0) y=(px(y + 4.0)) { (value.abs()) }
    }
}

/// Draws the cumulative counts of one procedure. All procedures share the axes: `from..=to`, `0..=top`.
pub fn progress(days: &[Day], from: NaiveDate, to: NaiveDate, top: usize, label: &str) -> Markup {
    let (width, height) = (300.0, 150.0);
    let (right, bottom) = (width - 14.0, height - FOOT);
    let most = top.max(1) as f64;
    let span = (to - from).num_days().max(1) as f64;
    let x = |day: NaiveDate| SIDE + (right - SIDE) * (day - from).num_days() as f64 / span;
    let y = |count: f64| bottom - (bottom - 8.0) * count / (most * 1.05);
    // Daily sums become a step line over the whole time.
    let steps = |value: fn(&Day) -> usize| {
        let mut path = format!("M{} {}", SIDE, bottom);
        for day in days {
            let now = px(y(value(day) as f64));
            path.push_str(&format!("H{}V{now}", px(x(day.date))));
        }
        path + &format!("H{right}")
    };
    let done = steps(|day| day.completed_so_far);
    let middle = from + (to - from) / 2;
    // Labels of the same day would cover each other.
    let mut dates = vec![(from, "start"), (middle, "middle"), (to, "end")];
    dates.dedup_by_key(|(day, _)| *day);
    svg(
        width,
        height,
        label,
        html! {
            @for value in ticks(most, 4.0, 1.0) { (level(y(value), right, value)) }
            @for (day, class) in dates { text class=(class) x=(px(x(day))) y=(height - 6.0) { (day.format("%e %b")) } }
            path.area d={ (done) "V" (bottom) "Z" } {}
            path.done d=(done) {}
            path.fail d=(steps(|day| day.failed_so_far)) {}
        },
    )
}

/// Draws completed (up) and failed (down) tasks per day, oldest first.
pub fn throughput(days: &[(NaiveDate, usize, usize)], label: &str) -> Markup {
    let height = 190.0;
    let (right, bottom) = (WIDTH - 10.0, height - FOOT);
    let up = days.iter().map(|day| day.1).max().unwrap_or(0).max(1) as f64;
    let down = days.iter().map(|day| day.2).max().unwrap_or(0) as f64;
    let scale = (bottom - 8.0) / (up + down);
    let zero = 8.0 + up * scale;
    let step = (right - SIDE) / days.len().max(1) as f64;
    let least = (up + down) / 6.0;
    svg(
        WIDTH,
        height,
        label,
        html! {
            @for value in ticks(up, 6.0, least.max(1.0)) { (level(zero - value * scale, right, value)) }
            @for value in ticks(down, 6.0, least.max(1.0)).into_iter().skip(1) { (level(zero + value * scale, right, value)) }
            @for (at, (day, done, failed)) in days.iter().enumerate() {
                @let x = px(SIDE + step * (at as f64 + 0.12));
                @let (done, failed) = (*done as f64 * scale, *failed as f64 * scale);
                rect.good x=(x) y=(px(zero - done)) width=(px(step * 0.76)) height=(px(done)) {}
                rect.bad x=(x) y=(px(zero)) width=(px(step * 0.76)) height=(px(failed)) {}
                @if at % 8 == 0 { text.middle x=(x) y=(height - 6.0) { (day.format("%e %b")) } }
            }
        },
    )
}

/// A bar with its name, its parts (group and size), and the text at its end.
pub struct Bar<'a> {
    pub name: &'a str,
    pub parts: Vec<(&'static str, usize)>,
    pub text: String,
}

/// Draws horizontal bars as a list, so that they fit any width.
pub fn bars(bars: &[Bar<'_>], label: &str) -> Markup {
    let size = |bar: &Bar<'_>| bar.parts.iter().map(|(_, size)| *size).sum::<usize>();
    let most = bars.iter().map(size).max().unwrap_or(0).max(1);
    html! {
        ul.bars aria-label=(safe(label)) {
            @for bar in bars {
                li { span.name { (safe(bar.name)) } (stack(&bar.parts, most)) span { (bar.text) } }
            }
        }
    }
}

/// Draws the parts of a whole side by side over the available width.
pub fn stack(parts: &[(&'static str, usize)], whole: usize) -> Markup {
    let mut end = 0;
    let parts = parts.iter().filter(|(_, size)| *size > 0);
    let parts = parts.map(|(class, size)| {
        end += size;
        (class, end - size, size)
    });
    html! {
        svg.stack viewBox={ "0 0 " (whole.max(1)) " 1" } preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (class, from, size) in parts {
                rect class={ "g-" (class) } x=(from) y="0" width=(size) height="1" {}
            }
        }
    }
}

/// Draws used (median to maximum, thick up to the 95th percentile), requested and suggested resources per
/// procedure. `unit` is the size of the axis' unit.
pub fn usage(rows: &[(&str, &Usage)], unit: f64, axis: &str, label: &str) -> Markup {
    let height = rows.len() as f64 * 34.0 + 48.0;
    let bottom = height - 2.0 * FOOT;
    let most = rows.iter().flat_map(|(_, usage)| {
        let used = usage.used.map(|used| used.max);
        [used, usage.asked, usage.suggested].into_iter().flatten()
    });
    let most = most.max().unwrap_or(1).max(1) as f64 / unit * 1.06;
    let (names, right) = (NAMES, WIDTH - 16.0);
    let x = |value: f64| px(names + (right - names) * value / most);
    let place = |value: i64| x(value as f64 / unit);
    svg(
        WIDTH,
        height,
        label,
        html! {
            @for value in ticks(most, 8.0, 0.0) {
                line.grid x1=(x(value)) x2=(x(value)) y1="2" y2=(bottom) {}
                text.middle x=(x(value)) y=(bottom + 16.0) { ((value * 1000.0).round() / 1000.0) }
            }
            text.middle x=(px((names + right) / 2.0)) y=(height - 6.0) { (axis) }
            @for (row, (procedure, usage)) in rows.iter().enumerate() {
                @let y = row as f64 * 34.0 + 19.0;
                text.end x=(names - 8.0) y=(y + 4.0) { (shown(procedure)) }
                @if let Some(used) = usage.used {
                    @let (p50, p95, max) = (place(used.p50), place(used.p95), place(used.max));
                    path.used d={ "M" (p50) " " (y) "H" (max) "M" (max) " " (y - 5.0) "v10" } {}
                    rect.used x=(p50) y=(y - 5.0) width=(px(p95 - p50)) height="10" {}
                }
                @if let Some(asked) = usage.asked { path.asked d={ "M" (place(asked)) " " (y - 12.0) "v24" } {} }
                @if let Some(suggested) = usage.suggested {
                    path.suggested d={ "M" (place(suggested)) " " (y - 7.0) "l6 7l-6 7l-6-7z" } {}
                }
            }
        },
    )
}

fn shown(name: &str) -> String {
    let name = safe(name);
    if name.chars().count() <= NAME {
        return name;
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}
