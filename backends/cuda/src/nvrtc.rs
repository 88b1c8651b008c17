//! NVRTC, NVIDIA's compiler as a library. It is loaded when it is wanted, and needs neither a device nor a driver.
#![allow(unsafe_code)] // a foreign library is called: each block says why it may be

use crate::Error;
use crate::resources::{Resources, reported};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

/// What decides which code is made, beside text and architecture: each operation rounds once.
pub const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17", "--disable-warnings"];

/// Names under which systems have it, newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// The loaded library.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    /// It finds this one by name once it is loaded.
    _builtins: Option<Library>,
}

type Handle = *mut c_void;

impl Nvrtc {
    /// That of the folder which the environment variable `RELAX_NVRTC` names, else that of the system.
    ///
    /// # Errors
    /// When there is none.
    pub fn find() -> Result<Self, Error> {
        match std::env::var_os("RELAX_NVRTC").filter(|path| !path.is_empty()) {
            Some(folder) => Self::in_folder(Path::new(&folder)),
            None => Self::of_system(),
        }
    }

    /// That of a folder, as the published package has it.
    ///
    /// # Errors
    /// When there is none.
    pub fn in_folder(folder: &Path) -> Result<Self, Error> {
        let missing = |why: String| Error::NoCompiler { why };
        let entries = std::fs::read_dir(folder)
            .map_err(|error| missing(format!("{}: {error}", folder.display())))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !name.contains(".alt."))
            .collect();
        names.sort();
        let named = |start: &str| names.iter().find(|name| name.starts_with(start));
        let builtins = named("libnvrtc-builtins.so").map(|name| load(&folder.join(name)));
        let library = named("libnvrtc.so")
            .ok_or_else(|| missing(format!("no libnvrtc.so in {}", folder.display())))?;
        Ok(Self { _builtins: builtins.transpose()?, library: load(&folder.join(library))? })
    }

    fn of_system() -> Result<Self, Error> {
        let mut why = String::new();
        for name in NAMES {
            match load(Path::new(name)) {
                Ok(library) => return Ok(Self { library, _builtins: None }),
                Err(error) => why = error.to_string(),
            }
        }
        Err(Error::NoCompiler { why })
    }

    /// Machine code of a text for an architecture such as `sm_90`.
    ///
    /// # Errors
    /// What the compiler says of the text.
    pub fn compile(&self, text: &str, architecture: &str) -> Result<Vec<u8>, Error> {
        self.compile_with(text, architecture, &[])
    }

    /// The same with further options.
    ///
    /// # Errors
    /// What the compiler says of the text.
    pub fn compile_with(
        &self,
        text: &str,
        architecture: &str,
        more: &[&str],
    ) -> Result<Vec<u8>, Error> {
        let text = text_of(text)?;
        let options = options(architecture, more);
        self.with_program(&text, &options, |program, code| match code {
            0 => self.bytes(program, ("nvrtcGetCUBINSize", "nvrtcGetCUBIN")),
            code => Err(Error::Compile { code, log: self.log(program)? }),
        })
    }

    /// What each kernel of a text takes of a multiprocessor, as the assembler reports it.
    ///
    /// # Errors
    /// What the compiler says of the text.
    pub fn resources(&self, text: &str, architecture: &str) -> Result<Vec<Resources>, Error> {
        let text = text_of(text)?;
        let options = options(architecture, &["--ptxas-options=-v"]);
        self.with_program(&text, &options, |program, code| {
            let log = self.log(program)?;
            if code == 0 { Ok(reported(&log)) } else { Err(Error::Compile { code, log }) }
        })
    }

    /// Compiles a text, and asks the library for what came of it.
    fn with_program<T>(
        &self,
        text: &CString,
        options: &[CString],
        asked: impl FnOnce(Handle, c_int) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let program = self.program(text)?;
        let code = self.run(program, options);
        let made = asked(program, code);
        self.destroy(program);
        made
    }

    fn log(&self, program: Handle) -> Result<String, Error> {
        let log = self.bytes(program, ("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"))?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
    }

    fn function<F>(&self, name: &str) -> Result<libloading::Symbol<'_, F>, Error> {
        // SAFETY: each caller gives the type that the library's header declares for this name.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map_err(|error| Error::NoCompiler { why: error.to_string() })
    }

    fn program(&self, text: &CString) -> Result<Handle, Error> {
        type Create = unsafe extern "C" fn(
            *mut Handle,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the text ends with a zero and is copied; there are no headers, so that their lists are not read.
        let code =
            unsafe { create(&raw mut program, text.as_ptr(), c"relax.cu".as_ptr(), 0, none, none) };
        if code == 0 { Ok(program) } else { Err(Error::Compile { code, log: String::new() }) }
    }

    fn run(&self, program: Handle, options: &[CString]) -> c_int {
        type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
        let Ok(compile) = self.function::<Compile>("nvrtcCompileProgram") else { return -1 };
        let list: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(list.len()).unwrap_or(0);
        // SAFETY: the program is one that was created, and the list has as many strings as it says.
        unsafe { compile(program, count, list.as_ptr()) }
    }

    /// What the library holds of a program: first asked for its size, then copied.
    fn bytes(&self, program: Handle, (size, get): (&str, &str)) -> Result<Vec<u8>, Error> {
        type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
        let (size, get) = (self.function::<Size>(size)?, self.function::<Get>(get)?);
        let mut length = 0;
        // SAFETY: the program is one that was created; the library writes one number.
        let first = unsafe { size(program, &raw mut length) };
        let mut bytes = vec![0_u8; length];
        // SAFETY: the library writes as many bytes as it said.
        let second = unsafe { get(program, bytes.as_mut_ptr().cast()) };
        match first.max(second) {
            0 => Ok(bytes),
            code => Err(Error::Compile { code, log: String::new() }),
        }
    }

    fn destroy(&self, mut program: Handle) {
        type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
        if let Ok(destroy) = self.function::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: the program is one that was created, and nobody uses it after this.
            unsafe { destroy(&raw mut program) };
        }
    }
}

fn text_of(text: &str) -> Result<CString, Error> {
    let log = "the text has a zero in it";
    CString::new(text).map_err(|_| Error::Compile { code: 0, log: log.to_owned() })
}

fn options(architecture: &str, more: &[&str]) -> Vec<CString> {
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(OPTIONS.iter().chain(more).map(|&option| option.to_owned()));
    options.into_iter().filter_map(|option| CString::new(option).ok()).collect()
}

fn load(path: &Path) -> Result<Library, Error> {
    // SAFETY: NVRTC's libraries start nothing when they are loaded.
    let library = unsafe { Library::new(path) };
    library.map_err(|error| Error::Library { path: path.to_owned(), why: error.to_string() })
}
