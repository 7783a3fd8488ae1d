//! Layout of tables: aligned, coloured if requested, fitted to a width.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use polars::prelude::{AnyValue, DataFrame};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::base::text::printable;
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

/// Renders a frame.
pub fn render(frame: &DataFrame, layout: Layout<'_>) -> String {
    render_columns(&laid_out(frame, layout), layout)
}

/// Renders columns of the same height. Lines have no trailing spaces.
pub fn render_columns(columns: &[Column<'_>], layout: Layout<'_>) -> String {
    let height = columns.first().map_or(0, |column| column.cells.len());
    let room = layout.width.map_or(usize::MAX, usize::from);
    let gap = match needed(columns, GAP) <= room {
        true => GAP,
        false => NARROW_GAP,
    };
    let widths = match height > MOST_WRAPPED {
        true => columns.iter().map(Column::width).collect(),
        false => widths(columns, room - gaps(columns, gap).min(room)),
    };
    let mut text = String::new();
    let last = columns.len().saturating_sub(1);
    let mut rests: Vec<&str> = Vec::new();
    // Must be fast for a hundred thousand rows.
    for row in std::iter::once(None).chain((0..height).map(Some)) {
        let cells = columns.iter();
        rests.clear();
        rests.extend(cells.map(|column| row.map_or(column.name, |row| column.cell(row))));
        loop {
            let start = text.len();
            let cells = columns.iter().zip(&widths).zip(&mut rests);
            for (at, ((column, width), rest)) in cells.enumerate() {
                let part;
                (part, *rest) = split(rest, *width);
                let blanks = width.saturating_sub(width_of_text(part));
                let (before, after) = match column.is_number {
                    true => (blanks, 0),
                    false => (0, blanks),
                };
                let after = after + if at == last { 0 } else { gap };
                let style = match row {
                    None if layout.color => Style::new().bold(),
                    None => Style::new(),
                    Some(row) => Style::new().fg_color(column.color(column.cell(row), layout)),
                };
                // Writing to a string cannot fail.
                let _ = write!(text, "{style}{:before$}{part}{:after$}{style:#}", "", "");
            }
            text.truncate(start + text.get(start..).map_or(0, |line| line.trim_end().len()));
            text.push('\n');
            if rests.iter().all(|rest| rest.is_empty()) {
                break;
            }
        }
    }
    text
}

/// The widths of columns in this room: the widest are narrowed first, names last.
fn widths(columns: &[Column<'_>], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    while widths.iter().sum::<usize>() > room {
        let wide = columns.iter().zip(&mut widths);
        let wide = wide.filter(|(_, width)| **width > LEAST);
        let Some((_, width)) =
            wide.max_by_key(|(column, width)| (!LABELS.contains(&column.name), **width))
        else {
            break;
        };
        *width -= 1;
    }
    widths
}

/// The part of a text that fits into a line, if possible up to a space, and the rest.
fn split(text: &str, width: usize) -> (&str, &str) {
    if width_of_text(text) <= width {
        return (text, "");
    }
    let mut used = 0;
    let mut letters = text.char_indices();
    let end = letters.find(|(_, letter)| {
        used += letter.width().unwrap_or_default();
        used > width
    });
    let (mut part, rest) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    if let Some((words, _)) = part.rsplit_once(' ').filter(|_| !rest.starts_with(' ')) {
        part = words;
    }
    (
        part,
        text.get(part.len()..).unwrap_or_default().trim_start(),
    )
}

/// The width that a frame needs on a terminal, without symbols.
pub fn width_of(frame: &DataFrame, is_close: bool) -> usize {
    let gap = if is_close { NARROW_GAP } else { GAP };
    needed(&columns_of(frame, Layout::default()), gap)
}

/// Spaces between two columns.
const GAP: usize = 2;
const NARROW_GAP: usize = 1;

/// Longer tables are not wrapped: this would take longer than everything else, and nobody reads them in a terminal.
const MOST_WRAPPED: usize = 10_000;

/// Columns of names, which are copied and searched, so they stay whole as long as all other columns keep [`LEAST`] letters.
const LABELS: [&str; 4] = ["decision", "procedure", "subject", "session"];
const LEAST: usize = 5;

/// One column: its title and cells, which contain no control characters.
pub struct Column<'a> {
    pub name: &'a str,
    pub is_number: bool,
    pub cells: Vec<Cow<'a, str>>,
}

impl Column<'_> {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| width_of_text(cell));
        cells.fold(width_of_text(self.name), usize::max)
    }

    fn cell(&self, row: usize) -> &str {
        self.cells.get(row).map_or(NOTHING, |text| text.as_ref())
    }

    fn color(&self, text: &str, layout: Layout<'_>) -> Option<anstyle::Color> {
        if !layout.color || !layout.painted.contains(&self.name) {
            return None;
        }
        let color = match (self.is_number, text) {
            (true, "0") => Some(AnsiColor::BrightBlack),
            (true, _) => color_of(self.name),
            (false, _) => color_of(word_of(text)),
        };
        let color = color.or_else(|| efficiency::color(self.name, text));
        // The bright variants are easier to read on a dark background.
        color.map(|color| anstyle::Color::Ansi(color.bright(true)))
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

fn needed(columns: &[Column<'_>], gap: usize) -> usize {
    columns.iter().map(Column::width).sum::<usize>() + gaps(columns, gap)
}

fn gaps(columns: &[Column<'_>], gap: usize) -> usize {
    columns.len().saturating_sub(1) * gap
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

fn color_of(text: &str) -> Option<AnsiColor> {
    Some(TaskState::of_cell(text)?.style().color)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tables::texts;

    #[test]
    fn text_is_split_at_spaces_and_else_where_the_line_ends() {
        for (text, parts) in [
            ("short", ("short", "")),
            ("one two three", ("one two", "three")),
            ("exact st fit", ("exact st", "fit")),
            ("abcdefghijk", ("abcdefgh", "ijk")),
            ("漢字漢字漢字", ("漢字漢字", "漢字")),
        ] {
            assert_eq!(split(text, 8), parts, "{text}");
        }
    }

    #[test]
    fn names_are_wrapped_last() {
        let text = |name, text| texts(name, [Some(text)].into_iter());
        let columns = vec![
            text("subject", "sub-000000001"),
            text("failure", "exit code 1 of x"),
        ];
        let frame = DataFrame::new(1, columns).unwrap();
        let shown = |width| {
            render(
                &frame,
                Layout {
                    width: Some(width),
                    ..Layout::default()
                },
            )
        };
        assert_eq!(
            shown(24),
            "subject       failure\nsub-000000001 exit code\n              1 of x\n"
        );
        assert_eq!(
            shown(16),
            "subject    failu\n           re\nsub-000000 exit\n001        code\n           1 of\n           x\n"
        );
    }
}
