//! File systems: what `/proc/self/mountinfo` says of the one that a path lies on, and what that means for the lock,
//! the state and the jobs. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::Finding;

/// Describes one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub point: PathBuf,
    /// `ext4`, `nfs4`, `lustre`, `fuse.sshfs`, ...
    pub kind: String,
    /// Of the mount and of the file system.
    pub options: Vec<String>,
}

/// Says what a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The program's own files and its lock.
    State,
    /// Written by jobs on compute nodes, or by the program.
    Log,
    /// A data root.
    Data,
}

/// Reads `/proc/self/mountinfo` (proc_pid_mountinfo(5)). Lines that are none are left out.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let point = unescape(fields.nth(4)?);
            let own = fields.next()?;
            let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
            let kind = String::from_utf8_lossy(rest.next()?).into_owned();
            let of_file_system = rest.nth(1).unwrap_or_default();
            let options = [own, of_file_system]
                .iter()
                .flat_map(|list| list.split(|byte| *byte == b','))
                .map(|option| String::from_utf8_lossy(option).into_owned())
                .filter(|option| !option.is_empty())
                .collect();
            Some(Mount {
                point,
                kind,
                options,
            })
        })
        .collect()
}

/// Finds the mount of a path without links. Of several at one point the last one counts.
pub fn of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

impl Mount {
    /// Finds the first option that is one of these.
    fn has(&self, names: &[&str]) -> Option<&String> {
        let mut options = self.options.iter();
        options.find(|option| names.contains(&option.as_str()))
    }
}

/// Judges the file system of a path; nothing if it is an ordinary one without anything to say.
pub fn judge(
    topic: &'static str,
    purpose: Use,
    path: &Path,
    mount: &Mount,
    leaves_host: bool,
) -> Vec<Finding> {
    let about = path.display().to_string();
    let kind = mount.kind.as_str();
    let is_state = purpose == Use::State;
    if purpose != Use::Data && mount.has(&["ro"]).is_some() {
        return vec![Finding::error(
            topic,
            about,
            format!("is on a file system ({kind}) that is mounted read-only here"),
            "set it to a directory that can be written to, or have it mounted for writing",
        )];
    }
    let warning =
        |text: String, advice: &str| vec![Finding::warning(topic, about.clone(), text, advice)];
    match kind {
        "tmpfs" | "ramfs" | "devtmpfs" if purpose == Use::Data => match leaves_host {
            true => warning(
                format!(
                    "is on {kind}, which the compute nodes do not see and which is empty after a restart"
                ),
                "keep the data on a file system that all nodes share",
            ),
            false => Vec::new(),
        },
        "tmpfs" | "ramfs" | "devtmpfs" => warning(
            format!("is on {kind}, which is empty after a restart of the machine"),
            if is_state {
                "set state_file to a path on a disk; the state of a study is to outlive the machine's restarts"
            } else {
                "set it to a directory on a disk, for Slurm one that all nodes share"
            },
        ),
        _ if is_state => of_state(topic, &about, mount),
        _ => Vec::new(),
    }
}

/// Judges the file system of a state: do locks reach other hosts, is what is written there safe.
fn of_state(topic: &'static str, about: &str, mount: &Mount) -> Vec<Finding> {
    let kind = mount.kind.as_str();
    let warning = |text: String, advice: &str| vec![Finding::warning(topic, about, text, advice)];
    match kind {
        "overlay" => warning(
            "is on overlay: inside a container, what is written there goes with it".to_owned(),
            "put the state on a directory that is bound into the container from outside",
        ),
        "nfs" | "nfs4" => {
            if let Some(option) = mount.has(&["nolock", "local_lock=all", "local_lock=flock"]) {
                return warning(
                    format!(
                        "is on {kind} with {option}: locks of the kernel do not reach other hosts; the program's own \
                         lock, a hard link, does"
                    ),
                    "nothing if one host alone calls the program; otherwise mount it without this option, for the \
                     second barrier between two calls",
                );
            }
            if let Some(option) = mount.has(&["soft", "softerr"]) {
                return warning(
                    format!(
                        "is on {kind} with {option}: a server that is slow for a moment is an error, not a wait"
                    ),
                    "mount it with 'hard', or keep the state elsewhere; nothing is lost, but runs will fail",
                );
            }
            said(topic, about, kind, "locks reach all hosts")
        }
        "lustre" => match mount.has(&["flock"]) {
            Some(_) => said(
                topic,
                about,
                kind,
                "with flock, locks reach all hosts; times of files are the clients'",
            ),
            None => {
                let how = mount
                    .has(&["localflock", "noflock"])
                    .map_or("without flock", |option| option.as_str());
                warning(
                    format!(
                        "is on lustre, {how}: locks of the kernel do not reach other hosts; the program's own \
                             lock, a hard link, does"
                    ),
                    "nothing if one host alone calls the program; otherwise have it mounted with 'flock', for the \
                         second barrier between two calls",
                )
            }
        },
        "beegfs" => said(
            topic,
            about,
            kind,
            "locks of the kernel reach other hosts only with tuneUseGlobalFileLocks, the program's own (a hard link) do",
        ),
        "gpfs" | "ceph" | "wekafs" | "panfs" | "glusterfs" | "fuse.glusterfs" | "fuse.ceph" => {
            said(topic, about, kind, "locks reach all hosts")
        }
        "afs" => warning(
            "is on afs: cron has no token, and a call without one can write nothing".to_owned(),
            "keep the state on a file system that needs no token",
        ),
        "cifs" | "smb3" | "9p" | "vboxsf" | "fuse.sshfs" | "fuse.rclone" | "fuse.s3fs"
        | "fuse.gcsfuse" | "fuse.davfs" | "davfs" => warning(
            format!(
                "is on {kind}, which promises little of what a state needs: hard links, atomic replacement, syncing"
            ),
            "keep the state on a local disk or a cluster file system (NFS, Lustre, GPFS, BeeGFS)",
        ),
        _ => Vec::new(),
    }
}

fn said(topic: &'static str, about: &str, kind: &str, what: &str) -> Vec<Finding> {
    vec![Finding::ok(topic, about, format!("is on {kind}: {what}"))]
}

/// Blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => tail.get(3..).unwrap_or_default(),
            None => tail,
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Level;
    use super::*;

    const TABLE: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        30 27 0:40 / /home rw,noatime shared:1 master:2 - nfs4 srv:/home rw,vers=4.2,hard,local_lock=none\n\
        31 30 0:41 / /home/a\\040b ro - nfs srv:/x rw,nolock\n\
        32 27 0:42 / /tmp rw - tmpfs tmpfs rw\n\
        33 32 0:43 / /tmp rw - ext4 /dev/vdb rw\nno mount\n";

    #[test]
    fn the_mount_of_a_path_is_the_longest_and_last() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 5);
        let kind = |path: &str| of(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(kind("/var/x"), Some("ext4"));
        assert_eq!(kind("/home/study"), Some("nfs4"));
        assert_eq!(kind("/homes"), Some("ext4"));
        assert_eq!(kind("/home/a b/state"), Some("nfs"));
        assert_eq!(of(&mounts, Path::new("/tmp/x")), mounts.get(4));
        assert_eq!(of(&[], Path::new("/")), None);
        assert!(mounts[2].options.contains(&"nolock".to_owned()));
        assert!(mounts[2].options.contains(&"ro".to_owned()));
    }

    fn level(kind: &str, options: &str, purpose: Use, leaves_host: bool) -> Option<Level> {
        let mount = Mount {
            point: "/".into(),
            kind: kind.to_owned(),
            options: options.split(',').map(str::to_owned).collect(),
        };
        let findings = judge("lock", purpose, Path::new("/x"), &mount, leaves_host);
        assert!(findings.len() < 2);
        let finding = findings.first()?;
        assert_eq!(finding.advice.is_none(), finding.level == Level::Ok);
        Some(finding.level)
    }

    #[test]
    fn each_kind_of_file_system_has_its_meaning() {
        use Level::{Error, Ok, Warning};
        for (kind, options, state, log, data) in [
            ("ext4", "rw", None, None, None),
            ("xfs", "rw", None, None, None),
            ("ext4", "ro", Some(Error), Some(Error), None),
            ("tmpfs", "rw", Some(Warning), Some(Warning), Some(Warning)),
            ("overlay", "rw", Some(Warning), None, None),
            ("nfs4", "rw,hard,local_lock=none", Some(Ok), None, None),
            ("nfs", "rw,nolock", Some(Warning), None, None),
            ("nfs4", "ro,hard", Some(Error), Some(Error), None),
            ("nfs", "rw,local_lock=flock", Some(Warning), None, None),
            ("nfs4", "rw,local_lock=all", Some(Warning), None, None),
            ("nfs", "rw,soft", Some(Warning), None, None),
            ("lustre", "rw,flock", Some(Ok), None, None),
            ("lustre", "rw,localflock", Some(Warning), None, None),
            ("lustre", "rw,noflock", Some(Warning), None, None),
            ("lustre", "rw", Some(Warning), None, None),
            ("beegfs", "rw", Some(Ok), None, None),
            ("gpfs", "rw", Some(Ok), None, None),
            ("afs", "rw", Some(Warning), None, None),
            ("cifs", "rw", Some(Warning), None, None),
            ("fuse.sshfs", "rw", Some(Warning), None, None),
        ] {
            assert_eq!(
                level(kind, options, Use::State, true),
                state,
                "{kind} {options}"
            );
            assert_eq!(
                level(kind, options, Use::Log, true),
                log,
                "{kind} {options}"
            );
            assert_eq!(
                level(kind, options, Use::Data, true),
                data,
                "{kind} {options}"
            );
        }
        // Jobs of the local executor see what this host sees.
        assert_eq!(level("tmpfs", "rw", Use::Data, false), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mounts = parse(&text);
            let _ = of(&mounts, Path::new("/a"));
        }

        #[test]
        fn any_point_comes_back(name in "[a-z \\t\\\\#]{1,20}") {
            let escaped: String = name.bytes().map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}"),
                other => char::from(other).to_string(),
            }).collect();
            let line = format!("1 2 3:4 / /{escaped} rw - ext4 x rw");
            let expected = PathBuf::from(format!("/{name}"));
            prop_assert_eq!(&parse(line.as_bytes())[0].point, &expected);
        }
    }
}
