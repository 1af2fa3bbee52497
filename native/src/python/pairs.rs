//! Plans of look-ups, and what the rules of a log make of articles, and of pairs of an article and an entry: arrays in,
//! bytes out.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::values::{Array, bytes_of};
use super::work;
use crate::postings::chunk::Blocks;
use crate::postings::near::{self, Limits, Pair, SKETCH_WORDS, Sieve, WORDS};
use crate::postings::plan::{BLOCKS_PER_WORD, MARGINS, Planner, Shape};
use crate::postings::tables::MOST_TABLES;

#[pyfunction]
#[pyo3(signature = (margins, lookups, *, tables, block_bits, mask_bits, costs))]
pub fn plans(
    py: Python<'_>,
    margins: Array<u8>,
    lookups: usize,
    tables: usize,
    block_bits: usize,
    mask_bits: usize,
    costs: [u32; MARGINS],
) -> PyResult<Vec<u8>> {
    let shape = Shape { tables, block_bits, mask_bits, costs };
    if !(1..=16).contains(&tables) || !(16..=24).contains(&block_bits) || mask_bits > 4 || costs[MARGINS - 1] > 4096 {
        return Err(PyValueError::new_err(format!("no plan has the shape {shape:?}")));
    }
    if !(1..=shape.lookups()).contains(&lookups) {
        let message = format!("{lookups} look-ups: directed search takes 1 to {}", shape.lookups());
        return Err(PyValueError::new_err(message));
    }
    let margins = margins.whole(shape.margin_bytes(), "margins")?;
    work(py, || {
        let mut planner = Planner::new(shape);
        let mut made = vec![0; margins.len() / shape.margin_bytes() * lookups];
        for (margins, plan) in margins.chunks_exact(shape.margin_bytes()).zip(made.chunks_exact_mut(lookups)) {
            planner.plan(margins, plan);
        }
        bytes_of(made.into_iter().map(u32::to_le_bytes))
    })
}

/// Words of signatures and of sketches.
type GivenTexts = (Array<u64>, Array<u64>);
/// Counts and answers of the sieve, and places in the plan, of pairs.
type Meetings = (Vec<u8>, Vec<u8>, Vec<u8>);

#[pyclass(frozen, module = "_native", name = "Limits")]
pub struct PyLimits(pub Arc<Limits>);

#[pymethods]
impl PyLimits {
    #[new]
    fn new(rules: Limits) -> PyResult<Self> {
        let of = rules.scheme;
        let are_blocks = (1..=MOST_TABLES).contains(&of.tables) && [16, 20, 24].contains(&of.block_bits);
        if !are_blocks || of.sketch_bytes > 8 * SKETCH_WORDS || of.form_bytes > of.sketch_bytes.min(8) {
            return Err(PyValueError::new_err(format!("no entries have the widths {of:?}")));
        }
        Ok(Self(Arc::new(rules)))
    }

    fn dominated(&self, py: Python<'_>, statuses: Array<u8>, margins: Array<u8>) -> PyResult<Vec<u8>> {
        let each = self.0.scheme.margin_bytes();
        let margins = margins.sized(statuses.len(), each, "margins")?;
        let articles = statuses.iter().zip(margins.chunks_exact(each));
        work(py, || articles.map(|(status, margins)| self.0.dominated(*status, margins)).collect())
    }

    fn masks(&self, py: Python<'_>, margins: Array<u8>) -> PyResult<Vec<u8>> {
        let margins = margins.whole(self.0.scheme.margin_bytes(), "margins")?;
        let masks = margins.chunks_exact(self.0.scheme.margin_bytes()).flat_map(|margins| self.0.masks(margins));
        work(py, || bytes_of(masks.flatten().map(u64::to_le_bytes)))
    }

    #[pyo3(signature = (statuses, dominated, articles, entries, reach = None))]
    fn accounts(
        &self,
        py: Python<'_>,
        statuses: Array<u8>,
        dominated: Array<u8>,
        articles: GivenTexts,
        entries: GivenTexts,
        reach: Option<i32>,
    ) -> PyResult<Vec<u8>> {
        let count = entries.0.len() / WORDS;
        let each = paired(statuses.len(), count)?;
        let dominated = dominated.each(statuses.len(), "dominated")?;
        let articles = Texts::of(articles, statuses.len(), &self.0)?;
        let entries = Texts::of(entries, count, &self.0)?;
        let account = |pair: usize| {
            let article = pair * each;
            let mut demand = self.0.demand(statuses[article], dominated[article]);
            demand.reach = reach.unwrap_or(demand.reach);
            Pair { article: articles.at(article), entry: entries.at(pair), demand, limits: &self.0 }.account()
        };
        work(py, || bytes_of((0..count).map(account)))
    }

    fn distances(&self, py: Python<'_>, words: Array<u64>, others: Array<u64>) -> PyResult<Vec<u8>> {
        let (words, others) = (words.whole(WORDS, "words")?, others.whole(WORDS, "others")?);
        work(py, || {
            let mut made = vec![[0; 2]; words.len() / WORDS * (others.len() / WORDS)];
            near::write_distances(self.0.directed, &words, &others, &mut made);
            made.into_flattened()
        })
    }

    #[expect(clippy::too_many_arguments, reason = "columns of the pairs")]
    fn meetings(
        &self,
        py: Python<'_>,
        statuses: Array<u8>,
        keys: Array<u64>,
        masks: Array<u64>,
        others: Array<u64>,
        plan: Array<u32>,
        lookups: usize,
    ) -> PyResult<Meetings> {
        let articles = statuses.len();
        let key_words = (keys.len() / articles.max(1)).clamp(1, WORDS);
        let keys = keys.sized(articles, key_words, "keys")?;
        let masks = masks.sized(articles, 2 * key_words, "masks")?;
        let others = others.whole(key_words, "others")?;
        let each = paired(articles, others.len() / key_words)?;
        if plan.len() != lookups && plan.len() != lookups * articles {
            return Err(PyValueError::new_err(format!(
                "{} look-ups, {lookups} each, for {articles} articles",
                plan.len()
            )));
        }
        work(py, || {
            let (mut counts, mut passed, mut places) = (Vec::new(), Vec::new(), Vec::new());
            let places_of = |plan: &[u32]| plan.iter().copied().zip(0..).collect::<HashMap<_, i32>>();
            let mut planned = places_of(plan.get(..lookups).unwrap_or_default());
            for (at, entry) in others.chunks_exact(key_words).enumerate() {
                let article = at * each;
                if article > 0 && plan.len() > lookups {
                    planned = places_of(&plan[article * lookups..][..lookups]);
                }
                let most = self.0.sieve(self.0.demand(statuses[article], 0));
                let masks = masks[2 * article * key_words..].chunks_exact(2);
                let article = &keys[article * key_words..][..key_words];
                for ((one, other), masks) in article.iter().zip(entry).zip(masks) {
                    let sieve = Sieve { sure: [masks[0], masks[1]], most };
                    let count = sieve.count(*one, *other);
                    counts.push(count as u8);
                    passed.push(u8::from(sieve.passes(count)));
                }
                let tables = if lookups == 0 { 0 } else { key_words * BLOCKS_PER_WORD };
                places.extend((0..tables as u8).map(|table| {
                    let blocks = Blocks { table, bits: self.0.scheme.block_bits };
                    let mask = blocks.of(article[blocks.word()]) ^ blocks.of(entry[blocks.word()]);
                    planned.get(&(u32::from(table) << blocks.bits | mask)).copied().unwrap_or(i32::MAX)
                }));
            }
            (counts, passed, bytes_of(places.into_iter().map(i32::to_le_bytes)))
        })
    }
}

/// Signatures and sketches, a row for each text.
struct Texts {
    words: Vec<u64>,
    sketches: Vec<u64>,
    sketch_words: usize,
}

impl Texts {
    fn of((words, sketches): GivenTexts, count: usize, limits: &Limits) -> PyResult<Self> {
        let (words, sketch_words) = (words.sized(count, WORDS, "words")?, limits.sketch_words());
        Ok(Self { words, sketches: sketches.sized(count, sketch_words, "sketches")?, sketch_words })
    }

    fn at(&self, row: usize) -> (&[u64], &[u64]) {
        (&self.words[row * WORDS..][..WORDS], &self.sketches[row * self.sketch_words..][..self.sketch_words])
    }
}

/// How many articles further the next of so many entries is compared: 1 where there is one for each, 0 where all are
/// compared with one.
fn paired(articles: usize, entries: usize) -> PyResult<usize> {
    if articles != 1 && articles != entries {
        return Err(PyValueError::new_err(format!("{articles} articles beside {entries} entries")));
    }
    Ok(usize::from(articles > 1))
}
