//! Lays a frame out as a table for people: aligned, coloured where asked, fitted to a width.

use std::borrow::Cow;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ContentArrangement, Row, Table, TableStyle,
};
use polars::prelude::{AnyValue, DataFrame};

use crate::tables::words::short_cell;

/// Stands for a missing value and for an empty text, so that every field of a line is there.
const NOTHING: &str = "-";

/// Says how a table is laid out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout<'a> {
    /// The terminal's width in columns. None: no terminal, nothing is wrapped or left out.
    pub width: Option<u16>,
    pub color: bool,
    /// Columns whose cells begin with a status or decision word, and get its colour.
    pub painted: &'a [&'a str],
    /// Columns that are left out one after the other while the table is too wide.
    pub optional: &'a [&'a str],
}

/// Renders a frame; each line ends with a line end and has no blanks before it.
pub fn render(frame: &DataFrame, layout: Layout<'_>) -> String {
    let columns = fit(columns_of(frame), layout);
    let mut table = Table::new();
    table.force_no_tty().load_style(TableStyle::new());
    if layout.color {
        // Colour is decided by the printer; the variable NO_COLOR must not overrule `--color always`.
        crossterm::style::force_color_output(true);
        table.enforce_styling();
    }
    match layout.width {
        None => table.set_content_arrangement(ContentArrangement::Disabled),
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.max(1)),
    };
    table.set_header(columns.iter().map(|column| {
        let cell = Cell::new(column.name).set_alignment(column.alignment());
        if layout.color {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    for at in 0..frame.height() {
        table.add_row(Row::from(columns.iter().map(|column| {
            let text = column.cells.get(at).map_or(NOTHING, |text| text.as_ref());
            let cell = Cell::new(text).set_alignment(column.alignment());
            match color_of(text) {
                Some(color) if layout.color && layout.painted.contains(&column.name) => {
                    cell.fg(color)
                }
                _ => cell,
            }
        })));
    }
    let fits = |width| needed(&columns, GAP) <= usize::from(width);
    let gap = if layout.width.is_none_or(fits) {
        GAP
    } else {
        NARROW_GAP
    };
    let last = columns.len().saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { gap }));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns how many columns of a terminal a frame needs in full.
pub fn width_of(frame: &DataFrame) -> usize {
    needed(&columns_of(frame), GAP)
}

/// Makes a text safe to show: control characters (escape sequences, line ends) are written out.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Blanks between two columns.
const GAP: u16 = 2;
const NARROW_GAP: u16 = 1;

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

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.fold(self.name.chars().count(), usize::max)
    }
}

fn columns_of(frame: &DataFrame) -> Vec<Column<'_>> {
    let column = |column: &'_ polars::prelude::Column| -> Vec<Cow<'static, str>> {
        (0..column.len())
            .map(|at| match column.get(at) {
                Ok(AnyValue::String(text)) => cell_text(text),
                Ok(AnyValue::StringOwned(text)) => cell_text(&text),
                Ok(AnyValue::Null) | Err(_) => Cow::Borrowed(NOTHING),
                Ok(value) => Cow::Owned(value.to_string()),
            })
            .collect()
    };
    frame
        .columns()
        .iter()
        .map(|values| Column {
            name: values.name().as_str(),
            is_number: values.dtype().is_primitive_numeric(),
            cells: column(values),
        })
        .collect()
}

fn cell_text(text: &str) -> Cow<'static, str> {
    if text.is_empty() {
        Cow::Borrowed(NOTHING)
    } else {
        Cow::Owned(printable(text).into_owned())
    }
}

fn needed(columns: &[Column<'_>], gap: u16) -> usize {
    let gaps = columns.len().saturating_sub(1) * usize::from(gap);
    columns.iter().map(Column::width).sum::<usize>() + gaps
}

/// Leaves optional columns out while the table is wider than the terminal.
fn fit<'a>(mut columns: Vec<Column<'a>>, layout: Layout<'_>) -> Vec<Column<'a>> {
    let Some(width) = layout.width.map(usize::from) else {
        return columns;
    };
    for name in layout.optional {
        if needed(&columns, GAP) <= width {
            break;
        }
        columns.retain(|column| column.name != *name);
    }
    columns
}

/// Returns the colour of a status or decision word, which stands beside it in any case.
fn color_of(text: &str) -> Option<Color> {
    match short_cell(text) {
        "done" => Some(Color::Green),
        "run" => Some(Color::Cyan),
        "pend" => Some(Color::Blue),
        "due" => Some(Color::Yellow),
        "fail" | "block" | "unrd" => Some(Color::Red),
        "wait" | "limit" | "nodcm" | "n/a" | "nsel" => Some(Color::DarkGrey),
        _ => None,
    }
}
