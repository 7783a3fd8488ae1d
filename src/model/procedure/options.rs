//! What a job asks for, wherever it stands: in the resources' own fields or among `sbatch_args`,
//! which come later on sbatch's command line and so win. Pure.
//!
//! Options are recognised as getopt_long(3) does it: `--exclude=n1`, `--exclud n1`, `-xn1`, `-Hx n1`.

use super::{MemSize, Resources, TimeLimit};

/// Short options of sbatch that take a value: a separate one may follow. Source: sbatch(1).
pub(crate) const SHORT_WITH_VALUE: &str = "AbBcCdDFGiLmnNpqStwxJaoeM";

/// Names one option of sbatch that takes a value.
struct Name {
    long: &'static str,
    /// The shortest beginning of the long name that no other option has.
    least: &'static str,
    short: Option<char>,
}

const fn name(long: &'static str, least: &'static str, short: Option<char>) -> Name {
    Name { long, least, short }
}

const MEM: Name = name("mem", "mem", None);
const MEM_PER_CPU: Name = name("mem-per-cpu", "mem-per-c", None);
const MEM_PER_GPU: Name = name("mem-per-gpu", "mem-per-g", None);
const TIME: Name = name("time", "time", Some('t'));
const CPUS: Name = name("cpus-per-task", "cpus-per-t", Some('c'));
const COMMENT: Name = name("comment", "com", None);
const EXPORT: Name = name("export", "export", None);
const EXCLUDE: Name = name("exclude", "exclud", Some('x'));

/// Returns the memory per node that is asked for; none: not asked for, or per CPU or GPU.
pub fn mem(resources: &Resources) -> Option<MemSize> {
    let mut rest = resources.sbatch_args.clone();
    let own = last(take(&mut rest, &MEM), MemSize::parse);
    let other = [MEM_PER_CPU, MEM_PER_GPU]
        .iter()
        .any(|name| !take(&mut rest, name).is_empty());
    if other {
        return None;
    }
    own.or_else(|| resources.mem.clone())
}

/// Returns the time limit that is asked for.
pub fn time(resources: &Resources) -> Option<TimeLimit> {
    let values = take(&mut resources.sbatch_args.clone(), &TIME);
    last(values, TimeLimit::parse).or_else(|| resources.time.clone())
}

/// Returns the CPUs per task that are asked for.
pub fn cpus(resources: &Resources) -> Option<u32> {
    let values = take(&mut resources.sbatch_args.clone(), &CPUS);
    last(values, str::parse).or(resources.cpus_per_task)
}

/// Asks for this memory per node, whatever was asked for before.
pub fn set_mem(resources: &mut Resources, mem: MemSize) {
    for name in [MEM, MEM_PER_CPU, MEM_PER_GPU] {
        take(&mut resources.sbatch_args, &name);
    }
    resources.mem = Some(mem);
}

/// Asks for this time limit, whatever was asked for before.
pub fn set_time(resources: &mut Resources, time: TimeLimit) {
    take(&mut resources.sbatch_args, &TIME);
    resources.time = Some(time);
}

/// Asks for so many CPUs per task, whatever was asked for before.
pub fn set_cpus(resources: &mut Resources, cpus: u32) {
    take(&mut resources.sbatch_args, &CPUS);
    resources.cpus_per_task = Some(cpus);
}

/// True if a script's own options (its `#SBATCH` lines) ask for memory per CPU or GPU: sbatch refuses
/// `--mem` on the command line then.
pub fn is_mem_shared(script: &[String]) -> bool {
    memory_options(script).any(|option| option != MEM.long)
}

/// Returns the options among these by which memory is asked for. sbatch takes one of them only, wherever they stand.
pub fn memory_options(arguments: &[String]) -> impl Iterator<Item = &'static str> {
    let names = [MEM, MEM_PER_CPU, MEM_PER_GPU].into_iter();
    names
        .filter(|name| !take(&mut arguments.to_vec(), name).is_empty())
        .map(|name| name.long)
}

/// Returns the options by which memory is asked for on the command line.
pub fn passed_memory_options(resources: &Resources) -> Vec<&'static str> {
    let mut options: Vec<_> = memory_options(&resources.sbatch_args).collect();
    if resources.mem.is_some() && !options.contains(&MEM.long) {
        options.insert(0, MEM.long);
    }
    options
}

/// Takes the comment of a site's own out of the arguments, where it is, or finds it in the script's own options, which
/// the command line's replace.
pub fn take_comment(arguments: &mut Vec<String>, script: &[String]) -> Option<String> {
    let own = take(arguments, &COMMENT).pop();
    own.or_else(|| take(&mut script.to_vec(), &COMMENT).pop())
}

/// True if these arguments say whether Slurm may restart the job.
pub fn decide_requeue(arguments: &[String]) -> bool {
    let names = [("requeue", "req"), ("no-requeue", "no-r")];
    arguments.iter().any(|argument| {
        let option = argument.split('=').next().unwrap_or_default();
        option.strip_prefix("--").is_some_and(|option| {
            let mut names = names.iter();
            names.any(|(name, least)| name.starts_with(option) && option.starts_with(least))
        })
    })
}

/// Returns the variables that a script wants to see (`#SBATCH --export`).
pub fn export(script: &[String]) -> Option<String> {
    take(&mut script.to_vec(), &EXPORT).pop()
}

/// Adds nodes to those that the job stays away from. `script`: its own options, which the command
/// line's replace. Returns false, and changes nothing, if these nodes are named by a file, which
/// sbatch takes instead of a list.
pub fn exclude(resources: &mut Resources, script: &[String], nodes: &[String]) -> bool {
    let mut rest = resources.sbatch_args.clone();
    // Of several the last one counts.
    let configured = take(&mut rest, &EXCLUDE)
        .pop()
        .or_else(|| take(&mut script.to_vec(), &EXCLUDE).pop());
    if configured.as_ref().is_some_and(|list| list.contains('/')) {
        return false;
    }
    let mut all: Vec<&str> = configured
        .iter()
        .map(String::as_str)
        .filter(|list| !list.is_empty())
        .collect();
    all.extend(nodes.iter().map(String::as_str));
    if !all.is_empty() {
        rest.push(format!("--exclude={}", all.join(",")));
    }
    resources.sbatch_args = rest;
    true
}

/// Returns the last value, if it can be read.
fn last<T, E>(mut values: Vec<String>, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
    read(&values.pop()?).ok()
}

/// Takes an option out of a list of arguments, each time it stands there, and returns its values.
fn take(arguments: &mut Vec<String>, name: &Name) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = Vec::with_capacity(arguments.len());
    let mut items = std::mem::take(arguments).into_iter();
    while let Some(argument) = items.next() {
        match find(&argument, name) {
            None => rest.push(argument),
            Some(Found { before, value }) => {
                rest.extend(before);
                values.extend(value.or_else(|| items.next()));
            }
        }
    }
    *arguments = rest;
    values
}

struct Found {
    /// What stands before it in the same argument: `-H` of `-Hxn1`.
    before: Option<String>,
    /// None: the next argument.
    value: Option<String>,
}

fn find(argument: &str, name: &Name) -> Option<Found> {
    if let Some(long) = argument.strip_prefix("--") {
        let (option, value) = match long.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (long, None),
        };
        let is_it = name.long.starts_with(option) && option.starts_with(name.least);
        return is_it.then_some(Found {
            before: None,
            value,
        });
    }
    let letters = argument.strip_prefix('-')?;
    for (at, letter) in letters.char_indices() {
        if Some(letter) == name.short {
            let value = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            return Some(Found {
                before: letters
                    .get(..at)
                    .filter(|before| !before.is_empty())
                    .map(|before| format!("-{before}")),
                value: Some(value.to_owned()).filter(|value| !value.is_empty()),
            });
        }
        if SHORT_WITH_VALUE.contains(letter) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(arguments: &[&str]) -> Resources {
        Resources {
            sbatch_args: arguments.iter().map(|text| (*text).to_owned()).collect(),
            ..Resources::default()
        }
    }

    #[test]
    fn options_are_found_in_all_their_forms() {
        let nodes = |arguments: &[&str]| {
            let mut rest = with(arguments).sbatch_args;
            let found = take(&mut rest, &EXCLUDE);
            (found.join(" "), rest.join(" "))
        };
        for (arguments, found, rest) in [
            (vec!["--exclude=n1", "--nice=3"], "n1", "--nice=3"),
            (vec!["--nice", "3", "--exclude", "n1"], "n1", "--nice 3"),
            (vec!["--exclud=n1"], "n1", ""),
            (vec!["-xn1"], "n1", ""),
            (vec!["-x", "n1", "-H"], "n1", "-H"),
            (vec!["-Hxn1"], "n1", "-H"),
            (vec!["-Hx", "n1", "-O"], "n1", "-H -O"),
            (vec!["--exclude=n1", "-x", "n2"], "n1 n2", ""),
            // These are others.
            (vec!["--exclusive"], "", "--exclusive"),
            (vec!["--exclu=n1"], "", "--exclu=n1"),
            (vec!["-Ax"], "", "-Ax"),
            (vec!["-n", "x"], "", "-n x"),
            (vec!["-x"], "", ""),
        ] {
            assert_eq!(
                nodes(&arguments),
                (found.to_owned(), rest.to_owned()),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn what_comes_last_on_the_command_line_counts() {
        let mut asked = with(&["--mem=64G", "-t", "10", "-c4", "--mem-bind=local"]);
        asked.mem = Some(MemSize::parse("8G").unwrap());
        asked.time = Some(TimeLimit::parse("5").unwrap());
        asked.cpus_per_task = Some(1);
        assert_eq!(mem(&asked).unwrap().to_string(), "64G");
        assert_eq!(time(&asked).unwrap().to_string(), "10");
        assert_eq!(cpus(&asked), Some(4));
        set_mem(&mut asked, MemSize::of_megabytes(1024));
        set_time(&mut asked, TimeLimit::of_seconds(60));
        set_cpus(&mut asked, 2);
        assert_eq!(asked.sbatch_args, ["--mem-bind=local"]);
        assert_eq!(mem(&asked).unwrap().to_string(), "1G");
        assert_eq!(cpus(&asked), Some(2));
        let mut per_cpu = with(&["--mem-per-cpu=4G", "--time-min=5"]);
        per_cpu.mem = Some(MemSize::parse("8G").unwrap());
        assert_eq!(mem(&per_cpu), None);
        set_mem(&mut per_cpu, MemSize::of_megabytes(1024));
        assert_eq!(per_cpu.sbatch_args, ["--time-min=5"]);
        assert_eq!(time(&per_cpu), None);
    }

    #[test]
    fn nodes_are_added_to_those_of_the_site() {
        let ours = ["n1".to_owned(), "n[2-3]".to_owned()];
        for (before, script, after) in [
            (vec![], vec![], "--exclude=n1,n[2-3]"),
            (
                vec!["--exclude=a,b", "-H"],
                vec!["-xc"],
                "-H --exclude=a,b,n1,n[2-3]",
            ),
            (
                vec!["-H"],
                vec!["-N1", "-x", "c"],
                "-H --exclude=c,n1,n[2-3]",
            ),
            (vec!["-x", "a", "-xb"], vec![], "--exclude=b,n1,n[2-3]"),
            (vec!["--exclude="], vec![], "--exclude=n1,n[2-3]"),
        ] {
            let mut asked = with(&before);
            assert!(exclude(&mut asked, &with(&script).sbatch_args, &ours));
            assert_eq!(asked.sbatch_args.join(" "), after, "{before:?}");
        }
        let file = with(&["--exclude=/etc/bad-nodes"]);
        let mut asked = file.clone();
        assert!(!exclude(&mut asked, &[], &ours));
        assert_eq!(asked, file);
        let mut asked = Resources::default();
        assert!(!exclude(&mut asked, &file.sbatch_args, &ours));
        assert_eq!(asked, Resources::default());
        assert!(is_mem_shared(
            &with(&["-N1", "--mem-per-cpu=4G"]).sbatch_args
        ));
        assert!(!is_mem_shared(
            &with(&["--mem=4G", "--mem-bind=local"]).sbatch_args
        ));
    }
}
