//! The partitions and accounts that a user can choose from in `init`. Not for decisions about jobs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{self, Commands, is_without_accounting};

/// Longer would be too long for a list of choices.
const LIMIT: Duration = Duration::from_secs(10);

/// The choices. Empty where a query failed, for the reason in `problems`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// The directory of sbatch; `None` without Slurm.
    pub bin_dir: Option<PathBuf>,
    /// True if Slurm's commands are installed, but no cluster is configured.
    pub has_no_cluster: bool,
    pub partitions: Vec<Partition>,
    /// Accounts that the user may use.
    pub accounts: Vec<String>,
    pub default_account: Option<String>,
    /// True if sacct is missing or reports that accounting is disabled.
    pub has_no_accounting: bool,
    /// One sentence each.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub is_default: bool,
    /// Accepts jobs.
    pub is_up: bool,
    /// As Slurm writes it: `1-00:00:00`, `infinite`.
    pub time_limit: String,
}

/// Asks Slurm. `env` is the environment of the calling process, `user` a name.
pub fn ask(env: Vec<(OsString, OsString)>, user: &str) -> Offers {
    let commands = Commands::new(None, env);
    let Ok(sbatch) = commands.find("sbatch") else {
        return Offers::default();
    };
    let mut offers = Offers {
        bin_dir: sbatch.parent().map(PathBuf::from),
        ..Offers::default()
    };
    let arguments = ["--all", "--noheader", "--format=%P|%a|%l"];
    match answer(&commands, "sinfo", &arguments) {
        Ok(text) => offers.partitions = partitions(&text),
        // If sinfo fails, the other queries probably fail too.
        Err(problem) => {
            offers.has_no_cluster = is_without_cluster(&problem);
            offers.problems.push(problem);
            return offers;
        }
    }
    let who = format!("user={user}");
    let arguments = [
        "--noheader",
        "--parsable2",
        "--readonly",
        "show",
        "user",
        "withassoc",
        &who,
        "format=user,defaultaccount,account",
    ];
    match answer(&commands, "sacctmgr", &arguments) {
        Ok(text) => (offers.default_account, offers.accounts) = accounts(&text),
        // There are no accounts without a database.
        Err(problem) if problem.contains("accounting_storage") => {}
        Err(problem) => offers.problems.push(problem),
    }
    offers.has_no_accounting = commands.find("sacct").is_err()
        || answer(&commands, "sacct", &["-X", "-n", "--jobs=1"])
            .is_err_and(|problem| is_without_accounting(&problem));
    offers
}

/// True for messages of Slurm's commands (20.11 to 25.05) if `slurm.conf` is neither a file nor provided by a server.
fn is_without_cluster(problem: &str) -> bool {
    ["configuration source", "configuration file", "slurm.conf"]
        .iter()
        .any(|part| problem.contains(part))
}

fn answer(commands: &Commands, program: &str, arguments: &[&str]) -> Result<String, String> {
    let ended = commands.query(program, arguments, LIMIT);
    let ended = ended.map_err(|error| error.to_string())?;
    command::answer(program, ended)
}

/// Reads lines `name*|up|1-00:00:00`. A partition has a line per limit and state.
fn partitions(text: &str) -> Vec<Partition> {
    let mut found: Vec<Partition> = Vec::new();
    for line in text.lines() {
        let mut fields = line.trim().split('|');
        let (Some(name), Some(state)) = (fields.next(), fields.next()) else {
            continue;
        };
        let plain = name.strip_suffix('*').unwrap_or(name);
        if plain.is_empty() || found.iter().any(|known| known.name == plain) {
            continue;
        }
        found.push(Partition {
            name: plain.to_owned(),
            is_default: name.ends_with('*'),
            is_up: state == "up",
            time_limit: fields.next().unwrap_or_default().to_owned(),
        });
    }
    found
}

/// Reads lines `user|default account|account`.
fn accounts(text: &str) -> (Option<String>, Vec<String>) {
    let mut default = None;
    let mut accounts: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut fields = line.trim().split('|').skip(1).map(str::trim);
        let first = fields.next().filter(|name| !name.is_empty());
        default = default.or(first.map(str::to_owned));
        let account = fields.next().filter(|name| !name.is_empty());
        if let Some(account) = account
            && !accounts.iter().any(|known| known == account)
        {
            accounts.push(account.to_owned());
        }
    }
    accounts.sort_unstable();
    (default, accounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_read_once_each() {
        let text =
            "debug*|up|1:00:00\nlong|up|7-00:00:00\nlong|up|7-00:00:00\nold|inact|infinite\n\n|\nx";
        let found: Vec<String> = partitions(text)
            .iter()
            .map(|p| format!("{} {} {} {}", p.name, p.is_default, p.is_up, p.time_limit))
            .collect();
        assert_eq!(
            found,
            [
                "debug true true 1:00:00",
                "long false true 7-00:00:00",
                "old false false infinite"
            ]
        );
    }

    #[test]
    fn accounts_are_read_with_the_default_one() {
        assert_eq!(accounts(""), (None, Vec::new()));
        let text = "anna|imaging|teaching\nanna|imaging|imaging\nanna|imaging|imaging\n";
        let expected = vec!["imaging".to_owned(), "teaching".to_owned()];
        assert_eq!(accounts(text), (Some("imaging".to_owned()), expected));
        assert_eq!(accounts("root||\n"), (None, Vec::new()));
    }
}
