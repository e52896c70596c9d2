//! Who deals with memory that the system refuses?
//!
//! A program may end with a message as soon as an allocation is refused, because few callers can go on. A fallible
//! reservation is made within [`handled`], so that the program leaves the refusal to its caller.

use std::cell::Cell;

thread_local! {
    static HANDLED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that handles a refused allocation itself.
pub fn handled<T>(work: impl FnOnce() -> T) -> T {
    let before = HANDLED.replace(true);
    let result = work();
    HANDLED.set(before);
    result
}

/// Returns whether the calling thread handles a refused allocation itself.
pub fn is_handled() -> bool {
    HANDLED.try_with(Cell::get).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_handled_within_the_work_only() {
        assert!(!is_handled());
        assert!(handled(|| handled(is_handled) && is_handled()));
        assert!(!is_handled());
    }
}
