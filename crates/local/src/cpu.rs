//! Features of the CPU, compared with those that this build was compiled for.

use crate::Error;

/// The name of the CPU, for reports.
#[must_use]
pub fn name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .as_deref()
        .and_then(|text| field(text, "model name"))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned)
}

/// Number of cores available to this process; containers and affinity are taken into account.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// `true` if this build uses the wide instructions; without them the model runs several times
/// slower.
#[must_use]
pub const fn is_fast_build() -> bool {
    cfg!(any(all(target_feature = "avx2", target_feature = "fma"), target_arch = "aarch64"))
}

/// Checks that this CPU has the features that the build was compiled for.
///
/// `is_x86_feature_detected!` returns the compiler's flag for features that are enabled at compile
/// time, so this queries the CPU itself.
///
/// # Errors
/// [`Error::CpuTooOld`] with the features that are missing.
pub fn check() -> Result<(), Error> {
    verdict(&required(), &present())
}

fn verdict(required: &[&str], present: &[&str]) -> Result<(), Error> {
    let missing: Vec<String> =
        required.iter().filter(|f| !present.contains(f)).map(|f| (*f).to_owned()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::CpuTooOld { cpu: name(), missing })
}

fn required() -> Vec<&'static str> {
    [
        ("avx", cfg!(target_feature = "avx")),
        ("avx2", cfg!(target_feature = "avx2")),
        ("bmi1", cfg!(target_feature = "bmi1")),
        ("bmi2", cfg!(target_feature = "bmi2")),
        ("f16c", cfg!(target_feature = "f16c")),
        ("fma", cfg!(target_feature = "fma")),
        ("lzcnt", cfg!(target_feature = "lzcnt")),
        ("movbe", cfg!(target_feature = "movbe")),
    ]
    .into_iter()
    .filter_map(|(feature, compiled_in)| compiled_in.then_some(feature))
    .collect()
}

#[cfg(target_arch = "x86_64")]
fn present() -> Vec<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let leaf_max = __cpuid(0).eax;
    let one = __cpuid(1);
    let seven_ebx = if leaf_max >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let extended_ecx =
        if __cpuid(0x8000_0000).eax >= 0x8000_0001 { __cpuid(0x8000_0001).ecx } else { 0 };
    // Without OSXSAVE the system does not keep the wide registers across task switches.
    let wide = one.ecx & (1 << 27) != 0;
    [
        ("avx", wide && one.ecx & (1 << 28) != 0),
        ("avx2", wide && seven_ebx & (1 << 5) != 0),
        ("bmi1", seven_ebx & (1 << 3) != 0),
        ("bmi2", seven_ebx & (1 << 8) != 0),
        ("f16c", wide && one.ecx & (1 << 29) != 0),
        ("fma", wide && one.ecx & (1 << 12) != 0),
        ("lzcnt", extended_ecx & (1 << 5) != 0),
        ("movbe", one.ecx & (1 << 22) != 0),
    ]
    .into_iter()
    .filter_map(|(feature, there)| there.then_some(feature))
    .collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn present() -> Vec<&'static str> {
    required()
}

fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_runs_what_was_built_for_it() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_missing_feature_is_named() {
        let error = verdict(&["avx2", "fma", "bmi2"], &["fma"]).expect_err("two are missing");
        assert_eq!(error.code().0, "W0507");
        let text = error.to_string();
        assert!(text.contains("avx2, bmi2") && text.contains("x86-64-v3"), "{text}");
    }

    #[test]
    fn the_name_is_read_from_the_system() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert!(!name().is_empty() && cores() >= 1);
    }
}
