//! The text of the configuration: `config.example.yaml` with the site's answers, all other keys as comments; and further
//! entries for `init --add APP`.

use std::path::Path;

use super::{Answers, InitError, Jobs, SCHEMA, SCRIPTS};
use crate::model::bids::SessionSource;

/// The template: every key, with a description.
const TEMPLATE: &str = include_str!("../../../config.example.yaml");

const HEADER: &str = "\
#
# The study's configuration, created by `snbb-scheduler init`. Edit it as needed: a line such as
# `#annex: present` is an optional key with its default, or with an example if it has none.
# After each change, run: snbb-scheduler --config FILE check
#
";
/// Start of the part of the template that every study gets.
const BEGIN: &str = "# Relative paths";
const LIST: &str = "procedures:";
const SECTION: &str = "# --- ";

/// Replaces `$` before `{`, because `${` in a path of the configuration means a variable.
const DOLLAR: &str = "${SNBB_DOLLAR:-$}";

/// The text of the file, with these entries of `procedures`.
pub(super) fn text(answers: &Answers, dir: &Path, entries: &[String]) -> Result<String, InitError> {
    let values = values(answers, dir)?;
    let mut text = format!("# yaml-language-server: $schema={SCHEMA}\n{HEADER}");
    let mut is_in_list = false;
    for line in TEMPLATE.lines().skip_while(|line| !line.starts_with(BEGIN)) {
        is_in_list &= !line.starts_with(SECTION);
        if is_in_list {
            continue;
        }
        let is_comment = line.is_empty() || line.trim_start().starts_with('#');
        text.push_str(
            &match values.iter().find(|(key, _)| key_of(line) == Some(*key)) {
                Some((key, value)) => format!("{key}: {value}").trim_end().to_owned(),
                None if line == LIST => format!("{LIST}\n{}", entries.join("\n")),
                None if is_comment => line.to_owned(),
                None => format!("#{line}"),
            },
        );
        text.push('\n');
        is_in_list |= line == LIST;
    }
    Ok(text)
}

/// The key of a line, even if it is commented out.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.strip_prefix('#').unwrap_or(line).split_once(':')?;
    Some(key)
}

/// The site's answers, by key and as YAML.
fn values(answers: &Answers, dir: &Path) -> Result<Vec<(&'static str, String)>, InitError> {
    let text = |word: &str| word.to_owned();
    // Empty for Slurm's default.
    let name = |name: &Option<String>| name.as_deref().map(scalar).unwrap_or_default();
    let mut values = vec![("script_dir", text(SCRIPTS))];
    let mut paths: Vec<(&str, &Path)> = super::roots(answers).collect();
    paths.push(("state_file", &answers.state_file));
    paths.push(("slurm_log_dir", &answers.log_dir));
    match &answers.sessions {
        SessionSource::Dicom => {
            let sessionless = if answers.sessionless { "yes" } else { "no" };
            values.extend([
                ("discover", text("dicom")),
                ("sessionless", text(sessionless)),
            ]);
        }
        SessionSource::Bids => values.push(("discover", text("bids"))),
        SessionSource::Csv {
            file,
            subject_col,
            session_col,
        } => {
            paths.push(("sessions_file", file));
            values.push(("subject_col", scalar(subject_col)));
            values.push(("session_col", scalar(session_col)));
        }
    }
    match &answers.jobs {
        Jobs::Local => values.push(("executor", text("local"))),
        Jobs::Slurm {
            partition,
            account,
            bin_dir,
            accounting,
        } => {
            values.push(("executor", text("slurm")));
            values.push(("slurm_partition", name(partition)));
            values.push(("slurm_account", name(account)));
            values.extend((!accounting).then(|| ("accounting", text("off"))));
            paths.extend(bin_dir.iter().map(|dir| ("slurm_bin_dir", dir.as_path())));
        }
    }
    for (key, path) in paths {
        values.push((key, path_value(key, path, dir)?));
    }
    let mem = answers.mem.as_ref().map(|mem| scalar(&mem.to_string()));
    values.extend(mem.map(|mem| ("slurm_mem", mem)));
    let cpus = answers.cpus.map(|cpus| cpus.to_string());
    values.extend(cpus.map(|cpus| ("slurm_cpus_per_task", cpus)));
    let project = answers.project.as_deref().map(scalar);
    values.extend(project.map(|project| ("project", project)));
    Ok(values)
}

/// A text as a YAML scalar.
fn scalar(text: &str) -> String {
    // Formatting a text cannot fail.
    let yaml = serde_yaml::to_string(text).unwrap_or_default();
    yaml.trim_end_matches('\n').to_owned()
}

/// A path as a YAML scalar. Paths inside `dir` become relative, so that the study can be moved.
fn path_value(key: &'static str, path: &Path, dir: &Path) -> Result<String, InitError> {
    let written = path.strip_prefix(dir).unwrap_or(path);
    let unfit = |why| Err(InitError::unfit_path(key, path, why));
    let Some(text) = written.to_str() else {
        return unfit("is not UTF-8, so a configuration cannot contain it");
    };
    if text.contains(|c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)) {
        return unfit("contains a line break or another control character");
    }
    // Prevents expansion of a leading `~` and of `${`.
    let text = text.replace("${", &format!("{DOLLAR}{{"));
    Ok(scalar(&match text.as_str() {
        "" => ".".to_owned(),
        text if text.starts_with('~') || text.trim().is_empty() => format!("./{text}"),
        text => text.to_owned(),
    }))
}

/// The configuration with the entry at the end of `procedures`, indented like the items there.
///
/// # Errors
/// A list without one item per line.
pub fn with_entry(text: &str, entry: &str) -> Result<String, InitError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let no_list = || {
        InitError::wrong(
            "--add",
            "requires exactly one list `procedures` with one item per line in the configuration",
            "write `procedures:`, followed by your procedures, each starting with `- name:`; \
             without this key, the configuration uses the built-in pipeline",
        )
    };
    let mut keys = lines.iter().enumerate().filter(|(_, line)| {
        let text = line.split('#').next();
        text.is_some_and(|text| text.trim_end() == LIST)
    });
    // Refuses two lists, of which only one would be used.
    let (Some((key, _)), None) = (keys.next(), keys.next()) else {
        return Err(no_list());
    };
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let mut below = lines.iter().enumerate().skip(key + 1);
    let first = below.find(|(_, line)| !is_comment(line));
    let first = first.filter(|(_, line)| line.trim_start().starts_with('-'));
    let (first, item) = first.ok_or_else(no_list)?;
    let indent = indent_of(item);
    let is_of_list = |line: &&str| {
        indent_of(line) > indent || indent_of(line) == indent && line.trim_start().starts_with('-')
    };
    let all = lines.iter().enumerate().skip(first);
    let last = all
        .take_while(|(_, line)| is_comment(line) || is_of_list(line))
        // Unindented comments after the last item belong to the next key.
        .filter(|(_, line)| is_of_list(line) && !line.trim().is_empty())
        .last()
        .map_or(first, |(at, _)| at);
    let margin = " ".repeat(indent);
    let (before, after) = lines.split_at(last + 1);
    let mut out = before.concat();
    let end = match out.ends_with("\r\n") {
        true => "\r\n",
        false => "\n",
    };
    if !out.ends_with('\n') {
        out.push_str(end);
    }
    out.push_str(end);
    for line in entry.lines() {
        // The catalogue's entries are indented by two spaces.
        let line = line.strip_prefix("  ").unwrap_or(line);
        let margin = if line.is_empty() { "" } else { &margin };
        out.push_str(&format!("{margin}{line}{end}"));
    }
    Ok(out + &after.concat())
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_special_meaning_in_yaml_is_quoted() {
        for plain in [
            "/data/study",
            "cpu",
            "a_b-c.d",
            "./x",
            "Zürich/söhne",
            "x=1",
            "/a b",
        ] {
            assert_eq!(scalar(plain), plain);
        }
        for text in ["", "Null", "12", "1e3", ".inf", "~", "/a: b", "/a #b", "*x"] {
            assert!(scalar(text).starts_with(['\'', '"']), "{text}");
        }
    }

    #[test]
    fn paths_in_the_study_are_relative_and_nothing_is_expanded() {
        let written = |at: &str| path_value("bids_root", Path::new(at), Path::new("/s")).unwrap();
        for (at, text) in [
            ("/s/bids", "bids"),
            ("/s", "."),
            ("/sx/bids", "/sx/bids"),
            ("/s/~/x", "./~/x"),
            ("/s/ ", "'./ '"),
            ("/d/${HOME}", "/d/${SNBB_DOLLAR:-$}{HOME}"),
            ("/d/$HOME", "/d/$HOME"),
        ] {
            assert_eq!(written(at), text, "{at}");
        }
        for (at, shown) in [("/a\nb", "/a\\nb"), ("/a\u{2028}b", "/a")] {
            let bad = path_value("bids_root", Path::new(at), Path::new("/s")).unwrap_err();
            assert!(bad.to_string().contains(shown), "{bad}");
        }
    }

    const ENTRY: &str = "  # New.\n  - name: new\n    script: new.sh\n";

    #[test]
    fn an_entry_is_appended_and_other_lines_are_unchanged() {
        for (text, expected) in [
            (
                "a: 1\nprocedures:\n  - name: x\n    mem: 1G  # much\n\n# --- News\nnotify: {}\n",
                "a: 1\nprocedures:\n  - name: x\n    mem: 1G  # much\n\n  # New.\n  - name: new\n    script: new.sh\n\n# --- News\nnotify: {}\n",
            ),
            (
                "procedures:   # mine\n# first\n- name: x\n  depends_on:\n  - y\nz: 1\n",
                "procedures:   # mine\n# first\n- name: x\n  depends_on:\n  - y\n\n# New.\n- name: new\n  script: new.sh\nz: 1\n",
            ),
            (
                "procedures:\r\n    - {name: x}\r\n",
                "procedures:\r\n    - {name: x}\r\n\r\n    # New.\r\n    - name: new\r\n      script: new.sh\r\n",
            ),
        ] {
            assert_eq!(with_entry(text, ENTRY).unwrap(), expected);
        }
        let mixed = with_entry("a: 1\r\nprocedures:\n- name: x\n# end", ENTRY).unwrap();
        assert!(
            mixed.starts_with("a: 1\r\nprocedures:\n- name: x\n\n# New.\n")
                && mixed.ends_with("\n# end")
        );
        for text in [
            "a: 1\n",
            "procedures: [{name: x}]\n",
            "procedures:\n",
            "procedures:\na: 1\n",
            "procedures:\n- name: x\nprocedures:\n- name: y\n",
        ] {
            assert!(with_entry(text, ENTRY).is_err(), "{text}");
        }
    }
}
