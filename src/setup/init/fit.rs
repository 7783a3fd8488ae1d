//! Which apps of the catalogue can work on the data that is there. Pure.

use super::entry::facts;
use super::look::Data;
use crate::setup::catalogue::App;

/// Says why an app would never have anything to do; none if it fits, or if nothing is known.
pub fn obstacle(app: &App, data: &Data) -> Option<String> {
    let needed = facts(app).map_or(1, |facts| facts.min_sessions);
    if data.sessions > 0 && (data.most_sessions as u64) < needed {
        return Some(format!("no subject has {needed} sessions"));
    }
    if data.looked_at == 0 {
        return None;
    }
    let missing = app
        .reads
        .iter()
        .find(|group| !group.iter().any(|kind| data.datatypes.contains_key(*kind)))?;
    let among = match data.looked_at {
        count if count == data.sessions => "no session has".to_owned(),
        count => format!("none of {count} sessions looked at has"),
    };
    Some(format!("{among} {}", missing.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::catalogue;

    fn named(name: &str) -> App {
        *catalogue::app(name).unwrap()
    }

    #[test]
    fn apps_whose_data_is_missing_are_left_out() {
        let data = Data {
            subjects: 2,
            sessions: 2,
            most_sessions: 1,
            looked_at: 2,
            datatypes: [("anat".to_owned(), 2)].into(),
            ..Data::default()
        };
        assert_eq!(obstacle(&named("mriqc"), &data), None);
        assert_eq!(obstacle(&named("dcm2niix"), &data), None);
        let told = |name, data: &Data| obstacle(&named(name), data).unwrap();
        assert_eq!(told("fmriprep", &data), "no session has func");
        assert_eq!(told("xcp_d", &data), "no session has func");
        let sample = Data {
            sessions: 300,
            ..data.clone()
        };
        assert_eq!(
            told("qsiprep", &sample),
            "none of 2 sessions looked at has dwi"
        );
        let unknown = Data {
            looked_at: 0,
            ..data
        };
        assert_eq!(obstacle(&named("qsiprep"), &unknown), None);
    }
}
