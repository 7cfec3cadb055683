//! The choice of a cluster for a request of a split route.

use crate::config::schema::SpecifierConfig;
use crate::config::{self, ConfigError, Problem};
use crate::token::DestinationId;

/// The clusters of a split route, chosen by destination, else by weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specifier {
    clusters: Vec<WeightedCluster>,
    /// The sum of all weights, more than 0.
    total: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WeightedCluster {
    name: String,
    weight: u32,
    /// The [`crate::token::Destination`] as text.
    destination: String,
}

impl Specifier {
    /// Reads the configuration of a cluster specifier from JSON.
    ///
    /// # Errors
    /// If it is invalid, with each wrong field.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        Self::new(&config::read(json, "configuration")?)
    }

    /// Takes in a configuration.
    ///
    /// # Errors
    /// If it is invalid, with each wrong field.
    pub fn new(config: &SpecifierConfig) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut problem = |field: String, message: &str| {
            let message = message.to_owned();
            problems.push(Problem { field, message });
        };
        let weights = config.destinations.iter().map(|destination| destination.weight);
        let total = weights.fold(0, |total, weight| total + u64::from(weight));
        let in_range = u32::try_from(total).ok().filter(|total| *total > 0);
        if config.destinations.is_empty() {
            problem("destinations".to_owned(), "expected at least one cluster");
        } else if in_range.is_none() {
            problem(
                "destinations".to_owned(),
                &format!("expected weights whose sum is 1 to 4294967295, found {total}"),
            );
        }
        let mut clusters: Vec<WeightedCluster> = Vec::new();
        for (index, destination) in config.destinations.iter().enumerate() {
            let field = || format!("destinations[{index}].cluster");
            let name = &destination.cluster;
            let hash = DestinationId::of_cluster(name.as_bytes()).to_string();
            if name.is_empty() {
                problem(field(), "expected the name of a cluster");
            } else if let Some(other) = clusters.iter().find(|other| other.destination == hash) {
                let other = &other.name;
                problem(
                    field(),
                    &format!("expected a cluster that tokens can tell from {other}, found {name}"),
                );
            }
            clusters.push(WeightedCluster {
                name: name.clone(),
                weight: destination.weight,
                destination: hash,
            });
        }
        match in_range {
            Some(total) if problems.is_empty() => Ok(Self { clusters, total }),
            _ => Err(ConfigError { problems }),
        }
    }

    /// The names of its clusters.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().map(|cluster| cluster.name.as_str())
    }

    /// The cluster for a request, by [`crate::envoy::DESTINATION_KEY`]. Equal `random` numbers make equal choices.
    #[must_use]
    pub fn choose(&self, destination: Option<&[u8]>, random: u64) -> &str {
        let said = destination.and_then(|said| {
            let mut clusters = self.clusters.iter();
            clusters.find(|cluster| cluster.destination.as_bytes() == said)
        });
        said.map_or_else(|| self.by_weight(random), |cluster| &cluster.name)
    }

    fn by_weight(&self, random: u64) -> &str {
        let mut rest = random % u64::from(self.total.max(1));
        for cluster in &self.clusters {
            let weight = u64::from(cluster.weight);
            if rest < weight {
                return &cluster.name;
            }
            rest -= weight;
        }
        // Not reached: the rest is less than the total.
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specifier(destinations: &[(&str, u32)]) -> Result<Specifier, String> {
        let destinations = destinations.iter().map(|(cluster, weight)| {
            let cluster = (*cluster).to_owned();
            crate::config::schema::SpecifierDestinationConfig {
                cluster,
                weight: *weight,
            }
        });
        let destinations = destinations.collect();
        Specifier::new(&SpecifierConfig { destinations }).map_err(|error| error.to_string())
    }

    fn hash(cluster: &str) -> String {
        DestinationId::of_cluster(cluster.as_bytes()).to_string()
    }

    #[test]
    fn weights_choose_where_nothing_is_said() {
        let split = specifier(&[("v1", 2), ("v2", 0), ("v3", 1)]).unwrap();
        let chosen: Vec<&str> = (0..6).map(|random| split.choose(None, random)).collect();
        assert_eq!(chosen, ["v1", "v1", "v3", "v1", "v1", "v3"]);
        assert!(["v1", "v3"].contains(&split.choose(None, u64::MAX)));
    }

    #[test]
    fn what_the_filter_says_comes_before_the_weights() {
        let split = specifier(&[("v1", 1), ("v2#ab", 0)]).unwrap();
        let said = |destination: &str| split.choose(Some(destination.as_bytes()), 7).to_owned();
        assert_eq!(said(&hash("v2")), "v2#ab");
        assert_eq!(said(&hash("v2#cd")), "v2#ab");
        for unknown in [hash("v3").as_str(), "", "v2", "v2#ab"] {
            assert_eq!(said(unknown), "v1", "{unknown}");
        }
    }

    #[test]
    fn a_mistake_names_its_field() {
        for (destinations, error) in [
            (&[][..], "destinations: expected at least one cluster"),
            (
                &[("v1", 0), ("v2", 0)],
                "destinations: expected weights whose sum is 1 to 4294967295, found 0",
            ),
            (
                &[("v1", u32::MAX), ("v2", 1)],
                "destinations: expected weights whose sum is 1 to 4294967295, found 4294967296",
            ),
            (
                &[("v1", 1), ("", 1)],
                "destinations[1].cluster: expected the name of a cluster",
            ),
            (
                &[("v1#a", 1), ("v2", 1), ("v1#b", 1)],
                "destinations[2].cluster: expected a cluster that tokens can tell from v1#a, found v1#b",
            ),
        ] {
            assert_eq!(specifier(destinations), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_document_of_another_shape_names_its_field() {
        for (json, error) in [
            ("", "configuration: "),
            ("{}", "configuration: missing field `destinations`"),
            (
                r#"{"destinations": [{"cluster": "v1"}]}"#,
                "destinations[0]: missing field `weight`",
            ),
            (
                r#"{"destinations": [{"cluster": "v1", "weight": "1"}]}"#,
                "destinations[0].weight: invalid type",
            ),
            (
                r#"{"destinations": [{"cluster": "v1", "weight": 1}], "policy": "web"}"#,
                "policy: unknown field",
            ),
        ] {
            let found = Specifier::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
