//! Files of git-annex (DataLad) whose content is not on this machine.
//!
//! A locked file is a link into `.git/annex/objects`, which is broken while the content is
//! elsewhere. [`crate::gather::disk::reader`] checks only broken links, so
//! that other files cost no system call.

use crate::base::words::words;

words! {
    /// Whether a git-annex file counts while its content is elsewhere.
    #[derive(Default)]
    pub enum Annex {
        /// It counts, with the size that git-annex recorded or an unknown size.
        #[default]
        Present = "present",
        /// It counts as missing.
        Absent = "absent",
    }
}

/// A git-annex file whose content is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// In bytes; `None` if git-annex does not know it either (files added by URL).
    pub size: Option<u64>,
}

/// Parses the target of a link into git-annex's store; `None` for other targets.
///
/// The key is the last part of the target: `SHA256E-s1234--<hash>.nii.gz` (git-annex, "key format").
pub fn elsewhere(target: &[u8]) -> Option<Elsewhere> {
    const OBJECTS: &[u8] = b"annex/objects/";
    let begins = target
        .windows(OBJECTS.len())
        .position(|part| part == OBJECTS)?;
    // `.git/annex/objects`, or `annex/objects` in a bare repository.
    if begins > 0 && target.get(begins - 1) != Some(&b'/') {
        return None;
    }
    let key = target.rsplit(|&byte| byte == b'/').next()?;
    let fields = key.split(|&byte| byte == b'-');
    let size = fields
        .skip(1)
        .take_while(|field| !field.is_empty())
        .find_map(|field| {
            std::str::from_utf8(field.strip_prefix(b"s")?)
                .ok()?
                .parse()
                .ok()
        });
    Some(Elsewhere { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_into_the_object_store_are_files_of_git_annex() {
        let key = "SHA256E-s1234--0af3.nii.gz";
        for (target, size) in [
            (
                format!("../../../.git/annex/objects/Xk/9m/{key}/{key}"),
                Some(1234),
            ),
            (
                format!("/srv/ds/.git/annex/objects/Xk/9m/{key}/{key}"),
                Some(1234),
            ),
            (
                format!("../.git/modules/a/annex/objects/Xk/9m/{key}/{key}"),
                Some(1234),
            ),
            (format!("annex/objects/ab1/c2d/{key}/{key}"), Some(1234)),
            (
                ".git/annex/objects/a/b/URL--x-s9/URL--x-s9".to_owned(),
                None,
            ),
            (
                ".git/annex/objects/a/b/MD5-m15-s0--x/MD5-m15-s0--x".to_owned(),
                Some(0),
            ),
        ] {
            assert_eq!(
                elsewhere(target.as_bytes()),
                Some(Elsewhere { size }),
                "{target}"
            );
        }
        for target in [
            "../annex/x",
            "/nonexistent",
            "my-annex/objects/a",
            ".git/objects/a",
            "",
        ] {
            assert_eq!(elsewhere(target.as_bytes()), None, "{target}");
        }
    }
}
