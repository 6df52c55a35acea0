//! The process of a sandbox alone, as tests start it, and probes of its layers:
//! `weft-sandbox probe LAYERS NAME FOLDER`.
#![expect(clippy::print_stdout, reason = "the result of a probe goes to its reader")]

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use weftwork_sandbox::probe::{LAYERS, Layer, confine};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, word, layers, name, folder] = args.as_slice() else { return weftwork_sandbox::main() };
    if word != "probe" {
        return ExitCode::FAILURE;
    }
    let layers: Vec<Layer> = LAYERS
        .into_iter()
        .filter(|layer| layers == "all" || *layers == format!("{layer:?}").to_lowercase())
        .collect();
    if let Err(missing) = confine(&layers) {
        println!("missing {}: {}", missing.missing, missing.reason);
        return ExitCode::SUCCESS;
    }
    match attempt(name, Path::new(folder)) {
        Ok(()) => println!("done"),
        Err(error) => println!("refused {}", error.raw_os_error().unwrap_or(-1)),
    }
    ExitCode::SUCCESS
}

/// Does what code would do that has found a way out of its engine.
fn attempt(name: &str, folder: &Path) -> io::Result<()> {
    match name {
        "read-passwd" => fs::read("/etc/passwd").map(drop),
        "read-environment" => fs::read("/proc/self/environ").map(drop),
        "read-memory" => fs::read("/proc/self/mem").map(drop),
        "read-program" => File::open("/proc/self/exe").map(drop),
        "list" => fs::read_dir("/").map(drop),
        "write" => fs::write(folder.join("file"), "x"),
        "make-folder" => fs::create_dir(folder.join("folder")),
        "remove" => fs::remove_file(folder.join("present")),
        "link" => std::os::unix::fs::symlink("/etc", folder.join("link")),
        "change-folder" => std::env::set_current_dir("/tmp"),
        "connect" => TcpStream::connect("127.0.0.1:9").map(drop),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "udp" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "unix-socket" => UnixListener::bind(folder.join("socket")).map(drop),
        "fork" => Command::new("/bin/true").spawn().map(drop),
        "exec" => Err(Command::new("/bin/true").exec()),
        "thread" => std::thread::Builder::new().spawn(|| {}).map(drop),
        "pipe" => io::pipe().map(drop),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}
