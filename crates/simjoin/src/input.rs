//! What can be joined?

use crate::engine;
use simjoin_core::{
    Elements, Error, Measure, Predicate, Result, RowPair, Side, VectorCollection, VectorMeasure,
    VectorPredicate, prepare,
};
use simjoin_engine::{Joinable, Kind};
#[cfg(feature = "io")]
use simjoin_io::{Format, PairWriter, VectorFormat};
use simjoin_io::{Ids, Rows, SetInput, SetReader, Token, Tokenizer, VectorInput};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// Rows that can be joined: [`Text`], [`Sets`] or [`Vectors`]. A clone shares the rows.
///
/// ```
/// use simjoin::{Input, Join, Result, Text};
///
/// fn show<I: Input>(join: &Join<I>) -> Result<u64> {
///     println!("{}", join.explain()?);
///     join.count()
/// }
/// assert_eq!(show(&simjoin::self_join(&Text::new(["a b", "b a"])).jaccard(1))?, 1);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub trait Input: sealed::Input {}

impl<T: sealed::Input> Input for T {}

/// Two inputs as the engine joins them, or one.
#[derive(Debug)]
pub struct Collections<K: Kind> {
    pub(crate) left: Arc<K::Collection>,
    pub(crate) right: Option<Arc<K::Collection>>,
    pub(crate) ids: [Option<Ids>; 2],
}

pub(crate) mod sealed {
    use super::{Collections, Debug, Joinable, Kind, Result, RowPair};

    pub trait Input: Clone + Debug + Send + Sync + 'static {
        /// What the engine calls such rows.
        type Kind: Joinable + Kind;
        /// What rows are compared by.
        type Measure: Copy + Debug + Send + Sync;
        /// A pair of rows in the answer.
        type Pair: From<RowPair> + Send;

        fn join(measure: Self::Measure, threshold: &str)
        -> Result<crate::engine::Join<Self::Kind>>;

        fn read(&self, right: Option<&Self>) -> Result<Collections<Self::Kind>>;

        /// Returns the path of the file that is read.
        fn path(&self) -> Option<&super::Path>;

        #[cfg(feature = "io")]
        fn writer<'a>(
            path: &super::Path,
            ids: [Option<&'a super::Ids>; 2],
            with_itself: bool,
        ) -> Result<super::PairWriter<'a>>;
    }
}

/// Two similar rows of text, or two similar sets.
///
/// ```
/// use simjoin::{Pair, Side};
///
/// let sets = simjoin::Sets::new([vec![1, 2, 3], vec![2, 3, 4, 1]]);
/// let pairs: Vec<Pair> = simjoin::self_join(&sets).jaccard(0.5).collect()?;
/// assert_eq!((pairs[0].left, pairs[0].right), (0, 1));
/// assert_eq!((pairs[0].overlap, pairs[0].similarity), (3, 0.75));
/// assert_eq!(pairs[0].left_input, Side::Left);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pair {
    /// The row in the left input; in a self-join, the smaller of the two row numbers.
    pub left: u32,
    /// The row in the right input; in a self-join, the larger of the two row numbers.
    pub right: u32,
    /// The number of tokens that the two rows share.
    pub overlap: u32,
    /// Their similarity, rounded; what decided is exact.
    pub similarity: f64,
    /// The input that holds the row `left`: the right one for a pair within the right input, see
    /// [`Join::with_itself`](crate::Join::with_itself).
    pub left_input: Side,
}

impl From<RowPair> for Pair {
    fn from(row: RowPair) -> Self {
        let RowPair { left, right, overlap, similarity, left_input } = row;
        Pair { left, right, overlap, similarity, left_input }
    }
}

/// Two vectors that are near each other.
///
/// ```
/// use simjoin::VectorPair;
///
/// let points = simjoin::Vectors::from_rows([[0.0, 0.0], [3.0, 4.0]])?;
/// let pairs: Vec<VectorPair> = simjoin::self_join(&points).within(5).collect()?;
/// assert_eq!((pairs[0].left, pairs[0].right, pairs[0].distance), (0, 1, 5.0));
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct VectorPair {
    /// The row in the left input; in a self-join, the smaller of the two row numbers.
    pub left: u32,
    /// The row in the right input; in a self-join, the larger of the two row numbers.
    pub right: u32,
    /// Their distance; in a join by cosine, 1 minus the cosine.
    pub distance: f64,
}

impl From<RowPair> for VectorPair {
    fn from(row: RowPair) -> Self {
        VectorPair { left: row.left, right: row.right, distance: row.similarity }
    }
}

/// Records of text, which are compared by their tokens: by default words in lower case.
///
/// ```
/// use simjoin::{Text, Tokenizer};
///
/// let titles = Text::new(["The old man", "the OLD man!", "the sea"]);
/// assert_eq!(simjoin::self_join(&titles).jaccard(1).count()?, 1);
/// let grams = titles.tokens(Tokenizer::Qgrams(3));
/// assert_eq!(simjoin::self_join(&grams).jaccard(1).count()?, 0);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Text(SetInput);

/// Sets of tokens: strings, or integers, which are the same tokens as their decimal text.
///
/// ```
/// use simjoin::Sets;
///
/// let baskets = Sets::new(vec![vec![1, 2, 3], vec![3, 2, 1, 4], vec![7]]);
/// let words = Sets::new(["1 2 3", "7"].map(str::split_whitespace));
/// assert_eq!(simjoin::self_join(&baskets).jaccard(0.75).count()?, 1);
/// assert_eq!(simjoin::join(&baskets, &words).jaccard(1).count()?, 2);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sets(SetInput);

/// Reads inputs into one numbering of tokens.
fn read_sets(left: &SetInput, right: Option<&SetInput>) -> Result<Collections<engine::Sets>> {
    let mut reader = SetReader::default();
    let left = left.read(&mut reader, "the left input")?;
    let right = right.map(|right| right.read(&mut reader, "the right input")).transpose()?;
    let universe = reader.universe();
    drop(reader);
    let (right, right_ids) = right.map_or((None, None), |table| (Some(table.sets), table.ids));
    let (sets, right) = prepare(left.sets, right, universe)?;
    let ids = [left.ids, right_ids];
    Ok(Collections { left: Arc::new(sets), right: right.map(Arc::new), ids })
}

impl Text {
    /// Takes records from memory: slices, vectors, iterators of anything that is a string.
    ///
    /// ```
    /// use simjoin::Text;
    ///
    /// let (slices, lines) = (Text::new(["the sea"]), Text::new("Emma\nThe Sea!".lines()));
    /// let owned = Text::new(vec![String::from("sea, the")]);
    /// assert_eq!(simjoin::join(&slices, &lines).jaccard(1).count()?, 1);
    /// assert_eq!(simjoin::join(&slices, &owned).jaccard(1).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn new(records: impl IntoIterator<Item: AsRef<str>>) -> Self {
        Text(SetInput::of_rows(Rows::of_text(records), Tokenizer::Words))
    }

    /// Reads records from a file, one a line, or from a [column](Self::column) of it. The file is read when the join
    /// is asked for an answer.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("titles.txt");
    /// std::fs::write(&path, "The Sea\nEmma\nthe sea!\n")?;
    /// let titles = simjoin::Text::from_file(&path);
    /// assert_eq!(simjoin::self_join(&titles).jaccard(1).count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "io")]
    pub fn from_file(path: impl AsRef<Path>) -> Self {
        Text(SetInput::of_file(path.as_ref(), Tokenizer::Words))
    }

    /// Chooses how records are cut into tokens.
    ///
    /// ```
    /// use simjoin::{Text, Tokenizer};
    ///
    /// let names = Text::new(["woollen scarf", "wollen scarf"]).tokens(Tokenizer::Qgrams(2));
    /// assert_eq!(simjoin::self_join(&names).jaccard(0.7).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn tokens(mut self, tokenizer: Tokenizer) -> Self {
        self.0.options.tokenizer = tokenizer;
        self
    }
}

impl Sets {
    /// Takes rows of tokens from memory: slices, vectors, iterators of those. A token that a row repeats counts once.
    ///
    /// ```
    /// use simjoin::Sets;
    ///
    /// let arrays = Sets::new([[1, 2], [2, 2]]);
    /// let iterators = Sets::new((1..=2u64).map(|last| 1..=last));
    /// assert_eq!(simjoin::join(&arrays, &iterators).jaccard(1).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn new<R: IntoIterator<Item: Token>>(rows: impl IntoIterator<Item = R>) -> Self {
        Sets(SetInput::of_rows(Rows::of_tokens(rows), Tokenizer::Whitespace))
    }

    /// Reads sets from a file: the words of a line, or of a [column](Self::column), or the elements of a column of
    /// lists. The file is read when the join is asked for an answer.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("baskets.txt");
    /// std::fs::write(&path, "bread salt\noil\nsalt bread\n")?;
    /// let baskets = simjoin::Sets::from_file(&path);
    /// assert_eq!(simjoin::self_join(&baskets).jaccard(1).count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "io")]
    pub fn from_file(path: impl AsRef<Path>) -> Self {
        Sets(SetInput::of_file(path.as_ref(), Tokenizer::Whitespace))
    }
}

macro_rules! token_inputs {
    ($($input:ident)*) => {
        $(impl $input {
            /// Counts repeated tokens: the second occurrence in a row is a token of its own, and so on.
            ///
            /// ```
            /// use simjoin::{Sets, Text};
            ///
            /// let text = Text::new(["very very good", "very good"]);
            /// assert_eq!(simjoin::self_join(&text).jaccard(1).count()?, 1);
            /// assert_eq!(simjoin::self_join(&text.multiset(true)).jaccard(1).count()?, 0);
            /// let sets = Sets::new([vec![7, 7, 8], vec![7, 8]]).multiset(true);
            /// assert_eq!(simjoin::self_join(&sets).jaccard("2/3").count()?, 1);
            /// # Ok::<(), simjoin::Error>(())
            /// ```
            pub fn multiset(mut self, multiset: bool) -> Self {
                self.0.options.multiset = multiset;
                self
            }
        }

        impl sealed::Input for $input {
            type Kind = engine::Sets;
            type Measure = Measure;
            type Pair = Pair;

            fn join(measure: Measure, threshold: &str) -> Result<engine::Join<engine::Sets>> {
                Ok(engine::join(Predicate::parse(measure, threshold)?))
            }

            fn read(&self, right: Option<&Self>) -> Result<Collections<engine::Sets>> {
                read_sets(&self.0, right.map(|right| &right.0))
            }

            fn path(&self) -> Option<&Path> {
                self.0.path()
            }

            #[cfg(feature = "io")]
            fn writer<'a>(
                path: &Path,
                [left, right]: [Option<&'a Ids>; 2],
                with_itself: bool,
            ) -> Result<PairWriter<'a>> {
                let create =
                    if with_itself { PairWriter::create_with_itself } else { PairWriter::create };
                create(Some(path), left, right)
            }
        })*
    };
}

token_inputs!(Text Sets);

/// Vectors of one dimension, in single or double precision.
///
/// ```
/// use simjoin::Vectors;
///
/// let points = Vectors::new(&[0.0f32, 0.0, 0.0, 1.0, 3.0, 4.0], 2)?;
/// let near = simjoin::self_join(&points).within(1.5).collect()?;
/// assert_eq!((near.len(), near[0].distance), (1, 1.0));
/// assert!(Vectors::new([0.0, f64::NAN], 2).is_err());
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vectors(VectorInput);

/// An element of a vector: `f32` or `f64`.
///
/// ```
/// use simjoin::{Element, Vectors};
///
/// fn line<E: Element>(numbers: Vec<E>) -> simjoin::Result<Vectors> {
///     Vectors::new(numbers, 1)
/// }
/// let (narrow, wide) = (line(vec![0.5f32, 1.0])?, line(vec![0.5f64])?);
/// assert_eq!(simjoin::join(&narrow, &wide).within(0).count()?, 1);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub trait Element: element::Element {}

impl<T: element::Element> Element for T {}

mod element {
    pub trait Element: Sized {
        fn collect(all: impl Iterator<Item = Self>) -> super::Elements;
    }
}

macro_rules! elements {
    ($($type:ty: $variant:ident)*) => {
        $(impl element::Element for $type {
            fn collect(all: impl Iterator<Item = Self>) -> Elements {
                Elements::$variant(all.collect())
            }
        }

        impl element::Element for &$type {
            fn collect(all: impl Iterator<Item = Self>) -> Elements {
                Elements::$variant(all.copied().collect())
            }
        })*
    };
}

elements!(f32: F32 f64: F64);

impl Vectors {
    /// Takes the elements of all vectors, one vector after the other.
    ///
    /// ```
    /// let points = simjoin::Vectors::new([0.0, 0.0, 0.0, 1.0], 2)?;
    /// assert_eq!(simjoin::self_join(&points).within(1).count()?, 1);
    /// assert!(simjoin::Vectors::new([0.0, 0.0, 0.0], 2).is_err());
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn new<E: Element>(
        elements: impl IntoIterator<Item = E>,
        dimension: usize,
    ) -> Result<Self> {
        let elements = E::collect(elements.into_iter());
        let vectors = VectorCollection::new("the vectors", dimension, elements)?;
        Ok(Vectors(VectorInput::of_vectors(vectors)))
    }

    /// Takes vectors one by one; the first tells the dimension.
    ///
    /// ```
    /// use simjoin::Vectors;
    ///
    /// assert!(Vectors::from_rows([[0.5f32, 1.0], [0.0, 2.0]]).is_ok());
    /// let error = Vectors::from_rows([vec![0.5], vec![0.5, 1.0]]).unwrap_err();
    /// assert!(error.to_string().contains("row 1 (counting from 0): 2 elements; expected 1"));
    /// ```
    pub fn from_rows<R: IntoIterator<Item: Element>>(
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Self> {
        let (mut all, mut dimension) = (Vec::new(), 0);
        for (row, elements) in rows.into_iter().enumerate() {
            let before = all.len();
            all.extend(elements);
            let found = all.len() - before;
            if row == 0 {
                dimension = found;
            }
            if found != dimension {
                let place = format!("row {row} (counting from 0)");
                let message = format!("{found} elements; expected {dimension}, as in row 0");
                return Err(Error::input("the vectors", place, message));
            }
        }
        Self::new(all, dimension)
    }
}

#[cfg(feature = "io")]
impl Vectors {
    /// Reads vectors from a file: npy, fvecs, bvecs, CSV, TSV, Parquet or Arrow. The file is read when the join is
    /// asked for an answer.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("points.csv");
    /// std::fs::write(&path, "x,y\n0,0\n0,1\n5,5\n")?;
    /// let points = simjoin::Vectors::from_file(&path);
    /// assert_eq!(simjoin::self_join(&points).within(1).count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Self {
        Vectors(VectorInput::of_file(path.as_ref()))
    }
}

macro_rules! file_inputs {
    ($($input:ident: $format:ident)*) => {
        $(#[cfg(feature = "io")]
        impl $input {
            /// Names the column of the file that holds the rows.
            ///
            /// ```
            /// use simjoin::{Text, Vectors, self_join};
            ///
            /// # let folder = tempfile::tempdir()?;
            /// # let path = folder.path().join("table.csv");
            /// std::fs::write(&path, "title,place\nthe sea,0 0\nThe Sea!,0 1\n")?;
            /// let titles = Text::from_file(&path).column("title");
            /// let places = Vectors::from_file(&path).column("place");
            /// assert_eq!(self_join(&titles).jaccard(1).count()?, 1);
            /// assert_eq!(self_join(&places).within(1).count()?, 1);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn column(mut self, name: impl Into<String>) -> Self {
                self.0.options.column = Some(name.into());
                self
            }

            /// Names the column of the file that holds the ids of the rows; see [`Join::id`](crate::Join::id).
            ///
            /// ```
            /// # let folder = tempfile::tempdir()?;
            /// # let path = folder.path().join("table.csv");
            /// std::fs::write(&path, "key,place\na,0 0\nb,0 1\n")?;
            /// let places = simjoin::Vectors::from_file(&path).column("place").id("key");
            /// let near = simjoin::self_join(&places).within(1);
            /// let pair = near.collect()?[0];
            /// assert_eq!(near.id(simjoin::Side::Left, pair.left), Some("a"));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn id(mut self, name: impl Into<String>) -> Self {
                self.0.options.id = Some(name.into());
                self
            }

            /// Says which format the file has; by default its name tells.
            ///
            /// ```
            /// use simjoin::{Format, Text, VectorFormat, Vectors, self_join};
            ///
            /// # let folder = tempfile::tempdir()?;
            /// # let path = folder.path().join("table.txt");
            /// std::fs::write(&path, "title,place\nthe sea,0 0\nThe Sea!,0 1\n")?;
            /// let titles = Text::from_file(&path).format(Format::Csv).column("title");
            /// let places = Vectors::from_file(&path).format(VectorFormat::Csv).column("place");
            /// assert_eq!(self_join(&titles).jaccard(1).count()?, 1);
            /// assert_eq!(self_join(&places).within(1).count()?, 1);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn format(mut self, format: $format) -> Self {
                self.0.options.format = Some(format);
                self
            }
        })*
    };
}

file_inputs!(Text: Format Sets: Format Vectors: VectorFormat);

impl sealed::Input for Vectors {
    type Kind = engine::Vectors;
    type Measure = VectorMeasure;
    type Pair = VectorPair;

    fn join(measure: VectorMeasure, threshold: &str) -> Result<engine::Join<engine::Vectors>> {
        Ok(engine::vector_join(match measure {
            VectorMeasure::Euclidean => VectorPredicate::within(threshold)?,
            VectorMeasure::Cosine => VectorPredicate::cosine(threshold)?,
        }))
    }

    fn read(&self, right: Option<&Self>) -> Result<Collections<engine::Vectors>> {
        let (mut left, left_ids) = self.0.read()?;
        let (mut right, right_ids) = match right.map(|right| right.0.read()).transpose()? {
            None => (None, None),
            Some((right, ids)) => (Some(right), ids),
        };
        let wide = |side: &VectorCollection| matches!(side.elements(), Elements::F64(_));
        // Two precisions are compared in the wider one.
        if let Some(right) = right.as_mut().filter(|right| wide(right) != wide(&left)) {
            let narrow = if wide(&left) { right } else { &mut left };
            *narrow = Arc::new(VectorCollection::clone(narrow).widened());
        }
        Ok(Collections { left, right, ids: [left_ids, right_ids] })
    }

    fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    #[cfg(feature = "io")]
    fn writer<'a>(
        path: &Path,
        [left, right]: [Option<&'a Ids>; 2],
        _with_itself: bool,
    ) -> Result<PairWriter<'a>> {
        PairWriter::create_distances(Some(path), left, right)
    }
}
