//! Checks of output paths: outside the data, and not over files of the study or of others.

use std::path::Path;

use super::error::{Failure, Result};
use crate::base::durable;
use crate::config::{file_of_study, root_above};
use crate::model::config::Config;

/// Refuses a path below a data root, and a file of the study other than the one of the key `but`.
pub(super) fn refuse_data(config: &Config, path: &Path, but: &str) -> Result<()> {
    let usage = |why: String, hint: &str| {
        Failure::usage(format!("{} {why}", path.display()), hint.to_owned())
    };
    if let Some((key, root)) = root_above(config, path) {
        let why = format!(
            "is below {key} ({}), where nothing is written",
            root.display()
        );
        return Err(usage(why, "choose a path outside the data"));
    }
    match file_of_study(config, path) {
        Some((key, what)) if key != but => {
            let why = format!("is a file of the study: {what}");
            Err(usage(why, "choose another file"))
        }
        _ => Ok(()),
    }
}

/// Refuses an existing file without the mark of this program, even if it is empty.
pub(super) fn refuse_foreign(path: &Path, mark: &str) -> Result<()> {
    let checked = match durable::refuse_foreign(path, mark) {
        Ok(Some(file)) if file.metadata().is_ok_and(|there| there.len() == 0) => {
            Err(durable::foreign())
        }
        checked => checked.map(drop),
    };
    checked.map_err(Failure::write(path))
}
