//! What a task is about: a subject, or one session of it.

use std::path::Path;
use std::sync::Arc;

use crate::model::bids::{Dicom, Session, SessionLabel};

/// Is what a task is about.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Subject,
    Session(&'a Session),
}

impl Target<'_> {
    pub(super) fn label(self) -> SessionLabel {
        match self {
            Self::Subject => SessionLabel::none(),
            Self::Session(session) => session.session.clone(),
        }
    }

    pub(super) fn dicom_path(self) -> Option<Arc<Path>> {
        match self {
            Self::Session(Session {
                dicom: Dicom::At(path),
                ..
            }) => Some(Arc::clone(path)),
            _ => None,
        }
    }
}
