//! Variants of an app's entry for existing results of other programs.

use std::borrow::Cow;

use super::App;

/// Patterns of the catalogue's entries, with those for other versions of the app.
const REPORTS: [(&str, &str); 4] = [
    // fMRIPrep before 21.0 does not write transforms of runs.
    ("to-T[12]w_mode-image*xfm.txt", "desc-confounds_*.tsv"),
    (
        r#"{ glob: "*.html","#,
        r#"{ glob: "{subject}[._]*html", base: procedure,"#,
    ),
    (
        "derivatives/*/{subject}_{session}.html",
        "derivatives/*/{subject}[._]*html",
    ),
    (
        "derivatives/*/{subject}_{session}.html",
        "{subject}[._]*html",
    ),
];

const PER_SESSION: &str = "One result per session: the script needs the app's options for this.";
const PER_SUBJECT: &str =
    "One result per subject: the script must choose among the images of several sessions.";
const ZIPPED: &str = "Zip files, as created by BABS. The catalogue's script does not create them: change it before you run it.";

impl App {
    /// Variants of the entry for results in `place`, the most likely first. `by_session` means that each session has a
    /// report next to the subjects' directories.
    pub fn forms(&self, place: &str, by_session: bool) -> Vec<Self> {
        if ["freesurfer", "fastsurfer"].contains(&self.name) {
            let alone = self.within(place, "/{subject}").per_subject();
            return vec![
                self.within(place, "/{subject}_{session}"),
                self.within(place, "/{session}/{subject}"),
                alone.remarked(PER_SUBJECT),
            ];
        }
        let usual = self.within(place, "");
        let subject = r#""{subject}[._]*html""#;
        if by_session && usual.entry.contains(subject) {
            let each = usual.replaced(subject, r#""{subject}_{session}[._]*html""#);
            return vec![each.with("scope", "session").remarked(PER_SESSION)];
        }
        // The report of a subject does not distinguish sessions.
        let is_alone = usual.entry.matches("glob:").count() == 1;
        let mut forms = vec![usual.clone()];
        for (from, to) in REPORTS
            .iter()
            .filter(|(from, _)| usual.entry.contains(from))
        {
            let other = usual.replaced(from, to);
            forms.push(match is_alone && !to.contains("{session}") {
                true => other.per_subject(),
                false => other,
            });
        }
        forms
    }

    /// The entry for zip files in one directory, with these names of results.
    pub fn zipped(&self, place: &str, names: &[String], by_session: bool) -> Self {
        const KEPT: [&str; 6] = [
            "- name",
            "script",
            "depends_on",
            "mem",
            "cpus_per_task",
            "time",
        ];
        let about = self.entry.lines().next().unwrap_or_default();
        let mut lines = vec![about.to_owned()];
        let when = match self.reads.last() {
            Some([datatype]) => format!(r#", when: "**/{datatype}/*""#),
            _ => String::new(),
        };
        let (scope, task) = match by_session {
            true => ("session", "{subject}_{session}"),
            false => ("subject", "{subject}"),
        };
        for line in self.entry.lines() {
            let key = line.trim_start().split(':').next().unwrap_or_default();
            if !KEPT.contains(&key) {
                continue;
            }
            lines.push(line.to_owned());
            if key == "- name" {
                lines.push(format!(
                    "    output_dir:\n    scope: {scope}\n    completion_marker:"
                ));
                lines.extend(names.iter().map(|name| {
                    format!(r#"      - {{ glob: "{task}_{name}-*.zip", base: procedure{when} }}"#)
                }));
            }
        }
        let app = self.with_entry(lines.join("\n") + "\n");
        app.within(place, "").remarked(ZIPPED)
    }

    /// The entry for one result per subject.
    fn per_subject(&self) -> Self {
        let app = self.with("scope", "subject");
        app.replaced(r#"when: ""#, r#"when: "**/"#)
    }

    fn within(&self, place: &str, task: &str) -> Self {
        let dir = serde_json::Value::from(format!("{place}{task}"));
        self.with("output_dir", &dir.to_string())
    }

    /// The entry with another value of a key.
    fn with(&self, key: &str, value: &str) -> Self {
        let start = format!("    {key}:");
        let lines = self.entry.lines();
        let lines = lines.map(|line| match line.starts_with(&start) {
            true => format!("{start} {value}\n"),
            false => format!("{line}\n"),
        });
        self.with_entry(lines.collect())
    }

    fn replaced(&self, from: &str, to: &str) -> Self {
        self.with_entry(self.entry.replace(from, to))
    }

    fn with_entry(&self, entry: String) -> Self {
        Self {
            entry: Cow::Owned(entry),
            ..self.clone()
        }
    }

    /// The entry with a comment above `output_dir`.
    pub fn remarked(&self, remark: &str) -> Self {
        let key = "    output_dir:";
        self.replaced(key, &format!("    # {remark}\n{key}"))
    }
}
