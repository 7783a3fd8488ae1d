//! Compares the `#SBATCH` lines of a script with the options on the command line, which take precedence.

use std::path::Path;

use crate::model::config::Config;
use crate::model::procedure::options::{Argument, Arguments};
use crate::model::procedure::{ArrayMode, MemSize, Procedure, Resources, TimeLimit, options};
use crate::setup::check::{Findings, few};

pub(super) fn compare(
    config: &Config,
    procedure: &Procedure,
    path: &Path,
    asked: &Arguments,
    findings: &mut Findings,
) {
    let shown = path.display();
    let first = |name: &str| asked.iter().find(|option| option.is(name));
    let value = |option: &Argument| option.value.clone().unwrap_or_default();
    if let Some(array) = first("array") {
        let (value, line) = (value(array), array.at);
        findings.error(
            format!(
                "{shown} has '#SBATCH --array={value}' in line {line}: each task would become several jobs, and it would \
                 be unknown which one is the task's"
            ),
            match procedure.rules.array {
                ArrayMode::Never => "remove it: one job is submitted per task (`array: auto` combines tasks to job arrays)",
                _ => "remove it: the program creates the job arrays",
            },
        );
    }
    if let Some(clusters) = first("clusters") {
        let (value, line) = (value(clusters), clusters.at);
        findings.warning(
            format!(
                "{shown} has '#SBATCH --clusters={value}' in line {line}, which the program ignores"
            ),
            format!("set sbatch_args: [--clusters={value}] in the procedure instead"),
        );
    }
    let logs = asked.iter().filter_map(|option| {
        let (name, line) = (option.option?.long, option.at);
        matches!(name, "output" | "error")
            .then(|| format!("--{name}={} (line {line})", value(option)))
    });
    let logs: Vec<String> = logs.collect();
    if config.slurm.log_dir.is_some() && !logs.is_empty() {
        let logs = few(&logs);
        findings.warning(
            format!("{shown} sets log files, which slurm_log_dir overrides: {logs}"),
            "remove these lines, or set slurm_log_dir to that directory",
        );
    }
    let overruled = asked.iter().filter_map(|option| {
        let name = option.option?.long;
        let passed = passed(&procedure.resources, name)?;
        let (asked, line) = (value(option), option.at);
        (!is_same(name, &asked, &passed))
            .then(|| format!("--{name}={asked} in line {line}, {passed} in the configuration"))
    });
    let overruled: Vec<String> = overruled.collect();
    if !overruled.is_empty() {
        let overruled = few(&overruled);
        findings.warning(
            format!("{shown} differs from the configuration, which takes precedence: {overruled}"),
            "keep the value in one place: the script, or the procedure's key (an empty key passes no option)",
        );
    }
}

/// Reports conflicting memory options, which sbatch refuses.
pub(super) fn memory(
    resources: &Resources,
    path: &Path,
    asked: &Arguments,
    findings: &mut Findings,
) {
    let own: Vec<&str> = options::memory_options(asked).collect();
    let passed = options::passed_memory_options(resources);
    let both = own.iter().flat_map(|one| {
        let others = passed.iter().chain(&own);
        others
            .filter(move |other| *other != one)
            .map(move |other| (one, other))
    });
    if let Some((one, other)) = both.into_iter().next() {
        let path = path.display();
        findings.error(
            format!("'#SBATCH --{one}' in {path} conflicts with --{other}: sbatch accepts only one of them"),
            "keep one of them; mem: \"\" in the procedure omits --mem",
        );
    }
}

/// The value that the program passes for an option of a script.
fn passed(resources: &Resources, name: &str) -> Option<String> {
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
    fn two_conflicting_memory_options_are_an_error() {
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
            let script = format!("#!/bin/sh\n{script}\n");
            let asked = script::options(script.as_bytes());
            let findings = testing::judged(|out| {
                memory(&resources, Path::new("/s"), &asked, out);
            });
            let found: Vec<_> = findings.iter().map(|f| (f.level, f.text.clone())).collect();
            assert_eq!(found.len(), usize::from(both.is_some()), "{found:?}");
            if let (Some((one, other)), [(level, text)]) = (both, &found[..]) {
                assert_eq!(*level, Level::Error);
                for option in [one, other] {
                    assert!(text.contains(&format!("--{option}")), "{text}");
                }
            }
        }
    }

    #[test]
    fn script_and_configuration_are_compared() {
        let texts = |script: &str, has_log_dir: bool| -> Vec<(Level, String)> {
            let log_dir = if has_log_dir {
                "slurm_log_dir: /l\n"
            } else {
                ""
            };
            let config = testing::procedure(
                &format!("{log_dir}slurm_partition: debug\nslurm_account: ''\nslurm_mem: 32G\n"),
                ", time: 1-0, sbatch_args: [-c4]",
            );
            let (_, procedure) = config.procedures.iter().next().unwrap();
            let script = format!("#!/bin/sh\n{script}\n");
            let asked = script::options(script.as_bytes());
            let path = Path::new("/s");
            let findings = testing::judged(|out| compare(&config, procedure, path, &asked, out));
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
            ("#SBATCH -M gpu", Level::Warning, "--clusters=gpu"),
        ] {
            let found = texts(script, true);
            assert_eq!(found.len(), 1, "{script}: {found:?}");
            assert_eq!(found[0].0, level);
            assert!(found[0].1.contains(part), "{script}: {found:?}");
        }
    }
}
