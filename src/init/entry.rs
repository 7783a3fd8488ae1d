//! An entry of the catalogue as it stands in a site's configuration: indented, and waiting for the procedures that
//! the site has. Its comments stay. Pure.

use serde_yaml::Value;

use super::error::InitError;
use super::yaml::scalar;
use crate::catalogue::App;

/// Is an entry of `procedures`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The script's name, for a file in `script_dir`.
    pub script: String,
    /// Indented as an item of the list.
    pub text: String,
}

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
    depends_on: Vec<Value>,
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
        depends_on: match entry.get("depends_on") {
            Some(Value::Sequence(list)) => list.clone(),
            Some(one @ Value::String(_)) => vec![one.clone()],
            _ => Vec::new(),
        },
    })
}

/// Makes an app's entry wait for those of `chosen` that it needs, and for nothing else.
///
/// # Errors
/// As [`facts`].
pub fn adapt(app: &App, chosen: &[App]) -> Result<Entry, InitError> {
    let facts = facts(app)?;
    let is_chosen = |name: &str| chosen.iter().any(|other| other.name == name);
    let mut names: Vec<String> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut add = |name: &str, dependency: &Value| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            words.push(flow(name, dependency));
        }
    };
    for dependency in &facts.depends_on {
        let name = name_of(dependency);
        // Another one of its kind may have been chosen.
        let instead = app
            .needs
            .iter()
            .filter(|group| group.contains(&name))
            .flat_map(|group| group.iter())
            .find(|other| is_chosen(other));
        if is_chosen(name) {
            add(name, dependency);
        } else if let Some(other) = instead {
            add(other, dependency);
        }
    }
    for group in app.needs {
        let is_met = |name: &&&str| {
            facts
                .depends_on
                .iter()
                .any(|known| name_of(known) == **name)
        };
        let mut of_group = group.iter().filter(|name| is_chosen(name));
        if of_group.clone().find(is_met).is_none()
            && let Some(name) = of_group.next()
        {
            add(name, &Value::Null);
        }
    }
    let before: Vec<&str> = facts.depends_on.iter().map(name_of).collect();
    let text = if before == names {
        app.entry.to_owned()
    } else {
        with_dependencies(app.entry, &words)
    };
    Ok(Entry {
        script: facts.script,
        text: indented(&text),
    })
}

/// True if a script asks for the DICOM directory, without which it has nothing to do.
fn reads_dicom(app: &App) -> bool {
    app.script.contains("SNBB_DICOM_PATH")
}

fn name_of(dependency: &Value) -> &str {
    let named = dependency.get("name").unwrap_or(dependency);
    named.as_str().unwrap_or_default()
}

/// Writes a dependency of another name with the conditions of a known one.
fn flow(name: &str, like: &Value) -> String {
    match like.get("sessions").and_then(Value::as_str) {
        Some(sessions) => format!("{{name: {}, sessions: {sessions}}}", scalar(name)),
        None => scalar(name),
    }
}

/// Replaces the value of `depends_on`, or adds it after the script.
fn with_dependencies(entry: &str, words: &[String]) -> String {
    let value = format!("depends_on: [{}]", words.join(", "));
    let has_key = |line: &str, key: &str| {
        let line = line.trim_start();
        line.strip_prefix("- ")
            .unwrap_or(line)
            .trim_start()
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with(':'))
    };
    let has_dependencies = entry.lines().any(|line| has_key(line, "depends_on"));
    let mut out: Vec<String> = Vec::new();
    let mut lines = entry.lines().peekable();
    while let Some(line) = lines.next() {
        if has_key(line, "depends_on") {
            let (before, rest) = line.split_once("depends_on:").unwrap_or((line, ""));
            let remark = rest.find(" #").and_then(|at| rest.get(at..));
            out.push(format!("{before}{value}{}", remark.unwrap_or_default()));
            let column = before.chars().count();
            while let Some(next) = lines.peek() {
                let indent = next.chars().take_while(|c| *c == ' ').count();
                let is_item = indent == column && next.trim_start().starts_with("- ");
                if next.trim().is_empty() || !(indent > column || is_item) {
                    break;
                }
                lines.next();
            }
        } else {
            out.push(line.to_owned());
            if !has_dependencies && has_key(line, "script") {
                let column = line.find("script:").unwrap_or_default();
                out.push(format!("{}{value}", " ".repeat(column)));
            }
        }
    }
    out.join("\n")
}

/// Shifts an entry to where items of `procedures` stand.
fn indented(entry: &str) -> String {
    let lines = || entry.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let least = lines().map(indent).min().unwrap_or_default();
    let mut out = String::new();
    for line in entry.trim_end().lines() {
        if line.trim().is_empty() {
            out.push('\n');
        } else {
            out.push_str("  ");
            out.push_str(line.get(least..).unwrap_or(line).trim_end());
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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
            entry,
            script: "",
        }
    }

    const TO_BIDS: App = App {
        name: "tobids",
        about: "",
        docs: "",
        needs: &[],
        entry: "- {name: tobids, output_dir: \"\", script: tobids.sh}",
        script: "echo ${3:-$SNBB_DICOM_PATH}",
    };

    fn deps(entry: &'static str, chosen: &[App]) -> String {
        let app = app("x", &[&["other", "tobids"]], entry);
        let mut all = chosen.to_vec();
        all.push(app);
        adapt(&app, &all).unwrap().text
    }

    #[test]
    fn an_entry_waits_for_what_was_chosen() {
        // As it stands.
        assert_eq!(
            deps(
                "- name: x\n  script: x.sh # s\n  depends_on: [tobids]\n",
                &[TO_BIDS]
            ),
            "  - name: x\n    script: x.sh # s\n    depends_on: [tobids]\n"
        );
        // Another converter; conditions and comments stay.
        assert_eq!(
            deps(
                "  # About x.\n  - name: x\n\n    script: x.sh\n    depends_on:   # first\n      - {name: other, sessions: any}\n      # c\n    mem: 1G",
                &[TO_BIDS]
            ),
            "  # About x.\n  - name: x\n\n    script: x.sh\n    depends_on: [{name: tobids, sessions: any}] # first\n    mem: 1G\n"
        );
        // Items at the column of the key; nothing chosen.
        assert_eq!(
            deps(
                "- name: x\n  script: x.sh\n  depends_on:\n  - other\n  - tobids\n  mem: 1G",
                &[]
            ),
            "  - name: x\n    script: x.sh\n    depends_on: []\n    mem: 1G\n"
        );
        // Not written yet.
        assert_eq!(
            deps("- name: x\n  script: x.sh\n", &[TO_BIDS]),
            "  - name: x\n    script: x.sh\n    depends_on: [tobids]\n"
        );
        assert_eq!(
            deps(
                "- name: x\n  script: x.sh\n  depends_on: [gone, other]\n",
                &[TO_BIDS]
            ),
            "  - name: x\n    script: x.sh\n    depends_on: [tobids]\n"
        );
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
