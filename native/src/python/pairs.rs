//! Plans of look-ups, and what the sieve and the check make of pairs of an article and an entry: arrays in, bytes out.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::values::{Array, bytes_of};
use super::work;
use crate::postings::chunk::Blocks;
use crate::postings::near::{self, Demand, Limits, Pair, SKETCH_WORDS, Sieve, WORDS};
use crate::postings::plan::{self, BLOCKS_PER_WORD, MARGINS, Planner, Shape};

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

#[pyfunction]
pub fn surest(py: Python<'_>, margins: Array<u8>, counts: Vec<usize>) -> PyResult<Vec<u8>> {
    let margins = margins.whole(plan::WORD_BITS / 2, "margins")?;
    work(py, || {
        let of_word = |word| counts.iter().flat_map(move |&count| plan::surest(word, count));
        let masks = margins.chunks_exact(plan::WORD_BITS / 2).flat_map(of_word);
        bytes_of(masks.map(u64::to_le_bytes))
    })
}

#[pyfunction]
#[pyo3(signature = (words, others, *, directed, reach, sketches, other_sketches, sketch_words, least_equal, far_equal,
    dominated, form_words, form_limit, certain, far))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub fn accounts(
    py: Python<'_>,
    words: Array<u64>,
    others: Array<u64>,
    directed: bool,
    reach: Array<i64>,
    sketches: Array<u64>,
    other_sketches: Array<u64>,
    sketch_words: usize,
    least_equal: Array<i64>,
    far_equal: Array<i64>,
    dominated: Array<u8>,
    form_words: usize,
    form_limit: i32,
    certain: i32,
    far: i32,
) -> PyResult<Vec<u8>> {
    let (articles, pairs) = (words.len() / WORDS, others.len() / WORDS);
    let words = words.fixed::<WORDS>(paired(articles, pairs)?, "words")?;
    let others = others.fixed::<WORDS>(pairs, "others")?;
    let (reach, least_equal) = (reach.each(articles, "reach")?, least_equal.each(articles, "least_equal")?);
    let (far_equal, dominated) = (far_equal.each(articles, "far_equal")?, dominated.each(articles, "dominated")?);
    if (sketches.len(), other_sketches.len()) != (articles * sketch_words, pairs * sketch_words)
        || sketch_words > SKETCH_WORDS
        || form_words > sketch_words.min(1)
    {
        let (mine, theirs) = (sketches.len(), other_sketches.len());
        let message = format!("{mine} and {theirs} words of sketches, {sketch_words} each, {form_words} of a form");
        return Err(PyValueError::new_err(message));
    }
    let limits = Limits {
        directed,
        compares: directed && sketch_words > 0,
        value_words: sketch_words - form_words,
        has_form: form_words > 0,
        certain,
        far,
        form_limit,
    };
    let account = |pair: usize| {
        let article = if articles == 1 { 0 } else { pair };
        let pair = Pair {
            article: (&words[article], &sketches[article * sketch_words..][..sketch_words]),
            entry: (&others[pair], &other_sketches[pair * sketch_words..][..sketch_words]),
            demand: Demand {
                reach: reach[article] as i32,
                least_equal: least_equal[article] as i32,
                far_equal: far_equal[article] as i32,
                dominated: dominated[article],
            },
            limits: &limits,
        };
        pair.account()
    };
    work(py, || bytes_of((0..pairs).map(account)))
}

#[pyfunction]
#[pyo3(signature = (words, others, *, directed))]
pub fn distances(py: Python<'_>, words: Array<u64>, others: Array<u64>, directed: bool) -> PyResult<Vec<u8>> {
    let (words, others) = (words.whole(WORDS, "words")?, others.whole(WORDS, "others")?);
    work(py, || {
        let mut made = vec![[0; 2]; words.len() / WORDS * (others.len() / WORDS)];
        near::write_distances(directed, &words, &others, &mut made);
        made.into_flattened()
    })
}

/// Counts and answers of the sieve, and places in the plan, of pairs.
type Meetings = (Vec<u8>, Vec<u8>, Vec<u8>);

#[pyfunction]
#[pyo3(signature = (keys, others, *, key_words, sure, most, plan, lookups, block_bits))]
#[expect(clippy::too_many_arguments, reason = "by name")]
pub fn meetings(
    py: Python<'_>,
    keys: Array<u64>,
    others: Array<u64>,
    key_words: usize,
    sure: Array<u64>,
    most: Array<i64>,
    plan: Array<u32>,
    lookups: usize,
    block_bits: u8,
) -> PyResult<Meetings> {
    if !(1..=WORDS).contains(&key_words) || !(16..=24).contains(&block_bits) {
        return Err(PyValueError::new_err(format!("{key_words} key words, blocks of {block_bits} bits")));
    }
    let (keys, others) = (keys.whole(key_words, "keys")?, others.whole(key_words, "others")?);
    let articles = paired(keys.len() / key_words, others.len() / key_words)?;
    let most = most.each(articles, "most")?;
    if sure.len() != 2 * keys.len() || (plan.len() != lookups && plan.len() != lookups * articles) {
        let (masks, plan) = (sure.len(), plan.len());
        let message = format!("{masks} masks and {plan} look-ups, {lookups} each, for {articles} articles");
        return Err(PyValueError::new_err(message));
    }
    work(py, || {
        let (mut counts, mut passed, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let places_of = |plan: &[u32]| plan.iter().copied().zip(0..).collect::<HashMap<_, i32>>();
        let mut planned = places_of(plan.get(..lookups).unwrap_or_default());
        for (at, entry) in others.chunks_exact(key_words).enumerate() {
            let article = if articles == 1 { 0 } else { at };
            if article > 0 && plan.len() > lookups {
                planned = places_of(&plan[article * lookups..][..lookups]);
            }
            let sieves: [Sieve; WORDS] = std::array::from_fn(|word| {
                let masks = &sure[2 * (article * key_words + word.min(key_words - 1))..];
                Sieve { sure: [masks[0], masks[1]], most: most[article] as u64 }
            });
            let article = &keys[article * key_words..][..key_words];
            for (sieve, (one, other)) in sieves.iter().zip(article.iter().zip(entry)) {
                let count = sieve.count(*one, *other);
                counts.push(count as u8);
                passed.push(u8::from(sieve.passes(count)));
            }
            let tables = if lookups == 0 { 0 } else { key_words * BLOCKS_PER_WORD };
            places.extend((0..tables as u8).map(|table| {
                let blocks = Blocks { table, bits: block_bits };
                let mask = blocks.of(article[blocks.word()]) ^ blocks.of(entry[blocks.word()]);
                planned.get(&(u32::from(table) << block_bits | mask)).copied().unwrap_or(i32::MAX)
            }));
        }
        (counts, passed, bytes_of(places.into_iter().map(i32::to_le_bytes)))
    })
}

/// The number of articles that are compared with so many entries: one for each, or one for all of them.
fn paired(articles: usize, entries: usize) -> PyResult<usize> {
    if articles != 1 && articles != entries {
        return Err(PyValueError::new_err(format!("{articles} articles beside {entries} entries")));
    }
    Ok(articles)
}
