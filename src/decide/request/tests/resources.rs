//! What attempts ask for, as tables.

use super::*;
use crate::model::procedure::testing::procedure;
use crate::model::procedure::{RetryRule, RetryRules};

fn step(mem: Option<&str>, time: Option<&str>, arguments: &[&str]) -> Procedure {
    let mut step = procedure("a", Scope::Session, &[]);
    step.resources.mem = mem.map(|text| MemSize::parse(text).unwrap());
    step.resources.time = time.map(|text| TimeLimit::parse(text).unwrap());
    step.resources.sbatch_args = arguments.iter().map(|text| (*text).to_owned()).collect();
    step
}

fn with_rule(mut step: Procedure, reason: Reason, rule: RetryRule) -> Procedure {
    step.rules.retry = Some(RetryRules {
        max_attempts: 3,
        max_infrastructure: 5,
        on: [(reason, rule)].into(),
    });
    step
}

fn ceiling(mem: Option<&str>, time: Option<&str>, cpus: Option<u32>) -> Ceiling {
    Ceiling {
        mem: mem.map(|text| MemSize::parse(text).unwrap()),
        time: time.map(|text| TimeLimit::parse(text).unwrap()),
        cpus,
    }
}

/// The options in one line, and what is said of them.
fn text((resources, notes): &(Resources, RequestNotes)) -> (String, String) {
    let Resources {
        mem,
        time,
        cpus_per_task,
        sbatch_args,
        ..
    } = resources;
    let mut options: Vec<String> = Vec::new();
    options.extend(mem.as_ref().map(|mem| format!("--mem={mem}")));
    options.extend(cpus_per_task.map(|cpus| format!("--cpus-per-task={cpus}")));
    options.extend(time.as_ref().map(|time| format!("--time={time}")));
    options.extend(sbatch_args.words().cloned());
    let changes: Vec<String> = notes
        .changes
        .iter()
        .chain(&notes.reduced)
        .cloned()
        .collect();
    (options.join(" "), changes.join("; "))
}

#[test]
fn requests_are_reduced_to_the_ceiling() {
    let all = ceiling(Some("128G"), Some("7-0"), Some(16));
    for (mem, time, arguments, options, said) in [
        (Some("64G"), Some("3-0"), vec![], "--mem=64G --time=3-0", ""),
        (
            Some("131072"),
            Some("168:00:00"),
            vec!["-c16"],
            "--mem=131072 --time=168:00:00 -c16",
            "",
        ),
        (
            Some("256G"),
            Some("8-0"),
            vec!["-c32"],
            "--mem=128G --cpus-per-task=16 --time=7-0",
            "--mem 256G reduced to 128G (max_mem); --time 8-0 reduced to 7-0 (max_time); \
             --cpus-per-task 32 reduced to 16 (max_cpus)",
        ),
        (
            Some("0"),
            Some("UNLIMITED"),
            vec![],
            "--mem=128G --time=7-0",
            "--mem 0 reduced to 128G (max_mem); --time UNLIMITED reduced to 7-0 (max_time)",
        ),
        (
            None,
            Some("0"),
            vec![],
            "--time=7-0",
            "--time 0 reduced to 7-0 (max_time)",
        ),
        // Values that are not requested explicitly are unknown here.
        (None, None, vec!["--hold"], "--hold", ""),
        (
            None,
            None,
            vec!["--mem-per-cpu=500G"],
            "--mem-per-cpu=500G",
            "",
        ),
        // sbatch_args come last and win.
        (
            Some("1G"),
            None,
            vec!["--mem=200G", "-t", "8-0", "--hold"],
            "--mem=128G --time=7-0 --hold",
            "--mem 200G reduced to 128G (max_mem); --time 8-0 reduced to 7-0 (max_time)",
        ),
        (
            Some("200G"),
            None,
            vec!["--mem=2G"],
            "--mem=200G --mem=2G",
            "",
        ),
    ] {
        let asked = ask(&step(mem, time, &arguments), &all, None);
        assert_eq!(text(&asked), (options.to_owned(), said.to_owned()));
        let free = ask(&step(mem, time, &arguments), &Ceiling::default(), None);
        assert_eq!(free.0, step(mem, time, &arguments).resources);
        assert_eq!((free.1.changes.len(), free.1.reduced.len()), (0, 0));
    }
    let none = ceiling(Some("0"), Some("UNLIMITED"), None);
    let asked = ask(&step(Some("0"), Some("UNLIMITED"), &[]), &none, None);
    assert_eq!(text(&asked).1, "");
}

#[test]
fn a_retry_requests_and_reports_more() {
    let rule = |factor: f64, most: Option<&str>| RetryRule {
        mem_factor: Some(factor),
        mem_max: most.map(|text| MemSize::parse(text).unwrap()),
        ..RetryRule::default()
    };
    // Slurm says, raised to, configured, arguments, ceiling, factor, maximum; options, what is said
    type Case<'a> = (
        Option<i64>,
        Option<u64>,
        Option<&'a str>,
        Vec<&'a str>,
        Option<&'a str>,
        f64,
        Option<&'a str>,
        &'a str,
        &'a str,
    );
    let cases: Vec<Case<'_>> = vec![
        (
            Some(32_768),
            Some(49_152),
            Some("32G"),
            vec![],
            None,
            1.5,
            None,
            "--mem=48G",
            "--mem 32G -> 48G",
        ),
        // An #SBATCH line.
        (
            Some(100),
            Some(150),
            None,
            vec![],
            None,
            1.5,
            None,
            "--mem=150M",
            "--mem 100M -> 150M",
        ),
        (
            Some(32_768),
            Some(49_152),
            None,
            vec!["--mem-per-cpu=8G", "--hold"],
            None,
            1.5,
            None,
            "--mem=48G --hold",
            "--mem 32G -> 48G",
        ),
        // Somebody has configured more in the meantime.
        (
            Some(32_768),
            Some(49_152),
            Some("64G"),
            vec![],
            None,
            1.5,
            None,
            "--mem=64G",
            "--mem 32G -> 64G",
        ),
        (
            Some(32_768),
            Some(49_152),
            Some("32G"),
            vec![],
            Some("40G"),
            1.5,
            None,
            "--mem=40G",
            "--mem 32G -> 40G; --mem 48G reduced to 40G (max_mem)",
        ),
        (
            Some(131_072),
            Some(131_072),
            Some("32G"),
            vec![],
            None,
            1.5,
            Some("128G"),
            "--mem=128G",
            "",
        ),
        (
            None,
            None,
            None,
            vec![],
            None,
            1.5,
            None,
            "",
            "mem_factor has no effect: the memory request of the last attempt is unknown; set mem",
        ),
        // Kept from an attempt before, and this rule raises nothing.
        (
            Some(49_152),
            Some(49_152),
            Some("32G"),
            vec![],
            None,
            1.0,
            None,
            "--mem=48G",
            "",
        ),
    ];
    for (says, raised, configured, arguments, most, factor, mem_max, options, said) in cases {
        let step = with_rule(
            step(configured, None, &arguments),
            Reason::OutOfMemory,
            rule(factor, mem_max),
        );
        let mut row = row("a", TaskStatus::Failed, Reason::OutOfMemory);
        row.facts.req_mem_mb = says;
        let state = RetryState {
            retries: 1,
            mem_mb: raised,
            ..RetryState::default()
        };
        let failed = RetryBase {
            row: &row,
            state: state.clone(),
            script: &Arguments::default(),
        };
        let asked = ask(&step, &ceiling(most, None, None), Some(&failed));
        assert_eq!(text(&asked), (options.to_owned(), said.to_owned()));
    }
}

#[test]
fn a_retry_excludes_nodes_in_addition_to_the_sites() {
    let rule = RetryRule {
        exclude_node: true,
        ..RetryRule::default()
    };
    let row = row("a", TaskStatus::Failed, Reason::NodeFail);
    let state = RetryState {
        infrastructure: 1,
        exclude: vec!["n1".into(), "n[2-3]".into()],
        ..RetryState::default()
    };
    for (arguments, options, said) in [
        (vec![], "--exclude=old,n1,n[2-3]", "--exclude n1,n[2-3]"),
        (
            vec!["-x", "bad"],
            "--exclude=bad,n1,n[2-3]",
            "--exclude n1,n[2-3]",
        ),
        (
            vec!["--exclude=./nodes"],
            "--exclude=./nodes",
            "exclude_node has no effect: sbatch_args use a file of nodes",
        ),
    ] {
        let step = with_rule(step(None, None, &arguments), Reason::NodeFail, rule.clone());
        let failed = RetryBase {
            row: &row,
            state: state.clone(),
            script: &Arguments::from_iter(["-xold".to_owned()]),
        };
        let asked = ask(&step, &Ceiling::default(), Some(&failed));
        assert_eq!(text(&asked), (options.to_owned(), said.to_owned()));
    }
}

#[test]
fn memory_per_cpu_of_a_script_cannot_be_raised() {
    let rule = RetryRule {
        mem_factor: Some(2.0),
        ..RetryRule::default()
    };
    let mut row = row("a", TaskStatus::Failed, Reason::OutOfMemory);
    row.facts.req_mem_mb = Some(1000);
    let state = RetryState {
        mem_mb: Some(2000),
        ..RetryState::default()
    };
    for (mem, script, options, said) in [
        (None, "--mem=1000", "--mem=2000M", "--mem 1000M -> 2000M"),
        (
            None,
            "--mem-per-cpu=500",
            "",
            "mem_factor has no effect: the script requests memory per CPU or GPU (#SBATCH)",
        ),
    ] {
        let step = with_rule(step(mem, None, &[]), Reason::OutOfMemory, rule.clone());
        let failed = RetryBase {
            row: &row,
            state: state.clone(),
            script: &Arguments::from_iter([script.to_owned()]),
        };
        let asked = ask(&step, &Ceiling::default(), Some(&failed));
        assert_eq!(text(&asked), (options.to_owned(), said.to_owned()));
    }
}
