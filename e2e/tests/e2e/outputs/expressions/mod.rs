//! The model's translations of regular expressions, in a real Envoy.

pub(crate) mod generator;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Config, Connection, Envoy, Request};
use limpet_model::expression::Expression;
use limpet_model::graph::{Action, Hostname, Listener, Match, PathMatch, Route, ValueMatch, VirtualHost};

use self::generator::{ASCII, EVERYTHING, expression};
use super::config;
use super::graphs::{graph, listener, listening, route};
use limpet_fuzz::Random;

fn answer(status: u16, matches: Match) -> Route {
    let action = Action::Respond {
        status,
        reason: String::new(),
    };
    Route {
        matches,
        ..route("", action)
    }
}

fn on_path(expression: &str) -> Match {
    Match {
        path: PathMatch::Regex(expression.to_owned()),
        ..Match::default()
    }
}

fn with_paths(expressions: &[String]) -> Result<Config> {
    let routes = expressions.iter().map(|text| answer(200, on_path(text)));
    config(&graph(routes.collect()), &[])
}

/// A refused expression stops all routes of its port.
#[tokio::test]
async fn envoy_reads_every_translation() -> Result<()> {
    let mut random = Random::seeded();
    let mut found = Vec::new();
    let mut refused = 0;
    while found.len() < 1500 {
        let pieces = if random.below(2) == 0 { &ASCII } else { &EVERYTHING };
        match Expression::parse(&expression(&mut random, pieces, 3)) {
            Ok(translated) => found.push(translated),
            Err(_) => refused += 1,
        }
    }
    ensure!(
        refused > 100,
        "the generator makes too little that is refused: {refused}"
    );
    // As large as allowed, each in another way.
    for large in [
        "a{995}",
        "(?:ab|c){0,140}",
        ".{110}",
        "(?:[^a]*b){70}",
        "(?:☺|é){110}",
        "(?:a?b*){120}",
        "(?i)(?:ß){90}",
    ] {
        let large = Expression::parse(large).map_err(anyhow::Error::msg)?;
        ensure!(large.instructions() > 600, "{large:?}");
        found.push(large);
    }
    let texts: Vec<String> = found.iter().map(|found| found.as_str().to_owned()).collect();
    let (accepted, said) = Envoy::validate(&with_paths(&texts)?).await?;
    ensure!(accepted, "{said}");
    // Envoy has a limit, and names a program's size.
    let (accepted, said) = Envoy::validate(&with_paths(&[".{1000}".to_owned()])?).await?;
    ensure!(!accepted && said.contains("max program size of 1250"), "{said}");
    Ok(())
}

/// Each expression has a host. A path gets 200 if both the expression and its translation match it, 204 if neither
/// does, and 201 or 202 if only one does.
fn compared(expressions: &[(String, String)]) -> Result<Config> {
    let host = |(number, (original, translated)): (usize, &(String, String))| {
        // A route's path cannot have both conditions.
        let original = BTreeMap::from([(":path".to_owned(), ValueMatch::Regex(original.clone()))]);
        let both = Match {
            headers: original.clone(),
            ..on_path(translated)
        };
        let only_original = Match {
            headers: original,
            ..Match::default()
        };
        VirtualHost {
            hostname: Hostname::parse(Some(&format!("e{number}.example"))),
            routes: vec![
                answer(200, both),
                answer(201, only_original),
                answer(202, on_path(translated)),
                answer(204, Match::default()),
            ],
        }
    };
    let mut http = listener("http", "", Vec::new());
    http.virtual_hosts = Listener::hosts(expressions.iter().enumerate().map(host));
    config(&listening([(80, vec![http])].into()), &[])
}

/// Characters of the expression, and some others.
fn path(random: &mut Random, expression: &str) -> String {
    let own: Vec<char> = expression
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "/-_.~&:=!,@+".contains(*c))
        .collect();
    let character = |random: &mut Random| match own.get(random.below(own.len() + 3)) {
        Some(character) => character.to_string(),
        None => (*random.pick(&["a", "b", "c", "A", "K", "k", "/", ".", "1", "_", "-", "+", "(", "*"])).to_owned(),
    };
    format!("/{}", random.some(0, 6, character).concat())
}

#[tokio::test]
async fn a_translation_matches_the_paths_of_its_expression() -> Result<()> {
    let mut random = Random::seeded();
    let mut expressions = Vec::new();
    while expressions.len() < 250 {
        let original = format!("/(?:{})", expression(&mut random, &ASCII, 2));
        if let Ok(translated) = Expression::parse(&original) {
            expressions.push((original, translated.as_str().to_owned()));
        }
    }
    let envoy = Envoy::serve(compared(&expressions)?).await?;
    let address = envoy.listener("http-80")?;
    let mut connection = Connection::open(address, false).await?;
    let mut matched = 0;
    for (number, (original, translated)) in expressions.iter().enumerate() {
        for _ in 0..12 {
            let path = path(&mut random, original);
            let request = Request::get(address, &path).header("host", format!("e{number}.example"));
            let status = connection.send(request).await?.status;
            ensure!(
                matches!(status, 200 | 204),
                "{path} is answered with {status}: {original} became {translated}"
            );
            matched += usize::from(status == 200);
        }
    }
    println!("{matched} of {} paths matched", 12 * expressions.len());
    ensure!(matched > 100, "only {matched} paths matched");
    Ok(())
}

/// Envoy's RE2 reads characters before Envoy 1.39, and bytes since then.
#[tokio::test]
async fn characters_beyond_ascii_match_alike_in_all_releases() -> Result<()> {
    let cases = [
        ("[é]", "é", true),
        ("[é]", "ü", false),
        ("[éü☺]{2}", "é☺", true),
        ("[éü☺]{2}", "é", false),
        ("é{2}", "éé", true),
        ("é{2}", "é", false),
        (r"\x{e9}", "é", true),
        (r"\x{263a}+", "☺☺", true),
        ("(?i)É", "é", true),
        ("(?i)[à-ï]", "Ë", true),
        ("(?i)k", "\u{212a}", false),
        ("[^a]+", "é☺", true),
        ("a.*b", "aé☺b", true),
        (r"\w+", "é", false),
        (r"\W+", "é", true),
        (r"[^\x00-\x7F]+", "é☺", true),
        (r"[^\x00-\x7F]+", "éa", false),
    ];
    let routes = cases.iter().enumerate().map(|(number, (text, ..))| {
        let translated = Expression::parse(text).map_err(anyhow::Error::msg)?;
        let value = ValueMatch::Regex(translated.as_str().to_owned());
        Ok(answer(
            200,
            Match {
                path: PathMatch::Exact(format!("/{number}")),
                headers: BTreeMap::from([("x-value".to_owned(), value)]),
                ..Match::default()
            },
        ))
    });
    let mut routes: Vec<Route> = routes.collect::<Result<_>>()?;
    routes.push(answer(204, Match::default()));
    let envoy = Envoy::serve(config(&graph(routes), &[])?).await?;
    for (number, (text, value, expected)) in cases.into_iter().enumerate() {
        let request = Request::get(envoy.listener("http-80")?, &format!("/{number}")).header("x-value", value);
        let status = request.send().await.context(text)?.status;
        ensure!(
            status == if expected { 200 } else { 204 },
            "{text} on {value}: {status}"
        );
    }
    Ok(())
}
