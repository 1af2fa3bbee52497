//! The block tables: which posting lists an article looks up, where they lie, and which of their entries are near it.
//!
//! * [`plan`]: the look-ups of an article.
//! * [`unfolded`], [`chunk`], [`run`], [`merge`]: the entries of a table, sorted, before they are stored and after it.
//! * [`rows`]: what the check needs of an entry.
//! * [`cache`]: the chunks that are in memory, within one budget.
//! * [`tables`]: all tables and rows of an index: folds and merges.
//! * [`near`], [`search`]: what near means, and the search for the nearest entries.
//!
//! Storage is a trait ([`chunk::Storage`]): a chunk that is not in memory is read where it is needed. So where a chunk lies
//! never changes an answer.

pub mod cache;
pub mod chunk;
pub mod merge;
pub mod near;
pub mod plan;
pub mod rows;
pub mod run;
pub mod search;
pub mod tables;
pub mod unfolded;
