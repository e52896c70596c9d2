//! How do pairs come to a reader who asks for them one by one?

use crate::engine::{Control, Report};
use crate::input::Input;
use simjoin_core::{Error, Result, RowPair};
use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Batches that may wait to be read.
const AHEAD: usize = 4;

/// Takes batches of pairs.
type Take<'t> = &'t mut (dyn FnMut(&[RowPair]) -> ControlFlow<()> + Send);

/// An iterator over the pairs of a join; see [`Join::iter`](crate::Join::iter). After an error there is nothing more.
///
/// ```
/// let titles = simjoin::Text::new(["the sea", "The Sea!", "Emma"]);
/// let join = simjoin::self_join(&titles).jaccard(0.8);
/// for pair in &join {
///     let pair = pair?;
///     assert_eq!((pair.left, pair.right), (0, 1));
/// }
/// # Ok::<(), simjoin::Error>(())
/// ```
pub struct Pairs<I: Input> {
    batches: Option<Receiver<Vec<RowPair>>>,
    batch: std::vec::IntoIter<RowPair>,
    thread: Option<JoinHandle<Result<Report>>>,
    failure: Option<Error>,
    control: Arc<Control>,
    input: std::marker::PhantomData<fn() -> I>,
}

impl<I: Input> Pairs<I> {
    pub(crate) fn start(
        run: impl FnOnce(&Control, Take<'_>) -> Result<Report> + Send + 'static,
    ) -> Self {
        let (send, batches) = sync_channel(AHEAD);
        let control = Arc::new(Control::default());
        let shared = control.clone();
        let work = move || {
            run(&shared, &mut |rows| match send.send(rows.to_vec()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        };
        let (thread, failure) = match Builder::new().name("simjoin".into()).spawn(work) {
            Ok(thread) => (Some(thread), None),
            Err(error) => {
                (None, Some(Error::Unavailable(format!("cannot start a thread: {error}"))))
            }
        };
        let (batch, input) = (Vec::new().into_iter(), std::marker::PhantomData);
        Pairs { batches: Some(batches), batch, thread, failure, control, input }
    }

    /// Waits for the join, which has nothing more to send, and returns its error.
    fn end(&mut self) -> Option<Error> {
        self.batches = None;
        match self.thread.take()?.join() {
            Ok(result) => result.err(),
            Err(_) => Some(Error::Internal("a join panicked".into())),
        }
    }
}

impl<I: Input> Iterator for Pairs<I> {
    type Item = Result<I::Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.batch.next() {
                return Some(Ok(row.into()));
            }
            match self.batches.as_ref().and_then(|batches| batches.recv().ok()) {
                Some(batch) => self.batch = batch.into_iter(),
                None => return self.end().or_else(|| self.failure.take()).map(Err),
            }
        }
    }
}

impl<I: Input> FusedIterator for Pairs<I> {}

impl<I: Input> Drop for Pairs<I> {
    /// Stops the join, and waits until its threads have ended.
    fn drop(&mut self) {
        self.control.stop();
        self.end();
    }
}

impl<I: Input> fmt::Debug for Pairs<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pairs").finish_non_exhaustive()
    }
}
