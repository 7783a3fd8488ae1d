//! The audit: one report about a whole study, for people who look after it.
//!
//! [`collect`] gathers, the small modules beside it compute (pure), [`report`] holds the result, and
//! [`text`] and [`html`] show it. Reads only: nothing is written below this module.

pub mod html;
pub mod report;
