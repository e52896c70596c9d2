//! What is the format of compiled modules?
//!
//! Machine code is a header that begins like an ELF file, the source (for messages), and a shared library.
//! PTX is a text that ends with the same data in hexadecimal digits. The driver only gets an address, so the
//! header contains the length, and a hash that shows whether the image is complete.

use crate::ptx::Architecture;
use sha2::{Digest, Sha256};

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The architecture that it was compiled for.
    pub architecture: Architecture,
    /// Whether the driver finishes it for its device (PTX).
    pub is_virtual: bool,
    /// The version of the compiler.
    pub nvrtc: (i32, i32),
    /// A hash of the build of the emulator and of the settings for races and mutations.
    pub variant: [u8; 32],
    /// The source as the compiler got it.
    pub source: String,
    /// The shared library.
    pub object: Vec<u8>,
}

const MAGIC: &[u8; 16] = b"\x7fELF emulated 1\n";
/// Magic, hash, six numbers, variant, two lengths.
const HEADER: usize = 16 + 32 + 6 * 4 + 32 + 2 * 8;
const MARK: &str = "// emulated object ";

impl Image {
    /// Returns the image as machine code.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEADER + self.source.len() + self.object.len());
        let flags = [
            self.architecture.number,
            u32::from(self.architecture.specific),
            u32::from(self.is_virtual),
            self.nvrtc.0 as u32,
            self.nvrtc.1 as u32,
            0,
        ];
        for flag in flags {
            body.extend(flag.to_le_bytes());
        }
        body.extend(self.variant);
        body.extend((self.source.len() as u64).to_le_bytes());
        body.extend((self.object.len() as u64).to_le_bytes());
        body.extend(self.source.as_bytes());
        body.extend(&self.object);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(Sha256::digest(&body));
        bytes.extend(body);
        bytes
    }

    /// Returns the image as PTX, which is a text.
    pub fn to_ptx(&self) -> Vec<u8> {
        let mut text = format!(
            "// For the emulated device.\n.version 8.0\n.target sm_{}\n.address_size 64\n{MARK}",
            self.architecture.suffix()
        )
        .into_bytes();
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        for byte in self.to_bytes() {
            text.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        text.extend(b"\n\0");
        text
    }

    /// Reads an image in either form. `read` returns up to a number of bytes from an offset on, and fewer at
    /// the end. An error says what is wrong with the image.
    pub fn read(read: &dyn Fn(usize, usize) -> Vec<u8>) -> Result<Self, &'static str> {
        let mut begin = read(0, HEADER);
        if begin.starts_with(MAGIC) {
            return Self::parse(&begin, read);
        }
        if !begin.starts_with(b"//") {
            return Err("it is neither machine code nor PTX from the emulated compiler");
        }
        // A text that ends with a zero byte.
        begin = Vec::new();
        let end = loop {
            let more = read(begin.len(), 1 << 16);
            if more.is_empty() {
                return Err("the PTX has no end");
            }
            let zero = more.iter().position(|&byte| byte == 0);
            begin.extend(&more[..zero.unwrap_or(more.len())]);
            if zero.is_some() {
                break begin.len();
            }
        };
        let text = std::str::from_utf8(&begin[..end]).map_err(|_| "the PTX is not valid UTF-8")?;
        let (_, digits) =
            text.split_once(MARK).ok_or("the PTX is not from the emulated compiler")?;
        let digits = digits.trim().as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
        let bytes = digits.chunks(2).map(|two| match two {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        let bytes: Vec<u8> = bytes.collect::<Option<_>>().ok_or("the PTX is not complete")?;
        let part = |from: usize, count: usize| {
            let from = from.min(bytes.len());
            bytes[from..(from + count).min(bytes.len())].to_vec()
        };
        Self::parse(&part(0, HEADER), &part)
    }

    fn parse(header: &[u8], read: &dyn Fn(usize, usize) -> Vec<u8>) -> Result<Self, &'static str> {
        if header.len() < HEADER {
            return Err("it is too short");
        }
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&header[48 + 4 * at..52 + 4 * at]);
            u32::from_le_bytes(bytes)
        };
        let length = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            usize::try_from(u64::from_le_bytes(bytes)).ok().filter(|&length| length < 1 << 30)
        };
        let (Some(source), Some(object)) = (length(HEADER - 16), length(HEADER - 8)) else {
            return Err("its header is damaged");
        };
        let rest = read(HEADER, source + object);
        let hash = Sha256::new().chain_update(&header[48..]).chain_update(&rest).finalize();
        if rest.len() != source + object || hash.as_slice() != &header[16..48] {
            return Err("it is not complete");
        }
        let mut variant = [0; 32];
        variant.copy_from_slice(&header[72..104]);
        Ok(Image {
            architecture: Architecture { number: number(0), specific: number(1) != 0 },
            is_virtual: number(2) != 0,
            nvrtc: (number(3) as i32, number(4) as i32),
            variant,
            source: String::from_utf8_lossy(&rest[..source]).into_owned(),
            object: rest[source..].to_vec(),
        })
    }

    /// Returns whether it runs on a device of a compute capability, by the rules of CUDA: machine code within
    /// a major version, PTX on all later versions, and code for an exact architecture only on that one.
    pub fn runs_on(&self, capability: (i32, i32)) -> bool {
        let device = (10 * capability.0 + capability.1) as u32;
        let own = self.architecture.number;
        if self.architecture.specific {
            device == own
        } else if self.is_virtual {
            device >= own
        } else {
            device / 10 == own / 10 && device >= own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image {
            architecture: Architecture { number: 86, specific: false },
            is_virtual: false,
            nvrtc: (12, 8),
            variant: [7; 32],
            source: "int a;".into(),
            object: (0..=255).collect(),
        }
    }

    fn read(bytes: &[u8]) -> Result<Image, &'static str> {
        Image::read(&|from, count| {
            bytes[from.min(bytes.len())..(from + count).min(bytes.len())].to_vec()
        })
    }

    #[test]
    fn images_survive_a_round_trip() {
        let image = image();
        assert_eq!(read(&image.to_bytes()), Ok(image.clone()));
        assert_eq!(read(&image.to_ptx()), Ok(image.clone()));
        assert!(image.to_bytes().starts_with(b"\x7fELF"));
    }

    #[test]
    fn damaged_images_are_rejected() {
        let bytes = image().to_bytes();
        for length in [0, 3, 60, HEADER, bytes.len() - 1] {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut other = bytes.clone();
        other[HEADER + 8] ^= 1;
        assert_eq!(read(&other), Err("it is not complete"));
        let ptx = image().to_ptx();
        assert!(read(&ptx[..ptx.len() - 2]).is_err());
    }

    #[test]
    fn images_run_on_the_devices_that_cuda_allows() {
        let with = |number, specific, is_virtual| Image {
            architecture: Architecture { number, specific },
            is_virtual,
            ..image()
        };
        assert!(with(86, false, false).runs_on((8, 9)));
        assert!(!with(86, false, false).runs_on((8, 0)));
        assert!(!with(86, false, false).runs_on((9, 0)));
        assert!(with(86, false, true).runs_on((12, 0)));
        assert!(!with(90, true, true).runs_on((10, 0)));
        assert!(with(90, true, false).runs_on((9, 0)));
    }
}
