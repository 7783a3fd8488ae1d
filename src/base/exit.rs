//! Exit codes. Scripts rely on them: no code ever changes its meaning.

macro_rules! exits {
    ($($name:ident = $code:literal $meaning:literal;)*) => {
        /// The program's exit code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Exit { $(#[doc = $meaning] $name = $code),* }

        impl Exit {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The text in help, manual page and README.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }
        }
    };
}

exits! {
    Done = 0 "done, or nothing to do";
    Error = 1 "error";
    Usage = 2 "usage or configuration";
    Refused = 3 "some submissions were refused";
    Locked = 4 "another invocation holds the lock";
    Unreachable = 5 "Slurm cannot be reached";
    Safety = 6 "safety stop: the disk cannot be trusted, nothing was submitted";
    Unreadable = 7 "done, but something could not be read";
    TimeOut = 124 "wait: timed out";
    Interrupted = 130 "interrupted by Ctrl-C (by SIGTERM: 143) while watching or waiting; jobs keep running";
}

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }
    pub fn unless(self, is_worse: bool, worse: Self) -> Self {
        if is_worse { worse } else { self }
    }
}
