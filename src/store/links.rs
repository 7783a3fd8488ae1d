//! Further names of the state file: hard links that this program has not made. It only looks.
//!
//! Each save puts a new file in place, so another name keeps an older state, and with it comes a lock and a
//! journal of its own: two calls by two names do not see each other.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::base::durable;
use crate::store::state_file::StatePaths;

/// Counts the names that the state file has beside its own and those that saves and repairs leave beside it.
/// 0 where it cannot be looked at.
pub fn foreign_names(paths: &StatePaths) -> u64 {
    let identity = |path: &Path| {
        let metadata = path.symlink_metadata().ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.nlink()))
    };
    let (device, inode) = match identity(&paths.state) {
        Some((device, inode, 2..)) => (device, inode),
        _ => return 0,
    };
    let (mut own, kept) = durable::list_leftovers(&[&paths.state, &paths.backup]);
    own.extend(kept);
    own.extend([paths.state.clone(), paths.backup.clone()]);
    let own = own
        .iter()
        .filter_map(|path| identity(path))
        .filter(|(its_device, its_inode, _)| (*its_device, *its_inode) == (device, inode))
        .count() as u64;
    // Looked at last: what is left over may be removed by another call meanwhile.
    match identity(&paths.state) {
        Some((its_device, its_inode, names)) if (its_device, its_inode) == (device, inode) => {
            names.saturating_sub(own)
        }
        _ => 0,
    }
}

/// Says of the state file that there are such names, and the way out. None: there are none.
pub fn warning(paths: &StatePaths) -> Option<(String, &'static str)> {
    let more = match foreign_names(paths) {
        0 => return None,
        1 => "1 more name (hard link)".to_owned(),
        more => format!("{more} more names (hard links)"),
    };
    let text = format!(
        "has {more}: a call by another name than this has a lock and a journal of its own, and may submit a task twice"
    );
    Some((text, WAY_OUT))
}

const WAY_OUT: &str = "call it by one name only, and keep copies with `cp` (`cp -al`, `ln` and `rsync --link-dest` make links); the \
     other name keeps the state of before once a call has saved";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::state_file::Store;

    #[test]
    fn only_names_of_others_count() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Store::at(&dir.path().join("state.parquet")).unwrap().paths;
        assert_eq!(foreign_names(&paths), 0);
        std::fs::write(&paths.state, "x").unwrap();
        assert_eq!(foreign_names(&paths), 0);
        let link = |name: &str| std::fs::hard_link(&paths.state, dir.path().join(name)).unwrap();
        for own in [
            "state.parquet.bak",
            "state.parquet.tmp-host.1.0",
            "state.parquet.bak.tmp-host.1.1",
            "state.parquet.damaged-20260101",
        ] {
            link(own);
            assert_eq!(foreign_names(&paths), 0, "{own}");
            assert_eq!(warning(&paths), None);
        }
        link("copy.parquet");
        assert_eq!(foreign_names(&paths), 1);
        std::fs::create_dir(dir.path().join("backup")).unwrap();
        link("backup/state.parquet");
        assert_eq!(foreign_names(&paths), 2);
        assert!(warning(&paths).unwrap().0.contains("2 more names"));
        // A file of its own under a name of ours.
        std::fs::remove_file(&paths.backup).unwrap();
        std::fs::write(&paths.backup, "x").unwrap();
        assert_eq!(foreign_names(&paths), 2);
    }
}
