//! The catalogue of procedures for common BIDS apps, which `init` uses for a site's configuration.
//!
//! An app consists of two files of `slurm_templates/`, included in the program: `<name>.yaml`, the commented entry of
//! `procedures` with markers, limits and resources from the app's documentation, and `<name>.sh`, the job
//! script.

use std::borrow::Cow;
use std::sync::LazyLock;

/// One app of the catalogue.
#[derive(Debug, Clone)]
pub struct App {
    /// The name of the procedure and of both files.
    pub name: &'static str,
    /// A short description for lists.
    pub about: &'static str,
    /// The URL of its documentation, the source of the markers and options.
    pub docs: &'static str,
    /// Apps that must run before it: one of each group (`heudiconv` or `dcm2bids`, ...). The entry depends on the first
    /// of each.
    pub needs: &'static [&'static [&'static str]],
    /// The BIDS datatypes that it reads: without one of each group, it is never applicable. Empty for converters, which
    /// read DICOM files. Source: the apps' documentation.
    pub reads: &'static [&'static [&'static str]],
    /// One entry of `procedures`: a YAML list item with comments, indented for `procedures:`.
    pub entry: Cow<'static, str>,
    pub script: &'static str,
}

/// The converters to BIDS. Not used by sites with `discover: bids`, whose dataset is already converted.
const CONVERTERS: &[&str] = &["heudiconv", "dcm2bids"];

/// The description file that every BIDS dataset must have.
pub const DESCRIPTION: &str = "dataset_description.json";

/// All apps: first the converters, then the others, each sorted by name.
pub fn apps() -> &'static [App] {
    &*APPS
}

pub fn app(name: &str) -> Option<&'static App> {
    apps().iter().find(|app| app.name == name)
}

/// The content of a new dataset description.
pub fn description(name: &str) -> String {
    let name = serde_json::Value::from(name);
    format!("{{\"Name\": {name}, \"BIDSVersion\": \"1.10.0\", \"DatasetType\": \"raw\"}}")
}

impl App {
    /// Parses the entry: `# <about>. <docs>` in the first lines, `# Reads anat, func or dwi.`, `depends_on`.
    fn new(name: &'static str, entry: &'static str, script: &'static str) -> Self {
        let mut comments = entry.lines().filter_map(|line| line.strip_prefix("  # "));
        let about = comments.next().unwrap_or_default();
        let about = about.split(". http").next().unwrap_or_default();
        let mut words = entry.split_whitespace();
        let docs = words.find(|word| word.starts_with("https://"));
        let reads = comments.find_map(|line| line.strip_prefix("Reads ")?.strip_suffix('.'));
        let groups = reads.into_iter().flat_map(|reads| reads.split(", "));
        let groups = groups.map(|group| &*group.split(" or ").collect::<Vec<_>>().leak());
        let mut lines = entry.lines();
        let depends_on =
            lines.find_map(|line| line.strip_prefix("    depends_on: [")?.strip_suffix(']'));
        let needs = depends_on.into_iter().flat_map(|list| list.split(", "));
        let needs = needs.filter(|name| !name.is_empty());
        let needs = needs.map(|name| match CONVERTERS.contains(&name) {
            true => CONVERTERS,
            false => &*vec![name].leak(),
        });
        Self {
            name,
            about: about.trim_end_matches('.'),
            docs: docs.unwrap_or_default(),
            needs: needs.collect::<Vec<_>>().leak(),
            reads: groups.collect::<Vec<_>>().leak(),
            entry: Cow::Borrowed(entry),
            script,
        }
    }

    /// True if its script reads DICOM files.
    pub fn reads_dicom(&self) -> bool {
        self.script.contains("SNBB_DICOM_PATH")
    }

    /// True if it converts DICOM files to the dataset in `bids_root`.
    pub fn is_converter(&self) -> bool {
        self.needs.is_empty() && self.entry.contains("\n    output_dir: \"\"")
    }

    /// True if it refuses a dataset without [`DESCRIPTION`], because it opens the dataset with pybids.
    pub fn needs_description(&self) -> bool {
        ["aslprep", "fmriprep", "mriqc", "qsiprep", "smriprep"].contains(&self.name)
    }

    /// The entry for a site with these procedures: `depends_on` contains those of them that are needed. `converter` is
    /// the site's own converter, used if it has none of the catalogue's.
    pub fn entry_for(&self, chosen: &[&str], converter: Option<&str>) -> String {
        let needed = self.needs.iter().filter_map(|group| {
            let name = group.iter().find(|name| chosen.contains(name)).copied();
            name.or(converter.filter(|_| *group == CONVERTERS))
        });
        let needed: Vec<&str> = needed.collect();
        let list = format!("[{}]", needed.join(", "));
        self.with("depends_on", &list).entry.into_owned()
    }

    /// Names and contents of files that the script needs and that a site edits.
    pub fn files(&self) -> &'static [(&'static str, &'static str)] {
        match self.name {
            "dcm2bids" => &[(
                "dcm2bids.json",
                include_str!("../../slurm_templates/dcm2bids.json"),
            )],
            "heudiconv" => &[(
                "heuristic.py",
                include_str!("../../slurm_templates/heuristic.py"),
            )],
            _ => &[],
        }
    }
}

/// The procedure of a study without apps from the catalogue: an example that works immediately, with any source of
/// sessions.
pub const EXAMPLE: App = App {
    name: "example",
    about: "counts the files of each session",
    docs: "docs/configuration.md",
    needs: &[],
    reads: &[],
    entry: Cow::Borrowed(include_str!("init/example.yaml")),
    script: include_str!("init/example.sh"),
};

/// Includes the files of each app.
macro_rules! apps {
    ($($name:literal),*) => {
        [$(App::new(
            $name,
            include_str!(concat!("../../slurm_templates/", $name, ".yaml")),
            include_str!(concat!("../../slurm_templates/", $name, ".sh")),
        )),*]
    };
}

static APPS: LazyLock<[App; 15]> = LazyLock::new(|| {
    apps![
        "dcm2bids",
        "dcm2niix",
        "heudiconv",
        "aslprep",
        "cat12",
        "fastsurfer",
        "fmriprep",
        "freesurfer",
        "freesurfer_long",
        "mriqc",
        "qsiprep",
        "qsirecon",
        "smriprep",
        "tractoflow",
        "xcp_d"
    ]
});

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_depends_on_the_chosen_apps() {
        let depends_on = |name: &str, chosen: &[&str]| {
            let entry = app(name).unwrap().entry_for(chosen, None);
            let line = entry.lines().find(|line| line.contains("depends_on"));
            line.unwrap().trim().to_owned()
        };
        for (name, chosen, expected) in [
            ("fmriprep", &["heudiconv"][..], "depends_on: [heudiconv]"),
            ("fmriprep", &["mriqc", "dcm2bids"], "depends_on: [dcm2bids]"),
            ("fmriprep", &[], "depends_on: []"),
            (
                "xcp_d",
                &["heudiconv", "fmriprep"],
                "depends_on: [fmriprep]",
            ),
            ("heudiconv", &["dcm2niix"], "depends_on: []"),
        ] {
            assert_eq!(depends_on(name, chosen), expected, "{name} {chosen:?}");
        }
        for app in apps() {
            let first: Vec<&str> = app.needs.iter().map(|any| any[0]).collect();
            assert_eq!(app.entry_for(&first, None), app.entry, "{}", app.name);
        }
    }

    #[test]
    fn properties_of_apps_come_from_their_entries() {
        let known = |name: &str| {
            let app = app(name).unwrap();
            (app.reads_dicom(), app.is_converter())
        };
        assert_eq!(known("heudiconv"), (true, true));
        assert_eq!(known("dcm2bids"), (true, true));
        assert_eq!(known("dcm2niix"), (true, false));
        assert_eq!(known("fmriprep"), (false, false));
        assert_eq!(known("freesurfer_long"), (false, false));
    }

    #[test]
    fn files_of_converters_are_included() {
        let names = |name: &str| app(name).unwrap().files().iter().map(|file| file.0);
        assert!(names("heudiconv").eq(["heuristic.py"]));
        assert!(names("dcm2bids").eq(["dcm2bids.json"]));
        assert!(names("fmriprep").eq([""; 0]));
        for app in apps() {
            for (name, text) in app.files() {
                assert!(app.script.contains(&format!("/opt/snbb/{name}")), "{name}");
                if name.ends_with(".json") {
                    let rules: serde_json::Value = serde_json::from_str(text).unwrap();
                    assert!(rules["descriptions"].is_array());
                }
            }
        }
    }

    #[test]
    fn the_list_is_sorted_and_complete() {
        let converters = apps().iter().take_while(|app| app.needs.is_empty());
        let (first, rest) = apps().split_at(converters.count());
        assert_eq!(first.len(), 3);
        for part in [first, rest] {
            assert!(part.is_sorted_by_key(|app| app.name));
        }
        for app in apps() {
            for name in app.needs.iter().copied().flatten() {
                assert!(super::app(name).is_some(), "{}: {name}", app.name);
            }
            assert_eq!(app.reads.is_empty(), app.needs.is_empty(), "{}", app.name);
            for datatype in app.reads.iter().copied().flatten() {
                assert!(
                    ["anat", "dwi", "func", "perf"].contains(datatype),
                    "{}",
                    app.name
                );
            }
            assert!(!app.about.ends_with('.') && app.about.len() <= 80);
            assert!(app.docs.starts_with("https://"), "{}", app.docs);
        }
    }
}
