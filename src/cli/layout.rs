//! Layout of tables: aligned, coloured if requested, fitted to a width.

use std::borrow::Cow;

use anstyle::AnsiColor;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table,
    TableStyle,
};
use polars::prelude::{AnyValue, DataFrame};

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
    let columns = laid_out(frame, layout);
    if layout.width.is_none() && !layout.color {
        return plain(&columns, frame.height());
    }
    let mut table = Table::new();
    table.force_no_tty().load_style(TableStyle::new());
    if layout.color {
        // The printer decides on colour: NO_COLOR must not override `--color always`.
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
            if !layout.color || !layout.painted.contains(&column.name) {
                return cell;
            }
            let color = match (column.is_number, text) {
                (true, "0") => Some(Color::DarkGrey),
                (true, _) => color_of(column.name),
                (false, _) => color_of(word_of(text)),
            };
            let color = color.or_else(|| efficiency::color(column.name, text).map(on_terminal));
            match color {
                Some(color) => cell.fg(color),
                None => cell,
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
    let keeps_labels = layout.width.is_some_and(|width| {
        let least = columns.iter().map(|column| match column.is_label() {
            true => column.width(),
            false => column.width().min(LEAST),
        });
        least.sum::<usize>() + last * usize::from(gap) <= usize::from(width)
    });
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { gap }));
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

/// The table for a pipe or a file, which must be fast for a hundred thousand lines.
fn plain(columns: &[Column<'_>], height: usize) -> String {
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let mut text = String::with_capacity((widths.iter().sum::<usize>() + 2) * (height + 1));
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let start = text.len();
        for ((cell, column), width) in cells.zip(columns).zip(&widths) {
            if text.len() > start {
                text.push_str("  ");
            }
            let blanks = width.saturating_sub(cell.chars().count());
            if !column.is_number {
                text.push_str(cell);
            }
            text.extend(std::iter::repeat_n(' ', blanks));
            if column.is_number {
                text.push_str(cell);
            }
        }
        text.truncate(start + text.get(start..).map_or(0, |line| line.trim_end().len()));
        text.push('\n');
    };
    line(&mut columns.iter().map(|column| column.name));
    for at in 0..height {
        line(
            &mut columns
                .iter()
                .map(|column| column.cells.get(at).map_or(NOTHING, |cell| cell.as_ref())),
        );
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
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.fold(self.name.chars().count(), usize::max)
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
