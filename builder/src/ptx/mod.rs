//! PTX as text: its top-level items, what kernels say in comments, and the directives that rustc cannot write.

mod annotate;
mod inlined;
mod labels;
mod module;
mod parameters;
mod scan;

pub(crate) use annotate::annotate;
pub(crate) use inlined::with_places;
pub(crate) use module::{Item, Kind, Module};
pub(crate) use parameters::load_parameters;
pub(crate) use scan::{Findings, Role, scan};
