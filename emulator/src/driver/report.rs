//! How are errors reported?
//!
//! A message names the error, the kernel, block and thread, and the line of the source; then the process
//! aborts. Errors come from the checks of the driver ([`misuse`]), from the checks of the running kernel
//! ([`fail`]), or from the signal of an access to a guard page.

use super::launch::{MachineMemory, Place};
use super::space::Space;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A running kernel.
pub(super) struct RunningKernel<'a> {
    pub(super) name: &'a str,
    pub(super) grid: (u32, u32, u32),
    pub(super) block: u64,
    pub(super) source: &'a str,
    pub(super) place: extern "C" fn(*mut Place),
    /// The file descriptor of its module's library.
    pub(super) library: c_int,
    pub(super) machine: &'a MachineMemory,
}

/// The work that a device is doing.
enum Activity<'a> {
    Kernel(RunningKernel<'a>),
    Other(&'a dyn Fn() -> String),
}

struct Running<'a> {
    thread: libc::pthread_t,
    space: &'a Space,
    device: usize,
    activity: Activity<'a>,
}

/// The current work, on the stack of the thread that runs it.
static RUNNING: AtomicPtr<Running<'static>> = AtomicPtr::new(null_mut());

/// Ends the process because of a wrong call of the driver.
pub(super) fn misuse(why: &str) -> ! {
    say(&format!("emulated device: {why}"));
    std::process::abort()
}

/// Prints a message, even if another thread has locked standard error.
fn say(message: &str) {
    let text = format!("{message}\n");
    // SAFETY: the text is alive.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Does something with the memory of a device. An impossible access is reported with the description `what`.
pub(super) fn guarded(space: &Space, device: usize, what: &dyn Fn() -> String, run: impl FnOnce()) {
    watch(space, device, Activity::Other(what), run);
}

/// Runs a kernel.
pub(super) fn guarded_kernel(
    space: &Space,
    device: usize,
    kernel: RunningKernel<'_>,
    run: impl FnOnce(),
) {
    watch(space, device, Activity::Kernel(kernel), run);
}

fn watch(space: &Space, device: usize, activity: Activity<'_>, run: impl FnOnce()) {
    // SAFETY: it returns the calling thread.
    let thread = unsafe { libc::pthread_self() };
    let mut running = Running { thread, space, device, activity };
    let _stack = SignalStack::new();
    RUNNING.store((&raw mut running).cast(), Ordering::Release);
    run();
    RUNNING.store(null_mut(), Ordering::Release);
}

/// Returns the work that runs in this thread, if any.
fn running() -> Option<&'static Running<'static>> {
    // SAFETY: it lives until the end of the launch, and this is called during the launch.
    let running = unsafe { RUNNING.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: it returns the calling thread.
    (running.thread == unsafe { libc::pthread_self() }).then_some(running)
}

/// Describes a running kernel, its position, and the line of its source.
fn place(kernel: &RunningKernel<'_>, line: Option<u32>) -> String {
    let mut place = Place::default();
    (kernel.place)(&raw mut place);
    let mut text = String::new();
    let grid = u64::from(kernel.grid.0) * u64::from(kernel.grid.1) * u64::from(kernel.grid.2);
    let _ = write!(text, "\n  kernel `{}`, block {} of {grid}", kernel.name, place.block);
    if place.inside != 0 {
        let _ = write!(text, ", thread {} of {}", place.thread, kernel.block);
    }
    let at = line.unwrap_or(place.line);
    if at == 0 {
        return text + ", before its first barrier or warp operation";
    }
    // SAFETY: the text ends with a zero byte and lives as long as the module.
    let what = place.what.map(|what| unsafe { CStr::from_ptr(what.as_ptr()) }.to_string_lossy());
    let what = what.filter(|_| at == place.line).map_or(String::new(), |what| format!(" ({what})"));
    let how = if line.is_some() { "at" } else { "last at" };
    let _ = write!(text, ", {how} line {at}{what}");
    if let Some(line) = kernel.source.lines().nth(at as usize - 1) {
        let _ = write!(text, "\n  {at} | {}", line.trim_end());
    }
    text
}

/// Ends the process because of an error of a kernel; called by the device's code.
pub(super) extern "C" fn fail(message: *const c_char, line: u32) {
    // SAFETY: the device passes a text that ends with a zero byte.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let mut text = format!("emulated device: {message}");
    if let Some(Running { activity: Activity::Kernel(kernel), .. }) = running() {
        text.push_str(&place(kernel, Some(line)));
    }
    say(&text);
    std::process::abort()
}

/// A stack for the signal handler, since the running one may be exhausted.
struct SignalStack {
    before: libc::stack_t,
}

impl SignalStack {
    fn new() -> Self {
        thread_local! {
            static OWN: Box<[MaybeUninit<u8>]> = Box::new_uninit_slice(1 << 16);
        }
        let at = OWN.with(|own| own.as_ptr().cast_mut());
        let own = libc::stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: 1 << 16 };
        let mut before = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the memory belongs to this thread, and the old stack is restored before it is freed.
        unsafe { libc::sigaltstack(&raw const own, &raw mut before) };
        SignalStack { before }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: this restores the earlier stack.
        unsafe { libc::sigaltstack(&raw const self.before, null_mut()) };
    }
}

const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// The earlier handlers of these signals.
static BEFORE: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Installs the handler.
pub(super) fn install() {
    let mut before = [MaybeUninit::<libc::sigaction>::zeroed(); 4];
    for (signal, old) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: the structures are filled in, and the handler has the signature that the flags require.
        unsafe {
            let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            let handle: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
            new.sa_sigaction = handle as libc::sighandler_t;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut new.sa_mask);
            libc::sigaction(*signal, &raw const new, old.as_mut_ptr());
        }
    }
    // SAFETY: each was filled in, or is all zeros, which is the default.
    let _ = BEFORE.set(before.map(|old| unsafe { old.assume_init() }));
}

/// Returns the line of a kernel's source for an address of its code, found by the compiler's tools; 0 if they
/// do not know it.
pub(super) extern "C" fn line_of(address: *const c_void) -> u32 {
    let Some(Running { activity: Activity::Kernel(kernel), .. }) = running() else { return 0 };
    line(kernel, address.addr()).unwrap_or(0)
}

fn line(kernel: &RunningKernel<'_>, address: usize) -> Option<u32> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let at = std::ptr::without_provenance(address);
    // SAFETY: the function only writes to the structure, which is alive during the call.
    if unsafe { libc::dladdr(at, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: it was filled in.
    let base = unsafe { found.assume_init() }.dli_fbase.addr();
    // A return address is after its call.
    let output = std::process::Command::new("addr2line")
        .args(["-i", "-e", &format!("/proc/{}/fd/{}", std::process::id(), kernel.library)])
        .arg(format!("{:#x}", address.checked_sub(base + 1)?))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Inlined functions come first. Skip the device's own functions.
    let of_source = text.lines().filter(|line| {
        let file = line.split(':').next().unwrap_or_default();
        !["machine.h", "cuda.h", "ptx.h", "module.cc"].iter().any(|own| file.ends_with(own))
    });
    let mut lines =
        of_source.filter_map(|line| line.rsplit(':').next()?.split(' ').next()?.parse().ok());
    lines.next().filter(|&line| line > 0)
}

/// Returns the address of the instruction that a signal came from.
#[cfg(target_arch = "x86_64")]
fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the handler gets this structure.
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }
}

/// Returns the address of the instruction that a signal came from.
#[cfg(target_arch = "aarch64")]
fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the handler gets this structure.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc as usize }
}

extern "C" fn handle(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(running) = running() else {
        // Not ours: restore the earlier handler and let the instruction run again.
        let at = SIGNALS.iter().position(|&own| own == signal).unwrap_or(0);
        if let Some(before) = BEFORE.get() {
            // SAFETY: this handler was installed before.
            unsafe { libc::sigaction(signal, &raw const before[at], null_mut()) };
        }
        return;
    };
    // The process ends here, so allocating is fine.
    RUNNING.store(null_mut(), Ordering::Release);
    // SAFETY: for these signals the structure contains an address.
    let address = unsafe { (*information).si_addr() }.addr();
    let what = match signal {
        libc::SIGFPE => "a whole number is divided by zero".to_string(),
        libc::SIGILL => "the kernel reached code that is unreachable".to_string(),
        _ => format!("an access to {address:#x}: {}", describe(running, address)),
    };
    let mut text = String::new();
    match &running.activity {
        Activity::Kernel(kernel) => {
            let at = line(kernel, instruction(context) + 1);
            let _ = write!(text, "emulated device: {what}{}", place(kernel, at));
        }
        Activity::Other(doing) => {
            let _ = write!(text, "emulated device: {}: {what}", doing());
        }
    }
    say(&text);
    std::process::abort()
}

fn describe(running: &Running<'_>, address: usize) -> String {
    let own = |kernel: &RunningKernel<'_>| {
        let machine = kernel.machine;
        if machine.is_stack(address) {
            Some("the stack of a thread is at its end".to_string())
        } else if machine.is_shared(address) {
            Some("outside the shared memory of the block".to_string())
        } else {
            None
        }
    };
    let found = match &running.activity {
        Activity::Kernel(kernel) => own(kernel),
        Activity::Other(_) => None,
    };
    found.unwrap_or_else(|| {
        let text = running.space.describe(address);
        let other = running.space.find(address).is_some_and(|(_, allocation)| {
            matches!(allocation.owner, super::space::Owner::Device(owner) if owner != running.device)
        });
        let whose = if other {
            format!("; it is used by device {}", running.device)
        } else if running.space.contains(address) || address < 1 << 20 {
            String::new()
        } else {
            "; it is not device memory".into()
        };
        text + &whose
    })
}
