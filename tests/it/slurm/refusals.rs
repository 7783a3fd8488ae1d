//! Refusals of a real Slurm: a site's plugins, a node that does not exist, a site without default partition.

use std::fs;

use crate::harness::Study;
use crate::harness_slurm::{Cluster, lone_cluster};

const SENTENCE: &str = "name a project, see https://hpc.example.org/rules";
const HEALTHY: &str = "{name: b, output_dir: b, script: b.sh, completion_marker: done}";

/// A study with 8 sessions of which the jobs of `a` are refused.
fn study(cluster: &Cluster, options: &str) -> Study {
    let study = cluster.study("");
    configure(&study, options);
    for script in ["a.sh", "b.sh"] {
        study.script(script, "sleep 900");
    }
    let sessions: Vec<String> = (1..=8).map(|n| format!("sub-{n:02}/ses-01")).collect();
    study.scan(&sessions.iter().map(String::as_str).collect::<Vec<_>>());
    study
}

fn configure(study: &Study, options: &str) {
    study.configure(&format!(
        "slurm_account: snbb\nprocedures:\n  \
         - {{name: a, output_dir: a, script: a.sh, completion_marker: done, {options}}}\n  - {HEALTHY}\n"
    ));
}

/// In the first run all of `b` is submitted and `a` is refused once; `check` says so before.
fn a_is_refused(study: &Study, said_by_slurm: &str) {
    let checked = study.call(&["check", "--format", "json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&checked.out).unwrap();
    let errors: Vec<&serde_json::Value> = findings
        .iter()
        .filter(|finding| finding["level"] == "error")
        .collect();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(
        (&errors[0]["topic"], &errors[0]["about"]),
        (&"submission".into(), &"a".into())
    );
    assert!(
        errors[0]["finding"]
            .as_str()
            .unwrap()
            .contains(said_by_slurm),
        "{errors:#?}"
    );

    let run = study.call(&["run"]);
    assert_eq!(run.code, 3, "{}", run.err);
    let in_warnings = run.err.lines().filter(|line| line.starts_with("warning:"));
    let told = in_warnings.filter(|line| line.contains(said_by_slurm));
    assert_eq!(told.count(), 1, "{}", run.err);
    let rows = study.rows();
    assert_eq!(rows.len(), 8, "{}", run.err);
    assert!(
        rows.iter()
            .all(|row| row["procedure"] == "b" && row["job_id"].is_string()),
        "{rows:#?}"
    );
    study.ok(&["cancel", "--all"]);
}

#[test]
fn a1_what_a_real_site_refuses_stops_its_own_procedure_only() {
    let Some(cluster) = lone_cluster("refusals", &[]) else {
        return;
    };
    let dir = cluster.conf().parent().unwrap().to_owned();
    fs::write(
        dir.join("job_submit.lua"),
        format!(
            "function slurm_job_submit(job, parts, uid)\n\
             if string.find(job.name, '^a_') then slurm.log_user('{SENTENCE}') return slurm.ERROR end\n\
             return slurm.SUCCESS end\n\
             function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end\n"
        ),
    )
    .unwrap();
    fs::write(
        dir.join("cli_filter.lua"),
        format!(
            "function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end\n\
             function slurm_cli_pre_submit(options, offset)\n\
             if string.find(options['job-name'], '^a[_-]') then slurm.log_error('{SENTENCE}') return slurm.ERROR end\n\
             return slurm.SUCCESS end\n\
             function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end\n"
        ),
    )
    .unwrap();
    let fresh = |options: &str| study(&cluster, options);

    a_is_refused(
        &fresh("sbatch_args: [--exclude=no-such-node]"),
        "Invalid node name specified",
    );
    cluster.set_conf("JobSubmitPlugins=lua");
    a_is_refused(&fresh("array: never"), SENTENCE);
    a_is_refused(&fresh("array: always"), SENTENCE);
    cluster.set_conf("JobSubmitPlugins=\nCliFilterPlugins=lua");
    a_is_refused(&fresh("array: never"), SENTENCE);
    cluster.set_conf("CliFilterPlugins=");

    // Without a default partition: those that name one go on.
    let text = fs::read_to_string(cluster.conf()).unwrap();
    fs::write(cluster.conf(), text.replace("Default=YES", "Default=NO")).unwrap();
    cluster.reconfigure();
    let study = fresh("partition: ''");
    let config = study.read("config.yaml");
    study.write(
        "config.yaml",
        &config.replace("{name: b,", "{name: b, partition: debug,"),
    );
    a_is_refused(&study, "No partition specified or system default partition");
    cluster.stop();
}
