//! Texts and paths as the configuration's loader reads them back. Pure.

use std::path::Path;

use super::error::InitError;

/// Stands for `$` before `{`, where a path of the configuration would name a variable.
const DOLLAR: &str = "${SNBB_DOLLAR:-$}";

/// Writes a text of one line as a YAML scalar: plain where no reader of YAML takes it for something else.
pub fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    // Quotes of either kind hold line breaks, but fold them: only escapes keep what is not printable.
    let is_printable = |c: char| matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric());
    if text.chars().all(is_printable) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_printable(c) => quoted.push(c),
            c => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// True for texts that need no quotes, whatever version of YAML they are read as.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_safe = |c: char| c.is_alphanumeric() || "/._-+=".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_alphabetic() || c == '/')
        // A path such as ./x; never a number.
        || text.starts_with("./")
        || text.starts_with("../")
        || text == "."
        || text == "..";
    begins_well && text.chars().all(is_safe) && !WORDS.contains(&text.to_lowercase().as_str())
}

/// Writes an absolute path: relative to `dir` where it lies below it, since the whole study can be moved then.
///
/// # Errors
/// What is not UTF-8 or holds a control character has no place in a configuration.
pub fn path(key: &'static str, path: &Path, dir: &Path) -> Result<String, InitError> {
    let written = path.strip_prefix(dir).unwrap_or(path);
    let Some(text) = written.to_str() else {
        return Err(InitError::NotUtf8 {
            key,
            path: path.to_owned(),
        });
    };
    if text.contains(char::is_control) {
        return Err(InitError::ControlCharacter {
            key,
            path: path.to_owned(),
        });
    }
    Ok(scalar(&literal(text)))
}

/// Keeps a path from being expanded: `~` at its start, `${` anywhere.
fn literal(text: &str) -> String {
    let text = text.replace("${", &format!("{DOLLAR}{{"));
    if text.is_empty() {
        ".".to_owned()
    } else if text.starts_with('~') || text.trim().is_empty() {
        format!("./{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_mistaken_is_plain() {
        for plain in [
            "/data/study",
            "cpu",
            "a_b-c.d",
            "./x",
            "Zürich/söhne",
            "x=1",
        ] {
            assert_eq!(scalar(plain), plain);
        }
        for (text, quoted) in [
            ("", "''"),
            ("no", "'no'"),
            ("Null", "'Null'"),
            ("12", "'12'"),
            ("1e3", "'1e3'"),
            (".inf", "'.inf'"),
            ("~", "'~'"),
            ("/a b", "'/a b'"),
            ("/it's", "'/it''s'"),
            ("/a: b", "'/a: b'"),
            ("/a #b", "'/a #b'"),
            ("*x", "'*x'"),
            ("/a\\b\"", "'/a\\b\"'"),
            ("/a\u{2028}\"\\", "\"/a\\U00002028\\\"\\\\\""),
        ] {
            assert_eq!(scalar(text), quoted, "{text:?}");
        }
    }

    #[test]
    fn paths_below_the_study_are_relative_and_nothing_is_expanded() {
        let written = |at: &str| path("bids_root", Path::new(at), Path::new("/s")).unwrap();
        for (at, text) in [
            ("/s/bids", "bids"),
            ("/s", "."),
            ("/sx/bids", "/sx/bids"),
            ("/s/~/x", "'./~/x'"),
            ("/s/ ", "'./ '"),
            ("/s/no", "'no'"),
            ("/d/${HOME}", "'/d/${SNBB_DOLLAR:-$}{HOME}'"),
            ("/d/$HOME", "'/d/$HOME'"),
        ] {
            assert_eq!(written(at), text, "{at}");
        }
        let bad = path("bids_root", Path::new("/a\nb"), Path::new("/s")).unwrap_err();
        assert!(bad.to_string().contains("/a\\nb"), "{bad}");
    }
}
