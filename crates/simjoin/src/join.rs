//! Which rows are similar?

use crate::decimal::Decimal;
use crate::engine::{self, Control, Engine, Explanation, Purpose, Report};
use crate::input::{Collections, Input, Vectors};
use crate::pairs::Pairs;
use simjoin_core::{Error, Measure, Result, RowPair, Side, VectorMeasure};
use std::ops::ControlFlow;
#[cfg(feature = "io")]
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Begins a join of the rows of one input with each other. Every pair comes once; no row is a pair with itself.
///
/// ```
/// let titles = simjoin::Text::new(["the old man", "old man, the", "the sea"]);
/// assert_eq!(simjoin::self_join(&titles).jaccard(0.8).count()?, 1);
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn self_join<I: Input>(rows: &I) -> Inputs<I> {
    Inputs { left: rows.clone(), right: None }
}

/// Begins a join of the rows of one input with those of another.
///
/// ```
/// let shop = simjoin::Text::new(["red shoe, size 9", "blue hat"]);
/// let order = simjoin::Text::new(["one blue hat"]);
/// let pairs = simjoin::join(&shop, &order).containment(1).collect()?;
/// assert_eq!((pairs[0].left, pairs[0].right, pairs[0].overlap), (1, 0, 2));
/// # Ok::<(), simjoin::Error>(())
/// ```
pub fn join<I: Input>(left: &I, right: &I) -> Inputs<I> {
    Inputs { left: left.clone(), right: Some(right.clone()) }
}

/// One input or two: it remains to say by which measure rows are compared.
///
/// A threshold is a number or its text. A float stands for the decimal number that it prints as. What is not a
/// threshold of the measure is an error when the join is asked for an answer.
///
/// ```
/// let titles = simjoin::Text::new(["the old man", "old man", "the sea"]);
/// let rows = simjoin::self_join(&titles);
/// assert_eq!(rows.clone().jaccard(0.6).count()?, 1);
/// assert_eq!(rows.clone().overlap(1).count()?, 2);
/// assert!(rows.jaccard(-1).count().is_err());
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a join does nothing until it is asked for an answer"]
pub struct Inputs<I: Input> {
    left: I,
    right: Option<I>,
}

impl<I: Input> Inputs<I> {
    fn by(self, measure: I::Measure, threshold: &str) -> Join<I> {
        Join {
            left: self.left,
            right: self.right,
            measure,
            threshold: threshold.into(),
            engine: Engine::Auto,
            technique: engine::AUTO.into(),
            threads: 0,
            memory: u64::MAX,
            device_memory: u64::MAX,
            with_itself: false,
            ready: OnceLock::new(),
        }
    }
}

macro_rules! measures {
    ($join:ty: $($(#[$doc:meta])* $name:ident = $measure:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(self, threshold: impl Decimal) -> $join {
            self.by($measure, &threshold.decimal())
        })*
    };
}

impl<I: Input<Measure = Measure>> Inputs<I> {
    measures! { Join<I>:
        /// Pairs whose common tokens are at least this part of all tokens of the two.
        ///
        /// ```
        /// let sets = simjoin::Sets::new([[1, 2, 3], [2, 3, 4]]);
        /// assert_eq!(simjoin::self_join(&sets).jaccard(0.5).count()?, 1);
        /// assert_eq!(simjoin::self_join(&sets).jaccard("2/3").count()?, 0);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        jaccard = Measure::Jaccard;
        /// Pairs whose common tokens are at least this part of the geometric mean of their sizes.
        ///
        /// ```
        /// // One common token; √(1·4) = 2.
        /// let sets = simjoin::Sets::new([vec![1], vec![1, 2, 3, 4]]);
        /// assert_eq!(simjoin::self_join(&sets).cosine(0.5).count()?, 1);
        /// assert_eq!(simjoin::self_join(&sets).cosine(0.51).count()?, 0);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        cosine = Measure::Cosine;
        /// Pairs whose common tokens are at least this part of the mean of their sizes.
        ///
        /// ```
        /// // Three common tokens; (3 + 5) / 2 = 4.
        /// let sets = simjoin::Sets::new([vec![1, 2, 3], vec![1, 2, 3, 4, 5]]);
        /// assert_eq!(simjoin::self_join(&sets).dice(0.75).count()?, 1);
        /// assert_eq!(simjoin::self_join(&sets).dice(0.76).count()?, 0);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        dice = Measure::Dice;
        /// Pairs with at least this number of common tokens.
        ///
        /// ```
        /// let sets = simjoin::Sets::new([vec![1, 2, 3], vec![1, 2, 4, 5, 6]]);
        /// assert_eq!(simjoin::self_join(&sets).overlap(2).count()?, 1);
        /// assert_eq!(simjoin::self_join(&sets).overlap(3).count()?, 0);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        overlap = Measure::Overlap;
        /// Pairs whose common tokens are at least this part of the smaller set.
        ///
        /// ```
        /// let sets = simjoin::Sets::new([vec![1, 2], vec![1, 2, 3, 4]]);
        /// assert_eq!(simjoin::self_join(&sets).containment(1).count()?, 1);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        containment = Measure::Containment;
    }
}

impl Inputs<Vectors> {
    measures! { Join<Vectors>:
        /// Pairs of vectors within a Euclidean distance.
        ///
        /// ```
        /// let points = simjoin::Vectors::new([0.0, 0.25, 1.0], 1)?;
        /// assert_eq!(simjoin::self_join(&points).within(0.25).count()?, 1);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        within = VectorMeasure::Euclidean;
        /// Pairs of vectors of at least this cosine.
        ///
        /// ```
        /// let arrows = simjoin::Vectors::from_rows([[1.0, 0.0], [5.0, 0.0], [1.0, 1.0]])?;
        /// assert_eq!(simjoin::self_join(&arrows).cosine(1).count()?, 1);
        /// assert_eq!(simjoin::self_join(&arrows).cosine(0.7).count()?, 3);
        /// # Ok::<(), simjoin::Error>(())
        /// ```
        cosine = VectorMeasure::Cosine;
    }
}

/// A join: which rows are similar, and how that is found out.
///
/// Inputs are read and prepared for the first answer, and kept for others. Every answer runs the join anew.
///
/// ```
/// let titles = simjoin::Text::new(["the old man", "old man, the", "the sea"]);
/// let join = simjoin::self_join(&titles).jaccard(0.8).threads(2).memory(1 << 30);
/// println!("{}", join.explain()?);
/// assert_eq!(join.groups()?, [0, 0, 2]);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a join does nothing until it is asked for an answer"]
pub struct Join<I: Input> {
    left: I,
    right: Option<I>,
    measure: I::Measure,
    threshold: String,
    engine: Engine,
    technique: String,
    threads: usize,
    memory: u64,
    device_memory: u64,
    with_itself: bool,
    ready: OnceLock<Arc<Collections<I::Kind>>>,
}

/// Checks a number of threads; 0 stands for the rayon pool that the caller is in.
fn threads(wanted: usize) -> Result<usize> {
    if wanted == 0 { Ok(0) } else { engine::threads(Some(wanted)) }
}

/// A join as the engine knows it, and its inputs.
type Prepared<K> = (engine::Join<K>, Arc<Collections<K>>);

impl<I: Input<Measure = Measure>> Join<I> {
    /// In a join of two inputs, also joins the right one with itself: new records with old ones and with each other,
    /// while old records never meet old ones. [`Pair::left_input`](crate::Pair::left_input) tells the pairs apart.
    ///
    /// ```
    /// let (old, new) = (simjoin::Text::new(["a b"]), simjoin::Text::new(["a b", "b a"]));
    /// assert_eq!(simjoin::join(&old, &new).jaccard(1).with_itself(true).count()?, 3);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn with_itself(mut self, also: bool) -> Self {
        self.with_itself = also;
        self
    }
}

impl<I: Input> Join<I> {
    /// Chooses where the join runs; by default wherever it is fastest.
    ///
    /// ```
    /// use simjoin::Engine;
    ///
    /// let sets = simjoin::Sets::new([[1, 2], [2, 1]]);
    /// let report = simjoin::self_join(&sets).jaccard(1).engine(Engine::Cpu).report()?;
    /// assert_eq!((report.pairs, report.engine), (1, Engine::Cpu));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Chooses the technique by name, such as `ppjoin` or `bitmap:256`; by default the one that is fastest.
    ///
    /// ```
    /// let sets = simjoin::Sets::new([[1, 2, 3], [2, 3, 4]]);
    /// let join = simjoin::self_join(&sets).jaccard(0.5);
    /// assert_eq!(join.clone().technique("bitmap:256").report()?.technique, "bitmap");
    /// let error = join.technique("magic").count().unwrap_err();
    /// assert!(error.to_string().contains("expected one of auto, prefix-bitmap"));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Runs on a pool of this many threads, at most 1,024; 0 for the rayon pool that the caller is in, which is one
    /// thread for each core.
    ///
    /// ```
    /// let sets = simjoin::Sets::new([[1, 2], [2, 1]]);
    /// assert_eq!(simjoin::self_join(&sets).jaccard(1).threads(2).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that the join takes in addition to the inputs and to collected answers.
    ///
    /// ```
    /// let sets = simjoin::Sets::new([[1, 2], [2, 1]]);
    /// let join = simjoin::self_join(&sets).jaccard(1);
    /// assert_eq!(join.memory(64 << 20).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Bounds the memory, in bytes, that the join takes on each GPU; by default almost all that is free.
    ///
    /// ```
    /// let sets = simjoin::Sets::new([[1, 2], [2, 1]]);
    /// assert_eq!(simjoin::self_join(&sets).jaccard(1).device_memory(1 << 30).count()?, 1);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.device_memory = bytes;
        self
    }

    /// Counts the pairs.
    ///
    /// ```
    /// let sets = simjoin::Sets::new(vec![[1, 2]; 1000]);
    /// assert_eq!(simjoin::self_join(&sets).jaccard(1).count()?, 499_500);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn count(&self) -> Result<u64> {
        self.report().map(|report| report.pairs)
    }

    /// Counts the pairs, and tells how the join went: techniques, candidates, seconds, warnings.
    ///
    /// ```
    /// let sets = simjoin::Sets::new([[1, 2, 3], [2, 3, 4]]);
    /// let report = simjoin::self_join(&sets).jaccard(0.5).technique("ppjoin").report()?;
    /// assert_eq!((report.pairs, &*report.technique, report.warnings.len()), (1, "ppjoin", 0));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn report(&self) -> Result<Report> {
        let (join, ready) = self.prepared()?;
        join.count(&ready.left, ready.right.as_deref(), &Control::default())
    }

    /// Collects all pairs. Their order is that of the technique and is the same for any number of threads; on a GPU
    /// it is any.
    ///
    /// ```
    /// let titles = simjoin::Text::new(["the sea", "Emma", "The Sea!"]);
    /// let pairs = simjoin::self_join(&titles).jaccard(0.8).collect()?;
    /// assert_eq!((pairs.len(), pairs[0].left, pairs[0].right), (1, 0, 2));
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn collect(&self) -> Result<Vec<I::Pair>> {
        let (mut all, mut failure) = (Vec::new(), None);
        self.batches(|rows| match all.try_reserve(rows.len()) {
            Ok(()) => {
                all.extend(rows.iter().map(|&row| I::Pair::from(row)));
                ControlFlow::Continue(())
            }
            Err(_) => {
                let size = size_of::<I::Pair>() as u64;
                let (needed, limit) = (all.len() + rows.len(), all.len());
                let what = "collecting the pairs".into();
                let (needed, limit) = (needed as u64 * size, limit as u64 * size);
                failure = Some(Error::Memory { what, needed, limit, device: false });
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(all), Err)
    }

    /// Calls `take` with every pair, until it answers `Break`.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// let sets = simjoin::Sets::new(vec![[1, 2]; 1000]);
    /// let mut seen = 0;
    /// simjoin::self_join(&sets).jaccard(1).each(|_| {
    ///     seen += 1;
    ///     if seen < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// })?;
    /// assert_eq!(seen, 10);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn each(&self, mut take: impl FnMut(I::Pair) -> ControlFlow<()> + Send) -> Result<Report> {
        self.batches(|rows| rows.iter().try_for_each(|&row| take(row.into())))
    }

    /// Returns an iterator over all pairs, which the join finds on threads of its own, a bounded number of pairs
    /// ahead. Dropping the iterator stops the join.
    ///
    /// ```
    /// let sets = simjoin::Sets::new(vec![[1, 2]; 1000]);
    /// let ten = simjoin::self_join(&sets).jaccard(1).iter().take(10);
    /// assert_eq!(ten.collect::<simjoin::Result<Vec<_>>>()?.len(), 10);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn iter(&self) -> Pairs<I> {
        // Threads that wait for the reader of the iterator must not be those that it may work on.
        let threads = engine::threads(Some(self.threads).filter(|&threads| threads > 0));
        let join = threads.map(|threads| self.clone().threads(threads));
        Pairs::start(move |control, take| {
            let (join, ready) = join?.prepared()?;
            join.pairs(&ready.left, ready.right.as_deref(), control, take)
        })
    }

    /// Finds groups: rows that are connected by pairs. Returns for each row of a self-join the smallest row number of
    /// its group.
    ///
    /// ```
    /// let titles = simjoin::Text::new(["the sea", "Emma", "The Sea!", "emma"]);
    /// assert_eq!(simjoin::self_join(&titles).jaccard(0.8).groups()?, [0, 1, 0, 1]);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn groups(&self) -> Result<Vec<u32>> {
        if self.right.is_some() {
            let message = "groups are those of one input; two were given";
            return Err(Error::Config(message.into()));
        }
        let (join, ready) = self.prepared()?;
        join.groups(&ready.left, &Control::default()).map(|(groups, _)| groups)
    }

    /// Tells how the join would run: what was considered, what was chosen, and what to expect.
    ///
    /// ```
    /// let titles = simjoin::Text::new(["the sea", "Emma", "The Sea!"]);
    /// println!("{}", simjoin::self_join(&titles).jaccard(0.8).explain()?);
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn explain(&self) -> Result<Explanation> {
        let (join, ready) = self.prepared()?;
        Ok(join.plan(&ready.left, ready.right.as_deref(), Purpose::Pairs)?.explain())
    }

    /// Returns the id of a row, if its input has a column of ids. It is known after the first answer.
    ///
    /// ```
    /// # #[cfg(feature = "io")] {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("titles.csv");
    /// std::fs::write(&path, "isbn,title\n17,The Sea\n18,the sea!\n").unwrap();
    /// let titles = simjoin::Text::from_file(&path).column("title").id("isbn");
    /// let join = simjoin::self_join(&titles).jaccard(1);
    /// for pair in join.collect()? {
    ///     assert_eq!(join.id(simjoin::Side::Left, pair.left), Some("17"));
    /// }
    /// # }
    /// # Ok::<(), simjoin::Error>(())
    /// ```
    pub fn id(&self, side: Side, row: u32) -> Option<&str> {
        let ids = &self.ready.get()?.ids;
        let right = side == Side::Right && self.right.is_some();
        let ids = ids[usize::from(right)].as_ref()?;
        ((row as usize) < ids.len()).then(|| ids.get(row as usize))
    }

    /// Writes all pairs to a file: `.tsv`, `.csv`, `.jsonl` (each also with `.gz` or `.zst`), `.parquet` or `.arrow`.
    /// It appears under its name when it is complete. Rows go by their ids where they have some.
    ///
    /// ```
    /// let titles = simjoin::Text::new(["the sea", "Emma", "The Sea!"]);
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pairs.tsv");
    /// simjoin::self_join(&titles).jaccard(0.8).write(&path)?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "left\tright\toverlap\tsimilarity\n0\t2\t2\t1\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "io")]
    pub fn write(&self, path: impl AsRef<Path>) -> Result<Report> {
        let path = path.as_ref();
        let inputs = [Some(&self.left), self.right.as_ref()].into_iter().flatten();
        let inputs: Vec<&Path> = inputs.filter_map(|input| input.path()).collect();
        simjoin_io::check_outputs(&inputs, &[("the output", path)])?;
        let (join, ready) = self.prepared()?;
        let [left, right] = [0, 1].map(|side| ready.ids[side].as_ref());
        let right = if self.right.is_some() { right } else { left };
        let mut writer = I::writer(path, [left, right], self.with_itself)?;
        let mut failure = None;
        let take = |rows: &[RowPair]| match writer.write(rows) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let report = join.pairs(&ready.left, ready.right.as_deref(), &Control::default(), take)?;
        failure.map_or(Ok(()), Err)?;
        writer.finish()?;
        Ok(report)
    }

    fn batches(&self, take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send) -> Result<Report> {
        let (join, ready) = self.prepared()?;
        join.pairs(&ready.left, ready.right.as_deref(), &Control::default(), take)
    }

    /// Returns the join as the engine knows it, and its inputs, which are read once.
    fn prepared(&self) -> Result<Prepared<I::Kind>> {
        let threads = threads(self.threads)?;
        let join = I::join(self.measure, &self.threshold)?
            .engine(self.engine)
            .technique(&self.technique)
            .threads(threads)
            .memory(self.memory)
            .device_memory(self.device_memory)
            .with_itself(self.with_itself);
        join.check()?;
        if let Some(ready) = self.ready.get() {
            return Ok((join, ready.clone()));
        }
        let read = || self.left.read(self.right.as_ref());
        let ready = match threads {
            0 => read(),
            threads => engine::pool(threads)?.install(read),
        }?;
        Ok((join, self.ready.get_or_init(|| Arc::new(ready)).clone()))
    }
}

impl<I: Input> IntoIterator for &Join<I> {
    type Item = Result<I::Pair>;
    type IntoIter = Pairs<I>;

    fn into_iter(self) -> Pairs<I> {
        self.iter()
    }
}
