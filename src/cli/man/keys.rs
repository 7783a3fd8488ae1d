//! The manual page of the configuration file, made of the table of its keys.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::NAME;
use crate::config::keys::{Key, Section};

/// The page's name, and what `man` is asked for it by.
pub const PAGE: &str = "config";

/// Renders the page of section 5.
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
        "A YAML file, named by --config or the environment variable SNBB_CONFIG; init writes one and check looks it \
         through. Relative paths are relative to its directory; a leading ~ and ${VARIABLE} or ${VARIABLE:-default} are \
         expanded. A key that is not known is an error.",
    )]);
    roff.control("SH", ["OPTIONS"]);
    roff.text([roman(
        "All keys, by the mapping that they belong to, each with what is written after it, its default, and its meaning.",
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

/// Takes the marks of the other form, Markdown, away.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
