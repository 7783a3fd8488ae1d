//! Charts as SVG, by `plotters`. Each has a table beside it that says the same: see `figures`.
//!
//! Colours are given as stand-ins that [`finished`] turns into the page's variables, so that a chart
//! follows the light or dark look of the page.

use chrono::{Days, NaiveDate};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::safe::safe;
use crate::show::audit::report::{Day, Usage};

const INK: RGBColor = RGBColor(1, 0, 0);
const GRID: RGBColor = RGBColor(1, 0, 1);
const GOOD: RGBColor = RGBColor(1, 0, 2);
const BAD: RGBColor = RGBColor(1, 0, 3);
const USED: RGBColor = RGBColor(1, 0, 4);
const ASKED: RGBColor = RGBColor(1, 0, 5);
const SUGGESTED: RGBColor = RGBColor(1, 0, 6);
const VARIABLES: [(RGBColor, &str); 7] = [
    (INK, "ink"),
    (GRID, "grid"),
    (GOOD, "good"),
    (BAD, "bad"),
    (USED, "used"),
    (ASKED, "asked"),
    (SUGGESTED, "suggested"),
];

/// In the library's measure: 12 pixels.
const FONT: i32 = 15;
/// About the width of a letter of that size.
const LETTER: u32 = 7;
/// Names longer than this are cut; the table has them whole.
const NAME: usize = 24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed = Box<dyn std::error::Error>;

/// Draws the cumulative counts of one procedure. All procedures share the axes: `from..=to`, `0..=top`.
pub fn progress(days: &[Day], from: NaiveDate, to: NaiveDate, top: usize, label: &str) -> String {
    let from = from.min(to - Days::new(1));
    drawn((300, 150), label, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(14)
            .margin_top(8)
            .x_label_area_size(22)
            .y_label_area_size(44)
            .build_cartesian_2d(from..to, 0f64..top.max(1) as f64 * 1.05)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text())
            .x_labels(3)
            .y_labels(4)
            .x_label_formatter(&|day| day.format("%e %b").to_string())
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()?;
        let done = steps(days, from, to, |day| day.completed_so_far);
        chart.draw_series(AreaSeries::new(done.clone(), 0.0, GOOD.mix(0.15)))?;
        chart.draw_series(LineSeries::new(done, GOOD.stroke_width(2)))?;
        let failed = steps(days, from, to, |day| day.failed_so_far);
        chart.draw_series(DashedLineSeries::new(failed, 5, 3, BAD.stroke_width(2)))?;
        Ok(())
    })
}

/// Turns sums on single days into a line with steps over the whole time.
fn steps(
    days: &[Day],
    from: NaiveDate,
    to: NaiveDate,
    value: fn(&Day) -> usize,
) -> Vec<(NaiveDate, f64)> {
    let mut points = vec![(from, 0.0)];
    let mut last = 0.0;
    for day in days {
        let now = value(day) as f64;
        points.extend([(day.date, last), (day.date, now)]);
        last = now;
    }
    points.push((to, last));
    points
}

/// Draws what became complete (up) and failed (down) on each day, oldest first.
pub fn throughput(days: &[(NaiveDate, usize, usize)], label: &str) -> String {
    drawn((640, 190), label, |area| {
        let most = |get: fn(&(NaiveDate, usize, usize)) -> usize| {
            days.iter().map(get).max().unwrap_or(0) as f64
        };
        let (up, down) = (most(|day| day.1).max(1.0), most(|day| day.2));
        let span = days.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin_right(10)
            .margin_top(8)
            .x_label_area_size(22)
            .y_label_area_size(44)
            .build_cartesian_2d(0f64..span, -down * 1.1..up * 1.1)?;
        let date = |at: &f64| {
            let day = days.get(at.max(0.0) as usize);
            day.map_or(String::new(), |day| day.0.format("%e %b").to_string())
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text())
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&date)
            .y_label_formatter(&|value| format!("{:.0}", value.abs()))
            .draw()?;
        for (at, (_, completed, failed)) in days.iter().enumerate() {
            let (left, right) = (at as f64 + 0.12, at as f64 + 0.88);
            let (up, down) = (*completed as f64, -(*failed as f64));
            chart.draw_series([
                Rectangle::new([(left, 0.0), (right, up)], GOOD.filled()),
                Rectangle::new([(left, 0.0), (right, down)], BAD.filled()),
            ])?;
        }
        let zero = PathElement::new([(0.0, 0.0), (span, 0.0)], INK);
        chart.draw_series([zero])?;
        Ok(())
    })
}

/// Is a bar with its name, its length, and what is written at its end.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub text: String,
}

/// Draws lying bars, the first at the top.
pub fn bars(bars: &[Bar], label: &str) -> String {
    let height = bars.len() as u32 * 24 + 8;
    drawn((640, height), label, |area| {
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let ends = bars.iter().map(|bar| bar.text.chars().count());
        let ends = ends.max().unwrap_or(0) as u32 * LETTER + 12;
        let names = names_width(bars.iter().map(|bar| bar.name.as_str()));
        let mut chart = ChartBuilder::on(area)
            .margin_left(names)
            .margin_right(ends)
            .build_cartesian_2d(0f64..most.max(f64::MIN_POSITIVE), 0f64..bars.len() as f64)?;
        for (row, bar) in bars.iter().enumerate() {
            let y = (bars.len() - row) as f64;
            let shape = [(0.0, y - 0.8), (bar.value, y - 0.2)];
            chart.draw_series([Rectangle::new(shape, BAD.filled())])?;
            let (x_end, middle) = chart.backend_coord(&(bar.value, y - 0.5));
            name(area, &bar.name, names, middle)?;
            let style = text().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(bar.text.clone(), (x_end + 6, middle), style))?;
        }
        Ok(())
    })
}

/// Draws per procedure what was used (median to maximum, up to the 95th percentile thick), asked for and
/// is suggested. `unit` is the size of the axis' unit.
pub fn usage(rows: &[(&str, &Usage)], unit: f64, axis: &str, label: &str) -> String {
    let height = rows.len() as u32 * 34 + 48;
    drawn((640, height), label, |area| {
        let scaled = |value: i64| value as f64 / unit;
        let most = rows.iter().flat_map(|(_, usage)| {
            let used = usage.used.map(|used| used.max);
            [used, usage.asked, usage.suggested].into_iter().flatten()
        });
        let most = scaled(most.max().unwrap_or(1).max(1)) * 1.06;
        let names = names_width(rows.iter().map(|(name, _)| *name));
        let mut chart = ChartBuilder::on(area)
            .margin_left(names)
            .margin_right(16)
            .margin_top(2)
            .x_label_area_size(40)
            .build_cartesian_2d(0f64..most, 0f64..rows.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text())
            .x_labels(8)
            .x_label_formatter(&|value| {
                let short = format!("{value:.1}");
                short
                    .strip_suffix(".0")
                    .map_or(short.clone(), str::to_owned)
            })
            .x_desc(axis)
            .axis_desc_style(text())
            .draw()?;
        for (row, (procedure, usage)) in rows.iter().enumerate() {
            let y = (rows.len() - row) as f64 - 0.5;
            if let Some(used) = usage.used {
                let [p50, p95, max] = [used.p50, used.p95, used.max].map(scaled);
                let line = [(p50, y), (max, y)];
                chart.draw_series([PathElement::new(line, USED.stroke_width(2))])?;
                let thick = [(p50, y - 0.16), (p95, y + 0.16)];
                chart.draw_series([Rectangle::new(thick, USED.filled())])?;
                let end = [(max, y - 0.16), (max, y + 0.16)];
                chart.draw_series([PathElement::new(end, USED.stroke_width(2))])?;
            }
            if let Some(asked) = usage.asked.map(scaled) {
                let tick = [(asked, y - 0.36), (asked, y + 0.36)];
                chart.draw_series([PathElement::new(tick, ASKED.stroke_width(3))])?;
            }
            if let Some(suggested) = usage.suggested.map(scaled) {
                let (x, middle) = chart.backend_coord(&(suggested, y));
                let diamond = [
                    (x, middle - 7),
                    (x + 6, middle),
                    (x, middle + 7),
                    (x - 6, middle),
                ];
                area.draw(&Polygon::new(diamond, SUGGESTED.filled()))?;
            }
            let (_, middle) = chart.backend_coord(&(0.0, y));
            name(area, procedure, names, middle)?;
        }
        Ok(())
    })
}

fn text() -> TextStyle<'static> {
    ("sans-serif", FONT).into_font().color(&INK)
}

fn shown(name: &str) -> String {
    let name = safe(name);
    if name.chars().count() <= NAME {
        return name;
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

fn names_width<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    let longest = names.map(|name| shown(name).chars().count()).max();
    longest.unwrap_or(0) as u32 * LETTER + 14
}

/// Writes the name of a row, right-aligned in its margin.
fn name(area: &Area<'_>, name: &str, width: u32, middle: i32) -> Result<(), Failed> {
    let style = text().pos(Pos::new(HPos::Right, VPos::Center));
    let at = (i32::try_from(width)? - 8, middle);
    area.draw(&Text::new(shown(name), at, style))?;
    Ok(())
}

/// Returns the finished SVG. Nothing if it cannot be drawn: the table beside it has all.
fn drawn(
    size: (u32, u32),
    label: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failed>,
) -> String {
    let mut svg = String::new();
    let result = {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?))
    };
    match result {
        Ok(()) => finished(&svg, label),
        Err(_) => String::new(),
    }
}

fn finished(svg: &str, label: &str) -> String {
    let label = maud::html! { (safe(label)) }.into_string();
    let mut svg = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{label}\" "),
        1,
    );
    for (RGBColor(r, g, b), name) in VARIABLES {
        let stand_in = format!("\"#{r:02X}{g:02X}{b:02X}\"");
        svg = svg.replace(&stand_in, &format!("\"var(--{name})\""));
    }
    svg
}
