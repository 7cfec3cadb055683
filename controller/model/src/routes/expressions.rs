//! The regular expressions of one route, and its limits at Envoy and in every build.
//!
//! RE2's time grows with the length of a value and the size of its program, so the sizes of all expressions together
//! bound the cost of a request.

use std::collections::BTreeSet;

use crate::expression::Expression;
use crate::field_problem::FieldProblem;
use crate::graph::Match;

use super::cors;
use super::rule::RuleInput;

/// The Gateway API allows 16.
const MOST_RULES: usize = 64;
/// The Gateway API allows 128 in all rules together.
const MOST_MATCHES: usize = 4096;
const MOST_EXPRESSIONS: usize = 128;
const MOST_BYTES: usize = 32 << 10;
const MOST_INSTRUCTIONS: u32 = 4000;

#[derive(Debug, Default)]
pub(super) struct Expressions {
    matches: usize,
    count: usize,
    bytes: usize,
    instructions: u32,
    exceeded: Option<FieldProblem>,
}

impl Expressions {
    /// If rules exceed the budget together, each is refused, because the author has to say which is too much.
    pub(super) fn rules<'a, R>(
        rules: &'a [R],
        mut read: impl FnMut(&mut Self, usize, &'a R) -> RuleInput<'a>,
    ) -> Vec<RuleInput<'a>> {
        let mut expressions = Self::default();
        if rules.len() > MOST_RULES {
            expressions.exceed("rules", MOST_RULES, rules.len());
        }
        let read = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| read(&mut expressions, index, rule));
        let mut rules: Vec<RuleInput<'_>> = read.collect();
        expressions.count_origins(&rules);
        if let Some(problem) = expressions.exceeded {
            for rule in &mut rules {
                rule.matches = Err(problem.clone());
                rule.otherwise.clear();
            }
            if let Some(first) = rules.first_mut() {
                first.otherwise.push(Match::default());
            }
        }
        rules
    }

    pub(super) fn count_matches(&mut self, count: usize) {
        self.matches = self.matches.saturating_add(count);
        if self.matches > MOST_MATCHES {
            self.exceed("matches", MOST_MATCHES, self.matches);
        }
    }

    /// Counts the origins of CORS filters that become expressions, equal ones once.
    fn count_origins(&mut self, rules: &[RuleInput<'_>]) {
        let filters = rules.iter().flat_map(|rule| rule.filters);
        let origins = filters
            .filter_map(|filter| filter.cors.as_ref())
            .flat_map(|cors| &cors.allow_origins);
        let origins: BTreeSet<String> = origins.filter_map(|origin| cors::expression(origin)).collect();
        for origin in &origins {
            // The filter reports its problems.
            let _ = self.expression("", origin);
        }
    }

    /// Translates the expression for Envoy.
    pub(super) fn read(&mut self, field: &str, text: &str) -> Result<String, FieldProblem> {
        self.expression(field, text)
            .map(|expression| expression.as_str().to_owned())
    }

    pub(super) fn read_part(&mut self, field: &str, text: &str) -> Result<String, FieldProblem> {
        self.expression(field, text).map(|expression| expression.as_part())
    }

    fn expression(&mut self, field: &str, text: &str) -> Result<Expression, FieldProblem> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.count > MOST_EXPRESSIONS {
            self.exceed("regular expressions", MOST_EXPRESSIONS, self.count);
        }
        if self.bytes > MOST_BYTES {
            self.exceed("bytes in its regular expressions", MOST_BYTES, self.bytes);
        }
        // Nothing more is read of a route that is refused anyhow.
        if let Some(problem) = &self.exceeded {
            return Err(problem.clone());
        }
        let expression = Expression::parse(text).map_err(|message| FieldProblem {
            field: field.to_owned(),
            message,
        })?;
        self.instructions = self.instructions.saturating_add(expression.instructions());
        if self.instructions > MOST_INSTRUCTIONS {
            let what = "instructions in the programs of its regular expressions";
            self.exceed(what, MOST_INSTRUCTIONS, self.instructions);
        }
        Ok(expression)
    }

    fn exceed(&mut self, what: &str, most: impl std::fmt::Display, found: impl std::fmt::Display) {
        self.exceeded.get_or_insert_with(|| FieldProblem {
            field: "spec.rules".to_owned(),
            message: format!("expected at most {most} {what} in a route, found at least {found}"),
        });
    }
}
