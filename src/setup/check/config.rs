//! Reports errors and warnings of the configuration file.

use std::path::Path;

use super::Findings;
use crate::base::text::plural;
use crate::config::ConfigError;
use crate::model::config::Config;

const TOPIC: &str = "config";

/// Reports each problem of an invalid configuration as a finding.
pub fn unusable(error: &ConfigError, findings: &mut Findings) {
    for problem in &error.problems {
        let mut bare = problem.clone();
        bare.file = None;
        let text = match problem.line {
            0 => bare.to_string(),
            line => format!("line {line}: {bare}"),
        };
        let remedy = error.hint.as_deref();
        let man = "correct the file; `snbb-scheduler man config` lists all keys";
        findings.about(TOPIC, shown(problem.file.as_deref()));
        findings.error(text, remedy.unwrap_or(man));
    }
    remarks(&error.warnings, findings);
}

/// Reports on a valid configuration.
pub fn usable(config: &Config, findings: &mut Findings) {
    remarks(&config.warnings, findings);
    let procedures = plural(config.procedures.len(), "procedure");
    findings.about(TOPIC, shown(config.file.as_deref()));
    match &config.file {
        Some(_) => findings.ok(format!("valid, {procedures}")),
        None => findings.warning(
            "no configuration file, so the built-in defaults apply",
            "pass a file with --config PATH or SNBB_CONFIG; `snbb-scheduler init` creates one",
        ),
    }
}

fn remarks(warnings: &[String], findings: &mut Findings) {
    for text in warnings {
        let man = "`snbb-scheduler man config` explains the key";
        findings.about(TOPIC, "").warning(text, man);
    }
}

fn shown(file: Option<&Path>) -> String {
    file.map(|file| file.display().to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, testing};
    use super::*;
    use crate::config::{Overrides, load::interpret};

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
        let error =
            read("bids_rot: x\nscan_threads: 0\naudit: {smtp_password: secret}\n").unwrap_err();
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
}
