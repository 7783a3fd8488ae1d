//! The audit: one report about a whole study, for people who look after it.
//!
//! [`collect`] gathers, the small modules beside it compute (pure), [`report`] holds the result, and
//! [`text`] and [`html`] show it. Reads only: nothing is written below this module.

pub mod efficiency;
pub mod health;
pub mod html;
pub mod patterns;
pub mod progress;
pub mod report;
pub(crate) mod testing;
pub mod trend;
