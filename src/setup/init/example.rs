//! The procedure that a study gets which chose nothing of the catalogue: it works at once, wherever sessions come
//! from, and shows the way.

use crate::setup::catalogue::App;

/// Returns it.
pub fn app() -> App {
    App {
        name: "example",
        about: "counts the files of each session",
        docs: "docs/configuration.md",
        needs: &[],
        reads: &[],
        entry: include_str!("example.yaml"),
        script: include_str!("example.sh"),
    }
}
