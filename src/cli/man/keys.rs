//! The manual page of the configuration file, generated from the table of its keys.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::NAME;
use crate::config::keys::{Key, Section};

/// Name of the page, and the argument of `man` for it.
pub const PAGE: &str = "config";

/// The page, in section 5 of the manual.
pub fn page() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let title = format!(
        ".TH \"{}-CONFIG\" 5 \"\" \"{NAME} {version}\" \"{NAME}\"\n",
        NAME.to_uppercase()
    );
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!(
        "{NAME}-{PAGE} - the configuration file of {NAME}"
    ))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold(format!("{NAME} --config")),
        roman(" "),
        italic("config.yaml"),
        roman(" ..."),
    ]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A YAML file, named by --config or the environment variable SNBB_CONFIG. `init` writes one, and `check` checks it. \
         Relative paths are relative to its directory; a leading ~ and ${VARIABLE} or ${VARIABLE:-default} are expanded. \
         Unknown keys are errors.",
    )]);
    roff.control("SH", ["OPTIONS"]);
    roff.text([roman(
        "All keys, grouped by the mapping they belong to, each with its type, default and meaning.",
    )]);
    for section in Section::ALL {
        roff.control("SS", [section.place()]);
        for key in section.keys() {
            roff.control("TP", []);
            roff.text(tag(key));
            roff.text([roman(format!("{}.", plain(key.doc)))]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold(NAME), roman("(1)")]);
    let mut page = title.into_bytes();
    // Writing to memory cannot fail.
    let _ = roff.to_writer(&mut page);
    page
}

fn tag(key: &Key) -> Vec<Inline> {
    let mut tag = vec![
        bold(key.name),
        roman(": "),
        italic(plain(&key.kind.words())),
    ];
    if let Some(default) = key.default.words() {
        tag.push(roman(format!(" (default: {})", plain(&default))));
    }
    tag
}

/// The text without Markdown's marks.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
