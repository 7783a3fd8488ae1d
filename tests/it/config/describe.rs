//! A configuration as text that a snapshot can hold.

use std::fmt::Write as _;
use std::path::PathBuf;

use snbb_scheduler::config::duration;
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::procedure::SessionsRule;
use snbb_scheduler::model::procedure::marker::{Marker, Required};

pub fn describe(config: &Config) -> String {
    let mut out = String::new();
    let text = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
    let path = |value: &Option<PathBuf>| {
        value
            .as_ref()
            .map_or("-".to_owned(), |p| p.display().to_string())
    };
    let number = |value: Option<usize>| value.map_or("-".to_owned(), |n| n.to_string());
    let c = config;
    let mut line = |name: &str, value: String| writeln!(out, "{name}: {value}").unwrap();
    line("file", path(&c.file));
    line("dicom_root", c.dicom_root.display().to_string());
    line("bids_root", c.bids_root.display().to_string());
    line("derivatives_root", c.derivatives_root.display().to_string());
    line("state_file", c.state_file.display().to_string());
    line("log_file", c.log_file.display().to_string());
    line("project", text(&c.project));
    line("qsirecon_spec", path(&c.qsirecon_spec));
    line(
        "sessions",
        format!("{:?}, sessionless {}", c.sessions, c.sessionless),
    );
    line(
        "executor",
        format!("{:?}, local_jobs {}", c.executor, c.local_jobs),
    );
    line("script_dir", path(&c.script_dir));
    line(
        "slurm",
        format!(
            "partition {} account {} mem {} cpus {} log_dir {} bin_dir {} accounting {}",
            text(&c.slurm.partition),
            text(&c.slurm.account),
            c.slurm
                .mem
                .as_ref()
                .map_or("-".to_owned(), ToString::to_string),
            number(c.slurm.cpus_per_task.map(|n| n as usize)),
            path(&c.slurm.log_dir),
            path(&c.slurm.bin_dir),
            c.slurm.accounting
        ),
    );
    line(
        "limits",
        format!(
            "in flight {} per run {} threads {} resubmit_failed {}",
            number(c.max_in_flight),
            number(c.max_submit_per_run),
            c.scan_threads,
            c.resubmit_failed
        ),
    );
    line(
        "times",
        format!(
            "settle {} output {} lost {} deadline {} lock {}",
            duration::format(c.settle_time),
            duration::format(c.output_grace),
            duration::format(c.lost_grace),
            duration::format(c.deadline),
            duration::format(c.lock_timeout)
        ),
    );
    line("audit", format!("{:?}", c.audit));
    line(
        "notify",
        format!(
            "{:?} heartbeat {:?} metrics {:?}",
            c.notify, c.heartbeat_file, c.metrics_file
        ),
    );
    for warning in &c.warnings {
        line("warning", warning.clone());
    }
    out + &procedures(config)
}

pub fn procedures(config: &Config) -> String {
    let mut out = String::new();
    for (id, p) in config.procedures.iter() {
        writeln!(
            out,
            "procedure {}: output_dir {:?} script {} scope {} check {:?}",
            p.name, p.output_dir, p.script, p.scope, p.check
        )
        .unwrap();
        for (on, sessions) in config.procedures.dependencies(id) {
            let any = match sessions {
                _ if *sessions == SessionsRule::ByScope.resolve(p.scope) => "",
                SessionsRule::Any => " (any session)",
                SessionsRule::All => " (all sessions)",
                SessionsRule::Same | SessionsRule::ByScope => " (same session)",
            };
            writeln!(out, "  after {}{any}", config.procedures.get(*on).name).unwrap();
        }
        match &p.completion.required {
            Required::NonEmptyDirectory => writeln!(out, "  not empty").unwrap(),
            Required::Markers(markers) => markers
                .iter()
                .for_each(|marker| writeln!(out, "  {}", describe_marker(marker)).unwrap()),
        }
        for pattern in &p.completion.forbid {
            writeln!(out, "  forbid {}", pattern.as_str()).unwrap();
        }
        let r = &p.resources;
        writeln!(
            out,
            "  {:?} {:?} {:?} time {} mem {} cpus {:?} {:?} {:?}",
            r.partition,
            r.account,
            r.qos,
            r.time.as_ref().map_or("-".to_owned(), ToString::to_string),
            r.mem.as_ref().map_or("-".to_owned(), ToString::to_string),
            r.cpus_per_task,
            r.gres,
            r.sbatch_args.words().collect::<Vec<_>>()
        )
        .unwrap();
        let rest = (&p.env, p.output_grace.map(duration::format), &p.rules);
        writeln!(out, "  {rest:?}").unwrap();
    }
    out
}

fn describe_marker(marker: &Marker) -> String {
    let mut out = format!("{} min_size {}", marker.pattern.as_str(), marker.min_size);
    for (name, value) in [
        ("contains", marker.contains.as_deref()),
        ("not_contains", marker.not_contains.as_deref()),
        ("when", marker.when.first().map(|when| when.as_str())),
    ] {
        if let Some(value) = value {
            write!(out, " {name} {value:?}").unwrap();
        }
    }
    out
}
