//! Exact similarity joins for sets, text and vectors.
//!
//! Find **all** pairs of rows whose similarity reaches a threshold. Thresholds are exact rational numbers and decisions
//! are made in integers, so the answer is the same with every technique, on every processor and with any number of
//! threads.
//!
//! ```
//! use simjoin::Text;
//!
//! let titles = Text::new([
//!     "Pride and Prejudice, Jane Austen",
//!     "Jane Austen: Pride and Prejudice",
//!     "Emma, Jane Austen",
//! ]);
//! let pairs = simjoin::self_join(&titles).jaccard(0.8).collect()?;
//! assert_eq!((pairs[0].left, pairs[0].right, pairs[0].similarity), (0, 1, 1.0));
//! # Ok::<(), simjoin::Error>(())
//! ```
//!
//! * Inputs are [`Text`], [`Sets`] of strings or integers, and [`Vectors`], from memory or from files.
//! * [`self_join`] compares the rows of one input, [`join()`] those of two, by a measure: see [`Inputs`].
//! * A [`Join`] is told where to run and what to spend, and asked for answers: it counts, collects, writes a file,
//!   finds groups, or is an iterator that takes bounded memory. [`Join::explain`] shows the plan.
//! * [`intersect()`] is for two single sets of up to hundreds of millions of numbers.
//! * [`engine`] holds the parts that all this is made of.
//!
//! Features, both on by default: `io` reads and writes files, `gpu` joins on NVIDIA GPUs.

#![forbid(unsafe_code)]

mod decimal;
pub mod engine;
mod host;
mod input;
mod intersect;
mod join;
#[cfg(not(feature = "gpu"))]
mod no_gpu;
mod pairs;

pub use decimal::Decimal;
/// ```
/// use simjoin::{Engine, Error, Sets, self_join};
///
/// let sets = Sets::new([[1, 2], [2, 1]]);
/// for engine in [Engine::Auto, Engine::Cpu, Engine::Gpu, Engine::Hybrid] {
///     match self_join(&sets).jaccard(1).engine(engine).count() {
///         Ok(pairs) => assert_eq!(pairs, 1),
///         // There may be no GPU. `Auto` and `Cpu` run on every machine.
///         Err(error) => assert!(matches!(error, Error::Unavailable(_))),
///     }
/// }
/// assert_eq!("hybrid".parse::<Engine>()?, Engine::Hybrid);
/// # Ok::<(), Error>(())
/// ```
#[doc(inline)]
pub use engine::Engine;
/// ```
/// use simjoin::{Error, Sets, Vectors, self_join};
///
/// let sets = Sets::new([[1, 2], [2, 1]]);
/// let error = self_join(&sets).jaccard(1.5).count().unwrap_err();
/// assert!(matches!(&error, Error::Config(message) if message.contains("is above 1")));
/// let error = self_join(&sets).jaccard(1).threads(100_000).count().unwrap_err();
/// assert!(matches!(error, Error::Parameter { .. }));
/// let error = Vectors::new([0.5, f64::NAN], 1).unwrap_err();
/// assert!(matches!(&error, Error::Input { place, .. } if place.starts_with("row 1")));
/// assert!(error.to_string().contains("element 0 is NaN"));
/// ```
#[doc(inline)]
pub use engine::Error;
/// ```
/// let sets = simjoin::Sets::new([[1, 2, 3], [2, 3, 4]]);
/// let plan = simjoin::self_join(&sets).jaccard(0.5).explain()?;
/// assert!(plan.collections.contains("2 records"));
/// println!("{plan}");
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use engine::Explanation;
/// ```
/// let report = simjoin::intersect(&[2, 3, 5, 7], &[3, 7, 11]).report()?;
/// assert_eq!((report.size, report.sets), (2, (4, 3)));
/// assert_eq!(report.containment(), 2.0 / 3.0);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use engine::IntersectReport;
/// ```
/// let sets = simjoin::Sets::new([[1, 2, 3], [2, 3, 4], [7, 8, 9]]);
/// let report = simjoin::self_join(&sets).jaccard(0.5).technique("ppjoin").report()?;
/// assert_eq!((report.pairs, &*report.technique), (1, "ppjoin"));
/// assert!(report.candidates <= 3 && report.warnings.is_empty());
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use engine::Report;
/// ```
/// fn pairs(titles: &[&str]) -> simjoin::Result<u64> {
///     simjoin::self_join(&simjoin::Text::new(titles)).jaccard(0.8).count()
/// }
/// assert_eq!(pairs(&["the sea", "The Sea"])?, 1);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use engine::Result;
/// ```
/// use simjoin::{Side, Text, join};
///
/// let (old, new) = (Text::new(["a b"]), Text::new(["b a", "a b"]));
/// let pairs = join(&old, &new).jaccard(1).with_itself(true).collect()?;
/// let of = |side| pairs.iter().filter(|pair| pair.left_input == side).count();
/// assert_eq!((of(Side::Left), of(Side::Right)), (2, 1));
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use engine::Side;
pub use input::{Element, Input, Pair, Sets, Text, VectorPair, Vectors};
pub use intersect::{Intersection, intersect};
pub use join::{Inputs, Join, join, self_join};
pub use pairs::Pairs;
/// ```
/// use simjoin::{Format, Sets};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("baskets");
/// for (format, text) in [
///     (Format::Lines, "1 2\n2 1\n"),
///     (Format::Csv, "items\n1 2\n2 1\n"),
///     (Format::Tsv, "items\n1 2\n2 1\n"),
///     (Format::Jsonl, "{\"items\": [1, 2]}\n{\"items\": [2, 1]}\n"),
/// ] {
///     std::fs::write(&path, text)?;
///     let baskets = Sets::from_file(&path).format(format);
///     // Lines have no columns; Parquet and Arrow have, as CSV has.
///     let baskets = if format == Format::Lines { baskets } else { baskets.column("items") };
///     assert_eq!(simjoin::self_join(&baskets).jaccard(1).count()?, 1);
/// }
/// assert_eq!(Format::of_path("baskets.parquet"), Format::Parquet);
/// assert_eq!(Format::of_path("baskets.arrow"), Format::Arrow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "io")]
#[doc(inline)]
pub use simjoin_io::Format;
/// ```
/// use simjoin::Sets;
///
/// let numbers = Sets::new([vec![7u8, 8]]);
/// let strings = Sets::new([["8", "7"]]);
/// let owned = Sets::new(vec![vec![String::from("7"), String::from("8")]]);
/// assert_eq!(simjoin::join(&numbers, &strings).jaccard(1).count()?, 1);
/// assert_eq!(simjoin::join(&strings, &owned).jaccard(1).count()?, 1);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use simjoin_io::Token;
/// ```
/// use simjoin::{Text, Tokenizer, self_join};
///
/// let titles = Text::new(["The old man", "the old man!"]);
/// let count = |how| self_join(&titles.clone().tokens(how)).jaccard(0.5).count();
/// // Words are in lower case and without punctuation.
/// assert_eq!(count(Tokenizer::Words)?, 1);
/// // Some pairs of characters differ, most do not.
/// assert_eq!(count(Tokenizer::Qgrams(2))?, 1);
/// // Between white space, only `old` is the same.
/// assert_eq!(count(Tokenizer::Whitespace)?, 0);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[doc(inline)]
pub use simjoin_io::Tokenizer;
/// ```
/// use simjoin::{VectorFormat, Vectors};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("points");
/// let fvecs = [1i32.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
/// let bvecs = [&1i32.to_le_bytes()[..], &[7]].concat();
/// for (format, bytes) in [
///     (VectorFormat::Csv, &b"x,y\n0.5,1\n"[..]),
///     (VectorFormat::Tsv, b"x\ty\n0.5\t1\n"),
///     (VectorFormat::Fvecs, &fvecs),
///     (VectorFormat::Bvecs, &bvecs),
/// ] {
///     std::fs::write(&path, bytes)?;
///     let point = Vectors::from_file(&path).format(format);
///     assert_eq!(simjoin::join(&point, &point).within(0).count()?, 1);
/// }
/// // A file that is called so needs no format.
/// assert_eq!(VectorFormat::of_path("points.npy")?, VectorFormat::Npy);
/// assert_eq!(VectorFormat::of_path("points.parquet")?, VectorFormat::Parquet);
/// assert_eq!(VectorFormat::of_path("points.arrow")?, VectorFormat::Arrow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "io")]
#[doc(inline)]
pub use simjoin_io::VectorFormat;
