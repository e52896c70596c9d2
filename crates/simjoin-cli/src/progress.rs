//! How far is it?
//!
//! A bar on a terminal for anything over a second; nothing when piped or quiet. A thread looks at
//! the counters of the phase at hand ten times a second; the work itself never waits for it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs `work` while showing `label` and what `progress` reports as (done, total). A total of 0
/// means that the end is not known.
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
        scope.spawn(move || {
            let begin = Instant::now();
            let mut bar: Option<ProgressBar> = None;
            while finished.recv_timeout(Duration::from_millis(100))
                == Err(RecvTimeoutError::Timeout)
            {
                if begin.elapsed() < Duration::from_secs(1) {
                    continue;
                }
                let (position, total) = progress();
                let style = if total == 0 { &unknown } else { &style };
                let bar = bar.get_or_insert_with(|| {
                    let bar =
                        ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
                    bar.set_message(label);
                    bar
                });
                bar.set_style(style.clone());
                bar.set_length(total.max(position));
                bar.set_position(position);
                bar.tick();
            }
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// For phases measured in bytes.
pub const BYTES: &str =
    "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {elapsed} (left: {eta})";
/// For phases measured in parts.
pub const PARTS: &str = "{msg} {bar:30} {percent}% {elapsed} (left: {eta})";
