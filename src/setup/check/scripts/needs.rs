//! What a script needs of a machine: a container runtime, and files such as images and licences. Pure.

use std::path::PathBuf;

/// Starters of containers and pipelines, each with the words that follow when it starts one.
const RUNTIMES: [&str; 5] = ["apptainer", "singularity", "docker", "podman", "nextflow"];

/// How the names of shell variables end whose values are files.
const FILES: [&str; 7] = [
    "IMAGE",
    "SIF",
    "CONTAINER",
    "LICENSE",
    "LICENCE",
    "HEURISTIC",
    "CONFIG",
];

/// What a script needs, as far as its text shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// None as well if the script loads modules, which may bring it.
    pub runtime: Option<&'static str>,
    pub files: Vec<NeededFile>,
}

/// A file that a variable of the script names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededFile {
    /// The variable that a site sets: that of the environment, or else the script's own.
    pub variable: String,
    pub path: PathBuf,
}

/// Reads what a script needs. `env`: the variables that the job will see.
pub fn needs(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Needs {
    let mut needs = Needs::default();
    let mut is_without_image = false;
    for line in text.lines() {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if !name.chars().all(is_name) || !FILES.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let (variable, value) = assigned(name, value, env);
        is_without_image |= value.is_empty() && name.ends_with("IMAGE");
        // What is made of other variables, or is no path (docker://...), cannot be looked at here.
        if value.starts_with('/') && !value.contains('$') {
            needs.files.push(NeededFile {
                variable: variable.to_owned(),
                path: value.into(),
            });
        }
    }
    let is_command = |line: &&str| !line.trim_start().starts_with('#');
    let mut commands = text.lines().filter(is_command);
    if !is_without_image && !text.contains("module load") {
        needs.runtime = commands.find_map(runtime);
    }
    needs
}

/// The runtime that a line starts.
fn runtime(line: &str) -> Option<&'static str> {
    let mut words = line
        .split(|c: char| c.is_whitespace() || c == '(')
        .skip_while(|word| !RUNTIMES.contains(word));
    let name = words.next()?;
    let is_start = matches!(words.next(), Some("exec" | "run" | "shell"));
    RUNTIMES
        .into_iter()
        .find(|known| is_start && *known == name)
}

/// The variable that decides about an assignment, and the value that it will have.
fn assigned<'a>(
    name: &'a str,
    value: &'a str,
    env: &dyn Fn(&str) -> Option<String>,
) -> (&'a str, String) {
    let inner = value
        .strip_prefix("${")
        .and_then(|rest| rest.trim_end().strip_suffix('}'));
    let Some((variable, default)) = inner.and_then(|inner| inner.split_once('-')) else {
        return (name, unquoted(value));
    };
    let (variable, or_if_empty) = match variable.strip_suffix(':') {
        Some(variable) => (variable, true),
        None => (variable, false),
    };
    let set = env(variable).filter(|value| !(or_if_empty && value.is_empty()));
    (variable, set.unwrap_or_else(|| unquoted(default)))
}

/// A word as the shell reads it; one with quotes that are not at its ends stays as it is.
fn unquoted(word: &str) -> String {
    let word = word.trim_end();
    for quote in ['\'', '"'] {
        let inner = word
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.replace(r"'\''", "'");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::catalogue::{app, apps};

    fn shown(text: &str, set: &[(&str, &str)]) -> String {
        let env = |name: &str| {
            let mut set = set.iter();
            set.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let needs = needs(text, &env);
        let files = needs.files.iter();
        let files: Vec<String> = files
            .map(|file| format!("{}={}", file.variable, file.path.display()))
            .collect();
        format!("{} {}", needs.runtime.unwrap_or("-"), files.join(" "))
    }

    #[test]
    fn d8_the_catalogue_shows_its_images_and_licences() {
        for app in apps() {
            let found = shown(app.script, &[]);
            let starter = match app.name {
                "tractoflow" => "nextflow",
                _ => "apptainer",
            };
            assert!(found.starts_with(starter), "{}: {found}", app.name);
            assert!(found.contains("_IMAGE=/opt/containers/"), "{found}");
        }
        assert_eq!(
            shown(app("fmriprep").unwrap().script, &[]),
            "apptainer SNBB_FMRIPREP_IMAGE=/opt/containers/fmriprep.sif SNBB_FS_LICENSE=/opt/freesurfer/license.txt"
        );
        let set = [("SNBB_HEUDICONV_IMAGE", "/i.sif"), ("SNBB_HEURISTIC", "")];
        assert_eq!(
            shown(app("heudiconv").unwrap().script, &set),
            "apptainer SNBB_HEUDICONV_IMAGE=/i.sif SNBB_HEURISTIC=/opt/snbb/heuristic.py"
        );
        // Without an image dcm2niix is the nodes' own.
        let set = [("SNBB_DCM2NIIX_IMAGE", "")];
        assert_eq!(shown(app("dcm2niix").unwrap().script, &set), "- ");
    }

    #[test]
    fn d8_other_scripts_are_read_as_far_as_they_can_be() {
        for (text, expected) in [
            ("export FS_LICENSE=\"/l x.txt\"\n", "- FS_LICENSE=/l x.txt"),
            ("X_CONFIG=${A:-'/it'\\''s'}\n", "- A=/it's"),
            (
                "IMAGE=docker://x/y\nsingularity run $IMAGE\n",
                "singularity ",
            ),
            ("IMAGE=$HOME/x.sif\nOTHER=/x\n", "- "),
            ("# docker run x\necho apptainer\n", "- "),
            ("module load apptainer\napptainer exec x\n", "- "),
            ("if ! docker run x; then exit 1; fi\n", "docker "),
        ] {
            assert_eq!(shown(text, &[]), expected, "{text}");
        }
    }
}
