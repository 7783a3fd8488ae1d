//! Quoting for a shell.

/// Characters without a special meaning in any shell, in any position.
const PLAIN: &str = "_-./:=@%+,";

/// Quotes a text so that every POSIX shell reads it as one word with exactly these characters.
pub fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Joins words into a command line.
pub fn join<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word.as_ref())).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bash_expands_is_quoted() {
        for (text, quoted) in [
            ("--mem=4G", "--mem=4G"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("{a,b}", "'{a,b}'"),
            ("~/x", "'~/x'"),
            ("a!b", "'a!b'"),
            ("é", "'é'"),
        ] {
            assert_eq!(quote(text), quoted);
        }
        assert_eq!(join(&["a", ""]), "a ''");
    }
}
