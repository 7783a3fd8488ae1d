//! `init --add APP`: appends an app of the catalogue to an existing list of procedures. All other lines, their comments
//! and their order remain unchanged.

use super::error::InitError;

/// The configuration with the entry at the end of `procedures`, indented like the items there.
///
/// # Errors
/// A list without one item per line.
pub fn with_entry(text: &str, entry: &str) -> Result<String, InitError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key = |line: &str| {
        line.split('#')
            .next()
            .is_some_and(|line| line.trim_end() == LIST)
    };
    let mut keys = lines.iter().enumerate().filter(|(_, line)| is_key(line));
    // Refuses two lists, of which only one would be used.
    let (Some((key, _)), None) = (keys.next(), keys.next()) else {
        return Err(no_list());
    };
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let below = lines.iter().enumerate().skip(key + 1);
    let mut content = below.filter(|(_, line)| !is_comment(line));
    let Some((first, item)) = content
        .next()
        .filter(|(_, line)| line.trim_start().starts_with('-'))
    else {
        return Err(no_list());
    };
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
    let end = match lines.get(last) {
        Some(line) if line.ends_with("\r\n") => "\r\n",
        _ => "\n",
    };
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        out.push_str(line);
        if at == last {
            if !line.ends_with('\n') {
                out.push_str(end);
            }
            out.push_str(end);
            for line in entry.lines() {
                // The catalogue's entries are indented by two spaces.
                let line = line.strip_prefix("  ").unwrap_or(line);
                let margin = if line.is_empty() { "" } else { &margin };
                out.push_str(&format!("{margin}{line}{end}"));
            }
        }
    }
    Ok(out)
}

const LIST: &str = "procedures:";

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn no_list() -> InitError {
    InitError::wrong(
        "--add",
        "requires exactly one list `procedures` with one item per line in the configuration",
        "write `procedures:`, followed by your procedures, each starting with `- name:`; \
         without this key, the configuration uses the built-in pipeline",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
