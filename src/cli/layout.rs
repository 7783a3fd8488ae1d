//! Layout of tables: aligned, coloured if requested, fitted to a width.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::AnsiColor;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table,
    TableStyle,
};
use crossterm::style::{ResetColor, SetAttribute, SetForegroundColor};
use polars::prelude::{AnyValue, DataFrame};
use unicode_width::UnicodeWidthStr as _;

use crate::base::printable::printable;
use crate::show::efficiency;
use crate::show::tables::TaskState;

/// Placeholder for a missing value or an empty text, so that every line has all fields.
const NOTHING: &str = "-";

/// Layout of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout<'a> {
    /// Width of the terminal in columns; without one, nothing is wrapped or omitted.
    pub width: Option<u16>,
    pub color: bool,
    /// Whether status words get a symbol.
    pub symbols: bool,
    /// Columns whose cells begin with a status or decision word and get its colour and symbol; a column of numbers gets
    /// the colour of its name.
    pub painted: &'a [&'a str],
    /// Columns to omit in this order while the table is too wide. The last of several goes only if narrower gaps do not
    /// help.
    pub optional: &'a [&'a str],
}

/// Renders a frame. Lines have no trailing spaces.
pub fn render(frame: &DataFrame, layout: Layout<'_>) -> String {
    if layout.color {
        // The printer decides on colour: NO_COLOR must not override `--color always`.
        crossterm::style::force_color_output(true);
    }
    let columns = laid_out(frame, layout);
    let fits = |gap: &u16| {
        let width = layout.width.map(usize::from);
        width.is_none_or(|width| needed(&columns, *gap) <= width)
    };
    let height = frame.height();
    match [GAP, NARROW_GAP].into_iter().find(fits) {
        Some(gap) => aligned(&columns, height, gap, layout),
        None if height > MOST_WRAPPED => aligned(&columns, height, NARROW_GAP, layout),
        None => wrapped(&columns, height, layout),
    }
}

/// A table with one line per row. Must be fast for a hundred thousand rows.
fn aligned(columns: &[Column<'_>], height: usize, gap: u16, layout: Layout<'_>) -> String {
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let gap = usize::from(gap);
    let mut text = String::new();
    let last = columns.len().saturating_sub(1);
    for row in std::iter::once(None).chain((0..height).map(Some)) {
        let start = text.len();
        for (at, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = row.map_or(column.name, |row| column.cell(row));
            let blanks = width.saturating_sub(width_of_text(cell));
            let (before, after) = match column.is_number {
                true => (blanks, 0),
                false => (0, blanks),
            };
            let after = after + if at == last { 0 } else { gap };
            let color = row.and_then(|_| column.color(cell, layout));
            let is_bold = row.is_none() && layout.color;
            // Writing to a string cannot fail.
            if is_bold {
                let _ = write!(text, "{}", SetAttribute(Attribute::Bold));
            } else if let Some(color) = color {
                let _ = write!(text, "{}", SetForegroundColor(color));
            }
            text.extend(std::iter::repeat_n(' ', before));
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', after));
            if is_bold {
                let _ = write!(text, "{ResetColor}");
            } else if color.is_some() {
                let _ = write!(text, "{}", SetForegroundColor(Color::Reset));
            }
        }
        text.truncate(start + text.get(start..).map_or(0, |line| line.trim_end().len()));
        text.push('\n');
    }
    text
}

/// A table in a terminal that is too narrow for it.
fn wrapped(columns: &[Column<'_>], height: usize, layout: Layout<'_>) -> String {
    let mut table = Table::new();
    let width = layout.width.unwrap_or(u16::MAX);
    table
        .force_no_tty()
        .load_style(TableStyle::new())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(1));
    if layout.color {
        table.enforce_styling();
    }
    table.set_header(columns.iter().map(|column| {
        let cell = Cell::new(column.name).set_alignment(column.alignment());
        if layout.color {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    for row in 0..height {
        table.add_row(Row::from(columns.iter().map(|column| {
            let text = column.cell(row);
            let cell = Cell::new(text).set_alignment(column.alignment());
            match column.color(text, layout) {
                Some(color) => cell.fg(color),
                None => cell,
            }
        })));
    }
    let last = columns.len().saturating_sub(1);
    let least = columns.iter().map(|column| match column.is_label() {
        true => column.width(),
        false => column.width().min(LEAST),
    });
    let least = least.sum::<usize>() + last * usize::from(NARROW_GAP);
    let keeps_labels = least <= usize::from(width);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { NARROW_GAP }));
        if keeps_labels && columns.get(at).is_some_and(Column::is_label) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The width that a frame needs on a terminal, without symbols.
pub fn width_of(frame: &DataFrame) -> usize {
    needed(&columns_of(frame, Layout::default()), GAP)
}

/// The same with the narrowest gaps.
pub fn least_width_of(frame: &DataFrame) -> usize {
    needed(&columns_of(frame, Layout::default()), NARROW_GAP)
}

/// Spaces between two columns.
const GAP: u16 = 2;
const NARROW_GAP: u16 = 1;

/// Longer tables are not wrapped: this would take longer than everything else, and nobody reads them in a terminal.
const MOST_WRAPPED: usize = 10_000;

/// Columns of names, which are copied and searched, so they stay whole as long as all other columns keep [`LEAST`] letters.
const LABELS: [&str; 4] = ["decision", "procedure", "subject", "session"];
const LEAST: usize = 5;

struct Column<'a> {
    name: &'a str,
    is_number: bool,
    cells: Vec<Cow<'a, str>>,
}

impl Column<'_> {
    fn alignment(&self) -> CellAlignment {
        if self.is_number {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        }
    }

    fn is_label(&self) -> bool {
        LABELS.contains(&self.name)
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| width_of_text(cell));
        cells.fold(width_of_text(self.name), usize::max)
    }

    fn cell(&self, row: usize) -> &str {
        self.cells.get(row).map_or(NOTHING, |text| text.as_ref())
    }

    fn color(&self, text: &str, layout: Layout<'_>) -> Option<Color> {
        if !layout.color || !layout.painted.contains(&self.name) {
            return None;
        }
        let color = match (self.is_number, text) {
            (true, "0") => Some(Color::DarkGrey),
            (true, _) => color_of(self.name),
            (false, _) => color_of(word_of(text)),
        };
        color.or_else(|| efficiency::color(self.name, text).map(on_terminal))
    }
}

/// Columns of the terminal that a text without control characters needs.
fn width_of_text(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// Chooses the columns, then symbols if there is room: columns are more useful.
fn laid_out<'a>(frame: &'a DataFrame, layout: Layout<'_>) -> Vec<Column<'a>> {
    let symbols = false;
    let plain = fit(columns_of(frame, Layout { symbols, ..layout }), layout);
    if !layout.symbols {
        return plain;
    }
    let mut marked = columns_of(frame, layout);
    marked.retain(|column| plain.iter().any(|kept| kept.name == column.name));
    match layout.width {
        Some(width) if needed(&marked, GAP) > usize::from(width) => plain,
        _ => marked,
    }
}

fn columns_of<'a>(frame: &'a DataFrame, layout: Layout<'_>) -> Vec<Column<'a>> {
    let cells = |values: &'a polars::prelude::Column| -> Vec<Cow<'a, str>> {
        let Ok(texts) = values.str() else {
            return (0..values.len()).map(|at| number(values, at)).collect();
        };
        let has_symbols = layout.symbols && layout.painted.contains(&values.name().as_str());
        let symbol = |text: &str| symbol_of(text).filter(|_| has_symbols);
        let cell = |text: Option<&'a str>| match text {
            None | Some("") => Cow::Borrowed(NOTHING),
            Some(text) => match symbol(text) {
                Some(symbol) => Cow::Owned(format!("{symbol} {}", printable(text))),
                None => printable(text),
            },
        };
        texts.iter().map(cell).collect()
    };
    frame
        .columns()
        .iter()
        .map(|values| Column {
            name: values.name().as_str(),
            is_number: values.dtype().is_primitive_numeric(),
            cells: cells(values),
        })
        .collect()
}

fn number(values: &polars::prelude::Column, at: usize) -> Cow<'static, str> {
    match values.get(at) {
        Ok(AnyValue::Null) | Err(_) => Cow::Borrowed(NOTHING),
        Ok(value) => Cow::Owned(value.to_string()),
    }
}

fn needed(columns: &[Column<'_>], gap: u16) -> usize {
    let gaps = columns.len().saturating_sub(1) * usize::from(gap);
    columns.iter().map(Column::width).sum::<usize>() + gaps
}

/// Omits optional columns while the table is wider than the terminal.
fn fit<'a>(mut columns: Vec<Column<'a>>, layout: Layout<'_>) -> Vec<Column<'a>> {
    let Some(width) = layout.width.map(usize::from) else {
        return columns;
    };
    let count = layout.optional.len();
    for (at, name) in layout.optional.iter().enumerate() {
        let is_last = count > 1 && at + 1 == count;
        if needed(&columns, if is_last { NARROW_GAP } else { GAP }) <= width {
            break;
        }
        columns.retain(|column| column.name != *name);
    }
    columns
}
fn color_of(text: &str) -> Option<Color> {
    Some(on_terminal(TaskState::of_cell(text)?.style().color))
}

fn on_terminal(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Green => Color::Green,
        AnsiColor::Cyan => Color::Cyan,
        AnsiColor::Blue => Color::Blue,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Red => Color::Red,
        AnsiColor::Magenta => Color::Magenta,
        _ => Color::DarkGrey,
    }
}

fn symbol_of(text: &str) -> Option<char> {
    Some(TaskState::of_cell(text)?.style().symbol)
}

/// A cell without its symbol.
fn word_of(cell: &str) -> &str {
    match cell.split_once(' ') {
        Some((symbol, word)) if symbol_of(word).is_some_and(|c| symbol.starts_with(c)) => word,
        _ => cell,
    }
}
