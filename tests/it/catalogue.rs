//! The catalogue of procedures: entries that load, scripts that leave what the entries look for, pages that tell the truth.

mod description;
mod entries;
mod outputs;
mod pages;
mod pipeline;
mod real;
mod recipes;
mod site;
