//! `limpet render` on the command line.

use std::path::Path;

use serde_json::{Value, json};

use super::{RenderResult, render, static_file, xds_folder};
use crate::cluster::cli::RenderArgs;
use crate::cluster::config::Config;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, write_file};
use limpet_api::ObjectName;
use limpet_core::config::schema::{KeyConfig, KeyStateConfig};
use limpet_outputs::{FilterInputs, FilterKeys};
use limpet_resources::{Resource, ResourceType};

/// The controller's, where the configuration does not name it.
const NAMESPACE: &str = "limpet-system";

pub(crate) fn run(args: &RenderArgs, format: Output) -> Result<CommandVerdict, CommandFailure> {
    let mut config = match &args.config {
        Some(file) => Config::read(file, args.target)?,
        None => Config::default(),
    };
    let namespace = config.leader_election.namespace.clone();
    config.complete(namespace.as_deref().unwrap_or(NAMESPACE));
    let inputs = filter_inputs(args, &config);
    let settings = config.settings(args.target);
    let plane = config.control_plane(args.target);
    if args.write_deployments.is_some() && plane.is_none() && settings.managed.is_none() {
        return Err(CommandFailure(
            "--write-deployments needs `envoy.managed` in --config".to_owned(),
        ));
    }
    let rendered = render(&args.files, &settings, &config.envoy, plane.as_ref(), &inputs);
    let mut rendered = rendered.map_err(|error| CommandFailure(error.0))?;
    if let Some(release) = args.gateway_api {
        rendered = rendered.in_release(release);
    }
    if plane.is_some() {
        for option in [
            ("--write-envoy", &args.write_envoy),
            ("--write-xds", &args.write_xds),
            ("--write-deployments", &args.write_deployments),
        ] {
            if let (name, Some(_)) = option {
                return Err(CommandFailure(format!("{name}: expected it only with --target envoy")));
            }
        }
        output::print_exactly(&objects(&rendered.objects, format)?)?;
        output::print_error(&text(&rendered.report(), format)?);
        return Ok(verdict(&rendered));
    }
    write_files(args, &rendered, format)?;
    output::print(&text(&rendered.report(), format)?)?;
    Ok(verdict(&rendered))
}

fn filter_inputs(args: &RenderArgs, config: &Config) -> FilterInputs {
    // No cluster keeps a keyring, so the key comes from Envoy's environment.
    let key = KeyConfig {
        id: 1,
        env: Some(args.key_env.clone()),
        inline: None,
        state: KeyStateConfig::Signing,
    };
    FilterInputs {
        max_idle: config.max_idle(),
        clock_skew: config.clock_skew,
        ..FilterInputs::with_keys(FilterKeys::Listed(vec![key]))
    }
}

/// Writes the files that the arguments ask for.
fn write_files(args: &RenderArgs, rendered: &RenderResult, format: Output) -> Result<(), CommandFailure> {
    if let Some(file) = &args.write_envoy {
        let (_, resources) = gateway(rendered, args.gateway.as_deref())?;
        let secret = resources
            .iter()
            .any(|resource| resource.resource_type() == ResourceType::Secret);
        let text = text(&static_file(resources, args.admin_port)?, format)?;
        write_file(Path::new(file), &text, secret)?;
    }
    if let Some(folder) = &args.write_xds {
        let (gateway, resources) = gateway(rendered, args.gateway.as_deref())?;
        let folder = std::path::absolute(folder).map_err(|error| CommandFailure(format!("{folder}: {error}")))?;
        for (file, value) in xds_folder(gateway, resources, &folder, args.admin_port)? {
            let secret = file.starts_with("sds");
            write_file(&folder.join(file), &output::yaml(&value)?, secret)?;
        }
    }
    if let Some(file) = &args.write_deployments {
        write_file(Path::new(file), &objects(&rendered.envoys, format)?, false)?;
    }
    Ok(())
}

fn verdict(rendered: &RenderResult) -> CommandVerdict {
    if !rendered.has_no_error() {
        CommandVerdict::Bad
    } else if rendered.serves_nothing() {
        CommandVerdict::Warned
    } else {
        CommandVerdict::Good
    }
}

/// In the forms that kubectl reads: a stream of documents, or a list.
fn objects(objects: &[Value], format: Output) -> Result<String, CommandFailure> {
    match format {
        Output::Document(format) => {
            output::document(format, &json!({"apiVersion": "v1", "kind": "List", "items": objects}))
        }
        Output::Text { .. } => {
            let documents = objects.iter().map(output::yaml);
            documents
                .map(|document| document.map(|text| format!("---\n{text}")))
                .collect()
        }
    }
}

/// The Gateway of `--gateway`, or the only one.
fn gateway<'a>(
    rendered: &'a RenderResult,
    wanted: Option<&str>,
) -> Result<(&'a ObjectName, &'a [Resource]), CommandFailure> {
    let mut found = rendered
        .resources
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|wanted| name.to_string() == wanted));
    let one = found.next();
    let names = || {
        rendered
            .resources
            .keys()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (one, found.next(), wanted) {
        (Some((name, resources)), None, _) => Ok((name, resources)),
        (None, _, None) => Err(CommandFailure(
            "expected a Gateway that is served, found none: the report says why".to_owned(),
        )),
        (None, _, Some(wanted)) => Err(CommandFailure(format!(
            "--gateway: expected one that is served ({}), found {wanted}",
            names()
        ))),
        (Some(_), Some(_), _) => Err(CommandFailure(format!(
            "--gateway: expected it, since there are several: {}",
            names()
        ))),
    }
}

/// The text format is YAML.
fn text(value: &Value, format: Output) -> Result<String, CommandFailure> {
    match format {
        Output::Document(format) => output::document(format, value),
        Output::Text { .. } => output::yaml(value),
    }
}
