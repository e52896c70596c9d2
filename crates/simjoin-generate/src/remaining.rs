//! How is a token drawn from those that have not been drawn yet?
//!
//! A tree of partial sums (Fenwick 1994) finds the token at a place in the remaining weight, or removes
//! a token, by one walk. The steps of a walk are the binary digits of the number of tokens.

/// The weights that remain.
pub(crate) struct Remaining {
    /// Entry `i - 1` is the sum over `b` tokens up to the `i`-th, where `b` is the lowest set bit of `i`.
    sums: Vec<u64>,
    total: u64,
    taken: Vec<(u32, u64)>,
}

impl Remaining {
    /// Makes the tree of all tokens with these weights, whose sum must fit 64 bits.
    pub(crate) fn new(mut weights: Vec<u64>) -> Self {
        let total = weights.iter().sum();
        for node in 1..=weights.len() {
            let parent = node + lowest_bit(node);
            if parent <= weights.len() {
                weights[parent - 1] += weights[node - 1];
            }
        }
        Remaining { sums: weights, total, taken: Vec::new() }
    }

    /// Returns the weight that remains.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the token at this place, which is below the total.
    pub(crate) fn find(&self, mut place: u64) -> u32 {
        let mut before = 0;
        let mut step = (self.sums.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            let node = before + step;
            if node <= self.sums.len() && self.sums[node - 1] <= place {
                place -= self.sums[node - 1];
                before = node;
            }
            step /= 2;
        }
        before as u32
    }

    /// Removes a token's weight.
    pub(crate) fn take(&mut self, token: u32) {
        let weight = self.up_to(token as usize + 1) - self.up_to(token as usize);
        self.taken.push((token, weight));
        self.add(token, weight.wrapping_neg());
    }

    /// Restores all removed weights.
    pub(crate) fn put_back(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        for (token, weight) in taken.drain(..) {
            self.add(token, weight);
        }
        self.taken = taken;
    }

    /// Returns the remaining weight of the first `count` tokens.
    fn up_to(&self, count: usize) -> u64 {
        let (mut node, mut sum) = (count, 0);
        while node > 0 {
            sum += self.sums[node - 1];
            node -= lowest_bit(node);
        }
        sum
    }

    fn add(&mut self, token: u32, weight: u64) {
        let mut node = token as usize + 1;
        while node <= self.sums.len() {
            self.sums[node - 1] = self.sums[node - 1].wrapping_add(weight);
            node += lowest_bit(node);
        }
        self.total = self.total.wrapping_add(weight);
    }
}

fn lowest_bit(node: usize) -> usize {
    node & node.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_belongs_to_the_token_that_a_walk_finds(
            weights in prop::collection::vec(1u64..6, 1..40),
            taken in prop::collection::btree_set(0usize..40, 0..20),
        ) {
            let mut tree = Remaining::new(weights.clone());
            let taken: Vec<usize> = taken.into_iter().filter(|&t| t < weights.len()).collect();
            taken.iter().for_each(|&token| tree.take(token as u32));
            let places = |without: &[usize]| -> Vec<u32> {
                (0..weights.len())
                    .filter(|token| !without.contains(token))
                    .flat_map(|token| (0..weights[token]).map(move |_| token as u32))
                    .collect()
            };
            let found = |tree: &Remaining| -> Vec<u32> {
                (0..tree.total()).map(|place| tree.find(place)).collect()
            };
            prop_assert_eq!(found(&tree), places(&taken));
            tree.put_back();
            prop_assert_eq!(found(&tree), places(&[]));
        }
    }
}
