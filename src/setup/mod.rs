//! Sets up a study, and checks a site's setup.

pub mod catalogue;
pub mod check;
pub mod init;
pub mod place;
