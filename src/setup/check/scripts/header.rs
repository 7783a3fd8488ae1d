//! What the `#SBATCH` lines of a script ask for, against what the program passes on the command line, which wins.

use std::path::Path;

use super::Facts;
use crate::model::procedure::options::{Argument, Arguments};
use crate::model::procedure::{ArrayMode, MemSize, TimeLimit, options};
use crate::setup::check::{Findings, few};

/// Judges them.
pub(super) fn judge(facts: &Facts<'_>, path: &Path, asked: &Arguments, findings: &mut Findings) {
    let shown = path.display();
    let first = |name: &str| asked.iter().find(|option| option.is(name));
    let value = |option: &Argument| option.value.clone().unwrap_or_default();
    if let Some(array) = first("array") {
        let (value, line) = (value(array), array.at);
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
    if let Some(hold) = first("hold") {
        let line = hold.at;
        findings.warning(
            format!("{shown} has '#SBATCH --hold' in line {line}: its jobs wait until somebody releases them"),
            "take it out, unless somebody does",
        );
    }
    if let Some(clusters) = first("clusters") {
        let (value, line) = (value(clusters), clusters.at);
        findings.warning(
            format!("{shown} has '#SBATCH --clusters={value}' in line {line}, where the program does not see it"),
            format!("write sbatch_args: [--clusters={value}] at the procedure instead"),
        );
    }
    let logs: Vec<String> = asked
        .iter()
        .filter(|_| facts.has_log_dir)
        .filter_map(|option| {
            let name = option.option?.long;
            let line = option.at;
            matches!(name, "output" | "error")
                .then(|| format!("--{name}={} (line {line})", value(option)))
        })
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
            let name = option.option?.long;
            let passed = passed(facts, name)?;
            let (asked, line) = (value(option), option.at);
            (!is_same(name, &asked, &passed))
                .then(|| format!("--{name}={asked} in line {line}, {passed} in the configuration"))
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
pub(super) fn memory(facts: &Facts<'_>, path: &Path, asked: &Arguments, findings: &mut Findings) {
    let own: Vec<&str> = options::memory_options(asked).collect();
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
    match name {
        "time" => options::time(resources).map(|time| time.to_string()),
        "mem" => options::mem(resources).map(|mem| mem.to_string()),
        "cpus-per-task" => options::cpus(resources).map(|cpus| cpus.to_string()),
        _ => {
            let mut named = resources.named();
            named.find(|(own, _)| *own == name).map(|(_, value)| value)
        }
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
    use crate::executor::script;
    use crate::model::procedure::Resources;

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
                sbatch_args: Arguments::from_iter([sbatch_args.to_owned()]),
                ..Resources::default()
            };
            let (script, facts) = (format!("#!/bin/sh\n{script}\n"), facts(&resources, true));
            let asked = script::header::options(script.as_bytes());
            let findings = testing::judged(|out| {
                memory(&facts, Path::new("/s"), &asked, out);
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
            sbatch_args: Arguments::from_iter(["-c4".to_owned()]),
            ..Resources::default()
        };
        let texts = |script: &str, has_log_dir: bool| -> Vec<(Level, String)> {
            let facts = facts(&resources, has_log_dir);
            let script = format!("#!/bin/sh\n{script}\n");
            let asked = script::header::options(script.as_bytes());
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
