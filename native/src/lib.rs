//! The native core: what a text or a look-up runs through a thousand times a second, and nothing else.
//!
//! * [`entry`]: the bytes of log records.
//! * [`decode`]: the bytes of a record to the fields of an article.
//! * [`settings`]: what a scheme says.
//! * [`text`]: the steps before a text's words are read.
//! * [`postings`]: the block tables. Which posting lists an article looks up, where they lie, and what is near it.
//!
//! `python` is the only file that knows Python. There is no Kafka here, no file, no `RocksDB`, no configuration and no
//! clock, and no thread is started.

pub mod decode;
pub mod entry;
pub mod postings;
pub mod settings;
pub mod text;

#[cfg(feature = "python")]
mod python;
