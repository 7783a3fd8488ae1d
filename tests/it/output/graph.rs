//! `graph`: read by Graphviz itself.
#![expect(clippy::disallowed_methods, reason = "starts Graphviz")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::harness::Study;

#[test]
fn graphviz_draws_the_pipeline() {
    let study = Study::new();
    study.configure(
        "procedures:\n  - {name: bids, output_dir: '', script: x, completion_marker: done}\n  \
         - {name: qc-1.2, output_dir: qc, script: x, depends_on: [bids], completion_marker: done}\n  \
         - {name: group, output_dir: g, script: x, scope: subject, depends_on: [{name: qc-1.2, sessions: any}]}\n",
    );
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.write("bids/sub-01/ses-01/done", "x");
    let picture = study.ok(&["graph", "--format", "dot"]).out;
    let Ok(mut dot) = Command::new("dot")
        .arg("-Tplain")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        eprintln!("SKIPPED: graphviz is not installed");
        return;
    };
    dot.stdin
        .take()
        .unwrap()
        .write_all(picture.as_bytes())
        .unwrap();
    let drawn = dot.wait_with_output().unwrap();
    assert!(drawn.status.success(), "{picture}");
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    let of = |word: &str| drawn.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((of("node "), of("edge ")), (3, 2), "{drawn}");
    assert!(drawn.contains(r"bids\n1 complete\n1 due"), "{drawn}");
    let edges: Vec<&str> = picture.lines().filter(|line| line.contains("->")).collect();
    insta::assert_snapshot!(edges.join("\n"));
    // Only what is asked for is counted.
    let one = study.ok(&["graph", "--subject", "01"]).out;
    assert!(one.contains("bids<br/>1 complete\""), "{one}");
    assert_eq!(study.call(&["graph", "--procedure", "nope"]).code, 2);
}
