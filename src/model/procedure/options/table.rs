//! The options of sbatch: spelling, whether they take a value, and who may pass them. Source: sbatch(1). Parses them like
//! getopt_long(3), in `sbatch_args` and in `#SBATCH` lines.

use Class::{Free, Key, Refused, Unfit};
use Takes::{Maybe, Nothing, Value};

/// One option of sbatch.
#[derive(Debug, PartialEq, Eq)]
pub struct SbatchOption {
    pub long: &'static str,
    pub letter: Option<char>,
    pub takes: Takes,
    pub class: Class,
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// Only after `=`: the next word is another option, or the script.
    Maybe,
    Value,
}

/// Who may pass an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Free,
    /// Allowed, but there is a key for it.
    Key(&'static str),
    /// Not allowed in the configuration, for this reason.
    Refused(&'static str),
    /// Not allowed in the configuration and in scripts, for this reason.
    Unfit(&'static str),
}

const NOTHING: &str = "sbatch would submit nothing";
const LOGS: &str = "'slurm_log_dir' determines where logs go";
const VARIABLES: &str = "it passes the SNBB_* variables to the script";
const OWN: &str = "only the user's own jobs are found again";

/// The options of sbatch, without free ones that take a value and have no letter. An abbreviation means
/// the first option that starts with it (sbatch accepts only unique ones), so the refused options come
/// first.
#[rustfmt::skip]
static OPTIONS: &[SbatchOption] = &[
    option("job-name", 'J', Value, Refused("jobs are found by name")),
    option("parsable", '-', Nothing, Refused("it is always passed")),
    option("array", 'a', Value, Refused("one job is submitted per task")),
    option("wait", 'W', Nothing, Unfit("sbatch would wait for the job's end")),
    option("wrap", '-', Value, Refused("the script is the procedure's 'script'")),
    option("test-only", '-', Nothing, Unfit(NOTHING)),
    option("export", '-', Value, Refused(VARIABLES)),
    option("export-file", '-', Value, Refused(VARIABLES)),
    option("output", 'o', Value, Refused(LOGS)),
    option("error", 'e', Value, Refused(LOGS)),
    option("quiet", 'Q', Nothing, Unfit("sbatch would not print the job id")),
    option("uid", '-', Value, Unfit(OWN)),
    option("gid", '-', Value, Unfit(OWN)),
    option("help", 'h', Nothing, Unfit(NOTHING)),
    option("usage", '-', Nothing, Unfit(NOTHING)),
    option("version", 'V', Nothing, Unfit(NOTHING)),

    option("partition", 'p', Value, Key("partition")),
    option("account", 'A', Value, Key("account")),
    option("qos", 'q', Value, Key("qos")),
    option("time", 't', Value, Key("time")),
    option("mem", '-', Value, Key("mem")),
    option("cpus-per-task", 'c', Value, Key("cpus_per_task")),
    option("gres", '-', Value, Key("gres")),

    option("begin", 'b', Value, Free),
    option("chdir", 'D', Value, Free),
    option("clusters", 'M', Value, Free),
    option("comment", '-', Value, Free),
    option("constraint", 'C', Value, Free),
    option("consolidate-segments", '-', Nothing, Free),
    option("contiguous", '-', Nothing, Free),
    option("core-spec", 'S', Value, Free),
    option("dependency", 'd', Value, Free),
    option("distribution", 'm', Value, Free),
    option("exclusive", '-', Maybe, Free),
    option("exclude", 'x', Value, Free),
    option("extra-node-info", 'B', Value, Free),
    option("get-user-env", '-', Maybe, Free),
    option("gpus", 'G', Value, Free),
    option("hold", 'H', Nothing, Free),
    option("ignore-pbs", '-', Nothing, Free),
    option("input", 'i', Value, Free),
    option("licenses", 'L', Value, Free),
    option("mem-per-cpu", '-', Value, Free),
    option("mem-per-gpu", '-', Value, Free),
    option("nice", '-', Maybe, Free),
    option("no-kill", 'k', Maybe, Free),
    option("no-requeue", '-', Nothing, Free),
    option("nodefile", 'F', Value, Free),
    option("nodelist", 'w', Value, Free),
    option("nodes", 'N', Value, Free),
    option("ntasks", 'n', Value, Free),
    option("oom-kill-step", '-', Maybe, Free),
    option("overcommit", 'O', Nothing, Free),
    option("oversubscribe", 's', Maybe, Free),
    option("propagate", '-', Maybe, Free),
    option("reboot", '-', Nothing, Free),
    option("requeue", '-', Nothing, Free),
    option("resv-ports", '-', Maybe, Free),
    option("share", '-', Maybe, Free),
    option("spread-job", '-', Nothing, Free),
    option("stepmgr", '-', Nothing, Free),
    option("use-min-nodes", '-', Nothing, Free),
    option("verbose", 'v', Nothing, Free),
];

/// `letter` is `-` if there is none.
const fn option(long: &'static str, letter: char, takes: Takes, class: Class) -> SbatchOption {
    let letter = match letter {
        '-' => None,
        letter => Some(letter),
    };
    SbatchOption {
        long,
        letter,
        takes,
        class,
    }
}

/// Finds an option by its long name or an abbreviation of it, like getopt_long(3).
fn by_name(name: &str) -> Option<&'static SbatchOption> {
    let exact = OPTIONS.iter().find(|option| option.long == name);
    let mut begun = OPTIONS
        .iter()
        .filter(|option| !name.is_empty() && option.long.starts_with(name));
    exact.or_else(|| begun.next())
}

fn by_letter(letter: char) -> Option<&'static SbatchOption> {
    OPTIONS.iter().find(|option| option.letter == Some(letter))
}

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
