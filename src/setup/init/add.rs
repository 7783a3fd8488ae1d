//! `init --add APP`: an app of the catalogue at the end of an existing list of procedures. All other lines stay as they
//! are, with their comments and their order. Pure.

use super::error::InitError;

/// Returns the configuration with the entry at the end of `procedures`, indented as the items there.
///
/// # Errors
/// A list that has not an item per line.
pub fn with_entry(text: &str, entry: &str) -> Result<String, InitError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key = |line: &str| {
        line.split('#')
            .next()
            .is_some_and(|line| line.trim_end() == LIST)
    };
    let mut keys = lines.iter().enumerate().filter(|(_, line)| is_key(line));
    // Of two lists only one counts.
    let (Some((key, _)), None) = (keys.next(), keys.next()) else {
        return Err(no_list());
    };
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let below = lines.iter().enumerate().skip(key + 1);
    let mut told = below.filter(|(_, line)| !is_remark(line));
    let Some((first, item)) = told
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
        .take_while(|(_, line)| is_remark(line) || is_of_list(line))
        // What is said at the margin after the last item belongs to what comes next.
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
                // The catalogue's entries stand two columns in.
                let line = line.strip_prefix("  ").unwrap_or(line);
                let margin = if line.is_empty() { "" } else { &margin };
                out.push_str(&format!("{margin}{line}{end}"));
            }
        }
    }
    Ok(out)
}

const LIST: &str = "procedures:";

fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn no_list() -> InitError {
    InitError::wrong(
        "--add",
        "finds no list `procedures`, once and with an item per line, in the configuration",
        "write `procedures:` and below it the procedures that you have, each beginning with `- name:`; \
         without the key the six built-in ones are meant",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "  # New.\n  - name: new\n    script: new.sh\n";

    #[test]
    fn an_entry_goes_to_the_end_of_the_list_and_all_else_stays() {
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
