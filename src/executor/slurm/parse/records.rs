//! Splits an answer of squeue or sacct into records of fields. Pure.
//!
//! Slurm prints a separator after each field and a line break after each record, and lets people put line breaks into
//! the texts of their jobs. The separator is ours, so no text holds it: counting separators finds the end of a
//! record, whatever its texts hold.

use super::ids::ids;

/// An answer in parts.
pub(super) struct Records<'a, const N: usize> {
    pub(super) records: Vec<[&'a str; N]>,
    /// Lines that belong to no record, and records that were cut: an answer with one of these is not clean.
    pub(super) foreign: Vec<&'a str>,
}

/// A record of which further lines may follow.
struct Open {
    start: usize,
    separators: usize,
}

/// Splits an answer whose records have N fields; only those after the first `safe` ones are people's texts.
pub(super) fn records<'a, const N: usize>(
    text: &'a str,
    separator: &str,
    safe: usize,
) -> Records<'a, N> {
    let mut found = Records {
        records: Vec::new(),
        foreign: Vec::new(),
    };
    let mut open: Option<Open> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let separators = line.matches(separator).count();
        let is_start = line
            .split_once(separator)
            .is_some_and(|(id, _)| ids(id).is_some());
        // The rest of a name holds one separator, at its end. Any other start of a record means that a program in
        // front of Slurm's has dropped the last separator of the record before.
        let ends_name = separators == 1 && line.trim_end().ends_with(separator);
        let is_next = |record: &Open| {
            record.separators < safe || record.separators == N - 1 && is_start && !ends_name
        };
        match &mut open {
            Some(record) if !is_next(record) => record.separators += separators,
            _ => {
                if let Some(record) = open.take() {
                    found.add(text.get(record.start..at), separator);
                }
                match is_start {
                    true => {
                        open = Some(Open {
                            start: at,
                            separators,
                        });
                    }
                    false if line.trim().is_empty() => {}
                    false => found.foreign.push(line),
                }
            }
        }
        at += line.len();
        if let Some(record) = open.take_if(|record| record.separators >= N) {
            found.add(text.get(record.start..at), separator);
        }
    }
    if let Some(record) = open {
        found.add(text.get(record.start..), separator);
    }
    found
}

impl<'a, const N: usize> Records<'a, N> {
    fn add(&mut self, record: Option<&'a str>, separator: &str) {
        let record = record.unwrap_or_default().trim_end_matches(['\r', '\n']);
        let mut parts = record.split(separator);
        let fields: Vec<&str> = parts.by_ref().take(N).collect();
        match (<[&str; N]>::try_from(fields), parts.next(), parts.next()) {
            (Ok(fields), None | Some(""), None) => self.records.push(fields),
            _ => self.foreign.push(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields<'a>(text: &'a str, separator: &str) -> (Vec<Vec<&'a str>>, usize) {
        let found = records::<4>(text, separator, 2);
        let records = found.records.iter().map(|record| record.to_vec());
        (records.collect(), found.foreign.len())
    }

    #[test]
    fn texts_may_hold_line_breaks_and_what_looks_like_a_record() {
        let text = "1|R|a\n2|x\ny|\n3|R||\n4|\n";
        assert_eq!(
            fields(text, "|"),
            (
                vec![vec!["1", "R", "a\n2", "x\ny"], vec!["3", "R", "", "\n4"]],
                0
            )
        );
    }

    #[test]
    fn e4_text_between_records_belongs_to_none() {
        for (text, records, foreign) in [
            ("", 0, 0),
            ("\n\n", 0, 0),
            ("1|R|a|b|\n", 1, 0),
            ("1|R|a|b|\r\n2|R|a|b|\r\n", 2, 0),
            ("1|R|a|b\n2|R|a|b\n", 2, 0),
            ("<html>\n<body>busy</body>\n", 0, 2),
            ("JOBID|STATE|COMMENT|NAME|\n1|R|a|b|\n", 1, 1),
            (
                "1|R|a|b|\nslurm_load_jobs error: Zero Bytes\n2|R|a|b|\n",
                2,
                1,
            ),
            ("1|R|a|b|\n2|R", 1, 1),
            ("1|R|a|b|\n2", 1, 1),
            ("1|R\n2|R|a|b|\n", 1, 1),
            ("1|R|a|b|c|d|\n", 0, 1),
        ] {
            let (found, others) = fields(text, "|");
            assert_eq!((found.len(), others), (records, foreign), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a3_no_text_moves_the_frame_of_a_record(
            texts in prop::collection::vec(("([0-9]{1,3}|[|\u{1f}\r\nR,x ]){0,20}", "([0-9]{1,3}|[|\u{1f}\r\nR]){0,20}"), 0..6),
        ) {
            let separator = "\u{1f}0a1b\u{1f}";
            let answer: String = texts
                .iter()
                .enumerate()
                .map(|(id, (comment, name))| [&id.to_string(), "R", comment, name, "\n"].join(separator))
                .collect();
            let (found, foreign) = fields(&answer, separator);
            prop_assert_eq!(foreign, 0);
            let expected: Vec<Vec<String>> = texts
                .iter()
                .enumerate()
                .map(|(id, (comment, name))| vec![id.to_string(), "R".to_owned(), comment.clone(), name.clone()])
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
