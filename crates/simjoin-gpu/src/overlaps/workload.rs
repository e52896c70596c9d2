//! How many tokens are treated as frequent, given the estimated costs of bits and lists?

use super::{STEP, WALK};

/// The numbers that determine the costs of bits and of lists.
pub(super) struct Workload {
    pub(super) pairs: f64,
    /// The seconds for each pair and bit.
    pub(super) bit: f64,
    /// The number of sets that have bits.
    pub(super) sets: u64,
    /// The number of tokens that are not unique.
    pub(super) tokens: u32,
    pub(super) spare: u64,
    /// The number of entries of lists, and of meetings of rows with them, by classes of tokens: the 512 most
    /// frequent, the next 512, the next 1,024 and so on.
    pub(super) entries: [u64; 32],
    pub(super) meetings: [u64; 32],
}

impl Workload {
    /// Returns the entries of lists if tokens up to this class have bits.
    pub(super) fn list_entries(&self, class: Option<usize>) -> u64 {
        self.entries.iter().skip(class.map_or(0, |class| class + 1)).sum()
    }

    /// Returns the last class that lies completely within this number of frequent tokens.
    pub(super) fn class_within(&self, frequent: u32) -> Option<usize> {
        if frequent == self.tokens {
            return Some(self.entries.len());
        }
        (frequent / STEP).checked_ilog2().map(|class| class as usize)
    }

    pub(super) fn bytes(&self, frequent: u32, class: Option<usize>) -> u64 {
        self.sets * u64::from(frequent.next_multiple_of(STEP)) / 8 + 4 * self.list_entries(class)
    }

    /// Returns the best number of tokens with bits, and their last class; `None` if nothing fits.
    pub(super) fn choose(&self) -> Option<(u32, Option<usize>)> {
        let classes = std::iter::once(None).chain((0..32).map(Some));
        let choices = classes.map_while(|class| {
            let frequent = class.map_or(0, |class| u64::from(STEP) << class);
            let last = class.map_or(0, |class| u64::from(STEP) << class >> 1);
            // The first choice that includes all tokens is the last one.
            (class.is_none_or(|class| class == 0) || last < u64::from(self.tokens))
                .then(|| (frequent.min(self.tokens.into()) as u32, class))
        });
        let cost = |(frequent, class): &(u32, Option<usize>)| {
            let met: u64 = self.meetings.iter().skip(class.map_or(0, |class| class + 1)).sum();
            let bits = frequent.next_multiple_of(STEP);
            self.pairs * f64::from(bits) * self.bit + met as f64 / WALK
        };
        choices
            .filter(|&(frequent, class)| self.bytes(frequent, class) <= self.spare)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlaps::PRODUCT;

    fn workload(tokens: u32, spare: u64, entries: [u64; 32], meetings: [u64; 32]) -> Workload {
        let (pairs, bit) = (1e10, 1.0 / (256.0 * PRODUCT));
        Workload { pairs, bit, sets: 100_352, tokens, spare, entries, meetings }
    }

    #[test]
    fn tokens_become_bits_where_bits_cost_less_than_lists() {
        // Every class of tokens has a tenth of the meetings of the class before.
        let mut meetings = [0; 32];
        let mut many = 1_000_000_000_000;
        for class in &mut meetings[..12] {
            (*class, many) = (many, many / 10);
        }
        let entries = meetings.map(|many| many / 1000);
        let (frequent, class) = workload(1_000_000, u64::MAX, entries, meetings).choose().unwrap();
        assert!((1024..32_768).contains(&frequent), "{frequent}");
        assert_eq!(frequent, STEP << class.unwrap());
        // Without meetings no bits are worth it. If everything meets, all are.
        let none = workload(1_000_000, u64::MAX, entries, [0; 32]).choose().unwrap();
        assert_eq!(none, (0, None));
        let all = workload(700, u64::MAX, entries, [1 << 50; 32]).choose().unwrap();
        assert_eq!(all.0, 700);
        // Bits that do not fit are not chosen.
        let some = workload(1 << 20, 100_352 * 256, [0; 32], [1 << 50; 32]).choose().unwrap();
        assert_eq!(some.0, 2048);
        assert!(workload(700, 10, [1000; 32], meetings).choose().is_none());
    }

    #[test]
    fn class_within_returns_the_last_complete_class() {
        let workload = workload(5000, 0, [1; 32], [1; 32]);
        assert_eq!(workload.class_within(511), None);
        assert_eq!(workload.class_within(512), Some(0));
        assert_eq!(workload.class_within(1023), Some(0));
        assert_eq!(workload.class_within(1024), Some(1));
        assert_eq!(workload.list_entries(workload.class_within(1024)), 30);
        assert_eq!(workload.list_entries(workload.class_within(5000)), 0);
        assert_eq!(workload.list_entries(None), 32);
    }
}
