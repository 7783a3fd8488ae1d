//! The catalogue of procedures for common BIDS apps, from which `init` makes a site's configuration.
//!
//! An app is two files of `slurm_templates/`, delivered inside the program: `<name>.yaml`, the commented entry of
//! `procedures` with the markers, limits and resources that its documentation names, and `<name>.sh`, the job
//! script. Pure data: nothing is read or written here.

/// Describes one app of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct App {
    /// The procedure's name, and that of both files.
    pub name: &'static str,
    /// What it is for, in a line for a list of choices.
    pub about: &'static str,
    /// Where its documentation is; source of the markers and options.
    pub docs: &'static str,
    /// Which other apps of the catalogue must come before it, one of each list (`dcm2niix` or `heudiconv`, ...).
    pub needs: &'static [&'static [&'static str]],
    /// One entry of `procedures`, a YAML list item with comments.
    pub entry: &'static str,
    pub script: &'static str,
}

/// Returns all apps: converters first, then in the order of their names.
pub fn apps() -> &'static [App] {
    &[]
}

/// Returns the app of a name.
pub fn app(name: &str) -> Option<&'static App> {
    apps().iter().find(|app| app.name == name)
}
