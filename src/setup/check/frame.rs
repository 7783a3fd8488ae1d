//! The table of what `check` finds.

use polars::prelude::*;

use super::Finding;
use crate::show::tables::{TableError, texts};

/// Returns a row per finding: `level, topic, about, finding, advice, todo`, the last two the same: `advice` is the old name.
pub fn checks_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let text =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    Ok(DataFrame::new(
        findings.len(),
        vec![
            text("level", |f| Some(f.level.as_str())),
            text("topic", |f| Some(f.topic)),
            text("about", |f| Some(&f.about)),
            text("finding", |f| Some(&f.text)),
            text("advice", |f| f.advice.as_deref()),
            text("todo", |f| f.advice.as_deref()),
        ],
    )?)
}
