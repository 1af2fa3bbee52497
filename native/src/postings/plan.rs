//! Plans of directed search, and the surest bits of an article.
//!
//! A **look-up** is `table << block_bits | mask`: it reads the posting list of the article's own block of that table
//! with the bits of the mask flipped. Its cost is the sum of the costs of these bits, each given by the bit's margin.
//! The **plan** of an article is its cheapest look-ups over all tables; of equal cost the lower table comes first, then
//! the lower mask.
//!
//! The look-ups of an article up to a bound of the cost are listed by table, then mask, and a counting sort by cost
//! leaves those of equal cost in this order. Bit by bit, from the lowest on, a table's masks are those without the bit,
//! then the same masks with it as far as they cost no more than the bound. So masks rise, and no mask beyond the bound
//! is continued.
//!
//! The bound: let m be the least margin of which the bits of margins up to m alone make as many look-ups as the plan
//! has. Then no look-up of the plan costs more than so many bits of margin m as a mask may have. [`LIKELY_BITS`] bits
//! of margin m are mostly enough, and then a third of the work; the look-ups of the other articles are listed twice.

/// Margins of a bit: 0 to 15, two in a byte, the first in the high half.
pub const MARGINS: usize = 16;
/// Bits of a word of the signature.
pub const WORD_BITS: usize = 64;
/// Blocks that begin in a word, one every [`BLOCK_STEP`] bits.
pub const BLOCKS_PER_WORD: usize = 4;
/// Bits from the beginning of one block to that of the next.
pub const BLOCK_STEP: usize = WORD_BITS / BLOCKS_PER_WORD;

/// Bits of margin m whose cost is the bound that is tried first: enough for 19 of 20 plans of 64 to 1,500 look-ups.
const LIKELY_BITS: u32 = 2;

/// What the plans of a scheme have in common.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of block tables.
    pub tables: usize,
    /// Bits of a block, 24 at most.
    pub block_bits: usize,
    /// Most bits of a block that a look-up flips.
    pub mask_bits: usize,
    /// Cost of flipping a bit, by its margin, rising.
    pub costs: [u32; MARGINS],
}

impl Shape {
    /// Bytes of an article's margins.
    #[must_use]
    pub fn margin_bytes(&self) -> usize {
        self.tables * BLOCK_STEP / 2
    }

    /// The number of look-ups that there are.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.tables * masks_within(self.mask_bits, self.block_bits)
    }
}

/// A look-up while a plan is made, in one word, so that a flipped bit is one addition: from the highest bit on its cost,
/// itself, and how many bits its mask has.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Node(u64);

/// Makes plans. It keeps the memory that making one takes, for the next one.
pub struct Planner {
    shape: Shape,
    /// The number of masks of 0, 1, 2, … bits.
    masks: Vec<usize>,
    nodes: Vec<Node>,
    shorter: Vec<Node>,
    ends: Vec<u32>,
    ordered: Vec<u32>,
}

impl Planner {
    /// Make room for plans of this shape.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let (every, most) = (shape.lookups(), shape.mask_bits);
        let dearest = most * shape.costs[MARGINS - 1] as usize;
        Self {
            shape,
            masks: (0..=shape.block_bits).map(|bits| masks_within(most, bits)).collect(),
            // One more: a node that is not kept is overwritten by the next one.
            nodes: vec![Node::default(); every + 1],
            shorter: vec![Node::default(); masks_within(most.saturating_sub(1), shape.block_bits) + 1],
            ends: vec![0; dearest + 2],
            ordered: vec![0; every],
        }
    }

    /// Write the plan of an article, as many look-ups as `plan` has room for, the cheapest first.
    ///
    /// # Panics
    ///
    /// If the margins have another size than the shape says, or there are fewer look-ups than `plan` has room for.
    pub fn plan(&mut self, margins: &[u8], plan: &mut [u32]) {
        assert_eq!(margins.len(), self.shape.margin_bytes(), "bytes of margins");
        let margin = self.bounding_margin(margins, plan.len());
        let dear = self.shape.costs[margin];
        let mut bound = LIKELY_BITS * dear;
        let mut listed = self.list(margins, bound);
        if listed < plan.len() {
            bound = u32::try_from(self.shape.mask_bits).expect("a few bits") * dear;
            listed = self.list(margins, bound);
        }
        self.sort(listed, bound as usize);
        plan.copy_from_slice(&self.ordered[..plan.len()]);
    }

    /// The least margin such that the bits of margins up to it make so many look-ups.
    fn bounding_margin(&self, margins: &[u8], lookups: usize) -> usize {
        let mut counts = [[0; MARGINS]; BLOCKS_PER_WORD * 4];
        for (table, counts) in counts[..self.shape.tables].iter_mut().enumerate() {
            for bit in 0..self.shape.block_bits {
                counts[margin_of(margins, bit_of_block(table, bit))] += 1;
            }
        }
        let mut up_to = [0; BLOCKS_PER_WORD * 4];
        (0..MARGINS - 1)
            .find(|&margin| {
                let made = up_to.iter_mut().zip(&counts).map(|(bits, counts)| {
                    *bits += counts[margin];
                    self.masks[*bits]
                });
                made.take(self.shape.tables).sum::<usize>() >= lookups
            })
            .unwrap_or(MARGINS - 1)
    }

    /// List the look-ups up to a bound of the cost, by table, then mask; return how many they are.
    fn list(&mut self, margins: &[u8], bound: u32) -> usize {
        (0..self.shape.tables).fold(0, |listed, table| listed + self.list_table(margins, table, bound, listed))
    }

    /// List the look-ups in a table from `start` on; return how many they are.
    fn list_table(&mut self, margins: &[u8], table: usize, bound: u32, start: usize) -> usize {
        let block_bits = self.shape.block_bits;
        let most = self.shape.mask_bits;
        let (nodes, shorter) = (&mut self.nodes[start..], &mut self.shorter);
        let unflipped = Node::new(0, table << block_bits, 0);
        let beyond = Node::new(bound + 1, 0, 0);
        (nodes[0], shorter[0]) = (unflipped, unflipped);
        let (mut count, mut short) = (1, 1);
        for place in 0..block_bits {
            let margin = margin_of(margins, bit_of_block(table, block_bits - 1 - place));
            let flipped = Node::new(self.shape.costs[margin], 1 << place, 1);
            if flipped >= beyond {
                continue; // alone too expensive
            }
            let until = short;
            for before in 0..until {
                let node = Node(shorter[before].0 + flipped.0);
                let kept = usize::from(node < beyond); // added: a branch would often be foreseen wrongly
                (nodes[count], shorter[short]) = (node, node);
                count += kept;
                short += kept & usize::from(node.bits() < most);
            }
        }
        count
    }

    /// Order the listed look-ups by cost, in their order among equals.
    fn sort(&mut self, listed: usize, bound: usize) {
        let (nodes, ends) = (&self.nodes[..listed], &mut self.ends[..bound + 2]);
        ends.fill(0);
        for node in nodes {
            ends[node.cost() + 1] += 1;
        }
        for cost in 1..=bound {
            ends[cost] += ends[cost - 1];
        }
        for node in nodes {
            let end = &mut ends[node.cost()];
            self.ordered[*end as usize] = node.lookup();
            *end += 1;
        }
    }
}

impl Node {
    const COST_SHIFT: u32 = 40;
    const LOOKUP_SHIFT: u32 = 8;

    fn new(cost: u32, lookup: usize, bits: u64) -> Self {
        Self(u64::from(cost) << Self::COST_SHIFT | (lookup as u64) << Self::LOOKUP_SHIFT | bits)
    }

    fn cost(self) -> usize {
        (self.0 >> Self::COST_SHIFT) as usize
    }

    fn lookup(self) -> u32 {
        (self.0 >> Self::LOOKUP_SHIFT) as u32
    }

    fn bits(self) -> usize {
        (self.0 & ((1 << Self::LOOKUP_SHIFT) - 1)) as usize
    }
}

/// The number of masks of a block that flip at most so many bits.
fn masks_within(most: usize, block_bits: usize) -> usize {
    let of_bits = |bits| (0..bits).fold(1, |count, at| count * (block_bits - at) / (at + 1));
    (0..=most.min(block_bits)).map(of_bits).sum()
}

/// The number, in the signature, of a bit of a block. Blocks of one word go round at its end.
fn bit_of_block(table: usize, bit: usize) -> usize {
    table / BLOCKS_PER_WORD * WORD_BITS + (table % BLOCKS_PER_WORD * BLOCK_STEP + bit) % WORD_BITS
}

/// The margin of a bit of the signature.
#[must_use]
pub fn margin_of(margins: &[u8], bit: usize) -> usize {
    let two = margins[bit / 2];
    usize::from(if bit % 2 == 0 { two >> 4 } else { two & 0xF })
}

/// The `count` surest bits of each word, those with the largest margins, as a mask; among equal margins the lower bit.
///
/// Bit 0 of a word is the highest of the mask. `margins` are those of the bits of whole words.
pub fn surest(margins: &[u8], count: usize) -> impl Iterator<Item = u64> {
    margins.chunks_exact(WORD_BITS / 2).map(move |word| {
        let mut at_least = [0; MARGINS + 1];
        for bit in 0..WORD_BITS {
            at_least[margin_of(word, bit)] += 1;
        }
        for margin in (0..MARGINS).rev() {
            at_least[margin] += at_least[margin + 1];
        }
        let least = (0..MARGINS).rev().find(|&margin| at_least[margin] >= count).unwrap_or(0);
        let mut left = count.saturating_sub(at_least[least + 1]);
        (0..WORD_BITS).fold(0, |mask, bit| {
            let margin = margin_of(word, bit);
            let equal = margin == least && left > 0;
            left -= usize::from(equal);
            mask << 1 | u64::from(margin > least || equal)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [u32; MARGINS] = [6, 17, 29, 41, 54, 67, 81, 96, 111, 128, 146, 165, 185, 206, 229, 253];

    /// Margins from a seed, of so many kinds.
    fn margins(seed: u64, kinds: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from((state >> 33) % kinds).expect("a margin")
        };
        (0..bytes).map(|_| next() << 4 | next()).collect()
    }

    /// All look-ups in the order of a plan, from the definition.
    fn every_lookup(margins: &[u8], shape: Shape) -> Vec<u32> {
        let masks = (0..1_u32 << shape.block_bits).filter(|mask| mask.count_ones() as usize <= shape.mask_bits);
        let cost = |table, mask: u32| {
            let flipped = (0..shape.block_bits).filter(|bit| mask >> (shape.block_bits - 1 - bit) & 1 == 1);
            flipped.map(|bit| shape.costs[margin_of(margins, bit_of_block(table, bit))]).sum::<u32>()
        };
        let tables = 0..shape.tables;
        let lookup = |table: usize, mask| (cost(table, mask), (table << shape.block_bits) as u32 | mask);
        let mut found: Vec<_> = masks.flat_map(|mask| tables.clone().map(move |table| lookup(table, mask))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, lookup)| lookup).collect()
    }

    #[test]
    fn a_plan_is_the_cheapest_lookups_in_order() {
        for (tables, block_bits, mask_bits) in [(4, 16, 3), (16, 16, 3), (8, 16, 2), (4, 20, 2)] {
            let shape = Shape { tables, block_bits, mask_bits, costs: COSTS };
            let mut planner = Planner::new(shape);
            for seed in 0..6 {
                let margins = margins(seed, 1 + seed * 3, shape.margin_bytes());
                let expected = every_lookup(&margins, shape);
                assert_eq!(expected.len(), shape.lookups());
                for lookups in [1, 2, 63, 64, 300, shape.lookups()] {
                    let mut plan = vec![0; lookups];
                    planner.plan(&margins, &mut plan);
                    assert_eq!(plan, expected[..lookups], "seed {seed}, {shape:?}, {lookups} look-ups");
                }
            }
        }
    }

    #[test]
    fn the_surest_bits_are_those_of_the_largest_margins() {
        for seed in 0..20 {
            let margins = margins(seed, 1 + seed % 16, 64);
            for (word, mask) in surest(&margins, 22).enumerate() {
                let mut bits: Vec<_> = (0..WORD_BITS).collect();
                bits.sort_by_key(|&bit| std::cmp::Reverse(margin_of(&margins, word * WORD_BITS + bit)));
                let expected = bits[..22].iter().fold(0, |mask, bit| mask | 1 << (WORD_BITS - 1 - bit));
                assert_eq!(mask, expected, "seed {seed}, word {word}");
            }
        }
    }
}
