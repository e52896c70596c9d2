//! Which number does a threshold stand for?

/// A number as its decimal text: a string, an integer, or a float, which stands for the decimal that it prints as.
/// So `0.8` and `"0.8"` are both exactly 4/5, and `"2/3"` is a fraction.
///
/// ```
/// let sets = simjoin::Sets::new([vec![1, 2, 3, 4, 5], vec![1, 2, 3, 4]]);
/// fn count(sets: &simjoin::Sets, threshold: impl simjoin::Decimal) -> simjoin::Result<u64> {
///     simjoin::self_join(sets).jaccard(threshold).count()
/// }
/// assert_eq!([count(&sets, 0.8)?, count(&sets, 0.8f32)?, count(&sets, "4/5")?], [1; 3]);
/// assert_eq!([count(&sets, "0.8000001")?, count(&sets, 1)?], [0; 2]);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub trait Decimal: sealed::Decimal {}

impl<T: sealed::Decimal + ?Sized> Decimal for T {}

pub(crate) mod sealed {
    pub trait Decimal {
        fn decimal(&self) -> String;
    }
}

impl<T: sealed::Decimal + ?Sized> sealed::Decimal for &T {
    fn decimal(&self) -> String {
        (**self).decimal()
    }
}

macro_rules! decimals {
    ($($type:ty)*) => {
        $(impl sealed::Decimal for $type {
            fn decimal(&self) -> String {
                self.to_string()
            }
        })*
    };
}

decimals!(str String f32 f64 i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
