//! The configuration: what is wrong with the file, line by line, and what deserves a word. Pure.

use std::path::Path;

use super::Findings;
use crate::config::ConfigError;
use crate::model::config::Config;

const TOPIC: &str = "config";

/// Judges a configuration that cannot be used. Each problem is a finding of its own.
pub fn unusable(error: &ConfigError, findings: &mut Findings) {
    for problem in &error.problems {
        let mut bare = problem.clone();
        bare.hint = None;
        bare.file = None;
        let text = match problem.line {
            0 => bare.to_string(),
            line => format!("line {line}: {bare}"),
        };
        let advice = problem.hint.as_deref().or(error.hint.as_deref());
        let man = "correct it in the file; `snbb-scheduler man config` lists all keys";
        findings.about(TOPIC, shown(problem.file.as_deref()));
        findings.error(text, advice.unwrap_or(man));
    }
    remarks(&error.warnings, findings);
}

/// Judges one that can. `beside`: a file that looks like one and was not named.
pub fn usable(config: &Config, beside: Option<&Path>, findings: &mut Findings) {
    remarks(&config.warnings, findings);
    let count = config.procedures.len();
    findings.about(TOPIC, shown(config.file.as_deref()));
    match (&config.file, beside.map(Path::display)) {
        (Some(_), _) => findings.ok(format!("is read; procedures: {count}")),
        (None, beside) => findings.warning(
            "there is no configuration file: the built-in defaults apply",
            match beside {
                Some(file) => format!("{file} is not read by itself: name it with --config or SNBB_CONFIG"),
                None => "name one by --config PATH or the variable SNBB_CONFIG; `snbb-scheduler init` writes one"
                    .to_owned(),
            },
        ),
    }
}

fn remarks(warnings: &[String], findings: &mut Findings) {
    for text in warnings {
        let man = "`snbb-scheduler man config` says what the key means";
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
        assert_eq!(
            errors[0].advice.as_deref(),
            Some("did you mean 'bids_root'?")
        );
        assert!(errors[1].text.starts_with("line 2: scan_threads"));
        assert!(errors.iter().all(|finding| finding.about == "/c/x.yaml"));
        // The password that everybody can read.
        let warning = findings.iter().find(|f| f.level == Level::Warning).unwrap();
        assert!(warning.text.contains("smtp_password"), "{warning:?}");
    }

    #[test]
    fn a_sound_file_is_one_line_and_none_at_all_is_a_warning() {
        let config = read("dicom_root: /a\nbids_root: /b\nderivatives_root: /c\n").unwrap();
        let findings = testing::judged(|out| usable(&config, None, out));
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
        let findings = testing::judged(|out| usable(&config.unwrap(), None, out));
        assert_eq!(findings[0].level, Level::Warning);
    }
}
