//! What the `#SBATCH` lines of a script ask for, against what the program passes on the command line, which wins.

use std::path::Path;

use super::Facts;
use crate::executor::script::header::lines;
use crate::model::procedure::options::SHORT_WITH_VALUE;
use crate::model::procedure::{ArrayMode, MemSize, TimeLimit, options};
use crate::setup::check::{Findings, few};

/// Options that matter here: long name and short letter (sbatch(1)).
const KNOWN: [(&str, Option<char>); 12] = [
    ("array", Some('a')),
    ("output", Some('o')),
    ("error", Some('e')),
    ("partition", Some('p')),
    ("account", Some('A')),
    ("qos", Some('q')),
    ("time", Some('t')),
    ("mem", None),
    ("cpus-per-task", Some('c')),
    ("gres", None),
    ("hold", Some('H')),
    ("clusters", Some('M')),
];

/// Is one option of a `#SBATCH` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub line: usize,
    /// The long name.
    pub name: &'static str,
    /// Empty: it takes none, or has none.
    pub value: String,
}

/// Returns the options that sbatch would take from a script and that matter here.
pub fn asked(script: &[u8]) -> Vec<Asked> {
    let mut found = Vec::new();
    for line in lines(script) {
        let mut words = line.words().into_iter().peekable();
        while let Some(word) = words.next() {
            let (name, own) = if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (long, None),
                };
                let known = KNOWN.iter().find(|(known, _)| *known == name);
                (known.map(|(name, _)| *name), value.map(str::to_owned))
            } else if let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().next())
            {
                let known = KNOWN.iter().find(|(_, short)| *short == Some(letter));
                let value = word
                    .get(1 + letter.len_utf8()..)
                    .filter(|value| !value.is_empty());
                // A value of an option that does not matter is no option.
                if known.is_none() && value.is_none() && SHORT_WITH_VALUE.contains(letter) {
                    words.next();
                }
                (known.map(|(name, _)| *name), value.map(str::to_owned))
            } else {
                continue;
            };
            let Some(name) = name else { continue };
            let value = match own {
                Some(value) => value,
                None if name == "hold" => String::new(),
                None => words
                    .next_if(|next| !next.starts_with('-'))
                    .unwrap_or_default(),
            };
            found.push(Asked {
                line: line.number,
                name,
                value,
            });
        }
    }
    found
}

/// Judges them.
pub(super) fn judge(facts: &Facts<'_>, path: &Path, asked: &[Asked], findings: &mut Findings) {
    let shown = path.display();
    let first = |name: &str| asked.iter().find(|option| option.name == name);
    if let Some(Asked { line, value, .. }) = first("array") {
        findings.error(
            format!(
                "{shown} has '#SBATCH --array={value}' in line {line}: each task would be several jobs, of which nobody \
                 knows which one is the task's"
            ),
            match facts.array {
                ArrayMode::Never => "take it out: one job is submitted per task (`array: auto` makes arrays of tasks)",
                _ => "take it out: the program makes the arrays",
            },
        );
    }
    if let Some(Asked { line, .. }) = first("hold") {
        findings.warning(
            format!("{shown} has '#SBATCH --hold' in line {line}: its jobs wait until somebody releases them"),
            "take it out, unless somebody does",
        );
    }
    if let Some(Asked { line, value, .. }) = first("clusters") {
        findings.warning(
            format!("{shown} has '#SBATCH --clusters={value}' in line {line}, where the program does not see it"),
            format!("write sbatch_args: [--clusters={value}] at the procedure instead"),
        );
    }
    let logs: Vec<String> = asked
        .iter()
        .filter(|option| facts.has_log_dir && matches!(option.name, "output" | "error"))
        .map(|option| format!("--{}={} (line {})", option.name, option.value, option.line))
        .collect();
    if !logs.is_empty() {
        let logs = few(&logs);
        findings.warning(
            format!(
                "{shown} names its logs, without effect: {logs}; slurm_log_dir says where they go"
            ),
            "take the lines out, or set slurm_log_dir to that directory",
        );
    }
    let overruled: Vec<String> = asked
        .iter()
        .filter_map(|option| {
            let passed = passed(facts, option.name)?;
            (!is_same(option.name, &option.value, &passed)).then(|| {
                format!(
                    "--{}={} in line {}, {passed} in the configuration",
                    option.name, option.value, option.line
                )
            })
        })
        .collect();
    if !overruled.is_empty() {
        let overruled = few(&overruled);
        findings.warning(
            format!("{shown} asks for something else than the configuration, which wins: {overruled}"),
            "write the value in one place: the script's line, or the procedure's key (empty: nothing is passed)",
        );
    }
}

/// Finds memory that is asked for in two ways, which sbatch refuses.
pub(super) fn memory(facts: &Facts<'_>, path: &Path, script: &[u8], findings: &mut Findings) {
    let words: Vec<String> = lines(script).flat_map(|line| line.words()).collect();
    let own: Vec<&str> = options::memory_options(&words).collect();
    let passed = options::passed_memory_options(facts.resources);
    let both = own.iter().flat_map(|one| {
        let others = passed.iter().chain(&own);
        others
            .filter(move |other| *other != one)
            .map(move |other| (one, other))
    });
    if let Some((one, other)) = both.into_iter().next() {
        let path = path.display();
        findings.error(
            format!("{path} has '#SBATCH --{one}', and --{other} is asked for as well: sbatch refuses them together"),
            "keep one of them; mem: \"\" at the procedure passes no --mem",
        );
    }
}

/// Returns what the program passes for an option of a script.
fn passed(facts: &Facts<'_>, name: &str) -> Option<String> {
    let resources = facts.resources;
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match name {
        "partition" => filled(&resources.partition),
        "account" => filled(&resources.account),
        "qos" => filled(&resources.qos),
        "gres" => filled(&resources.gres),
        "time" => options::time(resources).map(|time| time.to_string()),
        "mem" => options::mem(resources).map(|mem| mem.to_string()),
        "cpus-per-task" => options::cpus(resources).map(|cpus| cpus.to_string()),
        _ => None,
    }
}

fn is_same(name: &str, one: &str, other: &str) -> bool {
    match name {
        "mem" => match (MemSize::parse(one), MemSize::parse(other)) {
            (Ok(one), Ok(other)) => one.megabytes() == other.megabytes(),
            _ => one == other,
        },
        "time" => match (TimeLimit::parse(one), TimeLimit::parse(other)) {
            (Ok(one), Ok(other)) => one.seconds() == other.seconds(),
            _ => one == other,
        },
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Level, testing};
    use super::*;
    use crate::model::procedure::Resources;

    #[test]
    fn options_are_read_in_every_spelling() {
        let script = b"#!/bin/bash\n#SBATCH --mem=4G -p long\n#SBATCH -t 1:00:00 --array 1-5\n#SBATCH -a1-5 -H\n\
            #SBATCH -J -p --nice=-a --mem-per-cpu=1G\ntrue\n#SBATCH -p late\n";
        let found: Vec<(usize, &str, String)> = asked(script)
            .into_iter()
            .map(|option| (option.line, option.name, option.value))
            .collect();
        let expected = [
            (2, "mem", "4G"),
            (2, "partition", "long"),
            (3, "time", "1:00:00"),
            (3, "array", "1-5"),
            (4, "array", "1-5"),
            (4, "hold", ""),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(line, name, value)| (*line, *name, (*value).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn e13_memory_that_is_asked_for_in_two_ways_is_an_error() {
        for (script, sbatch_args, mem, both) in [
            (
                "#SBATCH --mem-per-cpu=1G",
                "--nice=1",
                Some("4G"),
                Some(("mem-per-cpu", "mem")),
            ),
            (
                "#SBATCH --mem=1G",
                "--mem-per-gpu=1G",
                None,
                Some(("mem", "mem-per-gpu")),
            ),
            (
                "#SBATCH --mem=1G --mem-per-cpu=1G",
                "-n1",
                None,
                Some(("mem", "mem-per-cpu")),
            ),
            ("#SBATCH --mem=1G", "-n1", Some("4G"), None),
            ("#SBATCH --mem-per-cpu=1G", "--mem-per-cpu=2G", None, None),
        ] {
            let resources = Resources {
                mem: mem.and_then(|mem| MemSize::parse(mem).ok()),
                sbatch_args: vec![sbatch_args.to_owned()],
                ..Resources::default()
            };
            let (script, facts) = (format!("#!/bin/sh\n{script}\n"), facts(&resources, true));
            let findings = testing::judged(|out| {
                memory(&facts, Path::new("/s"), script.as_bytes(), out);
            });
            let found: Vec<_> = findings.iter().map(|f| (f.level, f.text.clone())).collect();
            assert_eq!(found.len(), usize::from(both.is_some()), "{found:?}");
            if let (Some((one, other)), [(level, text)]) = (both, &found[..]) {
                assert_eq!(*level, Level::Error);
                assert!(
                    text.contains(&format!("#SBATCH --{one}', and --{other}")),
                    "{text}"
                );
            }
        }
    }

    fn facts(resources: &Resources, has_log_dir: bool) -> Facts<'_> {
        Facts {
            resources,
            has_log_dir,
            ..super::super::tests::facts(Ok(b""))
        }
    }

    #[test]
    fn what_stands_in_two_places_is_compared() {
        let resources = Resources {
            partition: Some("debug".to_owned()),
            account: Some(String::new()),
            mem: MemSize::parse("32G").ok(),
            time: TimeLimit::parse("1-0").ok(),
            sbatch_args: vec!["-c4".to_owned()],
            ..Resources::default()
        };
        let texts = |script: &str, has_log_dir: bool| -> Vec<(Level, String)> {
            let facts = facts(&resources, has_log_dir);
            let script = format!("#!/bin/sh\n{script}\n");
            let asked = asked(script.as_bytes());
            let findings = testing::judged(|out| judge(&facts, Path::new("/s"), &asked, out));
            findings.into_iter().map(|f| (f.level, f.text)).collect()
        };
        for same in [
            "#SBATCH --mem=32768 --time=24:00:00 -p debug -c 4",
            "#SBATCH --account=other --qos=low --job-name=x",
            "",
        ] {
            assert_eq!(texts(same, true), [], "{same}");
        }
        assert_eq!(texts("#SBATCH --output=/x/%j", false), []);
        for (script, level, part) in [
            (
                "#SBATCH --mem=64G",
                Level::Warning,
                "--mem=64G in line 2, 32G in",
            ),
            (
                "#SBATCH -t 60",
                Level::Warning,
                "--time=60 in line 2, 1-0 in",
            ),
            (
                "#SBATCH -c 8",
                Level::Warning,
                "--cpus-per-task=8 in line 2, 4 in",
            ),
            (
                "#SBATCH -o /x/%j",
                Level::Warning,
                "--output=/x/%j (line 2)",
            ),
            ("#SBATCH --array=0-9", Level::Error, "--array=0-9"),
            ("#SBATCH -H", Level::Warning, "--hold"),
            ("#SBATCH -M gpu", Level::Warning, "--clusters=gpu"),
        ] {
            let found = texts(script, true);
            assert_eq!(found.len(), 1, "{script}: {found:?}");
            assert_eq!(found[0].0, level);
            assert!(found[0].1.contains(part), "{script}: {found:?}");
        }
    }
}
