//! Our key-value pairs in a Parquet file's metadata. Pure.

use std::collections::BTreeMap;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::{FORMAT_VERSION, ReadError};
use crate::model::state::table::Metadata;

/// Keys of the file's metadata. All begin with [`PREFIX`].
const PREFIX: &str = "snbb.";
pub(super) const VERSION: &str = "snbb.format_version";
pub(super) const GENERATION: &str = "snbb.generation";
pub(super) const PROJECT: &str = "snbb.project";
pub(super) const OWNER: &str = "snbb.owner_uid";
pub(super) const CLUSTER: &str = "snbb.cluster";
pub(super) const PATH: &str = "snbb.path";
pub(super) const BASELINES: &str = "snbb.baselines";
pub(super) const BEGUN_ANEW: &str = "snbb.begun_anew";
pub(super) const HASH: &str = "snbb.hash";

pub(super) fn own_keys(metadata: Option<&Vec<KeyValue>>) -> BTreeMap<String, String> {
    metadata
        .into_iter()
        .flatten()
        .filter(|pair| pair.key.starts_with(PREFIX))
        .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()))
        .collect()
}

/// The pairs to write, without the hash.
pub(super) fn pairs_of(meta: &Metadata) -> Result<Vec<(String, String)>, ParquetError> {
    let baselines = serde_json::to_string(&meta.baselines)
        .map_err(|error| ParquetError::External(Box::new(error)))?;
    let pair = |key: &str, value: String| (key.to_owned(), value);
    let mut pairs = vec![
        pair(VERSION, FORMAT_VERSION.to_string()),
        pair(GENERATION, meta.generation.to_string()),
        pair(BASELINES, baselines),
    ];
    for (key, value) in [
        (PROJECT, &meta.project),
        (CLUSTER, &meta.cluster),
        (PATH, &meta.path),
    ] {
        pairs.extend(value.iter().map(|value| pair(key, value.clone())));
    }
    pairs.extend(meta.owner_uid.map(|uid| pair(OWNER, uid.to_string())));
    pairs.extend(meta.begun_anew.map(|at| pair(BEGUN_ANEW, at.to_string())));
    Ok(pairs)
}

pub(super) fn parse_metadata(keys: &BTreeMap<String, String>) -> Result<Metadata, ReadError> {
    let bad =
        |key: &str, value: &str| ReadError::Damaged(format!("its metadata has {key} = '{value}'"));
    let number = |key: &str| match keys.get(key) {
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| bad(key, text)),
        None => Ok(None),
    };
    let small = |key: &str| match number(key)? {
        Some(value) => u32::try_from(value)
            .map(Some)
            .map_err(|_| bad(key, &value.to_string())),
        None => Ok(None),
    };
    let baselines: BTreeMap<String, u64> = match keys.get(BASELINES) {
        Some(text) => serde_json::from_str(text).map_err(|_| bad(BASELINES, text))?,
        None => BTreeMap::new(),
    };
    Ok(Metadata {
        format_version: small(VERSION)?.ok_or_else(|| bad(VERSION, ""))?,
        generation: number(GENERATION)?.ok_or_else(|| bad(GENERATION, ""))?,
        project: keys.get(PROJECT).cloned(),
        owner_uid: small(OWNER)?,
        cluster: keys.get(CLUSTER).cloned(),
        path: keys.get(PATH).cloned(),
        baselines,
        begun_anew: number(BEGUN_ANEW)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of a file with version and generation 1.
    fn parsed(pairs: &[(&str, &str)]) -> Result<Metadata, ReadError> {
        let all = [(VERSION, "1"), (GENERATION, "1")];
        let all = all.iter().chain(pairs);
        parse_metadata(
            &all.map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn attack_a_state_remembers_its_cluster_and_its_path() {
        let meta = parsed(&[(CLUSTER, "alpha"), (PATH, "/data/state.parquet")]).unwrap();
        assert_eq!(meta.cluster.as_deref(), Some("alpha"));
        assert_eq!(meta.path.as_deref(), Some("/data/state.parquet"));
        let pairs: BTreeMap<String, String> = pairs_of(&meta).unwrap().into_iter().collect();
        assert_eq!(parse_metadata(&pairs).unwrap(), meta);
        let before = parsed(&[]).unwrap();
        assert_eq!((before.cluster, before.path), (None, None));
    }

    #[test]
    fn a_state_that_was_started_anew_is_marked() {
        let counts = (BASELINES, r#"{"sessions":4}"#);
        let meta = parsed(&[counts, (BEGUN_ANEW, "1700000000")]).unwrap();
        assert_eq!(meta.begun_anew, Some(1_700_000_000));
        assert_eq!(meta.baselines, [("sessions".to_owned(), 4)].into());
        let pairs: BTreeMap<String, String> = pairs_of(&meta).unwrap().into_iter().collect();
        assert_eq!(parse_metadata(&pairs).unwrap(), meta);

        assert_eq!(parsed(&[]).unwrap().begun_anew, None);
        assert!(parsed(&[(BEGUN_ANEW, "yesterday")]).is_err());
    }
}
