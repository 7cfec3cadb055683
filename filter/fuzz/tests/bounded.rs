//! Each fuzz target's body on its corpus, then for some seconds on mutations. A failure prints the seed and the input.
//! `LIMPET_FUZZ_SEED` repeats a run, `LIMPET_FUZZ_SECONDS` makes it longer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limpet_fuzz::{Random, TARGETS};

/// Bytes of the longest input. Envoy limits all request headers to 60 KiB.
const MAX_LEN: usize = 60 * 1024;
/// Inputs even on a slow machine.
const AT_LEAST: usize = 500;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 3, "{}: expected some inputs", folder.display());
    paths
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

const WORDS: [&[u8]; 34] = [
    b"session=",
    b"; ",
    b";",
    b"=",
    b"\"",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"0",
    b"-1",
    b"99999h",
    b"A",
    b"\\u0000",
    b"\n",
    b"~",
    b"session",
    b"EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA~",
    b"Max-Age=",
    b"; Max-Age=0",
    b"; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
    b"Thursday, 01-Jan-70 00:00:10 GMT",
    b"Thu Jan  1 00:00:00 1970",
    b"@split/",
    b"@specifier/",
    b"@destination",
    b"k3rp2x7a",
    b"&",
    b"?session=",
    b"%73ession=",
    b"//shop.example:8080",
    b"http:",
];

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let until = (at + random.below(8)).min(input.len());
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.byte(),
            2 => input.insert(at, random.byte()),
            3 => drop(input.drain(at..until)),
            4 => drop(input.splice(at..at, random.pick(&WORDS).iter().copied())),
            5 => drop(input.splice(at..until, input[at..until].repeat(2))),
            6 => {
                let other = random.pick(seeds);
                let from = random.below(other.len() + 1);
                let len = random.below(other.len() - from + 1);
                drop(input.splice(at..until, other[from..from + len].iter().copied()));
            }
            _ => input.truncate(at),
        }
    }
    input.truncate(MAX_LEN);
}

fn run(name: &str) {
    let (_, body) = TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    let corpus = corpus(name);
    for (path, input) in &corpus {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(input)));
        assert!(outcome.is_ok(), "{name} fails on {}", path.display());
    }

    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = from_environment("LIMPET_FUZZ_SEED").unwrap_or_else(|| clock.as_millis().try_into().unwrap());
    println!("{name}: LIMPET_FUZZ_SEED={seed}");
    let seconds = from_environment("LIMPET_FUZZ_SECONDS").unwrap_or(2);
    let (begin, limit) = (Instant::now(), Duration::from_secs(seconds));
    let seeds: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let mut random = Random::new(seed);
    let mut runs = 0;
    while runs < AT_LEAST || begin.elapsed() < limit {
        let mut input = match random.below(16) {
            0 => (0..random.below(200)).map(|_| random.byte()).collect(),
            _ => random.pick(&seeds).clone(),
        };
        mutate(&mut input, &seeds, &mut random);
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&input)));
        assert!(
            outcome.is_ok(),
            "{name} fails with LIMPET_FUZZ_SEED={seed} after {runs} runs on:\n{}",
            input.escape_ascii()
        );
        runs += 1;
    }
    println!("{name}: {runs} inputs in {:.1} s", begin.elapsed().as_secs_f64());
}

macro_rules! run_each {
    ($($target:ident),* $(,)?) => {
        $(
            #[test]
            fn $target() {
                run(stringify!($target));
            }
        )*

        #[test]
        fn every_target_is_run() {
            let known = TARGETS.map(|(target, _)| target);
            assert_eq!(known, [$(stringify!($target)),*]);
        }
    };
}

run_each! {
    token,
    cookie_header,
    query,
    configuration,
    keyring_document,
    wrapped_keyring,
    set_cookie,
    application,
    prefixed_request,
    route_session,
    cookie_names,
    endpoint_slices,
    http_route,
    ingress_route,
    clients,
    moves,
}

/// A body that accepts or refuses every input would find nothing.
#[test]
fn the_corpus_has_accepted_and_refused_inputs() {
    let realm = limpet_fuzz::realm();
    let tokens = corpus("token");
    assert!(
        tokens
            .iter()
            .any(|(_, text)| realm.open(text).is_ok_and(|opened| opened.key_retiring))
    );
    assert!(
        tokens
            .iter()
            .any(|(_, text)| realm.open(text).is_ok_and(|opened| opened.claims.host.is_ipv6()))
    );
    assert!(tokens.iter().any(|(_, text)| realm.open(text).is_err()));

    let fields = corpus("cookie_header");
    let has_ours = |field: &[u8]| limpet_fuzz::has_ours(field);
    assert!(fields.iter().any(|(_, field)| has_ours(field)) && fields.iter().any(|(_, field)| !has_ours(field)));

    let keyrings = corpus("wrapped_keyring");
    let opens = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let wrapped = limpet_core::keyring::wrapped::WrappedKeyring::parse(text).ok()?;
        Some(wrapped.open(&limpet_fuzz::key_encryption_key()).is_ok())
    };
    for outcome in [None, Some(false), Some(true)] {
        assert!(keyrings.iter().any(|(_, text)| opens(text) == outcome), "{outcome:?}");
    }

    let documents = corpus("keyring_document");
    let is_taken = |document: &[u8]| limpet_core::config::KeyringDocument::parse(document).is_ok();
    assert!(documents.iter().any(|(_, d)| is_taken(d)) && documents.iter().any(|(_, d)| !is_taken(d)));

    let documents = corpus("configuration");
    let is_taken = |document: &[u8]| limpet_core::Filter::from_json(document, &|_| None).is_ok();
    assert!(documents.iter().any(|(_, d)| is_taken(d)) && documents.iter().any(|(_, d)| !is_taken(d)));
}

#[test]
fn the_corpus_has_inputs_with_and_without_sessions() {
    let set_cookies = corpus("set_cookie");
    for outcome in [(false, false), (true, false), (true, true)] {
        let is_it = |field: &[u8]| limpet_fuzz::sets_and_deletes(field) == outcome;
        assert!(set_cookies.iter().any(|(_, field)| is_it(field)), "{outcome:?}");
    }
    for as_what in [0, 1] {
        for outcome in [false, true] {
            let answers = corpus("application");
            let begins = |data: &[u8]| limpet_fuzz::starts_sessions(data)[as_what] == outcome;
            assert!(answers.iter().any(|(_, data)| begins(data)), "{as_what} {outcome}");
            let requests = corpus("prefixed_request");
            let has_prefix = |field: &[u8]| limpet_fuzz::has_prefix(field)[as_what] == outcome;
            assert!(
                requests.iter().any(|(_, field)| has_prefix(field)),
                "{as_what} {outcome}"
            );
        }
    }
    let urls = corpus("query");
    for predicate in [limpet_fuzz::has_parameter, limpet_fuzz::leads_back] {
        assert!(urls.iter().any(|(_, url)| predicate(url)) && urls.iter().any(|(_, url)| !predicate(url)));
    }
    let texts = corpus("route_session");
    let is_taken = |text: &[u8]| limpet_core::RouteSession::parse(text).is_ok();
    assert!(texts.iter().any(|(_, text)| is_taken(text)) && texts.iter().any(|(_, text)| !is_taken(text)));
    let slices = corpus("endpoint_slices");
    let is_taken = |data: &[u8]| limpet_fuzz::slices(data).is_some();
    assert!(slices.iter().any(|(_, data)| is_taken(data)) && slices.iter().any(|(_, data)| !is_taken(data)));
    let lists = corpus("clients");
    let has = |data: &[u8]| limpet_fuzz::has_clients(data);
    assert!(lists.iter().any(|(_, data)| has(data)) && lists.iter().any(|(_, data)| !has(data)));
    let moves = corpus("moves");
    let names = |data: &[u8]| limpet_fuzz::names_a_backend(data);
    assert!(moves.iter().any(|(_, data)| names(data)) && moves.iter().any(|(_, data)| !names(data)));
    let names = corpus("cookie_names");
    let of_another = |data: &[u8]| limpet_fuzz::is_of_another_scope(data);
    assert!(names.iter().any(|(_, data)| of_another(data)) && names.iter().any(|(_, data)| !of_another(data)));
}
