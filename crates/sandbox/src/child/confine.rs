//! The rights that the process gives up.

use crate::bounds::Bounds;

/// A layer that this machine does not have.
#[derive(Debug)]
pub struct Missing {
    /// Name of the layer.
    pub missing: &'static str,
    /// The error of the system.
    pub reason: String,
}

/// A layer of the confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Limits of memory, processor time and files.
    Rlimit,
    /// No file, no connection.
    Landlock,
    /// No call of the system but a few.
    Seccomp,
}

/// The layers in the order in which they are set up.
pub const LAYERS: [Layer; 3] = [Layer::Rlimit, Layer::Landlock, Layer::Seccomp];

#[cfg(not(target_os = "linux"))]
/// Gives up rights, which this system has no way to do.
pub(crate) fn confine(_: &[Layer], _: &Bounds) -> Result<(), Missing> {
    Err(Missing { missing: "Linux", reason: "this is another system".to_owned() })
}

#[cfg(target_os = "linux")]
pub(crate) use linux::confine;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Bounds, Layer, Missing};
    use crate::bounds::Space;
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetStatus, Scope,
    };
    use rlimit::Resource;
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter_all_threads,
    };
    use std::collections::BTreeMap;

    /// Most bytes of the stack. Functions have a smaller limit of their own.
    const STACK_BYTES: u64 = 8 << 20;
    /// Bytes of a page, in which the system counts address space.
    const PAGE_BYTES: u64 = 4 << 10;

    /// Gives up files beyond the open pipes, connections, other processes, and most calls of the system.
    ///
    /// # Errors
    /// The layer that is missing. The layers before it are set up.
    pub(crate) fn confine(layers: &[Layer], bounds: &Bounds) -> Result<(), Missing> {
        for layer in layers {
            match layer {
                Layer::Rlimit => limit(&limits(bounds)?)?,
                Layer::Landlock => {
                    forbid_files()?;
                    // After `landlock`, which opens a file to be set up.
                    limit(&[(Resource::NOFILE, 3)])?;
                }
                Layer::Seccomp => forbid_calls()?,
            }
        }
        Ok(())
    }

    fn limits(bounds: &Bounds) -> Result<[(Resource, u64); 5], Missing> {
        let space = match bounds.space {
            Space::Whole(bytes) => bytes,
            Space::Added(bytes) => space_bytes()?.saturating_add(bytes),
        };
        Ok([
            (Resource::AS, space),
            (Resource::CPU, bounds.cpu_seconds),
            (Resource::STACK, STACK_BYTES),
            (Resource::CORE, 0),
            (Resource::FSIZE, 0),
        ])
    }

    /// Returns the address space of the process in bytes.
    fn space_bytes() -> Result<u64, Missing> {
        const STATM: &str = "/proc/self/statm";
        let missing = |reason: String| Missing { missing: "rlimit", reason };
        let text = std::fs::read_to_string(STATM);
        let text = text.map_err(|error| missing(format!("{STATM}: {error}")))?;
        let pages = text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| missing(format!("{STATM} has no number of pages")))?;
        Ok(pages.saturating_mul(PAGE_BYTES))
    }

    fn limit(limits: &[(Resource, u64)]) -> Result<(), Missing> {
        for (resource, most) in limits {
            let missing =
                |error: std::io::Error| Missing { missing: "rlimit", reason: error.to_string() };
            let (_, hard) = resource.get().map_err(missing)?;
            // The machine may allow less.
            let most = hard.min(*most);
            resource.set(most, most).map_err(missing)?;
        }
        Ok(())
    }

    fn forbid_files() -> Result<(), Missing> {
        let missing = |reason: String| Missing { missing: "landlock", reason };
        // All files, on every kernel that has landlock; connections and scopes where it knows them.
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))
            .map_err(|error| missing(error.to_string()))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))
            .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V4)))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
            .and_then(Ruleset::create);
        let status = ruleset
            .and_then(landlock::RulesetCreated::restrict_self)
            .map_err(|error| missing(error.to_string()))?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(missing("the kernel does not enforce it".to_owned())),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    /// Number of the pipe that is read.
    const STDIN: u64 = 0;
    /// Number of the pipe that is written.
    const STDOUT: u64 = 1;

    /// Calls of the system that a program without files makes: memory, its end. Besides, reading and
    /// writing of its pipes.
    const ALLOWED: &[i64] = &[
        libc::SYS_close,
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
        libc::SYS_gettid,
        libc::SYS_getppid,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// Calls that only an attack makes. They end the process.
    const DEADLY: &[i64] = &[
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_bpf,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
    ];

    fn forbid_calls() -> Result<(), Missing> {
        let missing = |error: String| Missing { missing: "seccomp", reason: error };
        let arch = TargetArch::try_from(std::env::consts::ARCH)
            .map_err(|error| missing(error.to_string()))?;
        let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        let single = |argument, operator, value| {
            let condition =
                SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
            let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
            rule.map(|rule| vec![rule]).map_err(|error| missing(error.to_string()))
        };
        // Memory that holds data, and never code.
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            let exec = u64::from(libc::PROT_EXEC.unsigned_abs());
            allowed.insert(call, single(2, SeccompCmpOp::MaskedEq(exec), 0)?);
        }
        // The two pipes, and no file that the program was started with.
        for (call, pipe) in [
            (libc::SYS_read, STDIN),
            (libc::SYS_readv, STDIN),
            (libc::SYS_write, STDOUT),
            (libc::SYS_writev, STDOUT),
        ] {
            allowed.insert(call, single(0, SeccompCmpOp::Eq, pipe)?);
        }
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let deadly = DEADLY.iter().map(|call| (*call, Vec::new())).collect();
        // Of two filters the stricter action counts.
        for (rules, otherwise, matched) in [
            (deadly, SeccompAction::Allow, SeccompAction::KillProcess),
            (allowed, refused, SeccompAction::Allow),
        ] {
            let filter = SeccompFilter::new(rules, otherwise, matched, arch)
                .map_err(|error| missing(error.to_string()))?;
            let program =
                BpfProgram::try_from(filter).map_err(|error| missing(error.to_string()))?;
            apply_filter_all_threads(&program).map_err(|error| missing(error.to_string()))?;
        }
        Ok(())
    }
}
