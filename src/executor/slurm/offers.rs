//! What Slurm has to offer a user: partitions and accounts. For choices, never for decisions about jobs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::command::Commands;
use crate::base::run::End;

/// Nobody waits longer than this for a list of choices.
const LIMIT: Duration = Duration::from_secs(10);

/// Holds what was learnt. What could not be asked is empty, and `problems` says why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// Where sbatch is; none: there is no Slurm here.
    pub bin_dir: Option<PathBuf>,
    /// Its commands are installed, and know no cluster.
    pub has_no_cluster: bool,
    pub partitions: Vec<Partition>,
    /// Accounts that the user may use.
    pub accounts: Vec<String>,
    pub default_account: Option<String>,
    /// There is no sacct, or it says that nothing is recorded.
    pub has_no_accounting: bool,
    /// One sentence each.
    pub problems: Vec<String>,
}

/// Describes a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub is_default: bool,
    /// It takes jobs.
    pub is_up: bool,
    /// As Slurm writes it: `1-00:00:00`, `infinite`.
    pub time_limit: String,
}

/// Asks Slurm. `env`: the environment of the calling process. `user`: by name.
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
        // What does not answer now is not asked again.
        Err(problem) => {
            offers.has_no_cluster = knows_no_cluster(&problem);
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
        // Without a database there are no accounts.
        Err(problem) if problem.contains("accounting_storage") => {}
        Err(problem) => offers.problems.push(problem),
    }
    offers.has_no_accounting = commands.find("sacct").is_err()
        || answer(&commands, "sacct", &["-X", "-n", "--jobs=1"])
            .is_err_and(|problem| is_without_accounting(&problem));
    offers
}

/// True if sacct says that this Slurm keeps no record of ended jobs.
pub fn is_without_accounting(problem: &str) -> bool {
    problem.contains("accounting storage is disabled")
}

/// True for what Slurm's commands say (20.11 to 25.05) where `slurm.conf` is neither there nor to be had from a server.
fn knows_no_cluster(problem: &str) -> bool {
    ["configuration source", "configuration file", "slurm.conf"]
        .iter()
        .any(|words| problem.contains(words))
}

fn answer(commands: &Commands, program: &str, arguments: &[&str]) -> Result<String, String> {
    let ended = commands
        .query(program, arguments, LIMIT)
        .map_err(|error| error.to_string())?;
    let last_words = ended.stderr.trim().lines().next_back().unwrap_or_default();
    match ended.end {
        End::Exit(0) => Ok(ended.stdout),
        End::TimedOut { seconds } => Err(format!("{program} did not answer within {seconds} s")),
        _ => {
            let words = last_words.strip_prefix(&format!("{program}: "));
            Err(format!("{program} failed: {}", words.unwrap_or(last_words)))
        }
    }
}

/// Reads lines `name*|up|1-00:00:00`. A partition has a line for each of its limits and states.
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
        let told: Vec<String> = partitions(text)
            .iter()
            .map(|p| format!("{} {} {} {}", p.name, p.is_default, p.is_up, p.time_limit))
            .collect();
        assert_eq!(
            told,
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
