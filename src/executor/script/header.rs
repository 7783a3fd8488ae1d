//! Reads the `#SBATCH` lines of a job script as sbatch does. Pure.
//!
//! sbatch takes options from lines that begin with `#SBATCH`, up to the first line that is neither
//! blank nor a comment. Words are split at white space; `'`, `"` and `\` quote, `#` begins a comment.

use crate::model::procedure::options::{Arguments, Class};

const MAGIC: &[u8] = b"#SBATCH";

/// The lines before the first one that is neither blank nor a comment.
pub fn header(script: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = script.split(|byte| *byte == b'\n').enumerate();
    lines.take_while(|(_, line)| matches!(line.trim_ascii_start().first(), None | Some(b'#')))
}

/// The words after `#SBATCH` as sbatch sees them. A quotation without end extends to the end of the line (sbatch
/// refuses the script).
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '"' | '\'' => quote = Some(c),
            '#' => break,
            _ if c.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The options that sbatch takes from a script, with line numbers from 1.
pub fn options(script: &[u8]) -> Arguments {
    let lines = header(script).filter_map(|(at, line)| {
        let text = String::from_utf8_lossy(line.strip_prefix(MAGIC)?);
        Some(words(&text).into_iter().map(move |word| (at + 1, word)))
    });
    Arguments::parse(lines.flatten())
}

/// The first option that changes how sbatch answers or keeps its job from being found, if any: its line, its text and
/// the reason.
pub fn unfit(script: &[u8]) -> Option<(usize, String, &'static str)> {
    options(script)
        .iter()
        .find_map(|argument| match argument.option?.class {
            Class::Unfit(why) => Some((argument.at, argument.word.clone(), why)),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_after_the_first_command_are_ignored() {
        let script = "#!/bin/bash\n#SBATCH --mem=4G\n\n  # a comment\n ##SBATCH -x\n#SBATCH -t 10\n\t\nset -e\n#SBATCH --wait\n";
        let found: Vec<(usize, String)> = options(script.as_bytes())
            .iter()
            .map(|argument| (argument.at, argument.word.clone()))
            .collect();
        assert_eq!(found, [(2, "--mem=4G".to_owned()), (6, "-t".to_owned())]);
    }

    #[test]
    fn words_are_split_as_sbatch_splits_them() {
        for (line, words) in [
            ("#SBATCH", &[][..]),
            ("#SBATCH--mem=4G", &["--mem=4G"]),
            (
                "#SBATCH -J a\t--time=1:00 # --wait",
                &["-J", "a", "--time=1:00"],
            ),
            (
                r#"#SBATCH --comment="a 'b' # c" -n2"#,
                &["--comment=a 'b' # c", "-n2"],
            ),
            (r"#SBATCH --job-name=a\ b\#c", &["--job-name=a b#c"]),
            ("#SBATCH --comment='open  end", &["--comment=open  end"]),
            ("#SBATCH -o ''", &["-o"]),
        ] {
            let text = line.strip_prefix("#SBATCH").unwrap();
            assert_eq!(super::words(text), words, "{line}");
        }
    }

    #[test]
    fn attack_options_that_a_script_must_not_have_are_found() {
        for (options, found) in [
            ("--wait", Some("--wait")),
            ("-W", Some("-W")),
            ("-HW", Some("-HW")),
            ("--time=1:00 -W", Some("-W")),
            ("-J x -W", Some("-W")),
            ("--exclusive --wait", Some("--wait")),
            ("--test-only", Some("--test-only")),
            ("--test", Some("--test")),
            ("-QJx", Some("-QJx")),
            ("--quiet", Some("--quiet")),
            ("-V", Some("-V")),
            ("--uid=1000", Some("--uid=1000")),
            ("--mem=4G --gid 1000", Some("--gid")),
            ("--wait-all-nodes=1", None),
            ("-JW", None),
            ("-J -W", None),
            ("--wckey=wait", None),
            ("--comment='--wait'", None),
            ("# --wait", None),
            ("-p WQ -w node1", None),
            ("--mem=4G", None),
        ] {
            let script = format!("#!/bin/sh\n#SBATCH {options}\ntrue\n");
            let unfit = unfit(script.as_bytes());
            assert_eq!(
                unfit.as_ref().map(|(_, option, _)| option.as_str()),
                found,
                "{options}"
            );
            assert!(unfit.is_none_or(|(line, ..)| line == 2));
        }
        assert_eq!(unfit(b"#!/bin/sh\necho\n#SBATCH --wait\n"), None);
    }

    #[test]
    fn options_are_read_in_every_spelling() {
        let script = b"#!/bin/bash\n#SBATCH --mem=4G -p long\n#SBATCH -t 1:00:00 --array 1-5\n#SBATCH -a1-5 -H\n\
            #SBATCH -J -p --nice=-a --mem-per-cpu=1G\ntrue\n#SBATCH -p late\n";
        let found: Vec<(usize, &str, String)> = options(script)
            .iter()
            .map(|argument| {
                let name = argument.option.map_or("", |option| option.long);
                (
                    argument.at,
                    name,
                    argument.value.clone().unwrap_or_default(),
                )
            })
            .collect();
        let expected = [
            (2, "mem", "4G"),
            (2, "partition", "long"),
            (3, "time", "1:00:00"),
            (3, "array", "1-5"),
            (4, "array", "1-5"),
            (4, "hold", ""),
            (5, "job-name", "-p"),
            (5, "nice", "-a"),
            (5, "mem-per-cpu", "1G"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, name, value)| (*line, *name, (*value).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut script = b"#SBATCH ".to_vec();
            script.extend(bytes);
            let _ = unfit(&script);
        }
    }
}
