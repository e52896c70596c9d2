//! Which environment variables does the emulator read?
//!
//! They are read once, when the first function of the driver or the compiler is called. An invalid value ends
//! the process with a message: a test that requests an unknown device should not pass on another one.

use std::path::PathBuf;
use std::sync::OnceLock;

/// A device that the settings request.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSettings {
    /// Compute capability.
    pub capability: (i32, i32),
    /// The number of multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory.
    pub memory: u64,
}

/// A fault on request; calls are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The N-th allocation fails, once.
    OutOfMemory(u64),
    /// The N-th launch fails, and then everything in its context.
    LaunchFailed(u64),
    /// From the N-th call on the device is lost.
    Lost(u64),
}

/// All settings of the process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `EMULATOR_DEVICES`
    pub devices: Vec<DeviceSettings>,
    /// `EMULATOR_ORDER`
    pub order: Option<u64>,
    /// `EMULATOR_FAULT`
    pub faults: Vec<Fault>,
    /// `EMULATOR_NO_POOLS`
    pub no_pools: bool,
    /// `EMULATOR_DRIVER`
    pub driver: (i32, i32),
    /// `EMULATOR_NVRTC`
    pub nvrtc: (i32, i32),
    /// `EMULATOR_NVRTC_REFUSES`, as numbers
    pub refused: Vec<u32>,
    /// `EMULATOR_CLOSED`
    pub closed: Vec<usize>,
    /// `EMULATOR_DISPLAY`
    pub display: Vec<usize>,
    /// `EMULATOR_MUTATION`: the text to find, and its replacement.
    pub mutation: Option<(String, String)>,
    /// `EMULATOR_IGNORE_WAITS`
    pub ignore_waits: bool,
    /// `EMULATOR_RACES`
    pub races: bool,
    /// `EMULATOR_LOG`
    pub log: Option<PathBuf>,
    /// `EMULATOR_CACHE`
    pub cache: PathBuf,
}

/// Returns the settings of this process.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        Settings::parse(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_else(|why| {
                eprintln!("emulated device: {why}");
                std::process::exit(2)
            })
    })
}

impl Settings {
    /// Reads the settings. `variable` returns the value of an environment variable.
    pub fn parse(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let flag = |name: &str| match variable(name).as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(format!("{name}={other}: expected 0 or 1")),
        };
        let version = |name: &str| {
            let text = variable(name).unwrap_or_else(|| "12.8".into());
            pair(&text).ok_or_else(|| format!("{name}={text}: expected a version such as 12.4"))
        };
        let ordinals = |name: &str| -> Result<Vec<usize>, String> {
            let wrong = |_| format!("{name}: expected numbers of devices, separated by commas");
            list(variable(name)).map(|one| one.parse().map_err(wrong)).collect()
        };
        let devices = variable("EMULATOR_DEVICES").unwrap_or_else(|| "9.0:4:1G".into());
        let order = variable("EMULATOR_ORDER")
            .map(|text| {
                text.parse().map_err(|_| format!("EMULATOR_ORDER={text}: expected a whole number"))
            })
            .transpose()?;
        let refused = list(variable("EMULATOR_NVRTC_REFUSES")).map(|name| {
            crate::ptx::Architecture::parse(&name).map(|(architecture, _)| architecture.number)
        });
        let refused = refused.collect::<Option<_>>().ok_or(
            "EMULATOR_NVRTC_REFUSES: expected architectures such as sm_120, separated by commas",
        )?;
        let mutation = variable("EMULATOR_MUTATION").as_deref().map(mutation).transpose()?;
        Ok(Settings {
            devices: devices.split(',').map(device).collect::<Result<_, _>>()?,
            order,
            faults: list(variable("EMULATOR_FAULT"))
                .map(|one| fault(&one))
                .collect::<Result<_, _>>()?,
            no_pools: flag("EMULATOR_NO_POOLS")?,
            driver: version("EMULATOR_DRIVER")?,
            nvrtc: version("EMULATOR_NVRTC")?,
            refused,
            closed: ordinals("EMULATOR_CLOSED")?,
            display: ordinals("EMULATOR_DISPLAY")?,
            mutation,
            ignore_waits: flag("EMULATOR_IGNORE_WAITS")?,
            races: flag("EMULATOR_RACES")?,
            log: variable("EMULATOR_LOG").map(PathBuf::from),
            cache: variable("EMULATOR_CACHE").map_or_else(default_cache, PathBuf::from),
        })
    }
}

/// Splits a text at commas.
fn list(text: Option<String>) -> impl Iterator<Item = String> {
    let text = text.unwrap_or_default();
    let parts: Vec<String> =
        text.split(',').filter(|one| !one.is_empty()).map(String::from).collect();
    parts.into_iter()
}

/// Parses two numbers with a dot in between.
fn pair(text: &str) -> Option<(i32, i32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Parses a device such as `9.0:4:1G`.
fn device(text: &str) -> Result<DeviceSettings, String> {
    let parse = || {
        let mut parts = text.split(':');
        let capability = pair(parts.next()?)?;
        let multiprocessors = parts.next()?.parse().ok().filter(|&count| count > 0)?;
        let memory = parts.next()?;
        let (digits, unit) = match memory.strip_suffix('G') {
            Some(digits) => (digits, 1u64 << 30),
            None => (memory.strip_suffix('M')?, 1 << 20),
        };
        let memory = digits.parse::<u64>().ok().filter(|&count| count > 0)?.checked_mul(unit)?;
        parts.next().is_none().then_some(DeviceSettings { capability, multiprocessors, memory })
    };
    parse().ok_or_else(|| {
        format!(
            "EMULATOR_DEVICES: `{text}` is invalid; expected compute capability, \
             multiprocessors and memory, such as 9.0:4:1G"
        )
    })
}

/// Parses a fault such as `launch-failed@3`.
fn fault(text: &str) -> Result<Fault, String> {
    let parse = || {
        let (name, number) = text.split_once('@')?;
        let number = number.parse().ok().filter(|&number| number > 0)?;
        match name {
            "out-of-memory" => Some(Fault::OutOfMemory(number)),
            "launch-failed" => Some(Fault::LaunchFailed(number)),
            "lost" => Some(Fault::Lost(number)),
            _ => None,
        }
    };
    parse().ok_or_else(|| {
        format!(
            "EMULATOR_FAULT: `{text}` is invalid; expected out-of-memory@N, \
             launch-failed@N or lost@N, with N from 1 on"
        )
    })
}

/// Returns the text to find and its replacement from a file.
fn mutation(file: &str) -> Result<(String, String), String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("EMULATOR_MUTATION={file}: {error}"))?;
    let (find, replacement) = text.split_once("\n=====\n").ok_or_else(|| {
        format!("{file}: expected the text to find, a line `=====`, and its replacement")
    })?;
    Ok((find.into(), replacement.strip_suffix('\n').unwrap_or(replacement).into()))
}

/// Returns the folder `objects` next to this library.
fn default_cache() -> PathBuf {
    let mut information = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let own: fn() -> &'static Settings = settings;
    // SAFETY: the function only writes to the structure, which is alive during the call.
    let found = unsafe { libc::dladdr(own as *const libc::c_void, information.as_mut_ptr()) };
    let mut folder = None;
    if found != 0 {
        // SAFETY: it was filled in, and the name lives as long as the library.
        let name = unsafe { std::ffi::CStr::from_ptr(information.assume_init().dli_fname) };
        let file = PathBuf::from(std::ffi::OsString::from(name.to_string_lossy().into_owned()));
        folder = file.parent().map(|folder| folder.join("objects"));
    }
    folder.unwrap_or_else(|| std::env::temp_dir().join("emulated-objects"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::parse(&|name| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn defaults_are_one_device_without_faults() {
        let settings = parse(&[]).unwrap();
        let device = DeviceSettings { capability: (9, 0), multiprocessors: 4, memory: 1 << 30 };
        assert_eq!(settings.devices, [device]);
        assert_eq!((settings.driver, settings.nvrtc), ((12, 8), (12, 8)));
        assert!(settings.faults.is_empty() && settings.order.is_none() && !settings.no_pools);
    }

    #[test]
    fn all_variables_are_parsed() {
        let settings = parse(&[
            ("EMULATOR_DEVICES", "9.0:4:1G,8.6:3:512M"),
            ("EMULATOR_FAULT", "out-of-memory@2,lost@30"),
            ("EMULATOR_ORDER", "7"),
            ("EMULATOR_DRIVER", "12.4"),
            ("EMULATOR_NVRTC_REFUSES", "sm_120,sm_70"),
            ("EMULATOR_CLOSED", "1"),
            ("EMULATOR_NO_POOLS", "1"),
        ])
        .unwrap();
        assert_eq!(settings.devices[1].capability, (8, 6));
        assert_eq!(settings.devices[1].memory, 512 << 20);
        assert_eq!(settings.faults, [Fault::OutOfMemory(2), Fault::Lost(30)]);
        assert_eq!((settings.order, settings.driver), (Some(7), (12, 4)));
        assert_eq!((settings.refused, settings.closed), (vec![120, 70], vec![1]));
        assert!(settings.no_pools);
    }

    #[test]
    fn invalid_values_are_rejected_with_the_name_of_the_variable() {
        for (name, value) in [
            ("EMULATOR_DEVICES", "9:4:1G"),
            ("EMULATOR_DEVICES", "9.0:0:1G"),
            ("EMULATOR_DEVICES", "9.0:4:1T"),
            ("EMULATOR_FAULT", "lost"),
            ("EMULATOR_FAULT", "lost@0"),
            ("EMULATOR_ORDER", "x"),
            ("EMULATOR_DRIVER", "12"),
            ("EMULATOR_NO_POOLS", "yes"),
            ("EMULATOR_NVRTC_REFUSES", "120"),
            ("EMULATOR_MUTATION", "/no/such/file"),
        ] {
            let why = parse(&[(name, value)]).unwrap_err();
            assert!(why.contains(name), "{name}={value}: {why}");
        }
    }
}
