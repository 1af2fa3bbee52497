//! The native core: what a text or a look-up runs through a thousand times a second, and nothing else.
//!
//! * [`batches`]: log records, to batches of entries.
//! * [`decode`]: the bytes of a record to the fields of an article.
//! * [`text`]: the steps before a text's words are read.
//! * [`segment`]: runs of ideographs to words.
//! * [`features`]: words, characters and pairs of a text, how often each occurs, and what it weighs.
//! * [`signature`]: sums, margins, sketch and form.
//! * [`reader`]: the order of these: what an entry has of a text, and what that is made from.
//! * [`settings`]: what a scheme says of them.
//! * [`entries`]: source records, to what log entries have of them: decoding, the text of HTML, reading.
//! * [`lines`]: lines of files: the record in each, and the record with its verdict.
//! * [`panics`]: what a panic in the way of a record does to it, and to no other.
//! * [`postings`]: the block tables. Which posting lists an article looks up, where they lie, and what is near it.
//!
//! `tables` embeds the tables that the build makes; the block tables are in [`postings`].
//!
//! `python` alone knows Python. There is no Kafka here, no file, no `RocksDB`, no configuration and no
//! clock, and no thread is started.

pub mod batches;
pub mod decode;
pub mod entries;
pub mod features;
pub mod lines;
pub mod panics;
pub mod postings;
pub mod reader;
pub mod segment;
pub mod settings;
pub mod signature;
mod tables;
pub mod text;

#[cfg(feature = "python")]
mod python;
