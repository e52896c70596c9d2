//! Which devices are there, and how is work given to one?

use crate::nvrtc::{Code, Nvrtc, Target};
use crate::pinned::PinnedPool;
use crate::send::THREADS;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::driver::{result, sys};
use cudarc::nvrtc::Ptx;
use parking_lot::Mutex;
use simjoin_core::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Bytes a second that its memory moves; 0 where the driver does not tell.
    pub bandwidth: u64,
    /// The driver's CUDA version, such as (13, 0).
    pub driver: (i32, i32),
    /// Whether the driver ends kernels that take longer than a few seconds, as it does where a display is attached.
    pub timeout: bool,
}

/// How long what others left is known. Asking takes as long as planning a small join does.
const LATELY: Duration = Duration::from_millis(100);

/// Multiprocessors, and bytes a second of memory, of the device that costs were measured on, an H200.
const MEASURED_ON: (u32, u64) = (132, 4_800_000_000_000);

impl DeviceInfo {
    /// How many times the multiprocessors of the device that costs were measured on.
    pub fn multiprocessor_ratio(&self) -> f64 {
        f64::from(self.multiprocessors) / f64::from(MEASURED_ON.0)
    }

    /// How many times its bandwidth.
    pub fn bandwidth_ratio(&self) -> f64 {
        match self.bandwidth {
            0 => self.multiprocessor_ratio(),
            bytes => bytes as f64 / MEASURED_ON.1 as f64,
        }
    }

    /// Returns the seconds that a launch may take, as it is estimated. A driver that ends kernels does so after two
    /// seconds or more, and estimates are off; elsewhere this bounds how long an interrupt waits.
    pub fn launch_seconds(&self) -> f64 {
        if self.timeout { 0.3 } else { 1.0 }
    }

    /// Whether its tensor cores multiply bits.
    pub fn multiplies_bits(&self) -> bool {
        (80..100).contains(&(10 * self.capability.0 + self.capability.1))
    }
}

/// A device, ready for work.
#[derive(Debug)]
pub struct Device {
    /// What is known of it.
    pub info: DeviceInfo,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) pinned: PinnedPool,
    /// Streams, each lent to one at a time.
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// Threads that fill buffers for it, beside the one that sends; made when first needed.
    senders: OnceLock<Option<rayon::ThreadPool>>,
    modules: Mutex<HashMap<ModuleKey, Arc<CudaModule>>>,
    /// Bytes of its memory that nobody else had, and when that was asked.
    left_by_others: Mutex<Option<Asked>>,
    /// Leases that have not ended.
    leases: AtomicUsize,
    /// Whether its tensor cores add halves as exactly as they are taken to, by warps and by warpgroups; tried when
    /// that is first needed.
    pub(crate) adds_halves: [OnceLock<bool>; 2],
}

/// What others left of a device's memory.
#[derive(Clone, Copy, Debug)]
struct Asked {
    when: Instant,
    /// Allocations that had failed by then.
    failures: u64,
    bytes: u64,
}

/// Bytes of freed memory that are kept for the next join. What is beyond is given back at the end of each, so that
/// other processes can have it.
const KEPT: u64 = 256 << 20;

/// Allocations that have failed for want of memory: others have taken some.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Somebody holds memory of a device. When the last has gone, memory that is not used is given back.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Device>);

impl Lease {
    pub(crate) fn new(device: &Arc<Device>) -> Self {
        device.leases.fetch_add(1, Ordering::AcqRel);
        Lease(device.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.give_back();
        }
    }
}

/// Where a source lies, and its definitions. Sources are static: each lies in one place.
type ModuleKey = (usize, Vec<(&'static str, u32)>);

/// The least compute capability of a device that kernels are written for.
const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// A device of the driver, opened when it is first wanted.
struct Slot {
    ordinal: usize,
    opened: OnceLock<std::result::Result<Arc<Device>, LeftOut>>,
}

/// A device that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its number.
    pub ordinal: usize,
    /// Its name, as far as the driver tells.
    pub name: String,
    /// Why it cannot be used.
    pub why: String,
}

static SLOTS: OnceLock<std::result::Result<Vec<Slot>, String>> = OnceLock::new();
static FOUND: OnceLock<std::result::Result<Vec<Arc<Device>>, String>> = OnceLock::new();

/// Returns whether devices have been found and opened already, so that using them costs no start.
pub fn opened() -> bool {
    FOUND.get().is_some_and(std::result::Result::is_ok)
}

/// Returns all devices of this machine that can be used, opened once; or says why there are none. Those that cannot be
/// used are [`left_out`].
pub fn devices() -> Result<&'static [Arc<Device>]> {
    let found = FOUND.get_or_init(|| {
        let found: Vec<_> = slots()?.iter().filter_map(|slot| slot.open().ok()).cloned().collect();
        if found.is_empty() { Err(none_can_be_used()) } else { Ok(found) }
    });
    found.as_deref().map_err(|why| Error::Unavailable(why.clone()))
}

/// Returns the first device of this machine that can be used; the others are not opened.
pub fn first_device() -> Result<&'static Arc<Device>> {
    let slots = slots().map_err(Error::Unavailable)?;
    let first = slots.iter().find_map(|slot| slot.open().ok());
    first.ok_or_else(|| Error::Unavailable(none_can_be_used()))
}

/// Returns the devices of this machine that cannot be used, of those that have been tried.
pub fn left_out() -> Vec<LeftOut> {
    let tried = slots().unwrap_or_default().iter().filter_map(|slot| slot.opened.get());
    tried.filter_map(|opened| opened.as_ref().err()).cloned().collect()
}

fn none_can_be_used() -> String {
    let why: Vec<String> = left_out()
        .into_iter()
        .map(|LeftOut { ordinal, name, why }| format!("{ordinal} ({name}): {why}"))
        .collect();
    format!("no GPU of this machine can be used: {}", why.join("; "))
}

fn slots() -> std::result::Result<&'static [Slot], String> {
    let slots = SLOTS.get_or_init(|| {
        let count = count().map_err(|error| error.to_string())?;
        Ok((0..count).map(|ordinal| Slot { ordinal, opened: OnceLock::new() }).collect())
    });
    slots.as_deref().map_err(Clone::clone)
}

fn count() -> Result<usize> {
    // SAFETY: this only tries to open the driver's library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Unavailable(
            "no NVIDIA driver was found (libcuda.so); install the driver of your GPU".into(),
        ));
    }
    let count = CudaContext::device_count().map_err(failed("looking for devices"))?;
    match count {
        0 => Err(Error::Unavailable("the NVIDIA driver knows no device".into())),
        count => Ok(count as usize),
    }
}

/// Returns the CUDA version of the driver, such as (13, 0); `None` where there is no driver.
pub(crate) fn driver_version() -> Option<(i32, i32)> {
    let mut version = 0;
    // SAFETY: the first only tries to open the driver's library; the pointer is to a number that lives through the call.
    let asked = unsafe { sys::is_culib_present() }
        .then(|| unsafe { sys::cuDriverGetVersion(&raw mut version) }.result())?;
    asked.ok().map(|()| (version / 1000, version % 1000 / 10))
}

impl Slot {
    fn open(&self) -> std::result::Result<&Arc<Device>, &LeftOut> {
        let ordinal = self.ordinal;
        let open = || {
            let mut name = "unknown".to_owned();
            let device = Device::open(ordinal, &mut name);
            device.map(Arc::new).map_err(|why| LeftOut { ordinal, name, why: why.to_string() })
        };
        self.opened.get_or_init(open).as_ref()
    }
}

impl Device {
    /// Opens a device, and says its name as soon as that is known.
    fn open(ordinal: usize, name: &mut String) -> Result<Self> {
        let at = failed("opening the device");
        let device = result::device::get(ordinal as i32).map_err(&at)?;
        *name = result::device::get_name(device).map_err(&at)?;
        // SAFETY: the device is one that the driver has given out.
        let ask = |which| unsafe { result::device::get_attribute(device, which) };
        let capability = (
            ask(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
                .map_err(&at)?,
            ask(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
                .map_err(&at)?,
        );
        if capability < LEAST_CAPABILITY {
            let ((major, minor), (a, b)) = (capability, LEAST_CAPABILITY);
            return Err(Error::Unavailable(format!(
                "compute capability {major}.{minor}; {a}.{b} or newer is needed"
            )));
        }
        let multiprocessors =
            ask(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(&at)?;
        let attribute = |which| ask(which).unwrap_or(0).max(0) as u64;
        let kilohertz = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
        let bits = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        let timeout = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
        let context = CudaContext::new(ordinal).map_err(&at)?;
        let info = DeviceInfo {
            ordinal,
            // Memory sends twice in a cycle.
            bandwidth: 2 * 1000 * kilohertz * bits / 8,
            name: name.clone(),
            memory: context.total_mem().map_err(&at)? as u64,
            capability,
            multiprocessors: multiprocessors as u32,
            driver: driver_version().unwrap_or((0, 0)),
            timeout: timeout != 0,
        };
        // SAFETY: nothing needs to be tracked. Buffers are used by the stream of the worker that owns them;
        // what a worker reads of others (sets, lists, signatures) its stream waits for before anything else
        // (`Channel::new`); arrays that several streams fill are waited for on the host; and a worker that
        // goes waits for what the device was given, so that nothing is freed while it is read.
        unsafe { context.disable_event_tracking() };
        keep_memory(&context).map_err(&at)?;
        Ok(Device {
            info,
            context,
            pinned: PinnedPool::default(),
            streams: Mutex::default(),
            senders: OnceLock::new(),
            modules: Mutex::default(),
            left_by_others: Mutex::default(),
            leases: AtomicUsize::new(0),
            adds_halves: Default::default(),
        })
    }

    /// The threads that fill buffers; `None` where there can be none.
    pub(crate) fn senders(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let named = |at| format!("sender {at}");
            let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS - 1).thread_name(named);
            pool.build().ok()
        };
        self.senders.get_or_init(make).as_ref()
    }

    /// A stream that nobody else has. Making one takes long, so they are kept.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        let at = failed("making a stream");
        self.context.bind_to_thread().map_err(&at)?;
        let mut streams = self.streams.lock();
        // Arrays hold the stream that they were made by; when the last is gone, only this list has it.
        if let Some(free) = streams.iter().find(|stream| Arc::strong_count(stream) == 1) {
            return Ok(free.clone());
        }
        let stream = self.context.new_stream().map_err(&at)?;
        streams.push(stream.clone());
        Ok(stream)
    }

    /// Makes its context the current one of this thread, whatever has failed before: for what waits or frees at the end.
    /// (`bind_to_thread` gives up where an earlier failure has not been told yet.)
    pub(crate) fn make_current(&self) {
        // SAFETY: the context lives as long as the device. What fails here has failed before.
        let _ = unsafe { result::ctx::set_current(self.context.cu_ctx()) };
    }

    /// Waits for a stream of it, whatever has failed before.
    pub(crate) fn drain(&self, stream: &CudaStream) {
        self.make_current();
        // SAFETY: the stream is alive. One that fails now has nothing in flight.
        let _ = unsafe { result::stream::synchronize(stream.cu_stream()) };
    }

    /// Gives memory back that is not used, but for a part that the next join is better off with.
    fn give_back(&self) {
        if !self.context.has_async_alloc() || self.held_memory().is_ok_and(|held| held <= KEPT) {
            return;
        }
        self.make_current();
        // SAFETY: the pool is the device's. Memory is given back when its streams have come to where it was freed. What
        // fails here has failed before.
        let _ = result::ctx::synchronize().and_then(|()| unsafe {
            let pool = result::device::get_default_mem_pool(self.context.cu_device())?;
            result::mem_pool::trim_to(pool, KEPT as usize)
        });
    }

    /// Returns the bytes of memory that this process has taken and not given back, whether they are used or not.
    #[doc(hidden)]
    pub fn held_memory(&self) -> Result<u64> {
        let reserved = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        pool_attribute(&self.context, reserved).map_err(failed("asking for held memory"))
    }

    /// Bytes of shared memory that a block may have.
    pub(crate) fn shared_bytes(&self) -> u32 {
        let which = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context.attribute(which).unwrap_or(0).max(0) as u32
    }

    /// Bytes of memory that are free now, as far as others have taken or given back none lately.
    pub fn free_memory(&self) -> Result<u64> {
        let at = failed("asking for free memory");
        // Any thread may ask.
        self.make_current();
        let held = |attribute| pool_attribute(&self.context, attribute).map_err(&at);
        let mut known = self.left_by_others.lock();
        let failures = FAILURES.load(Ordering::Relaxed);
        let lately =
            known.filter(|asked| asked.when.elapsed() < LATELY && asked.failures == failures);
        let left = match lately {
            Some(Asked { bytes, .. }) if self.context.has_async_alloc() => bytes,
            _ => {
                let (free, _) = self.context.mem_get_info().map_err(&at)?;
                let reserved =
                    held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                let bytes = free as u64 + reserved;
                *known = Some(Asked { when: Instant::now(), failures, bytes });
                bytes
            }
        };
        let used = held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(left.saturating_sub(used))
    }

    /// A function of a kernel source, compiled for this device with these definitions.
    pub(crate) fn function(
        &self,
        source: &'static str,
        defines: &[(&'static str, u32)],
        name: &str,
    ) -> Result<CudaFunction> {
        let mut modules = self.modules.lock();
        let key = (source.as_ptr().addr(), defines.to_vec());
        let module = match modules.get(&key) {
            Some(module) => module.clone(),
            None => {
                // Warpgroups multiply on the very architecture only.
                let very = defines.contains(&("WGMMA", 1));
                let target =
                    Target { capability: self.info.capability, very, driver: self.info.driver };
                let module = self.load(source, &target, defines)?;
                modules.insert(key, module.clone());
                module
            }
        };
        module.load_function(name).map_err(failed("finding a kernel"))
    }

    /// Loads a kernel source. What was kept and does not load is compiled anew.
    fn load(
        &self,
        source: &str,
        target: &Target,
        defines: &[(&'static str, u32)],
    ) -> Result<Arc<CudaModule>> {
        let nvrtc = Nvrtc::get()?;
        let load = |code: &Code| self.context.load_module(Ptx::from_binary(code.bytes.clone()));
        let mut code = nvrtc.code(source, target, defines, false)?;
        let mut loaded = load(&code);
        if loaded.as_ref().is_err_and(is_about_code) && code.was_kept {
            code.forget();
            code = nvrtc.code(source, target, defines, true)?;
            loaded = load(&code);
        }
        let module = loaded.map_err(|error| {
            let ((major, minor), (a, b)) = (nvrtc.version(), target.driver);
            let doing = if is_about_code(&error) {
                format!(
                    "loading what NVRTC {major}.{minor} has made into the driver of CUDA {a}.{b}"
                )
            } else {
                "loading a kernel".into()
            };
            failed(&doing)(error)
        })?;
        code.keep();
        Ok(module)
    }

    /// Runs a kernel once, in a block of 32 threads: it is given numbers, how many there are, and room for as many
    /// results. For tests of what kernels share.
    #[doc(hidden)]
    pub fn run_once(&self, source: &'static str, name: &str, numbers: &[u64]) -> Result<Vec<u64>> {
        let at = failed("running a kernel");
        let (function, stream) = (self.function(source, &[], name)?, self.stream()?);
        let count = numbers.len() as u32;
        let numbers = stream.clone_htod(numbers).map_err(&at)?;
        let mut results = stream.alloc_zeros::<u64>(numbers.len()).map_err(&at)?;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of the kernel, by its contract.
        unsafe {
            stream
                .launch_builder(&function)
                .arg(&numbers)
                .arg(&count)
                .arg(&mut results)
                .launch(one)
                .map_err(&at)?;
        }
        let results = stream.clone_dtoh(&results).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        Ok(results)
    }
}

/// Memory that is freed is kept for the next buffer, rather than given back at every wait: leases end that.
fn keep_memory(context: &CudaContext) -> std::result::Result<(), DriverError> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut all = u64::MAX;
    // SAFETY: the pool is the device's, and the pointer is to a number that lives through the call.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, threshold, (&raw mut all).cast())
    }
}

fn pool_attribute(
    context: &CudaContext,
    attribute: sys::CUmemPool_attribute,
) -> std::result::Result<u64, DriverError> {
    let mut value = 0u64;
    if context.has_async_alloc() {
        // SAFETY: as above; these attributes are 64-bit numbers.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device())?;
            result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast())?;
        }
    }
    Ok(value)
}

/// Returns whether it is the code that a driver does not load.
fn is_about_code(error: &DriverError) -> bool {
    use sys::CUresult as Is;
    matches!(
        error.0,
        Is::CUDA_ERROR_INVALID_IMAGE
            | Is::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Is::CUDA_ERROR_INVALID_PTX
            | Is::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | Is::CUDA_ERROR_INVALID_SOURCE
    )
}

/// What a failure of the driver means for a person.
pub(crate) fn failed(doing: &str) -> impl Fn(DriverError) -> Error + use<> {
    let doing = doing.to_string();
    move |error| {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            FAILURES.fetch_add(1, Ordering::Relaxed);
            return Error::Unavailable(format!(
                "the GPU has too little free memory ({doing}); lower the limit on GPU memory"
            ));
        }
        let text = error
            .error_string()
            .map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into_owned());
        Error::Unavailable(format!("the GPU failed ({doing}): {text}"))
    }
}
