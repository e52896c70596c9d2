//! Where are allocations placed, so that every access beyond one is detected?
//!
//! A large range of addresses is reserved, and allocations are placed in it one after the other. Each has its
//! own pages and ends (up to an alignment of 16 bytes) at a guard page, which cannot be accessed. Freed
//! memory becomes guard pages too, and its addresses are not reused until the whole range is used up.
//!
//! New memory is poisoned. Larger allocations are private mappings of one file of poison, so that memory that
//! is never accessed costs nothing. For the same reason, larger parts that are set to zero are mapped anew.

use std::collections::BTreeMap;
use std::ptr::null_mut;

/// The owner of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Device(usize),
    /// Pinned memory of the host.
    Host,
}

/// An allocation.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) owner: Owner,
    pub(super) bytes: usize,
    /// The start and the bytes of its pages.
    pages: usize,
    mapped: usize,
    /// Whether it can be used: its stream has reached the allocation.
    pub(super) ready: bool,
    /// Whether it will be freed, so that no call may use it any more.
    pub(super) freeing: bool,
    /// Whether it belongs to a pool.
    pub(super) pooled: bool,
    /// Whether its pages are accessible now.
    open: bool,
}

/// The address space of all memory.
#[derive(Default)]
pub(super) struct Space {
    base: usize,
    size: usize,
    next: usize,
    live: BTreeMap<usize, Allocation>,
    /// Freed allocations, for messages.
    dead: BTreeMap<usize, Allocation>,
    poison: Option<i32>,
}

const PAGE: usize = 4096;
/// The smallest allocation that is mapped from the file of poison, and the size of that file.
const LARGE: usize = 64 << 10;
const POISON_FILE: usize = 1 << 20;
/// The bytes at even and at odd addresses; as in device/machine.h.
const POISON: [u8; 2] = [0xc3, 0xff];
/// The number of freed allocations that are remembered.
const REMEMBERED: usize = 100_000;

fn poison(bytes: &mut [u8]) {
    // Copy the finished part, which doubles each time.
    let mut done = bytes.len().min(2);
    bytes[..done].copy_from_slice(&POISON[..done]);
    while done < bytes.len() {
        let more = done.min(bytes.len() - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}

fn is_poison(address: usize, byte: u8) -> bool {
    byte == POISON[address & 1]
}

/// Maps pages at a fixed place of the reserved range.
fn map(at: usize, bytes: usize, protection: i32, flags: i32, file: i32) -> bool {
    let to = std::ptr::without_provenance_mut(at);
    // SAFETY: the range is reserved, and nobody uses earlier mappings there any more.
    let mapped = unsafe {
        libc::mmap(to, bytes, protection, flags | libc::MAP_PRIVATE | libc::MAP_FIXED, file, 0)
    };
    mapped != libc::MAP_FAILED
}

impl Space {
    /// Returns the bytes at an address; the range must be mapped and readable.
    fn bytes(&mut self, at: usize, count: usize) -> &mut [u8] {
        // SAFETY: guaranteed by the caller; the driver's lock is held, and kernels do not run.
        unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(at), count) }
    }

    fn reserve(&mut self) -> bool {
        // As much as possible, up to 16 TB.
        let mut size = 16usize << 40;
        while size >= 1 << 36 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: this is a new range of addresses without access.
            let base = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
            if base != libc::MAP_FAILED {
                (self.base, self.size) = (base.expose_provenance(), size);
                self.next = self.base + PAGE;
                return true;
            }
            size /= 2;
        }
        false
    }

    /// Returns a place for pages of this size, with a guard page after them.
    fn place(&mut self, mapped: usize) -> Option<usize> {
        if self.size == 0 && !self.reserve() {
            return None;
        }
        for _ in 0..2 {
            // Skip live allocations, after the range was used up once.
            while let Some((_, other)) =
                self.live.range(self.next..self.next + mapped + PAGE).next()
            {
                self.next = other.pages + other.mapped + PAGE;
            }
            if self.next + mapped + PAGE <= self.base + self.size {
                let at = self.next;
                self.next += mapped + PAGE;
                return Some(at);
            }
            self.next = self.base + PAGE;
        }
        None
    }

    /// Returns the file that is full of poison.
    fn poison_file(&mut self) -> Option<i32> {
        if self.poison.is_none() {
            // SAFETY: the name ends with a zero byte.
            let file = unsafe { libc::memfd_create(c"poison".as_ptr(), libc::MFD_CLOEXEC) };
            let mut bytes = vec![0; POISON_FILE];
            poison(&mut bytes);
            let mut written = 0;
            while written < bytes.len() {
                let rest = &bytes[written..];
                // SAFETY: the bytes are alive.
                let count = unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) };
                written += usize::try_from(count).ok().filter(|&count| count > 0)?;
            }
            self.poison = Some(file);
        }
        self.poison
    }

    /// Allocates poisoned memory. Returns its address, or `None` if the machine has no more memory.
    pub(super) fn allocate(&mut self, owner: Owner, bytes: usize, pooled: bool) -> Option<usize> {
        let whole = bytes.next_multiple_of(16);
        let mapped = whole.next_multiple_of(PAGE);
        let pages = self.place(mapped)?;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        if mapped < LARGE {
            if !map(pages, mapped, both, libc::MAP_ANONYMOUS, -1) {
                return None;
            }
            poison(self.bytes(pages, mapped));
        } else {
            let file = self.poison_file()?;
            for from in (0..mapped).step_by(POISON_FILE) {
                let part = POISON_FILE.min(mapped - from);
                if !map(pages + from, part, both, libc::MAP_NORESERVE, file) {
                    return None;
                }
            }
        }
        let at = pages + mapped - whole;
        while let Some((&old, _)) = self.dead.range(pages..pages + mapped).next() {
            self.dead.remove(&old);
        }
        let allocation = Allocation {
            owner,
            bytes,
            pages,
            mapped,
            ready: true,
            freeing: false,
            pooled,
            open: true,
        };
        self.live.insert(at, allocation);
        Some(at)
    }

    /// Frees memory. Returns an error if the bytes around it were overwritten.
    pub(super) fn free(&mut self, at: usize) -> Result<Allocation, String> {
        let Some(allocation) = self.live.remove(&at) else {
            return Err(format!("{at:#x} is not an allocation"));
        };
        if !allocation.open {
            self.protect(&allocation, true);
        }
        // The bytes before and after it in the same pages.
        let end = at + allocation.bytes;
        let surroundings = [allocation.pages..at, end..allocation.pages + allocation.mapped];
        for range in surroundings {
            let found = self.bytes(range.start, range.len());
            let wrong =
                (range.start..).zip(found).find(|(address, byte)| !is_poison(*address, **byte));
            if let Some((address, _)) = wrong {
                let bytes = allocation.bytes;
                let side = if address < at { "before" } else { "beyond the end of" };
                return Err(format!(
                    "something wrote to {address:#x}, {side} an allocation of {bytes} bytes at {at:#x}"
                ));
            }
        }
        map(
            allocation.pages,
            allocation.mapped,
            libc::PROT_NONE,
            libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        );
        while self.dead.len() >= REMEMBERED {
            self.dead.pop_first();
        }
        self.dead.insert(at, allocation.clone());
        Ok(allocation)
    }

    /// Sets the whole pages of a range of device memory to zero if there are many. Returns the ranges before
    /// and after them that remain to be set.
    pub(super) fn zero_pages(&self, at: usize, bytes: usize) -> [std::ops::Range<usize>; 2] {
        let (from, to) = (at.next_multiple_of(PAGE), (at + bytes) / PAGE * PAGE);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let can = self.find(at).is_some_and(|(_, allocation)| allocation.open && allocation.ready);
        if can && to >= from + LARGE && map(from, to - from, both, libc::MAP_ANONYMOUS, -1) {
            return [at..from, to..at + bytes];
        }
        [at..at + bytes, at + bytes..at + bytes]
    }

    fn protect(&self, allocation: &Allocation, open: bool) {
        let protection = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        // SAFETY: the pages belong to the allocation, and nobody holds a reference to them.
        unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(allocation.pages),
                allocation.mapped,
                protection,
            );
        }
    }

    /// Makes the allocations that `wanted` accepts accessible, and the others inaccessible.
    pub(super) fn open(&mut self, wanted: impl Fn(&Allocation) -> bool) {
        let mut live = std::mem::take(&mut self.live);
        for allocation in live.values_mut() {
            let open = wanted(allocation);
            if allocation.open != open {
                self.protect(allocation, open);
                allocation.open = open;
            }
        }
        self.live = live;
    }

    /// Makes one allocation accessible or inaccessible.
    pub(super) fn open_one(&mut self, at: usize, open: bool) {
        if let Some(allocation) = self.live.get(&at).cloned() {
            if allocation.open != open {
                self.protect(&allocation, open);
            }
            if let Some(allocation) = self.live.get_mut(&at) {
                allocation.open = open;
            }
        }
    }

    /// Returns the allocation that begins at an address.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Allocation> {
        self.live.get_mut(&at)
    }

    /// Returns the allocation that contains an address, and its start.
    pub(super) fn find(&self, address: usize) -> Option<(usize, &Allocation)> {
        let (&at, allocation) = self.live.range(..=address).next_back()?;
        (address < at + allocation.bytes.max(1)).then_some((at, allocation))
    }

    /// Returns whether host memory is pinned.
    pub(super) fn is_pinned(&self, address: usize) -> bool {
        self.find(address).is_some_and(|(_, allocation)| allocation.owner == Owner::Host)
    }

    /// Describes an address, for messages.
    pub(super) fn describe(&self, address: usize) -> String {
        let of = |at: usize, allocation: &Allocation| {
            let whose = match allocation.owner {
                Owner::Device(device) => format!("device {device}"),
                Owner::Host => "pinned host memory".into(),
            };
            format!("an allocation of {} bytes at {at:#x} ({whose})", allocation.bytes)
        };
        if let Some((at, allocation)) = self.find(address) {
            let what = of(at, allocation);
            return if allocation.ready {
                format!("byte {} of {what}", address - at)
            } else {
                format!("byte {} of {what}, which its stream has not reached", address - at)
            };
        }
        let freed = self.dead.range(..=address).next_back();
        if let Some((&at, allocation)) = freed
            && address < at + allocation.bytes
        {
            return format!(
                "byte {} of {}, which has been freed",
                address - at,
                of(at, allocation)
            );
        }
        // Relative to the nearest allocation.
        let before = self.live.range(..=address).next_back();
        let after = self.live.range(address..).next();
        let near = |distance: usize| distance < 1 << 30;
        if let Some((&at, allocation)) = before
            && near(address - at - allocation.bytes)
        {
            let beyond = address - at - allocation.bytes;
            return format!("{beyond} bytes beyond the end of {}", of(at, allocation));
        }
        match after {
            Some((&at, allocation)) if near(at - address) => {
                format!("{} bytes before {}", at - address, of(at, allocation))
            }
            _ if address < 1 << 20 => "near null".into(),
            _ => "in no allocation".into(),
        }
    }

    /// Returns whether an address is in the reserved range.
    pub(super) fn contains(&self, address: usize) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_end_at_guard_pages_and_begin_as_poison() {
        let mut space = Space::default();
        for bytes in [1, 16, 100, 4096, 5000, 3 << 20] {
            let at = space.allocate(Owner::Device(0), bytes, false).unwrap();
            assert_eq!(at % 16, 0);
            assert_eq!((at + bytes).next_multiple_of(16) % PAGE, 0, "{bytes} bytes");
            let found = space.bytes(at, bytes);
            assert!((at..).zip(found.iter()).all(|(at, &byte)| is_poison(at, byte)));
            found.fill(1);
            assert!(space.free(at).is_ok());
        }
    }

    #[test]
    fn writes_outside_an_allocation_are_reported_when_it_is_freed() {
        let mut space = Space::default();
        let at = space.allocate(Owner::Host, 100, false).unwrap();
        space.bytes(at, 101)[100] = 0;
        let why = space.free(at).unwrap_err();
        assert!(why.contains("beyond the end of an allocation of 100 bytes"), "{why}");
        let at = space.allocate(Owner::Host, 100, false).unwrap();
        space.bytes(at - 1, 1)[0] = 0;
        assert!(space.free(at).unwrap_err().contains("before an allocation"));
        assert!(space.free(at).unwrap_err().contains("is not an allocation"));
    }

    #[test]
    fn addresses_are_described() {
        let mut space = Space::default();
        let first = space.allocate(Owner::Device(1), 64, false).unwrap();
        let second = space.allocate(Owner::Host, 64, false).unwrap();
        assert!(space.is_pinned(second + 63) && !space.is_pinned(first));
        assert!(space.describe(first + 3).starts_with("byte 3 of an allocation of 64 bytes"));
        assert!(space.describe(first + 64).starts_with("0 bytes beyond the end of"));
        assert!(space.describe(first - 8).starts_with("8 bytes before"));
        space.free(first).unwrap();
        assert!(space.describe(first + 3).ends_with("which has been freed"));
    }
}
