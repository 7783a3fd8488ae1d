//! Retries on a real Slurm.

use super::*;

/// Calls the program until no job is in flight.
fn settle(study: &Study) -> Vec<Value> {
    let since = Instant::now();
    loop {
        study.ok(&["monitor"]);
        let rows = study.rows();
        let live = |row: &Value| row["status"] == "pending" || row["status"] == "running";
        if !rows.iter().any(live) {
            return rows;
        }
        assert!(
            since.elapsed() < Duration::from_secs(120),
            "still {rows:#?}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn on_a_real_slurm_the_scripts_own_lines_are_what_a_factor_starts_from() {
    let Some(cluster) = cluster() else { return };
    let study = cluster.study(
        "procedures:
  - name: retry_memory
    output_dir: memory
    script: memory.sh
    completion_marker: done
    retry:
      on:
        # The second one where the kernel does not enforce memory.
        out_of_memory: {mem_factor: 6}
        exit_code: {codes: [137], mem_factor: 6}
  - name: retry_time
    output_dir: time
    script: time.sh
    completion_marker: done
    retry: {on: {exit_code: {codes: [75], time_factor: 1.5}}}
  - name: retry_node
    output_dir: node
    script: node.sh
    completion_marker: done
    retry: {on: {exit_code: {codes: [75], exclude_node: yes}}}
",
    );
    let done = "mkdir -p \"$SNBB_OUTPUT_DIR\"; touch \"$SNBB_OUTPUT_DIR/done\"";
    study.write(
        "memory.sh",
        &format!("#!/bin/bash\n#SBATCH --mem=50M\necho 1000 > /proc/self/oom_score_adj\nhead -c 200M /dev/zero | tail -c 199M | wc -c\nsleep 2\n{done}\n"),
    );
    study.write(
        "time.sh",
        &format!("#!/bin/bash\n#SBATCH --time=8\n[ \"$SNBB_ATTEMPT\" = 1 ] && exit 75\n{done}\n"),
    );
    study.write("node.sh", "#!/bin/bash\nexit 75\n");
    for script in ["memory.sh", "time.sh", "node.sh"] {
        crate::harness::executable(&study.at(script));
    }
    study.scan(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    let rows = settle(&study);
    let failures: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["failure"].as_str())
        .collect();
    assert_eq!(failures.len(), 3, "{rows:#?}");
    let node = rows[2]["node_list"].as_str().unwrap();

    let dry = study.ok(&["run", "--dry-run", "-v"]).out;
    let changes: Vec<&str> = dry.lines().filter(|line| line.starts_with('#')).collect();
    assert!(
        changes[0].ends_with(": --mem 50M -> 300M")
            && changes[1].ends_with(" after exit_code: --time 0:08:00 -> 0:12:00")
            && changes[2].ends_with(&format!(" after exit_code: --exclude {node}")),
        "{dry}"
    );
    // The cluster has this one node: Slurm refuses the third, and the others go on.
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    let refused = study.events("error");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["procedure"], "retry_node");
    let rows = settle(&study);
    let found: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {}",
                row["status"].as_str().unwrap(),
                row["attempt"],
                row["req_mem_mb"],
                row["time_limit_s"]
            )
        })
        .collect();
    assert!(
        found[0].starts_with("complete 2 300 ")
            && found[1].starts_with("complete 2 ")
            && found[1].ends_with(" 720")
            && found[2].starts_with("failed 1 "),
        "{found:#?}"
    );
}
