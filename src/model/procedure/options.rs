//! The effective request of a job, from the fields of its resources and from `sbatch_args`,
//! which follow on sbatch's command line and therefore win.

mod table;

pub use table::{Argument, Arguments, Class, SbatchOption};

use super::{MemSize, Resources, TimeLimit};

/// The options that request memory. sbatch accepts only one of them.
const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];

/// The requested memory per node; `None` if not requested, or requested per CPU or GPU.
pub fn mem(resources: &Resources) -> Option<MemSize> {
    if is_mem_shared(&resources.sbatch_args) {
        return None;
    }
    let passed = resources.sbatch_args.value("mem");
    let passed = passed.and_then(|text| MemSize::parse(text).ok());
    passed.or_else(|| resources.mem.clone())
}

pub fn time(resources: &Resources) -> Option<TimeLimit> {
    let passed = resources.sbatch_args.value("time");
    let passed = passed.and_then(|text| TimeLimit::parse(text).ok());
    passed.or_else(|| resources.time.clone())
}

/// The requested CPUs per task.
pub fn cpus(resources: &Resources) -> Option<u32> {
    let passed = resources.sbatch_args.value("cpus-per-task");
    let passed = passed.and_then(|text| text.parse().ok());
    passed.or(resources.cpus_per_task)
}

/// Replaces the requested memory per node.
pub fn set_mem(resources: &mut Resources, mem: MemSize) {
    for name in MEMORY {
        resources.sbatch_args.remove(name);
    }
    resources.mem = Some(mem);
}

/// Replaces the requested time limit.
pub fn set_time(resources: &mut Resources, time: TimeLimit) {
    resources.sbatch_args.remove("time");
    resources.time = Some(time);
}

/// Replaces the requested CPUs per task.
pub fn set_cpus(resources: &mut Resources, cpus: u32) {
    resources.sbatch_args.remove("cpus-per-task");
    resources.cpus_per_task = Some(cpus);
}

/// True if memory is requested per CPU or GPU: sbatch refuses an additional `--mem`.
pub fn is_mem_shared(arguments: &Arguments) -> bool {
    memory_options(arguments).any(|option| option != "mem")
}

/// The options among these that request memory.
pub fn memory_options(arguments: &Arguments) -> impl Iterator<Item = &'static str> {
    MEMORY.into_iter().filter(|name| arguments.has(name))
}

/// The options on the command line that request memory.
pub fn passed_memory_options(resources: &Resources) -> Vec<&'static str> {
    let mut options: Vec<_> = memory_options(&resources.sbatch_args).collect();
    if resources.mem.is_some() && !options.contains(&"mem") {
        options.insert(0, "mem");
    }
    options
}

/// True if these arguments determine whether Slurm may restart the job.
pub fn decide_requeue(arguments: &Arguments) -> bool {
    arguments.has("requeue") || arguments.has("no-requeue")
}

pub fn clusters(arguments: &Arguments) -> Vec<&str> {
    let list = arguments.value("clusters").unwrap_or_default();
    let names = list.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

/// Adds nodes to the job's `--exclude`. `script` contains the script's options, which the command
/// line overrides. Returns false, and changes nothing, if the nodes are listed in a file, which
/// sbatch accepts instead of a list.
pub fn exclude(resources: &mut Resources, script: &Arguments, nodes: &[String]) -> bool {
    let configured = resources.sbatch_args.value("exclude");
    let configured = configured
        .or_else(|| script.value("exclude"))
        .unwrap_or_default();
    if configured.contains('/') {
        return false;
    }
    let own = (!configured.is_empty()).then_some(configured);
    let all: Vec<&str> = own
        .into_iter()
        .chain(nodes.iter().map(String::as_str))
        .collect();
    let option = format!("--exclude={}", all.join(","));
    resources.sbatch_args.remove("exclude");
    resources.sbatch_args.push(option);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &Arguments) -> String {
        let words: Vec<&str> = arguments.words().map(String::as_str).collect();
        words.join(" ")
    }

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
            let found = rest.value("exclude").unwrap_or_default().to_owned();
            rest.remove("exclude");
            (found, line(&rest))
        };
        for (arguments, found, rest) in [
            (vec!["--exclude=n1", "--nice=3"], "n1", "--nice=3"),
            (vec!["--nice", "3", "--exclude", "n1"], "n1", "--nice 3"),
            (vec!["--exclud=n1"], "n1", ""),
            (vec!["-xn1"], "n1", ""),
            (vec!["-x", "n1", "-H"], "n1", "-H"),
            (vec!["-Hxn1"], "n1", "-H"),
            (vec!["-Hx", "n1", "-O"], "n1", "-H -O"),
            (vec!["--exclude=n1", "-x", "n2"], "n2", ""),
            // Other options.
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
    fn the_last_option_on_the_command_line_wins() {
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
        assert_eq!(line(&asked.sbatch_args), "--mem-bind=local");
        assert_eq!(mem(&asked).unwrap().to_string(), "1G");
        assert_eq!(cpus(&asked), Some(2));
        let mut per_cpu = with(&["--mem-per-cpu=4G", "--time-min=5"]);
        per_cpu.mem = Some(MemSize::parse("8G").unwrap());
        assert_eq!(mem(&per_cpu), None);
        set_mem(&mut per_cpu, MemSize::of_megabytes(1024));
        assert_eq!(line(&per_cpu.sbatch_args), "--time-min=5");
        assert_eq!(time(&per_cpu), None);
    }

    #[test]
    fn nodes_are_added_to_the_configured_ones() {
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
            assert_eq!(line(&asked.sbatch_args), after, "{before:?}");
        }
        let file = with(&["--exclude=/etc/bad-nodes"]);
        let mut asked = file.clone();
        assert!(!exclude(&mut asked, &Arguments::default(), &ours));
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

    #[test]
    fn clusters_are_found_in_every_spelling() {
        for (arguments, expected) in [
            (&["-M", "x"][..], &["x"][..]),
            (&["-Mx"], &["x"]),
            (&["--clusters=x,y"], &["x", "y"]),
            (&["--clusters", "x, y"], &["x", "y"]),
            (&["--cluster=x"], &["x"]),
            (&["--clus=x"], &["x"]),
            (&["--cluster-constraint=gpu"], &[]),
            (&["--comment=x", "--nice=5"], &[]),
            (&["-Mx", "--clusters=y"], &["y"]),
            (&["--nice=5", "-M"], &[]),
            (&["--clusters="], &[]),
            (&[], &[]),
        ] {
            let read = with(arguments).sbatch_args;
            assert_eq!(clusters(&read), expected, "{arguments:?}");
        }
    }
}
