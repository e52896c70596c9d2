//! Which devices does this machine have, and how is work given to them?

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

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The number that the driver gives to the device.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The bandwidth of its memory, in bytes per second; 0 if the driver does not report it.
    pub bandwidth: u64,
    /// The driver's CUDA version, such as (13, 0).
    pub driver: (i32, i32),
    /// Whether the driver ends kernels that take longer than a few seconds, as it does if a display is
    /// attached.
    pub timeout: bool,
}

/// How long a reading of the free memory is valid. Reading it takes as long as planning a small join.
const READING_VALID_FOR: Duration = Duration::from_millis(100);

/// The multiprocessors and the bandwidth of the H200 that costs were measured on.
const MEASURED_ON: (u32, u64) = (132, 4_800_000_000_000);

impl DeviceInfo {
    /// Returns the number of multiprocessors, as a multiple of the device that costs were measured on.
    pub fn multiprocessor_ratio(&self) -> f64 {
        f64::from(self.multiprocessors) / f64::from(MEASURED_ON.0)
    }

    /// Returns the bandwidth, as a multiple of the device that costs were measured on.
    pub fn bandwidth_ratio(&self) -> f64 {
        match self.bandwidth {
            0 => self.multiprocessor_ratio(),
            bytes => bytes as f64 / MEASURED_ON.1 as f64,
        }
    }

    /// Returns the limit for the estimated seconds of one launch. A driver that ends long kernels does so
    /// after two seconds or more, and estimates are inexact. On other devices the limit bounds the time until
    /// an interrupt takes effect.
    pub fn launch_seconds(&self) -> f64 {
        if self.timeout { 0.3 } else { 1.0 }
    }

    /// Returns whether its tensor cores multiply bits.
    pub fn multiplies_bits(&self) -> bool {
        (80..100).contains(&(10 * self.capability.0 + self.capability.1))
    }
}

/// A device, ready for work.
#[derive(Debug)]
pub struct Device {
    /// The properties of the device.
    pub info: DeviceInfo,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) pinned: PinnedPool,
    /// Streams that are kept for reuse.
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// The threads that fill buffers in addition to the sending thread; created when first needed.
    senders: OnceLock<Option<rayon::ThreadPool>>,
    modules: Mutex<HashMap<ModuleKey, Arc<CudaModule>>>,
    /// The last reading of the memory that other processes do not use.
    not_used_by_others: Mutex<Option<MemoryReading>>,
    /// The number of leases in use.
    leases: AtomicUsize,
    /// Whether its tensor cores add halves as exactly as the filter assumes, by warps and by warpgroups;
    /// tested when first needed.
    pub(crate) adds_halves: [OnceLock<bool>; 2],
}

/// A reading of the device memory that other processes do not use.
#[derive(Clone, Copy, Debug)]
struct MemoryReading {
    when: Instant,
    /// The number of failed allocations at that time.
    failures: u64,
    bytes: u64,
}

/// The bytes of freed memory that are kept for the next join. The rest is given back at the end of each join,
/// for other processes.
const KEPT_BYTES: u64 = 256 << 20;

/// The number of allocations that failed because memory was short: other processes have taken some.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// A mark that somebody holds memory of a device. When the last lease ends, unused memory is given back.
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

/// The address of a source, and its definitions. Sources are static, so the address identifies them.
type ModuleKey = (usize, Vec<(&'static str, u32)>);

/// The lowest compute capability that kernels are written for.
const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// A device of the driver, which is opened when first needed.
struct DeviceSlot {
    ordinal: usize,
    opened: OnceLock<std::result::Result<Arc<Device>, LeftOut>>,
}

/// A device that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The number that the driver gives to the device.
    pub ordinal: usize,
    /// The name of the device, or `unknown`.
    pub name: String,
    /// Why it cannot be used.
    pub why: String,
}

static SLOTS: OnceLock<std::result::Result<Vec<DeviceSlot>, String>> = OnceLock::new();
static FOUND: OnceLock<std::result::Result<Vec<Arc<Device>>, String>> = OnceLock::new();

/// Returns whether all devices are open already, so that using them needs no start-up.
pub fn opened() -> bool {
    FOUND.get().is_some_and(std::result::Result::is_ok)
}

/// Returns all usable devices of this machine, or an error that says why there are none. [`left_out`] returns
/// the unusable ones.
pub fn devices() -> Result<&'static [Arc<Device>]> {
    let found = FOUND.get_or_init(|| {
        let found: Vec<_> = slots()?.iter().filter_map(|slot| slot.open().ok()).cloned().collect();
        if found.is_empty() { Err(no_usable_device()) } else { Ok(found) }
    });
    found.as_deref().map_err(|why| Error::Unavailable(why.clone()))
}

/// Returns the first usable device of this machine, without opening the others.
pub fn first_device() -> Result<&'static Arc<Device>> {
    let slots = slots().map_err(Error::Unavailable)?;
    let first = slots.iter().find_map(|slot| slot.open().ok());
    first.ok_or_else(|| Error::Unavailable(no_usable_device()))
}

/// Returns the devices that turned out to be unusable so far.
pub fn left_out() -> Vec<LeftOut> {
    let tried = slots().unwrap_or_default().iter().filter_map(|slot| slot.opened.get());
    tried.filter_map(|opened| opened.as_ref().err()).cloned().collect()
}

fn no_usable_device() -> String {
    let why: Vec<String> = left_out()
        .into_iter()
        .map(|LeftOut { ordinal, name, why }| format!("{ordinal} ({name}): {why}"))
        .collect();
    format!("no GPU of this machine can be used: {}", why.join("; "))
}

fn slots() -> std::result::Result<&'static [DeviceSlot], String> {
    let slots = SLOTS.get_or_init(|| {
        let count = count().map_err(|error| error.to_string())?;
        Ok((0..count).map(|ordinal| DeviceSlot { ordinal, opened: OnceLock::new() }).collect())
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
    let count = CudaContext::device_count().map_err(failed("counting devices"))?;
    match count {
        0 => Err(Error::Unavailable("the NVIDIA driver reports no device".into())),
        count => Ok(count as usize),
    }
}

/// Returns the CUDA version of the driver, such as (13, 0); `None` if there is no driver.
pub(crate) fn driver_version() -> Option<(i32, i32)> {
    let mut version = 0;
    // SAFETY: the first call only tries to open the driver's library. The pointer is valid during the second
    // one.
    let reading = unsafe { sys::is_culib_present() }
        .then(|| unsafe { sys::cuDriverGetVersion(&raw mut version) }.result())?;
    reading.ok().map(|()| (version / 1000, version % 1000 / 10))
}

impl DeviceSlot {
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
    /// Opens a device, and writes its name to `name` as soon as it is known.
    fn open(ordinal: usize, name: &mut String) -> Result<Self> {
        let at = failed("opening the device");
        let device = result::device::get(ordinal as i32).map_err(&at)?;
        *name = result::device::get_name(device).map_err(&at)?;
        // SAFETY: the driver has returned this device.
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
            // Memory transfers twice in a cycle.
            bandwidth: 2 * 1000 * kilohertz * bits / 8,
            name: name.clone(),
            memory: context.total_mem().map_err(&at)? as u64,
            capability,
            multiprocessors: multiprocessors as u32,
            driver: driver_version().unwrap_or((0, 0)),
            timeout: timeout != 0,
        };
        // SAFETY: events are not needed for ordering. Buffers are used by the stream of the worker that owns
        // them. Before anything else, a worker's stream waits for the data of others that it reads: sets,
        // lists and signatures (`Channel::new`). The host waits for arrays that several streams fill. A
        // worker that is dropped waits for the work it gave to the device, so nothing is freed while it is
        // read.
        unsafe { context.disable_event_tracking() };
        keep_memory(&context).map_err(&at)?;
        Ok(Device {
            info,
            context,
            pinned: PinnedPool::default(),
            streams: Mutex::default(),
            senders: OnceLock::new(),
            modules: Mutex::default(),
            not_used_by_others: Mutex::default(),
            leases: AtomicUsize::new(0),
            adds_halves: Default::default(),
        })
    }

    /// Returns the threads that fill buffers; `None` if they cannot be created.
    pub(crate) fn senders(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let named = |at| format!("sender {at}");
            let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS - 1).thread_name(named);
            pool.build().ok()
        };
        self.senders.get_or_init(make).as_ref()
    }

    /// Returns a stream that nobody else uses. Creating one takes long, so streams are kept.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        let at = failed("creating a stream");
        self.context.bind_to_thread().map_err(&at)?;
        let mut streams = self.streams.lock();
        // Arrays hold the stream that created them. When the last array is dropped, only this list holds the
        // stream.
        if let Some(free) = streams.iter().find(|stream| Arc::strong_count(stream) == 1) {
            return Ok(free.clone());
        }
        let stream = self.context.new_stream().map_err(&at)?;
        streams.push(stream.clone());
        Ok(stream)
    }

    /// Makes the context of the device current in this thread, even after a failure: for code that waits or
    /// frees at the end. (`bind_to_thread` returns an earlier failure instead.)
    pub(crate) fn make_current(&self) {
        // SAFETY: the context lives as long as the device. An error here was reported before.
        let _ = unsafe { result::ctx::set_current(self.context.cu_ctx()) };
    }

    /// Waits for a stream, even after a failure.
    pub(crate) fn drain(&self, stream: &CudaStream) {
        self.make_current();
        // SAFETY: the stream is alive. If it fails, nothing is in flight.
        let _ = unsafe { result::stream::synchronize(stream.cu_stream()) };
    }

    /// Gives unused memory back, except for the part that is kept for the next join.
    fn give_back(&self) {
        if !self.context.has_async_alloc()
            || self.held_memory().is_ok_and(|held| held <= KEPT_BYTES)
        {
            return;
        }
        self.make_current();
        // SAFETY: the pool belongs to the device. Memory is released when its streams have reached the point
        // where it was freed. An error here was reported before.
        let _ = result::ctx::synchronize().and_then(|()| unsafe {
            let pool = result::device::get_default_mem_pool(self.context.cu_device())?;
            result::mem_pool::trim_to(pool, KEPT_BYTES as usize)
        });
    }

    /// Returns the bytes of device memory that this process holds, used or not.
    #[doc(hidden)]
    pub fn held_memory(&self) -> Result<u64> {
        let reserved = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        pool_attribute(&self.context, reserved).map_err(failed("reading the held memory"))
    }

    /// Returns the largest number of bytes of shared memory in a block.
    pub(crate) fn shared_bytes(&self) -> u32 {
        let which = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context.attribute(which).unwrap_or(0).max(0) as u32
    }

    /// Returns the bytes of free memory. Changes by other processes may show up a little later.
    pub fn free_memory(&self) -> Result<u64> {
        let at = failed("reading the free memory");
        // Any thread may call this.
        self.make_current();
        let held = |attribute| pool_attribute(&self.context, attribute).map_err(&at);
        let mut known = self.not_used_by_others.lock();
        let failures = FAILURES.load(Ordering::Relaxed);
        let lately = known.filter(|reading| {
            reading.when.elapsed() < READING_VALID_FOR && reading.failures == failures
        });
        let left = match lately {
            Some(MemoryReading { bytes, .. }) if self.context.has_async_alloc() => bytes,
            _ => {
                let (free, _) = self.context.mem_get_info().map_err(&at)?;
                let reserved =
                    held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
                let bytes = free as u64 + reserved;
                *known = Some(MemoryReading { when: Instant::now(), failures, bytes });
                bytes
            }
        };
        let used = held(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(left.saturating_sub(used))
    }

    /// Returns a function of a kernel source, compiled for this device with these definitions.
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
                // Instructions of warpgroups only exist on this exact architecture.
                let exact_architecture = defines.contains(&("WGMMA", 1));
                let target = Target {
                    capability: self.info.capability,
                    exact_architecture,
                    driver: self.info.driver,
                };
                let module = self.load(source, &target, defines)?;
                modules.insert(key, module.clone());
                module
            }
        };
        module.load_function(name).map_err(failed("looking up a kernel"))
    }

    /// Loads a kernel source. Cached code that does not load is compiled again.
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
        if loaded.as_ref().is_err_and(is_about_code) && code.from_cache {
            code.forget();
            code = nvrtc.code(source, target, defines, true)?;
            loaded = load(&code);
        }
        let module = loaded.map_err(|error| {
            let ((major, minor), (a, b)) = (nvrtc.version(), target.driver);
            let doing = if is_about_code(&error) {
                format!("loading code of NVRTC {major}.{minor} into the driver of CUDA {a}.{b}")
            } else {
                "loading a kernel".into()
            };
            failed(&doing)(error)
        })?;
        code.keep();
        Ok(module)
    }

    /// Runs a kernel once in a block of 32 threads, with the numbers and their count as arguments, and
    /// returns one result per number. For tests of functions that kernels share.
    #[doc(hidden)]
    pub fn run_once(&self, source: &'static str, name: &str, numbers: &[u64]) -> Result<Vec<u64>> {
        let at = failed("running a kernel");
        let (function, stream) = (self.function(source, &[], name)?, self.stream()?);
        let count = numbers.len() as u32;
        let numbers = stream.clone_htod(numbers).map_err(&at)?;
        let mut results = stream.alloc_zeros::<u64>(numbers.len()).map_err(&at)?;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments match the kernel, as the caller guarantees.
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

/// Sets the memory pool to keep freed memory for the next buffer instead of releasing it at every wait.
/// Leases release it.
fn keep_memory(context: &CudaContext) -> std::result::Result<(), DriverError> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut all = u64::MAX;
    // SAFETY: the pool belongs to the device, and the pointer is valid during the call.
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

/// Returns whether the driver rejects the code itself.
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

/// Returns a function that turns an error of the driver into a message. `doing` says what was attempted.
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
