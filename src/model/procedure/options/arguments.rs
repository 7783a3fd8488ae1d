//! Parses sbatch's options like getopt_long(3), in `sbatch_args` and in `#SBATCH` lines.

use super::table::{SbatchOption, Takes, by_letter, by_name};

/// Options in written order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments(Vec<Argument>);

/// One option, or a word that is not an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// `None` for unknown options and other words.
    pub option: Option<&'static SbatchOption>,
    /// The letter, if written in short form.
    pub letter: Option<char>,
    pub value: Option<String>,
    /// The word that contains it, as written: `-HJx`.
    pub word: String,
    /// The position of this word.
    pub at: usize,
    /// The words that are passed to sbatch.
    words: Vec<String>,
}

impl Arguments {
    /// Parses words with their positions.
    pub fn parse(words: impl IntoIterator<Item = (usize, String)>) -> Self {
        let mut words = words.into_iter().peekable();
        let mut found = Vec::new();
        while let Some((at, word)) = words.next() {
            let mut add = |option, letter, value: Option<String>, words: Vec<String>| {
                let word = word.clone();
                found.push(Argument {
                    option,
                    letter,
                    value,
                    word,
                    at,
                    words,
                });
            };
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                };
                let option = by_name(name);
                let separate = match option {
                    _ if value.is_some() || name.is_empty() => None,
                    Some(option) if option.takes != Takes::Value => None,
                    Some(_) => words.next(),
                    // An unknown option may have a value, but another option is not a value.
                    None => words.next_if(|(_, next)| !next.starts_with('-')),
                };
                let separate = separate.map(|(_, word)| word);
                let words = [Some(word.clone()), separate.clone()];
                let words = words.into_iter().flatten().collect();
                add(option, None, value.or(separate), words);
                continue;
            }
            let letters = word.strip_prefix('-').unwrap_or_default();
            if letters.is_empty() {
                add(None, None, None, vec![word.clone()]);
            }
            for (place, letter) in letters.char_indices() {
                let option = by_letter(letter);
                let rest = letters.get(place + letter.len_utf8()..).unwrap_or_default();
                if !takes_value(option) {
                    add(option, Some(letter), None, vec![format!("-{letter}")]);
                } else if rest.is_empty() {
                    let value = words.next().map(|(_, word)| word);
                    let mut words = vec![format!("-{letter}")];
                    words.extend(value.clone());
                    add(option, Some(letter), value, words);
                } else {
                    let words = vec![format!("-{letter}{rest}")];
                    add(option, Some(letter), Some(rest.to_owned()), words);
                    break;
                }
            }
        }
        Self(found)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Argument> {
        self.0.iter()
    }

    /// The arguments for sbatch.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|argument| &argument.words)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument.is(name))
    }

    /// The value of an option; the last one wins.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().rev().filter(|argument| argument.is(name));
        named.next()?.value.as_deref()
    }

    /// Removes all occurrences of an option.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|argument| !argument.is(name));
    }

    pub fn push(&mut self, word: String) {
        self.0.extend(Self::from_iter([word]).0);
    }
}

impl FromIterator<String> for Arguments {
    fn from_iter<T: IntoIterator<Item = String>>(words: T) -> Self {
        Self::parse(words.into_iter().enumerate())
    }
}

impl Argument {
    /// Compares the long name.
    pub fn is(&self, name: &str) -> bool {
        self.option.is_some_and(|option| option.long == name)
    }

    /// True for known and unknown options.
    pub fn is_option(&self) -> bool {
        self.word.len() > 1 && self.word.starts_with('-')
    }

    /// True if its value is missing.
    pub fn is_open(&self) -> bool {
        self.value.is_none() && takes_value(self.option)
    }
}

fn takes_value(option: Option<&SbatchOption>) -> bool {
    option.is_some_and(|option| option.takes == Takes::Value)
}
