//! Gathers what directories and files show, for the judges beside it.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that looks at the places of a site"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

use super::news::Program;
use super::{outputs, places, roots, scripts};
use crate::base::regular::words;
use crate::executor::script::Script;
use crate::gather::disk::listing::Dir;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::marker::{Component, Pattern, Required};
use crate::model::procedure::{Check, Procedure, Scope};
use crate::setup::init::look::is_writable;

/// Of a large study, so many subjects are looked into for names.
pub const SUBJECTS: usize = 500;
/// So many output directories of a procedure are looked at, if it takes that many.
pub const OUTPUTS: usize = 2000;

/// Looks at a root.
pub fn root(path: &Path) -> roots::Look {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => return roots::Look::NotADirectory,
        Ok(_) => {}
        Err(error) if is_missing(&error) => return roots::Look::Missing,
        Err(error) => return roots::Look::Unreadable(words(&error)),
    }
    match fs::read_dir(path).map(|mut entries| entries.next()) {
        Ok(None) => roots::Look::Empty,
        Ok(Some(Ok(_))) => roots::Look::There,
        Ok(Some(Err(error))) | Err(error) => roots::Look::Unreadable(words(&error)),
    }
}

/// Looks at a directory that the program or its jobs write to.
pub fn place(dir: &Path) -> places::Look {
    match fs::metadata(dir) {
        Ok(metadata) if !metadata.is_dir() => places::Look::NotADirectory,
        Ok(_) if is_writable(dir) => places::Look::Writable,
        Ok(_) => places::Look::Unwritable,
        Err(error) if is_missing(&error) => places::Look::Missing {
            in_writable: is_writable(&existing(dir)),
        },
        Err(error) => places::Look::Unreadable(words(&error)),
    }
}

/// Returns the nearest directory above that is there, or the path itself, with links followed.
pub fn existing(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|dir| dir.canonicalize().ok())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// Returns a path with links followed as far as it is there.
pub fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// Returns the key of the root that a path lies below by another way: a bind mount, or a second mount of the same
/// file system. Told by what stands there, as far as it stands.
pub fn root_behind(path: &Path, roots: &[(&'static str, PathBuf)]) -> Option<&'static str> {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let above: Vec<(u64, u64)> = existing(path).ancestors().filter_map(identity).collect();
    let (key, _) = roots
        .iter()
        .find(|(_, root)| identity(root).is_some_and(|root| above.contains(&root)))?;
    Some(*key)
}

/// Returns the permission bits of a file or directory.
pub fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.permissions().mode() & 0o7777)
}

/// Returns the umask of this process, without changing it. Linux 4.7 and later tell.
pub fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// Returns the table of mounts.
pub fn mounts(file: Option<&Path>) -> Vec<u8> {
    fs::read(file.unwrap_or(Path::new("/proc/self/mountinfo"))).unwrap_or_default()
}

/// Looks whether a file can be executed.
pub fn program(path: &Path) -> Program {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && access(path, Access::EXEC_OK).is_ok() => {
            Program::Executable
        }
        Ok(_) => Program::NotExecutable,
        Err(error) => Program::Missing(words(&error)),
    }
}

/// Tries to reach a server; the error says why not.
pub fn reach(host: &str, port: u16, limit: Duration) -> Result<(), String> {
    let mut last = "its name has no address".to_owned();
    for address in (host, port)
        .to_socket_addrs()
        .map_err(|error| words(&error))?
    {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(_) => return Ok(()),
            Err(error) => last = words(&error),
        }
    }
    Err(last)
}

/// Returns the output directories, or roots, in which this user may make nothing.
pub fn unwritable(root: &Path, output_dirs: &[&Path]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in output_dirs {
        let dir = root.join(dir);
        let at = match fs::metadata(&dir) {
            Ok(_) => dir,
            Err(_) => root.to_owned(),
        };
        if fs::metadata(&at).is_ok() && !is_writable(&at) && !found.contains(&at) {
            found.push(at);
        }
    }
    found
}

/// Looks into a script that was found. `env`: the variables that its jobs will see.
pub fn script(
    facts: &mut scripts::Facts<'_>,
    search_path: Option<&OsStr>,
    env: &dyn Fn(&str) -> Option<String>,
) {
    let Ok(path) = &facts.place else {
        return;
    };
    facts.mode = mode(path);
    let read = Script::read(path);
    facts.byte_order_mark = read.is_err() && begins_with_mark(path);
    if let Ok(script) = &read {
        let (interpreter, started) = scripts::programs(&script.interpreter);
        let is_there = |path: &Path| program(path) == Program::Executable;
        let on_path = |name: &str| {
            let mut dirs = search_path.iter().flat_map(std::env::split_paths);
            name.contains('/') && is_there(Path::new(name))
                || dirs.any(|dir| is_there(&dir.join(name)))
        };
        facts.missing_interpreter = match (interpreter, started) {
            (Some(program), _) if !is_there(Path::new(program)) => Some(program.to_owned()),
            (_, Some(started)) if !on_path(started) => Some(format!("env {started}")),
            _ => None,
        };
        let needs = scripts::needs::needs(&String::from_utf8_lossy(&script.text), env);
        let runtime = needs.runtime.filter(|name| !on_path(name));
        let files = needs.files.iter().filter(|file| !file.path.exists());
        facts.missing = runtime
            .map(|name| format!("{name} (not on PATH)"))
            .into_iter()
            .chain(files.map(|file| format!("{} ({})", file.path.display(), file.variable)))
            .collect();
    }
    if let Ok(script) = &read {
        let helpers = scripts::imports::helpers(path, &script.text);
        let small = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() < 1 << 20)
        };
        let helpers = helpers.into_iter().filter(small);
        facts.helpers = helpers
            .filter_map(|path| Some((path.clone(), fs::read(&path).ok()?)))
            .collect();
    }
    facts.text = Some(read.map(|script| script.text));
}

/// True if this program is in an environment of Python that has its package.
pub fn is_wheel() -> bool {
    let program = std::env::current_exe().unwrap_or_default();
    let lib = program
        .parent()
        .and_then(Path::parent)
        .map(|prefix| prefix.join("lib"));
    let versions = lib.and_then(|lib| fs::read_dir(lib).ok());
    versions.into_iter().flatten().flatten().any(|version| {
        let package = version
            .path()
            .join("site-packages/snbb_scheduler/_program.py");
        package.is_file()
    })
}

fn begins_with_mark(path: &Path) -> bool {
    let mut start = [0; scripts::BYTE_ORDER_MARK.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == scripts::BYTE_ORDER_MARK
}

/// Takes some of a list, evenly spread.
pub fn sample<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let step = items.len().div_ceil(most.max(1)).max(1);
    items.iter().step_by(step)
}

/// Looks for the first directories of a procedure's markers in its outputs. `is_busy`: a job may still write there.
/// None: its markers name no directories.
pub fn outputs(
    reader: &Reader,
    config: &Config,
    procedure: &Procedure,
    found: &Discovery,
    is_busy: &dyn Fn(&SubjectLabel, &SessionLabel) -> bool,
) -> Option<outputs::Facts> {
    let Required::Markers(markers) = &procedure.completion.required else {
        return None;
    };
    let mut open: Vec<&Pattern> = markers
        .iter()
        .filter(|marker| marker.when.is_none())
        .map(|marker| &marker.pattern)
        .filter(|pattern| pattern.components().len() > 1 && first_name(pattern).is_some())
        .collect();
    if procedure.check != Check::Markers || open.is_empty() {
        return None;
    }
    let none = SessionLabel::none();
    let mut tasks: Vec<(&SubjectLabel, &SessionLabel)> = found
        .sessions
        .iter()
        .map(|session| match procedure.scope {
            Scope::Session => (&session.subject, &session.session),
            Scope::Subject => (&session.subject, &none),
        })
        .collect();
    tasks.dedup();
    let chosen: Vec<&(&SubjectLabel, &SessionLabel)> = sample(&tasks, OUTPUTS).collect();
    let mut there = 0;
    for (subject, session) in &chosen {
        if open.is_empty() {
            break;
        }
        if is_busy(subject, session) {
            continue;
        }
        let roots = config.output_roots();
        let dir = roots.output(procedure, subject.as_str(), session.as_str());
        let Dir::There(listing) = reader.dir(&dir) else {
            continue;
        };
        if listing.is_empty() {
            continue;
        }
        there += 1;
        open.retain(|pattern| {
            first_name(pattern).is_some_and(|name| listing.get(OsStr::new(name)).is_none())
        });
    }
    Some(outputs::Facts {
        procedure: procedure.name.to_string(),
        possible: tasks.len(),
        looked_for: chosen.len(),
        // All that there were to find was found early: enough to say so.
        there: if open.is_empty() {
            there.max(outputs::LEAST)
        } else {
            there
        },
        never: open
            .iter()
            .map(|pattern| pattern.as_str().to_owned())
            .collect(),
    })
}

/// Returns the first directory that a pattern names as it stands.
fn first_name(pattern: &Pattern) -> Option<&str> {
    match pattern.components().first()? {
        Component::Literal(name) => Some(name),
        Component::Glob(_) | Component::AnyDepth => None,
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_seen_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        fs::create_dir(at("empty")).unwrap();
        fs::create_dir_all(at("full/sub-01")).unwrap();
        std::os::unix::fs::symlink(at("full"), at("link")).unwrap();
        for (name, expected) in [
            ("file", roots::Look::NotADirectory),
            ("empty", roots::Look::Empty),
            ("full", roots::Look::There),
            ("link", roots::Look::There),
            ("none", roots::Look::Missing),
            ("file/below", roots::Look::Missing),
        ] {
            assert_eq!(root(&at(name)), expected, "{name}");
        }
        for (name, expected) in [
            ("file", places::Look::NotADirectory),
            ("full", places::Look::Writable),
            ("none/deeper", places::Look::Missing { in_writable: true }),
        ] {
            assert_eq!(place(&at(name)), expected, "{name}");
        }
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(&at("none/deeper")), real);
        assert_eq!(resolved(&at("link/none/x")), real.join("full/none/x"));
        assert_eq!(mode(&at("none")), None);
        assert_eq!(program(&at("file")), Program::NotExecutable);
        assert!(matches!(program(&at("none")), Program::Missing(_)));
        assert_eq!(program(Path::new("/bin/sh")), Program::Executable);
        assert_eq!(umask() & !0o777, 0);
        assert!(!mounts(None).is_empty());
    }

    #[test]
    fn a_sample_is_spread_and_never_too_large() {
        for (len, most) in [
            (0, 5),
            (3, 5),
            (5, 5),
            (6, 5),
            (10_000, 500),
            (501, 500),
            (3, 0),
        ] {
            let items: Vec<usize> = (0..len).collect();
            let chosen: Vec<&usize> = sample(&items, most).collect();
            assert!(chosen.len() <= most.max(1), "{len} {most}");
            assert_eq!(chosen.is_empty(), len == 0);
            assert!(len > most || chosen.len() == len || most == 0);
        }
    }

    #[test]
    fn servers_are_reached_or_not() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let limit = Duration::from_secs(5);
        assert_eq!(reach("127.0.0.1", port, limit), Ok(()));
        drop(listener);
        assert!(reach("127.0.0.1", port, limit).is_err());
    }
}
