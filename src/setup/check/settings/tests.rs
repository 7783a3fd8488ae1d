use super::super::{Finding, Level, testing};
use super::*;
use crate::config::{Overrides, load::interpret};

fn judged(text: &str) -> Vec<Finding> {
    let config = testing::config(&format!(
        "procedures:\n  - {{name: prep, output_dir: prep, script: x.sh, completion_marker: x}}\n{text}"
    ));
    testing::judged(|out| check(&config, out))
}

#[test]
fn the_defaults_and_careful_settings_are_ok() {
    for text in [
        "",
        "executor: local\n",
        "safety: {max_drop: 50%, min_free: 1M}\n",
    ] {
        let findings = judged(text);
        assert!(testing::trouble(&findings).is_empty(), "{findings:?}");
    }
}

#[test]
fn each_risky_setting_is_a_warning() {
    for (text, about) in [
        ("safety: {max_drop: 100%}\n", "safety.max_drop"),
        ("safety: {min_free: 0}\n", "safety.min_free"),
        ("resubmit_failed: yes\n", "resubmit_failed"),
        ("lost_grace: 1m\n", "lost_grace"),
        ("pause_after_failures: 0\n", "pause_after_failures"),
        ("executor: local\nslurm_mem: 8G\n", "local"),
    ] {
        let findings = judged(text);
        testing::one(&findings, Level::Warning, "");
        assert_eq!(testing::trouble(&findings)[0].about, about);
    }
}

fn reported(executor: &str, set: &[(&str, &str)]) -> Vec<String> {
    let config = testing::config(&format!("executor: {executor}\nbids_root: /b\n"));
    let env = |name: &str| {
        let mut set = set.iter();
        set.find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let findings = testing::judged(|out| environment(&config, &env, out));
    let trouble = testing::trouble(&findings).into_iter();
    trouble.map(|finding| finding.about.clone()).collect()
}

#[test]
fn variables_without_effect_are_reported() {
    for (set, expected) in [
        (&[][..], None),
        (&[("SBATCH_ACCOUNT", "x")], Some("SBATCH_ACCOUNT")),
        (&[("SLURM_CLUSTERS", "x")], Some("SLURM_CLUSTERS")),
        (&[("SLURM_CONF", "/x"), ("SLURM_JWT", "x")], None),
        (&[("SLURM_ACCOUNT", "x"), ("SLURM_JOB_ID", "7")], None),
    ] {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(reported("slurm", set), expected, "{set:?}");
    }
    assert!(reported("local", &[("SBATCH_ACCOUNT", "x")]).is_empty());
}

#[test]
fn a_root_variable_that_jobs_do_not_get_is_reported() {
    for (value, expected) in [("/b", &[][..]), ("/nodes/b", &["SNBB_BIDS_ROOT"])] {
        assert_eq!(reported("local", &[("SNBB_BIDS_ROOT", value)]), expected);
    }
}

fn read(text: &str) -> Result<Config, ConfigError> {
    let file = Some(Path::new("/c/x.yaml"));
    interpret(
        text.as_bytes(),
        file,
        true,
        &|_| None,
        &Overrides::default(),
        Path::new("/"),
    )
}

#[test]
fn every_problem_is_a_finding_with_its_line() {
    let error = read("bids_rot: x\nscan_threads: 0\naudit: {smtp_password: secret}\n").unwrap_err();
    let findings = testing::judged(|out| unusable(&error, out));
    let errors: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .collect();
    assert_eq!(errors.len(), 2, "{findings:#?}");
    assert!(errors[0].text.starts_with("line 1: "), "{errors:?}");
    assert!(errors[0].text.ends_with("(did you mean 'bids_root'?)"));
    assert!(errors[1].text.starts_with("line 2: scan_threads"));
    assert!(errors.iter().all(|finding| finding.about == "/c/x.yaml"));
    // Everyone can read the password.
    let warning = findings.iter().find(|f| f.level == Level::Warning).unwrap();
    assert!(warning.text.contains("smtp_password"), "{warning:?}");
}

#[test]
fn a_valid_file_is_one_line_and_a_missing_one_is_a_warning() {
    let config = read("dicom_root: /a\nbids_root: /b\nderivatives_root: /c\n").unwrap();
    let findings = testing::judged(|out| usable(&config, out));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].level, Level::Ok);
    let config = interpret(
        b"",
        None,
        false,
        &|_| None,
        &Overrides::default(),
        Path::new("/"),
    );
    let findings = testing::judged(|out| usable(&config.unwrap(), out));
    assert_eq!(findings[0].level, Level::Warning);
}
