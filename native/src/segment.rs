//! Cuts runs of ideographs into words as jieba does.
//!
//! The words of a run are those of the most probable route through the dictionary. The logarithm of its probability is the
//! sum of those of its words; of two routes that are equally probable, the one with the longer word is taken. What that
//! leaves as single characters in a row is cut by a hidden Markov model: each character is the begin, end or middle of a
//! word, or a word of one character, and the most probable sequence of these is taken (Viterbi).
//!
//! Numbers are added in jieba's order, so that sums and ties are jieba's to the last bit.

pub mod dictionary;

use std::ops::Range;

use dictionary::{Dictionary, NONE};

/// The states of a character. Of two that are equally probable jieba prefers the later in this order.
const BEGIN: usize = 0;
const END: usize = 1;
const MIDDLE: usize = 2;
const SINGLE: usize = 3;

/// The best way on from a character.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Logarithm of its probability.
    sum: f64,
    /// The end of its first word, and its node.
    end: u32,
    node: u32,
}

/// The scratch memory of one thread.
#[derive(Default)]
pub struct Segmenter {
    route: Vec<Step>,
    /// Of each character, a bit for each state: which of the two states that may be before it is the more probable one.
    /// Then the state itself.
    states: Vec<u8>,
}

impl Segmenter {
    /// Calls `found` with each word of a run, given by codes, and its node if words of the dictionary begin so.
    pub fn cut(&mut self, dictionary: &Dictionary, run: &[u16], mut found: impl FnMut(Range<usize>, Option<u32>)) {
        self.find_route(dictionary, run);
        let mut singles = 0..0;
        let mut at = 0;
        while at < run.len() {
            let Step { end, node, .. } = self.route[at];
            let end = end as usize;
            if end == at + 1 {
                singles.end = end;
            } else {
                self.join(dictionary, run, singles, &mut found);
                found(at..end, Some(node));
                singles = end..end;
            }
            at = end;
        }
        self.join(dictionary, run, singles, &mut found);
    }

    /// Calls `found` with each word of the route: what the dictionary does not join stays apart.
    pub fn cut_by_dictionary(&mut self, dictionary: &Dictionary, run: &[u16], mut found: impl FnMut(Range<usize>)) {
        self.find_route(dictionary, run);
        let mut at = 0;
        while at < run.len() {
            let end = self.route[at].end as usize;
            found(at..end);
            at = end;
        }
    }

    fn find_route(&mut self, dictionary: &Dictionary, run: &[u16]) {
        self.route.clear();
        self.route.resize(run.len() + 1, Step::default());
        for (at, &code) in run.iter().enumerate().rev() {
            let mut node = u32::from(code);
            let behind = self.route[at + 1].sum;
            let mut best = Step { sum: dictionary.log(node) + behind, end: at as u32 + 1, node };
            for (last, &code) in run.iter().enumerate().skip(at + 1) {
                node = dictionary.child(node, code);
                if node == NONE {
                    break;
                }
                let sum = dictionary.log(node) + self.route[last + 1].sum;
                if sum >= best.sum {
                    best = Step { sum, end: last as u32 + 1, node };
                }
            }
            if best.sum == f64::NEG_INFINITY {
                // What begins no word is one by itself.
                best = Step { sum: -dictionary.log_total() + behind, end: at as u32 + 1, node: u32::from(code) };
            }
            self.route[at] = best;
        }
    }

    /// Joins single characters in a row to the words that the model makes of them.
    fn join(
        &mut self,
        dictionary: &Dictionary,
        run: &[u16],
        singles: Range<usize>,
        found: &mut impl FnMut(Range<usize>, Option<u32>),
    ) {
        let codes = &run[singles.clone()];
        if codes.len() < 2 || dictionary.is_word(codes) {
            // Of characters that are a word together the route is the better judge: it left them apart.
            for (at, &code) in singles.zip(codes) {
                found(at..at + 1, Some(u32::from(code)));
            }
            return;
        }
        self.find_states(dictionary, codes);
        let mut begin = 0;
        for (at, &state) in self.states.iter().enumerate() {
            if usize::from(state) == END || usize::from(state) == SINGLE || at + 1 == codes.len() {
                let word = begin..at + 1;
                let node = dictionary.find(&codes[word.clone()]);
                found(singles.start + word.start..singles.start + word.end, node);
                begin = at + 1;
            }
        }
    }

    /// Finds the most probable states of characters.
    fn find_states(&mut self, dictionary: &Dictionary, codes: &[u16]) {
        let Dictionary { begins, steps, .. } = dictionary;
        let first = dictionary.emissions(codes[0]);
        let mut sums: [f64; 4] = std::array::from_fn(|state| begins[state] + first[state]);
        self.states.clear();
        self.states.push(0);
        for &code in &codes[1..] {
            let emissions = dictionary.emissions(code);
            let from = |before: usize, state: usize| sums[before] + steps[before][state] + emissions[state];
            // The two states that may be before each; of equally probable ones, jieba takes the later.
            let earlier = [from(END, BEGIN), from(BEGIN, END), from(BEGIN, MIDDLE), from(END, SINGLE)];
            let later = [from(SINGLE, BEGIN), from(MIDDLE, END), from(MIDDLE, MIDDLE), from(SINGLE, SINGLE)];
            let bits = (0..4).fold(0, |bits, state| bits | u8::from(later[state] >= earlier[state]) << state);
            sums = std::array::from_fn(|state| later[state].max(earlier[state]));
            self.states.push(bits);
        }
        let mut state = if sums[SINGLE] >= sums[END] { SINGLE } else { END };
        for place in self.states[1..].iter_mut().rev() {
            let is_later = usize::from(*place >> state & 1);
            *place = state as u8;
            let earlier = if state == BEGIN || state == SINGLE { END } else { BEGIN };
            // The later of the two is two states behind the other.
            state = earlier + 2 * is_later;
        }
        self.states[0] = state as u8;
    }
}
