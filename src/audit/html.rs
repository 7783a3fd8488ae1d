//! The report as one HTML page.

use super::report::Report;

/// Renders the page. Not built yet: says so.
pub fn render(_report: &Report) -> Result<String, NotBuilt> {
    Err(NotBuilt)
}

/// Says that this build has no HTML page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this version cannot make the HTML page yet")]
pub struct NotBuilt;
