//! How far has the run come?
//!
//! A terminal shows a bar for every phase that takes over a second; a pipe and `--quiet` show none. A thread reads
//! the counters of the current phase ten times a second; the work never waits for it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs `work` while showing `label` and the progress. `progress` returns the work that is done and the total, which is
/// 0 if it is unknown.
pub fn watch<T>(
    quiet: bool,
    label: &'static str,
    template: &str,
    progress: impl Fn() -> (u64, u64) + Send,
    work: impl FnOnce() -> T,
) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return work();
    }
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ");
    let unknown = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    std::thread::scope(|scope| {
        let (done, finished) = channel::<()>();
        let show = move || {
            // The bar measures from the start, but is hidden for the first second.
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            bar.set_message(label);
            let begin = Instant::now();
            while finished.recv_timeout(Duration::from_millis(100))
                == Err(RecvTimeoutError::Timeout)
            {
                let (position, total) = progress();
                let known = is_known(position, total);
                bar.set_style(if known { style.clone() } else { unknown.clone() });
                bar.set_length(total.max(position));
                bar.set_position(position);
                if bar.is_hidden() && begin.elapsed() >= Duration::from_secs(1) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.tick();
            }
            bar.finish_and_clear();
        };
        // If no thread can be started, there is no bar.
        let _ = std::thread::Builder::new().spawn_scoped(scope, show);
        let result = work();
        drop(done);
        result
    })
}

/// Returns whether the remaining time can be estimated: only after the first part, and with a known total.
fn is_known(done: u64, total: u64) -> bool {
    done > 0 && total > 0
}

/// The template for phases measured in bytes.
pub const BYTES: &str =
    "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {elapsed} (left: {eta})";
/// The template for phases measured in parts.
pub const PARTS: &str = "{msg} {bar:30} {percent}% {elapsed} (left: {eta})";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_unknown_until_something_is_done() {
        assert!(!is_known(0, 100) && !is_known(5, 0) && is_known(1, 100));
    }
}
