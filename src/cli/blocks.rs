//! Layout of text blocks: a title, then lines with a label, wrapped to the terminal's width.

use anstyle::Style;

use super::TaskState;
use super::output::PrinterOptions;
use crate::base::text::printable;
use crate::show::tables::first_word;

/// Width of the labels.
const INDENT: usize = 11;
/// Placeholder for a space at which no line breaks.
pub(super) const NO_BREAK: char = '\u{a0}';
/// Text is never wrapped to fewer columns: one word per line is unreadable.
const NARROWEST: usize = 30;

/// Text of a block.
#[derive(Debug, Default)]
pub(super) struct Block {
    text: String,
    options: PrinterOptions,
}

impl Block {
    pub(super) fn new(options: PrinterOptions) -> Self {
        let text = String::new();
        Self { text, options }
    }

    /// Adds a title, followed by a text that begins with a status or decision word.
    pub(super) fn title(&mut self, title: &str, text: &str) {
        let (title, text) = (printable(title), printable(text));
        let word = first_word(&text);
        let (mut bold, mut style) = (Style::new(), Style::new());
        if self.options.out_color {
            bold = bold.bold();
            if let Some(state) = TaskState::of_cell(word) {
                style = bold.fg_color(Some(state.style().color.into()));
            }
        }
        // Coloured after wrapping, because colour codes have no width.
        let plain = format!("{title}: {word}");
        let colored = format!("{bold}{title}{bold:#}: {style}{word}{style:#}");
        let lines = wrap(&format!("{title}: {text}"), self.options.width, 0);
        for (at, line) in lines.iter().enumerate() {
            match line.strip_prefix(&plain).filter(|_| at == 0) {
                Some(rest) => self.push(&format!("{colored}{rest}")),
                None => self.push(line),
            }
        }
    }

    /// Adds a line with a label. Later lines of the same label have an empty one.
    pub(super) fn entry(&mut self, label: &str, text: &str) {
        let lines = wrap(&printable(text), self.options.width, INDENT);
        for (at, line) in lines.iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            self.push(&format!("  {label:<width$}{line}", width = INDENT - 2));
        }
    }

    /// Adds lines below one label.
    pub(super) fn entries(
        &mut self,
        label: &str,
        texts: impl IntoIterator<Item = impl AsRef<str>>,
    ) {
        for (at, text) in texts.into_iter().enumerate() {
            self.entry(if at == 0 { label } else { "" }, text.as_ref());
        }
    }

    /// Adds a line to copy, which is never wrapped.
    pub(super) fn verbatim(&mut self, label: &str, text: &str) {
        let text = printable(text);
        self.push(&format!("  {label:<width$}{text}", width = INDENT - 2));
    }

    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(&line.trim_end().replace(NO_BREAK, " "));
        self.text.push('\n');
    }
}

/// Breaks a text at spaces into lines that fit into the terminal's width, if there is one, beside `indent` columns. Lines
/// after the first are indented by two more. Words that are too long stay whole, so that paths can be copied.
pub(super) fn wrap(text: &str, width: Option<u16>, indent: usize) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let room = usize::from(width).max(NARROWEST).saturating_sub(indent);
    let own_indent = text.len() - text.trim_start().len();
    let mut lines = Vec::new();
    let mut line = " ".repeat(own_indent);
    let mut is_empty = true;
    for word in text.trim_start().split(' ') {
        let needed = line.chars().count() + word.chars().count() + usize::from(!is_empty);
        if needed > room && !is_empty {
            let next = " ".repeat(own_indent + 2);
            lines.push(std::mem::replace(&mut line, next));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_hangs_below_its_label() {
        let mut block = Block::new(PrinterOptions {
            width: Some(36),
            ..PrinterOptions::default()
        });
        block.title(
            "bids sub-01",
            "failed (timeout), a long story that continues",
        );
        block.entry("job", "one two three four five six seven");
        block.entry("", "/a/path/that/is/much/too/long/for/this");
        block.verbatim("line", "sbatch --a-very-long-option --and-another-one");
        assert_eq!(
            block.finish(),
            "\
bids sub-01: failed (timeout), a
  long story that continues
  job      one two three four five
             six seven
           /a/path/that/is/much/too/long/for/this
  line     sbatch --a-very-long-option --and-another-one
"
        );
    }

    #[test]
    fn colour_follows_wrapping_and_control_characters_are_escaped() {
        let mut block = Block::new(PrinterOptions {
            out_color: true,
            ..PrinterOptions::default()
        });
        block.title("a", "failed (x)");
        block.entry("b", "c\x1b[31m");
        assert_eq!(
            block.finish(),
            "\u{1b}[1ma\u{1b}[0m: \u{1b}[1m\u{1b}[31mfailed\u{1b}[0m (x)\n  b        c\\u{1b}[31m\n"
        );
    }
}
