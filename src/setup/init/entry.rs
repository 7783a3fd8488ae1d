//! What an app of the catalogue brings into a study: its entry, its script, the files that the script needs. Pure.

use std::path::Path;

use serde_yaml::Value;

use super::error::InitError;
use super::{NewFile, SCRIPTS};
use crate::base::shell;
use crate::setup::catalogue::App;

/// Where scripts of the catalogue look for the files that they need, unless a variable says otherwise.
const SHARED: &str = "/opt/snbb";

/// Holds what an entry says that matters before it is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub script: String,
    /// Its script works on DICOM files.
    pub reads_dicom: bool,
    /// It makes the dataset in `bids_root` of them.
    pub is_converter: bool,
    /// How many sessions a subject needs.
    pub min_sessions: u64,
}

/// Reads an entry.
///
/// # Errors
/// It is not a list of one mapping with the app's name.
pub fn facts(app: &App) -> Result<Facts, InitError> {
    let fault = |why: String| InitError::Entry {
        name: app.name.to_owned(),
        why,
    };
    let list: Value = serde_yaml::from_str(app.entry)
        .map_err(|error| fault(format!("it is no YAML: {error}")))?;
    let entry = match list.as_sequence().map(Vec::as_slice) {
        Some([entry]) => entry,
        _ => return Err(fault("it is not a list of one procedure".to_owned())),
    };
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    if text("name") != Some(app.name) {
        return Err(fault("it has another name".to_owned()));
    }
    let script = text("script").ok_or_else(|| fault("it has no script".to_owned()))?;
    if script.contains('/') {
        return Err(fault(format!("its script {script} is not a mere name")));
    }
    Ok(Facts {
        script: script.to_owned(),
        reads_dicom: reads_dicom(app),
        is_converter: text("output_dir") == Some("") && app.needs.is_empty(),
        min_sessions: entry
            .get("min_sessions")
            .and_then(Value::as_u64)
            .unwrap_or(1),
    })
}

/// Returns the script and the files beside it, for a study in the directory `dir`. The script looks for them there.
///
/// # Errors
/// As [`facts`]; a path that no script can hold.
pub fn files(app: &App, dir: &Path) -> Result<Vec<NewFile>, InitError> {
    let mut script = app.script.to_owned();
    let mut files = Vec::new();
    for (name, text) in app.files() {
        let path = dir.join(SCRIPTS).join(name);
        let Some(place) = path.to_str() else {
            return Err(InitError::NotUtf8 {
                key: "the directory",
                path: dir.to_owned(),
            });
        };
        script = script.replace(&format!("{SHARED}/{name}"), &shell::quote(place));
        files.push(NewFile {
            path: Path::new(SCRIPTS).join(name),
            text: (*text).to_owned(),
            is_executable: false,
        });
    }
    let script = NewFile {
        path: Path::new(SCRIPTS).join(facts(app)?.script),
        text: script,
        is_executable: true,
    };
    files.insert(0, script);
    Ok(files)
}

/// True if a script asks for the DICOM directory, without which it has nothing to do.
fn reads_dicom(app: &App) -> bool {
    app.script.contains("SNBB_DICOM_PATH")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::catalogue;

    fn app(
        name: &'static str,
        needs: &'static [&'static [&'static str]],
        entry: &'static str,
    ) -> App {
        App {
            name,
            about: "",
            docs: "",
            needs,
            reads: &[],
            entry,
            script: "",
        }
    }

    const TO_BIDS: App = App {
        name: "tobids",
        about: "",
        docs: "",
        needs: &[],
        reads: &[],
        entry: "- {name: tobids, output_dir: \"\", script: tobids.sh}",
        script: "echo ${3:-$SNBB_DICOM_PATH}",
    };

    #[test]
    fn files_beside_a_script_are_found_in_the_study_whatever_its_name() {
        let app = catalogue::app("heudiconv").unwrap();
        let dir = Path::new("/a }\"it's $x");
        let files = files(app, dir).unwrap();
        let names: Vec<&str> = files.iter().filter_map(|file| file.path.to_str()).collect();
        assert_eq!(names, ["scripts/heudiconv.sh", "scripts/heuristic.py"]);
        assert!(files[0].is_executable && !files[1].is_executable);
        let line = files[0]
            .text
            .lines()
            .find(|line| line.starts_with("HEURISTIC="));
        assert_eq!(
            line,
            Some("HEURISTIC=${SNBB_HEURISTIC:-'/a }\"it'\\''s $x/scripts/heuristic.py'}")
        );
        // Every file that scripts of the catalogue look for in the shared directory comes along.
        for app in catalogue::apps() {
            for file in super::files(app, Path::new("/study")).unwrap() {
                assert!(!file.text.contains(SHARED), "{}", app.name);
            }
        }
    }

    #[test]
    fn what_an_entry_says_is_known_before_it_is_chosen() {
        let known = facts(&TO_BIDS).unwrap();
        assert!(known.reads_dicom && known.is_converter && known.min_sessions == 1);
        let other = app(
            "x",
            &[],
            "- {name: x, output_dir: x, script: x.sh, min_sessions: 2, scope: subject}",
        );
        let known = facts(&other).unwrap();
        assert!(!known.reads_dicom && !known.is_converter && known.min_sessions == 2);
    }

    #[test]
    fn what_is_no_entry_is_told() {
        for (entry, why) in [
            ("name: x", "list of one procedure"),
            ("- {name: y, script: x.sh}", "another name"),
            ("- {name: x}", "no script"),
            ("- {name: x, script: a/x.sh}", "not a mere name"),
            ("- {", "no YAML"),
        ] {
            let error = facts(&app("x", &[], entry)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
