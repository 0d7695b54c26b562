//! The names of commands: the program and its subcommand.

use super::words::commands;

/// Maximum number of scripts within scripts, as of `bash -c`.
const DEPTH_MAX: usize = 4;

/// The script of `bash -lc SCRIPT` and the like.
pub(super) fn script_of(words: &[String]) -> Option<&str> {
    let (program, arguments) = words.split_first()?;
    let shells = [
        "bash",
        "sh",
        "zsh",
        "dash",
        "fish",
        "ksh",
        "pwsh",
        "powershell",
    ];
    if !shells.contains(&base_name(program)) {
        return None;
    }
    let is_flag = |word: &String| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        letters.eq_ignore_ascii_case("command")
            || letters.ends_with('c') && letters.len() <= 4 && !letters.starts_with('-')
    };
    let place = arguments.iter().position(is_flag)?;
    let are_flags = arguments[..place].iter().all(|word| word.starts_with('-'));
    let script = arguments.get(place + 1).filter(|_| are_flags)?;
    Some(script)
}

fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").unwrap_or(name)
}

pub(super) fn name_of_script(script: &str, depth: usize) -> Option<String> {
    let mut prepares = None;
    for words in commands(script) {
        let Some(name) = name_of_words(&words, depth) else {
            continue;
        };
        if !is_preparation(&name) {
            return Some(name);
        }
        prepares.get_or_insert(name);
    }
    prepares
}

/// Whether a command only prepares for the next one.
fn is_preparation(name: &str) -> bool {
    let names = [
        "cd", "pushd", "popd", "export", "set", "unset", "source", ".", "true", ":", "shopt",
        "ulimit", "umask", "sleep", "echo", "trap", "alias", "local", "declare",
    ];
    names.contains(&name)
}

pub(super) fn name_of_words(words: &[String], depth: usize) -> Option<String> {
    let words = without_prefixes(words);
    let (program, arguments) = words.split_first()?;
    if let Some(script) = script_of(words)
        && depth < DEPTH_MAX
    {
        return name_of_script(script, depth + 1);
    }
    let program = base_name(program);
    if program.is_empty() {
        return None;
    }
    let mut name = program.to_owned();
    let Some((_, more, valued)) = PROGRAMS.iter().find(|(name, ..)| *name == program) else {
        return Some(name);
    };
    let mut rest = operands(arguments, valued);
    if program.starts_with("python") {
        // The module of `python -m`.
        if let Some(place) = arguments.iter().position(|word| word == "-m")
            && let Some(module) = arguments.get(place + 1)
        {
            name = format!("{name} -m {module}");
        }
        return Some(name);
    }
    let Some(subcommand) = rest.next() else {
        return Some(name);
    };
    name = format!("{name} {subcommand}");
    if more.contains(&subcommand)
        && let Some(third) = rest.next()
    {
        name = format!("{name} {third}");
    }
    Some(name)
}

/// The programs whose first argument says what they do: their name, the subcommands that have such
/// an argument of their own, and the options before it that have a value.
const PROGRAMS: &[(&str, &[&str], &[&str])] = &[
    ("apt", &[], &["-o", "-t"]),
    ("apt-get", &[], &["-o", "-t"]),
    (
        "aws",
        &["s3", "s3api", "ec2", "ecs", "iam", "lambda", "logs", "sts"],
        &["--profile", "--region"],
    ),
    ("az", &[], &[]),
    ("brew", &[], &[]),
    ("bun", &["run", "x"], &["--cwd"]),
    ("bundle", &["exec"], &[]),
    ("bunx", &[], &[]),
    (
        "cargo",
        &[],
        &["--manifest-path", "--config", "--color", "-C"],
    ),
    ("composer", &["run", "run-script"], &[]),
    ("conda", &[], &["-n"]),
    ("deno", &["task"], &[]),
    ("docker", &["compose"], &["-H", "--context"]),
    ("docker-compose", &[], &["-f", "-p"]),
    ("dotnet", &[], &[]),
    ("flutter", &[], &[]),
    ("gcloud", &[], &["--project"]),
    (
        "gh",
        &["pr", "issue", "run", "repo", "release", "workflow"],
        &["-R", "--repo"],
    ),
    (
        "git",
        &["stash", "worktree", "submodule"],
        &["-C", "-c", "--git-dir", "--work-tree"],
    ),
    ("go", &["mod", "tool"], &["-C"]),
    ("gradle", &[], &["-p"]),
    ("gradlew", &[], &["-p"]),
    ("helm", &[], &["-n", "--namespace"]),
    ("just", &[], &["-f", "-d"]),
    (
        "kubectl",
        &[],
        &["-n", "--namespace", "--context", "--kubeconfig"],
    ),
    ("make", &[], &["-C", "-f", "-j"]),
    ("mise", &["run"], &[]),
    ("mix", &[], &[]),
    ("mvn", &[], &["-f", "-pl"]),
    ("mvnw", &[], &["-f", "-pl"]),
    (
        "npm",
        &["run", "run-script", "exec"],
        &["--prefix", "-w", "--workspace"],
    ),
    ("npx", &[], &["-p", "--package"]),
    ("nx", &["run"], &[]),
    ("pip", &[], &[]),
    ("pip3", &[], &[]),
    ("pipx", &["run"], &[]),
    (
        "pnpm",
        &["run", "exec", "dlx"],
        &["--filter", "-F", "-C", "--dir"],
    ),
    ("podman", &["compose"], &[]),
    ("poetry", &["run"], &["-C"]),
    ("python", &[], &[]),
    ("python3", &[], &[]),
    ("rails", &[], &[]),
    ("rake", &[], &[]),
    ("rustup", &[], &[]),
    ("swift", &[], &[]),
    ("systemctl", &[], &["-t"]),
    ("terraform", &[], &[]),
    ("turbo", &["run"], &[]),
    ("uv", &["run", "pip", "tool"], &["--directory", "--project"]),
    ("uvx", &[], &[]),
    ("yarn", &["run", "workspace"], &["--cwd"]),
];

/// The arguments that are no options and not the values of these options.
fn operands<'w>(words: &'w [String], valued: &'w [&str]) -> impl Iterator<Item = &'w str> {
    let mut words = words.iter().map(String::as_str);
    std::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            if valued.contains(&word) {
                words.next();
            } else if !word.is_empty() && !word.starts_with(['-', '+']) {
                return Some(word);
            }
        }
    })
}

/// The words from the program on: without assignments, and without programs that run another one.
fn without_prefixes(mut words: &[String]) -> &[String] {
    loop {
        let Some((word, rest)) = words.split_first() else {
            return words;
        };
        if is_assignment(word)
            || ["!", "{", "(", "then", "do", "else", "if", "while"].contains(&word.as_str())
        {
            words = rest;
            continue;
        }
        // The options with a value, and the number of operands before the program.
        let (valued, operands): (&[&str], usize) = match base_name(word) {
            "sudo" | "doas" => (&["-u", "-g", "-h", "-p"], 0),
            "env" => (&["-u", "-C", "-S"], 0),
            "timeout" | "gtimeout" => (&["-k", "-s", "--signal", "--kill-after"], 1),
            "nice" => (&["-n"], 0),
            "ionice" => (&["-c", "-n"], 0),
            "time" | "nohup" | "setsid" | "command" | "exec" | "builtin" | "unbuffer" => (&[], 0),
            "stdbuf" => (&["-i", "-o", "-e"], 0),
            "xvfb-run" => (&["-s", "-n"], 0),
            _ => return words,
        };
        let Some(rest) = after_options(rest, valued)
            .get(operands..)
            .filter(|rest| !rest.is_empty())
        else {
            return words;
        };
        words = rest;
    }
}

fn after_options<'w>(mut words: &'w [String], valued: &[&str]) -> &'w [String] {
    while let Some((word, rest)) = words.split_first() {
        words = match word.as_str() {
            "--" => return rest,
            word if valued.contains(&word) => rest.get(1..).unwrap_or_default(),
            word if word.starts_with('-') && word.len() > 1 => rest,
            _ => return words,
        };
    }
    words
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
